/* Derivatives and the automata that are made of them while they are used. */
#include "sample/language/language_parts.h"

#include <string.h>

/* ---- one derivative: post-order over the expression, each part once ---- */

/* Of what has no parts; false: it has parts. */
static bool derive_small(struct languages *ls, lang a, unsigned byte, lang *out)
{
    const struct lang_node *x = node_of(ls, a);
    *out = LANG_NONE;
    if (x->kind == KIND_NONE || x->kind == KIND_BLANK)
        return true;
    if (a == LANG_ALL)
        return *out = LANG_ALL, true;
    if (x->kind == KIND_SET)
        return *out = set_has(ls->parts.p + x->a, byte) ? LANG_BLANK : LANG_NONE, true;
    if (x->kind != KIND_LEAF)
        return false;
    *out = lang_leaf(ls, ls->leaves->step(ls->leaf_owner, x->a, (unsigned char)byte));
    return true;
}

/* The derivative of part a if it is known; else it is put on the stack. */
static bool known(struct languages *ls, lang a, unsigned byte, lang *out)
{
    struct lang_node *x = &ls->nodes[a];
    if (x->memo_time == ls->time)
        return *out = x->memo, true;
    if (derive_small(ls, a, byte, out))
        return true;
    *out = LANG_NONE;
    if (!list_push(ls, &ls->stack, a))
        *out = LANG_FAIL;
    return false;
}

/* ... of a union or intersection. Its derivatives lie at the end of ls->work while they are asked for.
 */
static bool derive_choice(struct languages *ls, struct lang_node x, unsigned byte, lang *out)
{
    uint32_t from = ls->work.n;
    bool all = true, both = x.kind == KIND_AND;
    *out = LANG_NONE;
    for (uint32_t i = 0; i < x.b; i++) {
        lang d;
        bool one = known(ls, ls->parts.p[x.a + i], byte, &d);
        if (d == LANG_FAIL || (d != LANG_NONE && !list_push(ls, &ls->work, d))) {
            ls->work.n = from;
            return *out = LANG_FAIL, true;
        }
        if (one && d == LANG_NONE && both)
            return ls->work.n = from, true; /* whatever the others are */
        all &= one;
    }
    if (!all)
        return ls->work.n = from, false;
    *out = both ? lang_and_work(ls, from) : lang_or_work(ls, from, 0);
    return true;
}

/* The derivative of a node with parts; false: parts were put on the stack, *out may be LANG_FAIL. */
static bool derive_node(struct languages *ls, lang a, unsigned byte, lang *out)
{
    const struct lang_node x = *node_of(ls, a);
    lang first, second = LANG_NONE;
    if (x.kind == KIND_OR || x.kind == KIND_AND)
        return derive_choice(ls, x, byte, out);
    bool ready = known(ls, x.a, byte, &first);
    if (x.kind == KIND_CONCAT && has_flag(ls, x.a, LANG_NULLABLE))
        ready &= known(ls, x.b, byte, &second);
    *out = first == LANG_FAIL || second == LANG_FAIL ? LANG_FAIL : LANG_NONE;
    if (!ready || *out == LANG_FAIL)
        return ready;
    if (x.kind == KIND_NOT)
        *out = lang_not(ls, first);
    else if (x.kind == KIND_CONCAT)
        *out = lang_or(ls, lang_concat(ls, first, x.b), second);
    else if (first != LANG_NONE)
        *out = lang_concat(ls, first,
                           lang_repeat(ls, x.a, x.min ? x.min - 1 : 0,
                                       x.max == LANG_MANY ? LANG_MANY : x.max - 1));
    return true;
}

lang lang_derive(struct languages *ls, lang a, unsigned char byte)
{
    uint32_t base = ls->stack.n;
    lang d;
    if (a == LANG_FAIL || derive_small(ls, a, byte, &d))
        return a == LANG_FAIL ? a : d;
    if (!++ls->time) { /* after 2^32 questions */
        for (uint32_t i = 0; i < ls->n_nodes; i++)
            ls->nodes[i].memo_time = 0;
        ls->time = 1;
    }
    if (!list_push(ls, &ls->stack, a))
        return LANG_FAIL;
    while (ls->stack.n > base) {
        uint32_t at = ls->stack.n - 1;
        lang top = ls->stack.p[at];
        bool ready = true;
        if (ls->nodes[top].memo_time != ls->time)
            ready = derive_node(ls, top, byte, &d);
        else
            d = ls->nodes[top].memo;
        if (d == LANG_FAIL || !budget_step(ls->budget, 1)) {
            ls->stack.n = base;
            return LANG_FAIL;
        }
        if (ready) {
            ls->nodes[top].memo_time = ls->time;
            ls->nodes[top].memo = d;
            ls->stack.n = at;
        }
    }
    return d;
}

/* ---- classes of bytes ---- */

