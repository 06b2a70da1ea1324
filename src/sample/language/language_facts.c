/* What is known of an expression from its parts: see language_parts.h. */
#include "sample/language/language_parts.h"

#include <string.h>

unsigned utf8_step(unsigned state, unsigned byte)
{
    static const uint8_t low[] = {0, 0x80, 0x80, 0x80, 0xA0, 0x80, 0x90, 0x80};
    static const uint8_t high[] = {0, 0xBF, 0xBF, 0xBF, 0xBF, 0x9F, 0xBF, 0x8F};
    static const uint8_t then[] = {0, 0, 1, 2, 1, 1, 2, 2};
    if (state)
        return byte >= low[state] && byte <= high[state] ? then[state] : UTF8_MIXED;
    if (byte < 0x80)
        return 0;
    if (byte < 0xC2 || byte > 0xF4)
        return UTF8_MIXED;
    if (byte < 0xE0)
        return 1;
    if (byte < 0xF0)
        return byte == 0xE0 ? 4 : byte == 0xED ? 5 : 2;
    return byte == 0xF0 ? 6 : byte == 0xF4 ? 7 : 3;
}

/* ---- UTF-8: where do all texts end that begin in a state? ---- */

static uint32_t ways_of_set(const uint32_t set[8])
{
    /* The first bytes of classes that no state tells apart; the class from 0 on is left out. */
    static const uint8_t classes[] = {0x80, 0x90, 0xA0, 0xC0, 0xC2, 0xE0, 0xE1,
                                      0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5};
    uint32_t ways = 0, some[8] = {0};
    for (unsigned byte = 0, class = 0, next = 0; byte < 256; byte++) {
        if (next < sizeof classes && byte == classes[next])
            class = classes[next++];
        if (set_has(set, byte))
            set_add(some, class);
    }
    for (unsigned from = 0; from < UTF8_STATES; from++) {
        unsigned to = UTF8_STATES;
        for (size_t i = 0; i <= sizeof classes; i++) {
            unsigned class = i ? classes[i - 1] : 0;
            unsigned one = set_has(some, class) ? utf8_step(from, class) : to;
            to = to == UTF8_STATES || one == to ? one : UTF8_MIXED;
        }
        ways |= to << 4 * from;
    }
    return ways;
}

static uint32_t ways_of_two(uint32_t a, uint32_t b)
{
    uint32_t ways = 0;
    for (unsigned from = 0; from < UTF8_STATES; from++) {
        unsigned mid = way_of(a, from);
        ways |= (mid == UTF8_MIXED ? UTF8_MIXED : way_of(b, mid)) << 4 * from;
    }
    return ways;
}

/* Those states whose end is the same in both; `any`: known in one is enough. */
static uint32_t ways_of_either(uint32_t a, uint32_t b, bool any)
{
    uint32_t ways = 0;
    for (unsigned from = 0; from < UTF8_STATES; from++) {
        unsigned x = way_of(a, from), y = way_of(b, from);
        unsigned both = x == y ? x : UTF8_MIXED;
        ways |= (!any ? both : x == UTF8_MIXED ? y : x) << 4 * from;
    }
    return ways;
}

static uint32_t ways_of_repeat(uint32_t once)
{
    uint32_t ways = 0;
    for (unsigned from = 0; from < UTF8_STATES; from++)
        ways |= (way_of(once, from) == from ? from : UTF8_MIXED) << 4 * from;
    return ways;
}

/* ---- each kind ---- */

enum { INHERITED = LANG_PLAIN | LANG_CLOSED | LANG_OPEN | LANG_FINITE };

/* Has each rest every length from its shortest on? */
static bool is_upward(const struct lang_node *x)
{
    return x->flags & LANG_OPEN && x->flags & LANG_PLAIN && x->gap == 1;
}

/* It begins with all bytes that may come next inside a character. */
static bool is_rest(const struct languages *ls, const struct lang_node *x)
{
    for (unsigned state = 1; state < UTF8_STATES; state++)
        if (ls->byte[state] == x->a && !way_of(x->ways, state))
            return true;
    return false;
}

/* See LANG_ANYWHERE: any characters, then what goes on with any; or that behind a rest. */
static bool is_anywhere(const struct languages *ls, const struct lang_node *x,
                        const struct lang_node *b)
{
    return x->a == LANG_CHARS ? b->flags & LANG_ENDLESS && b->flags & LANG_CLOSED
                              : b->flags & LANG_ANYWHERE && is_rest(ls, x);
}

