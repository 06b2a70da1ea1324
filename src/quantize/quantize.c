/* Quantizes a weights file: see quantize.h. Tiles are the work items; a chunk of them is encoded by
 * all threads, then written by the caller. Sums of errors are kept per tile and added in the order
 * of the tiles, so that the report does not depend on the threads either. */
#include "quantize/quantize.h"

#include "base/arena.h"
#include "kernels/formats.h"
#include "quantize/encode.h"
#include "weights/checksums.h"
#include "weights/finite.h"
#include "weights/weights.h"
#include "weights/writer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum {
    CHUNK_BYTES = 8 << 20, /* encoded at a time, but at least one tile */
    CHUNK_TILES = 4096,
    POLISHES = 2 /* of a tile whose inputs are known; a third gains a tenth as much */
};

struct tile_error {
    double square, max; /* sum of squared differences, largest one */
    bool bad;           /* a value is not finite, or became so */
};

struct quantize_job {
    const struct weights *in;
    struct writer *out;
    const struct quantize_params *o;
    struct pool *pool;
    struct arena arena;
    float *lines;        /* [threads, n_lines, 16] columns of a tile: what is lost of them so far */
    struct codes *codes; /* [threads, n_lines / 32] of its groups */
    size_t n_lines;      /* the largest k, rounded up to 32 */
    const struct factor *factor; /* of the tensor in work; NULL: its inputs are not known */
    /* the chunk in work */
    const struct tensor *tensor;
    const struct format *from, *to;
    uint64_t first;            /* its first tile, counted through all matrices of the tensor */
    unsigned char *data;       /* [CHUNK_BYTES, or one tile of the largest] */
    struct tile_error *errors; /* [CHUNK_TILES] */
};

/* Whether a scale and codes for this type are searched for. */
static bool is_searched(enum tern_type type)
{
    return format_find(type)->store;
}

/* True when the item [n] of keep_q8 means tensor `name`. */
static bool item_names(const struct weights *w, const char *item, size_t n, const char *name)
{
    const char *dot = strrchr(name, '.'), *part = dot ? dot + 1 : name;
    if (n == 4 && !strncmp(item, "head", n) && !weights_find(w, "head"))
        return !strcmp(name, "embed");
    return (!strncmp(name, item, n) && (!name[n] || name[n] == '.')) ||
           (!strncmp(part, item, n) && !part[n]);
}

static bool is_kept(const struct quantize_job *j, const char *name)
{
    const char *item = j->o->keep_q8;
    while (item && *item) {
        size_t n = strcspn(item, ",");
        if (item_names(j->in, item, n, name))
            return true;
        item += n + (item[n] == ',');
    }
    return false;
}

/* The type that tensor t gets: matrices the asked one unless they are as small already, the rest
 * what it is. */
static enum tern_type type_of(const struct quantize_job *j, const struct tensor *t)
{
    static const char *const matrices[] = {"embed",     "q",           "k",         "v",
                                           "o",         "gate",        "up",        "down",
                                           "head",      "shared_gate", "shared_up", "shared_down",
                                           "attn_gate", "q_down",      "k_up",      "v_up",
                                           "mix_in",    "mix_gate",    "mix_out",   "mix_gate_down",
                                           "ple_embed", "ple_in",      "ple_gate",  "ple_out",
                                           "altup_in",  "altup_out",   "mtp_in",
                                           "laurel_left", "laurel_right"};
    const char *dot = strrchr(t->name, '.');
    const char *part = dot ? dot + 1 : t->name;
    enum tern_type asked = is_kept(j, t->name) ? TERN_Q8 : j->o->type;
    if (format_find(t->type)->bits <= format_find(asked)->bits)
        return t->type;
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        if (!strcmp(part, matrices[i]))
            return asked;
    return t->type;
}

