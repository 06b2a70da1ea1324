/* The steps of the forward pass: see steps.h. Each splits its output over the threads of the pool
 * (whole heads, tiles of 16 rows, groups of 32) and calls the kernels of the matrix's format. Work
 * is never split inside an output element, so threads cannot change a bit.
 * ADDING A FEATURE of a layer: its line in the step where its place in the equations is. */
#include "model/steps.h"

#include <float.h>
#include <string.h>

struct job { /* what the pool's items of one step share */
    struct forward *f;
    const struct layer *w;
    const struct input *in;
    const struct activations *act;
};

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static void mark_bad(struct forward *f, size_t l, enum bad_step step)
{
    int none = 0;
    atomic_compare_exchange_strong(&f->bad, &none, 1 + 4 * (int)l + (int)step);
}

static size_t layer_index(const struct forward *f, const struct layer *w)
{
    return (size_t)(w - f->model->layers);
}

/* x [n] as the quantized columns c .. c + n - 1 of row `at`; c is a multiple of 32. Quantizing
 * hides what is not finite, so it is looked for here. */
static void quantize_row(struct forward *f, size_t l, const struct lines *to, size_t at, size_t c,
                         const float *x, size_t n)
{
    size_t group = at * to->group_stride + c / GROUP;
    if (!f->kernels->in_range(x, n, FLT_MAX))
        mark_bad(f, l, l < f->model->n_layers ? BAD_INPUT : BAD_LOGIT);
    f->kernels->quantize(to->q + at * to->stride + c, to->scale + group, to->sum + group, x, n);
}

/* ---- input of a matrix: normed, and quantized where the matrix's format wants it ----------- */

struct input {
    const float *src; /* [n, stride] */
    size_t stride, n, k;
    const float *norm; /* [k], or NULL */
    bool quantize;     /* a matrix reads q, scale and sum */
    size_t layer;      /* n_layers: the head */
};

static void input_row(struct forward *f, const struct input *in, size_t row, const struct lines *to,
                      size_t at)
{
    const float *x = in->src + row * in->stride;
    if (in->norm) {
        float *y = to->x + at * to->stride;
        f->kernels->rmsnorm(y, x, in->norm, in->k, f->model->norm_eps);
        x = y;
    }
    if (in->quantize)
        quantize_row(f, in->layer, to, at, 0, x, in->k);
}

static struct activations lines_view(const struct lines *from, size_t n, size_t k)
{
    return (struct activations){n,       k,       from->stride, from->group_stride,
                                from->x, from->q, from->scale,  from->sum};
}

static void input_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    (void)thread;
    for (size_t row = begin; row < end; row++)
        input_row(job->f, job->in, row, &job->f->in, row);
}

static bool input_is_plain(const struct input *in)
{
    return !in->norm && !in->quantize;
}

/* Prepares the rows of a batch, each by one thread. A single row waits for input_view. */
static void input_prepare(struct forward *f, const struct input *in)
{
    if (in->n > 1 && !input_is_plain(in))
        pool_run(f->pool, in->n, input_items, &(struct job){.f = f, .in = in});
}

/* The prepared rows; a single row is prepared here, by every thread for itself. */
static struct activations input_view(struct forward *f, const struct input *in, int thread)
{
    const struct lines *lines = &f->in;
    if (input_is_plain(in))
        return (struct activations){.n = in->n, .k = in->k, .stride = in->stride, .x = in->src};
    if (in->n == 1) {
        lines = &f->scratch[thread].in;
        input_row(f, in, 0, lines, 0);
    }
    return lines_view(lines, in->n, in->k);
}

/* ---- pieces ------------------------------------------------------------------------------- */

/* y[i, r] = sum_c w[r, c] x[i, c] + bias[r]   for the rows r of tiles tile0 <= t < tile1 */
static void linear(const struct forward *f, float *y, size_t y_stride, const struct matrix *w,
                   size_t tile0, size_t tile1, const struct activations *x)
{
    size_t r0 = tile0 * TILE_ROWS, r1 = min_size(tile1 * TILE_ROWS, w->rows);
    f->kernels->matmul[w->type](y, y_stride, w->data, tile0, tile1, x);
    for (size_t i = 0; w->bias && i < x->n; i++)
        f->kernels->add(y + i * y_stride + r0, w->bias + r0, r1 - r0);
}

/* ---- embedding and positions -------------------------------------------------------------- */

