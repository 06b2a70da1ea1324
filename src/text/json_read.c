/* JSON texts: see json_read.h. */
#include "text/json_read.h"

#include "base/hex.h"
#include "base/xxh64.h"
#include "text/unicode.h"

#include <stdio.h>
#include <string.h>

struct json_reader {
    struct json *out;
    const char *what;
    const unsigned char *start, *at, *end;
    struct tern_error *e;
    uint32_t open[JSON_DEPTH]; /* the containers around `at`, the outermost first */
    uint32_t last[JSON_DEPTH]; /* their last children so far, or 0 */
    unsigned depth;
};

static enum tern_status bad(struct json_reader *r, const char *why)
{
    return error_set(r->e, TERN_USAGE, "%s: byte %zu: %s", r->what, (size_t)(r->at - r->start),
                     why);
}

static void skip_blanks(struct json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static int peek(const struct json_reader *r)
{
    return r->at < r->end ? *r->at : -1;
}

/* ---- strings ---- */

/* The code point of \uXXXX at r->at, behind the 'u'; of two such for a pair. */
static enum tern_status read_hex(struct json_reader *r, uint32_t *c)
{
    const char *at = (const char *)r->at;
    uint32_t high, low;
    if (r->end - r->at < 4 || !hex_read(at, 4, &high))
        return bad(r, "\\u needs four hexadecimal digits");
    if (high >= 0xD800 && high < 0xE000) {
        if (high > 0xDBFF || r->end - r->at < 10 || at[4] != '\\' || at[5] != 'u' ||
            !hex_read(at + 6, 4, &low) || low < 0xDC00 || low > 0xDFFF)
            return bad(r, "half of a surrogate pair");
        *c = 0x10000 + ((high & 0x3FF) << 10 | (low & 0x3FF));
        r->at += 10;
        return TERN_OK;
    }
    *c = high;
    r->at += 4;
    return TERN_OK;
}

static enum tern_status read_escape(struct json_reader *r, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint32_t c = 0;
    const char *name = ++r->at < r->end && *r->at ? strchr(names, *r->at) : NULL;
    if (name) {
        *(*to)++ = values[name - names];
        r->at++;
        return TERN_OK;
    }
    if (peek(r) != 'u')
        return bad(r, "unknown escape");
    r->at++;
    enum tern_status s = read_hex(r, &c);
    if (!s)
        *to += unicode_encode(c, *to);
    return s;
}

/* The string at r->at, a '"', unescaped into json.text. */
static enum tern_status read_string(struct json_reader *r, uint32_t *text, uint32_t *n)
{
    struct json *j = r->out;
    const unsigned char *close = r->at + 1;
    while (close < r->end && *close != '"' && *close >= 0x20)
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    if (close >= r->end || *close < 0x20) {
        r->at = close;
        return bad(r,
                   close >= r->end ? "the string does not end" : "control character in a string");
    }
    size_t room = j->n_text + (size_t)(close - r->at); /* unescaped text is never longer */
    if (!budget_grow(j->budget, &j->text, &j->text_capacity, room, 1))
        return budget_refuse(j->budget, r->e, r->what);
    char *to = j->text + j->n_text;
    const char *from = (const char *)++r->at;
    if (!unicode_valid(from, (size_t)(close - r->at)))
        return bad(r, "the string is not UTF-8");
    while (r->at < close) {
        if (*r->at != '\\') {
            *to++ = (char)*r->at++;
            continue;
        }
        enum tern_status s = read_escape(r, &to);
        if (s)
            return s;
    }
    r->at = close + 1;
    *text = j->n_text;
    *n = (uint32_t)(to - (j->text + j->n_text));
    j->n_text += *n;
    return TERN_OK;
}

/* ---- numbers and words ---- */

static bool skip_digits(struct json_reader *r)
{
    const unsigned char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return r->at > from;
}

static bool skip_number(struct json_reader *r)
{
    if (peek(r) == '-')
        r->at++;
    if (peek(r) == '0')
        r->at++;
    else if (!skip_digits(r))
        return false;
    if (peek(r) == '.' && (r->at++, !skip_digits(r)))
        return false;
    if (peek(r) != 'e' && peek(r) != 'E')
        return true;
    r->at++;
    if (peek(r) == '+' || peek(r) == '-')
        r->at++;
    return skip_digits(r);
}

static enum tern_status read_number(struct json_reader *r, struct json_value *v)
{
    struct json *j = r->out;
    const unsigned char *from = r->at;
    if (!skip_number(r))
        return bad(r, "not a JSON value");
    size_t n = (size_t)(r->at - from);
    if (!budget_grow(j->budget, &j->text, &j->text_capacity, j->n_text + n, 1))
        return budget_refuse(j->budget, r->e, r->what);
    memcpy(j->text + j->n_text, from, n);
    v->type = JSON_NUMBER;
    v->text = j->n_text;
    v->n_text = (uint32_t)n;
    j->n_text += (uint32_t)n;
    return TERN_OK;
}

static bool read_word(struct json_reader *r, struct json_value *v)
{
    static const char *const words[] = {"null", "false", "true"}; /* as in enum json_type */
    for (uint8_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= n && !memcmp(r->at, words[i], n)) {
            v->type = i;
            r->at += n;
            return true;
        }
    }
    return false;
}