/* Refuses an item of keep_q8 that means nothing. */
static enum tern_status check_kept(const struct quantize_job *j, struct tern_error *e)
{
    const char *item = j->o->keep_q8;
    if (item && j->o->type == TERN_Q8)
        return error_set(e, TERN_USAGE, "keep_q8 is of no use for q8: all matrices become q8");
    while (item && *item) {
        size_t n = strcspn(item, ","), i = 0;
        while (i < weights_count(j->in) &&
               !(n && item_names(j->in, item, n, weights_at(j->in, i)->name)))
            i++;
        if (i == weights_count(j->in))
            return error_set(e, TERN_USAGE, "%s: no tensor or part of a layer is named '%.*s'",
                             weights_path(j->in), (int)n, item);
        item += n + (item[n] == ',');
    }
    return TERN_OK;
}

/* ---- one tile ---- */

/* Sets what is padding in w [16, 32] to zero: rows from n_rows, columns from n. */
static void clear_padding(float *w, unsigned n_rows, unsigned n)
{
    for (unsigned r = 0; r < TILE_ROWS; r++)
        for (unsigned c = 0; c < GROUP; c++)
            if (r >= n_rows || c >= n)
                w[r * GROUP + c] = 0;
}

static void add_errors(struct tile_error *e, const float *want, const float *got)
{
    for (unsigned i = 0; i < TILE_ROWS * GROUP; i++) {
        double d = (double)want[i] - (double)got[i];
        d = d < 0 ? -d : d;
        e->square += d * d;
        e->max = d > e->max ? d : e->max;
        e->bad |= !(d <= FLT_MAX);
    }
}

/* to [32, 16] = w [16, 32] turned */
static void turn(float *to, const float *w)
{
    for (unsigned c = 0; c < GROUP; c++)
        for (unsigned r = 0; r < TILE_ROWS; r++)
            to[c * TILE_ROWS + r] = w[r * GROUP + c];
}

/* The part of the factor that group `group` of a tile needs; `fix` gets what the errors of the
 * columns before it, lines [16 a column], add to its weights. */
static void feel_errors(const struct quantize_job *j, struct group *g, const float *lines,
                        size_t group, float *fix)
{
    const struct factor *f = j->factor;
    size_t column = group * GROUP, first = column / f->band * f->band;
    const float *u = f->u + column * f->stride;
    struct activations x = {.n = GROUP, .k = column - first, .stride = f->stride, .x = u};
    g->u = u + (column - first);
    g->u_stride = f->stride;
    g->d = f->d + column;
    if (column == first)
        return;
    calibrate_kernels(j->o->calibration)
        ->matmul[TERN_F32](fix, TILE_ROWS, lines + first * TILE_ROWS, 0, 1, &x);
    g->fix = fix;
}

/* The codes of the values c->q go to group `group` of the tile at out. */
static void store_codes(const struct quantize_job *j, char *out, size_t group,
                        const struct codes *c)
{
    const int8_t *values = format_values(j->to, out);
    uint8_t codes[GROUP][TILE_ROWS];
    for (unsigned i = 0; i < GROUP; i++)
        for (unsigned r = 0; r < TILE_ROWS; r++)
            for (codes[i][r] = 0; codes[i][r] < CODES - 1 && values[codes[i][r]] < c->q[i][r];)
                codes[i][r]++;
    j->to->store(out, group, (const uint8_t(*)[TILE_ROWS])codes, c->scale);
}

/* Group `group` of a tile, whose columns are the last of `lines`, which become its errors. */
static void search_group(const struct quantize_job *j, size_t group, const struct values *values,
                         float *lines, struct codes *c)
{
    _Alignas(64) float fix[GROUP * TILE_ROWS];
    float *own = lines + group * GROUP * TILE_ROWS;
    struct group g = {.w = own, .values = values};
    if (j->factor)
        feel_errors(j, &g, lines, group, fix);
    encode_group(&g, c);
    for (unsigned i = 0; i < GROUP; i++)
        for (unsigned r = 0; r < TILE_ROWS; r++)
            own[i * TILE_ROWS + r] -= c->scale[r] * c->q[i][r];
}

