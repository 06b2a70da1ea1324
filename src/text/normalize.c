/* Normalizer steps: see normalize.h. Each writes the whole text into a scratch buffer. */
#include "text/normalize.h"

#include "text/nfc.h"
#include "text/unicode.h"

static const char BLOCK[] = "\xE2\x96\x81"; /* U+2581, SentencePiece's visible space */

/* Where a step writes. */
struct step_output {
    struct buffer *b;
    struct growth *g;
    size_t i; /* number of the step */
};

static bool add(struct step_output *out, const char *p, size_t n)
{
    return growth_add(out->g, out->i, out->b, p, n);
}

static bool replace(struct step_output *out, const struct step *step, const char *p, size_t n)
{
    size_t from = 0, i = 0;
    while (i + step->from_n <= n) {
        if (p[i] != step->from[0] || memcmp(p + i, step->from, step->from_n) != 0) {
            i++;
            continue;
        }
        if (!add(out, p + from, i - from) || !add(out, step->to, step->to_n))
            return false;
        from = i += step->from_n;
    }
    return add(out, p + from, n - from);
}

/* SentencePiece: leading and trailing spaces go, runs become one; U+2581 counts at the end. */
static bool trim(struct buffer *out, const char *p, size_t n)
{
    bool after_space = true;
    if (!buffer_reserve(out, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] != ' ' || !after_space)
            out->p[out->n++] = p[i];
        after_space = p[i] == ' ';
    }
    for (;;) {
        if (out->n >= 1 && out->p[out->n - 1] == ' ')
            out->n--;
        else if (out->n >= 3 && memcmp(out->p + out->n - 3, BLOCK, 3) == 0)
            out->n -= 3;
        else
            return true;
    }
}

/* Two or more `from` side by side become one `to`. */
static bool replace_runs(struct step_output *out, const struct step *step, const char *p, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; step->from_n <= n - end && !memcmp(p + end, step->from, step->from_n);)
            end += step->from_n;
        bool is_run = end - i >= 2 * step->from_n;
        if (end == i)
            end++;
        if (!add(out, is_run ? step->to : p + i, is_run ? step->to_n : end - i))
            return false;
    }
    return true;
}

/* Whitespace off the start (sides & 1) and the end (& 2). */
static bool strip_blanks(struct step_output *out, uint64_t sides, const char *p, size_t n)
{
    size_t len;
    while (sides & 1 && n && unicode_class(unicode_decode(p, n, &len)) & UNICODE_BLANK) {
        p += len;
        n -= len;
    }
    while (sides & 2 && n) {
        for (len = 1; len < n && ((unsigned char)p[n - len] & 0xC0) == 0x80;)
            len++;
        size_t back = len;
        if (!(unicode_class(unicode_decode(p + n - back, back, &len)) & UNICODE_BLANK))
            break;
        n -= back;
    }
    return add(out, p, n);
}

/* Number of the shortest or the longest text of the map that p[0..n) begins with, or -1; *len is
 * its length. */
static int32_t in_map(const struct charsmap *map, const char *p, size_t n, bool shortest,
                      size_t *len)
{
    int32_t found = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < n && (node = trie_child(&map->trie, node, (unsigned char)p[i])); i++)
        if (map->trie.nodes[node].value >= 0) {
            found = map->trie.nodes[node].value;
            *len = i + 1;
            if (shortest)
                break;
        }
    return found;
}

/* Bytes of the grapheme that p[0..n) begins with. Kept simple: what it takes for more than one
 * beyond 5 bytes, which have no use here, is of another kind (Hangul, flags, emoji). */
static size_t grapheme(const char *p, size_t n)
{
    size_t len, end;
    if (n >= 2 && p[0] == '\r' && p[1] == '\n')
        return 2;
    unsigned class = unicode_class(unicode_decode(p, n, &end));
    while (!(class & UNICODE_CONTROL) && end < n &&
           unicode_class(unicode_decode(p + end, n - end, &len)) & UNICODE_EXTENDS)
        end += len;
    return end;
}

/* Appends what p[0..n) becomes, which the map has as number k, or itself. */
static bool add_mapped(struct step_output *out, const struct charsmap *map, int32_t k,
                       const char *p, size_t n)
{
    return k < 0 ? add(out, p, n) : add(out, map->to + map->start[k], map->to_lengths[k]);
}

/* SentencePiece: the longest text that begins here is replaced. */
static bool charsmap(struct step_output *out, const struct charsmap *map, const char *p, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        int32_t k = in_map(map, p + i, n - i, false, &len);
        if (k < 0)
            unicode_decode(p + i, n - i, &len);
        if (!add_mapped(out, map, k, p + i, len))
            return false;
    }
    return true;
}

/* The tokenizers package: a grapheme of less than 6 bytes becomes, as a whole, what its shortest
 * beginning becomes; else each of its characters is looked at. */
static bool charsmap_graphemes(struct step_output *out, const struct charsmap *map, const char *p,
                               size_t n)
{
    size_t one, found;
    for (size_t i = 0, end; i < n; i = end) {
        end = i + grapheme(p + i, n - i);
        int32_t k = end - i < 6 ? in_map(map, p + i, end - i, true, &found) : -1;
        if (k >= 0 && !add_mapped(out, map, k, p + i, end - i))
            return false;
        for (; k < 0 && i < end; i += one) {
            unicode_decode(p + i, end - i, &one);
            int32_t of_one = in_map(map, p + i, one, true, &found);
            if (!add_mapped(out, map, of_one, p + i, one))
                return false;
        }
    }
    return true;
}

static bool run_step(struct step_output *out, const struct step *step, const char *p, size_t n,
                     bool first)
{
    switch (step->kind) {
    case STEP_PREPEND:
        if (n && (first || step->scheme != PREPEND_FIRST) && !add(out, step->to, step->to_n))
            return false;
        return add(out, p, n);
    case STEP_REPLACE:
        return replace(out, step, p, n);
    case STEP_TRIM:
        return trim(out->b, p, n) && growth_count(out->g, out->i, out->b->n);
    case STEP_NFC:
    case STEP_NFD:
        return nfc_append(out->b, p, n, step->kind == STEP_NFC, out->g->stop) &&
               growth_count(out->g, out->i, out->b->n);
    case STEP_CHARSMAP:
        return step->graphemes ? charsmap_graphemes(out, step->map, p, n)
                               : charsmap(out, step->map, p, n);
    case STEP_BLANKS:
        return strip_blanks(out, step->number, p, n);
    case STEP_RUNS:
        return replace_runs(out, step, p, n);
    default:
        return true; /* not of this list: steps_read refused it */
    }
}

bool normalize_run(const struct steps *steps, struct buffer scratch[2], struct growth *g,
                   const char *p, size_t n, bool first, const char **out, size_t *n_out)
{
    for (size_t i = 0; i < steps->n; i++) {
        struct buffer *b = &scratch[i % 2];
        b->n = 0;
        if (!run_step(&(struct step_output){b, g, i}, &steps->list[i], p, n, first))
            return false;
        p = b->p ? b->p : "";
        n = b->n;
    }
    *out = p;
    *n_out = n;
    return true;
}
