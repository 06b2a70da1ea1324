/* Unions and intersections, made so that the same set is written in as few ways as can be seen cheaply:
 * the fewer expressions, the fewer states. A list of parts lies at the end of ls->work. */
#include "sample/language/language_parts.h"

#include <string.h>

static uint32_t *list_at(struct languages *ls, uint32_t i)
{
    return &ls->work.p[i];
}

static lang dropped(struct languages *ls, uint32_t from, lang result)
{
    ls->work.n = from;
    return result;
}

static lang head_of(const struct languages *ls, lang a)
{
    const struct lang_node *x = node_of(ls, a);
    return x->kind == KIND_CONCAT ? x->a : a;
}

static lang rest_of(const struct languages *ls, lang a)
{
    const struct lang_node *x = node_of(ls, a);
    return x->kind == KIND_CONCAT ? x->b : LANG_BLANK;
}

/* Shell sort by number, or by the number of the head. */
static void sort_list(struct languages *ls, uint32_t from, bool by_head)
{
    uint32_t *p = ls->work.p + from, n = ls->work.n - from, step = 1;
    while (step < n / 3)
        step = 3 * step + 1;
    for (; step; step /= 3)
        for (uint32_t i = step; i < n; i++) {
            uint32_t x = p[i], key = by_head ? head_of(ls, x) : x, j = i;
            for (; j >= step && (by_head ? head_of(ls, p[j - step]) : p[j - step]) > key; j -= step)
                p[j] = p[j - step];
            p[j] = x;
        }
}

/* Each number once, ascending. */
static void sort_unique(struct languages *ls, uint32_t from)
{
    uint32_t to = from;
    sort_list(ls, from, false);
    for (uint32_t i = from; i < ls->work.n; i++)
        if (i == from || *list_at(ls, i) != *list_at(ls, to - 1))
            *list_at(ls, to++) = *list_at(ls, i);
    ls->work.n = to;
}

static bool push_parts(struct languages *ls, lang a)
{
    uint32_t at = node_of(ls, a)->a, n = node_of(ls, a)->b;
    for (uint32_t i = 0; i < n; i++)
        if (!list_push(ls, &ls->work, ls->parts.p[at + i]))
            return false;
    return true;
}

/* ---- union ---- */

/* Takes apart what is itself a choice. *blank: the empty text is in the list; *all: everything is. */
static bool spread(struct languages *ls, uint32_t from, bool *blank, bool *all)
{
    uint32_t to = from;
    for (uint32_t i = from; i < ls->work.n; i++) {
        lang a = *list_at(ls, i);
        const struct lang_node *x = node_of(ls, a);
        if (a == LANG_NONE || x->flags & LANG_DEAD)
            continue;
        if (a == LANG_BLANK || (x->kind == KIND_REPEAT && !x->min && x->max == 1))
            *blank = true;
        *all |= a == LANG_ALL;
        if (x->kind == KIND_OR) {
            if (!push_parts(ls, a))
                return false;
        } else if (x->kind == KIND_REPEAT && !x->min && x->max == 1) {
            if (!list_push(ls, &ls->work, x->a))
                return false;
        } else if (a != LANG_BLANK) {
            *list_at(ls, to++) = a;
            continue;
        }
    }
    ls->work.n = to;
    return true;
}

/* Sets of bytes become one; texts in LANG_CHARS go where that is in the list. */
static bool unite_sets(struct languages *ls, uint32_t from)
{
    uint32_t bits[8] = {0}, to = from, n = 0;
    bool chars = false;
    for (uint32_t i = from; i < ls->work.n; i++)
        chars |= *list_at(ls, i) == LANG_CHARS;
    for (uint32_t i = from; i < ls->work.n; i++) {
        lang a = *list_at(ls, i);
        const struct lang_node *x = node_of(ls, a);
        if (chars && a != LANG_CHARS && !way_of(x->ways, 0))
            continue;
        if (x->kind == KIND_SET)
            for (n++, a = 0; a < 8; a++)
                bits[a] |= ls->parts.p[x->a + a];
        else
            *list_at(ls, to++) = a;
    }
    ls->work.n = to;
    struct lang_node key = {.kind = KIND_SET, .b = 8};
    lang set = n ? lang_intern(ls, &key, bits) : LANG_NONE;
    return !n || (set != LANG_FAIL && list_push(ls, &ls->work, set));
}

