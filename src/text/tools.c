/* The tools of a conversation: see tools.h. */
#include "text/tools.h"

enum { TREE_BYTES_MAX = 64 << 20 }; /* memory of two trees of TOOLS_BYTES_MAX */

static bool is_word(const char *p, size_t n, const char *more)
{
    for (size_t i = 0; i < n; i++)
        if (!((p[i] | 32) >= 'a' && (p[i] | 32) <= 'z') && !(p[i] >= '0' && p[i] <= '9') &&
            !(p[i] && strchr(more, p[i])))
            return false;
    return n > 0;
}

bool tools_is_name(const char *p, size_t n)
{
    return n <= TOOLS_NAME_MAX && is_word(p, n, "_.-");
}

bool tools_is_id(const char *p, size_t n)
{
    return n <= TOOLS_ID_MAX && is_word(p, n, "_.:-");
}

static enum tern_status bad_tools(struct tern_error *e, const char *what)
{
    return error_set(e, TERN_USAGE, "tools: %s", what);
}

static bool has_function(const struct json *j, uint32_t tool)
{
    uint32_t f = json_member(j, tool, "function");
    return f && j->values[f].type == JSON_OBJECT;
}

/* Each tool as it is, or wrapped. */
static enum tern_status wrap(struct tools *t, const struct json *j, const char *source,
                             struct tern_error *e)
{
    static const char before[] = "{\"type\": \"function\", \"function\": ";
    struct buffer *out = &t->text;
    bool ok = buffer_add(out, "[", 1);
    for (uint32_t i = j->values[0].first; i && ok; i = j->values[i].next) {
        const struct json_value *x = &j->values[i];
        bool whole = has_function(j, i);
        if (x->type != JSON_OBJECT)
            return bad_tools(e, "an item of the array is no object");
        ok = (i == j->values[0].first || buffer_add(out, ", ", 2)) &&
             (whole || buffer_add(out, before, sizeof before - 1)) &&
             buffer_add(out, source + x->from, x->to - x->from) &&
             (whole || buffer_add(out, "}", 1));
    }
    return ok && buffer_add(out, "]", 1) ? TERN_OK : error_memory(e, "the tools", out->n);
}

static enum tern_status check_names(const struct tools *t, struct tern_error *e)
{
    const struct json *j = &t->json;
    for (uint32_t i = j->values[0].first; i; i = j->values[i].next) {
        uint32_t name = json_member(j, tools_function(t, i), "name");
        const struct json_value *x = &j->values[name == 0 ? 0 : name];
        if (x->type != JSON_STRING || !tools_is_name(j->text + x->text, x->n_text))
            return bad_tools(e, "a function has no name of 1 to 64 letters, digits and _ . -");
        if (tools_find(t, j->text + x->text, x->n_text) != i)
            return error_set(e, TERN_USAGE, "tools: there are two functions '%.*s'", (int)x->n_text,
                             j->text + x->text);
    }
    return TERN_OK;
}

enum tern_status tools_open(struct tools *out, const char *text, size_t n, struct tern_error *e)
{
    struct json given = {0};
    *out = (struct tools){.budget = {.bytes = TREE_BYTES_MAX, .steps = UINT64_MAX}};
    if (n > TOOLS_BYTES_MAX)
        return error_set(e, TERN_LIMIT, "the tools have more than %d bytes", TOOLS_BYTES_MAX);
    enum tern_status s = json_read(&given, text, n, "tools", &out->budget, e);
    if (s)
        return s;
    s = given.values[0].n_children > TOOLS_MAX
            ? error_set(e, TERN_LIMIT, "there are more than %d tools", TOOLS_MAX)
        : given.values[0].type == JSON_ARRAY ? wrap(out, &given, text, e)
                                             : bad_tools(e, "want a JSON array of tools");
    json_close(&given);
    if (!s)
        s = json_read(&out->json, out->text.p, out->text.n, "tools", &out->budget, e);
    return s ? s : check_names(out, e);
}

void tools_close(struct tools *t)
{
    buffer_close(&t->text);
    json_close(&t->json);
}

uint32_t tools_function(const struct tools *t, uint32_t tool)
{
    return json_member(&t->json, tool, "function");
}

uint32_t tools_find(const struct tools *t, const char *name, size_t n)
{
    const struct json *j = &t->json;
    for (uint32_t i = j->values ? j->values[0].first : 0; i; i = j->values[i].next) {
        uint32_t id = json_member(j, tools_function(t, i), "name");
        const struct json_value *x = &j->values[id == 0 ? 0 : id];
        if (x->type == JSON_STRING && x->n_text == n && memcmp(j->text + x->text, name, n) == 0)
            return i;
    }
    return 0;
}
