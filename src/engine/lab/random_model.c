/* tern_random_model: a weights file of any shape with random weights, so that a machine can be
 * measured without a download. In: a shape, a type, a seed. Out: a file like any other, the same
 * bytes for any number of threads. The tiles of a matrix are put together from a table of
 * GROUPS random groups, because encoding every weight would take longer than writing it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "base/thread_count.h"
#include "engine/lab/random_config.h"
#include "kernels/formats.h"
#include "model/model.h"
#include "weights/keys.h"
#include "weights/writer.h"

enum {
    GROUPS = 256,           /* of 16 rows and 32 k */
    CHUNK_BYTES = 32 << 20, /* written at a time (writer.h), but at least one tile */
    BLOCK_VALUES = TILE_ROWS * GROUP,
};

struct part { /* one tensor */
    char name[64];
    const struct format *format;
    uint64_t rows, k, matrices;
    bool is_vector;
};

/* What a shape asks for */
struct plan {
    const struct format *format; /* of all matrices that may have it */
    struct keywriter config;
    struct part *parts; /* [n], room for `room` */
    size_t n, room;
    bool failed;
};

struct random_job {
    struct plan plan;
    struct writer *out;
    struct pool *pool;
    uint64_t seed;
    /* the tensor in work */
    struct part part;
    const struct format *format; /* of it */
    uint64_t index, first; /* its number; its tile with which the chunk begins */
    size_t tile_bytes, group_bytes;
    unsigned char *groups; /* a head, then [GROUPS, group_bytes] */
    unsigned char *data;   /* the chunk */
};

/* ---- shapes ------------------------------------------------------------------------------- */

static enum tern_status check_shape(const struct tern_shape *s, struct tern_error *e)
{
    const struct {
        const char *name;
        uint64_t value, max;
    } sizes[] = {{"dim", s->dim, 1 << 20},          {"hidden", s->hidden, 1 << 20},
                 {"layers", s->n_layers, 1024},     {"heads", s->n_heads, 4096},
                 {"kv_heads", s->n_kv_heads, 4096}, {"head_dim", s->head_dim, 1024},
                 {"vocab", s->vocab, 1 << 24},      {"max_seq", s->max_seq, 1 << 24}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].max)
            return error_set(e, TERN_USAGE, "shape: %s is %llu, want 1 to %llu", sizes[i].name,
                             (unsigned long long)sizes[i].value, (unsigned long long)sizes[i].max);
    if (s->n_heads % s->n_kv_heads)
        return error_set(e, TERN_USAGE, "shape: %llu kv_heads do not divide %llu heads",
                         (unsigned long long)s->n_kv_heads, (unsigned long long)s->n_heads);
    if (s->window > 1 << 24)
        return error_set(e, TERN_USAGE, "shape: window is %llu, want at most %d",
                         (unsigned long long)s->window, 1 << 24);
    if (s->head_dim % 2)
        return error_set(e, TERN_USAGE, "shape: head_dim is %llu, want an even number",
                         (unsigned long long)s->head_dim);
    return TERN_OK;
}

static void add_part(void *arg, const struct tensor_want *want)
{
    struct plan *p = arg;
    if (p->n == p->room) {
        size_t room = 2 * p->room + 64;
        struct part *grown = realloc(p->parts, room * sizeof *grown);
        if (!grown) {
            p->failed = true;
            return;
        }
        p->parts = grown, p->room = room;
    }
    bool any = want->types & 1u << p->format->type;
    struct part *to = &p->parts[p->n++];
    *to = (struct part){.format = any ? p->format : format_find(TERN_F32),
                        .rows = want->rows,
                        .k = want->k,
                        .matrices = want->matrices,
                        .is_vector = want->types == 1u << TERN_F32 && want->k == 1};
    snprintf(to->name, sizeof to->name, "%s", want->name);
}

static void plan_close(struct plan *p)
{
    keywriter_close(&p->config);
    free(p->parts);
}

