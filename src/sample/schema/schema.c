/* From the text of a schema to shapes: the parts in their order. */
#include "sample/schema/schema.h"

#include "sample/schema/schema_key.h"
#include "sample/schema/schema_lax.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_node.h"
#include "sample/schema/schema_prune.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_refs.h"
#include "sample/schema/schema_value.h"
#include "sample/schema/schema_written.h"

#include <stdlib.h>

static bool compile(struct schema *s, uint32_t *root_sub)
{
    if (!refs_open(s) || !value_open(s) || !nodes_open(s) || !keys_open(s))
        return false;
    unsigned type = schema_value(s, 0)->type;
    if (type != JSON_OBJECT && type != JSON_TRUE && type != JSON_FALSE)
        return schema_refuse(s, 0, "the schema", "must be an object, true or false");
    *root_sub = sub_of(s, 0, 0);
    literal x = sub_simplest(s, *root_sub);
    uint32_t root = node_of(s, &x, 1);
    node_use(s, NODE_ANY);
    node_use(s, root);
    return nodes_expand(s) && (!s->notation || written_nodes(s, root)) && prune(s, root);
}

/* Arrays keep what is used of them, so that their sizes are their numbers. Where the C library cannot
 * make one smaller, it only counts as smaller. */
static void *fit(struct schema *s, void *p, uint32_t capacity, uint32_t n, size_t size)
{
    void *fitting = p ? realloc(p, n ? n * size : 1) : NULL;
    s->budget->bytes += (capacity - n) * size;
    quota_give(s->budget->quota, (capacity - n) * size);
    return fitting ? fitting : p;
}

static void fit_all(struct schema *s)
{
    struct shapes *out = s->out;
    out->arrays = fit(s, out->arrays, s->array_capacity, out->n_arrays, sizeof *out->arrays);
    out->objects = fit(s, out->objects, s->object_capacity, out->n_objects, sizeof *out->objects);
    out->items = fit(s, out->items, s->item_capacity, out->n_items, sizeof *out->items);
    out->members = fit(s, out->members, s->member_capacity, out->n_members, sizeof *out->members);
    out->classes = fit(s, out->classes, s->class_capacity, out->n_classes, sizeof *out->classes);
    out->keys = fit(s, out->keys, s->key_capacity, out->n_keys, sizeof *out->keys);
    out->text = fit(s, out->text, s->text_capacity, out->n_text, 1);
}

static void close_all(struct schema *s)
{
    struct budget *b = s->budget;
    budget_free(b, s->subs, s->sub_capacity * sizeof *s->subs);
    budget_free(b, s->keywords, s->keyword_capacity * sizeof *s->keywords);
    budget_free(b, s->nodes, s->node_capacity * sizeof *s->nodes);
    budget_free(b, s->literals, s->literal_capacity * sizeof *s->literals);
    budget_free(b, s->rules, s->rule_capacity * sizeof *s->rules);
    budget_free(b, s->number_sets, s->number_set_capacity * sizeof *s->number_sets);
    budget_free(b, s->queue, s->queue_capacity * sizeof *s->queue);
    budget_free(b, s->resources, s->resource_capacity * sizeof *s->resources);
    budget_free(b, s->anchors, s->anchor_capacity * sizeof *s->anchors);
    budget_free(b, s->scopes, s->scope_capacity * sizeof *s->scopes);
    budget_free(b, s->marks, s->mark_capacity * sizeof *s->marks);
    table_free(s, &s->sub_table);
    table_free(s, &s->node_table);
    table_free(s, &s->key_table);
    schema_release(s, (struct chunk_mark){0});
    json_close(&s->json);
}

static enum tern_status compile_once(struct schema *s, const char *text, size_t n)
{
    uint32_t root_sub = SUB_TRUE;
    *s->out = (struct shapes){0};
    enum tern_status status = json_read(&s->json, text, n, "schema", s->budget, s->error);
    if (status)
        return status;
    s->out->languages = s->languages = languages_open(s->budget);
    if (!s->languages) {
        json_close(&s->json);
        return budget_refuse(s->budget, s->error, "schema");
    }
    compile(s, &root_sub);
    lax_widen(s, root_sub);
    fit_all(s);
    close_all(s);
    if (s->status || s->again)
        shapes_free(s->out);
    return s->status;
}

enum tern_status schema_compile(struct shapes *out, const char *text, size_t n, unsigned flags,
                                const struct schema_notation *notation, struct budget *budget,
                                struct schema_notes *notes, struct tern_error *e)
{
    const struct schema first = {.budget = budget,
                                 .out = out,
                                 .error = e,
                                 .notes = notes,
                                 .flags = flags,
                                 .notation = notation};
    struct schema s = first;
    enum tern_status status;
    for (;;) {
        status = compile_once(&s, text, n);
        bool loosen = s.crowded && !s.loose && flags & SCHEMA_LAX;
        if (!s.again && !loosen)
            break;
        struct schema next = first;
        next.loose = s.loose || loosen, next.left = s.left, next.n_left = s.n_left;
        s = next;
    }
    budget_free(budget, s.left, s.n_left);
    return status;
}
