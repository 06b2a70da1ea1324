/* Fuzz target: the reader of JSON texts. Asserted: every member is found by its key, places and counts
 * of children agree, an error has a sentence, and all bytes come back to the budget. */
#include "text/json_read.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct json *j)
{
    char place[64];
    for (uint32_t v = 0; v < j->n_values; v++) {
        const struct json_value *x = &j->values[v], *parent = &j->values[x->parent];
        uint32_t n = 0;
        for (uint32_t child = x->first; child; child = j->values[child].next) {
            assert(child > v && j->values[child].parent == v);
            assert(j->values[child].index == n++);
        }
        assert(n == x->n_children);
        assert(!n || x->type == JSON_ARRAY || x->type == JSON_OBJECT);
        if (v && parent->type == JSON_OBJECT)
            assert(json_find(j, x->parent, j->text + x->key, x->n_key) == v);
        json_place(j, v, place, sizeof place);
        assert(place[0] == '#' && strlen(place) < sizeof place);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct budget all = {.bytes = (size_t)1 << 20, .steps = 100000};
    struct budget b = all;
    struct tern_error e = {0};
    struct json j;
    enum tern_status s = json_read(&j, (const char *)data, size, "fuzz", &b, &e);
    if (!s)
        check(&j);
    assert(!s || (e.code == s && strlen(e.text) > 8));
    json_close(&j);
    assert(b.bytes == all.bytes);
    return 0;
}