/* The config, and the tensors that a model of it has */
static enum tern_status plan_open(struct plan *p, const struct tern_shape *shape,
                                  enum tern_type type, struct tern_error *e)
{
    struct keys keys = {0};
    *p = (struct plan){.format = format_find((uint64_t)type)};
    enum tern_status s = check_shape(shape, e);
    if (!s && !p->format)
        s = error_set(e, TERN_USAGE, "weight type %d is unknown", (int)type);
    if (!s)
        s = random_config(&p->config, shape, e);
    if (s)
        return s;
    if ((s = keys_parse(&keys, "config", p->config.data, p->config.bytes, e)) ||
        (s = model_wants(&keys, add_part, p, e)))
        s = s == TERN_BAD_FILE ? error_in(e, TERN_USAGE, "shape") : s;
    keys_close(&keys);
    return !s && p->failed ? error_memory(e, "the tensors", p->room * sizeof *p->parts) : s;
}

enum tern_status tern_shape_bytes(const struct tern_shape *shape, enum tern_type type,
                                  uint64_t *bytes, struct tern_error *e)
{
    struct plan plan;
    enum tern_status s = plan_open(&plan, shape, type, e);
    *bytes = 1 << 16; /* header and gaps, more or less */
    for (size_t i = 0; !s && i < plan.n; i++) {
        const struct part *p = &plan.parts[i];
        uint64_t n;
        if (!format_size(p->format, p->rows, p->k, p->matrices, &n) ||
            !size_add(*bytes, n + 64, bytes))
            s = error_set(e, TERN_USAGE, "shape: the file would be too large");
    }
    plan_close(&plan);
    return s;
}

/* ---- random tiles ------------------------------------------------------------------------- */

/* One step of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Values of magnitude a/8 .. a, where a = 1.62 / sqrt(k): a dot with k of them keeps the size of
 * its input, and none is subnormal in any format. n_rows and n: what is not padding. */
static void make_group(const struct random_job *j, uint64_t *state, float *w, unsigned n_rows,
                       unsigned n)
{
    float a = 1.62f / sqrtf((float)j->part.k);
    for (unsigned i = 0; i < BLOCK_VALUES; i++) {
        uint64_t bits = next_random(state);
        float size = a * (0.125f + 0.875f * (float)(bits >> 40) * 0x1p-24f);
        bool inside = i / GROUP < n_rows && i % GROUP < n;
        w[i] = !inside ? 0 : bits & 1 ? size : -size;
    }
}

static size_t group_bytes(const struct format *f)
{
    return (size_t)GROUP / f->grain * f->grain_bytes;
}

static void make_table(struct random_job *j)
{
    float w[BLOCK_VALUES];
    uint64_t state = j->seed ^ j->index << 32;
    format_start_tile(j->format, j->groups, NULL);
    for (unsigned b = 0; b < GROUPS; b++) {
        make_group(j, &state, w, TILE_ROWS, GROUP);
        j->format->encode(j->groups, b, w, GROUP);
    }
}

static void fill_tile(const struct random_job *j, uint64_t tile, unsigned char *at)
{
    uint64_t n_groups = (j->part.k + GROUP - 1) / GROUP;
    uint64_t in_matrix = tile % ((j->part.rows + TILE_ROWS - 1) / TILE_ROWS);
    uint64_t left = j->part.rows - in_matrix * TILE_ROWS;
    uint64_t state = (j->seed ^ j->index << 32) + (tile + 1) * 0xd1342543de82ef95u;
    size_t head = j->format->head_bytes;
    memcpy(at, j->groups, head);
    for (uint64_t b = 0; b < n_groups; b++) {
        uint64_t n = j->part.k - b * GROUP;
        if (left >= TILE_ROWS && n >= GROUP) {
            memcpy(at + head + b * j->group_bytes,
                   j->groups + head + next_random(&state) % GROUPS * j->group_bytes,
                   j->group_bytes);
        } else { /* padding: a group of its own */
            float w[BLOCK_VALUES];
            n = n < GROUP ? n : GROUP;
            make_group(j, &state, w, left < TILE_ROWS ? (unsigned)left : TILE_ROWS, (unsigned)n);
            j->format->encode(at, b, w, (unsigned)n);
        }
    }
}