/* ---- members by key ---- */

static bool has_key(const struct json *j, uint32_t v, uint32_t object, const char *key, size_t n)
{
    const struct json_value *m = &j->values[v];
    return m->parent == object && m->n_key == n && (!n || !memcmp(j->text + m->key, key, n));
}

/* Where in the table the member is, or would be. */
static uint32_t *slot_of(const struct json *j, uint32_t object, const char *key, size_t n)
{
    uint32_t mask = j->table_size - 1;
    uint32_t i = (uint32_t)(xxh64(n ? key : "", n) * 31 + object * 0x9E3779B9u) & mask;
    while (j->table[i] && !has_key(j, j->table[i], object, key, n))
        i = (i + 1) & mask;
    return &j->table[i];
}

static bool grow_table(struct json *j)
{
    uint32_t old = j->table_size, *from = j->table;
    if (j->n_keys < old - old / 4)
        return true;
    uint32_t size = old ? old * 2 : 16;
    uint32_t *to = budget_resize(j->budget, NULL, 0, size * sizeof *to);
    if (!to)
        return false;
    memset(to, 0, size * sizeof *to);
    j->table = to;
    j->table_size = size;
    for (uint32_t i = 0; i < old; i++) {
        const struct json_value *m = from[i] ? &j->values[from[i]] : NULL;
        if (m)
            *slot_of(j, m->parent, j->text + m->key, m->n_key) = from[i];
    }
    budget_free(j->budget, from, old * sizeof *from);
    return true;
}

uint32_t json_find(const struct json *j, uint32_t object, const char *key, size_t n)
{
    return j->table_size && j->values[object].type == JSON_OBJECT ? *slot_of(j, object, key, n) : 0;
}

/* ---- values ---- */

/* The key and the ':' before the value that is about to be number v. */
static enum tern_status read_key(struct json_reader *r, struct json_value *v, uint32_t number)
{
    struct json *j = r->out;
    if (peek(r) != '"')
        return bad(r, "expected the key of a member");
    enum tern_status s = read_string(r, &v->key, &v->n_key);
    if (s)
        return s;
    if (!grow_table(j))
        return budget_refuse(j->budget, r->e, r->what);
    uint32_t *slot = slot_of(j, v->parent, j->text + v->key, v->n_key);
    if (*slot)
        return bad(r, "a key of this object comes twice");
    *slot = number;
    j->n_keys++;
    skip_blanks(r);
    if (peek(r) != ':')
        return bad(r, "expected ':'");
    r->at++;
    skip_blanks(r);
    return TERN_OK;
}

/* Links the new value into the container around it. */
static void link_value(struct json_reader *r, struct json_value *v, uint32_t number)
{
    struct json_value *values = r->out->values;
    if (!r->depth)
        return;
    uint32_t parent = v->parent = r->open[r->depth - 1], *last = &r->last[r->depth - 1];
    v->index = values[parent].n_children++;
    if (*last)
        values[*last].next = number;
    else
        values[parent].first = number;
    *last = number;
}

