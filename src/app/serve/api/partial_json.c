/* JSON that a limit cut off: see partial_json.h. */
#include "app/serve/api/partial_json.h"

#include <string.h>

#include "app/cli/growing_text.h"
#include "app/serve/http/json_wide.h"

enum { ESCAPE_MAX = 12 }; /* bytes of a character in escapes, \ud83d\ude00 */

struct cut_json {
    struct growing_text open; /* what closes the brackets, innermost last */
    size_t sure;              /* the bytes before it need nothing but that */
    bool in_string;
};

static void scan(struct cut_json *c, const char *text)
{
    for (size_t i = 0; text[i]; i++) {
        if (c->in_string && text[i] == '\\' && text[i + 1])
            i++;
        else if (text[i] == '"')
            c->in_string = !c->in_string;
        else if (c->in_string)
            continue;
        else if (text[i] == ',')
            c->sure = i;
        else if (strchr("{[", text[i]))
            growing_text_add(&c->open, text[i] == '{' ? "}" : "]", 1), c->sure = i + 1;
        else if (strchr("}]", text[i]) && c->open.n)
            c->open.n--, c->sure = i + 1;
    }
}

/* text[0..n), `end`, and what closes the brackets; NULL: it is no object. */
static json_t *close_at(const struct cut_json *c, const char *text, size_t n, const char *end)
{
    struct growing_text whole = {0};
    growing_text_add(&whole, text, n);
    growing_text_add(&whole, end, strlen(end));
    for (size_t i = c->open.n; i > 0; i--)
        growing_text_add(&whole, c->open.p + i - 1, 1);
    growing_text_add(&whole, "", 1);
    json_t *v = whole.failed ? NULL : json_wide_object(whole.p, whole.n - 1);
    growing_text_close(&whole);
    return v;
}

json_t *partial_json_read(const char *text, bool strings)
{
    struct cut_json c = {0};
    size_t n = strlen(text);
    json_t *v = NULL;
    scan(&c, text);
    if (c.in_string && strings) /* perhaps within an escape */
        for (size_t i = 0; i < ESCAPE_MAX && i < n - c.sure && !v; i++)
            v = close_at(&c, text, n - i, "\"");
    else if (!c.in_string && n && text[n - 1] == '"')
        v = close_at(&c, text, n, "");
    if (!v)
        v = close_at(&c, text, c.sure, "");
    growing_text_close(&c.open);
    return v ? v : json_object();
}
