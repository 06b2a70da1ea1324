/* Expressions: how they are made, so that equal ones get one number. See language.h. */
#include "sample/language/language_parts.h"

#include <stdlib.h>
#include <string.h>

bool list_push(struct languages *ls, struct lang_list *l, uint32_t x)
{
    if (!budget_grow(ls->budget, &l->p, &l->capacity, l->n + (size_t)1, sizeof *l->p))
        return false;
    l->p[l->n++] = x;
    return true;
}

/* ---- nodes by their fields ---- */

static uint32_t hash_of(const struct lang_node *x, const uint32_t *parts)
{
    uint32_t h = x->kind * 0x9E3779B1u;
    uint32_t fields[] = {parts ? x->b : x->a, x->b, x->min, x->max};
    for (int i = 0; i < 4; i++)
        h = (h ^ fields[i]) * 0x85EBCA6Bu, h ^= h >> 15;
    for (uint32_t i = 0; parts && i < x->b; i++)
        h = (h ^ parts[i]) * 0xC2B2AE35u, h ^= h >> 13;
    return h;
}

static bool is_same(const struct languages *ls, const struct lang_node *x,
                    const struct lang_node *key, const uint32_t *parts)
{
    if (x->kind != key->kind || x->b != key->b || x->min != key->min || x->max != key->max)
        return false;
    return parts ? !memcmp(ls->parts.p + x->a, parts, x->b * sizeof *parts) : x->a == key->a;
}

static const uint32_t *parts_of(const struct languages *ls, const struct lang_node *x)
{
    bool listed = x->kind == KIND_OR || x->kind == KIND_AND || x->kind == KIND_SET;
    return listed ? ls->parts.p + x->a : NULL;
}

/* Keeps chains short. Only speed depends on it: no memory is no failure. */
static void grow_table(struct languages *ls)
{
    uint32_t size = ls->table_size * 2;
    uint32_t *table = budget_resize(ls->budget, NULL, 0, size * sizeof *table);
    if (!table)
        return;
    memset(table, 0, size * sizeof *table);
    budget_free(ls->budget, ls->table, ls->table_size * sizeof *table);
    ls->table = table;
    ls->table_size = size;
    for (lang a = 1; a < ls->n_nodes; a++) {
        struct lang_node *x = &ls->nodes[a];
        uint32_t *head = &table[hash_of(x, parts_of(ls, x)) & (size - 1)];
        x->next = *head;
        *head = a;
    }
}

/* A new last node. */
static lang add_node(struct languages *ls, const struct lang_node *key, const uint32_t *parts)
{
    struct lang_node x = *key;
    if (ls->n_nodes >= ls->table_size)
        grow_table(ls);
    if (!budget_grow(ls->budget, &ls->nodes, &ls->node_capacity, ls->n_nodes + (size_t)1, sizeof x))
        return LANG_FAIL;
    if (parts) {
        uint32_t n = x.b;
        x.a = ls->parts.n;
        if (!budget_grow(ls->budget, &ls->parts.p, &ls->parts.capacity, ls->parts.n + (size_t)n, 4))
            return LANG_FAIL;
        memcpy(ls->parts.p + x.a, parts, n * sizeof *parts);
        ls->parts.n += n;
    }
    lang_set_facts(ls, &x, parts);
    uint32_t *head = &ls->table[hash_of(key, parts) & (ls->table_size - 1)];
    x.next = *head;
    *head = ls->n_nodes;
    ls->nodes[ls->n_nodes] = x;
    return ls->n_nodes++;
}

lang lang_intern(struct languages *ls, const struct lang_node *key, const uint32_t *parts)
{
    uint32_t i = ls->table[hash_of(key, parts) & (ls->table_size - 1)];
    if (!budget_step(ls->budget, 1))
        return LANG_FAIL;
    while (i && !is_same(ls, &ls->nodes[i], key, parts))
        i = ls->nodes[i].next;
    return i ? i : add_node(ls, key, parts);
}

/* ---- the parts that everything is made of ---- */

lang lang_set(struct languages *ls, const uint64_t set[4])
{
    uint32_t bits[8];
    struct lang_node key = {.kind = KIND_SET, .b = 8};
    memcpy(bits, set, sizeof bits);
    return set[0] | set[1] | set[2] | set[3] ? lang_intern(ls, &key, bits) : LANG_NONE;
}

