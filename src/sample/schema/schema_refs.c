/* References: see schema_refs.h. */
#include "sample/schema/schema_refs.h"

#include "sample/schema/schema_lax.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_same.h"
#include "sample/schema/schema_uri.h"

#include <stdio.h>
#include <string.h>

/* ---- what the document names ---- */

/* The dialect that $schema names. */
static bool find_dialect(struct schema *s)
{
    static const struct {
        const char *part;
        enum dialect dialect;
    } known[] = {
        {"://json-schema.org/draft-03/", DRAFT_4},
        {"://json-schema.org/draft-04/", DRAFT_4},
        {"://json-schema.org/draft-06/", DRAFT_6},
        {"://json-schema.org/draft-07/", DRAFT_7},
        {"://json-schema.org/draft/2019-09/", DRAFT_2019},
        {"://json-schema.org/draft/2020-12/", DRAFT_2020},
        {"://json-schema.org/schema", DRAFT_ANY},
    };
    s->dialect = DRAFT_ANY;
    uint32_t value = json_find(&s->json, 0, "$schema", 7);
    if (!value)
        return true;
    if (schema_value(s, value)->type != JSON_STRING)
        return schema_refuse(s, 0, "$schema", "must be a string");
    const char *p = schema_text(s, value);
    uint32_t n = schema_value(s, value)->n_text;
    uint32_t scheme = n > 5 && !memcmp(p, "https", 5) ? 5 : 4;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t k = strlen(known[i].part);
        if (n >= scheme + k && !memcmp(p, "http", 4) && !memcmp(p + scheme, known[i].part, k))
            return s->dialect = known[i].dialect, true;
    }
    return schema_refuse(s, 0, "$schema", "the dialect is unknown");
}

static bool add_resource(struct schema *s, uint32_t value, uint32_t outer, uint32_t id)
{
    const struct resource *base = s->n_resources ? &s->resources[outer] : NULL;
    uint32_t n = id ? schema_value(s, id)->n_text : 0, n_base = base ? base->n : 0;
    char *uri = schema_take(s, n + n_base + 2);
    if (!uri || !schema_room(s, &s->resources, &s->resource_capacity, s->n_resources + 1,
                             sizeof *s->resources))
        return false;
    n = uri_resolve(base ? s->resources[outer].uri : "", n_base, id ? schema_text(s, id) : "", n,
                    uri);
    s->resources[s->n_resources++] = (struct resource){uri, n, value};
    return true;
}

static bool add_anchor(struct schema *s, uint32_t value, uint32_t name, uint32_t resource,
                       bool dynamic)
{
    const struct json_value *v = schema_value(s, name);
    bool hash = v->n_text && schema_text(s, name)[0] == '#'; /* "$id": "#name", up to draft 7 */
    if (!schema_room(s, &s->anchors, &s->anchor_capacity, s->n_anchors + 1, sizeof *s->anchors))
        return false;
    s->anchors[s->n_anchors++] =
        (struct anchor){schema_text(s, name) + hash, v->n_text - hash, value, resource, dynamic};
    return true;
}

static uint32_t member_text(const struct schema *s, uint32_t object, const char *key)
{
    uint32_t value = json_find(&s->json, object, key, strlen(key));
    return value && schema_value(s, value)->type == JSON_STRING ? value : 0;
}

/* The identifier of a sub-schema. Without $schema the `id` of draft 4 is one where it cannot be anything
 * else: "#name", and the URI of the whole document. */
static uint32_t identifier(const struct schema *s, uint32_t value)
{
    uint32_t id = member_text(s, value, s->dialect == DRAFT_4 ? "id" : "$id");
    if (id || s->dialect != DRAFT_ANY || !(id = member_text(s, value, "id")))
        return id;
    const char *p = schema_text(s, id);
    uint32_t n = schema_value(s, id)->n_text;
    bool uri = !value && n > 8 && (!memcmp(p, "http://", 7) || !memcmp(p, "https://", 8));
    return uri || (n && *p == '#') ? id : 0;
}