/* Group `group` once more, now that the errors of all columns are in `lines`. */
static void descend_group(const struct quantize_job *j, size_t group, const struct values *values,
                          float *lines, struct codes *c)
{
    const struct factor *f = j->factor;
    size_t column = group * GROUP, first = column / f->band * f->band;
    size_t n = f->k - first < f->band ? f->k - first : f->band;
    const float *rows = f->h + column * f->stride;
    float(*e)[TILE_ROWS] = (float(*)[TILE_ROWS])(lines + column * TILE_ROWS), h[GROUP][GROUP];
    _Alignas(64) float he[GROUP][TILE_ROWS];
    struct activations x = {.n = GROUP, .k = n, .stride = f->stride, .x = rows};
    calibrate_kernels(j->o->calibration)
        ->matmul[TERN_F32](he[0], TILE_ROWS, lines + first * TILE_ROWS, 0, 1, &x);
    for (unsigned i = 0; i < GROUP; i++) {
        memcpy(h[i], rows + i * f->stride + column - first, sizeof h[i]);
        float damping = f->diagonal[column + i] - h[i][i];
        h[i][i] += damping;
        for (unsigned r = 0; r < TILE_ROWS; r++)
            he[i][r] += damping * e[i][r];
    }
    polish_group(c, values, (const float(*)[GROUP])h, e, he);
}

/* A tile whose head is there, from its columns in `lines`. */
static void encode_searched(const struct quantize_job *j, char *out, float *lines,
                            struct codes *codes)
{
    const int8_t *table = j->to->head_bytes ? format_values(j->to, out) : NULL;
    struct values own, *values = table ? &own : NULL;
    if (table)
        values_make(values, table);
    size_t n = (size_t)(j->tensor->k + GROUP - 1) / GROUP;
    for (size_t b = 0; b < n; b++)
        search_group(j, b, values, lines, &codes[b]);
    for (size_t b = 0; j->factor && b < POLISHES * n; b++)
        descend_group(j, b % n, values, lines, &codes[b % n]);
    for (size_t b = 0; b < n; b++)
        store_codes(j, out, b, &codes[b]);
}

/* w [16, 32] = group `group` of the source's tile, without its padding; how many columns that has
 */
static unsigned take_group(const struct quantize_job *j, const char *source, uint64_t group,
                           unsigned n_rows, float *w)
{
    uint64_t left = j->tensor->k - group * GROUP;
    unsigned n = left < GROUP ? (unsigned)left : GROUP;
    j->from->decode(w, source, group, n);
    clear_padding(w, n_rows, n);
    return n;
}

static struct tile_error encode_tile(const struct quantize_job *j, const char *source, char *out,
                                     unsigned n_rows, int thread)
{
    struct tile_error e = {0, 0, false};
    float w[TILE_ROWS * GROUP], back[TILE_ROWS * GROUP];
    float *lines = j->lines + (size_t)thread * j->n_lines * TILE_ROWS;
    uint64_t k = j->tensor->k;
    bool searched = is_searched(j->to->type);
    format_start_tile(j->to, out, NULL);
    for (uint64_t b = 0; searched && b * GROUP < k; b++) {
        take_group(j, source, b, n_rows, w);
        turn(lines + b * GROUP * TILE_ROWS, w);
    }
    if (searched)
        encode_searched(j, out, lines, j->codes + (size_t)thread * j->n_lines / GROUP);
    for (uint64_t b = 0; b * GROUP < k; b++) {
        unsigned n = take_group(j, source, b, n_rows, w);
        if (!searched)
            j->to->encode(out, b, w, n);
        j->to->decode(back, out, b, n);
        add_errors(&e, w, back);
    }
    return e;
}

