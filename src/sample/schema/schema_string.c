/* Languages of strings: see schema_string.h. */
#include "sample/schema/schema_string.h"

#include "sample/language/regex.h"
#include "sample/schema/schema_lax.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_read.h"
#include "sample/language/string_formats.h"

#include <string.h>

lang string_check(struct schema *s, lang x)
{
    if (x == (lang)LANG_FAIL)
        schema_no_budget(s);
    return x;
}

bool string_is_empty(struct schema *s, lang x)
{
    if (s->status || x == LANG_NONE)
        return true;
    enum lang_answer live = lang_is_live(s->languages, x);
    if (live == LANG_UNKNOWN)
        schema_no_budget(s);
    return live == LANG_NO;
}

bool string_matches(struct schema *s, lang x, const char *p, size_t n)
{
    if (x == LANG_CHARS)
        return true;
    for (size_t i = 0; i < n && x != LANG_NONE && !s->status; i++)
        x = string_check(s, lang_step(s->languages, x, (unsigned char)p[i]));
    return !s->status && lang_accepts(s->languages, x);
}

/* The keyword, a member of its schema, counts as kept. */
static void leave_open(struct schema *s, uint32_t keyword, const char *reason)
{
    if (schema_leave_out(s, schema_value(s, keyword)->parent, keyword_rule(s, keyword)->name,
                         reason))
        lax_open(s, keyword);
}

lang string_pattern(struct schema *s, uint32_t keyword, const char *p, size_t n)
{
    struct tern_error e = {0};
    if (s->status)
        return LANG_CHARS;
    lang x = regex_compile(s->languages, p, n, false, &e);
    if (x != (lang)LANG_FAIL)
        return x;
    if (e.code == TERN_USAGE)
        leave_open(s, keyword, e.text);
    else
        schema_no_budget(s);
    return LANG_CHARS;
}

/* The strings of a list of values, or the one value. */
static lang constants(struct schema *s, const struct keyword *k)
{
    const struct json_value *v = schema_value(s, k->value);
    bool list = k->id == K_ENUM;
    struct chunk_mark mark = schema_mark(s);
    struct lang_span *all = schema_take(s, (list ? v->n_children : 1) * sizeof *all);
    size_t n = 0;
    for (uint32_t c = list ? v->first : k->value; all && c; c = list ? schema_value(s, c)->next : 0)
        if (schema_value(s, c)->type == JSON_STRING)
            all[n++] = (struct lang_span){schema_text(s, c), schema_value(s, c)->n_text};
    lang x = all ? string_check(s, lang_texts(s->languages, all, n)) : LANG_NONE;
    schema_release(s, mark);
    return x;
}

/* Formats of the standard that have no language here cannot be kept; other names say nothing. */
static lang format(struct schema *s, uint32_t value)
{
    static const char *const standard[] = {
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "idn-email",
        "hostname",
        "uri",
        "idn-hostname",
        "ipv4",
        "ipv6",
        "uri-reference",
        "iri",
        "iri-reference",
        "uuid",
        "regex",
        "uri-template",
        "json-pointer",
        "relative-json-pointer",
    };
    bool known = false;
    const char *name = schema_text(s, value);
    uint32_t n = schema_value(s, value)->n_text;
    lang x = string_check(s, format_lang(s->languages, name, n, &known));
    if (known || s->status)
        return x;
    for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
        if (strlen(standard[i]) == n && !memcmp(standard[i], name, n))
            leave_open(s, value, "this format cannot be enforced");
    return LANG_CHARS;
}

static lang length(struct schema *s, uint32_t min, uint32_t max)
{
    lang one = lang_char_range(s->languages, 0, 0x10ffff);
    return string_check(s, lang_repeat(s->languages, one, min, max));
}

lang string_keyword(struct schema *s, uint32_t sub, const struct keyword *k)
{
    const struct json_value *v = schema_value(s, k->value);
    uint32_t other;
    switch (k->id) {
    case K_ENUM:
    case K_CONST:
    case K_CONSTANT:
        return constants(s, k);
    case K_PATTERN:
        return string_pattern(s, k->value, schema_text(s, k->value), v->n_text);
    case K_FORMAT:
        return format(s, k->value);
    case K_MIN_LENGTH:
        other = sub_find(s, sub, K_MAX_LENGTH);
        return length(s, sub_count(s, k->value), other ? sub_count(s, other) : LANG_MANY);
    case K_MAX_LENGTH:
        return sub_find(s, sub, K_MIN_LENGTH) ? LANG_CHARS : length(s, 0, sub_count(s, k->value));
    default:
        return LANG_CHARS; /* `type` is settled by the algebra of types */
    }
}
