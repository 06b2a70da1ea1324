/* Bodies in JSON: see json_body.h. */
#include "app/serve/http/json_body.h"

#include "app/serve/http/json_wide.h"
#include "app/serve/http/lanes.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* jansson takes 224 bytes for an empty object, 144 for an empty array or a member, 96 for an empty string.
 * Each has at least as many of these beside commas, colons and opening brackets. */
enum {
    VALUE_BYTES = 112,
    WIDE_BYTES =
        5 * VALUE_BYTES, /* a wide number: an object, its member, a string, and their text */
};

/* The code unit of an escape, 4 digits; -1: none */
static int unit(const char *p, size_t n)
{
    int value = 0;
    if (n < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (size_t i = 2; i < 6; i++) {
        const char *digits = "0123456789abcdef", *d = p[i] ? strchr(digits, p[i] | 32) : NULL;
        if (!d || (p[i] < 'A' && p[i] > '9'))
            return -1;
        value = value * 16 + (int)(d - digits);
    }
    return value;
}

/* At a backslash of a string; returns how many bytes were read. JavaScript and Python cut strings
 * between the halves of a character and send the half, which is no text. */
static size_t mend_escape(char *p, size_t n)
{
    int first = unit(p, n), second = first >= 0 ? unit(p + 6, n - 6) : -1;
    if (first < 0)
        return 2;
    if (first >= 0xD800 && first < 0xDC00 && second >= 0xDC00 && second < 0xE000)
        return 12;
    if (first >= 0xD800 && first < 0xE000)
        memcpy(p + 2, "fffd", 4);
    return 6;
}

/* At a sign or a digit; returns how many bytes to go on. */
static size_t look_at_number(const char *p, struct json_form *form)
{
    bool wide;
    size_t n = json_wide_number(p, &wide);
    if (wide)
        form->bytes += WIDE_BYTES;
    return n ? n - 1 : 0;
}

struct json_form json_body_look(char *text, size_t n)
{
    struct json_form form = {.bytes = n};
    int64_t depth = 0;
    bool inside = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (inside && c == '\\') {
            i += mend_escape(text + i, n - i) - 1;
        } else if (c == '"') {
            inside = !inside;
        } else if (inside) {
            continue;
        } else if (c == '{' || c == '[') {
            depth++;
            form.depth = depth > form.depth ? depth : form.depth;
            form.bytes += VALUE_BYTES;
        } else if (c == '}' || c == ']') {
            depth--;
        } else if (c == ',' || c == ':') {
            form.bytes += VALUE_BYTES;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            i += look_at_number(text + i, &form);
        }
    }
    return form;
}

/* Why jansson refused a text */
static void blame(const json_error_t *e, struct fault *f)
{
    if (json_error_code(e) == json_error_null_byte_in_key)
        fault_set(f, 400, NULL, "invalid_json", NULL,
                  "line %d, column %d: a name of a member has the character U+0000, which names "
                  "may not have here",
                  e->line, e->column);
    else
        fault_set(f, 400, NULL, "invalid_json", NULL,
                  "the body is not JSON: line %d, column %d: %s", e->line, e->column, e->text);
}

struct rest {
    const char *p;
    size_t n;
};

/* Some more of the text, for jansson. */
static size_t take(void *out, size_t room, void *arg)
{
    struct rest *r = arg;
    size_t n = r->n < room ? r->n : room;
    if (lanes_is_given_up())
        return SIZE_MAX;
    if (n)
        memcpy(out, r->p, n);
    r->p += n, r->n -= n;
    return n;
}

/* NULL: it is none, and *error says why, or the work was given up. */
static json_t *parse(char *text, size_t n, json_error_t *error)
{
    size_t n_wrapped = 0;
    char *wrapped = json_wide_wrap(text, n, &n_wrapped);
    struct rest rest = {wrapped ? wrapped : text, wrapped ? n_wrapped : n};
    json_t *json = json_load_callback(take, &rest, JSON_ALLOW_NUL, error);
    if (!json && wrapped) { /* again, for the place of the error in what was sent */
        json_wide_blank(text, n);
        json_decref(json_load_callback(take, &(struct rest){text, n}, JSON_ALLOW_NUL, error));
    }
    free(wrapped);
    return json;
}

json_t *json_body_read(char *text, size_t n, struct fault *f)
{
    static const char mark[] =
        "\xEF\xBB\xBF"; /* of the order of bytes; some clients begin with it */
    json_error_t error;
    size_t skipped = n >= 3 && !memcmp(text, mark, 3) ? 3 : 0;
    char nothing[] = "";
    json_t *json = parse(text ? text + skipped : nothing, n - skipped, &error);
    if (lanes_is_given_up())
        fault_given_up(f);
    else if (!json)
        blame(&error, f);
    else if (!json_is_object(json))
        fault_set(f, 400, NULL, "invalid_json", NULL, "the body is not a JSON object");
    if (json && f->status) {
        json_decref(json);
        json = NULL;
    }
    return json;
}
