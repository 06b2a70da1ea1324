/* Collects what tokens spell: see spelling.h. */
#include "sample/constraint/spelling.h"

#include "text/decoder.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

bool spelling_is_end(const struct spelling *s, tern_token t)
{
    for (size_t i = 0; i < s->n_ends; i++)
        if (s->ends[i] == t)
            return true;
    return false;
}

/* Where in p[0..n), which is the content of a JSON string at first, the '"' stands that ends it; n: nowhere */
static uint32_t closing_quote(const unsigned char *p, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && p[i] != '"')
        i += p[i] == '\\' ? 2 : 1;
    return i < n ? i : n;
}

/* The bytes of one token, in s->text if that is there; returns how many. */
static uint32_t spell(struct spelling *s, struct decoder *d, tern_token t, uint32_t at)
{
    size_t n;
    bool special = tokenizer_is_special(s->tokenizer, t);
    const char *p = special ? tokenizer_text(s->tokenizer, t, &n) : decoder_bytes(d, t, &n);
    if (!n || (!special && memchr(p, SPELLING_SPECIAL, n)))
        return 0;
    if (s->text) {
        s->text[at] = SPELLING_SPECIAL;
        memcpy(s->text + at + special, p, n);
    }
    return (uint32_t)n + special;
}

/* Offsets first, texts in a second round; returns the bytes of all texts. */
static uint64_t spell_all(struct spelling *s, struct decoder *d)
{
    uint64_t n = tokenizer_n_tokens(s->tokenizer), at = 0;
    for (uint32_t t = 0; t < s->n_tokens; t++) {
        s->start[t] = (uint32_t)at;
        if (t < n)
            at += spell(s, d, (tern_token)t, (uint32_t)at);
    }
    s->start[s->n_tokens] = (uint32_t)at;
    return at;
}

static bool has_all_bytes(const struct spelling *s)
{
    bool seen[256] = {0};
    for (uint32_t t = 0; t < s->n_tokens; t++)
        if (s->start[t + 1] - s->start[t] == 1)
            seen[s->text[s->start[t]]] = true;
    for (unsigned b = 0; b < 0xF5; b++)
        if (!seen[b] && b != 0xC0 && b != 0xC1)
            return false;
    return true;
}

static enum tern_status build(struct spelling *s, struct token_text *texts, struct tern_error *e)
{
    uint32_t all = 0, closing = 0, n;
    for (uint32_t t = 0; t < s->n_tokens; t++) {
        const unsigned char *p = spelling_of(s, (tern_token)t, &n);
        if (n && (s->all_bytes || *p == SPELLING_SPECIAL || unicode_valid((const char *)p, n)))
            texts[all++] = (struct token_text){p, n, (tern_token)t};
    }
    enum tern_status status = token_tree_open(&s->tree, texts, all, e);
    for (uint32_t t = 0; t < s->n_tokens; t++) {
        const unsigned char *p = spelling_of(s, (tern_token)t, &n);
        uint32_t at = closing_quote(p, n);
        if (at < n && *p != SPELLING_SPECIAL && (s->all_bytes || unicode_valid((const char *)p, n)))
            texts[closing++] = (struct token_text){p + at, n - at, (tern_token)t};
    }
    return status ? status : token_tree_open(&s->closing, texts, closing, e);
}

/* Characters of p[0..n), which is content without escapes, and of which the last may be cut; false: it is not
 * UTF-8 */
static bool count_characters(const unsigned char *p, uint32_t n, bool may_cut, uint32_t *count)
{
    uint32_t cut = may_cut ? (uint32_t)unicode_tail((const char *)p, n) : 0;
    *count = 0;
    for (uint32_t i = 0; i < n; i++)
        *count += (p[i] & 0xC0) != 0x80;
    return unicode_valid((const char *)p, n - cut);
}

/* The tokens that end at a node are plain: counts them, or keeps them. */
static void keep_plain(struct spelling *s, const struct token_node *x, uint32_t characters,
                       uint32_t *kept)
{
    uint32_t k = characters < SPELLING_CHARACTERS ? characters : SPELLING_CHARACTERS;
    for (uint32_t i = x->first; i < x[1].first; i++, kept[k]++) {
        uint32_t t = (uint32_t)s->tree.tokens[i];
        if (s->plain) {
            s->plain[kept[k]] = (tern_token)t;
            s->plain_bits[t / 32] |= (uint32_t)1 << t % 32;
        }
    }
}