/* Tiles first + begin .. first + end - 1 of the tensor. */
static void encode_tiles(void *arg, size_t begin, size_t end, int thread)
{
    const struct quantize_job *j = arg;
    const struct tensor *t = j->tensor;
    size_t bytes_in = format_tile_bytes(j->from, t->k), bytes_out = format_tile_bytes(j->to, t->k);
    uint64_t tiles = (t->rows + TILE_ROWS - 1) / TILE_ROWS; /* of a matrix */
    for (size_t i = begin; i < end && !pool_stopped(j->pool, thread); i++) {
        uint64_t left = t->rows - (j->first + i) % tiles * TILE_ROWS;
        j->errors[i] = encode_tile(j, (const char *)t->data + (j->first + i) * bytes_in,
                                   (char *)j->data + i * bytes_out,
                                   left < TILE_ROWS ? (unsigned)left : TILE_ROWS, thread);
    }
}

/* ---- one tensor ---- */

/* For checksums_verify_tensor */
static int ask(void *arg, uint64_t done, uint64_t total)
{
    const struct quantize_job *j = arg;
    (void)done, (void)total;
    return pool_stopped(j->pool, 0);
}

static size_t chunk_tiles(size_t tile_bytes)
{
    size_t n = CHUNK_BYTES / tile_bytes;
    return n < 1 ? 1 : n < CHUNK_TILES ? n : CHUNK_TILES;
}

static enum tern_status quantize_tensor(struct quantize_job *j, struct tern_quantize_report *r,
                                        struct tern_error *e)
{
    const struct tensor *t = j->tensor;
    size_t tile_bytes = format_tile_bytes(j->to, t->k), room = chunk_tiles(tile_bytes);
    uint64_t n_tiles = (t->rows + TILE_ROWS - 1) / TILE_ROWS * t->matrices;
    double square = 0;
    for (j->first = 0; j->first < n_tiles; j->first += room) {
        size_t n = n_tiles - j->first < room ? (size_t)(n_tiles - j->first) : room;
        pool_run(j->pool, n, encode_tiles, j);
        if (pool_stopped(j->pool, 0))
            return calibrate_stopped(e);
        for (size_t i = 0; i < n; i++) {
            square += j->errors[i].square;
            if (j->errors[i].bad)
                return error_set(e, TERN_LIMIT,
                                 "%s: tensor '%s' holds a value that is not finite, or too large "
                                 "for %s",
                                 weights_path(j->in), t->name, j->to->name);
            r->max_error = j->errors[i].max > r->max_error ? j->errors[i].max : r->max_error;
        }
        enum tern_status s = writer_data(j->out, j->data, n * tile_bytes, e);
        if (s)
            return s;
    }
    double n = (double)t->rows * (double)t->k * (double)t->matrices;
    r->rmse = (double)sqrtf((float)(square / n));
    return TERN_OK;
}

static enum tern_status copy_tensor(struct quantize_job *j, struct tern_error *e)
{
    enum tern_status s = finite_check(j->in, j->tensor, e);
    uint64_t bytes = j->tensor->bytes;
    for (uint64_t at = 0; !s && at < bytes; at += CHUNK_BYTES) {
        if (pool_stopped(j->pool, 0))
            return calibrate_stopped(e);
        uint64_t n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        s = writer_data(j->out, (const char *)j->tensor->data + at, (size_t)n, e);
    }
    return s;
}

/* ---- the whole file ---- */

static void layout(struct quantize_job *j, size_t bytes)
{
    j->data = arena_take(&j->arena, bytes, 1);
    j->errors = arena_take(&j->arena, CHUNK_TILES, sizeof *j->errors);
    j->lines = arena_take(&j->arena, (uint64_t)pool_threads(j->pool) * j->n_lines,
                          TILE_ROWS * sizeof *j->lines);
    j->codes = arena_take(&j->arena, (uint64_t)pool_threads(j->pool) * (j->n_lines / GROUP),
                          sizeof *j->codes);
}

