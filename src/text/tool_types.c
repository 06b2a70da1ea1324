/* Functions and values in notations of their own: see tool_types.h. They do what the templates of these
 * models do, with their oddities. Types recurse, at most JSON_DEPTH deep. */
#include "text/tool_types.h"

#include "text/thoughts.h"
#include "text/tojson.h"
#include "text/tool_gemma.h"

/* A text; anything else makes the template fail. */
static void put_text(struct tool_text *t, uint32_t node, const char *missing)
{
    if (tool_text_is(t, node, JSON_STRING))
        tool_text_plain(t, node);
    else
        tool_text_fail(t, missing);
}

/* The items of a list as str() spells them, joined. */
static void put_joined(struct tool_text *t, uint32_t list, const char *between)
{
    for (uint32_t i = t->j->values[list].first; i; i = t->j->values[i].next) {
        tool_text_plain(t, i);
        if (t->j->values[i].next)
            tool_text_put(t, between);
    }
}

/* The key of `node` is in the list `required`. */
static bool is_required(struct tool_text *t, uint32_t node, uint32_t required)
{
    const struct json_value *x = &t->j->values[node];
    if (!tool_text_is_true(t, required))
        return false;
    if (!tool_text_is(t, required, JSON_ARRAY))
        return tool_text_fail(t, "'required' is no list"), false;
    for (uint32_t i = t->j->values[required].first; i; i = t->j->values[i].next) {
        const struct json_value *k = &t->j->values[i];
        if (k->type == JSON_STRING && k->n_text == x->n_key &&
            memcmp(t->j->text + k->text, t->j->text + x->key, k->n_text) == 0)
            return true;
    }
    return false;
}

/* ---- TypeScript, as gpt-oss lists functions ------------------------------------------------ */

static void put_type(struct tool_text *t, uint32_t spec);

/* Characters of p[0..n) */
static size_t count_characters(const char *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)p[i] & 0xC0) != 0x80;
    return count;
}

static void put_array_type(struct tool_text *t, uint32_t spec)
{
    static const char *const known[][2] = {
        {"string", "string"}, {"number", "number"}, {"integer", "number"}, {"boolean", "boolean"}};
    static const char objects[] = "object | object";
    uint32_t items = tool_text_member(t, spec, "items"), type = tool_text_member(t, items, "type");
    size_t i = 0, from = t->out->n;
    while (i < 4 && !json_is(t->j, type, known[i][0]))
        i++;
    if (!tool_text_is_true(t, items)) {
        tool_text_put(t, "any");
    } else if (i < 4) {
        tool_text_put(t, known[i][1]);
    } else {
        put_type(t, items);
        size_t n = t->out->n - from;
        if (t->ok && (count_characters(t->out->p + from, n) > 50 ||
                      (n == sizeof objects - 1 && memcmp(t->out->p + from, objects, n) == 0))) {
            t->out->n = from;
            tool_text_put(t, "any");
        }
    }
    tool_text_put(t, "[]");
    if (tool_text_is_true(t, tool_text_member(t, spec, "nullable")))
        tool_text_put(t, " | null");
}

static void put_variants(struct tool_text *t, uint32_t one_of)
{
    if (!tool_text_is(t, one_of, JSON_ARRAY))
        tool_text_fail(t, "'oneOf' is no list");
    for (uint32_t i = t->j->values[one_of].first; i && t->ok; i = t->j->values[i].next) {
        uint32_t description = tool_text_member(t, i, "description"),
                 def = tool_text_member(t, i, "default");
        put_type(t, i);
        if (tool_text_is_true(t, description)) {
            tool_text_put(t, "// ");
            put_text(t, description, "a description is no text");
        }
        if (def) {
            tool_text_put(t, "                    // default: ");
            t->ok = t->ok && tojson_put(t->j, def, TOJSON_JSON, t->out);
        }
        if (t->j->values[i].next)
            tool_text_put(t, " | \n");
    }
}