static void embed_items(void *arg, size_t begin, size_t end, int thread)
{
    struct forward *f = ((const struct job *)arg)->f;
    const struct model *m = f->model;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        f->kernels->get_row[m->embed.type](f->x + i * f->dim_stride, m->embed.data, m->dim,
                                           (size_t)f->rows[i].token);
        for (size_t r = 0; r < m->n_ropes; r++) {
            size_t at = (r * f->n_batch + i) * f->rope_stride;
            f->kernels->rope_angles(f->rope_cos + at, f->rope_sin + at, m->ropes[r].inv_freq,
                                    m->ropes[r].half, f->rows[i].position, m->ropes[r].factor);
        }
    }
}

void step_embed(struct forward *f)
{
    pool_run(f->pool, f->n, embed_items, &(struct job){.f = f});
}

/* ---- q, k, v: by whole heads, or as many as end on a tile ---------------------------------- */

static size_t unit_heads(size_t head_dim)
{
    size_t heads = 1;
    while (heads * head_dim % TILE_ROWS)
        heads++;
    return heads;
}

static void rope_heads(const struct forward *f, const struct rope_set *rope, float *x, size_t i,
                       size_t n_heads, size_t head_dim)
{
    size_t at = ((size_t)(rope - f->model->ropes) * f->n_batch + i) * f->rope_stride;
    for (size_t h = 0; h < n_heads; h++)
        f->kernels->rope(x + h * head_dim, f->rope_cos + at, f->rope_sin + at, rope->half);
}

/* One key [head_dim] into its lane of a K tile: k[tile][d][lane]. */
static void store_key(void *k, enum tern_cache_type type, const void *key, size_t head_dim,
                      size_t position)
{
    size_t p = position % BLOCK, at = p / LANES * head_dim * LANES + p % LANES;
    for (size_t d = 0; d < head_dim; d++, at += LANES)
        if (type == TERN_CACHE_F32)
            ((float *)k)[at] = ((const float *)key)[d];
        else
            ((uint16_t *)k)[at] = ((const uint16_t *)key)[d];
}

/* One head's key or value x [head_dim] of row i, rounded to the cache's type. */
static void store_head(struct forward *f, size_t l, const struct row *row, size_t head, bool is_key,
                       const float *x, size_t head_dim, struct scratch *s)
{
    enum tern_cache_type type = f->cache->type;
    size_t p = row->position, bytes = cache_value_bytes(type);
    const void *rounded = x;
    if (!f->kernels->in_range(x, head_dim, type == TERN_CACHE_F32 ? FLT_MAX : 65504.0f))
        mark_bad(f, l, is_key ? BAD_KEY : BAD_VALUE);
    if (type == TERN_CACHE_F16) {
        f->kernels->to_f16(s->half, x, head_dim);
        rounded = s->half;
    }
    if (is_key)
        store_key(cache_k(f->cache, l, row->seq, p, head), type, rounded, head_dim, p);
    else
        memcpy((char *)cache_v(f->cache, l, row->seq, p, head) + p % BLOCK * head_dim * bytes,
               rounded, head_dim * bytes);
}

/* Heads h0 .. h1 - 1 of one of the three matrices, all rows of the batch. */
static void project_heads(const struct job *job, const struct matrix *m, size_t h0, size_t h1,
                          const struct activations *act, struct scratch *s)
{
    struct forward *f = job->f;
    const struct layer *w = job->w;
    size_t d = w->head_dim, l = layer_index(f, w);
    bool is_q = m == &w->q, is_key = m == &w->k;
    float *y = is_q ? f->q : is_key ? f->k : f->v;
    size_t stride = is_q ? f->q_stride : f->kv_stride;
    linear(f, y, stride, m, h0 * d / TILE_ROWS, ceil_div(h1 * d, TILE_ROWS), act);
    for (size_t i = 0; i < f->n; i++) {
        float *head = y + i * stride + h0 * d;
        if (w->rope && (is_q || is_key))
            rope_heads(f, w->rope, head, i, h1 - h0, d);
        for (size_t h = h0; !is_q && h < h1; h++)
            store_head(f, l, &f->rows[i], h, is_key, head + (h - h0) * d, d, s);
    }
}

static void qkv_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    const struct layer *w = job->w;
    struct activations act = input_view(job->f, job->in, thread);
    size_t unit = unit_heads(w->head_dim);
    size_t n_q = ceil_div(w->n_heads, unit), n_kv = ceil_div(w->n_kv_heads, unit);
    for (size_t i = begin; i < end; i++) {
        bool is_q = i < n_q;
        const struct matrix *m = is_q ? &w->q : i < n_q + n_kv ? &w->k : &w->v;
        size_t heads = is_q ? w->n_heads : w->n_kv_heads;
        size_t h0 = (is_q ? i : (i - n_q) % n_kv) * unit;
        project_heads(job, m, h0, min_size(h0 + unit, heads), &act, &job->f->scratch[thread]);
    }
}

