/* The texts of small languages, and languages as a mask sees them. */
#include "sample/language/language_parts.h"

#include <string.h>

void lang_first(struct languages *ls, lang a, uint64_t set[4])
{
    memset(set, 0, 4 * sizeof *set);
    for (unsigned byte = 0; byte < 256; byte++) {
        if (lang_step(ls, a, (unsigned char)byte) != LANG_NONE)
            set[byte >> 6] |= (uint64_t)1 << (byte & 63);
    }
}

/* ---- all texts, in byte order ---- */

struct text_walk {
    struct lang_list path;    /* states; behind the first one, each is one byte further */
    struct lang_list text;    /* the byte that is tried next in each of them, - 1 */
    struct lang_list on_path; /* bits: states of the path */
};

static bool flip_bit(struct languages *ls, struct text_walk *w, lang a, bool *was)
{
    while (w->on_path.n <= a / 32)
        if (!list_push(ls, &w->on_path, 0))
            return false;
    *was = w->on_path.p[a / 32] >> (a & 31) & 1;
    w->on_path.p[a / 32] ^= (uint32_t)1 << (a & 31);
    return true;
}

enum found { FOUND_TEXT, FOUND_END, FOUND_LOOP, FOUND_FAILURE };

/* To the next text: w->text without its last is its bytes. */
static enum found next_text(struct languages *ls, struct text_walk *w)
{
    bool was;
    while (w->path.n) {
        lang a = w->path.p[w->path.n - 1], to = LANG_NONE;
        uint32_t *byte = &w->text.p[w->text.n - 1];
        while (to == LANG_NONE && *byte < 256)
            to = lang_step(ls, a, (unsigned char)(*byte)++);
        if (to == LANG_FAIL || !budget_step(ls->budget, 4))
            return FOUND_FAILURE;
        if (to == LANG_NONE) {
            if (!flip_bit(ls, w, a, &was))
                return FOUND_FAILURE;
            w->path.n--;
            w->text.n--;
            continue;
        }
        if (!flip_bit(ls, w, to, &was) || !list_push(ls, &w->path, to) ||
            !list_push(ls, &w->text, 0))
            return FOUND_FAILURE;
        if (was)
            return FOUND_LOOP;
        if (lang_accepts(ls, to))
            return FOUND_TEXT;
    }
    return FOUND_END;
}

static enum found first_text(struct languages *ls, struct text_walk *w, lang a)
{
    bool was;
    enum lang_answer live = lang_is_live(ls, a);
    *w = (struct text_walk){0};
    if (live != LANG_YES)
        return live == LANG_NO ? FOUND_END : FOUND_FAILURE;
    if (!flip_bit(ls, w, a, &was) || !list_push(ls, &w->path, a) || !list_push(ls, &w->text, 0))
        return FOUND_FAILURE;
    return lang_accepts(ls, a) ? FOUND_TEXT : next_text(ls, w);
}

static void walk_end(struct languages *ls, struct text_walk *w)
{
    budget_free(ls->budget, w->path.p, w->path.capacity * sizeof(uint32_t));
    budget_free(ls->budget, w->text.p, w->text.capacity * sizeof(uint32_t));
    budget_free(ls->budget, w->on_path.p, w->on_path.capacity * sizeof(uint32_t));
}

bool lang_count(struct languages *ls, lang a, uint32_t most, uint32_t *count)
{
    struct text_walk w;
    *count = 0;
    if (a == LANG_FAIL)
        return false;
    const struct lang_node *x = node_of(ls, a);
    if (a != LANG_NONE && x->flags & LANG_OPEN)
        return *count = add_sizes(most, 1), true;
    enum found f = first_text(ls, &w, a);
    for (; f == FOUND_TEXT && *count <= most; f = *count <= most ? next_text(ls, &w) : f)
        ++*count;
    if (f == FOUND_LOOP)
        *count = add_sizes(most, 1);
    walk_end(ls, &w);
    return f != FOUND_FAILURE;
}

bool lang_each(struct languages *ls, lang a, bool (*each)(void *arg, const char *p, size_t n),
               void *arg)
{
    struct text_walk w;
    char *text = NULL;
    uint32_t capacity = 0;
    bool good = true;
    enum found f = first_text(ls, &w, a);
    for (; good && f == FOUND_TEXT; f = good ? next_text(ls, &w) : f) {
        uint32_t n = w.text.n - 1;
        good = budget_grow(ls->budget, &text, &capacity, n + (size_t)1, 1);
        for (uint32_t i = 0; good && i < n; i++)
            text[i] = (char)(w.text.p[i] - 1);
        good = good && each(arg, text, n);
    }
    budget_free(ls->budget, text, capacity);
    walk_end(ls, &w);
    return good && f == FOUND_END;
}

/* ---- near ---- */

