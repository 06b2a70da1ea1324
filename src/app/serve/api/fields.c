/* Typed reading of JSON objects: see fields.h. */
#include "app/serve/api/fields.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "app/cli/parser.h"
#include "app/serve/api/dialog_parts.h"
#include "app/serve/http/json_wide.h"

/* ---- paths and faults --------------------------------------------------------------------- */

/* "messages[3].role"; a path that does not fit is cut. */
static void put_path(char *out, size_t size, const char *place, const char *name)
{
    if (snprintf(out, size, "%s%s%s", place, *place && *name ? "." : "", name) < 0)
        *out = 0;
}

void fields_path(const struct fields *f, const char *name, char path[FAULT_PARAM])
{
    put_path(path, FAULT_PARAM, f->place, name);
}

bool fields_fault(const struct fields *f, const char *name, const char *code, const char *format,
                  ...)
{
    char path[sizeof f->fault->param], text[384];
    va_list args;
    put_path(path, sizeof path, f->place, name);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fault_set(f->fault, 400, "invalid_request_error", code, path, "%s %s", path, text);
    return false;
}

static const char *type_name(const json_t *v)
{
    static const char *const names[] = {"an object", "an array",  "a string",  "an integer",
                                        "a number",  "a boolean", "a boolean", "null"};
    return json_is_wide(v) ? "a number" : names[json_typeof(v)];
}

static bool wrong_type(const struct fields *f, const char *name, const char *want, const json_t *v)
{
    double x;
    if (json_is_wide(v) && !json_wide_real(v, &x))
        return fields_fault(f, name, "invalid_value",
                            "is too large a number: integers must be from %lld to %lld, real "
                            "numbers must be from %g to %g",
                            (long long)INT64_MIN, (long long)INT64_MAX, -DBL_MAX, DBL_MAX);
    return fields_fault(f, name, "invalid_type", "must be %s; it is %s", want, type_name(v));
}

/* ---- objects ------------------------------------------------------------------------------- */

bool fields_open(struct fields *f, json_t *value, const char *place, struct fault *fault)
{
    *f = (struct fields){.object = value, .fault = fault};
    snprintf(f->place, sizeof f->place, "%s", place);
    if (json_is_members(value))
        return true;
    fault_set(fault, 400, "invalid_request_error", "invalid_type", place,
              "%s must be an object; it is %s", *place ? place : "the body",
              value ? type_name(value) : "absent");
    return false;
}

static void note(struct fields *f, const char *names)
{
    if (f->n_names < FIELDS_NAMES_MAX)
        f->names[f->n_names++] = names;
}

json_t *fields_any(struct fields *f, const char *name)
{
    json_t *v = json_object_get(f->object, name);
    note(f, name);
    return json_is_null(v) ? NULL : v;
}

bool fields_inside(struct fields *f, const char *name, struct fields *inside, bool *present)
{
    json_t *v = fields_any(f, name);
    char place[sizeof f->place];
    put_path(place, sizeof place, f->place, name);
    *present = v != NULL;
    if (v)
        return fields_open(inside, v, place, f->fault);
    *inside = (struct fields){.fault = f->fault};
    memcpy(inside->place, place, sizeof place);
    return true;
}

bool fields_has(struct fields *f, const char *name)
{
    return fields_any(f, name) != NULL;
}

bool fields_need(struct fields *f, const char *name)
{
    return fields_has(f, name) ||
           fields_fault(f, name, "missing_required_parameter", "is required");
}

/* ---- values -------------------------------------------------------------------------------- */

#define REAL_END 9007199254740992.0 /* 2^53: from there on a neighbour may have been meant */

bool fields_real(struct fields *f, const char *name, double min, double max, double *v)
{
    const json_t *x = fields_any(f, name);
    double value;
    if (!x)
        return true;
    if (!json_wide_real(x, &value))
        return wrong_type(f, name, "a number", x);
    if (!(value >= min && value <= max))
        return fields_fault(f, name, "invalid_value", "must be from %g to %g; it is %.10g", min,
                            max, value);
    *v = value;
    return true;
}

bool fields_whole(const json_t *x, int64_t *v)
{
    double real;
    if (json_is_integer(x))
        *v = json_integer_value(x);
    else if (!json_wide_real(x, &real) || real != floor(real) || fabs(real) >= REAL_END)
        return false;
    else
        *v = (int64_t)real;
    return true;
}

bool fields_integer(struct fields *f, const char *name, int64_t min, int64_t max, int64_t *v)
{
    const json_t *x = fields_any(f, name);
    double real;
    int64_t value = 0;
    if (!x)
        return true;
    if (!json_wide_real(x, &real))
        return wrong_type(f, name, "an integer", x);
    if (real != floor(real))
        return fields_fault(f, name, "invalid_type", "must be an integer; it is %g", real);
    bool whole = fields_whole(x, &value);
    if (whole ? value < min || value > max : real < (double)min || real >= (double)max)
        return json_is_integer(x)
                   ? fields_fault(f, name, "invalid_value", "must be from %lld to %lld; it is %lld",
                                  (long long)min, (long long)max, (long long)value)
                   : fields_fault(f, name, "invalid_value",
                                  "must be from %lld to %lld; it is %.40s", (long long)min,
                                  (long long)max, json_wide_text(x));
    if (!whole)
        return fields_fault(f, name, "invalid_value",
                            "must be written without point and exponent from 2^53 on; it is %.40s",
                            json_wide_text(x));
    *v = value;
    return true;
}