static void concat_facts(const struct languages *ls, struct lang_node *x, const struct lang_node *a,
                         const struct lang_node *b)
{
    x->flags = a->flags & b->flags & (LANG_NULLABLE | LANG_PLAIN | LANG_CLOSED | LANG_FINITE);
    x->flags |= b->flags & (LANG_OPEN | LANG_ENDLESS);
    x->ways = ways_of_two(a->ways, b->ways);
    x->flags |= is_anywhere(ls, x, b) ? LANG_ANYWHERE : 0;
    x->shortest = add_sizes(a->shortest, b->shortest);
    x->longest = add_sizes(a->longest, b->longest);
    x->worst = larger(add_sizes(a->worst, b->shortest), b->worst);
    x->gap = is_upward(b) ? 1 : larger(larger(a->gap, b->gap), x->worst);
    x->big = larger(a->big, b->big);
}

static void repeat_facts(const struct languages *ls, struct lang_node *x, const struct lang_node *a)
{
    uint32_t more = x->min ? x->min - 1 : 0;
    x->flags = a->flags & (LANG_PLAIN | LANG_CLOSED | LANG_FINITE);
    if (x->max == LANG_MANY)
        x->flags = (uint16_t)((x->flags & ~LANG_FINITE) | LANG_OPEN);
    if (x->max == LANG_MANY && x->a == ls->character)
        x->flags |= LANG_ENDLESS | LANG_ANYWHERE;
    if (!x->min || a->flags & LANG_NULLABLE)
        x->flags |= LANG_NULLABLE;
    x->ways = ways_of_repeat(a->ways);
    x->shortest = multiply_sizes(a->shortest, x->min);
    x->longest = a->longest ? multiply_sizes(a->longest, x->max) : 0;
    x->worst = add_sizes(a->worst, multiply_sizes(a->shortest, more));
    x->gap = a->shortest == 1 && a->longest == 1 ? a->gap : larger(a->gap, x->worst);
    x->big = larger(a->big, x->max == LANG_MANY ? x->min : x->max);
}

static void or_facts(const struct languages *ls, struct lang_node *x, const uint32_t *parts)
{
    const struct lang_node *first = node_of(ls, parts[0]);
    x->flags = first->flags & (INHERITED | LANG_NULLABLE | LANG_ENDLESS | LANG_ANYWHERE);
    x->ways = first->ways;
    x->shortest = LANG_MANY;
    enum { ANY_IS_ENOUGH = LANG_NULLABLE | LANG_ANYWHERE };
    bool upward = true;
    for (uint32_t i = 0; i < x->b; i++) {
        const struct lang_node *y = node_of(ls, parts[i]);
        x->flags = (x->flags & (y->flags | ANY_IS_ENOUGH)) | (y->flags & ANY_IS_ENOUGH);
        x->ways = ways_of_either(x->ways, y->ways, false);
        x->shortest = smaller(x->shortest, y->shortest);
        x->longest = larger(x->longest, y->longest);
        x->worst = larger(x->worst, y->worst);
        x->gap = larger(x->gap, larger(y->gap, y->worst));
        x->big = larger(x->big, y->big);
        upward &= is_upward(y);
    }
    if (upward)
        x->gap = 1;
}

/* In some state of UTF-8 all of them begin, and end between two characters. What begins in one of the
 * states 4 to 7 seems to begin in 2 or 3, too. */
static bool begin_together(const struct languages *ls, const struct lang_node *x,
                           const uint32_t *parts)
{
    unsigned together = 0xFF;
    for (uint32_t i = 0; i < x->b; i++) {
        unsigned states = 0;
        for (unsigned from = 0; from < UTF8_STATES; from++)
            states |= (unsigned)!way_of(node_of(ls, parts[i])->ways, from) << from;
        states &= states & 3u << 4 ? ~(1u << 2) : ~0u;
        together &= states & 3u << 6 ? states & ~(1u << 3) : states;
    }
    return together;
}

/* Closed are: what may come anywhere; P and a length, where each rest of P has lengths in every window that is so wide; and an
 * open P without finitely many texts. */
