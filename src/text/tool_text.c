/* Writing functions and values in notations of their own: see tool_text.h. */
#include "text/tool_text.h"

#include "text/tojson.h"

void tool_text_add(struct tool_text *t, const char *p, size_t n)
{
    t->ok = t->ok && buffer_add(t->out, p, n);
}

void tool_text_put(struct tool_text *t, const char *text)
{
    tool_text_add(t, text, strlen(text));
}

void tool_text_token(struct tool_text *t, const char *name)
{
    t->ok = t->ok && t->token(t->arg, name, strlen(name));
}

void tool_text_fail(struct tool_text *t, const char *missing)
{
    if (t->ok)
        t->missing = missing;
    t->ok = false;
}

uint32_t tool_text_member(const struct tool_text *t, uint32_t object, const char *name)
{
    return json_member(t->j, object, name);
}

bool tool_text_is(const struct tool_text *t, uint32_t node, enum json_type type)
{
    return node && t->j->values[node].type == type;
}

/* As Python sees it */
bool tool_text_is_true(const struct tool_text *t, uint32_t node)
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
void tool_text_plain(struct tool_text *t, uint32_t node)
{
    if (node)
        t->ok = t->ok && tojson_put(t->j, node, TOJSON_STR, t->out);
}

void tool_text_key(struct tool_text *t, uint32_t node)
{
    tool_text_add(t, t->j->text + t->j->values[node].key, t->j->values[node].n_key);
}