/* What the sub-schema `value` inside `resource` names. Returns its own resource. */
static uint32_t index_schema(struct schema *s, uint32_t value, uint32_t resource)
{
    bool old = s->dialect <= DRAFT_7;
    uint32_t id = identifier(s, value);
    if (old && json_find(&s->json, value, "$ref", 4))
        id = 0;
    if (id && schema_value(s, id)->n_text && schema_text(s, id)[0] == '#') {
        if (old || s->dialect == DRAFT_ANY)
            add_anchor(s, value, id, resource, false);
        id = 0;
    }
    if (id && value && add_resource(s, value, resource, id))
        resource = s->n_resources - 1;
    uint32_t anchor = old ? 0 : member_text(s, value, "$anchor");
    if (anchor)
        add_anchor(s, value, anchor, resource, false);
    anchor = s->dialect < DRAFT_2020 ? 0 : member_text(s, value, "$dynamicAnchor");
    if (anchor)
        add_anchor(s, value, anchor, resource, true);
    return resource;
}

/* Values come in the order of the text, parents before children: one pass. */
static bool index_document(struct schema *s)
{
    s->resource_at = schema_take(s, s->json.n_values * sizeof *s->resource_at);
    if (!s->resource_at)
        return false;
    index_schema(s, 0, 0);
    for (uint32_t v = 1; v < s->json.n_values && schema_step(s, 1); v++) {
        s->resource_at[v] = s->resource_at[schema_value(s, v)->parent];
        if (s->part[v] == PART_SCHEMA && schema_value(s, v)->type == JSON_OBJECT)
            s->resource_at[v] = index_schema(s, v, s->resource_at[v]);
    }
    return !s->status;
}

bool refs_open(struct schema *s)
{
    if (!find_dialect(s) || !parts_open(s))
        return false;
    uint32_t id = identifier(s, 0);
    if (!add_resource(s, 0, 0, id) ||
        !schema_room(s, &s->scopes, &s->scope_capacity, 1, sizeof *s->scopes))
        return false;
    s->scopes[s->n_scopes++] = (struct scope){0, 0};
    bool names = false;
    for (uint32_t v = 1; v < s->json.n_values; v++) {
        const struct json_value *x = schema_value(s, v);
        const char *key = schema_key(s, v);
        if (x->n_key == 2 && !memcmp(key, "id", 2))
            names |= s->dialect == DRAFT_4 || s->dialect == DRAFT_ANY;
        if (x->n_key < 3 || key[0] != '$')
            continue;
        names |= !memcmp(key, "$id", 3) || !memcmp(key, "$an", 3) || !memcmp(key, "$dy", 3) ||
                 !memcmp(key, "$re", 3);
        s->dynamic |= (x->n_key == 11 && !memcmp(key, "$dynamicRef", 11)) ||
                      (x->n_key == 13 && !memcmp(key, "$recursiveRef", 13));
    }
    return !s->status && (!names || index_document(s)) && same_open(s);
}

static uint32_t resource_of(const struct schema *s, uint32_t value)
{
    return s->resource_at ? s->resource_at[value] : 0;
}

uint32_t scope_enter(struct schema *s, uint32_t scope, uint32_t value)
{
    uint32_t resource = resource_of(s, value);
    if (!s->dynamic)
        return 0;
    for (uint32_t i = scope;; i = s->scopes[i].outer) {
        if (s->scopes[i].resource == resource)
            return scope;
        if (!i)
            break;
    }
    for (uint32_t i = 1; i < s->n_scopes; i++)
        if (s->scopes[i].outer == scope && s->scopes[i].resource == resource)
            return i;
    if (!schema_step(s, s->n_scopes) ||
        !schema_room(s, &s->scopes, &s->scope_capacity, s->n_scopes + 1, sizeof *s->scopes))
        return scope;
    s->scopes[s->n_scopes] = (struct scope){scope, resource};
    return s->n_scopes++;
}

/* ---- targets ---- */

