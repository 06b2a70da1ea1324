/* The text of a receipt, as strangers send it: see receipt.h. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/xxh64.h"
#include "engine/receipt.h"
#include "text/tojson.h"

enum { TEXT_MAX = 64 << 20, PATH_MAX_BYTES = 64 };

/* Of a JSON tree: for each byte of the text, and beside those */
enum { TREE_BYTES = 64, TREE_MORE = 1 << 16 };

static const uint64_t EXACT = (uint64_t)1 << 53; /* integers that every JSON reader keeps */

struct receipt_block {
    struct receipt_block *next;
    _Alignas(16) char data[];
};

struct receipt_reader {
    struct receipt *out;
    struct receipt_memory *memory;
    struct json json;
    uint32_t root; /* the receipt, perhaps within an answer of the server */
    struct tern_error *e;
};

static enum tern_status refuse(const struct receipt_reader *in, uint32_t node, const char *why)
{
    char place[PATH_MAX_BYTES];
    json_place(&in->json, node, place, sizeof place);
    return error_set(in->e, TERN_BAD_FILE, "receipt: %s %s", place, why);
}

/* n elements of `size` bytes, zero; n is at most the bytes of the text */
static void *take(struct receipt_reader *in, size_t n, size_t size)
{
    struct receipt_block *b = calloc(1, sizeof *b + n * size + 1);
    if (!b)
        return error_memory(in->e, "the receipt", n * size), NULL;
    b->next = in->memory->first;
    in->memory->first = b;
    return b->data;
}

void receipt_close(struct receipt_memory *memory)
{
    for (struct receipt_block *b = memory->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    memory->first = NULL;
}

/* ---- values --------------------------------------------------------------------------------- */

static const struct json_value *value_at(const struct receipt_reader *in, uint32_t node)
{
    return &in->json.values[node];
}

/* A whole number of least .. most (both within 2^53) */
static bool read_whole(const char *p, size_t n, int64_t least, int64_t most, int64_t *x)
{
    bool minus = n && *p == '-';
    uint64_t digits = 0;
    if (n == minus)
        return false;
    for (size_t i = minus; i < n; i++) {
        if (p[i] < '0' || p[i] > '9' || digits > EXACT)
            return false;
        digits = 10 * digits + (uint64_t)(p[i] - '0');
    }
    *x = minus ? -(int64_t)digits : (int64_t)digits;
    return *x >= least && *x <= most;
}

static bool whole(const struct receipt_reader *in, uint32_t node, int64_t least, int64_t most,
                  int64_t *x)
{
    const struct json_value *v = value_at(in, node);
    return v->type == JSON_NUMBER && read_whole(in->json.text + v->text, v->n_text, least, most, x);
}

static enum tern_status read_real(const struct receipt_reader *in, uint32_t node, float *out)
{
    const struct json_value *v = value_at(in, node);
    double x = 0;
    if (json_is(&in->json, node, "inf") || json_is(&in->json, node, "-inf")) {
        *out = v->n_text == 3 ? HUGE_VALF : -HUGE_VALF;
        return TERN_OK;
    }
    if (v->type != JSON_NUMBER)
        return refuse(in, node, "is not a number");
    if (!tojson_real(in->json.text + v->text, v->n_text, &x))
        return error_memory(in->e, "the receipt", v->n_text);
    bool fits = x >= -(double)FLT_MAX && x <= (double)FLT_MAX;
    *out = fits ? (float)x : 0;
    return fits && (double)*out == x ? TERN_OK : refuse(in, node, "is not a 32-bit float");
}

/* The decimal digits of a u64 */
static bool digits_of(const char *p, size_t n, uint64_t *out)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t digit = (uint64_t)(p[i] - '0');
        if (p[i] < '0' || p[i] > '9' || x > (UINT64_MAX - digit) / 10)
            return false;
        x = 10 * x + digit;
    }
    *out = x;
    return n && (n == 1 || *p != '0');
}

static bool hex_of(const char *p, size_t n, uint64_t *out)
{
    uint32_t high, low;
    if (n != 16 || !hex_read(p, 8, &high) || !hex_read(p + 8, 8, &low))
        return false;
    *out = (uint64_t)high << 32 | low;
    return true;
}

