/* Functions and values in notations of their own: see tool_types.h. They do what the templates of these
 * models do, with their oddities. Types recurse, at most JSON_DEPTH deep. */
#include "text/tool_types.h"

#include "text/thoughts.h"
#include "text/tojson.h"

struct types {
    const struct json *j;
    struct buffer *out;
    tool_types_token token;
    void *arg;
    const char *missing; /* what the template lacks: it would fail */
    bool ok;             /* false: no memory, or `missing` */
};

static void put_bytes(struct types *t, const char *p, size_t n)
{
    t->ok = t->ok && buffer_add(t->out, p, n);
}

static void put(struct types *t, const char *text)
{
    put_bytes(t, text, strlen(text));
}

static void put_token(struct types *t, const char *name)
{
    t->ok = t->ok && t->token(t->arg, name, strlen(name));
}

static void fail(struct types *t, const char *missing)
{
    if (t->ok)
        t->missing = missing;
    t->ok = false;
}

/* ---- looking at values -------------------------------------------------------------------- */

static uint32_t member(const struct types *t, uint32_t object, const char *name)
{
    return json_member(t->j, object, name);
}

static bool is_type(const struct types *t, uint32_t node, enum json_type type)
{
    return node && t->j->values[node].type == type;
}

/* As Python sees it */
static bool is_true(const struct types *t, uint32_t node)
{
    if (node == 0)
        return false;
    const struct json_value *x = &t->j->values[node];
    const char *p = t->j->text + x->text;
    size_t zeros = 0;
    switch (x->type) {
    case JSON_NULL:
    case JSON_FALSE:
        return false;
    case JSON_TRUE:
        return true;
    case JSON_NUMBER:
        while (zeros < x->n_text && strchr("-0.", p[zeros]))
            zeros++;
        return zeros < x->n_text && p[zeros] != 'e' && p[zeros] != 'E';
    default:
        return x->n_text > 0 || x->n_children > 0;
    }
}

/* As str() spells it; nothing for 0. */
static void put_plain(struct types *t, uint32_t node)
{
    if (node)
        t->ok = t->ok && tojson_put(t->j, node, TOJSON_STR, t->out);
}

/* A text; anything else makes the template fail. */
static void put_text(struct types *t, uint32_t node, const char *missing)
{
    if (is_type(t, node, JSON_STRING))
        put_plain(t, node);
    else
        fail(t, missing);
}

static void put_key(struct types *t, uint32_t node)
{
    put_bytes(t, t->j->text + t->j->values[node].key, t->j->values[node].n_key);
}

/* The items of a list as str() spells them, joined. */
static void put_joined(struct types *t, uint32_t list, const char *between)
{
    for (uint32_t i = t->j->values[list].first; i; i = t->j->values[i].next) {
        put_plain(t, i);
        if (t->j->values[i].next)
            put(t, between);
    }
}

/* The key of `node` is in the list `required`. */
static bool is_required(struct types *t, uint32_t node, uint32_t required)
{
    const struct json_value *x = &t->j->values[node];
    if (!is_true(t, required))
        return false;
    if (!is_type(t, required, JSON_ARRAY))
        return fail(t, "'required' is no list"), false;
    for (uint32_t i = t->j->values[required].first; i; i = t->j->values[i].next) {
        const struct json_value *k = &t->j->values[i];
        if (k->type == JSON_STRING && k->n_text == x->n_key &&
            memcmp(t->j->text + k->text, t->j->text + x->key, k->n_text) == 0)
            return true;
    }
    return false;
}

/* ---- TypeScript, as gpt-oss lists functions ------------------------------------------------ */

static void put_type(struct types *t, uint32_t spec);

/* Characters of p[0..n) */
static size_t count_characters(const char *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)p[i] & 0xC0) != 0x80;
    return count;
}

static void put_array_type(struct types *t, uint32_t spec)
{
    static const char *const known[][2] = {
        {"string", "string"}, {"number", "number"}, {"integer", "number"}, {"boolean", "boolean"}};
    static const char objects[] = "object | object";
    uint32_t items = member(t, spec, "items"), type = member(t, items, "type");
    size_t i = 0, from = t->out->n;
    while (i < 4 && !json_is(t->j, type, known[i][0]))
        i++;
    if (!is_true(t, items)) {
        put(t, "any");
    } else if (i < 4) {
        put(t, known[i][1]);
    } else {
        put_type(t, items);
        size_t n = t->out->n - from;
        if (t->ok && (count_characters(t->out->p + from, n) > 50 ||
                      (n == sizeof objects - 1 && memcmp(t->out->p + from, objects, n) == 0))) {
            t->out->n = from;
            put(t, "any");
        }
    }
    put(t, "[]");
    if (is_true(t, member(t, spec, "nullable")))
        put(t, " | null");
}