static void and_facts(const struct languages *ls, struct lang_node *x, const uint32_t *parts)
{
    unsigned from = 0;
    uint32_t min = 0, max = 0;
    const struct lang_node *p = NULL;
    bool length = false, finite = false, open = false;
    x->flags = LANG_NULLABLE | LANG_ENDLESS | LANG_ANYWHERE;
    x->ways = UINT32_MAX;
    x->longest = LANG_MANY;
    for (uint32_t i = 0; i < x->b; i++) {
        const struct lang_node *y = node_of(ls, parts[i]);
        x->flags &= y->flags;
        x->ways = ways_of_either(x->ways, y->ways, true);
        x->shortest = larger(x->shortest, y->shortest);
        x->longest = smaller(x->longest, y->longest);
        x->big = larger(x->big, y->big);
        open |= (y->flags & LANG_PLAIN) && (y->flags & LANG_OPEN);
        if (y->kind == KIND_NOT)
            finite = has_flag(ls, y->a, LANG_FINITE);
        else if (!length && lang_is_length(ls, parts[i], &from, &min, &max))
            length = true;
        else
            p = y;
    }
    if (x->flags & LANG_ANYWHERE && begin_together(ls, x, parts))
        x->flags |= LANG_CLOSED;
    else
        x->flags &= (uint16_t)~LANG_ANYWHERE;
    if (x->b != 2)
        return;
    if (finite && open)
        x->flags |= LANG_CLOSED | LANG_OPEN;
    if (!length || !p || !(p->flags & LANG_PLAIN))
        return;
    bool wide = !min || max == LANG_MANY || max - min >= p->gap - 1;
    if (!way_of(p->ways, from) && wide)
        x->flags |= LANG_CLOSED;
}

static void leaf_facts(const struct languages *ls, struct lang_node *x)
{
    uint32_t bytes[8];
    struct leaf_lengths l;
    memcpy(bytes, ls->leaves->bytes, sizeof bytes);
    x->flags = LANG_CLOSED;
    if (ls->leaves->accepts(ls->leaf_owner, x->a))
        x->flags |= LANG_NULLABLE;
    x->ways = ways_of_repeat(ways_of_set(bytes));
    x->shortest = !(x->flags & LANG_NULLABLE) && !(bytes[4] | bytes[5]);
    x->longest = LANG_MANY;
    x->big = LANG_MANY; /* lang_near must ask */
    if (!ls->leaves->lengths(ls->leaf_owner, x->a, &l))
        return;
    x->flags |= l.longest == LANG_MANY ? LANG_PLAIN : LANG_PLAIN | LANG_FINITE;
    x->shortest = l.shortest;
    x->longest = l.longest;
    x->worst = l.worst;
    x->gap = l.gap;
}

static void set_facts(struct lang_node *x, const uint32_t set[8])
{
    x->flags = LANG_PLAIN | LANG_CLOSED | LANG_FINITE;
    x->ways = ways_of_set(set);
    x->shortest = !(set[4] | set[5]);
    x->longest = (set[0] | set[1] | set[2] | set[3] | set[6] | set[7]) != 0;
    x->worst = x->gap = 1;
}

/* x: kind, a, b, min and max are set, the rest is zero. */
void lang_set_facts(const struct languages *ls, struct lang_node *x, const uint32_t *parts)
{
    enum { IDENTITY = 0x76543210 };
    x->gap = 1;
    switch ((enum lang_kind)x->kind) {
    case KIND_NONE:
        x->flags = INHERITED;
        return;
    case KIND_BLANK:
        x->flags = LANG_NULLABLE | LANG_PLAIN | LANG_CLOSED | LANG_FINITE;
        x->ways = IDENTITY;
        return;
    case KIND_SET:
        set_facts(x, parts);
        return;
    case KIND_CONCAT:
        concat_facts(ls, x, node_of(ls, x->a), node_of(ls, x->b));
        break;
    case KIND_REPEAT:
        repeat_facts(ls, x, node_of(ls, x->a));
        break;
    case KIND_OR:
        or_facts(ls, x, parts);
        break;
    case KIND_AND:
        and_facts(ls, x, parts);
        break;
    case KIND_NOT:
        x->flags = ~node_of(ls, x->a)->flags & LANG_NULLABLE;
        if (has_flag(ls, x->a, LANG_FINITE))
            x->flags |= LANG_CLOSED | LANG_OPEN;
        x->ways = UINT32_MAX;
        x->longest = LANG_MANY;
        x->big = node_of(ls, x->a)->big;
        break;
    case KIND_LEAF:
        leaf_facts(ls, x);
        break;
    }
    if (!(x->flags & LANG_PLAIN))
        x->worst = x->gap = LANG_MANY;
}
