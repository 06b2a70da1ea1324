/* What a text must be: see format_fields.h. */
#include "app/serve/api/format_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli/growing_text.h"
#include "app/serve/http/json_wide.h"

struct format_reading {
    struct turn *turn;
    size_t max;
};

/* Takes over text[n], which was malloced, of field `name`. */
static bool set(struct format_reading *r, struct fields *f, const char *name,
                enum answer_format format, char *text, size_t n)
{
    struct answer_rules *rules = &r->turn->rules;
    if (!text)
        return fault_no_memory(f->fault, "the format");
    if (rules->format != FORMAT_TEXT || n > r->max) {
        free(text);
        return n > r->max
                   ? fields_fault(f, name, "limit_exceeded",
                                  "has %zu bytes; at most %zu are allowed", n, r->max)
                   : fields_fault(f, name, "invalid_value",
                                  "comes beside %s; an answer has one format", rules->format_field);
    }
    r->turn->format = text;
    rules->format = format;
    fields_path(f, name, rules->format_field);
    rules->text = text, rules->n = n;
    return true;
}

/* A schema: any JSON value, or its text */
static bool read_schema(struct format_reading *r, struct fields *f, const char *name)
{
    json_t *v = fields_any(f, name);
    if (!v)
        return true;
    if (!json_is_members(v) && !json_is_boolean(v) && !json_is_string(v))
        return fields_fault(f, name, "invalid_type", "must be a JSON schema");
    char *text = json_is_string(v) ? strdup(json_string_value(v)) : json_plain(v);
    return set(r, f, name, FORMAT_SCHEMA, text, text ? strlen(text) : 0);
}

static bool read_text(struct format_reading *r, struct fields *f, const char *name,
                      enum answer_format format)
{
    const char *text = NULL;
    size_t n;
    if (!fields_text(f, name, &text, &n) || !text)
        return !f->fault->status;
    char *copy = malloc(n + 1);
    if (copy)
        memcpy(copy, text, n + 1);
    return set(r, f, name, format, copy, n);
}

/* llama.cpp's, whose default is an empty text: none */
static bool read_gbnf(struct format_reading *r, struct fields *f)
{
    static const char name[] = "grammar";
    const json_t *v = fields_any(f, name);
    return (json_is_string(v) && !json_string_length(v)) || read_text(r, f, name, FORMAT_GRAMMAR);
}

/* ["yes", "no"] -> "yes|no" */
static bool read_choices(struct format_reading *r, struct fields *f, const char *name)
{
    json_t *v = NULL;
    struct growing_text text = {0};
    if (!fields_array(f, name, 4096, &v) || !v)
        return !f->fault->status;
    bool ok = json_array_size(v) > 0;
    for (size_t i = 0; i < json_array_size(v) && ok; i++) {
        const char *p = json_string_value(json_array_get(v, i));
        if (i)
            growing_text_add(&text, "|", 1);
        for (ok = p != NULL; p && *p; p++) {
            if (*p == '|' || *p == '\\')
                growing_text_add(&text, "\\", 1);
            growing_text_add(&text, p, 1);
        }
    }
    growing_text_add(&text, "", 1);
    if (ok && !text.failed)
        return set(r, f, name, FORMAT_CHOICE, text.p, text.n - 1);
    bool failed = text.failed;
    growing_text_close(&text);
    return failed ? fault_no_memory(f->fault, "the format")
                  : fields_fault(f, name, "invalid_type", "must be an array of strings, not empty");
}

/* {"type": "json_schema", "json_schema": {"name": ..., "schema": ...}}; llama.cpp: "schema" beside type */
static bool read_response_format(struct format_reading *r, struct fields *body)
{
    static const char top[] = "response_format";
    struct fields f, inner;
    size_t type = 0;
    bool present, strict;
    const char *title;
    if (!fields_inside(body, top, &f, &present) || !present)
        return !body->fault->status;
    if (!fields_need(&f, "type") ||
        !fields_choice(&f, "type", "text|json_object|json_schema", &type))
        return false;
    bool has = type && fields_has(&f, "schema");
    if (type == 2 && !has)
        fields_ignore(&f, "json_schema"); /* read below */
    turn_unknown(r->turn, &f);
    if (type == 0)
        return true;
    if (has)
        return read_schema(r, &f, "schema");
    if (type == 1)
        return set(r, body, top, FORMAT_JSON, strdup(""), 0);
    if (!fields_need(&f, "json_schema") || !fields_inside(&f, "json_schema", &inner, &present) ||
        !fields_text(&inner, "name", &title, NULL) || !fields_bool(&inner, "strict", &strict) ||
        !fields_need(&inner, "schema") || !read_schema(r, &inner, "schema"))
        return false;
    fields_ignore(&inner, "description");
    turn_unknown(r->turn, &inner);
    return true;
}

static bool read_structured(struct format_reading *r, struct fields *body)
{
    static const char top[] = "structured_outputs";
    struct fields f;
    bool present, any = false;
    if (!fields_inside(body, top, &f, &present) || !present)
        return !body->fault->status;
    if (!read_schema(r, &f, "json") || !read_text(r, &f, "regex", FORMAT_REGEX) ||
        !read_text(r, &f, "grammar", FORMAT_GRAMMAR) || !read_choices(r, &f, "choice") ||
        !fields_bool(&f, "json_object", &any) ||
        (any && !set(r, &f, "json_object", FORMAT_JSON, strdup(""), 0)))
        return false;
    turn_unknown(r->turn, &f);
    return true;
}

bool format_fields_read(struct turn *t, struct fields *f, size_t max)
{
    struct format_reading r = {t, max};
    return read_response_format(&r, f) && read_schema(&r, f, "json_schema") && read_gbnf(&r, f) &&
           read_schema(&r, f, "guided_json") && read_text(&r, f, "guided_regex", FORMAT_REGEX) &&
           read_text(&r, f, "guided_grammar", FORMAT_GRAMMAR) &&
           read_choices(&r, f, "guided_choice") && read_structured(&r, f);
}