static void put_variants(struct types *t, uint32_t one_of)
{
    if (!is_type(t, one_of, JSON_ARRAY))
        fail(t, "'oneOf' is no list");
    for (uint32_t i = t->j->values[one_of].first; i && t->ok; i = t->j->values[i].next) {
        uint32_t description = member(t, i, "description"), def = member(t, i, "default");
        put_type(t, i);
        if (is_true(t, description)) {
            put(t, "// ");
            put_text(t, description, "a description is no text");
        }
        if (def) {
            put(t, "                    // default: ");
            t->ok = t->ok && tojson_put(t->j, def, TOJSON_JSON, t->out);
        }
        if (t->j->values[i].next)
            put(t, " | \n");
    }
}

static void put_object_type(struct types *t, uint32_t spec)
{
    uint32_t properties = member(t, spec, "properties"), required = member(t, spec, "required");
    if (!is_true(t, properties)) {
        put(t, "object");
        return;
    }
    if (!is_type(t, properties, JSON_OBJECT))
        fail(t, "'properties' is no object");
    put(t, "{\n");
    for (uint32_t i = t->j->values[properties].first; i && t->ok; i = t->j->values[i].next) {
        put_key(t, i);
        put(t, is_required(t, i, required) ? ": " : "?: ");
        put(t, "\n                ");
        put_type(t, i);
        if (t->j->values[i].next)
            put(t, ", ");
    }
    put(t, "}");
}

static void put_string_type(struct types *t, uint32_t spec)
{
    uint32_t words = member(t, spec, "enum");
    if (!is_true(t, words)) {
        put(t, is_true(t, member(t, spec, "nullable")) ? "string | null" : "string");
        return;
    }
    if (!is_type(t, words, JSON_ARRAY))
        fail(t, "'enum' is no list");
    put(t, "\"");
    if (t->ok)
        put_joined(t, words, "\" | \"");
    put(t, "\"");
}

static void put_type(struct types *t, uint32_t spec)
{
    uint32_t type = member(t, spec, "type"), one_of = member(t, spec, "oneOf");
    if (json_is(t->j, type, "array"))
        put_array_type(t, spec);
    else if (is_type(t, type, JSON_ARRAY) && is_true(t, type))
        put_joined(t, type, " | ");
    else if (is_true(t, one_of))
        put_variants(t, one_of);
    else if (json_is(t->j, type, "string"))
        put_string_type(t, spec);
    else if (json_is(t->j, type, "number") || json_is(t->j, type, "integer"))
        put(t, "number");
    else if (json_is(t->j, type, "boolean"))
        put(t, "boolean");
    else if (json_is(t->j, type, "object"))
        put_object_type(t, spec);
    else
        put(t, "any");
}

static void put_parameter(struct types *t, uint32_t spec, uint32_t required)
{
    uint32_t description = member(t, spec, "description"), def = member(t, spec, "default");
    bool words = is_true(t, member(t, spec, "enum"));
    if (is_true(t, description)) {
        put(t, "// ");
        put_text(t, description, "a description is no text");
        put(t, "\n");
    }
    put_key(t, spec);
    put(t, is_required(t, spec, required) ? ": " : "?: ");
    put_type(t, spec);
    if (def) {
        bool variants = !words && is_true(t, member(t, spec, "oneOf"));
        put(t, variants ? "// default: " : ", // default: ");
        if (words || variants)
            put_text(t, def, "a default is no text");
        else
            t->ok = t->ok && tojson_put(t->j, def, TOJSON_JSON, t->out);
    }
    put(t, ",\n");
}

static void put_typescript(struct types *t, uint32_t function)
{
    uint32_t parameters = member(t, function, "parameters");
    uint32_t properties = member(t, parameters, "properties");
    put(t, "// ");
    put_text(t, member(t, function, "description"), "a function has no description");
    put(t, "\ntype ");
    put_plain(t, member(t, function, "name"));
    put(t, " = (");
    if (is_true(t, properties)) {
        put(t, "_: {\n");
        if (!is_type(t, properties, JSON_OBJECT))
            fail(t, "'properties' is no object");
        for (uint32_t i = t->j->values[properties].first; i && t->ok; i = t->j->values[i].next)
            put_parameter(t, i, member(t, parameters, "required"));
        put(t, "}");
    }
    put(t, ") => any;\n\n");
}

/* ---- Python, as Hermes lists functions ----------------------------------------------------- */

static void put_python_type(struct types *t, uint32_t spec);