/* P of lengths min to max, for n bytes: which bounds does no text of n bytes come to? */
static lang near_and(struct languages *ls, lang a, uint32_t n)
{
    const struct lang_node x = *node_of(ls, a), *p;
    unsigned from = 0;
    uint32_t min = 0, max = 0;
    if (x.b != 2)
        return a;
    lang first = ls->parts.p[x.a], other = ls->parts.p[x.a + 1];
    if (!lang_is_length(ls, other, &from, &min, &max)) {
        lang t = first;
        first = other;
        other = t;
        if (!lang_is_length(ls, other, &from, &min, &max))
            return a;
    }
    p = node_of(ls, first);
    if (!(p->flags & LANG_PLAIN) || way_of(p->ways, from))
        return a;
    bool wide = !min || max == LANG_MANY || max - min >= p->gap - 1;
    if (max != LANG_MANY && (!wide || max < n || max - n < p->worst))
        return a;
    if (min > n && !(p->flags & LANG_OPEN))
        return a;
    min = smaller(min, n + 1);
    return min ? lang_and(ls, first, lang_length(ls, from, min, LANG_MANY)) : first;
}

static bool near_is_same(const struct languages *ls, lang a, uint32_t n)
{
    return a == LANG_FAIL || node_of(ls, a)->big <= n || node_of(ls, a)->kind == KIND_NOT;
}

/* The part's result, if it is known; else it is put on the stack. */
static bool near_known(struct languages *ls, lang a, uint32_t n, lang *out)
{
    *out = a;
    if (near_is_same(ls, a, n))
        return true;
    if (node_of(ls, a)->memo_time == ls->time)
        return *out = node_of(ls, a)->memo, true;
    if (!list_push(ls, &ls->stack, a))
        *out = LANG_FAIL;
    return false;
}

static bool near_or(struct languages *ls, struct lang_node x, uint32_t n, lang *out)
{
    uint32_t from = ls->work.n;
    bool all = true;
    *out = LANG_FAIL;
    for (uint32_t i = 0; i < x.b; i++) {
        lang d;
        all &= near_known(ls, ls->parts.p[x.a + i], n, &d);
        if (d == LANG_FAIL || !list_push(ls, &ls->work, d))
            return ls->work.n = from, true;
    }
    if (all)
        *out = lang_or_work(ls, from, 0);
    else
        ls->work.n = from;
    return all;
}

static bool near_node(struct languages *ls, lang a, uint32_t n, lang *out)
{
    const struct lang_node x = *node_of(ls, a);
    lang first = LANG_NONE, second = LANG_NONE;
    bool ready = true;
    if (x.kind == KIND_OR)
        return near_or(ls, x, n, out);
    if (x.kind == KIND_LEAF) {
        *out = lang_leaf(ls, ls->leaves->near(ls->leaf_owner, x.a, n));
    } else if (x.kind == KIND_AND) {
        lang b = near_and(ls, a, n);
        *out = b;
        if (b != LANG_FAIL && node_of(ls, b)->kind != KIND_AND)
            ready = near_known(ls, b, n, out);
    } else {
        ready = near_known(ls, x.a, n, &first);
        if (x.kind == KIND_CONCAT)
            ready &= near_known(ls, x.b, n, &second);
        if (!ready)
            return first == LANG_FAIL || second == LANG_FAIL ? (*out = LANG_FAIL, true) : false;
        *out = x.kind == KIND_CONCAT ? lang_concat(ls, first, second)
                                     : lang_repeat(ls, first, smaller(x.min, add_sizes(n, 1)),
                                                   x.max > n ? LANG_MANY : x.max);
    }
    return ready;
}

lang lang_near(struct languages *ls, lang a, uint32_t n)
{
    uint32_t base = ls->stack.n;
    lang d = a;
    if (near_is_same(ls, a, n))
        return a;
    if (ls->near_bytes == n && node_of(ls, a)->near)
        return node_of(ls, a)->near;
    ls->time++;
    if (!list_push(ls, &ls->stack, a))
        return LANG_FAIL;
    while (ls->stack.n > base) {
        uint32_t at = ls->stack.n - 1;
        lang top = ls->stack.p[at];
        if (node_of(ls, top)->memo_time == ls->time) {
            d = node_of(ls, top)->memo;
        } else if (!near_node(ls, top, n, &d)) {
            if (budget_step(ls->budget, 1))
                continue;
            d = LANG_FAIL;
        }
        if (d == LANG_FAIL) {
            ls->stack.n = base;
            return d;
        }
        ls->nodes[top].memo_time = ls->time;
        ls->nodes[top].memo = d;
        ls->stack.n = at;
    }
    if (!ls->near_bytes)
        ls->near_bytes = n;
    if (ls->near_bytes == n)
        ls->nodes[a].near = d;
    return d;
}
