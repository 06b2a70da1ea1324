/* Control vectors: see control_vector.h. The format of a GGUF file, little-endian: "GGUF", version
 * u32, tensors u64, keys u64; keys (name, type u32, value); tensors (name, dims u32, dim u64 each,
 * type u32, offset u64); data, aligned to general.alignment (32). A string is its length u64 and its
 * bytes. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
#include "app/look/control_vector.h"

#include "app/cli/files.h"
#include "app/cli/number.h"
#include "app/cli/output_file.h"
#include "app/cli/parser.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3 };
enum gguf_type { GGUF_U32 = 4, GGUF_STRING = 8, GGUF_ARRAY = 9, GGUF_N_TYPES = 13 };
enum { TENSOR_F32 = 0 };

static const char direction[] = "direction.", embedding[] = "embed";

enum tern_status control_vector_init(struct control_vector *v, uint64_t n_layers, size_t dim,
                                     struct tern_error *e)
{
    *v = (struct control_vector){.n_places = n_layers + 1, .dim = dim};
    v->has = calloc(v->n_places, 1);
    v->values = calloc(v->n_places * dim, sizeof *v->values);
    return v->has && v->values ? TERN_OK : parser_no_memory(e);
}

void control_vector_close(struct control_vector *v)
{
    free(v->has);
    free(v->values);
}

bool control_vector_has_name(const char *path)
{
    size_t n = path ? strlen(path) : 0;
    return n > 5 && !strcmp(path + n - 5, ".gguf");
}

/* ---- reading --------------------------------------------------------------------------------- */

struct gguf_bytes {
    const unsigned char *bytes;
    size_t n, at;
    bool is_short; /* something was wanted after the end */
};