/* One value; of a container its opening, which puts it on the stack. */
static enum tern_status read_value(struct json_reader *r)
{
    struct json *j = r->out;
    struct json_value v = {0};
    uint32_t number = j->n_values;
    enum tern_status s = TERN_OK;
    if (!budget_grow(j->budget, &j->values, &j->value_capacity, number + (size_t)1, sizeof v) ||
        !budget_step(j->budget, 1))
        return budget_refuse(j->budget, r->e, r->what);
    link_value(r, &v, number);
    if (r->depth && j->values[v.parent].type == JSON_OBJECT)
        s = read_key(r, &v, number);
    if (s)
        return s;
    int c = peek(r);
    v.from = (uint32_t)(r->at - r->start);
    if (c == '[' || c == '{') {
        if (r->depth == JSON_DEPTH)
            return bad(r, "values are nested deeper than 64");
        v.type = c == '[' ? JSON_ARRAY : JSON_OBJECT;
        r->open[r->depth] = number;
        r->last[r->depth++] = 0;
        r->at++;
    } else if (c == '"') {
        v.type = JSON_STRING;
        s = read_string(r, &v.text, &v.n_text);
    } else if (!read_word(r, &v)) {
        s = read_number(r, &v);
    }
    v.to = (uint32_t)(r->at - r->start);
    j->values[number] = v;
    j->n_values++;
    return s;
}

/* Behind a value: closes the containers that end here. *more: another value comes. */
static enum tern_status read_ends(struct json_reader *r, bool *more)
{
    *more = false;
    for (;;) {
        skip_blanks(r);
        if (!r->depth)
            return r->at == r->end ? TERN_OK : bad(r, "text behind the value");
        struct json_value *in = &r->out->values[r->open[r->depth - 1]];
        int close = in->type == JSON_ARRAY ? ']' : '}', c = peek(r);
        if (c == close) {
            r->at++;
            r->depth--;
            in->to = (uint32_t)(r->at - r->start);
            continue;
        }
        *more = true;
        if (!in->n_children)
            return TERN_OK;
        if (c != ',')
            return bad(r, close == ']' ? "expected ',' or ']'" : "expected ',' or '}'");
        r->at++;
        skip_blanks(r);
        return TERN_OK;
    }
}

enum tern_status json_read(struct json *out, const char *p, size_t n, const char *what,
                           struct budget *budget, struct tern_error *e)
{
    const unsigned char *start = (const unsigned char *)(n ? p : "");
    struct json_reader r = {.out = out, .what = what, .e = e};
    *out = (struct json){.budget = budget};
    r.start = r.at = start;
    r.end = start + n;
    enum tern_status s = TERN_OK;
    skip_blanks(&r);
    if (n > UINT32_MAX / 2)
        s = error_set(e, TERN_LIMIT, "%s: longer than 2 GiB", what);
    for (bool more = true; !s && more;) {
        s = read_value(&r);
        if (!s)
            s = read_ends(&r, &more);
    }
    if (s)
        json_close(out);
    return s;
}

void json_close(struct json *j)
{
    if (!j->budget)
        return;
    budget_free(j->budget, j->values, j->value_capacity * sizeof *j->values);
    budget_free(j->budget, j->text, j->text_capacity);
    budget_free(j->budget, j->table, j->table_size * sizeof *j->table);
    *j = (struct json){.budget = j->budget};
}

/* ---- places ---- */

struct place_writer {
    char *at, *end; /* end: where the last NUL may stand */
};

static void write_byte(struct place_writer *w, unsigned char c)
{
    if (w->at < w->end)
        *w->at++ = (char)(c < 0x20 || c == 0x7F ? '?' : c);
}

static void write_step(struct place_writer *w, const struct json *j, const struct json_value *v)
{
    char index[16];
    const char *text = index;
    size_t n = (size_t)snprintf(index, sizeof index, "%u", v->index);
    if (j->values[v->parent].type == JSON_OBJECT) {
        text = j->text + v->key;
        n = v->n_key;
    }
    write_byte(w, '/');
    for (size_t i = 0; i < n; i++) {
        bool escaped = text[i] == '~' || text[i] == '/';
        write_byte(w, escaped ? '~' : (unsigned char)text[i]);
        if (escaped)
            write_byte(w, text[i] == '~' ? '0' : '1');
    }
}

void json_place(const struct json *j, uint32_t v, char *out, size_t room)
{
    uint32_t path[JSON_DEPTH + 1];
    size_t depth = 0;
    if (!room)
        return;
    struct place_writer w = {out, out + room - 1};
    for (; v; v = j->values[v].parent)
        path[depth++] = v;
    write_byte(&w, '#');
    while (depth > 0)
        write_step(&w, j, &j->values[path[--depth]]);
    size_t n = (size_t)(w.at - out);
    *(w.at - unicode_tail(out, n)) = 0;
}
