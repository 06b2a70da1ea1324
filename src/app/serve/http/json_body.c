/* Bodies in JSON: see json_body.h. */
#include "app/serve/http/json_body.h"

#include "app/serve/http/lanes.h"

#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* jansson takes 224 bytes for an empty object, 144 for an empty array or a member, 96 for an empty string.
 * Each has at least as many of these beside commas, colons and opening brackets. */
enum { VALUE_BYTES = 112 };

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
        }
    }
    return form;
}

static size_t back_over(const char *bytes, const char *text, size_t i)
{
    while (i && strchr(bytes, text[i - 1]))
        i--;
    return i;
}

/* The name of the member whose value, a number, ends before text[i]; "": it is an item of an array. */
static void name_of_number(const char *text, size_t i, char *name, size_t size)
{
    size_t n = 0;
    i = back_over("+-.0123456789eE", text, i);
    i = back_over(" \t\r\n:", text, i);
    if (i < 2 || text[i - 1] != '"')
        return;
    i--;
    while (n < i && text[i - n - 1] != '"')
        n++;
    if (n < size)
        memcpy(name, text + i - n, n), name[n] = 0;
}

/* Why jansson refused a text */
static void blame(const char *text, size_t n, const json_error_t *e, struct fault *f)
{
    char name[64] = "";
    if (json_error_code(e) != json_error_numeric_overflow) {
        fault_set(f, 400, NULL, "invalid_json", NULL,
                  "the body is not JSON: line %d, column %d: %s", e->line, e->column, e->text);
        return;
    }
    if (e->position > 0 && (size_t)e->position <= n)
        name_of_number(text, (size_t)e->position, name, sizeof name);
    const char *who = *name ? name : "an item";
    if (!strncmp(e->text, "real", 4)) /* jansson's word */
        fault_set(
            f, 400, NULL, "invalid_value", name,
            "%s is too large a number (line %d, column %d): real numbers must be from %g to %g",
            who, e->line, e->column, -DBL_MAX, DBL_MAX);
    else
        fault_set(
            f, 400, NULL, "invalid_value", name,
            "%s is too large a number (line %d, column %d): integers must be from %lld to %lld",
            who, e->line, e->column, (long long)INT64_MIN, (long long)INT64_MAX);
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

json_t *json_body_read(const char *text, size_t n, struct fault *f)
{
    static const char mark[] =
        "\xEF\xBB\xBF"; /* of the order of bytes; some clients begin with it */
    json_error_t error;
    size_t skipped = n >= 3 && !memcmp(text, mark, 3) ? 3 : 0;
    text = text ? text + skipped : "", n -= skipped;
    json_t *json = json_load_callback(take, &(struct rest){text, n}, JSON_ALLOW_NUL, &error);
    if (lanes_is_given_up())
        fault_given_up(f);
    else if (!json)
        blame(text, n, &error, f);
    else if (!json_is_object(json))
        fault_set(f, 400, NULL, "invalid_json", NULL, "the body is not a JSON object");
    if (json && f->status) {
        json_decref(json);
        json = NULL;
    }
    return json;
}