static uint64_t take_number(struct gguf_bytes *r, size_t bytes)
{
    uint64_t x = 0;
    if (r->n - r->at < bytes) {
        r->is_short = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        x |= (uint64_t)r->bytes[r->at + i] << 8 * i;
    r->at += bytes;
    return x;
}

static const char *skip(struct gguf_bytes *r, uint64_t bytes)
{
    const char *at = (const char *)r->bytes + r->at;
    r->is_short = r->is_short || r->n - r->at < bytes;
    r->at += r->is_short ? 0 : (size_t)bytes;
    return at;
}

static const char *take_string(struct gguf_bytes *r, size_t *n)
{
    uint64_t length = take_number(r, 8);
    const char *text = skip(r, length);
    *n = r->is_short ? 0 : (size_t)length;
    return text;
}

/* Skips values of one type; false: an unknown type */
static bool skip_values(struct gguf_bytes *r, uint64_t type, uint64_t count)
{
    static const unsigned char sizes[GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    size_t n;
    if (type >= GGUF_N_TYPES || type == GGUF_ARRAY)
        return false;
    if (type == GGUF_STRING)
        for (uint64_t i = 0; !r->is_short && i < count; i++)
            (void)take_string(r, &n);
    else if (count > r->n)
        r->is_short = true;
    else
        (void)skip(r, count * sizes[type]);
    return true;
}

static bool take_key(struct gguf_bytes *r, uint64_t *alignment)
{
    static const char name[] = "general.alignment";
    size_t n;
    const char *key = take_string(r, &n);
    uint64_t type = take_number(r, 4);
    if (n == sizeof name - 1 && !memcmp(key, name, n) && type == GGUF_U32) {
        *alignment = take_number(r, 4);
        return true;
    }
    if (type != GGUF_ARRAY)
        return skip_values(r, type, 1);
    type = take_number(r, 4);
    return skip_values(r, type, take_number(r, 8));
}

struct found {
    uint64_t place, offset;
};

static enum tern_status bad(struct tern_error *e, const char *path, const char *what)
{
    snprintf(e->text, sizeof e->text, "%.300s: %s", path, what);
    return e->code = TERN_BAD_FILE;
}

/* The place of direction.NAME, name [n]; false: neither a layer nor the embedding */
static bool take_place(const char *name, size_t n, uint64_t *place)
{
    if (n == sizeof embedding - 1 && !memcmp(name, embedding, n)) {
        *place = 0;
        return true;
    }
    return number_u64(name, n, place) && ++*place;
}

/* One tensor; *is_direction: it is one that fits. */
static enum tern_status take_tensor(const struct control_vector *v, struct gguf_bytes *r,
                                    const char *path, struct found *f, bool *is_direction,
                                    struct tern_error *e)
{
    size_t n, prefix = sizeof direction - 1;
    const char *name = take_string(r, &n);
    uint64_t dims = take_number(r, 4), size = 1, type;
    if (dims > 4)
        return bad(e, path, "a tensor has more than 4 dimensions");
    for (uint64_t i = 0; i < dims; i++) {
        uint64_t d = take_number(r, 8);
        size = d == 1 ? size : size == 1 ? d : UINT64_MAX;
    }
    type = take_number(r, 4);
    f->offset = take_number(r, 8);
    *is_direction = n > prefix && !memcmp(name, direction, prefix);
    if (!*is_direction || r->is_short)
        return TERN_OK;
    if (!take_place(name + prefix, n - prefix, &f->place))
        return bad(e, path, "a direction's name ends neither in a layer nor in embed");
    if (type != TENSOR_F32)
        return bad(e, path, "a direction is not f32");
    if (size != v->dim)
        return parser_usage(e, "%.300s: %.*s has %llu values, but the model's dim is %zu", path,
                            n < 40 ? (int)n : 40, name, (unsigned long long)size, v->dim);
    if (f->place >= v->n_places)
        return parser_usage(e,
                            "%.300s has a direction for layer %llu, but the model has layers 0 "
                            "to %llu",
                            path, (unsigned long long)f->place - 1,
                            (unsigned long long)v->n_places - 2);
    return TERN_OK;
}

static enum tern_status take_values(struct control_vector *v, struct gguf_bytes *r,
                                    const char *path, uint64_t start, const struct found *f,
                                    struct tern_error *e)
{
    if (start > r->n || f->offset > r->n - start || r->n - start - f->offset < v->dim * 4)
        return bad(e, path, "the file is cut off");
    r->at = (size_t)(start + f->offset);
    for (size_t c = 0; c < v->dim; c++) {
        uint32_t bits = (uint32_t)take_number(r, 4);
        float *x = &v->values[f->place * v->dim + c];
        memcpy(x, &bits, sizeof bits);
        if (!isfinite(*x))
            return bad(e, path, "a value is not finite");
    }
    v->has[f->place] = 1;
    return TERN_OK;
}

static enum tern_status parse(struct control_vector *v, struct gguf_bytes *r, const char *path,
                              struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    const char *magic = skip(r, 4);
    if (r->is_short || memcmp(magic, "GGUF", 4))
        return bad(e, path, "not a GGUF file");
    uint64_t version = take_number(r, 4), tensors = take_number(r, 8), keys = take_number(r, 8);
    uint64_t alignment = ALIGNMENT;
    if (version < 2 || version > VERSION)
        return bad(e, path, "only versions 2 and 3 of GGUF are read");
    for (uint64_t i = 0; i < keys && !r->is_short; i++)
        if (!take_key(r, &alignment))
            return bad(e, path, "a key has an unknown type");
    if (!alignment || alignment & (alignment - 1) || alignment > 65536)
        return bad(e, path, "general.alignment is no power of two");
    struct found *list = calloc(v->n_places, sizeof *list); /* [n_found] */
    size_t n_found = 0;
    if (!list)
        return parser_no_memory(e);
    for (uint64_t i = 0; !status && i < tensors && !r->is_short && n_found < v->n_places; i++) {
        bool is_direction = false;
        status = take_tensor(v, r, path, &list[n_found], &is_direction, e);
        n_found += is_direction;
    }
    uint64_t start = (r->at + alignment - 1) & ~(alignment - 1);
    if (!status && (r->is_short || !n_found))
        status = bad(e, path,
                     r->is_short ? "the file is cut off" : "the file has no tensor direction.N");
    for (size_t i = 0; !status && i < n_found; i++)
        status = take_values(v, r, path, start, &list[i], e);
    free(list);
    return status;
}

enum tern_status control_vector_read(struct control_vector *v, const char *path, uint64_t n_layers,
                                     size_t dim, struct tern_error *e)
{
    char *bytes = NULL;
    struct gguf_bytes r = {0};
    enum tern_status status = control_vector_init(v, n_layers, dim, e);
    if (!status)
        status = files_take(path, &bytes, &r.n, e);
    r.bytes = (const unsigned char *)bytes;
    if (!status)
        status = parse(v, &r, path, e);
    free(bytes);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_number(FILE *f, uint64_t x, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        putc((int)(x >> 8 * i & 255), f);
}

static void put_string(FILE *f, const char *text)
{
    put_number(f, strlen(text), 8);
    fputs(text, f);
}

static void put_padding(FILE *f)
{
    for (long at = ftell(f); at > 0 && at % ALIGNMENT; at++)
        putc(0, f);
}

static void put_header(FILE *f, const struct control_vector *v, uint64_t n)
{
    size_t bytes = (v->dim * 4 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint64_t at = 0;
    fputs("GGUF", f);
    put_number(f, VERSION, 4);
    put_number(f, n, 8);
    put_number(f, 2, 8);
    put_string(f, "general.architecture");
    put_number(f, GGUF_STRING, 4);
    put_string(f, "controlvector");
    put_string(f, "controlvector.layer_count");
    put_number(f, GGUF_U32, 4);
    put_number(f, n, 4);
    for (uint64_t i = 0; i < v->n_places; i++) {
        char name[40];
        if (!v->has[i])
            continue;
        if (i)
            snprintf(name, sizeof name, "%s%llu", direction, (unsigned long long)i - 1);
        else
            snprintf(name, sizeof name, "%s%s", direction, embedding);
        put_string(f, name);
        put_number(f, 1, 4);
        put_number(f, v->dim, 8);
        put_number(f, TENSOR_F32, 4);
        put_number(f, at, 8);
        at += bytes;
    }
    put_padding(f);
}

enum tern_status control_vector_write(const struct control_vector *v, const char *path,
                                      struct tern_error *e)
{
    struct output_file out;
    uint64_t n = 0;
    enum tern_status status = output_file_open(&out, path, e);
    if (status)
        return status;
    for (uint64_t i = 0; i < v->n_places; i++)
        n += v->has[i];
    put_header(out.stream, v, n);
    for (uint64_t i = 0; i < v->n_places; i++) {
        for (size_t c = 0; v->has[i] && c < v->dim; c++) {
            uint32_t bits;
            memcpy(&bits, &v->values[i * v->dim + c], sizeof bits);
            put_number(out.stream, bits, 4);
        }
        put_padding(out.stream);
    }
    return output_file_close(&out, TERN_OK, e);
}
