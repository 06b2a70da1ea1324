/* Attention as a matrix, row by row: tern_attention of tern_lab.h. K and V lie in the layout of the
 * cache, so that the engine's own kernels read them; with `last` they are the cache's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/fpenv.h"
#include "base/sizes.h"
#include "engine/context.h"
#include "engine/meet.h"
#include "kernels/math.h"
#include "model/kv_store.h"
#include "tern_lab.h"

struct attention_layer {
    const struct layer *w; /* NULL: this layer is not kept */
    float *q;              /* [n_positions, n_heads * head_dim]; with `last`, only the last row */
    unsigned char *k, *v;  /* [n_kv_heads, n_blocks, attend_bytes]; NULL with `last` */
    size_t n_q, n_k, n_v;  /* positions that they hold */
};

struct tern_attention {
    const struct tern_context *ctx; /* borrowed */
    const struct kernels *kernels;
    enum tern_cache_type type;
    uint32_t seq, n_positions;
    size_t n_blocks, n_layers;
    size_t window; /* of every layer, beside its own; 0: none */
    bool bidirectional, sinks, last;
    uint32_t *ends; /* [n_positions] if bidirectional: the end of a position's batch */
    struct attention_layer *layers;   /* [n_layers] */
    struct attention_scratch scratch; /* of one head: q8, scale, sum and half; of one row: x to A */
    struct arena arena;               /* owns what the layers and the scratch point to */
};

/* ---- memory ---- */

static void layout(struct tern_attention *a)
{
    struct attention_scratch *s = &a->scratch;
    size_t dim = 1;
    if (a->bidirectional)
        a->ends = arena_take(&a->arena, a->n_positions, sizeof *a->ends);
    for (size_t l = 0; l < a->n_layers; l++) {
        struct attention_layer *t = &a->layers[l];
        if (!t->w)
            continue;
        size_t d = t->w->head_dim, bytes = attend_bytes(a->type, d);
        uint64_t rows = a->last ? 1 : a->n_positions, blocks = a->last ? 0 : a->n_blocks;
        t->q = arena_take(&a->arena, rows * t->w->n_heads, d * sizeof *t->q);
        t->k = arena_take(&a->arena, t->w->n_kv_heads * blocks, bytes);
        t->v = arena_take(&a->arena, t->w->n_kv_heads * blocks, bytes);
        dim = max_size(dim, round_up(d, GROUP));
    }
    s->q8 = arena_take(&a->arena, dim, sizeof *s->q8);
    s->half = arena_take(&a->arena, dim, sizeof *s->half);
    s->scale = arena_take(&a->arena, dim / GROUP, sizeof *s->scale);
    s->sum = arena_take(&a->arena, dim / GROUP, sizeof *s->sum);
    s->x = arena_take(&a->arena, BLOCK * dim, sizeof *s->x); /* V, widened */
    s->scores = arena_take(&a->arena, BLOCK, sizeof *s->scores);
    s->m = arena_take(&a->arena, a->n_blocks, sizeof *s->m);
    s->l = arena_take(&a->arena, a->n_blocks, sizeof *s->l);
}

/* Which layers are kept; false: no memory for the list of them */
static bool choose(struct tern_attention *a, const struct tern_context *c,
                   const struct tern_attention_params *p)
{
    const struct model *m = c->model->model;
    *a = (struct tern_attention){.ctx = c,
                                 .kernels = &c->model->kernels,
                                 .type = c->cache.type,
                                 .seq = p->seq,
                                 .n_positions = p->n_positions,
                                 .n_blocks = ceil_div(p->n_positions, BLOCK),
                                 .n_layers = m->n_layers,
                                 .window = p->window,
                                 .bidirectional = p->bidirectional,
                                 .sinks = p->sinks,
                                 .last = p->last};
    a->layers = calloc(a->n_layers, sizeof *a->layers);
    for (size_t l = 0; a->layers && l < a->n_layers; l++)
        if (!p->layers || p->layers[l])
            a->layers[l].w = &m->layers[l];
    return a->layers != NULL;
}