/* One expression for both: x{p,q}y and x{r,s}y where the counts touch, or y alone. LANG_NONE: no. */
static lang unite_counts(struct languages *ls, lang a, lang b)
{
    const struct lang_node *x = node_of(ls, head_of(ls, a)), *y = node_of(ls, head_of(ls, b));
    lang rest = rest_of(ls, a), base = x->a;
    uint32_t min = 0, max = 0;
    if (x->kind != KIND_REPEAT)
        return LANG_NONE;
    if (b != rest) {
        bool many = y->kind == KIND_REPEAT;
        if (rest_of(ls, b) != rest || (many ? y->a : head_of(ls, b)) != base)
            return LANG_NONE;
        min = many ? y->min : 1;
        max = many ? y->max : 1;
    }
    if (larger(min, x->min) > add_sizes(smaller(max, x->max), 1))
        return LANG_NONE;
    return lang_concat(ls, lang_repeat(ls, base, smaller(min, x->min), larger(max, x->max)), rest);
}

/* x of x & !b, which beside b is the same; else LANG_NONE. */
static lang without_not(const struct languages *ls, lang a, lang b)
{
    const struct lang_node *x = node_of(ls, a);
    for (uint32_t i = 0; x->kind == KIND_AND && x->b == 2 && i < 2; i++) {
        const struct lang_node *y = node_of(ls, ls->parts.p[x->a + i]);
        if (y->kind == KIND_NOT && y->a == b)
            return ls->parts.p[x->a + 1 - i];
    }
    return LANG_NONE;
}

/* Pairs of a short list; true: something changed. */
static bool unite_pairs(struct languages *ls, uint32_t from, bool *failed)
{
    enum { SHORT = 24 };
    uint32_t n = ls->work.n - from;
    bool changed = false;
    if (n > SHORT)
        return false;
    for (uint32_t i = from; i < from + n; i++)
        for (uint32_t j = from; j < from + n; j++) {
            lang a = *list_at(ls, i), b = *list_at(ls, j);
            if (i == j || !a || !b)
                continue;
            lang x = without_not(ls, a, b), one = x ? LANG_NONE : unite_counts(ls, a, b);
            if (x) {
                *list_at(ls, i) = x;
                changed = true;
            }
            if (!one)
                continue;
            *failed |= one == LANG_FAIL;
            *list_at(ls, i) = one == LANG_FAIL ? LANG_NONE : one;
            *list_at(ls, j) = LANG_NONE;
            changed = true;
        }
    return changed;
}

/* List places first .. last - 1 begin with the same head: x a | x b is x (a | b), for as many heads as
 * they share. The result takes the first place. */
static bool factor(struct languages *ls, uint32_t first, uint32_t last, unsigned depth)
{
    uint32_t base = ls->work.n, n;
    for (bool same = true; same;) {
        lang head = head_of(ls, *list_at(ls, first));
        if (!list_push(ls, &ls->work, head))
            return false;
        for (uint32_t i = first; i < last; i++)
            *list_at(ls, i) = rest_of(ls, *list_at(ls, i));
        head = head_of(ls, *list_at(ls, first));
        for (uint32_t i = first; i < last; i++)
            same &= *list_at(ls, i) != LANG_BLANK && head_of(ls, *list_at(ls, i)) == head;
    }
    n = ls->work.n - base;
    for (uint32_t i = first; i < last; i++)
        if (!list_push(ls, &ls->work, *list_at(ls, i)))
            return false;
    lang all = lang_or_work(ls, base + n, depth + 1);
    while (n > 0)
        all = lang_concat(ls, *list_at(ls, base + --n), all);
    ls->work.n = base;
    memset(list_at(ls, first), 0, (last - first) * sizeof(lang));
    *list_at(ls, first) = all == LANG_FAIL ? LANG_NONE : all;
    return all != LANG_FAIL;
}