static enum tern_status read_u64(const struct receipt_reader *in, uint32_t node, bool hex,
                                 uint64_t *out)
{
    const struct json_value *v = value_at(in, node);
    if (v->type == JSON_STRING &&
        (hex ? hex_of : digits_of)(in->json.text + v->text, v->n_text, out))
        return TERN_OK;
    return refuse(in, node,
                  hex ? "is not a string of 16 hexadecimal digits"
                      : "is not a string of decimal digits");
}

/* A text: a string, or {"hex": "00ff"}. A NUL that is not counted follows it. */
static enum tern_status read_bytes(struct receipt_reader *in, uint32_t node, const char **out,
                                   size_t *n)
{
    uint32_t hex = json_member(&in->json, node, "hex"), byte;
    const struct json_value *v = value_at(in, hex ? hex : node);
    if (v->type != JSON_STRING || (hex && (v->n_text % 2 || value_at(in, node)->n_children > 1)))
        return refuse(in, node, "is not a text");
    const char *from = in->json.text + v->text;
    char *p = take(in, v->n_text, 1);
    if (!p)
        return TERN_NO_MEMORY;
    *n = hex ? v->n_text / 2 : v->n_text;
    for (size_t i = 0; i < *n; i++) {
        byte = (unsigned char)from[i];
        if (hex && !hex_read(from + 2 * i, 2, &byte))
            return refuse(in, node, "is not a text");
        p[i] = (char)byte;
    }
    *out = p;
    return TERN_OK;
}

/* The same without a NUL in it */
static enum tern_status read_name(struct receipt_reader *in, uint32_t node, const char **out)
{
    size_t n = 0;
    enum tern_status s = read_bytes(in, node, out, &n);
    return s || !memchr(*out, 0, n) ? s : refuse(in, node, "holds a NUL");
}

static enum tern_status read_order(struct receipt_reader *in, uint32_t node)
{
    const char *text = NULL;
    struct tern_error why = {0};
    enum tern_status s = read_name(in, node, &text);
    if (!s && (tern_sampler_order(&in->out->sampler, text, &why)))
        s = error_set(in->e, TERN_BAD_FILE, "receipt: %s", why.text);
    return s;
}

static enum tern_status read_bias(const struct receipt_reader *in, uint32_t node,
                                  struct tern_bias *b)
{
    const struct json_value *v = value_at(in, node);
    int64_t token;
    if (v->type != JSON_ARRAY || v->n_children != 2 ||
        !whole(in, v->first, INT32_MIN, INT32_MAX, &token))
        return refuse(in, node, "is not a pair of a token and a number");
    b->token = (tern_token)token;
    return read_real(in, value_at(in, v->first)->next, &b->value);
}

static enum tern_status read_element(struct receipt_reader *in, enum receipt_kind kind,
                                     uint32_t node, void *array, size_t i)
{
    int64_t token = 0;
    if (kind == RECEIPT_BIAS)
        return read_bias(in, node, (struct tern_bias *)array + i);
    if (kind != RECEIPT_TOKENS)
        return read_name(in, node, (const char **)array + i);
    if (!whole(in, node, INT32_MIN, INT32_MAX, &token))
        return refuse(in, node, "is not a token id");
    ((tern_token *)array)[i] = (tern_token)token;
    return TERN_OK;
}

static enum tern_status read_array(struct receipt_reader *in, enum receipt_kind kind, uint32_t node,
                                   void *at, size_t *n)
{
    const struct json_value *v = value_at(in, node);
    size_t size = kind == RECEIPT_TOKENS ? sizeof(tern_token)
                  : kind == RECEIPT_BIAS ? sizeof(struct tern_bias)
                                         : sizeof(char *);
    if (v->type != JSON_ARRAY)
        return refuse(in, node, "is not an array");
    void *array = take(in, v->n_children, size);
    if (!array)
        return TERN_NO_MEMORY;
    enum tern_status s = TERN_OK;
    size_t i = 0;
    for (uint32_t child = v->first; child && !s; child = value_at(in, child)->next)
        s = read_element(in, kind, child, array, i++);
    memcpy(at, &array, sizeof array);
    *n = i;
    return s;
}

/* ---- members -------------------------------------------------------------------------------- */

