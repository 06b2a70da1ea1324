/* Forced runs: see forced.h. */
#include "sample/constraint/forced.h"

#include "text/tokenizer.h"
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

/* Of a run and a token before it, behind a line break */
enum { FORCED_IDS = FORCED_BYTES + VOCAB_TOKEN_MAX + 8 };

enum forced forced_next(const struct recognizer *r, struct track *t, const struct place *p,
                        unsigned char *byte)
{
    uint64_t set[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    enum forced found = FORCED_NONE;
    if (r->first)
        r->first(r->self, t, p, set);
    for (unsigned b = 0; b < 256; b++) {
        if (!(set[b / 64] >> b % 64 & 1))
            continue;
        struct place next = *p;
        enum step step = r->step(r->self, t, &next, (unsigned char)b);
        if (step == STEP_NO_ROOM)
            return FORCED_NO_ROOM;
        if (step == STEP_DEAD)
            continue;
        if (found)
            return FORCED_SEVERAL;
        *byte = (unsigned char)b, found = FORCED_ONE;
    }
    return found;
}

/* A run, with the last token's bytes before it */
struct forced_run {
    const struct spelling *spelling;
    unsigned char *text; /* [before + n] */
    uint32_t before, n;
    bool over;       /* nothing can follow it */
    tern_token last; /* or -1 */
};

static void find_run(tern_constraint_state *s, struct forced_run *x)
{
    const struct recognizer *r = &s->form->recognizer;
    struct track *t = &s->track;
    struct place p = s->places[s->n_tokens];
    enum forced next = FORCED_ONE;
    masks_begin(s->form->masks, t);
    for (x->n = 0; x->n < FORCED_BYTES && !r->accepts(r->self, t, &p);) {
        unsigned char byte;
        next = forced_next(r, t, &p, &byte);
        if (next != FORCED_ONE || r->step(r->self, t, &p, byte) != STEP_ALIVE)
            break;
        x->text[x->before + x->n++] = byte;
    }
    unsigned char unused;
    x->over = r->accepts(r->self, t, &p) && forced_next(r, t, &p, &unused) == FORCED_NONE;
}

/* False: it is late. */
static bool search(tern_constraint_state *s, struct forced_run *x)
{
    if (!constraint_state_begin_call(s))
        return false;
    do
        find_run(s, x);
    while (s->form->budget.is_empty && constraint_state_renew(s));
    constraint_state_end_search(s);
    return !s->is_late;
}

/* The special token whose name begins at text[0..n), and the bytes that it takes: the longest; -1: none */
static tern_token special_at(const struct spelling *s, const unsigned char *text, uint32_t n,
                             uint32_t *taken)
{
    const struct token_node *nodes = s->tree.nodes;
    tern_token found = -1;
    uint32_t depth = 0, end = nodes[0].size;
    for (uint32_t i = 1; i < end && depth < n;) {
        const struct token_node *x = &nodes[i];
        if (x->byte != text[depth]) {
            i += x->size;
            continue;
        }
        depth++;
        if (x[1].first > x->first)
            found = s->tree.tokens[x->first], *taken = depth;
        end = i + x->size;
        i++;
    }
    return found;
}

/* Ids that spell a line break, with or without a space before it, at the beginning of ids[0..n); n: none do */
static size_t ids_of_break(const struct spelling *s, const tern_token *ids, size_t n)
{
    bool space = false;
    for (size_t i = 0; i < n; i++) {
        uint32_t length;
        const unsigned char *p = spelling_of(s, ids[i], &length);
        if (length && *p == ' ' && !space)
            space = true, p++, length--;
        if (length)
            return length == 1 && *p == '\n' ? i + 1 : n;
    }
    return n;
}

/* The ids of p[0..n) as the middle of a text: where the tokenizer writes something before a text, what it
 * makes of p behind a line break. */
static enum tern_status encode(const struct spelling *s, const unsigned char *p, size_t n,
                               tern_token *ids, size_t max, size_t *n_ids, struct tern_error *e)
{
    uint32_t length;
    *n_ids = 0;
    if (!n)
        return TERN_OK;
    enum tern_status status =
        tokenizer_encode(s->tokenizer, (const char *)p, n, TOKENIZER_CONTINUES, ids, max, n_ids, e);
    if (status || *n_ids > max || !*n_ids)
        return *n_ids = 0, status;
    const unsigned char *text = spelling_of(s, ids[0], &length);
    if (length <= n && memcmp(text, p, length) == 0)
        return TERN_OK;
    char *behind = malloc(n + 1);
    if (!behind)
        return error_memory(e, "forced tokens", n + 1);
    behind[0] = '\n';
    memcpy(behind + 1, p, n);
    status = tokenizer_encode(s->tokenizer, behind, n + 1, TOKENIZER_CONTINUES, ids, max, n_ids, e);
    free(behind);
    if (status || *n_ids > max)
        return *n_ids = 0, status;
    size_t skip = ids_of_break(s, ids, *n_ids);
    memmove(ids, ids + skip, (*n_ids -= skip) * sizeof *ids);
    return TERN_OK;
}

/* The ids of text[at..): pieces between special tokens are encoded by themselves. */
static enum tern_status encode_run(const struct forced_run *x, uint32_t at, tern_token *ids,
                                   size_t max, size_t *n, struct tern_error *e)
{
    const unsigned char *end = x->text + x->before + x->n, *p = x->text + at;
    enum tern_status status = TERN_OK;
    *n = 0;
    while (p < end && !status && *n < max) {
        const unsigned char *mark = memchr(p, SPELLING_SPECIAL, (size_t)(end - p));
        size_t more, plain = (size_t)((mark ? mark : end) - p);
        status = encode(x->spelling, p, plain, ids + *n, max - *n, &more, e);
        *n += more, p += plain;
        uint32_t taken = 0;
        tern_token special =
            mark ? special_at(x->spelling, mark, (uint32_t)(end - mark), &taken) : -1;
        if (special < 0 || *n == max)
            break;
        ids[(*n)++] = special;
        p += taken;
    }
    return status;
}

/* How many of the ids spell the beginning of the run, as whole tokens; *bytes of it */
static size_t spelled(const struct forced_run *x, const tern_token *ids, size_t n, uint32_t *bytes)
{
    size_t i = 0;
    for (*bytes = 0; i < n; i++) {
        uint32_t length;
        const unsigned char *p = spelling_of(x->spelling, ids[i], &length);
        if (!length || length > x->n - *bytes ||
            memcmp(p, x->text + x->before + *bytes, length) != 0)
            break;
        *bytes += length;
    }
    return i;
}

static enum tern_status tokens_of_run(const struct forced_run *x, tern_token *ids, size_t *n,
                                      struct tern_error *e)
{
    const size_t max = FORCED_IDS;
    uint32_t bytes;
    enum tern_status status = TERN_OK;
    size_t k = 0;
    if (x->before)
        status = encode_run(x, 0, ids, max, &k, e);
    if (!status && k && ids[0] == x->last)
        memmove(ids, ids + 1, --k * sizeof *ids);
    else if (!status)
        status = encode_run(x, x->before, ids, max, &k, e);
    *n = spelled(x, ids, k, &bytes);
    if (*n && *n == k && !(x->over && bytes == x->n))
        --*n;
    return status;
}

enum tern_status forced_tokens(tern_constraint_state *s, tern_token *tokens, size_t max, size_t *n,
                               struct tern_error *e)
{
    const tern_constraint *c = s->constraint;
    struct forced_run x = {.spelling = c->spelling, .last = constraint_state_last(s)};
    const unsigned char *before = NULL;
    *n = 0;
    if (s->over)
        return TERN_OK;
    if (x.last >= 0)
        before = spelling_of(c->spelling, x.last, &x.before);
    if (x.before && *before == SPELLING_SPECIAL)
        x.before = 0;
    x.text = malloc(x.before + (size_t)FORCED_BYTES);
    tern_token *ids = malloc(FORCED_IDS * sizeof *ids);
    enum tern_status status = TERN_OK;
    if (x.text && ids) {
        if (x.before)
            memcpy(x.text, before, x.before);
        if (search(s, &x) && (x.n > 1 || (x.n && x.over)))
            status = tokens_of_run(&x, ids, n, e);
        if (*n > max)
            *n = max;
        memcpy(tokens, ids, *n * sizeof *ids);
    } else {
        status = error_memory(e, "forced tokens", FORCED_BYTES * sizeof *ids);
    }
    free(x.text);
    free(ids);
    return status;
}
