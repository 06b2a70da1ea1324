/* JSON values as text: see json_plain.h. */
#include "app/serve/http/json_plain.h"

#include "app/cli/growing_text.h"
#include "app/serve/http/json_wide.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { REAL_DIGITS = 17, REAL_TEXT = 40 };

/* x into text [REAL_TEXT]; returns its bytes, 0: no memory. jansson reads and writes it, in any locale. */
static size_t write_real(char *text, const json_t *x)
{
    double value = json_real_value(x);
    /* 15 digits hold every decimal of so many, unless so small a number has fewer bits than others */
    unsigned digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG;
    for (;; digits++) {
        size_t n = json_dumpb(x, text, REAL_TEXT, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *again = n <= REAL_TEXT ? json_loadb(text, n, JSON_DECODE_ANY, NULL) : NULL;
        bool same = again && json_real_value(again) == value;
        json_decref(again);
        if (same || digits == REAL_DIGITS)
            return n <= REAL_TEXT ? n : 0;
    }
}

/* The number p[0..n) of jansson's; an integer has digits alone. */
static void add_number(struct growing_text *out, const char *p, size_t n)
{
    char text[REAL_TEXT];
    json_t *x = json_loadb(p, n, JSON_DECODE_ANY, NULL);
    if (json_is_real(x)) {
        n = write_real(text, x);
        p = text;
    }
    out->failed |= !x || !n;
    json_decref(x);
    growing_text_add(out, p, n);
}

/* The end of what begins at p: a string, a number, or a byte beside them. */
static const char *end_of(const char *p, bool *number)
{
    static const char bytes[] = "+-.0123456789eE";
    *number = *p == '-' || (*p >= '0' && *p <= '9');
    if (*number)
        return p + strspn(p, bytes);
    if (*p == '"')
        for (p++; *p != '"'; p++)
            p += *p == '\\';
    return p + 1;
}

char *json_plain(const json_t *v)
{
    struct growing_text out = {0};
    char *whole = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    bool number;
    if (!whole)
        return NULL;
    const char *kept = whole;
    for (const char *p = whole, *end; *p; p = end) {
        end = end_of(p, &number);
        if (!number)
            continue;
        growing_text_add(&out, kept, (size_t)(p - kept));
        add_number(&out, p, (size_t)(end - p));
        kept = end;
    }
    growing_text_add(&out, kept, strlen(kept) + 1);
    free(whole);
    if (out.failed)
        growing_text_close(&out);
    else
        json_wide_unwrap(out.p);
    return out.p;
}
