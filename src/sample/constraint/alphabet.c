/* Restriction to what tokens spell: see alphabet.h. */
#include "sample/constraint/alphabet.h"

#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

/* The code point that is the whole token; UNICODE_BAD: it is another text */
static uint32_t character_of(const struct spelling *s, tern_token t)
{
    uint32_t n;
    size_t length = 0;
    const unsigned char *p = spelling_of(s, t, &n);
    uint32_t c = n ? unicode_decode((const char *)p, n, &length) : UNICODE_BAD;
    return length == n ? c : UNICODE_BAD;
}

lang alphabet_restrict(struct languages *ls, const struct spelling *s, lang a)
{
    if (s->all_bytes || a == LANG_FAIL)
        return a;
    uint32_t(*ranges)[2] = malloc((s->tree.n_tokens + (size_t)1) * sizeof *ranges);
    size_t n = 0;
    if (!ranges)
        return LANG_FAIL;
    for (uint32_t i = 0; i < s->tree.n_tokens; i++) { /* in the order of UTF-8, so of code points */
        uint32_t c = character_of(s, s->tree.tokens[i]);
        if (c == UNICODE_BAD || (n && ranges[n - 1][1] >= c))
            continue;
        if (n && ranges[n - 1][1] + 1 == c)
            ranges[n - 1][1] = c;
        else
            ranges[n][0] = ranges[n][1] = c, n++;
    }
    lang any = n ? lang_chars(ls, (const uint32_t(*)[2])ranges, n) : LANG_NONE;
    free(ranges);
    return lang_and(ls, a, lang_repeat(ls, any, 0, LANG_MANY));
}

static bool is_token(const struct spelling *s, const unsigned char *p, size_t n)
{
    for (uint32_t t = 0; t < s->n_tokens; t++) {
        uint32_t length;
        const unsigned char *text = spelling_of(s, (tern_token)t, &length);
        if (length == n && memcmp(text, p, n) == 0)
            return true;
    }
    return false;
}

lang alphabet_ends(struct languages *ls, const struct spelling *s)
{
    lang ends = LANG_NONE;
    for (size_t i = 0; i < s->n_ends; i++) {
        uint32_t n;
        const unsigned char *p = spelling_of(s, s->ends[i], &n);
        if (n)
            ends = lang_or(ls, ends, lang_text(ls, (const char *)p, n));
    }
    return ends;
}

enum tern_status alphabet_check_json(const struct spelling *s, struct tern_error *e)
{
    for (unsigned char c = ' '; c <= '~' && !s->all_bytes; c++)
        if (!is_token(s, &c, 1))
            return error_set(
                e, TERN_USAGE,
                "constraint: the model has no token '%c' alone, which a text of JSON may need", c);
    return TERN_OK;
}

bool alphabet_has_special(const void *spelling, const char *name, size_t n)
{
    const struct spelling *s = spelling;
    const struct token_node *nodes = s->tree.nodes;
    uint32_t at = 1;
    while (at < s->tree.n_nodes && nodes[at].byte != SPELLING_SPECIAL)
        at += nodes[at].size;
    return at < s->tree.n_nodes &&
           token_tree_prefix(&s->tree, at, (const unsigned char *)name, n) == n;
}

/* The bytes of p[0..n) that tokens spell together: a special token, a byte, or a character; 0: none. */
static size_t spelled(const struct spelling *s, const unsigned char *p, size_t n)
{
    size_t length = 1;
    if (*p == SPELLING_SPECIAL)
        return token_tree_prefix(&s->tree, 0, p, n);
    if (s->all_bytes && *p < 0xF5 && *p != 0xC0 && *p != 0xC1)
        return 1;
    if (!s->all_bytes)
        unicode_decode((const char *)p, n, &length);
    return is_token(s, p, length) ? length : 0;
}

enum tern_status alphabet_check_trigger(const struct spelling *s, const char *p, size_t n,
                                        struct tern_error *e)
{
    size_t length;
    for (size_t i = 0; i < n; i += length)
        if (!(length = spelled(s, (const unsigned char *)p + i, n - i)))
            return error_set(
                e, TERN_USAGE,
                "constraint: the model's tokens do not spell the trigger from its byte "
                "%zu (0x%02X) on",
                i, (unsigned)(unsigned char)p[i]);
    return TERN_OK;
}

enum tern_status alphabet_check_bytes(const struct spelling *s, const char *what,
                                      struct tern_error *e)
{
    return s->all_bytes ? TERN_OK
                        : error_set(e, TERN_USAGE,
                                    "%s: the model's tokens do not spell every byte; use a regular "
                                    "expression",
                                    what);
}
