/* What must hold if a keyword does not. */
#include "sample/schema/schema_options.h"

#include "sample/schema/schema_array.h"
#include "sample/schema/schema_disjoint.h"
#include "sample/schema/schema_key.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_object.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_value.h"

static void negate_dependency(struct tableau *t, uint32_t sub, uint32_t member)
{
    struct schema *s = t->s;
    const struct json_value *v = schema_value(s, member);
    uint32_t key = key_of_member(s, member);
    if (v->type != JSON_ARRAY && v->type != JSON_STRING) {
        option_atom(t, ATOM_REQUIRED, key, 0);
        option_add(t, (struct goal){.kind = GOAL_LITERAL,
                                    .a = sub_literal(s, sub, member) ^ NOT,
                                    .quiet = true});
        return;
    }
    for (uint32_t c = v->type == JSON_ARRAY ? v->first : member; c;
         c = v->type == JSON_ARRAY ? schema_value(s, c)->next : 0) {
        option_atom(t, ATOM_REQUIRED, key, 0);
        option_add(t, (struct goal){.kind = ATOM_ABSENT, .a = key_of_text(s, c)});
    }
}

/* Two hold, or none. */
static void negate_one_of(struct tableau *t, uint32_t sub, uint32_t list)
{
    struct schema *s = t->s;
    uint32_t first = schema_value(s, list)->first;
    option_begin(t);
    if (s->loose) /* left out: it counts as kept, either way */
        return;
    for (uint32_t c = first; c; c = schema_value(s, c)->next)
        option_add(t, (struct goal){
                          .kind = GOAL_LITERAL, .a = sub_literal(s, sub, c) ^ NOT, .quiet = true});
    for (uint32_t c = first; c; c = schema_value(s, c)->next)
        for (uint32_t d = schema_value(s, c)->next; d && schema_step(s, 1);
             d = schema_value(s, d)->next) {
            literal x = sub_literal(s, sub, c), y = sub_literal(s, sub, d);
            if (disjoint(s, t->type, &t->branch, x, y))
                continue;
            option_literal(t, x);
            option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = y});
        }
}

static void negate_if(struct tableau *t, uint32_t sub, uint32_t condition)
{
    struct schema *s = t->s;
    uint32_t then = sub_find(s, sub, K_THEN), other = sub_find(s, sub, K_ELSE);
    literal x = sub_literal(s, sub, condition);
    if (then) {
        option_literal(t, x);
        option_add(t, (struct goal){.kind = GOAL_LITERAL,
                                    .a = sub_literal(s, sub, then) ^ NOT,
                                    .quiet = true});
    }
    if (other) {
        option_literal(t, x ^ NOT);
        option_add(t, (struct goal){.kind = GOAL_LITERAL,
                                    .a = sub_literal(s, sub, other) ^ NOT,
                                    .quiet = true});
    }
}

static void negate_constants(struct tableau *t, const struct keyword *k)
{
    struct schema *s = t->s;
    bool list = k->id == K_ENUM;
    option_begin(t);
    for (uint32_t c = list ? schema_value(s, k->value)->first : k->value; c;
         c = list ? schema_value(s, c)->next : 0)
        if (value_type(s, c) == t->type)
            option_add(t,
                       (struct goal){.kind = GOAL_LITERAL, .a = LITERAL(sub_constant(s, c)) | NOT});
}

/* All of a sub but unevaluated... holds, and that does not. */
static void negate_rest(struct tableau *t, uint32_t sub, uint32_t index)
{
    struct schema *s = t->s;
    option_begin(t);
    for (uint32_t i = 0; i < s->subs[sub].n_keywords; i++)
        if (i != index && keyword_types(sub_keyword(s, sub, i)) & t->type)
            option_add(t,
                       (struct goal){.kind = GOAL_KEYWORD, .mode = MODE_EXACT, .a = sub, .b = i});
    option_add(t, (struct goal){.kind = GOAL_REST, .a = sub, .b = true, .since = t->branch.atoms});
}

void options_negate(struct tableau *t, uint32_t sub, uint32_t index)
{
    struct schema *s = t->s;
    struct keyword k = *sub_keyword(s, sub, index);
    uint32_t list = schema_value(s, k.value)->first;
    switch (k.id) {
    case K_TYPE: /* another type: settled by the algebra of types */
    case K_THEN:
    case K_ELSE:
        return;
    case K_CONSTANT:
        if (t->type == T_OBJECT)
            object_negate_constant(t, k.value);
        else
            array_negate_constant(t, k.value);
        return;
    case K_ENUM:
    case K_CONST:
        negate_constants(t, &k);
        return;
    case K_ALL_OF:
        for (uint32_t c = list; c; c = schema_value(s, c)->next)
            option_literal(t, sub_literal(s, sub, c) ^ NOT);
        return;
    case K_ANY_OF:
        option_begin(t);
        for (uint32_t c = list; c; c = schema_value(s, c)->next)
            option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = sub_literal(s, sub, c) ^ NOT});
        return;
    case K_ONE_OF:
        negate_one_of(t, sub, k.value);
        return;
    case K_NOT:
        option_literal(t, sub_literal(s, sub, k.value));
        return;
    case K_REF:
        option_literal(t, sub_simplest(s, k.sub) ^ NOT);
        return;
    case K_IF:
        negate_if(t, sub, k.value);
        return;
    case K_DEPENDENT_REQUIRED:
    case K_DEPENDENT_SCHEMAS:
    case K_DEPENDENCIES:
        for (uint32_t c = list; c; c = schema_value(s, c)->next)
            negate_dependency(t, sub, c);
        return;
    case K_UNEVALUATED_ITEMS:
    case K_UNEVALUATED_PROPERTIES:
        negate_rest(t, sub, index);
        return;
    default:
        if (t->type == T_OBJECT)
            object_negate(t, sub, &k);
        else
            array_negate(t, sub, &k);
    }
}
