/* Functions and values as Gemma 4's template writes them: see tool_gemma.h. It does what that template does,
 * with its oddities. Values and types recurse, at most JSON_DEPTH deep. */
#include "text/tool_gemma.h"

#include <stdlib.h>

#include "text/tojson.h"

static const char gemma_quote[] = "<|\"|>";

static void put_quoted(struct tool_text *t, uint32_t node)
{
    tool_text_token(t, gemma_quote);
    tool_text_plain(t, node);
    tool_text_token(t, gemma_quote);
}

/* ---- values ------------------------------------------------------------------------------- */

static void put_value(struct tool_text *t, uint32_t node, bool quote_keys);

static void put_object(struct tool_text *t, uint32_t node, bool quote_keys)
{
    const struct json_value *x = &t->j->values[node];
    uint32_t *order = tojson_sorted(t->j, node, false);
    t->ok = t->ok && order;
    tool_text_put(t, "{");
    for (uint32_t i = 0; i < x->n_children && t->ok; i++) {
        tool_text_put(t, i ? "," : "");
        if (quote_keys)
            tool_text_token(t, gemma_quote);
        tool_text_key(t, order[i]);
        if (quote_keys)
            tool_text_token(t, gemma_quote);
        tool_text_put(t, ":");
        put_value(t, order[i], quote_keys);
    }
    tool_text_put(t, "}");
    free(order);
}

static void put_value(struct tool_text *t, uint32_t node, bool quote_keys)
{
    const struct json_value *x = &t->j->values[node];
    if (x->type == JSON_STRING) {
        put_quoted(t, node);
    } else if (x->type == JSON_TRUE || x->type == JSON_FALSE) {
        tool_text_put(t, x->type == JSON_TRUE ? "true" : "false");
    } else if (x->type == JSON_OBJECT) {
        put_object(t, node, quote_keys);
    } else if (x->type == JSON_ARRAY) {
        tool_text_put(t, "[");
        for (uint32_t i = x->first; i && t->ok; i = t->j->values[i].next) {
            put_value(t, i, quote_keys);
            tool_text_put(t, t->j->values[i].next ? "," : "");
        }
        tool_text_put(t, "]");
    } else {
        tool_text_plain(t, node);
    }
}

void tool_gemma_put_value(struct tool_text *t, uint32_t node)
{
    put_value(t, node, false);
}

bool tool_gemma_put_string(const char *p, size_t n, struct buffer *out, tool_text_special token,
                           void *arg)
{
    size_t len = sizeof gemma_quote - 1;
    return token(arg, gemma_quote, len) && buffer_add(out, p, n) && token(arg, gemma_quote, len);
}

/* ---- types -------------------------------------------------------------------------------- */

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
}

/* In capitals, as str().upper() spells it; nothing for 0 */
static void put_upper(struct tool_text *t, uint32_t node)
{
    tool_text_token(t, gemma_quote);
    size_t inside = t->out->n;
    tool_text_plain(t, node);
    for (size_t i = inside; i < t->out->n && t->ok; i++) {
        if ((unsigned char)t->out->p[i] > 127)
            tool_text_fail(t, "a type has letters that are not ASCII");
        t->out->p[i] = upper(t->out->p[i]);
    }
    tool_text_token(t, gemma_quote);
}

/* The schema's type is this one, whatever its case. */
static bool is_of_type(const struct tool_text *t, uint32_t spec, const char *type)
{
    uint32_t node = tool_text_member(t, spec, "type");
    if (!tool_text_is(t, node, JSON_STRING))
        return false;
    const struct json_value *x = &t->j->values[node];
    size_t i = 0;
    while (i < x->n_text && type[i] && upper(t->j->text[x->text + i]) == type[i])
        i++;
    return i == x->n_text && !type[i];
}

static void put_names(struct tool_text *t, uint32_t required)
{
    if (!tool_text_is(t, required, JSON_ARRAY)) {
        tool_text_fail(t, "'required' is no list");
        return;
    }
    tool_text_put(t, "required:[");
    for (uint32_t i = t->j->values[required].first; i && t->ok; i = t->j->values[i].next) {
        put_quoted(t, i);
        tool_text_put(t, t->j->values[i].next ? "," : "");
    }
    tool_text_put(t, "]");
}

static bool has_key(const struct tool_text *t, uint32_t node, const char *key)
{
    const struct json_value *x = &t->j->values[node];
    return x->n_key == strlen(key) && memcmp(t->j->text + x->key, key, x->n_key) == 0;
}

static void put_parameter(struct tool_text *t, uint32_t spec);

/* The template leaves out parameters of these names. */
static void put_properties(struct tool_text *t, uint32_t of)
{
    static const char *const omitted[] = {"description", "type", "properties", "required",
                                          "nullable"};
    uint32_t *order = tojson_sorted(t->j, of, false);
    bool some = false;
    t->ok = t->ok && order;
    for (uint32_t i = 0; i < t->j->values[of].n_children && t->ok; i++) {
        size_t k = 0;
        while (k < sizeof omitted / sizeof *omitted && !has_key(t, order[i], omitted[k]))
            k++;
        if (k < sizeof omitted / sizeof *omitted)
            continue;
        tool_text_put(t, some ? "," : "");
        tool_text_key(t, order[i]);
        tool_text_put(t, ":{");
        put_parameter(t, order[i]);
        tool_text_put(t, "}");
        some = true;
    }
    free(order);
}

