/* Text on terminals: see visible.h. */
#include "app/cli/visible.h"

#include "app/cli/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_off;

void visible_switch_off(void)
{
    is_off = true;
}

bool visible_on(int fd)
{
    static enum { UNKNOWN, NO, YES } terminal[3]; /* asked once: the answer costs a system call */
    if (terminal[fd] == UNKNOWN)
        terminal[fd] = isatty(fd) ? YES : NO;
    return !is_off && terminal[fd] == YES;
}

/* What stands for the character of `bytes` bytes (0: a byte that is none) at text, "" for itself. */
static void describe(const char *text, size_t bytes, char out[16])
{
    const unsigned char *c = (const unsigned char *)text;
    *out = 0;
    if (!bytes)
        snprintf(out, 16, "<%02X>", (unsigned)*c);
    else if (*c < 32 || *c == 127)
        snprintf(out, 16, "^%c", *c ^ 64);
    else if (*c == 0xc2 && c[1] < 0xa0)
        snprintf(out, 16, "<U+%04X>", (unsigned)c[1]);
}

void visible_text(visible_put put, void *arg, const char *text, size_t n)
{
    size_t plain = 0, at = 0, bytes; /* text[plain .. at) is put as it is */
    for (; at < n; at += bytes ? bytes : 1) {
        char name[16];
        bytes = utf8_character(text + at, n - at);
        if (text[at] == '\t' || text[at] == '\n')
            continue;
        describe(text + at, bytes, name);
        if (!*name)
            continue;
        if (at > plain)
            put(arg, text + plain, at - plain);
        put(arg, name, strlen(name));
        plain = at + (bytes ? bytes : 1);
    }
    if (at > plain)
        put(arg, text + plain, at - plain);
}

struct line {
    char *text;
    size_t n, room;
};

static void put_line(void *arg, const char *text, size_t n)
{
    struct line *l = arg;
    for (size_t i = 0; i < n; i++) {
        bool control = text[i] == '\t' || text[i] == '\n';
        if (l->n + 2 >= l->room)
            break;
        if (control)
            l->text[l->n++] = '^';
        l->text[l->n++] = (char)(control ? text[i] ^ 64 : text[i]);
    }
    l->text[l->n] = 0;
}

void visible_line(char *line, size_t room, const char *text)
{
    struct line l = {line, 0, room};
    *line = 0;
    visible_text(put_line, &l, text, strlen(text));
}

static void put_error(void *arg, const char *text, size_t n)
{
    (void)arg;
    fwrite(text, 1, n, stderr);
}

void visible_error(const char *text, size_t n)
{
    if (visible_on(STDERR_FILENO))
        visible_text(put_error, NULL, text, n);
    else if (n) /* else text may be NULL */
        fwrite(text, 1, n, stderr);
}

size_t visible_format(char *text, size_t size, const char *format, va_list ap)
{
    int n = vsnprintf(text, size, format, ap);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

void visible_error_print(const char *format, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, format);
    size_t n = visible_format(text, sizeof text, format, ap);
    va_end(ap);
    visible_error(text, n);
}
