/* The cheap test of two branches: see schema_disjoint.h. */
#include "sample/schema/schema_disjoint.h"

#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_node.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_value.h"

enum { MAX_PARTS = 16 };

/* The subs that hold wherever `sub` does: itself, what it refers to, what it takes allOf. */
static uint32_t parts_of(struct schema *s, literal x, uint32_t *parts)
{
    uint32_t n = 0;
    if (x & NOT || x >> 1 < N_FIXED_SUBS)
        return 0;
    parts[n++] = x >> 1;
    for (uint32_t i = 0; i < n; i++) {
        if (!sub_read(s, parts[i]))
            return 0;
        for (uint32_t k = 0; k < s->subs[parts[i]].n_keywords; k++) {
            struct keyword w = *sub_keyword(s, parts[i], k);
            uint32_t c = w.id == K_ALL_OF ? schema_value(s, w.value)->first : 0;
            literal y = w.id == K_REF ? sub_simplest(s, w.sub) : (literal)NOT;
            for (; n < MAX_PARTS && (c || !(y & NOT)); c = c ? schema_value(s, c)->next : 0) {
                y = c ? sub_literal(s, parts[i], c) : y;
                if (!(y & NOT) && y >> 1 >= N_FIXED_SUBS)
                    parts[n++] = y >> 1;
                y = NOT;
            }
        }
    }
    return n;
}

/* What one of the parts says of the key; LITERAL_TRUE: nothing. */
static literal value_under(struct schema *s, const uint32_t *parts, uint32_t n, const char *p,
                           size_t n_key)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t properties = sub_find(s, parts[i], K_PROPERTIES);
        uint32_t rest = sub_find(s, parts[i], K_ADDITIONAL_PROPERTIES);
        uint32_t member = properties ? json_find(&s->json, properties, p, n_key) : 0;
        if (member)
            return sub_literal(s, parts[i], member);
        if (rest && schema_value(s, rest)->type == JSON_FALSE &&
            !sub_find(s, parts[i], K_PATTERN_PROPERTIES))
            return LITERAL_FALSE;
    }
    return LITERAL_TRUE;
}

/* The key comes; no value of it is allowed by both. */
static bool key_decides(struct schema *s, uint32_t parts[2][MAX_PARTS], const uint32_t n[2],
                        const char *p, size_t n_key)
{
    literal both[] = {value_under(s, parts[0], n[0], p, n_key),
                      value_under(s, parts[1], n[1], p, n_key)};
    return both[0] != LITERAL_TRUE && both[1] != LITERAL_TRUE &&
           node_is_plainly_empty(s, node_of(s, both, 2));
}

/* Some key that part `side` requires decides. */
static bool required_decides(struct schema *s, uint32_t parts[2][MAX_PARTS], const uint32_t n[2],
                             int side)
{
    for (uint32_t i = 0; i < n[side]; i++) {
        uint32_t required = sub_find(s, parts[side][i], K_REQUIRED);
        for (uint32_t c = required ? schema_value(s, required)->first : 0; c && schema_step(s, 1);
             c = schema_value(s, c)->next) {
            const char *p = schema_text(s, c);
            size_t n_key = schema_value(s, c)->n_text;
            if (value_under(s, parts[!side], n[!side], p, n_key) == LITERAL_FALSE ||
                key_decides(s, parts, n, p, n_key))
                return true;
        }
    }
    return false;
}

bool disjoint(struct schema *s, unsigned type, const struct branch *branch, literal x, literal y)
{
    uint32_t parts[2][MAX_PARTS];
    unsigned may =
        types_may(value_of(s, ALGEBRA_TYPES, x)) & types_may(value_of(s, ALGEBRA_TYPES, y));
    if (s->status || !(may & type) || x == (y ^ NOT))
        return true;
    if (type != T_OBJECT)
        return false;
    uint32_t n[] = {parts_of(s, x, parts[0]), parts_of(s, y, parts[1])};
    if (required_decides(s, parts, n, 0) || required_decides(s, parts, n, 1))
        return true;
    const struct goal *lists[] = {branch->facts, branch->atoms};
    for (int i = 0; i < 2; i++)
        for (const struct goal *g = lists[i]; g && schema_step(s, 1); g = g->next) {
            const struct shape_key *k = &s->out->keys[g->a];
            if ((g->kind == ATOM_REQUIRED || g->kind == ATOM_HAS) &&
                key_decides(s, parts, n, s->out->text + k->at, k->n))
                return true;
        }
    return false;
}