/* The type of an array's items, or types */
static void put_item_types(struct tool_text *t, uint32_t node)
{
    if (tool_text_is(t, node, JSON_STRING)) {
        put_upper(t, node);
        return;
    }
    if (!tool_text_is(t, node, JSON_ARRAY))
        tool_text_fail(t, "the type of items is no text and no list");
    tool_text_put(t, "[");
    for (uint32_t i = t->ok ? t->j->values[node].first : 0; i && t->ok; i = t->j->values[i].next) {
        put_upper(t, i);
        tool_text_put(t, t->j->values[i].next ? "," : "");
    }
    tool_text_put(t, "]");
}

static void put_item_member(struct tool_text *t, uint32_t node)
{
    if (has_key(t, node, "required")) {
        put_names(t, node);
        return;
    }
    tool_text_key(t, node);
    tool_text_put(t, ":");
    if (has_key(t, node, "type")) {
        put_item_types(t, node);
    } else if (has_key(t, node, "properties")) {
        tool_text_put(t, "{");
        if (tool_text_is(t, node, JSON_OBJECT))
            put_properties(t, node);
        tool_text_put(t, "}");
    } else {
        put_value(t, node, true);
    }
}

/* The members of the schema of an array's items */
static void put_items(struct tool_text *t, uint32_t items)
{
    uint32_t *order = tojson_sorted(t->j, items, false);
    bool some = false;
    t->ok = t->ok && order;
    for (uint32_t i = 0; i < t->j->values[items].n_children && t->ok; i++) {
        if (t->j->values[order[i]].type == JSON_NULL)
            continue;
        tool_text_put(t, some ? "," : "");
        put_item_member(t, order[i]);
        some = true;
    }
    free(order);
}

static void put_type(struct tool_text *t, uint32_t spec)
{
    tool_text_put(t, "type:");
    put_upper(t, tool_text_member(t, spec, "type"));
}

/* The members of a schema that the template lists; each is followed by a comma, except for the type. */
static void put_parameter(struct tool_text *t, uint32_t spec)
{
    uint32_t description = tool_text_member(t, spec, "description");
    uint32_t values = tool_text_member(t, spec, "enum"), items = tool_text_member(t, spec, "items");
    uint32_t inner = tool_text_member(t, spec, "properties");
    uint32_t required = tool_text_member(t, spec, "required");
    if (tool_text_is_true(t, description)) {
        tool_text_put(t, "description:");
        put_quoted(t, description);
        tool_text_put(t, ",");
    }
    if (is_of_type(t, spec, "STRING") && tool_text_is_true(t, values)) {
        tool_text_put(t, "enum:");
        put_value(t, values, true);
        tool_text_put(t, ",");
    }
    if (is_of_type(t, spec, "ARRAY") && tool_text_is(t, items, JSON_OBJECT) &&
        tool_text_is_true(t, items)) {
        tool_text_put(t, "items:{");
        put_items(t, items);
        tool_text_put(t, "},");
    }
    tool_text_put(t, tool_text_is_true(t, tool_text_member(t, spec, "nullable")) ? "nullable:true,"
                                                                                 : "");
    if (is_of_type(t, spec, "OBJECT")) {
        tool_text_put(t, "properties:{");
        put_properties(t, tool_text_is(t, inner, JSON_OBJECT) ? inner : spec);
        tool_text_put(t, "},");
        if (tool_text_is_true(t, required)) {
            put_names(t, required);
            tool_text_put(t, ",");
        }
    }
    put_type(t, spec);
}

/* ---- functions ---------------------------------------------------------------------------- */

/* An object without a type is not closed, as in the template. */
static void put_parameters(struct tool_text *t, uint32_t parameters)
{
    uint32_t listed = tool_text_member(t, parameters, "properties");
    uint32_t required = tool_text_member(t, parameters, "required");
    tool_text_put(t, ",parameters:{");
    if (tool_text_is_true(t, listed)) {
        if (!tool_text_is(t, listed, JSON_OBJECT)) {
            tool_text_fail(t, "'properties' is no object");
            return;
        }
        tool_text_put(t, "properties:{");
        put_properties(t, listed);
        tool_text_put(t, "},");
    }
    if (tool_text_is_true(t, required)) {
        put_names(t, required);
        tool_text_put(t, ",");
    }
    if (tool_text_is_true(t, tool_text_member(t, parameters, "type"))) {
        put_type(t, parameters);
        tool_text_put(t, "}");
    }
}

void tool_gemma_put_function(struct tool_text *t, uint32_t function)
{
    uint32_t parameters = tool_text_member(t, function, "parameters");
    uint32_t response = tool_text_member(t, function, "response");
    uint32_t description = tool_text_member(t, response, "description");
    tool_text_put(t, "declaration:");
    tool_text_plain(t, tool_text_member(t, function, "name"));
    tool_text_put(t, "{description:");
    put_quoted(t, tool_text_member(t, function, "description"));
    if (tool_text_is_true(t, parameters))
        put_parameters(t, parameters);
    if (response) {
        tool_text_put(t, ",response:{");
        if (tool_text_is_true(t, description)) {
            tool_text_put(t, "description:");
            put_quoted(t, description);
            tool_text_put(t, ",");
        }
        if (is_of_type(t, response, "OBJECT")) {
            put_type(t, response);
            tool_text_put(t, "}");
        }
    }
    tool_text_put(t, "}");
}
