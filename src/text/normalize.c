/* Normalizer steps: see normalize.h. Each writes the whole text into a scratch buffer. */
#include "text/normalize.h"

#include "text/nfc.h"

static const char BLOCK[] = "\xE2\x96\x81"; /* U+2581, SentencePiece's visible space */

static bool replace(struct buffer *out, const struct step *step, const char *p, size_t n)
{
    size_t from = 0, i = 0;
    while (i + step->from_n <= n) {
        if (p[i] != step->from[0] || memcmp(p + i, step->from, step->from_n) != 0) {
            i++;
            continue;
        }
        if (!buffer_add(out, p + from, i - from) || !buffer_add(out, step->to, step->to_n))
            return false;
        from = i += step->from_n;
    }
    return buffer_add(out, p + from, n - from);
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

static bool run_step(struct buffer *out, const struct step *step, const char *p, size_t n)
{
    out->n = 0;
    switch (step->kind) {
    case STEP_PREPEND:
        return n == 0 || (buffer_add(out, step->to, step->to_n) && buffer_add(out, p, n));
    case STEP_REPLACE:
        return replace(out, step, p, n);
    case STEP_TRIM:
        return trim(out, p, n);
    case STEP_NFC:
        return nfc_append(out, p, n);
    default:
        return true; /* not of this list: steps_read refused it */
    }
}

bool normalize_run(const struct steps *steps, struct buffer scratch[2], const char *p, size_t n,
                   const char **out, size_t *n_out)
{
    for (size_t i = 0; i < steps->n; i++) {
        struct buffer *b = &scratch[i % 2];
        if (!run_step(b, &steps->list[i], p, n))
            return false;
        p = b->p;
        n = b->n;
    }
    *out = p;
    *n_out = n;
    return true;
}