static void cut_at_ends(uint32_t cuts[8], const uint32_t set[8])
{
    uint32_t carry = 0;
    for (int i = 0; i < 8; i++) {
        cuts[i] |= set[i] ^ (set[i] << 1 | carry);
        carry = set[i] >> 31;
    }
}

/* Only what a text may begin with is looked at. */
bool lang_cuts(struct languages *ls, lang a, uint32_t cuts[8])
{
    uint32_t base = ls->stack.n, time = ++ls->cut_time;
    memset(cuts, 0, 8 * sizeof *cuts);
    bool good = list_push(ls, &ls->stack, a);
    while (good && ls->stack.n > base) {
        struct lang_node *x = &ls->nodes[ls->stack.p[--ls->stack.n]];
        if (x->cut_time == time)
            continue;
        x->cut_time = time;
        good = budget_step(ls->budget, 1);
        if (x->kind == KIND_SET)
            cut_at_ends(cuts, ls->parts.p + x->a);
        else if (x->kind == KIND_LEAF)
            for (const char *c = ls->leaves->cuts(ls->leaf_owner, x->a); *c; c++)
                set_add(cuts, (unsigned char)*c);
        else if (x->kind == KIND_OR || x->kind == KIND_AND)
            for (uint32_t i = 0; good && i < x->b; i++)
                good = list_push(ls, &ls->stack, ls->parts.p[x->a + i]);
        else if (x->kind >= KIND_CONCAT)
            good = good && list_push(ls, &ls->stack, x->a);
        if (good && x->kind == KIND_CONCAT && has_flag(ls, x->a, LANG_NULLABLE))
            good = list_push(ls, &ls->stack, x->b);
    }
    ls->stack.n = base;
    cuts[0] &= ~(uint32_t)1;
    return good;
}

/* The map with these cuts; UINT32_MAX: no budget. */
static uint32_t map_of(struct languages *ls, const uint32_t cuts[8])
{
    uint32_t hash = 0;
    for (int i = 0; i < 8; i++)
        hash = (hash ^ cuts[i]) * 0x85EBCA6Bu;
    uint32_t *head = &ls->map_table[hash >> 24], i = *head;
    while (i && memcmp(ls->maps[i - 1].cuts, cuts, sizeof ls->maps->cuts))
        i = ls->maps[i - 1].next;
    if (i)
        return i - 1;
    if (ls->n_maps == UINT16_MAX || !budget_grow(ls->budget, &ls->maps, &ls->map_capacity,
                                                 ls->n_maps + (size_t)1, sizeof *ls->maps))
        return UINT32_MAX;
    struct lang_map *m = &ls->maps[ls->n_maps];
    memcpy(m->cuts, cuts, sizeof m->cuts);
    m->n = 0;
    for (unsigned byte = 0; byte < 256; byte++)
        m->class_of[byte] = (uint8_t)(m->n += set_has(cuts, byte));
    m->n++;
    m->next = *head;
    *head = ++ls->n_maps;
    return ls->n_maps - 1;
}

/* ---- states ---- */

#define UNASKED (UINT32_MAX - 1)

static bool make_row(struct languages *ls, lang a)
{
    uint32_t cuts[8], map, n;
    if (!lang_cuts(ls, a, cuts) || (map = map_of(ls, cuts)) == UINT32_MAX)
        return false;
    n = ls->maps[map].n;
    if (!ls->targets.n && !list_push(ls, &ls->targets, 0)) /* row 0 means none */
        return false;
    if (!budget_grow(ls->budget, &ls->targets.p, &ls->targets.capacity, ls->targets.n + (size_t)n,
                     sizeof *ls->targets.p))
        return false;
    for (uint32_t i = 0; i < n; i++)
        ls->targets.p[ls->targets.n + i] = UNASKED;
    ls->nodes[a].map = (uint16_t)map;
    ls->nodes[a].row = ls->targets.n;
    ls->targets.n += n;
    return true;
}

lang lang_step(struct languages *ls, lang a, unsigned char byte)
{
    if (a == LANG_FAIL || (!ls->nodes[a].row && !make_row(ls, a)))
        return LANG_FAIL;
    uint32_t at = ls->nodes[a].row + ls->maps[ls->nodes[a].map].class_of[byte];
    lang to = ls->targets.p[at];
    if (to != UNASKED)
        return to;
    to = lang_derive(ls, a, byte);
    enum lang_answer live = to == LANG_FAIL ? LANG_UNKNOWN : lang_is_live(ls, to);
    if (live == LANG_UNKNOWN)
        return LANG_FAIL;
    return ls->targets.p[at] = live == LANG_YES ? to : LANG_NONE;
}

bool lang_accepts(const struct languages *ls, lang a)
{
    return a != LANG_FAIL && has_flag(ls, a, LANG_NULLABLE);
}

uint32_t lang_shortest(const struct languages *ls, lang a)
{
    return node_of(ls, a)->shortest;
}
