/* A fault in the words of an API: see fault_text.h. */
#include "app/serve/http/fault_text.h"

#include "app/cli/json.h"

#include <stdio.h>
#include <string.h>

struct fault_line {
    char *text; /* [n] of [size] */
    size_t n, size;
};

static void put(void *arg, const char *text, size_t n)
{
    struct fault_line *p = arg;
    if (n > p->size - p->n)
        n = p->size - p->n;
    memcpy(p->text + p->n, text, n);
    p->n += n;
}

static void put_text(struct fault_line *p, const char *text)
{
    put(p, text, strlen(text));
}

/* "name":"value", or null */
static void put_field(struct fault_line *p, const char *name, const char *value)
{
    put_text(p, "\"");
    put_text(p, name);
    put_text(p, value ? "\":\"" : "\":null");
    if (!value)
        return;
    json_text(put, p, value, strlen(value));
    put_text(p, "\"");
}

/* Anthropic's errors have no member for the field: then the sentence begins with it. */
static void put_message(struct fault_line *p, const struct fault *f, bool anthropic)
{
    char text[sizeof f->param + sizeof f->message + 2];
    bool told = !anthropic || strstr(f->message, f->param);
    snprintf(text, sizeof text, "%s%s%s", told ? "" : f->param, told ? "" : ": ", f->message);
    put_field(p, "message", text);
}

size_t fault_json(const struct fault *f, bool anthropic, char *text, size_t size)
{
    struct fault_line p = {.text = text, .size = size};
    put_text(&p, anthropic ? "{\"type\":\"error\",\"error\":{" : "{\"error\":{");
    put_message(&p, f, anthropic);
    put_text(&p, ",");
    put_field(&p, "type", fault_type(f, anthropic));
    if (!anthropic) {
        put_text(&p, ",");
        put_field(&p, "param", *f->param ? f->param : NULL);
        put_text(&p, ",");
        put_field(&p, "code", f->code);
    }
    put_text(&p, "}}");
    return p.n;
}

const char *fault_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {{400, "Bad Request"},
                   {403, "Forbidden"},
                   {408, "Request Timeout"},
                   {413, "Content Too Large"},
                   {414, "URI Too Long"},
                   {415, "Unsupported Media Type"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {503, "Service Unavailable"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Error";
}

size_t fault_http(const struct fault *f, bool anthropic, char *text, size_t size)
{
    char body[FAULT_TEXT], again[48] = "";
    size_t n = fault_json(f, anthropic, body, sizeof body);
    if (f->retry_after)
        snprintf(again, sizeof again, "Retry-After: %d\r\n", f->retry_after);
    int head =
        snprintf(text, size,
                 "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                 "%sConnection: close\r\n\r\n",
                 f->status, fault_reason(f->status), n, again);
    if (head < 0 || (size_t)head + n > size)
        return 0;
    memcpy(text + head, body, n);
    return (size_t)head + n;
}
