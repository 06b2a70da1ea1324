/* Unigram: of all ways to cut a word into tokens the one whose scores add up to the most, found by
 * Viterbi in one pass; a character without a token of its own may be unknown, at a price.
 *
 * Sums are carried on over the cuts of a word, because their rounding decides ties. SentencePiece's
 * are binary32, those of the tokenizers package binary64.
 * References: sentencepiece, unigram_model.cc; the tokenizers package, models/unigram. */
#include "text/unigram.h"

#include "text/spm.h"
#include "text/unicode.h"

struct best { /* the best way that ends at a byte; while ids are given: what begins there */
    double score;
    int32_t id;   /* its last token, or -1: unknown */
    uint32_t len; /* bytes of that; 0: no way yet */
};

static void offer(const struct tokenizer *t, struct best *b, double score, int32_t id, uint32_t len)
{
    double sum = t->f32_sums ? (double)(float)score : score;
    if (!b->len || sum > b->score)
        *b = (struct best){sum, id, len};
}

/* Every token that begins at `at` offers itself to the byte where it ends. */
static void extend(const struct tokenizer *t, struct best *best, const char *p, size_t at, size_t n,
                   size_t one)
{
    double here = best[at].score;
    bool single = false;
    uint32_t node = 0;
    for (size_t k = at; k < n && (node = trie_child(&t->trie, node, (unsigned char)p[k])); k++) {
        int32_t id = t->trie.nodes[node].value;
        if (id < 0)
            continue;
        offer(t, &best[k + 1], here + t->log_probs[id], id, (uint32_t)(k + 1 - at));
        single |= k + 1 - at == one;
    }
    if (single)
        return;
    offer(t, &best[at + one], here + t->log_probs[t->vocab.n], -1, (uint32_t)one);
}

/* Turns the chain of last tokens around, so that each stands where it begins. */
static void turn(struct best *best, size_t n)
{
    struct best last = best[n];
    for (size_t end = n; end;) {
        size_t start = end - last.len;
        struct best before = best[start];
        best[start] = last;
        last = before;
        end = start;
    }
}

bool unigram_word(struct encoding *c, const char *p, size_t n)
{
    size_t one;
    c->best.n = 0;
    if (!buffer_reserve(&c->best, (n + 1) * sizeof(struct best)))
        return false;
    struct best *best = (struct best *)(void *)c->best.p;
    memset(best, 0, (n + 1) * sizeof *best);
    best[0].score = c->total;
    for (size_t at = 0; at < n; at += one) {
        unsigned char lead = (unsigned char)p[at];
        one = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; /* it is UTF-8 */
        one = one < n - at ? one : n - at; /* unless steps cut characters */
        extend(c->t, best, p, at, n, one);
        if (stop_asked(&c->stop, one))
            return false;
    }
    c->total = best[n].score;
    turn(best, n);
    for (size_t at = 0, end; at < n; at = end) {
        bool after_unk = false;
        if (stop_asked(&c->stop, 1))
            return false;
        for (end = at; end < n && best[end].id < 0; end += best[end].len)
            ;
        if (end > at)
            spm_put_unknown(c, p + at, end - at, &after_unk);
        else {
            encoding_put(c, best[at].id);
            end = at + best[at].len;
        }
    }
    return true;
}

/* The tree of what is found in a text: for the tokenizers package also byte tokens, by name. */
static enum tern_status build_trie(struct tokenizer *t, struct tern_error *e)
{
    const struct vocab *v = &t->vocab;
    struct trie_key *list = malloc(v->n * sizeof *list);
    uint32_t n = 0;
    for (uint32_t id = 0; list && id < v->n; id++) {
        size_t len;
        const char *p = vocab_text(v, (int32_t)id, &len);
        unsigned char type = v->types[id];
        if (type != TOKEN_NORMAL && type != TOKEN_USER && (type != TOKEN_BYTE || t->f32_sums))
            continue;
        if (!unicode_valid(p, len)) {
            free(list);
            return error_set(e, TERN_BAD_FILE, "tokenizer: token %u is not UTF-8", id);
        }
        list[n++] = (struct trie_key){p, (uint32_t)len, (int32_t)id};
    }
    bool ok = list && trie_open(&t->trie, list, n);
    free(list);
    return ok ? TERN_OK : error_memory(e, "the tree of tokens", v->n * sizeof *list);
}

enum tern_status unigram_open(struct tokenizer *t, struct keys *keys, struct tern_error *e)
{
    const uint64_t *bits = NULL;
    uint64_t n = 0;
    enum tern_status s = keys_u64s(keys, "log_probs", &bits, &n, e);
    if (s)
        return s;
    if (n != (uint64_t)t->vocab.n + 1)
        return error_set(e, TERN_BAD_FILE, "tokenizer: %llu log_probs for %u tokens and one more",
                         (unsigned long long)n, t->vocab.n);
    t->log_probs = (const double *)(const void *)bits;
    for (uint64_t i = 0; i < n; i++)
        if (!(t->log_probs[i] >= -1e30 && t->log_probs[i] <= 1e30))
            return error_set(e, TERN_BAD_FILE, "tokenizer: log_probs %llu is not a sensible number",
                             (unsigned long long)i);
    return build_trie(t, e);
}

void unigram_close(struct tokenizer *t)
{
    trie_close(&t->trie);
}