/* Of a name alone */
static void put_python_name(struct types *t, uint32_t type)
{
    static const char *const known[][2] = {
        {"string", "str"}, {"number", "float"}, {"integer", "int"}, {"boolean", "bool"}};
    for (size_t i = 0; i < 4; i++)
        if (json_is(t->j, type, known[i][0])) {
            put(t, known[i][1]);
            return;
        }
    if (json_is(t->j, type, "array"))
        put(t, "list[Union[]]"); /* the template looks for items in the wrong place */
    else if (json_is(t->j, type, "object"))
        put(t, "dict");
    else if (type == 0 || json_is(t->j, type, ""))
        put(t, "Union[]");
    else if (is_type(t, type, JSON_STRING))
        fail(t, "a type is none of string, number, integer, boolean, array and object");
    else
        put(t, "Any");
}

static void put_python_type(struct types *t, uint32_t spec)
{
    uint32_t type = member(t, spec, "type"), more = member(t, spec, "additionalProperties");
    if (json_is(t->j, type, "object") && more) {
        put(t, "dict[str, ");
        put_python_type(t, more);
        put(t, "]");
    } else if (is_type(t, type, JSON_ARRAY)) {
        put(t, "Union[");
        for (uint32_t i = t->j->values[type].first; i; i = t->j->values[i].next) {
            put_python_name(t, i);
            if (t->j->values[i].next)
                put(t, ",");
        }
        put(t, "]");
    } else if (is_type(t, type, JSON_OBJECT)) {
        fail(t, "a type is an object");
    } else {
        put_python_name(t, type);
    }
}

/* What str.strip leaves of a description; nothing where there is none */
static void put_stripped(struct types *t, uint32_t node)
{
    struct buffer text = {0};
    struct types inner = *t;
    inner.out = &text;
    put_plain(&inner, node);
    t->ok = inner.ok;
    size_t n = text.n;
    const char *p = n ? thoughts_trim(text.p, &n, TRIM_SPACE, TRIM_SPACE) : "";
    put_bytes(t, p, n);
    buffer_close(&text);
}

static void put_python_parameters(struct types *t, uint32_t properties, bool documented)
{
    uint32_t first = is_type(t, properties, JSON_OBJECT) ? t->j->values[properties].first : 0;
    if (properties && !is_type(t, properties, JSON_OBJECT))
        fail(t, "'properties' is no object");
    for (uint32_t i = first; i && t->ok; i = t->j->values[i].next) {
        if (documented)
            put(t, i == first ? "    Args:\n        " : "        ");
        put_key(t, i);
        put(t, documented ? "(" : ": ");
        put_python_type(t, i);
        if (documented) {
            put(t, "): ");
            put_stripped(t, member(t, i, "description"));
        } else if (t->j->values[i].next) {
            put(t, ", ");
        }
    }
}

static void put_signature(struct types *t, uint32_t function)
{
    uint32_t parameters = member(t, function, "parameters"), of = member(t, function, "return");
    uint32_t properties = member(t, parameters, "properties");
    if (parameters == 0)
        fail(t, "a function has no parameters");
    put_plain(t, member(t, function, "name"));
    put(t, "(");
    put_python_parameters(t, properties, false);
    put(t, ")");
    if (of) {
        put(t, " -> ");
        put_python_type(t, of);
    }
    put(t, " - ");
    put_text(t, member(t, function, "description"), "a function has no description");
    put(t, "\n\n");
    put_python_parameters(t, properties, true);
    if (member(t, of, "description")) {
        put(t, "\n    Returns:\n        ");
        put_text(t, member(t, of, "description"), "a description is no text");
    }
}

/* ---- Gemma 4 -------------------------------------------------------------------------------- */

static const char gemma_quote[] = "<|\"|>";

static void put_gemma_value(struct types *t, uint32_t node, bool quote_keys)
{
    const struct json_value *x = &t->j->values[node];
    uint32_t *order = NULL;
    if (x->type == JSON_STRING) {
        put_token(t, gemma_quote);
        put_plain(t, node);
        put_token(t, gemma_quote);
    } else if (x->type == JSON_TRUE || x->type == JSON_FALSE) {
        put(t, x->type == JSON_TRUE ? "true" : "false");
    } else if (x->type == JSON_OBJECT) {
        if (!(order = tojson_sorted(t->j, node, false)))
            t->ok = false;
        put(t, "{");
        for (uint32_t i = 0; i < x->n_children && t->ok; i++) {
            put(t, i ? "," : "");
            if (quote_keys)
                put_token(t, gemma_quote);
            put_key(t, order[i]);
            if (quote_keys)
                put_token(t, gemma_quote);
            put(t, ":");
            put_gemma_value(t, order[i], quote_keys);
        }
        put(t, "}");
        free(order);
    } else if (x->type == JSON_ARRAY) {
        put(t, "[");
        for (uint32_t i = x->first; i && t->ok; i = t->j->values[i].next) {
            put_gemma_value(t, i, quote_keys);
            if (t->j->values[i].next)
                put(t, ",");
        }
        put(t, "]");
    } else {
        put_plain(t, node);
    }
}