void step_project_qkv(struct forward *f, const struct layer *w)
{
    struct input in = {.src = f->x,
                       .stride = f->dim_stride,
                       .n = f->n,
                       .k = f->model->dim,
                       .norm = w->attn_norm,
                       .layer = layer_index(f, w),
                       .quantize = type_is_quantized(w->q.type) || type_is_quantized(w->k.type) ||
                                   type_is_quantized(w->v.type)};
    size_t unit = unit_heads(w->head_dim);
    input_prepare(f, &in);
    pool_run(f->pool, ceil_div(w->n_heads, unit) + 2 * ceil_div(w->n_kv_heads, unit), qkv_items,
             &(struct job){.f = f, .w = w, .in = &in});
}

/* ---- attention: a row and a KV head with all its query heads, block by block ---------------- */

static void merge_block(const struct forward *f, struct scratch *s, size_t group, size_t head_dim,
                        bool first)
{
    for (size_t g = 0; g < group; g++) {
        float *A = s->A + g * f->head_stride, *a = s->a + g * f->head_stride;
        if (first) {
            s->M[g] = s->m[g], s->L[g] = s->l[g];
            memcpy(A, a, head_dim * sizeof *A);
        } else {
            f->kernels->merge(&s->M[g], &s->L[g], A, s->m[g], s->l[g], a, head_dim);
        }
    }
}

static void attend_group(struct forward *f, const struct layer *w, size_t i, size_t kv_head,
                         struct scratch *s)
{
    const struct row *row = &f->rows[i];
    size_t group = w->n_heads / w->n_kv_heads, d = w->head_dim, l = layer_index(f, w);
    size_t end = (size_t)row->position + 1;
    size_t begin = w->window && end > w->window ? end - w->window : 0;
    struct attend b = {.n_q = group,
                       .k_dim = d,
                       .v_dim = d,
                       .q_stride = d,
                       .scale = w->attn_scale,
                       .q = f->q + i * f->q_stride + kv_head * group * d,
                       .m = s->m,
                       .l = s->l,
                       .a = s->a,
                       .a_stride = f->head_stride,
                       .scores = s->scores};
    for (size_t p = begin; p < end; p = (p / BLOCK + 1) * BLOCK) {
        size_t block = p / BLOCK * BLOCK;
        b.k = cache_k(f->cache, l, row->seq, p, kv_head);
        b.v = cache_v(f->cache, l, row->seq, p, kv_head);
        b.lo = p - block, b.hi = min_size(end - block, BLOCK);
        f->kernels->attend[f->cache->type](&b);
        merge_block(f, s, group, d, p == begin);
    }
    for (size_t g = 0; g < group; g++)
        f->kernels->divide(f->att + i * f->q_stride + (kv_head * group + g) * d,
                           s->A + g * f->head_stride, s->L[g], d);
}

static void attend_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    for (size_t i = begin; i < end; i++)
        attend_group(job->f, job->w, i / job->w->n_kv_heads, i % job->w->n_kv_heads,
                     &job->f->scratch[thread]);
}

void step_attend(struct forward *f, const struct layer *w)
{
    pool_run_dynamic(f->pool, f->n * w->n_kv_heads, attend_items, &(struct job){.f = f, .w = w});
}

/* ---- projections that add to the residual stream, by tiles --------------------------------- */

/* x[:, tiles] += act W (+ bias) */
static void add_tiles(struct forward *f, const struct matrix *w, size_t tile0, size_t tile1,
                      const struct activations *act)
{
    size_t r0 = tile0 * TILE_ROWS, r1 = min_size(tile1 * TILE_ROWS, w->rows);
    linear(f, f->y, f->dim_stride, w, tile0, tile1, act);
    for (size_t i = 0; i < act->n; i++)
        f->kernels->add(f->x + i * f->dim_stride + r0, f->y + i * f->dim_stride + r0, r1 - r0);
}

static void out_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    add_tiles(job->f, &job->w->o, begin, end, &act);
}

