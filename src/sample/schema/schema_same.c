/* Equal sub-schemas: see schema_same.h. */
#include "sample/schema/schema_same.h"

#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_read.h"

#include <string.h>

/* ---- parts ---- */

static enum part part_of(const struct schema *s, uint32_t c)
{
    const struct json_value *v = schema_value(s, c);
    enum part parent = s->part[v->parent];
    bool list = v->type == JSON_ARRAY;
    if (parent == PART_SCHEMAS)
        return list || v->type == JSON_STRING ? PART_VALUE : PART_SCHEMA;
    if (parent == PART_VALUE)
        return PART_VALUE;
    const char *key = schema_key(s, c);
    if ((v->n_key == 5 && !memcmp(key, "$defs", 5)) ||
        (v->n_key == 11 && !memcmp(key, "definitions", 11)))
        return PART_SCHEMAS;
    const struct keyword_rule *r = keyword_rule(s, c);
    if (!r || r->form > FORM_DEPENDENCIES)
        return PART_VALUE;
    return r->form == FORM_SCHEMA || (r->form == FORM_SCHEMA_OR_LIST && !list) ? PART_SCHEMA
                                                                               : PART_SCHEMAS;
}

/* Parents come before their children. */
bool parts_open(struct schema *s)
{
    s->part = schema_take(s, s->json.n_values);
    if (!s->part)
        return false;
    s->part[0] = PART_SCHEMA;
    for (uint32_t v = 1; v < s->json.n_values; v++)
        s->part[v] = (unsigned char)part_of(s, v);
    return schema_step(s, s->json.n_values / 8);
}

/* ---- equal ones ---- */

/* A member that says nothing. */
static bool is_silent(const struct schema *s, uint32_t member)
{
    uint32_t parent = schema_value(s, member)->parent;
    return s->part[parent] == PART_SCHEMA && schema_value(s, parent)->type == JSON_OBJECT &&
           !keyword_rule(s, member);
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15;
    return h ^ h >> 29;
}

static uint64_t mix_bytes(uint64_t h, const char *p, uint32_t n)
{
    h = mix(h, n);
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = mix(h, word);
    }
    for (; n; n--)
        h = mix(h, (unsigned char)*p++);
    return h;
}

static uint32_t next_loud(const struct schema *s, uint32_t c)
{
    while (c && is_silent(s, c))
        c = schema_value(s, c)->next;
    return c;
}

static uint32_t resource_of(const struct schema *s, uint32_t value)
{
    return s->resource_at ? s->resource_at[value] : 0;
}

/* One level: children are compared by what they are the same as. */
static bool same(const struct schema *s, uint32_t a, uint32_t b)
{
    const struct json_value *x = schema_value(s, a), *y = schema_value(s, b);
    if (x->type != y->type || s->part[a] != s->part[b] || resource_of(s, a) != resource_of(s, b))
        return false;
    if (x->type == JSON_STRING || x->type == JSON_NUMBER)
        return x->n_text == y->n_text && !memcmp(schema_text(s, a), schema_text(s, b), x->n_text);
    uint32_t c = next_loud(s, x->first), d = next_loud(s, y->first);
    while (c && d && s->same[c] == s->same[d]) {
        x = schema_value(s, c), y = schema_value(s, d);
        if (x->n_key != y->n_key || memcmp(schema_key(s, c), schema_key(s, d), x->n_key))
            return false;
        c = next_loud(s, x->next), d = next_loud(s, y->next);
    }
    return !c && !d;
}

/* Children come behind their parents: backwards, they are known first. That finds the last of equal
 * values; the first of them stands for all. */
bool same_open(struct schema *s)
{
    uint32_t n = s->json.n_values, size = 16;
    while (size < 2 * n)
        size *= 2;
    s->same = schema_take(s, n * sizeof *s->same);
    struct chunk_mark mark = schema_mark(s);
    uint64_t *hash = schema_take(s, n * sizeof *hash);
    uint32_t *slots = schema_take(s, size * sizeof *slots);
    if (!s->same || !hash || !slots || !schema_step(s, n / 4))
        return false;
    for (uint32_t v = n; v--;) {
        const struct json_value *x = schema_value(s, v);
        uint64_t h = mix(x->type, s->part[v]);
        if (x->type == JSON_STRING || x->type == JSON_NUMBER)
            h = mix_bytes(h, schema_text(s, v), x->n_text);
        for (uint32_t c = next_loud(s, x->first); c; c = next_loud(s, schema_value(s, c)->next))
            h = mix(mix_bytes(h, schema_key(s, c), schema_value(s, c)->n_key), hash[c]);
        hash[v] = h;
        uint64_t at = h;
        while (slots[at & (size - 1)] &&
               (hash[slots[at & (size - 1)] - 1] != h || !same(s, v, slots[at & (size - 1)] - 1)))
            at++;
        if (!slots[at & (size - 1)])
            slots[at & (size - 1)] = v + 1;
        s->same[v] = slots[at & (size - 1)] - 1;
    }
    uint32_t *first = slots; /* of each last one, + 1 */
    memset(first, 0, n * sizeof *first);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t last = s->same[v];
        first[last] = first[last] ? first[last] : v + 1;
        s->same[v] = first[last] - 1;
    }
    schema_release(s, mark);
    return true;
}

uint32_t same_as(const struct schema *s, uint32_t value)
{
    return s->same[value];
}
