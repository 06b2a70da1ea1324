/* Numbers that jansson would change: see json_wide.h. */
#include "app/serve/http/json_wide.h"

#include "app/cli/growing_text.h"

#include <ctype.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { I64_DIGITS = 19 }; /* those with fewer fit */

/* The name of the member: random, so that no client can send it. Nobody sees it. */
enum { MARK_BYTES = 16, MARK_TEXT = 2 * MARK_BYTES + 1, BEFORE_TEXT = MARK_TEXT + 5 };
static char mark[MARK_TEXT], before[BEFORE_TEXT];
static const char after[] = "\"}";
static pthread_once_t marked = PTHREAD_ONCE_INIT;

static void make_mark(void)
{
    unsigned char random[MARK_BYTES] = {0};
    (void)!getrandom(random, sizeof random, 0);
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(mark + 2 * i, sizeof mark - 2 * i, "%02x", random[i]);
    (void)snprintf(before, sizeof before, "{\"%s\":\"", mark);
}

static void need_mark(void)
{
    (void)pthread_once(&marked, make_mark);
}

static size_t digits(const char *p)
{
    return strspn(p, "0123456789");
}

/* RFC 8259, for what is no number must stay none. */
size_t json_wide_number(const char *text, bool *wide)
{
    const char *p = text + (*text == '-');
    size_t n = *p == '0' ? 1 : digits(p);
    *wide = false;
    if (!n)
        return 0;
    p += n;
    if (*p == '.' && digits(p + 1))
        p += 1 + digits(p + 1), *wide = true;
    if (*p == 'e' || *p == 'E') {
        size_t sign = p[1] == '+' || p[1] == '-';
        n = digits(p + 1 + sign);
        p += n ? 1 + sign + n : 0, *wide |= n > 0;
    }
    n = (size_t)(p - text);
    if (!*wide && n >= I64_DIGITS) {
        json_t *v = json_loadb(text, n, JSON_DECODE_ANY, NULL);
        *wide = !v;
        json_decref(v);
    }
    return n;
}

/* The end of what begins at p, before `end`: a string, a number, or a byte beside them. */
static const char *end_of(const char *p, const char *end, bool *wide)
{
    size_t n = isdigit((unsigned char)*p) || *p == '-' ? json_wide_number(p, wide) : 0;
    if (*p == '"')
        for (p++; p < end && *p != '"'; p++)
            p += *p == '\\';
    return p < end ? p + (n ? n : 1) : end;
}

char *json_wide_wrap(const char *text, size_t n, size_t *n_out)
{
    struct growing_text out = {0};
    const char *kept = text, *end = text + n, *next;
    need_mark();
    for (const char *p = text; p < end; p = next) {
        bool wide = false;
        next = end_of(p, end, &wide);
        if (!wide)
            continue;
        growing_text_add(&out, kept, (size_t)(p - kept));
        growing_text_add(&out, before, strlen(before));
        growing_text_add(&out, p, (size_t)(next - p));
        growing_text_add(&out, after, strlen(after));
        kept = next;
    }
    if (out.n)
        growing_text_add(&out, kept, (size_t)(end - kept)), *n_out = out.n;
    if (out.failed)
        growing_text_close(&out);
    return out.p;
}

void json_wide_blank(char *text, size_t n)
{
    char *end = text + n, *next;
    for (char *p = text; p < end; p = next) {
        bool wide = false;
        next = text + (end_of(p, end, &wide) - text);
        if (wide)
            memset(p, ' ', (size_t)(next - p)), *p = '0';
    }
}

/* Undoes json_wide_wrap in what jansson wrote. */
static void unwrap(char *text)
{
    need_mark();
    char *out = strstr(text, before), *next;
    for (char *p = out; p; p = next) {
        bool wide;
        size_t n = json_wide_number(p + strlen(before), &wide);
        next = strstr(p + 1, before);
        if (n && !strncmp(p + strlen(before) + n, after, strlen(after))) {
            memmove(out, p + strlen(before), n);
            out += n, p += strlen(before) + n + strlen(after);
        }
        n = next ? (size_t)(next - p) : strlen(p) + 1;
        memmove(out, p, n);
        out += n;
    }
}

char *json_plain(const json_t *v)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text)
        unwrap(text);
    return text;
}

bool json_is_wide(const json_t *v)
{
    need_mark();
    return json_is_object(v) && json_object_size(v) == 1 && json_object_get(v, mark);
}

bool json_is_members(const json_t *v)
{
    return json_is_object(v) && !json_is_wide(v);
}

const char *json_wide_text(const json_t *v)
{
    return json_is_wide(v) ? json_string_value(json_object_get(v, mark)) : NULL;
}

bool json_wide_real(const json_t *v, double *value)
{
    const char *text = json_wide_text(v);
    json_t *x = text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_incref((json_t *)(uintptr_t)v);
    bool ok = json_is_number(x);
    if (ok)
        *value = json_number_value(x);
    json_decref(x);
    return ok;
}

json_t *json_wide_object(const char *text, size_t n)
{
    size_t n_wrapped = 0;
    char *wrapped = json_wide_wrap(text, n, &n_wrapped);
    json_t *v = json_loadb(wrapped ? wrapped : text, wrapped ? n_wrapped : n, JSON_ALLOW_NUL, NULL);
    free(wrapped);
    if (json_is_members(v))
        return v;
    json_decref(v);
    return NULL;
}