static void put_object_type(struct tool_text *t, uint32_t spec)
{
    uint32_t properties = tool_text_member(t, spec, "properties"),
             required = tool_text_member(t, spec, "required");
    if (!tool_text_is_true(t, properties)) {
        tool_text_put(t, "object");
        return;
    }
    if (!tool_text_is(t, properties, JSON_OBJECT))
        tool_text_fail(t, "'properties' is no object");
    tool_text_put(t, "{\n");
    for (uint32_t i = t->j->values[properties].first; i && t->ok; i = t->j->values[i].next) {
        tool_text_key(t, i);
        tool_text_put(t, is_required(t, i, required) ? ": " : "?: ");
        tool_text_put(t, "\n                ");
        put_type(t, i);
        if (t->j->values[i].next)
            tool_text_put(t, ", ");
    }
    tool_text_put(t, "}");
}

static void put_string_type(struct tool_text *t, uint32_t spec)
{
    uint32_t words = tool_text_member(t, spec, "enum");
    if (!tool_text_is_true(t, words)) {
        tool_text_put(t, tool_text_is_true(t, tool_text_member(t, spec, "nullable"))
                             ? "string | null"
                             : "string");
        return;
    }
    if (!tool_text_is(t, words, JSON_ARRAY))
        tool_text_fail(t, "'enum' is no list");
    tool_text_put(t, "\"");
    if (t->ok)
        put_joined(t, words, "\" | \"");
    tool_text_put(t, "\"");
}

static void put_type(struct tool_text *t, uint32_t spec)
{
    uint32_t type = tool_text_member(t, spec, "type"), one_of = tool_text_member(t, spec, "oneOf");
    if (json_is(t->j, type, "array"))
        put_array_type(t, spec);
    else if (tool_text_is(t, type, JSON_ARRAY) && tool_text_is_true(t, type))
        put_joined(t, type, " | ");
    else if (tool_text_is_true(t, one_of))
        put_variants(t, one_of);
    else if (json_is(t->j, type, "string"))
        put_string_type(t, spec);
    else if (json_is(t->j, type, "number") || json_is(t->j, type, "integer"))
        tool_text_put(t, "number");
    else if (json_is(t->j, type, "boolean"))
        tool_text_put(t, "boolean");
    else if (json_is(t->j, type, "object"))
        put_object_type(t, spec);
    else
        tool_text_put(t, "any");
}

static void put_parameter(struct tool_text *t, uint32_t spec, uint32_t required)
{
    uint32_t description = tool_text_member(t, spec, "description"),
             def = tool_text_member(t, spec, "default");
    bool words = tool_text_is_true(t, tool_text_member(t, spec, "enum"));
    if (tool_text_is_true(t, description)) {
        tool_text_put(t, "// ");
        put_text(t, description, "a description is no text");
        tool_text_put(t, "\n");
    }
    tool_text_key(t, spec);
    tool_text_put(t, is_required(t, spec, required) ? ": " : "?: ");
    put_type(t, spec);
    if (def) {
        bool variants = !words && tool_text_is_true(t, tool_text_member(t, spec, "oneOf"));
        tool_text_put(t, variants ? "// default: " : ", // default: ");
        if (words || variants)
            put_text(t, def, "a default is no text");
        else
            t->ok = t->ok && tojson_put(t->j, def, TOJSON_JSON, t->out);
    }
    tool_text_put(t, ",\n");
}

static void put_typescript(struct tool_text *t, uint32_t function)
{
    uint32_t parameters = tool_text_member(t, function, "parameters");
    uint32_t properties = tool_text_member(t, parameters, "properties");
    tool_text_put(t, "// ");
    put_text(t, tool_text_member(t, function, "description"), "a function has no description");
    tool_text_put(t, "\ntype ");
    tool_text_plain(t, tool_text_member(t, function, "name"));
    tool_text_put(t, " = (");
    if (tool_text_is_true(t, properties)) {
        tool_text_put(t, "_: {\n");
        if (!tool_text_is(t, properties, JSON_OBJECT))
            tool_text_fail(t, "'properties' is no object");
        for (uint32_t i = t->j->values[properties].first; i && t->ok; i = t->j->values[i].next)
            put_parameter(t, i, tool_text_member(t, parameters, "required"));
        tool_text_put(t, "}");
    }
    tool_text_put(t, ") => any;\n\n");
}

/* ---- Python, as Hermes lists functions ----------------------------------------------------- */

static void put_python_type(struct tool_text *t, uint32_t spec);