/* Walks the tree as far as tokens are plain content of strings: counts first, then keeps. */
static void classify(struct spelling *s, uint32_t *kept, uint32_t *ends)
{
    const struct token_node *nodes = s->tree.nodes;
    uint32_t d = 0, n, count;
    ends[0] = s->tree.n_nodes;
    for (uint32_t i = 1; i < s->tree.n_nodes;) {
        const struct token_node *x = &nodes[i];
        while (i >= ends[d])
            d--;
        const unsigned char *p = spelling_of(s, s->tree.tokens[x->first], &n);
        bool stops = x->byte == '"' || x->byte == '\\';
        if (stops && count_characters(p, d, false, &count) && d <= UINT16_MAX) {
            if (s->others)
                s->others[s->n_others] =
                    (struct spelling_other){i, (uint16_t)(d + 1), (uint16_t)count};
            s->n_others++;
        }
        if (stops || x->byte < 0x20 || !count_characters(p, d + 1, true, &count)) {
            i += x->size;
            continue;
        }
        keep_plain(s, x, count, kept);
        ends[d + 1] = i + x->size;
        d += x->size > 1;
        i++;
    }
}

/* A node's height is that of its highest child, and 1 if that begins a character; path: scratch. */
static void measure(struct spelling *s, uint32_t *path)
{
    const struct token_node *nodes = s->tree.nodes;
    uint32_t d = 0;
    path[0] = 0;
    for (uint32_t i = 1; i <= s->tree.n_nodes; i++) {
        for (; d && i >= path[d] + nodes[path[d]].size; d--) {
            unsigned height = s->height[path[d]] + ((nodes[path[d]].byte & 0xC0) != 0x80 ? 1u : 0u);
            uint8_t *above = &s->height[path[d - 1]];
            if (height > *above)
                *above = height < UINT8_MAX ? (uint8_t)height : UINT8_MAX;
        }
        if (i < s->tree.n_nodes)
            path[++d] = i;
    }
}

static enum tern_status sort_out(struct spelling *s, struct tern_error *e)
{
    uint32_t kept[SPELLING_CHARACTERS + 1] = {0}, n = 0;
    uint32_t *ends = malloc((s->tree.depth + (size_t)2) * sizeof *ends);
    if (ends)
        classify(s, kept, ends);
    for (uint32_t k = 0; k <= SPELLING_CHARACTERS; k++) {
        s->plain_start[k] = n;
        n += kept[k];
        kept[k] = s->plain_start[k];
    }
    s->plain_start[SPELLING_CHARACTERS + 1] = n;
    s->others = malloc((s->n_others + (size_t)1) * sizeof *s->others);
    s->plain_bits = calloc((s->n_tokens + (size_t)31) / 32, sizeof *s->plain_bits);
    s->plain = malloc((n + (size_t)1) * sizeof *s->plain);
    s->height = calloc(s->tree.n_nodes, sizeof *s->height);
    bool ok = ends && s->others && s->plain_bits && s->plain && s->height;
    s->n_others = 0;
    if (ok) {
        classify(s, kept, ends);
        measure(s, ends);
    }
    free(ends);
    return ok ? TERN_OK : error_memory(e, "the texts of the tokens", n * sizeof *s->plain);
}

static enum tern_status collect(struct spelling *s, struct tern_error *e)
{
    struct decoder *d;
    uint64_t bytes = 0;
    enum tern_status status = decoder_open(&d, s->tokenizer, true, e);
    if (status)
        return status;
    s->start = malloc((s->n_tokens + (size_t)1) * sizeof *s->start);
    struct token_text *texts = malloc(s->n_tokens * sizeof *texts);
    if (s->start && texts && (bytes = spell_all(s, d)) <= UINT32_MAX)
        s->text = malloc(bytes + 1);
    if (s->text) {
        spell_all(s, d);
        s->all_bytes = has_all_bytes(s);
        status = build(s, texts, e);
        if (!status)
            status = sort_out(s, e);
    } else {
        status = error_memory(e, "the texts of the tokens", bytes + 32 * (uint64_t)s->n_tokens);
    }
    free(texts);
    decoder_close(d);
    return status;
}

enum tern_status spelling_open(struct spelling **out, const struct tokenizer *t, uint32_t n_tokens,
                               const tern_token *ends, size_t n_ends, struct tern_error *e)
{
    *out = NULL;
    if (!t)
        return error_set(e, TERN_USAGE, "the model file has no tokenizer: constraints need one");
    struct spelling *s = calloc(1, sizeof *s);
    if (!s)
        return error_memory(e, "the texts of the tokens", sizeof *s);
    s->tokenizer = t, s->n_tokens = n_tokens, s->ends = ends, s->n_ends = n_ends;
    enum tern_status status = collect(s, e);
    if (status)
        spelling_close(s);
    else
        *out = s;
    return status;
}

void spelling_close(struct spelling *s)
{
    if (!s)
        return;
    token_tree_close(&s->tree);
    token_tree_close(&s->closing);
    free(s->start);
    free(s->plain);
    free(s->plain_bits);
    free(s->others);
    free(s->height);
    free(s->text);
    free(s);
}