/* Groups of one head; true: something changed. */
static bool factor_groups(struct languages *ls, uint32_t from, unsigned depth, bool *failed)
{
    enum { DEEP = 12 };
    bool changed = false;
    if (depth == DEEP)
        return false;
    sort_list(ls, from, true);
    for (uint32_t i = from, n; i < ls->work.n && !*failed; i += n) {
        lang head = head_of(ls, *list_at(ls, i));
        for (n = 1; i + n < ls->work.n && head_of(ls, *list_at(ls, i + n)) == head;)
            n++;
        if (n > 1) {
            changed = true;
            *failed |= !factor(ls, i, i + n, depth);
        }
    }
    return changed;
}

lang lang_or_work(struct languages *ls, uint32_t from, unsigned depth)
{
    bool blank = false, all = false, failed = false, changed = true;
    while (changed) {
        if (!budget_step(ls->budget, 1 + (ls->work.n - from) / 16) ||
            !spread(ls, from, &blank, &all) || !unite_sets(ls, from))
            return dropped(ls, from, LANG_FAIL);
        if (all)
            return dropped(ls, from, LANG_ALL);
        sort_unique(ls, from);
        changed = ls->work.n - from > 1 &&
                  (unite_pairs(ls, from, &failed) || factor_groups(ls, from, depth, &failed));
        if (failed)
            return dropped(ls, from, LANG_FAIL);
    }
    sort_unique(ls, from);
    struct lang_node key = {.kind = KIND_OR, .b = ls->work.n - from};
    if (!key.b)
        return blank ? LANG_BLANK : LANG_NONE;
    lang a = key.b == 1 ? *list_at(ls, from) : lang_intern(ls, &key, list_at(ls, from));
    ls->work.n = from;
    if (a != LANG_FAIL && blank && !has_flag(ls, a, LANG_NULLABLE))
        a = lang_repeat(ls, a, 0, 1);
    return a;
}

/* ---- intersection ---- */

/* What an intersection has besides its list. */
struct both {
    lang outside; /* the union of what is taken away */
    bool length;  /* of so many characters behind a rest */
    unsigned from;
    uint32_t min, max;
};

/* Takes apart what is itself an intersection, and complements away from the list. */
static bool gather(struct languages *ls, uint32_t from, struct both *b)
{
    uint32_t to = from, n;
    for (uint32_t i = from; i < ls->work.n; i++) {
        lang a = *list_at(ls, i);
        if (node_of(ls, a)->kind != KIND_AND)
            *list_at(ls, to++) = a;
        else if (!push_parts(ls, a))
            return false;
    }
    ls->work.n = n = to;
    to = from;
    for (uint32_t i = from; i < n; i++) {
        lang a = *list_at(ls, i);
        const struct lang_node *x = node_of(ls, a);
        if (a == LANG_ALL)
            continue;
        if (x->kind != KIND_NOT)
            *list_at(ls, to++) = a;
        else if (!list_push(ls, &ls->work, x->a))
            return false;
    }
    b->outside = lang_or_work(ls, n, 0);
    ls->work.n = to;
    return b->outside != LANG_FAIL;
}

/* Is list[i] n characters of one class? */
static bool is_class(const struct languages *ls, lang a)
{
    const struct lang_node *x = node_of(ls, a);
    return x->flags & LANG_PLAIN && x->shortest == 1 && x->longest == 1 && !way_of(x->ways, 0);
}

/* Repeats of one class of characters become one; lengths become b's. False: nothing is left, or
 * *failed. */