/* Of a name alone */
static void put_python_name(struct tool_text *t, uint32_t type)
{
    static const char *const known[][2] = {
        {"string", "str"}, {"number", "float"}, {"integer", "int"}, {"boolean", "bool"}};
    for (size_t i = 0; i < 4; i++)
        if (json_is(t->j, type, known[i][0])) {
            tool_text_put(t, known[i][1]);
            return;
        }
    if (json_is(t->j, type, "array"))
        tool_text_put(t, "list[Union[]]"); /* the template looks for items in the wrong place */
    else if (json_is(t->j, type, "object"))
        tool_text_put(t, "dict");
    else if (type == 0 || json_is(t->j, type, ""))
        tool_text_put(t, "Union[]");
    else if (tool_text_is(t, type, JSON_STRING))
        tool_text_fail(t, "a type is none of string, number, integer, boolean, array and object");
    else
        tool_text_put(t, "Any");
}

static void put_python_type(struct tool_text *t, uint32_t spec)
{
    uint32_t type = tool_text_member(t, spec, "type"),
             more = tool_text_member(t, spec, "additionalProperties");
    if (json_is(t->j, type, "object") && more) {
        tool_text_put(t, "dict[str, ");
        put_python_type(t, more);
        tool_text_put(t, "]");
    } else if (tool_text_is(t, type, JSON_ARRAY)) {
        tool_text_put(t, "Union[");
        for (uint32_t i = t->j->values[type].first; i; i = t->j->values[i].next) {
            put_python_name(t, i);
            if (t->j->values[i].next)
                tool_text_put(t, ",");
        }
        tool_text_put(t, "]");
    } else if (tool_text_is(t, type, JSON_OBJECT)) {
        tool_text_fail(t, "a type is an object");
    } else {
        put_python_name(t, type);
    }
}

/* What str.strip leaves of a description; nothing where there is none */
static void put_stripped(struct tool_text *t, uint32_t node)
{
    struct buffer text = {0};
    struct tool_text inner = *t;
    inner.out = &text;
    tool_text_plain(&inner, node);
    t->ok = inner.ok;
    size_t n = text.n;
    const char *p = n ? thoughts_trim(text.p, &n, TRIM_SPACE, TRIM_SPACE) : "";
    tool_text_add(t, p, n);
    buffer_close(&text);
}

static void put_python_parameters(struct tool_text *t, uint32_t properties, bool documented)
{
    uint32_t first = tool_text_is(t, properties, JSON_OBJECT) ? t->j->values[properties].first : 0;
    if (properties && !tool_text_is(t, properties, JSON_OBJECT))
        tool_text_fail(t, "'properties' is no object");
    for (uint32_t i = first; i && t->ok; i = t->j->values[i].next) {
        if (documented)
            tool_text_put(t, i == first ? "    Args:\n        " : "        ");
        tool_text_key(t, i);
        tool_text_put(t, documented ? "(" : ": ");
        put_python_type(t, i);
        if (documented) {
            tool_text_put(t, "): ");
            put_stripped(t, tool_text_member(t, i, "description"));
        } else if (t->j->values[i].next) {
            tool_text_put(t, ", ");
        }
    }
}

static void put_signature(struct tool_text *t, uint32_t function)
{
    uint32_t parameters = tool_text_member(t, function, "parameters"),
             of = tool_text_member(t, function, "return");
    uint32_t properties = tool_text_member(t, parameters, "properties");
    if (parameters == 0)
        tool_text_fail(t, "a function has no parameters");
    tool_text_plain(t, tool_text_member(t, function, "name"));
    tool_text_put(t, "(");
    put_python_parameters(t, properties, false);
    tool_text_put(t, ")");
    if (of) {
        tool_text_put(t, " -> ");
        put_python_type(t, of);
    }
    tool_text_put(t, " - ");
    put_text(t, tool_text_member(t, function, "description"), "a function has no description");
    tool_text_put(t, "\n\n");
    put_python_parameters(t, properties, true);
    if (tool_text_member(t, of, "description")) {
        tool_text_put(t, "\n    Returns:\n        ");
        put_text(t, tool_text_member(t, of, "description"), "a description is no text");
    }
}

/* ---- tags, as Qwen3-Coder lists functions --------------------------------------------------- */

static bool is_container(const struct tool_text *t, uint32_t node)
{
    return tool_text_is(t, node, JSON_ARRAY) || tool_text_is(t, node, JSON_OBJECT);
}

