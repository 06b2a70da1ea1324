/* SentencePiece BPE: a word is cut into characters (user-defined tokens first, longest first, and
 * never merged), then the neighbours whose joined bytes are the token of the best score are
 * joined, leftmost of equals, until none are left. Reference: sentencepiece, bpe_model.cc. */
#include "text/spm.h"
#include "text/unicode.h"

#include <stdlib.h>

/* Scores as numbers that grow as the score falls. */
static uint32_t rank_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : 0x7FFFFFFFu - bits;
}

static bool find(void *model, const struct merge *m, const struct symbol *left,
                 const struct symbol *right, int32_t *id, uint32_t *rank)
{
    const struct tokenizer *t = ((const struct encoding *)model)->t;
    if (left->frozen || right->frozen)
        return false;
    *id = vocab_find(&t->vocab, m->word + left->at, (size_t)left->len + right->len);
    if (*id < 0)
        return false;
    *rank = rank_of(t->scores[*id]);
    return true;
}

/* Notes where an unused token is to be cut again: between the last pair that could make it. What an
 * earlier word left is noted anew before the token is made, or never read: one character is not made. */
static void note(void *model, const struct symbol *left, int32_t id)
{
    struct encoding *c = model;
    if (c->t->vocab.types[id] == TOKEN_UNUSED)
        c->cuts[id] = left->len;
}

void spm_put_unknown(struct encoding *c, const char *p, size_t n, bool *after_unk)
{
    const struct tokenizer *t = c->t;
    bool bytes = t->byte_fallback;
    for (size_t i = 0; i < n && bytes; i++)
        bytes = t->vocab.byte_id[(unsigned char)p[i]] >= 0;
    for (size_t i = 0; i < n && bytes; i++)
        encoding_put(c, t->vocab.byte_id[(unsigned char)p[i]]);
    if (!bytes && t->unk >= 0 && !(*after_unk && t->fuse_unk))
        encoding_put(c, t->unk);
    *after_unk = !bytes;
}

/* Gives the token p[0..n); an unused one is cut where it was made, and its parts again. The ends
 * of the parts still to come form a stack, no higher than the token is long. */
static void put_piece(struct encoding *c, const char *p, size_t n, int32_t id, bool *after_unk)
{
    const struct vocab *v = &c->t->vocab;
    uint16_t ends[VOCAB_TOKEN_MAX];
    size_t depth = 0, at = 0, end = n;
    for (;;) {
        if (id < 0) {
            spm_put_unknown(c, p + at, end - at, after_unk);
        } else if (v->types[id] == TOKEN_UNUSED && c->cuts[id]) {
            ends[depth++] = (uint16_t)end;
            end = at + c->cuts[id];
            id = vocab_find(v, p + at, end - at);
            continue;
        } else {
            encoding_put(c, id);
            *after_unk = false;
        }
        if (depth == 0)
            return;
        at = end;
        end = ends[--depth];
        id = vocab_find(v, p + at, end - at);
    }
}

/* The symbols that merging begins with. */
static bool add_symbols(struct encoding *c, const char *p, size_t n)
{
    const struct tokenizer *t = c->t;
    size_t len;
    for (size_t at = 0; at < n; at += len) {
        const struct added_token *user = t->users.n ? added_match(&t->users, p + at, n - at) : NULL;
        if (user)
            len = user->n;
        else
            unicode_decode(p + at, n - at, &len);
        int32_t id = user ? user->id : vocab_find(&t->vocab, p + at, len);
        if (!merge_add(&c->merge, at, len, id, user != NULL))
            return false;
    }
    return true;
}

bool spm_word(struct encoding *c, const char *p, size_t n)
{
    const struct tokenizer *t = c->t;
    bool after_unk = false;
    if (t->has_unused && !c->cuts)
        c->cuts = calloc(t->vocab.n, sizeof *c->cuts);
    if (t->has_unused && !c->cuts)
        return false;
    merge_begin(&c->merge, p);
    if (!add_symbols(c, p, n) ||
        !merge_run(&c->merge, (struct merge_rule){find, t->has_unused ? note : NULL, c}))
        return false;
    for (int32_t i = 0; i >= 0; i = c->merge.symbols[i].next) {
        const struct symbol *s = &c->merge.symbols[i];
        put_piece(c, p + s->at, s->len, s->id, &after_unk);
    }
    return true;
}

static enum tern_status read_users(struct tokenizer *t, struct tern_error *e)
{
    const struct vocab *v = &t->vocab;
    uint32_t n = 0;
    for (uint32_t id = 0; id < v->n; id++) {
        n += v->types[id] == TOKEN_USER;
        t->has_unused |= v->types[id] == TOKEN_UNUSED;
    }
    t->users.list = n ? malloc(n * sizeof *t->users.list) : NULL;
    if (n && !t->users.list)
        return error_memory(e, "the user-defined tokens", n * sizeof *t->users.list);
    for (uint32_t id = 0; id < v->n; id++) {
        size_t len;
        const char *p = vocab_text(v, (int32_t)id, &len);
        if (v->types[id] != TOKEN_USER)
            continue;
        if (len > ADDED_MAX || !unicode_valid(p, len))
            return error_set(e, TERN_BAD_FILE,
                             "tokenizer: user-defined token %u is too long or not UTF-8", id);
        t->users.list[t->users.n++] = (struct added_token){p, (uint32_t)len, 0, id, (int32_t)id};
    }
    added_sort(&t->users);
    return TERN_OK;
}

enum tern_status spm_open(struct tokenizer *t, struct keys *keys, struct tern_error *e)
{
    uint64_t n = 0;
    enum tern_status s = keys_f32s(keys, "scores", &t->scores, &n, e);
    if (s)
        return s;
    if (n != t->vocab.n)
        return error_set(e, TERN_BAD_FILE, "tokenizer: %llu scores for %u tokens",
                         (unsigned long long)n, t->vocab.n);
    for (uint32_t id = 0; id < t->vocab.n; id++)
        if (!(t->scores[id] >= -3.4e38f && t->scores[id] <= 3.4e38f))
            return error_set(e, TERN_BAD_FILE, "tokenizer: the score of token %u is not finite",
                             id);
    return read_users(t, e);
}

void spm_close(struct tokenizer *t)
{
    free(t->users.list);
}
