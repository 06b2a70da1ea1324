/* The header of a connection's first request: see request_head.h. Lines end as MHD ends them, with LF or CR LF. */
#include "app/serve/http/request_head.h"

#include "app/serve/server.h"

#include <string.h>
#include <strings.h>

struct head {
    const char *at, *end; /* what was not looked at yet */
    size_t n_parts;
    bool names_version; /* of Anthropic's API */
};

/* The next line [*n], without its end; NULL: no whole line is left. */
static const char *next_line(struct head *h, size_t *n)
{
    const char *line = h->at, *end = memchr(line, '\n', (size_t)(h->end - line));
    if (!end)
        return NULL;
    h->at = end + 1;
    *n = (size_t)(end - line);
    *n -= *n && line[*n - 1] == '\r';
    return line;
}

/* ---- the first line --------------------------------------------------------------------------- */

/* What is wrong with the beginning of a first line; NULL: nothing, so far. */
static const char *fault_of_method(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && line[i] > ' ' && line[i] < 127)
        i++;
    return i == n || (i && line[i] == ' ') ? NULL : "this is not HTTP: a request begins with a method, a space and a path";
}

/* What is wrong with a whole first line */
static const char *fault_of_line(const char *line, size_t n)
{
    static const char ends[2][10] = {" HTTP/1.1", " HTTP/1.0"};
    const size_t n_end = sizeof *ends - 1;
    const char *what = fault_of_method(line, n), *p = memchr(line, ' ', n);
    if (what)
        return what;
    if (memchr(line, 0, n))
        return "the first line has a byte that is not allowed there";
    bool known = n >= n_end && (!memcmp(line + n - n_end, ends[0], n_end) || !memcmp(line + n - n_end, ends[1], n_end));
    while (p && *p == ' ')
        p++;
    return known && p < line + n - n_end ? NULL : "the first line does not end with HTTP/1.1 or HTTP/1.0";
}

/* The parameters behind the path */
static size_t count_parameters(const char *line, size_t n)
{
    const char *end = line + n, *p = memchr(line, '?', n);
    size_t count = p != NULL;
    for (; p && (p = memchr(p, '&', (size_t)(end - p))); p++)
        count++;
    return count;
}

/* Whether a whole first line asks for a route whose errors have the form of Anthropic's API. */
static bool is_of_anthropic(const char *line, size_t n, bool names_version)
{
    char text[128], *path, *end;
    const char *allowed;
    n = n < sizeof text ? n : sizeof text - 1;
    memcpy(text, line, n);
    text[n] = 0;
    path = strchr(text, ' ');
    if (path) {
        *path++ = 0;
        path += strspn(path, " ");
        end = path + strcspn(path, " ?#");
        *end = 0;
        return routes_are_anthropic(routes_find(text, path, &allowed), path, names_version);
    }
    return names_version;
}

/* ---- fields ----------------------------------------------------------------------------------- */

/* The value of a field [*n] if it has this name, which ends with its colon, else NULL. */
static const char *value_of(const char *field, size_t *n, const char *name)
{
    size_t i = strlen(name);
    if (*n < i || strncasecmp(field, name, i) != 0)
        return NULL;
    while (i < *n && (field[i] == ' ' || field[i] == '\t'))
        i++;
    *n -= i;
    return field + i;
}

static const char *fault_of_length(const char *value, size_t n)
{
    size_t digits = 0;
    while (digits < n && value[digits] >= '0' && value[digits] <= '9')
        digits++;
    if (!digits || digits < n)
        return "Content-Length is not a number";
    return digits > 18 ? "Content-Length is too large a number" : NULL;
}

/* What is wrong with a field. A line that continues one is not allowed (RFC 9112, 5.2). */
static const char *fault_of_field(struct head *h, const char *field, size_t n)
{
    const char *colon = memchr(field, ':', n), *value;
    size_t n_name = colon ? (size_t)(colon - field) : 0, n_value = n;
    if (memchr(field, 0, n))
        return "a field of the header has a byte that is not allowed there";
    if (!n_name || memchr(field, ' ', n_name) || memchr(field, '\t', n_name))
        return "a field of the header is not a name and a colon behind it";
    h->n_parts++;
    h->names_version |= value_of(field, &n_value, "anthropic-version:") != NULL;
    n_value = n;
    value = value_of(field, &n_value, "cookie:");
    h->n_parts += value != NULL;
    for (size_t i = 0; value && i < n_value; i++)
        h->n_parts += value[i] == ';' || value[i] == ',';
    n_value = n;
    value = value_of(field, &n_value, "content-length:");
    return value ? fault_of_length(value, n_value) : NULL;
}

/* ---- all of it -------------------------------------------------------------------------------- */

void request_head_check_sizes(const struct serve_options *o, size_t line, size_t parts, size_t bytes, struct fault *fault)
{
    size_t most_line = (size_t)serve_number(o, SERVE_MAX_LINE);
    size_t most_bytes = (size_t)serve_number(o, SERVE_MAX_HEADERS);
    size_t most_parts = (size_t)serve_number(o, SERVE_MAX_FIELDS);
    if (line > most_line)
        fault_set(fault, 414, NULL, "bad_request", NULL,
                  "the request line has more than the %zu bytes that are allowed", most_line);
    if (parts > most_parts)
        fault_set(fault, 431, NULL, "bad_request", NULL,
                  "the header has more than the %zu fields, cookies and parameters that are allowed", most_parts);
    if (bytes > most_bytes)
        fault_set(fault, 431, NULL, "bad_request", NULL,
                  "the header has more than the %zu bytes that are allowed", most_bytes);
}

bool request_head_check(const struct serve_options *o, const char *text, size_t n, struct fault *fault, bool *anthropic)
{
    struct head h = {.at = text, .end = text + n};
    const char *first, *field = NULL, *what;
    size_t n_first = 0, length = 0;
    while (h.at < h.end && (*h.at == '\r' || *h.at == '\n')) /* as MHD does */
        h.at++;
    what = fault_of_method(h.at, (size_t)(h.end - h.at));
    first = what ? NULL : next_line(&h, &n_first);
    if (first) {
        what = fault_of_line(first, n_first);
        h.n_parts = count_parameters(first, n_first);
    }
    const char *fields = h.at;
    while (first && !what && (field = next_line(&h, &length)) && length)
        what = fault_of_field(&h, field, length);
    if (what)
        fault_set(fault, 400, NULL, "bad_request", NULL, "%s", what);
    else if (first)
        request_head_check_sizes(o, n_first, h.n_parts, (size_t)((field ? field : h.end) - fields), fault);
    else
        request_head_check_sizes(o, n, 0, 0, fault);
    *anthropic = first && is_of_anthropic(first, n_first, h.names_version);
    return !fault->status && (field || n >= REQUEST_HEAD_MOST);
}