static lang byte_range(struct languages *ls, unsigned from, unsigned to)
{
    uint32_t bits[8] = {0};
    struct lang_node key = {.kind = KIND_SET, .b = 8};
    for (; from <= to; from++)
        set_add(bits, from);
    return lang_intern(ls, &key, bits);
}

lang lang_text(struct languages *ls, const char *p, size_t n)
{
    lang a = LANG_BLANK;
    while (n > 0) {
        unsigned byte = (unsigned char)p[--n];
        a = lang_concat(ls, byte_range(ls, byte, byte), a);
    }
    return a;
}

lang lang_leaf(struct languages *ls, uint32_t state)
{
    struct lang_node key = {.kind = KIND_LEAF, .a = state};
    return state == LEAF_DEAD        ? LANG_NONE
           : state == LEAF_NO_BUDGET ? LANG_FAIL
                                     : lang_intern(ls, &key, NULL);
}

/* ---- lengths ---- */

/* The UTF-8 state that the sets at the front of *a lead out of; *a: what is behind them. */
static unsigned take_tail(const struct languages *ls, lang *a)
{
    unsigned n = 0, special = 0;
    for (bool more = true; more;) {
        const struct lang_node *x = node_of(ls, *a);
        more = x->kind == KIND_CONCAT;
        lang head = more ? x->a : *a;
        unsigned state = 4;
        while (state < UTF8_STATES && ls->byte[state] != head)
            state++;
        if (head == ls->byte[1])
            n++;
        else if (!n && !special && state < UTF8_STATES)
            special = state;
        else
            break;
        *a = more ? x->b : LANG_BLANK;
    }
    if (special)
        return n == (special < 6 ? 1 : 2) ? special : UTF8_MIXED;
    return n < 4 ? n : UTF8_MIXED;
}

bool lang_is_length(const struct languages *ls, lang a, unsigned *from, uint32_t *min,
                    uint32_t *max)
{
    *from = take_tail(ls, &a);
    const struct lang_node *x = node_of(ls, a);
    bool many = x->kind == KIND_REPEAT && x->a == ls->character;
    *min = many ? x->min : a == ls->character;
    *max = many ? x->max : *min;
    return *from != UTF8_MIXED && (many || a == ls->character || a == LANG_BLANK);
}

lang lang_length(struct languages *ls, unsigned from, uint32_t min, uint32_t max)
{
    return lang_concat(ls, ls->tail[from], lang_repeat(ls, ls->character, min, max));
}

/* ---- concatenation ---- */

struct counted { /* base, min to max times */
    lang base;
    uint32_t min, max;
    bool repeat;
};

static struct counted counted_of(const struct languages *ls, lang a)
{
    const struct lang_node *x = node_of(ls, a);
    if (x->kind == KIND_REPEAT)
        return (struct counted){x->a, x->min, x->max, true};
    return (struct counted){a, 1, 1, false};
}

/* head, which is no CONCAT, before rest. Repeats of one base that touch become one. */
static lang join(struct languages *ls, lang head, lang rest)
{
    for (;;) {
        if (head == LANG_FAIL || rest == LANG_FAIL)
            return LANG_FAIL;
        const struct lang_node *h = node_of(ls, head), *r = node_of(ls, rest);
        bool all = rest == LANG_ALL || (rest == LANG_CHARS && !way_of(h->ways, 0));
        if (all && h->flags & LANG_NULLABLE)
            return rest;
        all = head == LANG_ALL || (head == LANG_CHARS && !way_of(r->ways, 0));
        if (all && r->flags & LANG_NULLABLE)
            return head;
        bool more = r->kind == KIND_CONCAT;
        struct counted x = counted_of(ls, head), y = counted_of(ls, more ? r->a : rest);
        uint32_t min = add_sizes(x.min, y.min), max = add_sizes(x.max, y.max);
        bool fits =
            min != LANG_MANY && (max != LANG_MANY || x.max == LANG_MANY || y.max == LANG_MANY);
        if (rest != LANG_BLANK && x.base == y.base && (x.repeat || y.repeat) && fits) {
            rest = more ? r->b : LANG_BLANK;
            head = lang_repeat(ls, x.base, min, max);
            continue;
        }
        struct lang_node key = {.kind = KIND_CONCAT, .a = head, .b = rest};
        return rest == LANG_BLANK ? head : lang_intern(ls, &key, NULL);
    }
}

