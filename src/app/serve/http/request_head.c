/* The header of a connection's first request: see request_head.h. Lines end as MHD ends them, with LF or CR LF. */
#include "app/serve/http/request_head.h"

#include <string.h>
#include <strings.h>

struct head {
    const char *at, *end; /* what was not looked at yet */
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
    bool known = n >= n_end && (!memcmp(line + n - n_end, ends[0], n_end) || !memcmp(line + n - n_end, ends[1], n_end));
    while (p && *p == ' ')
        p++;
    return known && p < line + n - n_end ? NULL : "the first line does not end with HTTP/1.1 or HTTP/1.0";
}

/* What is wrong with a field: a length that is no number of at most 18 digits. */
static const char *fault_of_field(const char *field, size_t n)
{
    static const char name[] = "content-length:";
    const size_t n_name = sizeof name - 1;
    if (n < n_name || strncasecmp(field, name, n_name) != 0)
        return NULL;
    const char *p = field + n_name, *end = field + n;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    size_t digits = 0;
    while (p + digits < end && p[digits] >= '0' && p[digits] <= '9')
        digits++;
    if (!digits || p + digits != end)
        return "Content-Length is not a number";
    return digits > 18 ? "Content-Length is too large a number" : NULL;
}

bool request_head_check(const char *text, size_t n, struct fault *fault)
{
    struct head h = {text, text + n};
    const char *line, *what;
    size_t length = 0;
    while (h.at < h.end && (*h.at == '\r' || *h.at == '\n')) /* as MHD does */
        h.at++;
    what = fault_of_method(h.at, (size_t)(h.end - h.at));
    line = what ? NULL : next_line(&h, &length);
    if (line)
        what = fault_of_line(line, length);
    while (line && !what && (line = next_line(&h, &length)) && length)
        what = fault_of_field(line, length);
    if (what)
        fault_set(fault, 400, NULL, "bad_request", NULL, "%s", what);
    return !what && (line || n >= REQUEST_HEAD_MOST);
}