uint64_t tern_attention_bytes(const tern_context *c, const struct tern_attention_params *p)
{
    struct tern_attention a;
    if (!choose(&a, c, p))
        return UINT64_MAX;
    layout(&a);
    free(a.layers);
    return a.arena.bad ? UINT64_MAX : a.arena.used;
}

enum tern_status tern_attention_open(tern_attention **out, tern_context *c,
                                     const struct tern_attention_params *p, struct tern_error *e)
{
    enum tern_status s = meet_alone(c->model, "a look inside a model", e);
    struct tern_attention *a = *out = s ? NULL : malloc(sizeof *a);
    if (s)
        return s;
    if (!a || !choose(a, c, p)) {
        free(a);
        *out = NULL;
        return error_memory(e, "the rows of attention", sizeof *a);
    }
    layout(a);
    s = arena_open(&a->arena, "q, k and v of the chosen layers", e);
    if (s) {
        tern_attention_close(a);
        *out = NULL;
        return s;
    }
    layout(a);
    return TERN_OK;
}

void tern_attention_close(tern_attention *a)
{
    if (!a)
        return;
    arena_close(&a->arena);
    free(a->layers);
    free(a);
}

/* ---- what is kept ---- */

/* K or V of a query head in the block of `position` */
static unsigned char *block_of(const struct tern_attention *a, const struct attention_layer *t,
                               bool is_key, size_t kv_head, size_t position)
{
    if (a->last)
        return cache_k(&a->ctx->cache, t->w->index, a->seq, position, kv_head);
    size_t at = kv_head * a->n_blocks + position / BLOCK;
    return (is_key ? t->k : t->v) + at * attend_bytes(a->type, t->w->head_dim);
}

static void keep_row(struct tern_attention *a, struct attention_layer *t, char part,
                     size_t position, const float *x)
{
    size_t d = t->w->head_dim, n = t->w->n_heads * d;
    if (part == 'q')
        memcpy(t->q + (a->last ? 0 : position * n), x, n * sizeof *x);
    for (size_t h = 0; part != 'q' && h < t->w->n_kv_heads; h++)
        kv_write(a->kernels, block_of(a, t, part == 'k', h, position), a->type, part == 'k',
                 x + h * d, d, position % BLOCK, &a->scratch);
}

/* The position after the last one of this sequence in the batch */
static uint32_t end_of_batch(const struct tern_attention *a, const struct tern_observation *o)
{
    uint32_t end = 0;
    for (size_t i = 0; i < o->rows; i++)
        if (o->at[i].seq == a->seq)
            end = o->at[i].position + 1;
    return end;
}

static void feed_layer(struct tern_attention *a, struct attention_layer *t,
                       const struct tern_observation *o)
{
    const char *part = o->operation;
    size_t *n = *part == 'q' ? &t->n_q : *part == 'k' ? &t->n_k : &t->n_v;
    uint32_t end = a->bidirectional ? end_of_batch(a, o) : 0;
    for (size_t i = 0; i < o->rows; i++) {
        size_t position = o->at[i].position;
        if (o->at[i].seq != a->seq || position > *n || position >= a->n_positions)
            continue;
        if (a->bidirectional)
            a->ends[position] = end;
        keep_row(a, t, *part, position, o->values + i * o->stride);
        *n = position + 1;
    }
}

/* The last row of a layer, if it is in the batch */
static void feed_last(struct tern_attention *a, struct attention_layer *t,
                      const struct tern_observation *o)
{
    for (size_t i = 0; i < o->rows; i++)
        if (o->at[i].seq == a->seq && o->at[i].position + 1 == a->n_positions) {
            keep_row(a, t, 'q', o->at[i].position, o->values + i * o->stride);
            t->n_q = t->n_k = t->n_v = a->n_positions;
        }
}

