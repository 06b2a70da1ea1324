/* The cheap test of two branches: see schema_disjoint.h. */
#include "sample/constraint/schema_disjoint.h"

#include "sample/constraint/schema_memory.h"
#include "sample/constraint/schema_node.h"
#include "sample/constraint/schema_read.h"
#include "sample/constraint/schema_value.h"

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

/* A key that x requires cannot have a value that both allow. */
static bool key_decides(struct schema *s, const uint32_t *x, uint32_t n_x, const uint32_t *y,
                        uint32_t n_y)
{
    for (uint32_t i = 0; i < n_x; i++) {
        uint32_t required = sub_find(s, x[i], K_REQUIRED);
        for (uint32_t c = required ? schema_value(s, required)->first : 0; c && schema_step(s, 1);
             c = schema_value(s, c)->next) {
            const char *p = schema_text(s, c);
            size_t n = schema_value(s, c)->n_text;
            literal both[] = {value_under(s, x, n_x, p, n), value_under(s, y, n_y, p, n)};
            if (both[1] == LITERAL_TRUE)
                continue;
            if (node_is_plainly_empty(s, node_of(s, both, 2)))
                return true;
        }
    }
    return false;
}

bool disjoint(struct schema *s, unsigned type, literal x, literal y)
{
    uint32_t parts[2][MAX_PARTS];
    unsigned may =
        types_may(value_of(s, ALGEBRA_TYPES, x)) & types_may(value_of(s, ALGEBRA_TYPES, y));
    if (s->status || !(may & type) || x == (y ^ NOT))
        return true;
    if (type != T_OBJECT)
        return false;
    uint32_t n = parts_of(s, x, parts[0]), k = parts_of(s, y, parts[1]);
    return key_decides(s, parts[0], n, parts[1], k) || key_decides(s, parts[1], k, parts[0], n);
}
