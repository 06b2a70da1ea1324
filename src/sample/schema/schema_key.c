/* Keys of objects: see schema_key.h. */
#include "sample/schema/schema_key.h"

#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_node.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_string.h"

#include <string.h>

static bool same_key(const struct schema *s, uint32_t entry, const void *p, size_t n)
{
    const struct shape_key *k = &s->out->keys[entry];
    return k->n == n && !memcmp(s->out->text + k->at, p, n);
}

uint32_t key_of_bytes(struct schema *s, const char *p, size_t n)
{
    struct shapes *out = s->out;
    struct table_slot *slot = table_find(s, &s->key_table, p, n, same_key, out->n_keys);
    if (!slot || slot->number <= out->n_keys)
        return slot ? slot->number - 1 : 0;
    if (!schema_room(s, &out->keys, &s->key_capacity, out->n_keys + 1, sizeof *out->keys) ||
        !schema_room(s, &s->marks, &s->mark_capacity, out->n_keys + 1, sizeof *s->marks) ||
        !schema_room(s, &out->text, &s->text_capacity, (size_t)out->n_text + n + 1, 1))
        return 0;
    if (n)
        memcpy(out->text + out->n_text, p, n);
    out->keys[out->n_keys] = (struct shape_key){out->n_text, (uint32_t)n};
    s->marks[out->n_keys] = (struct mark){0};
    out->n_text += (uint32_t)n;
    return out->n_keys++;
}

static uint32_t memo(struct schema *s, uint32_t value, const char *p, size_t n)
{
    if (!s->key_of[value])
        s->key_of[value] = key_of_bytes(s, p, n) + 1;
    return s->key_of[value] - 1;
}

uint32_t key_of_member(struct schema *s, uint32_t member)
{
    return memo(s, member, schema_key(s, member), schema_value(s, member)->n_key);
}

uint32_t key_of_text(struct schema *s, uint32_t text)
{
    const struct json_value *v = schema_value(s, text);
    if (schema_value(s, v->parent)->type == JSON_ARRAY)
        return memo(s, text, schema_text(s, text), v->n_text);
    return key_of_bytes(s, schema_text(s, text), v->n_text);
}

bool keys_open(struct schema *s)
{
    s->key_of = schema_take(s, s->json.n_values * sizeof *s->key_of);
    s->pattern_of = schema_take(s, s->json.n_values * sizeof *s->pattern_of);
    return s->key_of && s->pattern_of;
}

lang key_pattern(struct schema *s, uint32_t member)
{
    if (!s->pattern_of[member])
        s->pattern_of[member] =
            string_pattern(s, schema_value(s, member)->parent, schema_key(s, member),
                           schema_value(s, member)->n_key) +
            1;
    return s->pattern_of[member] - 1;
}

uint32_t key_count(struct schema *s, lang keys, uint32_t n)
{
    enum { FEW = 64 };
    uint32_t count = 0;
    if (keys == LANG_CHARS)
        return SHAPE_NO_LIMIT;
    if (!lang_count(s->languages, keys, FEW + n, &count))
        return schema_no_budget(s), 0;
    return count > FEW + n ? SHAPE_NO_LIMIT : count;
}

struct cell *cell_add(struct schema *s, struct cell *list, literal x)
{
    struct cell *c = schema_take(s, sizeof *c);
    if (!c)
        return list;
    *c = (struct cell){x, list};
    return c;
}

uint32_t cell_node(struct schema *s, const struct cell *list)
{
    uint32_t n = 0;
    struct chunk_mark mark = schema_mark(s);
    for (const struct cell *c = list; c; c = c->next)
        n++;
    literal *x = schema_take(s, n * sizeof *x);
    for (uint32_t i = 0; x && i < n; i++, list = list->next)
        x[i] = list->x;
    uint32_t node = x ? node_of(s, x, n) : NODE_NONE;
    schema_release(s, mark);
    return node;
}

/* Of a sub with properties, patternProperties, additionalProperties: adds what it demands of a key.
 * *evaluated is set where one of them speaks of the key. */
static struct cell *group_literals(struct schema *s, uint32_t sub, const char *p, size_t n,
                                   bool *evaluated, struct cell *list)
{
    uint32_t properties = sub_find(s, sub, K_PROPERTIES),
             patterns = sub_find(s, sub, K_PATTERN_PROPERTIES);
    uint32_t rest = sub_find(s, sub, K_ADDITIONAL_PROPERTIES);
    uint32_t member = properties ? json_find(&s->json, properties, p, n) : 0;
    bool found = member;
    if (member)
        list = cell_add(s, list, sub_literal(s, sub, member));
    for (uint32_t c = patterns ? schema_value(s, patterns)->first : 0; c;
         c = schema_value(s, c)->next)
        if (string_matches(s, key_pattern(s, c), p, n)) {
            found = true;
            list = cell_add(s, list, sub_literal(s, sub, c));
        }
    if (!found && rest)
        list = cell_add(s, list, sub_literal(s, sub, rest));
    *evaluated |= found || rest;
    return list;
}

static bool key_evaluated(struct schema *s, const struct goal *rest, const char *p, size_t n)
{
    bool evaluated = false;
    for (const struct goal *g = rest->next; g && g != rest->since && !evaluated; g = g->next) {
        if (g->era != rest->era)
            continue;
        evaluated |= g->kind == ATOM_REST;
        if (g->kind == ATOM_GROUP)
            group_literals(s, g->a, p, n, &evaluated, NULL);
    }
    return evaluated;
}

struct cell *key_literals(struct schema *s, const struct goal *atoms, uint32_t key,
                          struct cell *list)
{
    for (const struct goal *g = atoms; g && !s->status; g = g->next) {
        const char *p = s->out->text + s->out->keys[key].at;
        size_t n = s->out->keys[key].n;
        bool evaluated = false;
        uint32_t member;
        switch (g->kind) {
        case ATOM_GROUP:
            list = group_literals(s, g->a, p, n, &evaluated, list);
            break;
        case ATOM_CONSTANT:
            member = json_find(&s->json, g->a, p, n);
            list = cell_add(s, list,
                            member ? LITERAL(sub_constant(s, member)) : (literal)LITERAL_FALSE);
            break;
        case ATOM_HAS:
            if (g->a == key)
                list = cell_add(s, list, g->b);
            break;
        case ATOM_REST:
            if (!key_evaluated(s, g, p, n))
                list = cell_add(s, list, g->a);
            break;
        default:
            break;
        }
    }
    return list;
}