static bool unite_repeats(struct languages *ls, uint32_t from, struct both *b, bool *failed)
{
    uint32_t to = from;
    for (uint32_t i = from; i < ls->work.n; i++) {
        lang a = *list_at(ls, i);
        unsigned state;
        uint32_t min, max;
        bool length = lang_is_length(ls, a, &state, &min, &max);
        if (length && (!b->length || state == b->from)) {
            b->min = larger(b->min, min);
            b->max = b->length ? smaller(b->max, max) : max;
            b->from = state;
            b->length = true;
            if (b->min > b->max)
                return false;
            continue;
        }
        const struct lang_node *x = node_of(ls, a), *y;
        for (uint32_t j = from; j < to && x->kind == KIND_REPEAT && is_class(ls, x->a); j++) {
            y = node_of(ls, *list_at(ls, j));
            if (y->kind != KIND_REPEAT || y->a != x->a)
                continue;
            a = lang_repeat(ls, x->a, larger(x->min, y->min), smaller(x->max, y->max));
            *failed |= a == LANG_FAIL;
            if (a == LANG_NONE || *failed)
                return false;
            *list_at(ls, j) = *list_at(ls, --to);
            x = node_of(ls, a);
        }
        *list_at(ls, to++) = a;
    }
    ls->work.n = to;
    return true;
}

/* Puts b's length into the list, or into a part of it, or nowhere where the list implies it. */
static bool place_length(struct languages *ls, uint32_t from, const struct both *b)
{
    for (uint32_t i = from; b->length && i < ls->work.n; i++) {
        lang a = *list_at(ls, i);
        const struct lang_node *x = node_of(ls, a);
        if (way_of(x->ways, b->from))
            continue;
        if (x->shortest >= b->min && x->longest <= b->max)
            return true;
        if (!b->from && x->kind == KIND_REPEAT && is_class(ls, x->a)) {
            *list_at(ls, i) = a =
                lang_repeat(ls, x->a, larger(x->min, b->min), smaller(x->max, b->max));
            return a != LANG_FAIL;
        }
    }
    lang length = b->length ? lang_length(ls, b->from, b->min, b->max) : LANG_ALL;
    return !b->length || (length != LANG_FAIL && list_push(ls, &ls->work, length));
}

/* Nothing is in all of the list, by what is known of its parts. */
static bool is_empty(const struct languages *ls, uint32_t from, lang outside)
{
    uint32_t shortest = 0, longest = LANG_MANY;
    const struct lang_node *o = node_of(ls, outside);
    bool blank = false, nullable = !(o->flags & LANG_NULLABLE);
    for (uint32_t i = from; i < ls->work.n; i++) {
        lang a = ls->work.p[i];
        const struct lang_node *x = node_of(ls, a);
        if (a == LANG_NONE || a == outside || x->flags & LANG_DEAD)
            return true;
        for (uint32_t j = 0; o->kind == KIND_OR && j < o->b; j++)
            if (ls->parts.p[o->a + j] == a)
                return true;
        blank |= a == LANG_BLANK;
        nullable &= x->flags & LANG_NULLABLE;
        shortest = larger(shortest, x->shortest);
        longest = smaller(longest, x->longest);
    }
    return shortest > longest || outside == LANG_ALL || (blank && !nullable);
}

/* One set of bytes for all of them; false: it is empty, or *failed. */
static bool intersect_sets(struct languages *ls, uint32_t from, bool *failed)
{
    uint32_t bits[8], to = from, n = 0, any = 0;
    memset(bits, 0xFF, sizeof bits);
    for (uint32_t i = from; i < ls->work.n; i++) {
        const struct lang_node *x = node_of(ls, *list_at(ls, i));
        if (x->kind == KIND_SET)
            for (uint32_t k = (n++, 0); k < 8; k++)
                bits[k] &= ls->parts.p[x->a + k];
        else
            *list_at(ls, to++) = *list_at(ls, i);
    }
    ls->work.n = to;
    for (uint32_t k = 0; k < 8; k++)
        any |= bits[k];
    struct lang_node key = {.kind = KIND_SET, .b = 8};
    lang set = any && n ? lang_intern(ls, &key, bits) : LANG_NONE;
    *failed |= set == LANG_FAIL || (n && any && !list_push(ls, &ls->work, set));
    return any && !*failed;
}