bool fields_bool(struct fields *f, const char *name, bool *v)
{
    const json_t *x = fields_any(f, name);
    if (x && !json_is_boolean(x))
        return wrong_type(f, name, "true or false", x);
    if (x)
        *v = json_is_true(x);
    return true;
}

bool fields_text(struct fields *f, const char *name, const char **v, size_t *n)
{
    const json_t *x = fields_any(f, name);
    if (!x)
        return true;
    if (!json_is_string(x))
        return wrong_type(f, name, "a string", x);
    if (!n && strlen(json_string_value(x)) != json_string_length(x))
        return fields_fault(f, name, "invalid_value", "must not contain the character U+0000");
    *v = json_string_value(x);
    if (n)
        *n = json_string_length(x);
    return true;
}

json_t *fields_model(struct fields *f, const char *name)
{
    const char *model = name;
    if (!fields_text(f, "model", &model, NULL))
        return NULL;
    json_t *v = dialog_json_text(model, strlen(model)); /* a name of a file may be no text */
    if (!v)
        fault_no_memory(f->fault, "the request");
    return v;
}

bool fields_choice(struct fields *f, const char *name, const char *words, size_t *v)
{
    const char *text = NULL, *p = words;
    if (!fields_text(f, name, &text, NULL))
        return false;
    for (size_t i = 0, n; text && *p; i++, p += n + (p[n] == '|')) {
        n = strcspn(p, "|");
        if (strlen(text) == n && memcmp(p, text, n) == 0) {
            *v = i;
            return true;
        }
    }
    return !text ||
           fields_fault(f, name, "invalid_value", "must be one of %s; it is '%.60s'", words, text);
}

bool fields_object(struct fields *f, const char *name, json_t **v)
{
    json_t *x = fields_any(f, name);
    if (x && !json_is_members(x))
        return wrong_type(f, name, "an object", x);
    if (x)
        *v = x;
    return true;
}

bool fields_array(struct fields *f, const char *name, size_t max, json_t **v)
{
    json_t *x = fields_any(f, name);
    if (!x)
        return true;
    if (!json_is_array(x))
        return wrong_type(f, name, "an array", x);
    if (json_array_size(x) > max)
        return fields_fault(f, name, "limit_exceeded", "has %zu items; at most %zu are allowed",
                            json_array_size(x), max);
    *v = x;
    return true;
}

bool fields_parts(struct fields *f, const char *name, const char *what, struct fields_parts *p)
{
    *p = (struct fields_parts){.field = fields_any(f, name)};
    put_path(p->path, sizeof p->path, f->place, name);
    p->whole = json_is_string(p->field);
    return !p->field || p->whole || json_is_array(p->field) ||
           fields_fault(f, name, "invalid_type", "must be a string or an array of %s", what);
}

bool fields_next_part(struct fields_parts *p)
{
    size_t i = p->n++;
    if (i >= (p->whole ? 1 : json_array_size(p->field)))
        return false;
    p->part = p->whole ? p->field : json_array_get(p->field, i);
    if (p->whole)
        (void)snprintf(p->place, sizeof p->place, "%s", p->path);
    else
        (void)snprintf(p->place, sizeof p->place, "%s[%zu]", p->path, i);
    return true;
}

/* ---- what was not read ---------------------------------------------------------------------- */

void fields_ignore(struct fields *f, const char *names)
{
    note(f, names);
}

void fields_forget(struct fields *f)
{
    f->n_names = 0;
}

void fields_unasked(struct fields *f, const char *name)
{
    const json_t *v = json_object_get(f->object, name);
    bool empty = json_is_array(v) ? !json_array_size(v) : json_is_object(v) && !json_object_size(v);
    if (json_is_false(v) || empty)
        note(f, name);
}

static bool was_read(const struct fields *f, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < f->n_names && !found; i++)
        found = parser_in_list(f->names[i], ' ', name, strlen(name));
    return found;
}

/* Goes into a header: no other characters. */
static void clean(char *name)
{
    for (; *name; name++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-[]", *name))
            *name = '?';
}

void fields_unknown(const struct fields *f, char *text)
{
    const char *name;
    json_t *v;
    json_object_foreach(f->object, name, v)
    {
        char path[160];
        size_t n = strlen(text);
        if (json_is_null(v) || was_read(f, name))
            continue;
        put_path(path, sizeof path, f->place, name);
        clean(path);
        if (n + strlen(path) + 3 <= FIELDS_TEXT_MAX)
            snprintf(text + n, FIELDS_TEXT_MAX - n, "%s%s", n ? ", " : "", path);
    }
}