/* Follows a JSON pointer p[0..n) from `value`; UINT32_MAX: it leads nowhere. */
static uint32_t follow(const struct schema *s, uint32_t value, char *p, uint32_t n)
{
    uint32_t at = 0;
    while (at < n) {
        uint32_t from = ++at, to = from, index = 0; /* behind the '/' */
        for (; at < n && p[at] != '/'; at++) {
            bool tilde = p[at] == '~' && at + 1 < n && (p[at + 1] == '0' || p[at + 1] == '1');
            p[to++] = tilde ? "~/"[p[at + 1] - '0'] : p[at];
            at += tilde;
        }
        const struct json_value *v = schema_value(s, value);
        uint32_t child = json_find(&s->json, value, p + from, to - from);
        if (v->type == JSON_ARRAY && to > from && to - from < 9) {
            for (uint32_t i = from; i < to; i++)
                index = p[i] >= '0' && p[i] <= '9' ? index * 10 + (uint32_t)(p[i] - '0')
                                                   : v->n_children;
            for (child = index < v->n_children ? v->first : 0; index && child; index--)
                child = schema_value(s, child)->next;
        }
        if (!child)
            return UINT32_MAX;
        value = child;
    }
    return value;
}

static const struct anchor *find_anchor(const struct schema *s, uint32_t resource, const char *name,
                                        uint32_t n)
{
    for (uint32_t i = 0; i < s->n_anchors; i++) {
        const struct anchor *a = &s->anchors[i];
        if (a->resource == resource && a->n == n && !memcmp(a->name, name, n))
            return a;
    }
    return NULL;
}

/* The outermost resource of the scope that has a dynamic anchor of this name. */
static uint32_t outermost(const struct schema *s, uint32_t scope, const struct anchor *first)
{
    uint32_t found = first->value;
    for (uint32_t i = scope;; i = s->scopes[i].outer) {
        const struct anchor *a = find_anchor(s, s->scopes[i].resource, first->name, first->n);
        if (a && a->dynamic)
            found = a->value;
        if (!i)
            return found;
    }
}

/* $recursiveRef: the outermost resource of the scope whose root has $recursiveAnchor. */
static uint32_t recursive_target(const struct schema *s, uint32_t scope, uint32_t root)
{
    uint32_t found = root;
    for (uint32_t i = scope;; i = s->scopes[i].outer) {
        uint32_t at = s->resources[s->scopes[i].resource].value;
        uint32_t anchor = json_find(&s->json, at, "$recursiveAnchor", 16);
        bool on = anchor && schema_value(s, anchor)->type == JSON_TRUE;
        if (on)
            found = at;
        if (at == root && !on)
            return root;
        if (!i)
            return found;
    }
}

uint32_t ref_target(struct schema *s, uint32_t scope, uint32_t value)
{
    const struct json_value *v = schema_value(s, value);
    const struct keyword_rule *r = keyword_rule(s, value);
    const struct resource *base = &s->resources[resource_of(s, v->parent)];
    uint32_t before = uri_before_fragment(schema_text(s, value), v->n_text), n = 0, resource;
    char *p = schema_take(s, v->n_text + base->n + 2);
    if (!p)
        return SUB_FALSE;
    n = uri_resolve(base->uri, base->n, schema_text(s, value), before, p);
    resource = (uint32_t)(base - s->resources);
    if (n != base->n || memcmp(p, base->uri, n))
        for (resource = 0; resource < s->n_resources; resource++)
            if (s->resources[resource].n == n && !memcmp(s->resources[resource].uri, p, n))
                break;
    if (resource == s->n_resources) {
        char why[120];
        snprintf(why, sizeof why, "the document \"%.*s\" is not here", (int)n, p);
        if (!schema_leave_out(s, v->parent, r->name, why))
            return SUB_FALSE;
        lax_open(s, value);
        return SUB_TRUE;
    }
    n = v->n_text > before ? v->n_text - before - 1 : 0;
    memcpy(p, schema_text(s, value) + before + 1, n);
    n = uri_decode(p, n);
    uint32_t target = s->resources[resource].value;
    if (n && p[0] == '/') {
        target = follow(s, target, p, n);
    } else if (n) {
        const struct anchor *a = find_anchor(s, resource, p, n);
        target = a ? a->value : UINT32_MAX;
        if (a && a->dynamic && !strcmp(r->name, "$dynamicRef"))
            target = outermost(s, scope, a);
    } else if (!strcmp(r->name, "$recursiveRef")) {
        target = recursive_target(s, scope, target);
    }
    unsigned type = target == UINT32_MAX ? (unsigned)JSON_NULL : schema_value(s, target)->type;
    if (type != JSON_OBJECT && type != JSON_TRUE && type != JSON_FALSE)
        return schema_refuse(s, v->parent, r->name, "there is no schema at its target"), SUB_FALSE;
    return sub_of(s, target, scope);
}