static enum tern_status allocate(struct quantize_job *j, struct tern_error *e)
{
    size_t bytes = CHUNK_BYTES;
    for (size_t i = 0; i < weights_count(j->in); i++) {
        const struct tensor *t = weights_at(j->in, i);
        enum tern_type type = type_of(j, t);
        size_t tile = format_tile_bytes(format_find(type), t->k);
        bytes = tile > bytes ? tile : bytes;
        if (is_searched(type) && t->k > j->n_lines)
            j->n_lines = (size_t)(t->k + GROUP - 1) / GROUP * GROUP;
    }
    layout(j, bytes);
    enum tern_status s = arena_open(&j->arena, "encoded tiles", e);
    if (!s)
        layout(j, bytes);
    return s;
}

/* Sections and shapes of the new file; the total of source bytes. */
static enum tern_status declare(struct quantize_job *j, uint64_t *total, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    bool changes = false;
    for (size_t i = 0; !s && i < weights_n_sections(j->in); i++) {
        const struct section *c = weights_section_at(j->in, i);
        if (strcmp(c->tag, "tensors") && strcmp(c->tag, "seal"))
            s = writer_section(j->out, c->tag, c->critical, c->data, c->bytes, e);
    }
    if (!s)
        s = writer_empty_seal(j->out, e);
    for (size_t i = 0; !s && i < weights_count(j->in); i++) {
        const struct tensor *t = weights_at(j->in, i);
        enum tern_type type = type_of(j, t);
        changes |= type != t->type;
        *total += t->bytes;
        s = writer_tensor(j->out, t->name, type, t->rows, t->k, t->matrices, e);
    }
    if (!s && !changes)
        return error_set(e, TERN_USAGE, "%s: no matrix of it has more bits than %s leaves it",
                         weights_path(j->in), format_find(j->o->type)->name);
    return s;
}

static enum tern_status convert(struct quantize_job *j,
                                int (*report)(void *arg, const struct tern_quantize_report *r),
                                void *arg, struct tern_error *e)
{
    uint64_t done = 0, total = 0;
    enum tern_status s = declare(j, &total, e);
    for (size_t i = 0; !s && i < weights_count(j->in); i++) {
        const struct tensor *t = j->tensor = weights_at(j->in, i);
        struct tern_quantize_report r = {.name = t->name, .from = t->type, .bytes_in = t->bytes};
        r.to = type_of(j, t);
        j->from = format_find(r.from);
        j->to = format_find(r.to);
        j->factor = NULL;
        s = checksums_verify_tensor(j->in, t, ask, j, e); /* or damage would get a valid checksum */
        if (!s && j->o->calibration && is_searched(r.to) && r.to != r.from)
            s = calibrate_find(j->o->calibration, t->name, &j->factor, e);
        if (!s)
            s = r.to == r.from ? copy_tensor(j, e) : quantize_tensor(j, &r, e);
        format_size(j->to, t->rows, t->k, t->matrices, &r.bytes_out);
        r.weights = t->rows * t->k * t->matrices;
        r.done = done += t->bytes;
        r.total = total;
        if (!s && report && report(arg, &r))
            s = calibrate_stopped(e);
    }
    return s ? s : writer_finish(j->out, e);
}

enum tern_status quantize_file(const char *in, const char *out, const struct quantize_params *o,
                               struct pool *pool,
                               int (*report)(void *arg, const struct tern_quantize_report *r),
                               void *arg, struct tern_error *e)
{
    struct weights *w;
    if (!format_find(o->type) || !type_is_quantized(o->type))
        return error_set(e, TERN_USAGE, "matrices cannot be quantized to %s; the types are %s",
                         format_find(o->type) ? format_find(o->type)->name : "an unknown type",
                         format_quantized_names());
    enum tern_status s = weights_open(&w, in, e);
    if (s)
        return s;
    struct quantize_job j = {.in = w, .o = o, .pool = pool};
    s = check_kept(&j, e);
    if (!s)
        s = allocate(&j, e);
    if (!s)
        s = writer_open(&j.out, out, e);
    if (!s)
        s = convert(&j, report, arg, e);
    writer_close(j.out);
    arena_close(&j.arena);
    weights_close(w);
    return s;
}
