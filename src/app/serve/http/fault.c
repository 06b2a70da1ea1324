/* What is wrong with a request: see fault.h. */
#include "app/serve/http/fault.h"

#include "app/serve/http/lanes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *type_of(int status)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {
        {400, FAULT_INVALID},       {401, "authentication_error"}, {403, "permission_error"},
        {404, "not_found_error"},   {408, "timeout_error"},        {413, "request_too_large"},
        {429, "rate_limit_error"},  {503, "overloaded_error"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status)
            return types[i].type;
    return status < 500 ? FAULT_INVALID : "server_error";
}

const char *fault_type(const struct fault *f, bool anthropic)
{
    if (anthropic)
        return strcmp(f->type, "server_error") ? f->type : "api_error";
    return strcmp(f->type, "overloaded_error") ? f->type : "server_error";
}

/* Text [n] without the beginning of a character at its end. */
static size_t whole_characters(const char *text, size_t n)
{
    size_t i = n;
    while (i && ((unsigned char)text[i - 1] & 0xC0) == 0x80 && n - i < 3)
        i--;
    unsigned char first = i ? (unsigned char)text[i - 1] : 0;
    size_t wanted = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    return i && first >= 0x80 && n - i + 1 < wanted ? i - 1 : n;
}

void fault_set(struct fault *f, int status, const char *type, const char *code, const char *param,
               const char *format, ...)
{
    va_list ap;
    if (f->status)
        return;
    f->status = status;
    f->type = type ? type : type_of(status);
    f->code = code;
    snprintf(f->param, sizeof f->param, "%s", param ? param : "");
    f->param[whole_characters(f->param, strlen(f->param))] = 0;
    va_start(ap, format);
    vsnprintf(f->message, sizeof f->message, format, ap);
    va_end(ap);
    f->message[whole_characters(f->message, strlen(f->message))] = 0;
}

void fault_too_long(struct fault *f, bool at_least, size_t n, unsigned n_ctx)
{
    fault_set(f, 400, NULL, "context_length_exceeded", NULL,
              "the prompt is too long: %s%zu tokens > %u maximum. This model's maximum context "
              "length is %u tokens here: shorten the prompt, or start the server with a larger one",
              at_least ? "at least " : "", n, n_ctx, n_ctx);
}

bool fault_given_up(struct fault *f)
{
    fault_set(f, 503, NULL, "shutting_down", NULL, "the server is shutting down");
    return false;
}

bool fault_no_memory(struct fault *f, const char *what)
{
    if (lanes_is_given_up()) /* what ended early has no result either */
        return fault_given_up(f);
    fault_set(f, 503, NULL, "out_of_memory", NULL, "not enough memory for %s", what);
    return false;
}

enum { LATER = 1 }; /* a status that HTTP does not have */

void fault_later(struct fault *f)
{
    fault_set(f, LATER, NULL, NULL, NULL, "this takes long");
}

bool fault_is_later(const struct fault *f)
{
    return f->status == LATER;
}

void fault_blame(struct fault *f, const char *param)
{
    if (f->status == 400 && !f->param[0])
        snprintf(f->param, sizeof f->param, "%s", param);
}
