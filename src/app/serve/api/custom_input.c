/* The text of a custom tool: see custom_input.h. */
#include "app/serve/api/custom_input.h"

#include <string.h>

#include "app/serve/api/partial_json.h"

static const char opening[] = "{\"input\":\"";

/* Whitespace may stand between its signs. */
static bool is_opening(struct custom_input *c, char byte)
{
    bool inside = c->opening > strlen("{") && c->opening < strlen("{\"input\"");
    if (byte == opening[c->opening])
        return ++c->opening, true;
    return !inside && byte && strchr(" \n\r\t", byte);
}

/* Bytes at p[0..n) that come together: characters without escapes, or an escape. 0: the escape is not whole, or the
 * string ends. */
static size_t next_bytes(const char *p, size_t n)
{
    size_t bytes = 0;
    while (bytes < n && (unsigned char)p[bytes] >= ' ' && !strchr("\"\\", p[bytes]))
        bytes++;
    if (bytes || *p != '\\')
        return bytes;
    bytes = n < 2 || p[1] != 'u' ? 2 : 6;
    if (bytes == 6 && n >= 4 && strchr("dD", p[2]) && strchr("89abAB", p[3]))
        bytes = 12; /* half of a surrogate pair */
    return bytes <= n ? bytes : 0;
}

/* p[0..n): the inside of a string of JSON */
static bool add_text(struct custom_input *c, const char *p, size_t n)
{
    struct growing_text quoted = {0};
    growing_text_add(&quoted, "\"", 1);
    growing_text_add(&quoted, p, n);
    growing_text_add(&quoted, "\"", 1);
    json_t *v = quoted.failed
                    ? NULL
                    : json_loadb(quoted.p, quoted.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    growing_text_close(&quoted);
    if (v)
        growing_text_add(&c->text, json_string_value(v), json_string_length(v));
    json_decref(v);
    return v != NULL;
}

void custom_input_read(struct custom_input *c, const char *arguments, size_t n)
{
    while (!c->over && c->opening < strlen(opening) && c->read < n)
        c->over = !is_opening(c, arguments[c->read++]);
    if (c->over || c->opening < strlen(opening))
        return;
    size_t bytes = 1;
    while (c->read < n && !c->over && bytes) {
        bytes = next_bytes(arguments + c->read, n - c->read);
        c->over = bytes ? !add_text(c, arguments + c->read, bytes) : arguments[c->read] != '\\';
        c->read += bytes;
    }
}

json_t *custom_input_end(const struct custom_input *c, const char *arguments, bool cut)
{
    json_t *object =
        cut ? partial_json_read(arguments, true) : json_loads(arguments, JSON_ALLOW_NUL, NULL);
    json_t *input = json_incref(json_object_get(object, "input"));
    json_decref(object);
    if (!json_is_string(input)) {
        json_decref(input);
        input = json_string(cut ? "" : arguments);
    }
    if (!c->text.n || (json_string_length(input) >= c->text.n &&
                       !memcmp(json_string_value(input), c->text.p, c->text.n)))
        return input;
    json_decref(input);
    return json_stringn(c->text.p, c->text.n);
}

void custom_input_close(struct custom_input *c)
{
    growing_text_close(&c->text);
    *c = (struct custom_input){0};
}
