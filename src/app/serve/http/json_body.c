/* Bodies in JSON: see json_body.h. */
#include "app/serve/http/json_body.h"

#include <stdbool.h>
#include <string.h>

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

/* The deepest level of brackets; jansson's own limit is 2048. */
static int64_t scan(char *text, size_t n)
{
    int64_t depth = 0, deepest = 0;
    bool inside = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (inside && c == '\\') {
            i += mend_escape(text + i, n - i) - 1;
        } else if (c == '"') {
            inside = !inside;
        } else if (!inside && (c == '{' || c == '[')) {
            depth++;
            deepest = depth > deepest ? depth : deepest;
        } else if (!inside && (c == '}' || c == ']')) {
            depth--;
        }
    }
    return deepest;
}

json_t *json_body_read(char *text, size_t n, int64_t depth, struct fault *f)
{
    json_error_t error;
    int64_t deepest = n ? scan(text, n) : 0;
    if (deepest > depth) {
        fault_set(f, 400, NULL, "json_too_deep", NULL,
                  "the body is nested %lld levels deep; at most %lld are allowed",
                  (long long)deepest, (long long)depth);
        return NULL;
    }
    json_t *json = json_loadb(text ? text : "", n, JSON_ALLOW_NUL, &error);
    if (!json)
        fault_set(f, 400, NULL, "invalid_json", NULL,
                  "the body is not JSON: line %d, column %d: %s", error.line, error.column,
                  error.text);
    else if (!json_is_object(json))
        fault_set(f, 400, NULL, "invalid_json", NULL, "the body is not a JSON object");
    if (json && f->status) {
        json_decref(json);
        json = NULL;
    }
    return json;
}