bool tool_types_put_string(const char *p, size_t n, struct buffer *out, tool_types_token token,
                           void *arg)
{
    size_t len = sizeof gemma_quote - 1;
    return token(arg, gemma_quote, len) && buffer_add(out, p, n) && token(arg, gemma_quote, len);
}

/* ---- tags, as Qwen3-Coder lists functions --------------------------------------------------- */

static bool is_container(const struct types *t, uint32_t node)
{
    return is_type(t, node, JSON_ARRAY) || is_type(t, node, JSON_OBJECT);
}

/* "\n<key>value</key>" */
static void put_tag(struct types *t, uint32_t node, bool as_json)
{
    put(t, "\n<");
    put_key(t, node);
    put(t, ">");
    t->ok =
        t->ok &&
        tojson_put(t->j, node, as_json || is_container(t, node) ? TOJSON_JSON : TOJSON_STR, t->out);
    put(t, "</");
    put_key(t, node);
    put(t, ">");
}

static void put_json_tag(struct types *t, uint32_t node)
{
    if (node)
        put_tag(t, node, true);
}

/* Members of an object; `known`: [..] ends with NULL, what is left out. */
static void put_other_tags(struct types *t, uint32_t object, const char *const *known)
{
    uint32_t first = is_type(t, object, JSON_OBJECT) ? t->j->values[object].first : 0;
    for (uint32_t i = first; i && t->ok; i = t->j->values[i].next) {
        const char *const *k = known;
        while (*k && member(t, object, *k) != i)
            k++;
        if (!*k)
            put_tag(t, i, false);
    }
}

static void put_description_tag(struct types *t, uint32_t object)
{
    uint32_t description = member(t, object, "description");
    put(t, description ? "\n<description>" : "");
    put_stripped(t, description);
    put(t, description ? "</description>" : "");
}

static void put_tagged_parameter(struct types *t, uint32_t spec, bool apart)
{
    static const char *const known[] = {"name", "type", "description", NULL};
    static const char *const known_apart[] = {"name", "type", "description", "enum", NULL};
    uint32_t type = member(t, spec, "type");
    put(t, "\n<parameter>\n<name>");
    put_key(t, spec);
    put(t, "</name>");
    put(t, type ? "\n<type>" : "");
    put_plain(t, type);
    put(t, type ? "</type>" : "");
    put_description_tag(t, spec);
    if (apart)
        put_json_tag(t, member(t, spec, "enum"));
    put_other_tags(t, spec, apart ? known_apart : known);
    put(t, "\n</parameter>");
}

/* `apart`: `enum` stands before other members, and `required` behind them, both as JSON. */
static void put_tags(struct types *t, uint32_t function, bool apart)
{
    static const char *const known[] = {"type", "properties", NULL};
    static const char *const known_apart[] = {"type", "properties", "required", NULL};
    static const char *const of_function[] = {"type", "name", "description", "parameters", NULL};
    uint32_t parameters = member(t, function, "parameters");
    uint32_t properties = member(t, parameters, "properties");
    put(t, "<function>\n<name>");
    put_plain(t, member(t, function, "name"));
    put(t, "</name>");
    put_description_tag(t, function);
    put(t, "\n<parameters>");
    uint32_t first = is_type(t, properties, JSON_OBJECT) ? t->j->values[properties].first : 0;
    for (uint32_t i = first; i && t->ok; i = t->j->values[i].next)
        put_tagged_parameter(t, i, apart);
    put_other_tags(t, parameters, apart ? known_apart : known);
    if (apart)
        put_json_tag(t, member(t, parameters, "required"));
    put(t, "\n</parameters>");
    put_other_tags(t, function, of_function);
    put(t, "\n</function>");
}

/* ---- all ------------------------------------------------------------------------------------ */

enum tern_status tool_types_put(const struct json *j, uint32_t node, uint32_t style,
                                struct buffer *out, tool_types_token token, void *arg,
                                struct tern_error *e)
{
    struct types t = {j, out, token, arg, NULL, true};
    uint32_t inner = json_member(j, node, "function"), function = inner == 0 ? node : inner;
    switch (style & TOJSON_NOTATION) {
    case TOJSON_TYPES:
        put_typescript(&t, function);
        break;
    case TOJSON_SIGNATURE:
        put_signature(&t, function);
        break;
    case TOJSON_TAGS:
    case TOJSON_TAGS_APART:
        put_tags(&t, function, (style & TOJSON_NOTATION) == TOJSON_TAGS_APART);
        break;
    case TOJSON_GEMMA:
        put_gemma_value(&t, node, false);
        break;
    default:
        fail(&t, "this notation is not known");
    }
    if (t.missing)
        return error_set(e, TERN_USAGE, "the chat template cannot list the tools: %s", t.missing);
    return t.ok ? TERN_OK : error_memory(e, "a list of tools", out->n);
}