/* Keys and values go to every layer that reads them. */
void tern_attention_feed(tern_attention *a, const struct tern_observation *o)
{
    const char *part = o->operation;
    if (part[1] || !strchr("qkv", part[0]))
        return;
    if (a->last) {
        if (*part == 'q' && o->layer < a->n_layers && a->layers[o->layer].w)
            feed_last(a, &a->layers[o->layer], o);
        return;
    }
    for (size_t l = 0; l < a->n_layers; l++) {
        const struct layer *w = a->layers[l].w;
        if (w && (l == o->layer || (*part != 'q' && w->kv_from == o->layer + 1)))
            feed_layer(a, &a->layers[l], o);
    }
}

static size_t length_of(const struct attention_layer *t)
{
    return min_size(t->n_q, min_size(t->n_k, t->n_v));
}

uint32_t tern_attention_length(const tern_attention *a)
{
    size_t n = a->n_positions;
    for (size_t l = 0; l < a->n_layers; l++)
        if (a->layers[l].w && a->layers[l].w->n_heads)
            n = min_size(n, length_of(&a->layers[l]));
    bool gone = a->last && cache_length(&a->ctx->cache, a->seq) != n;
    return gone ? 0 : (uint32_t)n;
}

/* ---- rows ---- */

/* The kept layer, or the reason why there is no such layer, head, row or part */
static enum tern_status find(const struct tern_attention *a, uint64_t layer, uint64_t head,
                             uint32_t row, uint32_t n_rows, bool is_weights,
                             const struct attention_layer **t, struct tern_error *e)
{
    if (layer >= a->n_layers)
        return error_set(e, TERN_USAGE, "layer %llu does not exist: the model has layers 0 to %zu",
                         (unsigned long long)layer, a->n_layers - 1);
    *t = &a->layers[layer];
    if (!(*t)->w)
        return error_set(e, TERN_USAGE, "layer %llu is not among those that are kept",
                         (unsigned long long)layer);
    if (!(*t)->w->n_heads)
        return error_set(e, TERN_USAGE, "layer %llu has no attention", (unsigned long long)layer);
    if (head >= (*t)->w->n_heads)
        return error_set(e, TERN_USAGE, "head %llu does not exist: layer %llu has heads 0 to %zu",
                         (unsigned long long)head, (unsigned long long)layer, (*t)->w->n_heads - 1);
    uint32_t n = tern_attention_length(a);
    if (row > n || n_rows > n - row)
        return error_set(e, TERN_USAGE, "rows %u to %llu do not exist: %u positions are kept", row,
                         (unsigned long long)row + n_rows - 1, n);
    if (a->last && (!is_weights || row + 1 != n || n_rows != 1))
        return error_set(e, TERN_USAGE, "only the weights of row %u are kept", n - 1);
    return TERN_OK;
}

/* Positions that a row may look at */
static struct span_of_row {
    size_t begin, end;
} sees(const struct tern_attention *a, const struct layer *w, size_t row, size_t n)
{
    size_t end = row + 1;
    size_t window = w->window && a->window ? min_size(w->window, a->window) : w->window + a->window;
    size_t begin = window && end > window ? end - window : 0;
    if (w->chunked)
        begin = max_size(layer_sees_from(w, row), a->window && end > a->window ? end - a->window : 0);
    if (a->bidirectional)
        end = min_size(w->chunked ? layer_sees_from(w, row) + w->window : window ? row + window : n,
                       min_size(a->ends[row], n));
    return (struct span_of_row){begin, end};
}

/* One row of a head, and what its steps share */
struct attention_row {
    const struct tern_attention *a;
    const struct attention_layer *t;
    size_t head, n; /* n: columns */
    struct queries q;
    struct alibi alibi;
};

static struct attend block_at(const struct attention_row *r, size_t at, const struct span *see)
{
    const struct layer *w = r->t->w;
    const struct attention_scratch *s = &r->a->scratch;
    size_t kv_head = r->head / (w->n_heads / w->n_kv_heads);
    return (struct attend){.q = r->q,
                           .k = block_of(r->a, r->t, true, kv_head, at),
                           .v_dim = w->head_dim,
                           .see = see,
                           .scale = w->attn_scale,
                           .softcap = w->attn_cap,
                           .alibi = w->alibi ? &r->alibi : NULL,
                           .first = at,
                           .m = s->m + at / BLOCK,
                           .l = s->l + at / BLOCK,
                           .scores = s->scores};
}