void step_project_out(struct forward *f, const struct layer *w)
{
    struct input in = {.src = f->att,
                       .stride = f->q_stride,
                       .n = f->n,
                       .k = w->o.k,
                       .layer = layer_index(f, w),
                       .quantize = type_is_quantized(w->o.type)};
    input_prepare(f, &in);
    pool_run(f->pool, ceil_div(w->o.rows, TILE_ROWS), out_items,
             &(struct job){.f = f, .w = w, .in = &in});
}

static void down_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    (void)thread;
    add_tiles(job->f, &job->w->down, begin, end, job->act);
}

void step_project_down(struct forward *f, const struct layer *w)
{
    struct activations act = lines_view(&f->ffn, f->n, w->hidden);
    pool_run(f->pool, ceil_div(w->down.rows, TILE_ROWS), down_items,
             &(struct job){.f = f, .w = w, .act = &act});
}

/* ---- gated feed-forward: 32 rows of gate and up together, one group of the down projection -- */

/* Rows r0 .. r0 + n - 1 as a matrix of their own; r0 is a multiple of 16. */
static struct matrix matrix_rows(const struct matrix *w, size_t r0, size_t n)
{
    size_t tile_bytes = format_tile_bytes(format_find(w->type), w->k);
    return (struct matrix){(const char *)w->data + r0 / TILE_ROWS * tile_bytes, w->type, n, w->k,
                           w->bias ? w->bias + r0 : NULL};
}

static void gate_up_group(struct forward *f, const struct layer *w, size_t group,
                          const struct activations *act, struct scratch *s)
{
    struct lines *to = &f->ffn;
    size_t c = group * GROUP, n = min_size(GROUP, w->hidden - c);
    struct matrix gate = matrix_rows(&w->gate, c, n), up = matrix_rows(&w->up, c, n);
    linear(f, s->gate, GROUP, &gate, 0, ceil_div(n, TILE_ROWS), act);
    linear(f, s->up, GROUP, &up, 0, ceil_div(n, TILE_ROWS), act);
    for (size_t i = 0; i < f->n; i++) {
        float *y = to->x + i * to->stride + c;
        f->kernels->swiglu(y, s->gate + i * GROUP, s->up + i * GROUP, n);
        if (type_is_quantized(w->down.type))
            quantize_row(f, layer_index(f, w), to, i, c, y, n);
    }
}

static void gate_up_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    for (size_t i = begin; i < end; i++)
        gate_up_group(job->f, job->w, i, &act, &job->f->scratch[thread]);
}

void step_gate_up(struct forward *f, const struct layer *w)
{
    struct input in = {.src = f->x,
                       .stride = f->dim_stride,
                       .n = f->n,
                       .k = f->model->dim,
                       .norm = w->ffn_norm,
                       .layer = layer_index(f, w),
                       .quantize =
                           type_is_quantized(w->gate.type) || type_is_quantized(w->up.type)};
    input_prepare(f, &in);
    pool_run(f->pool, ceil_div(w->hidden, GROUP), gate_up_items,
             &(struct job){.f = f, .w = w, .in = &in});
}

/* ---- logits ------------------------------------------------------------------------------- */

static void logits_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    struct forward *f = job->f;
    const struct matrix *head = &f->model->head;
    struct activations act = input_view(f, job->in, thread);
    size_t r0 = begin * TILE_ROWS, r1 = min_size(end * TILE_ROWS, head->rows);
    linear(f, f->logits, f->vocab_stride, head, begin, end, &act);
    for (size_t i = 0; i < act.n; i++)
        if (!f->kernels->in_range(f->logits + i * f->vocab_stride + r0, r1 - r0, FLT_MAX))
            mark_bad(f, f->model->n_layers, BAD_LOGIT);
}

/* Moves the rows that want logits to the front of y, where nothing else needs to be by now. */
static void gather_logit_rows(struct forward *f)
{
    f->n_logits = 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].flags & TERN_ROW_LOGITS)
            memcpy(f->y + f->n_logits++ * f->dim_stride, f->x + i * f->dim_stride,
                   f->model->dim * sizeof *f->x);
}

void step_logits(struct forward *f)
{
    gather_logit_rows(f);
    struct input in = {.src = f->y,
                       .stride = f->dim_stride,
                       .n = f->n_logits,
                       .k = f->model->dim,
                       .norm = f->model->final_norm,
                       .layer = f->model->n_layers,
                       .quantize = type_is_quantized(f->model->head.type)};
    if (f->n_logits == 0)
        return;
    input_prepare(f, &in);
    pool_run(f->pool, ceil_div(f->model->vocab, TILE_ROWS), logits_items,
             &(struct job){.f = f, .in = &in});
}
