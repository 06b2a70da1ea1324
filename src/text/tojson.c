/* Prints JSON values as Python does: see tojson.h. Containers recurse, at most JSON_DEPTH deep. */
#include "text/tojson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/real.h"
#include "text/unicode.h"

bool tojson_check(uint32_t style)
{
    uint32_t indent = style >> TOJSON_INDENT & 0xFF;
    uint32_t known = TOJSON_NOTATION | TOJSON_ASCII | TOJSON_HTML | TOJSON_SORT | TOJSON_TIGHT |
                     (uint32_t)0xFF << TOJSON_INDENT;
    return (style & TOJSON_NOTATION) < TOJSON_NOTATIONS && !(style & ~known) &&
           indent <= TOJSON_INDENT_MAX;
}

static bool put(struct buffer *out, const char *text)
{
    return buffer_add(out, text, strlen(text));
}

/* ---- numbers ------------------------------------------------------------------------------ */

static bool put_zeros(struct buffer *out, long n)
{
    bool ok = true;
    while (n-- > 0 && ok)
        ok = put(out, "0");
    return ok;
}

/* x >= 0 as Python's repr: with an exponent below 1e-4 and from 1e16 on. */
static bool put_double(double x, struct buffer *out)
{
    char digits[REAL_DIGITS + 1], exponent[24];
    size_t n;
    if (x == 0)
        return put(out, "0.0");
    long e = real_shortest(x, digits, &n); /* 0.ddd * 10^e */
    if (e > 16 || e < -3) {
        snprintf(exponent, sizeof exponent, "e%c%02ld", e < 1 ? '-' : '+', e < 1 ? 1 - e : e - 1);
        return buffer_add(out, digits, 1) &&
               (n == 1 || (put(out, ".") && buffer_add(out, digits + 1, n - 1))) &&
               put(out, exponent);
    }
    if (e <= 0)
        return put(out, "0.") && put_zeros(out, -e) && buffer_add(out, digits, n);
    size_t whole = (size_t)e < n ? (size_t)e : n;
    return buffer_add(out, digits, whole) && put_zeros(out, e - (long)n) && put(out, ".") &&
           (whole < n ? buffer_add(out, digits + whole, n - whole) : put(out, "0"));
}

bool tojson_put_real(double x, struct buffer *out)
{
    return (!signbit(x) || put(out, "-")) && put_double(fabs(x), out);
}

bool tojson_real(const char *p, size_t n, double *x)
{
    const char *end = p + n;
    struct buffer digits = {0};
    long e = 0, exponent = 0;
    bool ok = true, point = false, below = false, minus = *p == '-';
    for (p += minus; p < end && (*p | 32) != 'e' && ok; p++) {
        point |= *p == '.';
        if (*p == '.')
            continue;
        e += !point;
        ok = buffer_add(&digits, p, 1);
    }
    for (p += p < end; p < end; p++) {
        below |= *p == '-';
        if (*p >= '0' && *p <= '9' && exponent < 100000000)
            exponent = 10 * exponent + (*p - '0');
    }
    *x = ok ? real_of_digits(digits.p, digits.n, e + (below ? -exponent : exponent)) : 0;
    *x = minus ? -*x : *x;
    buffer_close(&digits);
    return ok;
}

/* A number as Python's json.loads and repr spell it: "1e5" is 100000.0; `json`: Infinity, not inf. */
static bool put_number(const char *p, size_t n, bool json, struct buffer *out)
{
    double x;
    if (!memchr(p, '.', n) && !memchr(p, 'e', n) && !memchr(p, 'E', n)) /* an integer */
        return n == 2 && p[0] == '-' && p[1] == '0' ? put(out, "0") : buffer_add(out, p, n);
    if (!tojson_real(p, n, &x))
        return false;
    if (fabs(x) > 1.7976931348623157e308)
        return (x > 0 || put(out, "-")) && put(out, json ? "Infinity" : "inf");
    return tojson_put_real(x, out);
}

/* ---- strings ------------------------------------------------------------------------------ */

static bool put_code(struct buffer *out, const char *form, uint32_t c)
{
    char text[24];
    snprintf(text, sizeof text, form, c);
    return put(out, text);
}

static bool put_json_char(struct buffer *out, uint32_t c, const char *p, size_t len, uint32_t style)
{
    static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *name = c && c < 128 ? strchr(names, (int)c) : NULL;
    if (name)
        return buffer_add(out, "\\", 1) && buffer_add(out, letters + (name - names), 1);
    if (style & TOJSON_ASCII && c >= 0x10000)
        return put_code(out, "\\u%04x", 0xD800 + ((c - 0x10000) >> 10)) &&
               put_code(out, "\\u%04x", 0xDC00 + (c & 0x3FF));
    if (c < 32 || (style & TOJSON_ASCII && c > 126) ||
        (style & TOJSON_HTML && c < 128 && strchr("<>&'", (int)c)))
        return put_code(out, "\\u%04x", c);
    return buffer_add(out, p, len);
}

/* What Python's str.isprintable takes: letters, marks, numbers, punctuation, symbols and the space */
static bool is_printable(uint32_t c)
{
    return c < 128 ? c >= 32 && c != 127
                   : unicode_class(c) &
                         (UNICODE_LETTER | UNICODE_UPPER | UNICODE_NUMBER | UNICODE_SYMBOL);
}