/* s_ij of all j */
static void raw_row(const struct attention_row *r, float *out)
{
    for (size_t at = 0; at < r->n; at += BLOCK) {
        struct span see = {0, (uint16_t)min_size(r->n - at, BLOCK)};
        struct attend b = block_at(r, at, &see);
        r->a->kernels->score[r->a->type](&b);
        memcpy(out + at, b.scores, see.hi * sizeof *out);
    }
}

static void scale_row(const struct attention_row *r, float *out)
{
    const struct layer *w = r->t->w;
    for (size_t j = 0; w->alibi && j < r->n; j++)
        out[j] +=
            alibi_bias(r->alibi.slope, (float)j) - alibi_bias(r->alibi.slope, r->alibi.position);
    r->a->kernels->scale(out, w->attn_scale, r->n);
    if (w->attn_cap > 0)
        r->a->kernels->softcap(out, w->attn_cap, r->n);
}

/* e_j / (sum of e, and of the sink's) over begin .. end - 1, and 0 elsewhere: the blocks' e, brought
 * to the largest score of all */
static void softmax_row(const struct attention_row *r, struct span_of_row see, float *out)
{
    const struct kernels *k = r->a->kernels;
    const struct attention_scratch *s = &r->a->scratch;
    const float *sinks = r->t->w->sinks;
    bool has_sink = sinks || r->a->sinks;
    size_t first = see.begin / BLOCK * BLOCK;
    float M = sinks ? sinks[r->head] : 0, L = 1, none[1] = {0};
    memset(out, 0, r->n * sizeof *out);
    for (size_t at = first; at < see.end; at += BLOCK) {
        struct span in = {(uint16_t)(max_size(see.begin, at) - at),
                          (uint16_t)(min_size(see.end, at + BLOCK) - at)};
        struct attend b = block_at(r, at, &in);
        k->score[r->a->type](&b);
        k->weigh(&b);
        memcpy(out + at + in.lo, b.scores + in.lo, (in.hi - in.lo) * sizeof *out);
        if (at == first && !has_sink)
            M = *b.m, L = *b.l;
        else
            k->merge(&M, &L, none, *b.m, *b.l, none, 0);
    }
    for (size_t at = first; at < see.end; at += BLOCK)
        for (size_t j = max_size(see.begin, at); j < min_size(see.end, at + BLOCK); j++)
            out[j] = out[j] * math_exp(s->m[at / BLOCK] - M) / L;
}

static void make_row(const struct attention_row *r, size_t row, enum tern_attention_stage stage,
                     float *out)
{
    struct span_of_row see = sees(r->a, r->t->w, row, r->n);
    if (stage == TERN_ATTENTION_UNMASKED)
        see = (struct span_of_row){0, r->n};
    if (stage == TERN_ATTENTION_UNMASKED || stage == TERN_ATTENTION_WEIGHTS) {
        softmax_row(r, see, out);
        return;
    }
    raw_row(r, out);
    if (stage != TERN_ATTENTION_RAW)
        scale_row(r, out);
    for (size_t j = 0; stage == TERN_ATTENTION_MASKED && j < r->n; j++)
        if (j < see.begin || j >= see.end)
            out[j] = -INFINITY;
}