/* Tiles first + begin .. first + end - 1 */
static void fill_tiles(void *arg, size_t begin, size_t end, int thread)
{
    struct random_job *j = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        fill_tile(j, j->first + i, j->data + i * j->tile_bytes);
}

static enum tern_status write_matrix(struct random_job *j, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    uint64_t n_tiles = (j->part.rows + TILE_ROWS - 1) / TILE_ROWS * j->part.matrices;
    j->tile_bytes = format_tile_bytes(j->format, j->part.k);
    j->group_bytes = group_bytes(j->format);
    size_t room = CHUNK_BYTES / j->tile_bytes > 1 ? CHUNK_BYTES / j->tile_bytes : 1;
    make_table(j);
    for (j->first = 0; !s && j->first < n_tiles; j->first += room) {
        size_t n = n_tiles - j->first < room ? (size_t)(n_tiles - j->first) : room;
        pool_run(j->pool, n, fill_tiles, j);
        s = writer_data(j->out, j->data, n * j->tile_bytes, e);
    }
    return s;
}

/* Norms, biases, decays: all values are 1, padded with zeros. */
static enum tern_status write_vector(struct random_job *j, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    for (uint64_t i = 0; !s && i < j->part.rows; i += TILE_ROWS) {
        float ones[TILE_ROWS] = {0};
        for (uint64_t r = i; r < i + TILE_ROWS && r < j->part.rows; r++)
            ones[r - i] = 1;
        s = writer_data(j->out, ones, sizeof ones, e);
    }
    return s;
}

/* ---- the file ----------------------------------------------------------------------------- */

static enum tern_status write_all(struct random_job *j, struct tern_error *e)
{
    const struct plan *plan = &j->plan;
    enum tern_status s =
        writer_section(j->out, "config", true, plan->config.data, plan->config.bytes, e);
    if (!s)
        s = writer_empty_seal(j->out, e);
    for (size_t i = 0; !s && i < plan->n; i++) {
        const struct part *p = &plan->parts[i];
        s = writer_tensor(j->out, p->name, p->format->type, p->rows, p->k, p->matrices, e);
    }
    for (j->index = 0; !s && j->index < plan->n; j->index++) {
        j->part = plan->parts[j->index];
        j->format = j->part.format;
        s = j->part.is_vector ? write_vector(j, e) : write_matrix(j, e);
    }
    return s ? s : writer_finish(j->out, e);
}

static enum tern_status allocate(struct random_job *j, struct tern_error *e)
{
    size_t bytes = CHUNK_BYTES, groups = 0;
    for (size_t i = 0; i < j->plan.n; i++) {
        const struct part *p = &j->plan.parts[i];
        bytes = max_size(bytes, format_tile_bytes(p->format, p->k));
        groups = max_size(groups, p->format->head_bytes + GROUPS * group_bytes(p->format));
    }
    j->groups = malloc(groups);
    j->data = malloc(bytes);
    return j->groups && j->data ? TERN_OK : error_memory(e, "random tiles", bytes);
}

enum tern_status tern_random_model(const char *path, const struct tern_shape *shape,
                                   enum tern_type type, uint64_t seed, int n_threads,
                                   struct tern_error *e)
{
    struct random_job j = {.seed = seed};
    struct fpenv saved = fpenv_enter();
    uint64_t bytes;
    enum tern_status s = path ? tern_shape_bytes(shape, type, &bytes, e) : error_no_path(e);
    if (!s)
        s = plan_open(&j.plan, shape, type, e);
    if (!s)
        s = pool_open(&j.pool, n_threads ? n_threads : thread_count_best(NULL, 0), e);
    if (!s)
        s = allocate(&j, e);
    if (!s)
        s = writer_open(&j.out, path, e);
    if (!s)
        s = write_all(&j, e);
    writer_close(j.out);
    pool_close(j.pool);
    plan_close(&j.plan);
    free(j.groups);
    free(j.data);
    fpenv_leave(saved);
    return s;
}
