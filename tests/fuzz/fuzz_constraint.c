/* Fuzzes a text's way through a constraint: a byte of the input chooses the constraint, the others say what
 * happens next: a token of the mask is accepted, one out of it refused, some are taken back, the state is
 * copied, forced tokens are put in. Asserted: a token is accepted exactly if its bit is set, there is always one
 * until the text is over, what was taken back comes again with the same mask, and a copy goes on alike. */
#include "tern.h"
#include "toy.h"
#include "vocabulary.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    enum tern_constraint_kind kind;
    const char *text;
    unsigned flags;
} cases[] = {
    {TERN_CONSTRAINT_JSON, "", 0},
    {TERN_CONSTRAINT_JSON, "", TERN_CONSTRAINT_COMPACT},
    {TERN_CONSTRAINT_REGEX, "(the |a |[0-9]+,){2,9}[^x]*x?", 0},
    {TERN_CONSTRAINT_CHOICE, "yes|no|the|then|", 0},
    {TERN_CONSTRAINT_GRAMMAR, "root ::= \"(\" root \")\" | [a-z]+ (\" \" root)?", 0},
    {TERN_CONSTRAINT_SCHEMA, "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":"
                             "\"number\",\"minimum\":-3.5,\"maximum\":1e3},\"l\":{\"items\":{\"$ref\":\"#/$defs/n\"}}}}}}", 0},
    {TERN_CONSTRAINT_SCHEMA, "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":[\"string\",\"integer\"],"
                             "\"maxLength\":3,\"maximum\":9,\"minimum\":0}}", 0},
    {TERN_CONSTRAINT_SCHEMA, "{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"type\":\"integer\"},\"e$\":{\"enum\":[1,"
                             "null,\"x\"]}},\"maxProperties\":5,\"required\":[\"the\"]}", TERN_CONSTRAINT_ANY_ORDER},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static tern_model *model;
static struct tern_model_info info;
static tern_constraint *constraints[N_CASES];

static void must(enum tern_status s, const struct tern_error *e)
{
    if (!s)
        return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

static void open_all(void)
{
    struct vocabulary v;
    struct toy toy = toy_default();
    struct tern_error e;
    char path[200];
    vocabulary_open(&v, "llama3");
    toy.n_layers = 1, toy.tokenizer = v.section, toy.tokenizer_bytes = v.section_bytes;
    toy.vocab = v.tokens.n;
    toy_path(path, sizeof path, "constraint");
    must(toy_write(path, &toy, &e), &e);
    vocabulary_close(&v);
    must(tern_model_open(&model, path, &(struct tern_model_params){.n_threads = 1}, &e), &e);
    unlink(path);
    tern_model_info(model, &info);
    for (int i = 0; i < N_CASES; i++) {
        struct tern_constraint_params p = {.kind = cases[i].kind, .text = cases[i].text};
        p.bytes = strlen(p.text), p.flags = cases[i].flags;
        must(tern_constraint_open(&constraints[i], model, &p, &e), &e);
    }
}

static const uint32_t *mask_of(tern_constraint_state *s)
{
    struct tern_error e;
    const uint32_t *mask;
    must(tern_constraint_mask(s, &mask, &e), &e);
    return mask;
}

/* The first token from `from` on, around, whose bit is `set`; -1: there is none */
static tern_token find(const uint32_t *mask, uint32_t from, bool set)
{
    const uint32_t n = (uint32_t)info.vocab, flip = set ? 0 : UINT32_MAX;
    for (uint32_t i = 0, t = from % n; i < n;) {
        uint32_t word = (mask[t / 32] ^ flip) >> t % 32, skipped = word ? 0 : 32 - t % 32;
        for (; word && !(word & 1); word >>= 1)
            skipped++;
        i += skipped, t += skipped;
        if (word && t < n && i < n)
            return (tern_token)t;
        i -= t >= n ? t - n : 0, t = t >= n ? 0 : t;
    }
    return -1;
}

static void go_back(tern_constraint_state *s, size_t n)
{
    const size_t bytes = (info.vocab + 31) / 32 * 4;
    uint32_t *before = malloc(bytes);
    struct tern_error e;
    tern_token walked[8];
    size_t k = 0;
    assert(before);
    memcpy(before, mask_of(s), bytes);
    for (; k < n; k++) {
        if ((walked[k] = find(mask_of(s), (uint32_t)(31 * k), true)) < 0)
            break;
        must(tern_constraint_accept(s, walked[k], &e), &e);
    }
    assert(tern_constraint_rollback(s, k) == k);
    assert(!memcmp(before, mask_of(s), bytes));
    free(before);
}

static void put_in(tern_constraint_state *s)
{
    struct tern_error e;
    tern_token tokens[64];
    size_t n;
    must(tern_constraint_forced(s, tokens, 64, &n, &e), &e);
    for (size_t i = 0; i < n; i++)
        must(tern_constraint_accept(s, tokens[i], &e), &e);
}

static void take(tern_constraint_state *s, tern_constraint_state *other, uint32_t at, bool *over)
{
    struct tern_error e;
    const uint32_t *mask = mask_of(s);
    tern_token good = find(mask, at, true), bad = find(mask, at, false);
    assert(good >= 0 || tern_constraint_is_over(s));
    *over = good < 0 || tern_token_is_end(model, good);
    if (good < 0)
        return;
    if (bad >= 0)
        assert(tern_constraint_accept(s, bad, NULL) == TERN_USAGE);
    must(tern_constraint_state_copy(other, s, &e), &e);
    must(tern_constraint_accept(s, good, &e), &e);
    must(tern_constraint_accept(other, good, &e), &e);
    assert(!memcmp(mask_of(s), mask_of(other), (info.vocab + 31) / 32 * 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tern_error e;
    tern_constraint_state *s, *other;
    if (!model)
        open_all();
    if (!size)
        return 0;
    const tern_constraint *c = constraints[*data % N_CASES];
    must(tern_constraint_state_open(&s, c, &e), &e);
    must(tern_constraint_state_open(&other, c, &e), &e);
    bool over = false;
    for (size_t i = 1; i + 1 < size && i < 64 && !over; i += 2) {
        if (data[i] >= 250)
            go_back(s, data[i] - 249u);
        else if (data[i] >= 240)
            put_in(s);
        else
            take(s, other, (uint32_t)data[i] << 8 | data[i + 1], &over);
    }
    tern_constraint_state_close(other);
    tern_constraint_state_close(s);
    return 0;
}