static enum tern_status read_word(const struct receipt_reader *in, uint32_t node, const char *words,
                                  unsigned *out)
{
    const struct json_value *v = value_at(in, node);
    size_t n;
    const char *word;
    *out = 0;
    if (v->type == JSON_STRING)
        for (; (word = receipt_word(words, *out, &n)); ++*out)
            if (n == v->n_text && !memcmp(word, in->json.text + v->text, n))
                return TERN_OK;
    char why[128];
    snprintf(why, sizeof why, "is none of: %s", words);
    return refuse(in, node, why);
}

static enum tern_status read_number(const struct receipt_reader *in, uint32_t node,
                                    const struct receipt_member *m, void *at)
{
    int64_t x = 0;
    bool negative = m->kind == RECEIPT_I64;
    if (!whole(in, node, negative ? -1 : 0, m->most ? (int64_t)m->most : (int64_t)EXACT, &x))
        return refuse(in, node, "is not a whole number, or out of range");
    if (m->kind == RECEIPT_U32)
        *(uint32_t *)at = (uint32_t)x;
    else if (m->kind == RECEIPT_SIZE)
        *(size_t *)at = (size_t)x;
    else
        *(int64_t *)at = x; /* RECEIPT_U64, too */
    return TERN_OK;
}

static enum tern_status read_members(struct receipt_reader *in, uint32_t object,
                                     const struct receipt_member *m, const char *more);

static enum tern_status read_member(struct receipt_reader *in, uint32_t node,
                                    const struct receipt_member *m)
{
    void *at = (char *)in->out + m->at;
    size_t *n = (void *)((char *)in->out + m->count);
    uint8_t type = value_at(in, node)->type;
    bool none = type == JSON_NULL;
    switch (m->kind) {
    case RECEIPT_REAL:
        return read_real(in, node, at);
    case RECEIPT_FLAG:
        *(int *)at = type == JSON_TRUE;
        return type == JSON_TRUE || type == JSON_FALSE ? TERN_OK
                                                       : refuse(in, node, "is not true or false");
    case RECEIPT_DIGITS:
    case RECEIPT_HEX:
        return read_u64(in, node, m->kind == RECEIPT_HEX, at);
    case RECEIPT_HASH:
        ((struct receipt_hash *)at)->is_there = !none;
        return none ? TERN_OK : read_u64(in, node, true, &((struct receipt_hash *)at)->value);
    case RECEIPT_WORD:
        return read_word(in, node, m->words, at);
    case RECEIPT_TEXTS_OR:
    case RECEIPT_TOKENS:
    case RECEIPT_TEXTS:
    case RECEIPT_BIAS:
        return none && m->kind == RECEIPT_TEXTS_OR ? TERN_OK : read_array(in, m->kind, node, at, n);
    case RECEIPT_ORDER:
        return read_order(in, node);
    case RECEIPT_BYTES:
        return read_bytes(in, node, at, n);
    case RECEIPT_NAME:
        return none ? TERN_OK : read_name(in, node, at);
    case RECEIPT_MEMBERS_OR:
        *(bool *)at = !none;
        return none ? TERN_OK : read_members(in, node, m->members, NULL);
    case RECEIPT_MEMBERS:
        return read_members(in, node, m->members, NULL);
    default:
        return read_number(in, node, m, at);
    }
}

/* more: a further member that there may be; or NULL */
static bool is_known(const struct receipt_reader *in, uint32_t child,
                     const struct receipt_member *m, const char *more)
{
    const struct json_value *v = value_at(in, child);
    for (; m->name || more; m++) {
        const char *name = m->name ? m->name : more;
        if (strlen(name) == v->n_key && !memcmp(name, in->json.text + v->key, v->n_key))
            return true;
        if (!m->name)
            break;
    }
    return false;
}

