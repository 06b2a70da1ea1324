/* ldflags: -Wl,@tests/support/allocs.ld */
/* Fuzz target: grammars. The input is a grammar, a 0 byte, and bytes to walk along; a byte that nothing
 * follows is left out. Asserted: no place is a dead end; what the set of first bytes and the word say is
 * what a step does; older places stay good, and so does what is kept of the track; all memory and the
 * whole budget come back. */
#include "allocs.h"
#include "sample/recognize/gbnf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 1 << 20, STEPS = 4000, WALK = 100 };

/* Some byte leads on, or the text may end here. */
static void check_place(const struct recognizer *r, struct track *t, const struct place *p)
{
    uint64_t set[4];
    bool in_string, goes_on = false;
    const lang word = r->word(r->self, t, p, 128, &in_string);
    r->first(r->self, t, p, set);
    for (unsigned byte = 0; byte < 256 && !goes_on; byte++) {
        struct place next = *p;
        if (!(set[byte >> 6] >> (byte & 63) & 1))
            continue;
        const enum step s = r->step(r->self, t, &next, (unsigned char)byte);
        if (s == STEP_NO_ROOM)
            return;
        assert(s == STEP_ALIVE);
        goes_on = true;
    }
    assert(goes_on || r->accepts(r->self, t, p));
    assert(goes_on || word == LANG_NONE);
}

static void walk(const struct recognizer *r, const uint8_t *data, size_t size)
{
    struct track t = {.limit = BYTES}, kept = {.limit = BYTES};
    struct place p, old;
    enum step s = r->begin(r->self, &t, &p);
    for (size_t i = 0; i < size && i < WALK && s != STEP_NO_ROOM; i++) {
        check_place(r, &t, &p);
        const uint64_t signature = r->signature(r->self, &t, &p);
        old = p;
        s = r->step(r->self, &t, &p, data[i]);
        assert(r->signature(r->self, &t, &old) == signature);
        struct place both[2] = {old, p};
        if (s == STEP_ALIVE && data[i] % 4 == 0 &&
            r->compact(r->self, &t, &kept, both, 2) == STEP_ALIVE) {
            assert(r->signature(r->self, &kept, both) == signature);
            assert(both[1].used <= p.used);
            struct track other = t;
            t = kept, kept = other, p = both[1];
        }
    }
    free(t.bytes);
    free(kept.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size;
    struct budget b = {.bytes = BYTES, .steps = STEPS};
    struct tern_error e;
    struct recognizer r;
    char *text = malloc(n + 1); /* exact, so that a read beyond is seen */
    memcpy(text, data, n);
    allocs_start(0, 0);
    const enum tern_status s = gbnf_open(&r, text, n, NULL, &b, &e);
    assert(s == TERN_OK || s == TERN_USAGE || s == TERN_LIMIT);
    if (!s) {
        b.steps = STEPS;
        walk(&r, data + n + 1, zero ? size - n - 1 : 0);
        r.close(r.self);
    }
    assert(b.bytes == BYTES && !allocs_live());
    free(text);
    return 0;
}
