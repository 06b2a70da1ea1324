/* Arguments of calls as JSON: see answer_values.h. */
#include "text/answer_values.h"

#include "base/hex.h"
#include "text/json_read.h"
#include "text/tojson.h"
#include "text/unicode.h"

/* ---- what the schema says ----------------------------------------------------------------- */

static uint32_t find_property(const struct tools *tools, const char *tool, struct mark key)
{
    const struct json *j = &tools->json;
    uint32_t at = tools_find(tools, tool, strlen(tool));
    uint32_t function = at == 0 ? 0 : tools_function(tools, at);
    uint32_t properties = json_member(j, json_member(j, function, "parameters"), "properties");
    if (properties == 0 || j->values[properties].type != JSON_OBJECT)
        return 0;
    for (uint32_t i = j->values[properties].first; i; i = j->values[i].next)
        if (j->values[i].n_key == key.n && memcmp(j->text + j->values[i].key, key.p, key.n) == 0)
            return i;
    return 0;
}

enum {
    DEPTH = 16,
    STEPS = 4096
}; /* schemas in schemas, and schemas in all; beyond them it is any type */

struct look {
    const struct json *j;
    uint32_t root; /* of "#" */
    uint32_t steps;
};

/* What one of several may be */
static enum answer_type either(enum answer_type a, enum answer_type b)
{
    return a == b ? a : ANSWER_ANY_TYPE;
}

/* What two say of the same value; of two that contradict, the first. */
static enum answer_type both(enum answer_type a, enum answer_type b)
{
    return a != ANSWER_ANY_TYPE ? a : b;
}

/* Of a value, or of the name of a type */
static enum answer_type type_of_value(const struct json *j, uint32_t i, bool is_name)
{
    bool text = is_name ? json_is(j, i, "string") : j->values[i].type == JSON_STRING;
    return text ? ANSWER_IS_TEXT : ANSWER_NO_TEXT;
}

/* Of an array of them, or of a single one, which `enum` is not. */
static enum answer_type type_of_values(const struct json *j, uint32_t list, bool is_name)
{
    uint32_t i = j->values[list].first;
    if (is_name && j->values[list].type == JSON_STRING)
        return type_of_value(j, list, true);
    if (j->values[list].type != JSON_ARRAY)
        return ANSWER_ANY_TYPE;
    enum answer_type type = i ? type_of_value(j, i, is_name) : ANSWER_ANY_TYPE;
    for (; i; i = j->values[i].next)
        type = either(type, type_of_value(j, i, is_name));
    return type;
}