/* Each member once (the reader of JSON refuses a second one), and no other. */
static enum tern_status read_members(struct receipt_reader *in, uint32_t object,
                                     const struct receipt_member *m, const char *more)
{
    char why[96];
    enum tern_status s = TERN_OK;
    for (uint32_t child = value_at(in, object)->first; child; child = value_at(in, child)->next)
        if (value_at(in, object)->type == JSON_OBJECT && !is_known(in, child, m, more))
            return refuse(in, child, "is not known");
    for (; m->name && !s; m++) {
        uint32_t node = json_find(&in->json, object, m->name, strlen(m->name));
        snprintf(why, sizeof why, "lacks the member \"%s\"", m->name);
        s = node ? read_member(in, node, m) : refuse(in, object, why);
    }
    return s;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static struct budget budget_for(size_t n)
{
    return (struct budget){.bytes = TREE_BYTES * n + TREE_MORE, .steps = UINT64_MAX};
}

static enum tern_status digest_of(struct json *j, uint32_t root, uint64_t *digest,
                                  struct tern_error *e)
{
    struct buffer text = {0};
    uint32_t node = json_find(j, root, "digest", 6);
    if (node)
        j->values[node].n_text = 0;
    bool ok = tojson_put(j, root, TOJSON_JSON | TOJSON_TIGHT | TOJSON_SORT, &text);
    *digest = ok ? xxh64(text.p, text.n) : 0;
    buffer_close(&text);
    return ok ? TERN_OK : error_memory(e, "the receipt", j->n_text);
}

enum tern_status receipt_digest(const char *text, size_t n, uint64_t *digest, struct tern_error *e)
{
    struct budget budget = budget_for(n);
    struct json j;
    enum tern_status s = json_read(&j, text, n, "receipt", &budget, e);
    if (!s)
        s = digest_of(&j, 0, digest, e);
    json_close(&j);
    return s;
}

static uint32_t inner_receipt(const struct json *j, uint32_t node)
{
    uint32_t inner = json_find(j, node, "receipt", 7);
    return inner && j->values[inner].type == JSON_OBJECT ? inner : 0;
}

/* The receipt itself, or an answer of the server that has one, as its member or as that of a choice */
static enum tern_status find_root(struct receipt_reader *in)
{
    const struct json *j = &in->json;
    uint32_t choices = json_find(j, 0, "choices", 7);
    size_t n = 0;
    in->root = inner_receipt(j, 0);
    for (uint32_t i = choices ? j->values[choices].first : 0; i; i = j->values[i].next)
        if (inner_receipt(j, i)) {
            in->root = inner_receipt(j, i);
            n++;
        }
    return n <= 1 ? TERN_OK
                  : error_set(in->e, TERN_BAD_FILE,
                              "receipt: this answer has %zu, one for each of its choices: save the "
                              "member \"receipt\" of one as a file",
                              n);
}

static enum tern_status read_version(const struct receipt_reader *in)
{
    int64_t version = 0;
    uint32_t node = json_find(&in->json, in->root, "receipt", 7);
    if (!node || !whole(in, node, 0, (int64_t)EXACT, &version))
        return error_set(
            in->e, TERN_BAD_FILE,
            "receipt: this is no receipt, for it has no member \"receipt\" with a version");
    if (version != RECEIPT_VERSION)
        return error_set(in->e, TERN_BAD_FILE,
                         "receipt: version %lld is not known; this tern reads version %d",
                         (long long)version, RECEIPT_VERSION);
    return TERN_OK;
}

static enum tern_status read_root(struct receipt_reader *in)
{
    uint64_t claimed = 0, digest = 0;
    enum tern_status s = find_root(in);
    if (!s)
        s = read_version(in);
    if (!s)
        s = read_members(in, in->root, receipt_members, "digest");
    if (s)
        return s;
    uint32_t node = json_find(&in->json, in->root, "digest", 6);
    if (!node)
        return refuse(in, in->root, "lacks the member \"digest\"");
    if ((s = read_u64(in, node, true, &claimed)) ||
        (s = digest_of(&in->json, in->root, &digest, in->e)))
        return s;
    return claimed == digest ? TERN_OK
                             : error_set(in->e, TERN_BAD_FILE,
                                         "receipt: the digest is not that of the other members: it "
                                         "was changed or damaged");
}

enum tern_status receipt_read(struct receipt *r, struct receipt_memory *memory, const char *text,
                              size_t n, struct tern_error *e)
{
    struct budget budget = budget_for(n);
    struct receipt_reader in = {.out = r, .memory = memory, .e = e};
    *r = (struct receipt){0};
    *memory = (struct receipt_memory){0};
    if (n > TEXT_MAX)
        return error_set(e, TERN_LIMIT, "receipt: longer than %d MiB", TEXT_MAX >> 20);
    enum tern_status s = json_read(&in.json, text, n, "receipt", &budget, e);
    if (s == TERN_USAGE && e)
        e->code = TERN_BAD_FILE;
    if (s)
        return s == TERN_USAGE ? TERN_BAD_FILE : s;
    s = read_root(&in);
    json_close(&in.json);
    return s;
}