static bool put_repr_char(struct buffer *out, uint32_t c, const char *p, size_t len, char quote)
{
    if (c == '\\' || c == (unsigned char)quote)
        return buffer_add(out, "\\", 1) && buffer_add(out, p, 1);
    if (c == '\n' || c == '\r' || c == '\t')
        return put(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    return is_printable(c) ? buffer_add(out, p, len)
                           : put_code(out,
                                      c < 0x100     ? "\\x%02x"
                                      : c < 0x10000 ? "\\u%04x"
                                                    : "\\U%08x",
                                      c);
}

static bool put_quoted(const char *p, size_t n, uint32_t style, struct buffer *out)
{
    bool repr = (style & TOJSON_NOTATION) != TOJSON_JSON, ok;
    char quote = !repr || (n && memchr(p, '\'', n) && !memchr(p, '"', n)) ? '"' : '\'';
    size_t len;
    ok = buffer_add(out, &quote, 1);
    for (const char *end = p + n; p < end && ok; p += len) {
        uint32_t c = unicode_decode(p, (size_t)(end - p), &len);
        ok = repr ? put_repr_char(out, c, p, len, quote) : put_json_char(out, c, p, len, style);
    }
    return ok && buffer_add(out, &quote, 1);
}

bool tojson_put_string(const char *p, size_t n, uint32_t style, struct buffer *out)
{
    return (style & TOJSON_NOTATION) == TOJSON_STR ? buffer_add(out, p, n)
                                                   : put_quoted(p, n, style, out);
}

/* ---- containers --------------------------------------------------------------------------- */

struct keyed {
    const char *key;
    uint32_t n, id, order;
};

static int by_key(const void *one, const void *two)
{
    const struct keyed *a = one, *b = two;
    int d = memcmp(a->key, b->key, a->n < b->n ? a->n : b->n);
    return d ? d : (a->n > b->n) - (a->n < b->n);
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : (unsigned char)c;
}

static int by_lower_key(const void *one, const void *two)
{
    const struct keyed *a = one, *b = two;
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (lower(a->key[i]) != lower(b->key[i]))
            return lower(a->key[i]) - lower(b->key[i]);
    return a->n != b->n ? (a->n > b->n) - (a->n < b->n)
                        : (a->order > b->order) - (a->order < b->order);
}

uint32_t *tojson_sorted(const struct json *j, uint32_t object, bool exact)
{
    uint32_t n = j->values[object].n_children, i = 0;
    struct keyed *list = calloc(n + 1, sizeof *list);
    uint32_t *out = calloc(n + 1, sizeof *out);
    if (list && out) {
        for (uint32_t k = j->values[object].first; k; k = j->values[k].next, i++)
            list[i] = (struct keyed){j->text + j->values[k].key, j->values[k].n_key, k, i};
        qsort(list, n, sizeof *list, exact ? by_key : by_lower_key);
        for (i = 0; i < n; i++)
            out[i] = list[i].id;
    } else {
        free(out);
        out = NULL;
    }
    free(list);
    return out;
}

struct container {
    const struct json *j;
    uint32_t style, nested; /* style of what is inside */
    struct buffer *out;
    unsigned depth;
};

static bool put_value(const struct container *up, uint32_t node);

static bool put_line(const struct container *c, unsigned depth)
{
    unsigned indent = c->style >> TOJSON_INDENT & 0xFF;
    bool ok = !indent || buffer_add(c->out, "\n", 1);
    for (unsigned i = 0; i < depth * indent && ok; i++)
        ok = buffer_add(c->out, " ", 1);
    return ok;
}

static bool put_container(const struct container *up, uint32_t node)
{
    const struct json_value *x = &up->j->values[node], *k;
    const struct container in = {up->j, up->nested, up->nested, up->out, up->depth + 1};
    bool object = x->type == JSON_OBJECT, tight = in.style & TOJSON_TIGHT;
    bool ok = buffer_add(in.out, object ? "{" : "[", 1);
    uint32_t *sorted = NULL, id = x->first;
    if (object && in.style & TOJSON_SORT && !(sorted = tojson_sorted(in.j, node, true)))
        return false;
    for (uint32_t i = 0; i < x->n_children && ok; i++, id = k->next) {
        id = sorted ? sorted[i] : id;
        k = &in.j->values[id];
        ok = (i == 0 || put(in.out, tight || in.style >> TOJSON_INDENT & 0xFF ? "," : ", ")) &&
             put_line(&in, in.depth);
        if (object && ok)
            ok = put_quoted(in.j->text + k->key, k->n_key, in.style, in.out) &&
                 put(in.out, tight ? ":" : ": ");
        ok = ok && put_value(&in, id);
    }
    free(sorted);
    return ok && (x->n_children == 0 || put_line(&in, up->depth)) &&
           buffer_add(in.out, object ? "}" : "]", 1);
}

static bool put_value(const struct container *up, uint32_t node)
{
    static const char *const words[2][3] = {{"null", "false", "true"}, {"None", "False", "True"}};
    const struct json_value *x = &up->j->values[node];
    bool python = (up->style & TOJSON_NOTATION) != TOJSON_JSON;
    if (x->type <= JSON_TRUE)
        return put(up->out, words[python][x->type]);
    if (x->type == JSON_NUMBER)
        return put_number(up->j->text + x->text, x->n_text, !python, up->out);
    return x->type == JSON_STRING
               ? tojson_put_string(up->j->text + x->text, x->n_text, up->style, up->out)
               : put_container(up, node);
}

bool tojson_put(const struct json *j, uint32_t node, uint32_t style, struct buffer *out)
{
    bool str = (style & TOJSON_NOTATION) == TOJSON_STR;
    return put_value(
        &(struct container){j, style, str ? style - TOJSON_STR + TOJSON_REPR : style, out, 0},
        node);
}