/* "\n<key>value</key>" */
static void put_tag(struct tool_text *t, uint32_t node, bool as_json)
{
    tool_text_put(t, "\n<");
    tool_text_key(t, node);
    tool_text_put(t, ">");
    t->ok =
        t->ok &&
        tojson_put(t->j, node, as_json || is_container(t, node) ? TOJSON_JSON : TOJSON_STR, t->out);
    tool_text_put(t, "</");
    tool_text_key(t, node);
    tool_text_put(t, ">");
}

static void put_json_tag(struct tool_text *t, uint32_t node)
{
    if (node)
        put_tag(t, node, true);
}

/* Members of an object; `known`: [..] ends with NULL, what is left out. */
static void put_other_tags(struct tool_text *t, uint32_t object, const char *const *known)
{
    uint32_t first = tool_text_is(t, object, JSON_OBJECT) ? t->j->values[object].first : 0;
    for (uint32_t i = first; i && t->ok; i = t->j->values[i].next) {
        const char *const *k = known;
        while (*k && tool_text_member(t, object, *k) != i)
            k++;
        if (!*k)
            put_tag(t, i, false);
    }
}

static void put_description_tag(struct tool_text *t, uint32_t object)
{
    uint32_t description = tool_text_member(t, object, "description");
    tool_text_put(t, description ? "\n<description>" : "");
    put_stripped(t, description);
    tool_text_put(t, description ? "</description>" : "");
}

static void put_tagged_parameter(struct tool_text *t, uint32_t spec, bool apart)
{
    static const char *const known[] = {"name", "type", "description", NULL};
    static const char *const known_apart[] = {"name", "type", "description", "enum", NULL};
    uint32_t type = tool_text_member(t, spec, "type");
    tool_text_put(t, "\n<parameter>\n<name>");
    tool_text_key(t, spec);
    tool_text_put(t, "</name>");
    tool_text_put(t, type ? "\n<type>" : "");
    tool_text_plain(t, type);
    tool_text_put(t, type ? "</type>" : "");
    put_description_tag(t, spec);
    if (apart)
        put_json_tag(t, tool_text_member(t, spec, "enum"));
    put_other_tags(t, spec, apart ? known_apart : known);
    tool_text_put(t, "\n</parameter>");
}

/* `apart`: `enum` stands before other members, and `required` behind them, both as JSON. */
static void put_tags(struct tool_text *t, uint32_t function, bool apart)
{
    static const char *const known[] = {"type", "properties", NULL};
    static const char *const known_apart[] = {"type", "properties", "required", NULL};
    static const char *const of_function[] = {"type", "name", "description", "parameters", NULL};
    uint32_t parameters = tool_text_member(t, function, "parameters");
    uint32_t properties = tool_text_member(t, parameters, "properties");
    tool_text_put(t, "<function>\n<name>");
    tool_text_plain(t, tool_text_member(t, function, "name"));
    tool_text_put(t, "</name>");
    put_description_tag(t, function);
    tool_text_put(t, "\n<parameters>");
    uint32_t first = tool_text_is(t, properties, JSON_OBJECT) ? t->j->values[properties].first : 0;
    for (uint32_t i = first; i && t->ok; i = t->j->values[i].next)
        put_tagged_parameter(t, i, apart);
    put_other_tags(t, parameters, apart ? known_apart : known);
    if (apart)
        put_json_tag(t, tool_text_member(t, parameters, "required"));
    tool_text_put(t, "\n</parameters>");
    put_other_tags(t, function, of_function);
    tool_text_put(t, "\n</function>");
}

/* ---- all ------------------------------------------------------------------------------------ */

enum tern_status tool_types_put(const struct json *j, uint32_t node, uint32_t style,
                                struct buffer *out, tool_text_special token, void *arg,
                                struct tern_error *e)
{
    struct tool_text t = {j, out, token, arg, NULL, true};
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
        tool_gemma_put_value(&t, node);
        break;
    case TOJSON_DECLARATION:
        tool_gemma_put_function(&t, function);
        break;
    default:
        tool_text_fail(&t, "this notation is not known");
    }
    if (t.missing)
        return error_set(e, TERN_USAGE, "the chat template cannot list the tools: %s", t.missing);
    return t.ok ? TERN_OK : error_memory(e, "a list of tools", out->n);
}