enum tern_status tern_attention_rows(const tern_attention *a, uint64_t layer, uint64_t head,
                                     enum tern_attention_stage stage, uint32_t row, uint32_t n_rows,
                                     float *out, size_t stride, struct tern_error *e)
{
    const struct attention_layer *t;
    bool is_weights = stage == TERN_ATTENTION_WEIGHTS;
    enum tern_status s = find(a, layer, head, row, n_rows, is_weights, &t, e);
    if (s)
        return s;
    if (stage < 0 || stage >= TERN_N_ATTENTION_STAGES)
        return error_set(e, TERN_USAGE, "stage %d of attention does not exist", (int)stage);
    struct fpenv saved = fpenv_enter();
    const struct attention_scratch *work = &a->scratch;
    struct attention_row r = {.a = a, .t = t, .head = head, .n = tern_attention_length(a)};
    for (uint32_t i = row; i < row + n_rows; i++, out += stride) {
        size_t d = t->w->head_dim;
        const float *x = t->q + ((a->last ? 0 : i) * t->w->n_heads + head) * d;
        if (a->type == TERN_CACHE_Q8)
            a->kernels->quantize(work->q8, work->scale, work->sum, x, d);
        r.q = (struct queries){
            .n = 1, .k = d, .x = x, .q = work->q8, .scale = work->scale, .sum = work->sum};
        if (t->w->alibi)
            r.alibi = (struct alibi){t->w->alibi[head], (float)i};
        make_row(&r, i, stage, out);
    }
    fpenv_leave(saved);
    return TERN_OK;
}

/* ---- vectors ---- */

/* One key of a q8 block: groups of 32 dims with a scale for each of 16 positions */
static void read_key_q8(const unsigned char *k, size_t d, size_t p, float *out)
{
    const struct format *q8 = format_find(TERN_Q8);
    for (size_t c = 0; c < d; c++) {
        const unsigned char *grain =
            k + (p / LANES * ceil_div(d, GROUP) + c / GROUP) * q8->grain_bytes;
        uint16_t scale;
        memcpy(&scale, grain + GROUP * LANES + 2 * (p % LANES), sizeof scale);
        out[c] = (float)(int8_t)grain[c % GROUP / 4 * 4 * LANES + 4 * (p % LANES) + c % 4] *
                 f16_to_f32(scale);
    }
}

/* Keys or values of positions p0 .. p1 - 1 of a block, [p1 - p0, d] */
static void read_block(const struct tern_attention *a, const unsigned char *block, bool is_key,
                       size_t d, size_t p0, size_t p1, float *out)
{
    const float *wide = (const float *)(const void *)block;
    if (is_key && a->type == TERN_CACHE_Q8) {
        for (size_t p = p0; p < p1; p++, out += d)
            read_key_q8(block, d, p, out);
        return;
    }
    if (a->type != TERN_CACHE_F32) {
        a->kernels->widen[a->type](a->scratch.x, block, d, round_up(p1, LANES));
        wide = a->scratch.x;
    }
    for (size_t p = p0; p < p1; p++, out += d)
        for (size_t c = 0; c < d; c++) /* a tile of K has 16 positions side by side */
            out[c] = is_key ? wide[(p / LANES * d + c) * LANES + p % LANES] : wide[p * d + c];
}

enum tern_status tern_attention_vectors(const tern_attention *a, uint64_t layer, uint64_t head,
                                        enum tern_attention_part part, uint32_t row,
                                        uint32_t n_rows, float *out, struct tern_error *e)
{
    const struct attention_layer *t;
    enum tern_status s = find(a, layer, head, row, n_rows, false, &t, e);
    if (s)
        return s;
    size_t d = t->w->head_dim, kv_head = head / (t->w->n_heads / t->w->n_kv_heads);
    bool is_key = part == TERN_ATTENTION_K || t->w->latent.rank; /* its keys are the values */
    for (size_t at = row, end; at < (size_t)row + n_rows; at = end) {
        end = min_size((at / BLOCK + 1) * BLOCK, (size_t)row + n_rows);
        if (part == TERN_ATTENTION_Q)
            for (size_t i = at; i < end; i++)
                memcpy(out + (i - at) * d, t->q + (i * t->w->n_heads + head) * d, d * sizeof *out);
        else
            read_block(a, block_of(a, t, is_key, kv_head, at), is_key, d, at % BLOCK,
                       at % BLOCK + end - at, out);
        out += (end - at) * d;
    }
    return TERN_OK;
}