lang lang_concat(struct languages *ls, lang a, lang b)
{
    uint32_t from = ls->work.n;
    if (a == LANG_FAIL || b == LANG_FAIL)
        return LANG_FAIL;
    if (a == LANG_NONE || b == LANG_NONE)
        return LANG_NONE;
    if (a == LANG_BLANK)
        return b;
    for (; node_of(ls, a)->kind == KIND_CONCAT; a = node_of(ls, a)->b)
        if (!list_push(ls, &ls->work, node_of(ls, a)->a))
            return ls->work.n = from, LANG_FAIL;
    b = join(ls, a, b);
    while (ls->work.n > from)
        b = join(ls, ls->work.p[--ls->work.n], b);
    return b;
}

/* ---- repeats and complements ---- */

/* (x{p,q}){min,max} as one repeat of x, where that leaves out no count and needs no larger bound. */
static bool flatten(const struct lang_node *x, uint32_t *min, uint32_t *max)
{
    uint32_t low = multiply_sizes(x->min, *min);
    uint32_t high = multiply_sizes(x->max, *max);
    uint64_t spread = x->max == LANG_MANY ? LANG_MANY : (uint64_t)*min * (x->max - x->min);
    bool whole = *min == *max || x->min <= 1 || (*min && spread >= x->min - 1);
    if (!*min && x->min > 1)
        whole = false;
    if (!whole || low == LANG_MANY ||
        (high == LANG_MANY && x->max != LANG_MANY && *max != LANG_MANY))
        return false;
    *min = low;
    *max = high;
    return true;
}

lang lang_repeat(struct languages *ls, lang a, uint32_t min, uint32_t max)
{
    if (a == LANG_FAIL)
        return a;
    if (min > max || (a == LANG_NONE && min))
        return LANG_NONE;
    if (!max || a == LANG_NONE || a == LANG_BLANK)
        return LANG_BLANK;
    if (has_flag(ls, a, LANG_NULLABLE))
        min = 0;
    if (a == ls->character && !min && max == LANG_MANY)
        return LANG_CHARS;
    if (a == LANG_ALL || a == LANG_CHARS || (min == 1 && max == 1))
        return a;
    if (node_of(ls, a)->kind == KIND_REPEAT && flatten(node_of(ls, a), &min, &max))
        a = node_of(ls, a)->a;
    if (max == 1 && !min && has_flag(ls, a, LANG_NULLABLE))
        return a;
    struct lang_node key = {.kind = KIND_REPEAT, .a = a, .min = min, .max = max};
    return min == 1 && max == 1 ? a : lang_intern(ls, &key, NULL);
}

lang lang_not(struct languages *ls, lang a)
{
    if (a == LANG_FAIL)
        return a;
    if (a == LANG_NONE || has_flag(ls, a, LANG_DEAD))
        return LANG_ALL;
    if (node_of(ls, a)->kind == KIND_NOT)
        return node_of(ls, a)->a;
    struct lang_node key = {.kind = KIND_NOT, .a = a};
    return lang_intern(ls, &key, NULL);
}

/* ---- or, and: language_choice.c does the work ---- */

static lang choose(struct languages *ls, const lang *x, size_t n, bool both)
{
    uint32_t from = ls->work.n;
    for (size_t i = 0; i < n; i++)
        if (x[i] == LANG_FAIL || !list_push(ls, &ls->work, x[i]))
            return ls->work.n = from, LANG_FAIL;
    return both ? lang_and_work(ls, from) : lang_or_work(ls, from, 0);
}

lang lang_or(struct languages *ls, lang a, lang b)
{
    return choose(ls, (lang[]){a, b}, 2, false);
}

lang lang_or_all(struct languages *ls, const lang *x, size_t n)
{
    return choose(ls, x, n, false);
}

lang lang_and(struct languages *ls, lang a, lang b)
{
    return choose(ls, (lang[]){a, b}, 2, true);
}
