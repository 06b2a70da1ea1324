/* Pre-tokenizer steps: see pretokenize.h. Step i hands each of its pieces to step i + 1 at once;
 * the depth of the calls is the number of steps, never that of the text. */
#include "text/pretokenize.h"

#include "text/patterns.h"
#include "text/unicode.h"

static bool run_step(struct pretokenize *r, size_t i, const char *p, size_t n, bool first);

/* The character at p[0..n), and its length. A step on bytes sees the characters that byte-level BPE
 * writes them as: those of the same number, or letters in place of controls and spaces. Only numbers
 * are looked for there, and none of these is one. */
static uint32_t unit(const struct step *step, const char *p, size_t n, size_t *len)
{
    *len = 1;
    return step->bytes ? (unsigned char)*p : unicode_decode(p, n, len);
}

/* End of the match of a split or class step that begins at p[at], or `at`. */
static size_t match(const struct step *step, const char *p, size_t at, size_t n)
{
    size_t len;
    if (step->kind == STEP_CLASS)
        return unicode_class(unit(step, p + at, n - at, &len)) & step->number ? at + len : at;
    if (step->pattern >= 0)
        return pattern_match(step->pattern, p, at, n);
    bool here = step->from_n <= n - at && memcmp(p + at, step->from, step->from_n) == 0;
    return here ? at + step->from_n : at;
}

static bool again(const struct step *step, const char *p, size_t at, size_t n)
{
    return step->kind == STEP_CLASS || step->pattern < 0 || pattern_again(step->pattern, p, at, n);
}

/* End of the stretch that begins at `at`: one match (*hit), or all up to the next match. */
static size_t stretch(struct pretokenize *r, const struct step *step, const char *p, size_t at,
                      size_t n, bool *hit)
{
    size_t len, end = match(step, p, at, n);
    *hit = end > at;
    if (*hit)
        return end;
    do {
        unit(step, p + end, n - end, &len);
        end += len;
    } while (end < n && !stop_asked(r->growth.stop, len) &&
             (!again(step, p, end, n) || match(step, p, end, n) == end));
    return end;
}

/* Cuts at matches. `open`..`at` is what waits to be joined with what follows. */
static bool split(struct pretokenize *r, size_t i, const char *p, size_t n, bool first)
{
    const struct step *step = &r->steps->list[i];
    uint64_t behavior = step->behavior;
    bool hit, before = false;
    size_t open = 0;
    for (size_t at = 0, end; at < n; at = end, before = hit) {
        end = stretch(r, step, p, at, n, &hit);
        hit ^= step->invert;
        bool cut = behavior == SPLIT_CONTIGUOUS ? hit != before
                   : behavior == SPLIT_PREVIOUS ? !(hit && !before)
                   : behavior == SPLIT_NEXT     ? !(before && !hit)
                                                : true;
        if (cut && at > open) {
            if (!run_step(r, i + 1, p + open, at - open, first && open == 0))
                return false;
            open = at;
        }
        if (behavior == SPLIT_REMOVED && hit)
            open = end;
    }
    return open == n || run_step(r, i + 1, p + open, n - open, first && open == 0);
}

/* Cuts where the script changes. What comes before the first character with a script is left out,
 * as in the reference. */
static bool scripts(struct pretokenize *r, size_t i, const char *p, size_t n, bool first)
{
    size_t open = n, len; /* n: no piece has begun */
    unsigned last = 0;
    for (size_t at = 0; at < n; at += len) {
        unsigned script = unicode_script(unicode_decode(p + at, n - at, &len));
        if (script == 0 || script == last)
            continue;
        if (open < at && !run_step(r, i + 1, p + open, at - open, first && open == 0))
            return false;
        open = at;
        last = script;
    }
    return open == n || run_step(r, i + 1, p + open, n - open, first && open == 0);
}

static bool starts_with(const char *p, size_t n, const char *with, size_t with_n)
{
    return with_n <= n && memcmp(p, with, with_n) == 0;
}

/* Spaces become the replacement character, one is put before, and each begins a piece. */
static bool metaspace(struct pretokenize *r, size_t i, const char *p, size_t n, bool first)
{
    const struct step *step = &r->steps->list[i];
    struct buffer *b = &r->scratch[i];
    bool ok = true;
    b->n = 0;
    if (!starts_with(p, n, " ", 1) && !starts_with(p, n, step->to, step->to_n) &&
        (step->scheme == PREPEND_ALWAYS || (step->scheme == PREPEND_FIRST && first)))
        ok = growth_add(&r->growth, i, b, step->to, step->to_n);
    for (size_t k = 0; ok && k < n; k++)
        ok = p[k] == ' ' ? growth_add(&r->growth, i, b, step->to, step->to_n)
                         : growth_add(&r->growth, i, b, p + k, 1);
    if (!ok || !step->split)
        return ok && run_step(r, i + 1, b->p, b->n, first);
    size_t open = 0;
    for (size_t k = 1; k <= b->n; k++)
        if (k == b->n || starts_with(b->p + k, b->n - k, step->to, step->to_n)) {
            if (!run_step(r, i + 1, b->p + open, k - open, first && open == 0))
                return false;
            open = k;
        }
    return true;
}

static bool prefix(struct pretokenize *r, size_t i, const char *p, size_t n, bool first)
{
    struct buffer *b = &r->scratch[i];
    if (p[0] == ' ')
        return run_step(r, i + 1, p, n, first);
    b->n = 0;
    return growth_add(&r->growth, i, b, " ", 1) && growth_add(&r->growth, i, b, p, n) &&
           run_step(r, i + 1, b->p, b->n, first);
}

static bool run_step(struct pretokenize *r, size_t i, const char *p, size_t n, bool first)
{
    if (i == r->steps->n)
        return r->word(r->arg, p, n);
    switch (r->steps->list[i].kind) {
    case STEP_SCRIPTS:
        return scripts(r, i, p, n, first);
    case STEP_METASPACE:
        return metaspace(r, i, p, n, first);
    case STEP_PREFIX:
        return prefix(r, i, p, n, first);
    default:
        return split(r, i, p, n, first);
    }
}

bool pretokenize_run(struct pretokenize *r, const char *p, size_t n, bool first)
{
    return n == 0 || run_step(r, 0, p, n, first);
}