/* The value at "#/a/b" in the root, or 0. */
static uint32_t find_ref(const struct look *k, uint32_t ref)
{
    const struct json *j = k->j;
    const char *p = j->text + j->values[ref].text, *end = p + j->values[ref].n_text;
    uint32_t at = k->root;
    if (j->values[ref].type != JSON_STRING || p == end || *p++ != '#')
        return 0;
    while (at && p < end && *p++ == '/') {
        const char *stop = memchr(p, '/', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        bool plain = !memchr(p, '~', n) && !memchr(p, '%', n);
        at = plain && j->values[at].type == JSON_OBJECT ? json_find(j, at, p, n) : 0;
        p += n;
    }
    return p == end ? at : 0;
}

static enum answer_type type_of(struct look *k, uint32_t schema, unsigned depth);

/* Of a list of schemas: all hold, or one does. */
static enum answer_type type_of_schemas(struct look *k, uint32_t list, bool all, unsigned depth)
{
    const struct json *j = k->j;
    uint32_t i = j->values[list].type == JSON_ARRAY ? j->values[list].first : 0;
    enum answer_type type = i ? type_of(k, i, depth) : ANSWER_ANY_TYPE;
    for (i = i ? j->values[i].next : 0; i; i = j->values[i].next)
        type = (all ? both : either)(type, type_of(k, i, depth));
    return type;
}

static enum answer_type type_of(struct look *k, uint32_t schema, unsigned depth)
{
    static const char *const schemas[] = {"allOf", "anyOf", "oneOf"};
    static const char *const values[] = {"type", "enum", "const"};
    const struct json *j = k->j;
    enum answer_type type = ANSWER_ANY_TYPE;
    uint32_t at;
    if (!schema || depth == DEPTH || k->steps == STEPS)
        return type;
    k->steps++;
    for (unsigned i = 0; i < 3; i++)
        if ((at = json_member(j, schema, values[i])))
            type = both(type, i == 2 ? type_of_value(j, at, false) : type_of_values(j, at, i == 0));
    for (unsigned i = 0; i < 3; i++)
        if ((at = json_member(j, schema, schemas[i])))
            type = both(type, type_of_schemas(k, at, i == 0, depth + 1));
    if ((at = json_member(j, schema, "$ref")))
        type = both(type, type_of(k, find_ref(k, at), depth + 1));
    return type;
}

enum answer_type answer_type_of(const struct tools *tools, const char *tool, struct mark key)
{
    uint32_t property = tools ? find_property(tools, tool, key) : 0;
    if (property == 0)
        return ANSWER_ANY_TYPE;
    const struct json *j = &tools->json;
    uint32_t function = tools_function(tools, tools_find(tools, tool, strlen(tool)));
    struct look k = {j, json_member(j, function, "parameters"), 0};
    return type_of(&k, property, 0);
}

/* ---- notations ---------------------------------------------------------------------------- */

struct notation {
    const char *p, *end;
    struct mark quote;
    struct buffer *out;
    bool ok;
};

static void put(struct notation *x, const char *text)
{
    x->ok = x->ok && buffer_add(x->out, text, strlen(text));
}

static bool begins(const struct notation *x, struct mark with)
{
    return with.n && (size_t)(x->end - x->p) >= with.n && memcmp(x->p, with.p, with.n) == 0;
}

static void put_json_string(struct notation *x, const char *p, size_t n)
{
    x->ok = x->ok && tojson_put_string(p, n, TOJSON_JSON, x->out);
}

/* Behind a backslash in a string of Python or JSON */
static bool read_escape(struct notation *x, struct buffer *text)
{
    static const char names[] = "nrtbfav0\\'\"/", means[] = "\n\r\t\b\f\a\v\0\\'\"/";
    const char *name = x->p < x->end && *x->p ? strchr(names, *x->p) : NULL;
    char bytes[4];
    uint32_t c, low;
    if (name)
        return x->p++, buffer_add(text, &means[name - names], 1);
    size_t n = x->p == x->end ? 0 : *x->p == 'x' ? 2 : *x->p == 'u' ? 4 : *x->p == 'U' ? 8 : 0;
    if (!n || (size_t)(x->end - x->p) <= n || !hex_read(x->p + 1, n, &c))
        return false;
    x->p += 1 + n;
    if (c >= 0xD800 && c < 0xDC00 && x->end - x->p >= 6 && x->p[0] == '\\' && x->p[1] == 'u' &&
        hex_read(x->p + 2, 4, &low) && low >= 0xDC00 && low < 0xE000) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        x->p += 6;
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return false;
    return buffer_add(text, bytes, unicode_encode(c, bytes));
}

static void put_string(struct notation *x)
{
    struct buffer text = {0};
    char quote = *x->p++;
    while (x->ok && x->p < x->end && *x->p != quote)
        x->ok = *x->p == '\\' ? x->p++, read_escape(x, &text) : buffer_add(&text, x->p++, 1);
    x->ok = x->ok && x->p++ < x->end;
    put_json_string(x, text.p ? text.p : "", text.n);
    buffer_close(&text);
}

static void put_quoted(struct notation *x)
{
    const char *from = x->p += x->quote.n;
    const char *stop = thoughts_find(from, (size_t)(x->end - from), x->quote, false);
    if (!(x->ok = stop != NULL))
        return;
    put_json_string(x, from, (size_t)(stop - from));
    x->p = stop + x->quote.n;
}

/* true, None, 1.5, or a key without quotes */
static void put_word(struct notation *x)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    const char *from = x->p;
    while (x->p < x->end && !strchr(" \n\r\t,:[]{}()'\"", *x->p))
        x->p++;
    size_t n = (size_t)(x->p - from);
    const char *next = x->p;
    while (next < x->end && (*next == ' ' || *next == '\n'))
        next++;
    if (x->quote.n && next < x->end && *next == ':') {
        put_json_string(x, from, n);
        return;
    }
    for (size_t i = 0; i < 3; i++)
        if (n == strlen(words[i][0]) && memcmp(from, words[i][0], n) == 0) {
            put(x, words[i][1]);
            return;
        }
    x->ok = x->ok && n && buffer_add(x->out, from, n);
}

static bool is_json(struct mark text, bool object)
{
    struct budget budget = {.bytes = SIZE_MAX, .steps = UINT64_MAX};
    struct json j;
    if (json_read(&j, text.p, text.n, "arguments", &budget, NULL))
        return false;
    bool good = !object || j.values[0].type == JSON_OBJECT;
    json_close(&j);
    return good;
}

bool answer_is_object(struct mark text)
{
    return is_json(text, true);
}

bool answer_put_value(struct mark value, struct mark quote, struct buffer *out)
{
    struct notation x = {value.p, value.p + value.n, quote, out, true};
    size_t from = out->n;
    while (x.ok && x.p < x.end) {
        if (begins(&x, quote))
            put_quoted(&x);
        else if (*x.p == '"' || *x.p == '\'')
            put_string(&x);
        else if (strchr(" \n\r\t,:[]{}", *x.p) && *x.p)
            x.ok = buffer_add(out, x.p++, 1);
        else
            put_word(&x);
    }
    if (x.ok && out->n > from && is_json((struct mark){out->p + from, out->n - from}, false))
        return true;
    out->n = from;
    return false;
}

bool answer_put_bare(struct mark value, enum answer_type type, struct buffer *out)
{
    size_t from = out->n;
    if (type != ANSWER_IS_TEXT && answer_put_value(value, (struct mark){"", 0}, out)) {
        if (type == ANSWER_NO_TEXT || out->p[from] != '"')
            return true;
        out->n = from; /* quotes are part of a text without quotes */
    }
    return tojson_put_string(value.p, value.n, TOJSON_JSON, out);
}