/* Lengths that b->outside takes away go from there to ls->stack, as pairs: least, most. */
static bool take_lengths(struct languages *ls, struct both *b)
{
    const struct lang_node *o = node_of(ls, b->outside);
    uint32_t n = o->kind == KIND_OR ? o->b : 1, at = o->a, from = ls->work.n, found = ls->stack.n;
    for (uint32_t i = 0; i < n; i++) {
        lang a = n > 1 ? ls->parts.p[at + i] : b->outside;
        unsigned state;
        uint32_t min, max;
        bool length = a && a != LANG_BLANK && lang_is_length(ls, a, &state, &min, &max) && !state;
        if (!(length ? list_push(ls, &ls->stack, min) && list_push(ls, &ls->stack, max)
                     : list_push(ls, &ls->work, a)))
            return false;
    }
    if (ls->stack.n == found)
        ls->work.n = from;
    else
        b->outside = lang_or_work(ls, from, 0);
    return b->outside != LANG_FAIL;
}

/* a where its length is in none of the pairs of ls->stack from `pairs` on. */
static lang without_lengths(struct languages *ls, lang a, uint32_t pairs)
{
    uint32_t from = ls->work.n, low = 0, high;
    const struct lang_list *s = &ls->stack;
    for (bool more = true; more;) {
        high = LANG_MANY;
        for (uint32_t i = pairs; i < s->n; i += 2) {
            if (s->p[i] <= low && low <= s->p[i + 1]) {
                low = add_sizes(s->p[i + 1], 1);
                i = pairs - 2; /* once more */
                high = LANG_MANY;
            } else if (s->p[i] > low) {
                high = smaller(high, s->p[i] - 1);
            }
            if (low == LANG_MANY)
                break;
        }
        lang part = low == LANG_MANY ? LANG_NONE : lang_length(ls, 0, low, high);
        part = lang_and(ls, a, part);
        if (part == LANG_FAIL || !list_push(ls, &ls->work, part))
            return dropped(ls, from, LANG_FAIL);
        more = low != LANG_MANY && high != LANG_MANY;
        low = add_sizes(high, 1);
    }
    return lang_or_work(ls, from, 0);
}

/* The intersection of what is left of the list, without b->outside. */
static lang finish_and(struct languages *ls, uint32_t from, const struct both *b)
{
    if (is_empty(ls, from, b->outside))
        return LANG_NONE;
    if (b->outside != LANG_NONE) {
        lang inside = lang_not(ls, b->outside);
        if (inside == LANG_FAIL || !list_push(ls, &ls->work, inside))
            return LANG_FAIL;
    }
    sort_unique(ls, from);
    struct lang_node key = {.kind = KIND_AND, .b = ls->work.n - from};
    if (key.b < 2)
        return key.b ? *list_at(ls, from) : LANG_ALL;
    return lang_intern(ls, &key, list_at(ls, from));
}

lang lang_and_work(struct languages *ls, uint32_t from)
{
    struct both b = {.max = LANG_MANY};
    uint32_t pairs = ls->stack.n;
    bool failed = false, text = false;
    if (!budget_step(ls->budget, 1 + (ls->work.n - from) / 16) || !gather(ls, from, &b))
        return dropped(ls, from, LANG_FAIL);
    sort_unique(ls, from);
    if (!intersect_sets(ls, from, &failed) || !unite_repeats(ls, from, &b, &failed))
        return dropped(ls, from, failed ? LANG_FAIL : LANG_NONE);
    failed = !place_length(ls, from, &b);
    for (uint32_t i = from; i < ls->work.n; i++)
        text |= !way_of(node_of(ls, *list_at(ls, i))->ways, 0);
    failed |= text && !failed && !take_lengths(ls, &b);
    lang a = failed ? LANG_FAIL : finish_and(ls, from, &b);
    ls->work.n = from;
    if (a != LANG_FAIL && a != LANG_NONE && ls->stack.n > pairs)
        a = without_lengths(ls, a, pairs);
    ls->stack.n = pairs;
    return a;
}
