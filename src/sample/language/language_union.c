/* Unions of many texts: built as a tree of their beginnings, from its leaves. So each byte is looked at
 * once, and what equal ends follow is one expression. */
#include "sample/language/language_parts.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct lang_span *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->p, y->p, n) : 0;
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static size_t shared(const struct lang_span *x, const struct lang_span *y)
{
    size_t n = 0;
    while (n < x->n && n < y->n && x->p[n] == y->p[n])
        n++;
    return n;
}

/* The open places of the tree are those of the last text. What follows each lies at the end of
 * ls->work: ls->stack has where it begins. Closes those behind `depth` bytes. */
static bool close_places(struct languages *ls, const struct lang_span *last, uint32_t base,
                         size_t depth)
{
    while (ls->stack.n - base > depth + 1) {
        uint32_t from = ls->stack.p[--ls->stack.n];
        bool one = ls->work.n - from == 1;
        lang rest = one ? ls->work.p[--ls->work.n] : lang_or_work(ls, from, 0);
        rest = lang_concat(ls, lang_text(ls, last->p + (ls->stack.n - base - 1), 1), rest);
        if (rest == LANG_FAIL || !list_push(ls, &ls->work, rest))
            return false;
    }
    return true;
}

lang lang_texts(struct languages *ls, struct lang_span *x, size_t n)
{
    const uint32_t base = ls->stack.n, from = ls->work.n;
    bool good = list_push(ls, &ls->stack, from);
    if (n)
        qsort(x, n, sizeof *x, compare);
    for (size_t i = 0; good && i < n; i++) {
        size_t depth = i ? shared(&x[i - 1], &x[i]) : 0;
        good = !i || close_places(ls, &x[i - 1], base, depth);
        while (good && depth++ < x[i].n)
            good = list_push(ls, &ls->stack, ls->work.n);
        good = good && list_push(ls, &ls->work, LANG_BLANK);
    }
    good = good && (!n || close_places(ls, &x[n - 1], base, 0));
    lang all = good ? lang_or_work(ls, from, 0) : LANG_FAIL;
    ls->work.n = from, ls->stack.n = base;
    return all;
}
