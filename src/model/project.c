/* cflags: -O2 */
/* The steps of the forward pass: see steps.h. Each splits its output over the threads of the pool
 * (whole heads, tiles of 16 rows, groups of 32) and calls the kernels of the matrix's format. Work
 * is never split inside an output element, so threads cannot change a bit.
 * ADDING A FEATURE of a layer: its line in the step where its place in the equations is. */
#include "model/steps.h"

#include <float.h>
#include <string.h>

#include "model/attention.h"
#include "model/step_tools.h"

enum {
    TOGETHER = 384 << 10 /* bytes of activations that fit beside weights into a cache of 1 MiB */
};

struct job { /* what the pool's items of one step share */
    struct forward *f;
    const struct layer *w;
    const struct matrix *m;
    const struct input *in;
    const struct activations *act;
    const struct norm *norm;
};

void quantize_row(struct forward *f, size_t l, const struct lines *to, size_t rows, size_t k,
                  size_t at, size_t c, const float *x, size_t n)
{
    const struct kernels *ks = f->kernels;
    size_t group = c / GROUP;
    bool finite = rows == 1
                      ? ks->quantize(to->q + c, to->scale + group, to->sum + group, x, n)
                      : ks->quantize_octets(to->octets + octet_at(at, group, k), at % OCTET, x, n);
    if (!finite)
        mark_bad(f, l, l < f->model->n_layers ? BAD_INPUT : BAD_LOGIT);
}

/* ---- input of a matrix: normed, and quantized where the matrix's format wants it ----------- */

struct input {
    const float *src; /* [n, stride] */
    size_t stride, n, k;
    const struct norm *norm; /* NULL, or one without weights: none */
    bool quantize, floats;   /* a matrix reads q, scale and sum; x */
    size_t layer;            /* n_layers: the head */
};

static void input_row(struct forward *f, const struct input *in, size_t row, const struct lines *to,
                      size_t at, int thread)
{
    const float *x = in->src + row * in->stride;
    if (has_norm(in->norm)) {
        float *y = in->floats ? to->x + at * to->stride : f->scratch[thread].in.x;
        norm_row(f, y, x, in->norm, in->k);
        x = y;
    }
    if (in->quantize)
        quantize_row(f, in->layer, to, in->n, in->k, at, 0, x, in->k);
}

static struct activations lines_view(const struct lines *from, size_t n, size_t k, bool quantized)
{
    return (struct activations){
        n,       k,           from->stride, from->x,
        from->q, from->scale, from->sum,    quantized ? from->octets : NULL};
}

static void input_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    for (size_t row = begin; row < end; row++)
        input_row(job->f, job->in, row, &job->f->in, row, thread);
}

static bool input_is_plain(const struct input *in)
{
    return !has_norm(in->norm) && !in->quantize;
}

/* Prepares the rows of a batch, each by one thread. A single row waits for input_view. */
static void input_prepare(struct forward *f, const struct input *in)
{
    if (in->n > 1 && !input_is_plain(in))
        profile_run(f->profile, OP_NORM, f->pool, in->n, input_items,
                    &(struct job){.f = f, .in = in});
}

/* The prepared rows; a single row is prepared here, by every thread for itself. */
static struct activations input_view(struct forward *f, const struct input *in, int thread)
{
    const struct lines *lines = &f->in;
    if (input_is_plain(in))
        return (struct activations){.n = in->n, .k = in->k, .stride = in->stride, .x = in->src};
    if (in->n == 1) {
        lines = &f->scratch[thread].in;
        uint64_t start = profile_begin(f->profile);
        input_row(f, in, 0, lines, 0, thread);
        profile_end(f->profile, thread, start);
    }
    return lines_view(lines, in->n, in->k, in->quantize);
}

/* ---- pieces ------------------------------------------------------------------------------- */

void linear(const struct forward *f, float *y, size_t y_stride, const struct matrix *w,
            size_t tile0, size_t tile1, const struct activations *x)
{
    size_t r0 = tile0 * TILE_ROWS, r1 = min_size(tile1 * TILE_ROWS, w->rows);
    f->kernels->matmul[w->type](y, y_stride, w->data, tile0, tile1, x);
    for (size_t i = 0; w->bias && i < x->n; i++)
        f->kernels->add(y + i * y_stride + r0, w->bias + r0, r1 - r0);
}

/* Rows row .. row + n - 1 of the batch and their activations, and units begin .. end - 1 of a
 * thread's share of a step */
struct piece {
    size_t row, n, begin, end;
    struct activations act;
    int thread;
};

typedef void (*piece_fn)(const struct job *job, const struct piece *p);

/* Rows that go through a step together, so that they stay in a cache while tiles pass by (floats
 * take so long that what passes by is the weights); of `left` rows, all when few more are left. */
static size_t rows_together(const struct activations *act, size_t left)
{
    size_t row = sizeof(struct octet) / OCTET * ceil_div(act->k, GROUP);
    size_t n = act->octets ? max_size(TOGETHER / row / OCTET, 4) * OCTET : MOST_ROWS;
    n = min_size(n, MOST_ROWS - 2 * OCTET);
    return left < n + 2 * OCTET ? left : n;
}

/* All rows of act and units begin .. end - 1, piece by piece, of at most `step` units where there
 * is more than a row */
static void in_pieces(const struct job *job, const struct activations *act, size_t begin,
                      size_t end, size_t step, piece_fn fn, int thread)
{
    struct piece p = {.act = *act, .thread = thread};
    for (; p.row < act->n; p.row += p.n) {
        p.act.n = p.n = rows_together(act, act->n - p.row);
        if (p.act.octets)
            p.act.octets = act->octets + octet_at(p.row, 0, act->k);
        p.act.x = act->x + p.row * act->stride;
        for (p.begin = begin; p.begin < end; p.begin = p.end) {
            p.end = act->n == 1 ? end : min_size(p.begin + step, end);
            fn(job, &p);
        }
    }
}

/* ---- embedding and positions -------------------------------------------------------------- */

static void embed_items(void *arg, size_t begin, size_t end, int thread)
{
    struct forward *f = ((const struct job *)arg)->f;
    const struct model *m = f->model;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *x = f->x + i * f->dim_stride;
        f->kernels->get_row[m->embed.type](x, m->embed.data, m->dim, (size_t)f->rows[i].token);
        if (m->embed_scale != 1)
            f->kernels->scale(x, m->embed_scale, m->dim);
        if (m->positions)
            f->kernels->add(x, m->positions + f->rows[i].position * m->dim, m->dim);
        for (size_t r = 0; r < m->n_ropes; r++) {
            size_t at = (r * f->n_batch + i) * f->rope_stride;
            const struct rope_set *set = &m->ropes[r];
            bool far = set->far && f->cache->far[f->rows[i].seq];
            f->kernels->rope_angles(f->rope_cos + at, f->rope_sin + at,
                                    far ? set->far : set->inv_freq, set->half, f->rows[i].position,
                                    set->factor);
        }
    }
}

void step_embed(struct forward *f)
{
    profile_run(f->profile, OP_EMBED, f->pool, f->n, embed_items, &(struct job){.f = f});
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

/* Norms of q or k heads h0 .. h1 - 1, one by one */
static void norm_heads(const struct forward *f, const struct layer *w, const struct norm *norm,
                       float *x, size_t h0, size_t h1)
{
    size_t d = w->head_dim;
    for (size_t h = h0; h < h1; h++, x += d)
        if (w->qk_norm == QK_HEAD_LAYER)
            f->kernels->layernorm(x, x, norm->weight + h * d, NULL, d, f->model->norm_eps);
        else
            f->kernels->rmsnorm(x, x, norm->weight, d, f->model->norm_eps);
}

/* x [h1 - h0, head_dim]: heads of q, k or v of row i, projected, become what attention reads. */
static void finish_heads(struct forward *f, const struct layer *w, const struct matrix *m, float *x,
                         size_t i, size_t h0, size_t h1, struct scratch *s)
{
    bool is_q = m == &w->q, is_key = m == &w->k;
    size_t d = w->head_dim;
    if ((is_q || is_key) && (w->qk_norm == QK_HEAD || w->qk_norm == QK_HEAD_LAYER))
        norm_heads(f, w, is_q ? &w->q_norm : &w->k_norm, x, h0, h1);
    if (w->rope && (is_q || is_key))
        rope_heads(f, w->rope, x, i, h1 - h0, d);
    for (size_t h = h0; !is_q && h < h1; h++)
        attention_store(f, w->index, &f->rows[i], h, is_key, x + (h - h0) * d, d, &s->attention);
}

/* Heads p->begin .. p->end - 1 of one of the three matrices */
static void project_heads(const struct job *job, const struct piece *p)
{
    struct forward *f = job->f;
    const struct layer *w = job->w;
    const struct matrix *m = job->m;
    size_t d = w->head_dim, stride = m == &w->q ? f->q_stride : f->kv_stride;
    size_t h0 = p->begin, h1 = p->end, end = p->row + p->n;
    float *y = m == &w->q ? f->q : m == &w->k ? f->k : f->v;
    linear(f, y + p->row * stride, stride, m, h0 * d / TILE_ROWS, ceil_div(h1 * d, TILE_ROWS),
           &p->act);
    for (size_t i = p->row; i < end; i++) {
        float *x = y + i * stride + h0 * d;
        if (w->qkv_clip > 0)
            f->kernels->clamp(x, w->qkv_clip, (h1 - h0) * d);
        if (w->qk_norm != QK_FULL || m == &w->v)
            finish_heads(f, w, m, x, i, h0, h1, &f->scratch[p->thread]);
    }
}

/* The rest of q and k of a row where a norm goes over all heads together */
static void full_norm_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    struct scratch *s = &f->scratch[thread];
    for (size_t i = begin; i < end; i++) {
        float *q = f->q + i * f->q_stride, *k = f->k + i * f->kv_stride;
        f->kernels->rmsnorm(q, q, w->q_norm.weight, w->n_heads * w->head_dim, f->model->norm_eps);
        f->kernels->rmsnorm(k, k, w->k_norm.weight, w->n_kv_heads * w->head_dim,
                            f->model->norm_eps);
        finish_heads(f, w, &w->q, q, i, 0, w->n_heads, s);
        finish_heads(f, w, &w->k, k, i, 0, w->n_kv_heads, s);
    }
}

static void qkv_items(void *arg, size_t begin, size_t end, int thread)
{
    struct job job = *(const struct job *)arg;
    const struct layer *w = job.w;
    struct activations act = input_view(job.f, job.in, thread);
    size_t unit = unit_heads(w->head_dim), step = ceil_div(COLUMNS, unit * w->head_dim) * unit;
    size_t n_q = ceil_div(w->n_heads, unit), n_kv = ceil_div(w->n_kv_heads, unit);
    for (size_t i = begin, stop; i < end; i = stop) { /* the units of one matrix at once */
        bool is_q = i < n_q, is_k = !is_q && i < n_q + n_kv;
        size_t first = is_q ? 0 : is_k ? n_q : n_q + n_kv;
        size_t heads = is_q ? w->n_heads : w->n_kv_heads;
        job.m = is_q ? &w->q : is_k ? &w->k : &w->v;
        stop = min_size(end, first + (is_q ? n_q : n_kv));
        in_pieces(&job, &act, (i - first) * unit, min_size((stop - first) * unit, heads), step,
                  project_heads, thread);
    }
}

void step_project_qkv(struct forward *f, const struct layer *w)
{
    struct input in = {.src = f->x,
                       .stride = f->dim_stride,
                       .n = f->n,
                       .k = f->model->dim,
                       .norm = &w->attn_norm,
                       .layer = w->index,
                       .quantize = type_is_quantized(w->q.type) || type_is_quantized(w->k.type) ||
                                   type_is_quantized(w->v.type),
                       .floats = !type_is_quantized(w->q.type) || !type_is_quantized(w->k.type) ||
                                 !type_is_quantized(w->v.type)};
    size_t unit = unit_heads(w->head_dim);
    input_prepare(f, &in);
    profile_run(f->profile, OP_QKV, f->pool,
                ceil_div(w->n_heads, unit) + 2 * ceil_div(w->n_kv_heads, unit), qkv_items,
                &(struct job){.f = f, .w = w, .in = &in});
    if (w->qk_norm == QK_FULL)
        profile_run(f->profile, OP_QKV, f->pool, f->n, full_norm_items,
                    &(struct job){.f = f, .w = w});
}

/* ---- projections that add to the residual stream, by tiles --------------------------------- */

void step_join(const struct forward *f, size_t i, float *y, size_t c0, size_t c1)
{
    if (f->model->residual_scale != 1)
        f->kernels->scale(y + c0, f->model->residual_scale, c1 - c0);
    f->kernels->add(f->x + i * f->dim_stride + c0, y + c0, c1 - c0);
}

/* What attention adds waits in f->z, where feed-forward reads the same x. */
static void project_out(const struct job *job, const struct piece *p)
{
    struct forward *f = job->f;
    const struct layer *w = job->w;
    size_t c0 = p->begin * TILE_ROWS, c1 = min_size(p->end * TILE_ROWS, w->o.rows);
    float *y = (w->parallel ? f->z : f->y) + p->row * f->dim_stride;
    linear(f, y, f->dim_stride, &w->o, p->begin, p->end, &p->act);
    for (size_t i = 0; i < p->n && !w->parallel && !has_norm(&w->attn_post_norm); i++)
        step_join(f, p->row + i, y + i * f->dim_stride, c0, c1);
}

static void out_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    in_pieces(job, &act, begin, end, COLUMNS / TILE_ROWS, project_out, thread);
}

/* Rows of y, normed, join the stream. */
static void post_norm_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    struct forward *f = job->f;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *y = f->y + i * f->dim_stride;
        norm_row(f, y, y, job->norm, f->model->dim);
        step_join(f, i, y, 0, f->model->dim);
    }
}

void step_post_norm(struct forward *f, const struct norm *norm)
{
    if (has_norm(norm))
        profile_run(f->profile, OP_NORM, f->pool, f->n, post_norm_items,
                    &(struct job){.f = f, .norm = norm});
}

void step_project_out(struct forward *f, const struct layer *w)
{
    struct input in = {.src = f->att,
                       .stride = f->q_stride,
                       .n = f->n,
                       .k = w->o.k,
                       .layer = w->index,
                       .quantize = type_is_quantized(w->o.type)};
    input_prepare(f, &in);
    profile_run(f->profile, OP_OUT, f->pool, ceil_div(w->o.rows, TILE_ROWS), out_items,
                &(struct job){.f = f, .w = w, .in = &in});
}

static void project_down(const struct job *job, const struct piece *p)
{
    struct forward *f = job->f;
    const struct layer *w = job->w;
    size_t c0 = p->begin * TILE_ROWS, c1 = min_size(p->end * TILE_ROWS, w->down.rows);
    linear(f, f->y + p->row * f->dim_stride, f->dim_stride, &w->down, p->begin, p->end, &p->act);
    for (size_t i = p->row; i < p->row + p->n; i++) {
        if (w->parallel)
            step_join(f, i, f->z + i * f->dim_stride, c0, c1);
        if (!has_norm(&w->ffn_post_norm))
            step_join(f, i, f->y + i * f->dim_stride, c0, c1);
    }
}

static void down_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    in_pieces(job, job->act, begin, end, COLUMNS / TILE_ROWS, project_down, thread);
}

void step_project_down(struct forward *f, const struct layer *w)
{
    struct activations act = lines_view(&f->ffn, f->n, w->hidden, type_is_quantized(w->down.type));
    profile_run(f->profile, OP_DOWN, f->pool, ceil_div(w->down.rows, TILE_ROWS), down_items,
                &(struct job){.f = f, .w = w, .act = &act});
}

/* ---- feed-forward: 32 rows of gate and up together, one group of the down projection -------- */

/* y = act(gate) * up   [n]; without a gate y = act(up) */
static void activate(const struct forward *f, const struct layer *w, float *y, const float *gate,
                     const float *up, size_t n)
{
    if (w->gated && f->model->activation == ACT_SILU)
        f->kernels->swiglu(y, gate, up, n);
    else
        f->kernels->activate(y, w->gated ? gate : up, w->gated ? up : NULL, n, f->model->activation,
                             w->ffn_clamp);
}

/* What the activation reads, for who watches */
static void keep_columns(struct forward *f, const struct layer *w, const struct ffn_rows *r,
                         size_t c, size_t n, const struct scratch *s)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t from = i * round_up(n, GROUP), to = (r->first + i) * r->to->stride + c;
        memcpy(f->up + to, s->up + from, n * sizeof *f->up);
        if (w->gated)
            memcpy(f->gate + to, s->gate + from, n * sizeof *f->gate);
    }
}

void ffn_columns(struct forward *f, const struct layer *w, size_t expert, const struct ffn_rows *r,
                 size_t c, size_t n, struct scratch *s)
{
    size_t stride = round_up(n, GROUP), tiles = ceil_div(n, TILE_ROWS);
    struct matrix up = matrix_rows(&w->up, expert, c, n);
    if (w->gated) {
        struct matrix gate = matrix_rows(&w->gate, expert, c, n);
        linear(f, s->gate, stride, &gate, 0, tiles, r->in);
    }
    linear(f, s->up, stride, &up, 0, tiles, r->in);
    if (f->up && r->to == &f->ffn)
        keep_columns(f, w, r, c, n, s);
    for (size_t i = 0; i < r->n; i++) {
        float *y = r->to->x + (r->first + i) * r->to->stride + c;
        activate(f, w, y, s->gate + i * stride, s->up + i * stride, n);
        if (type_is_quantized(w->down.type))
            quantize_row(f, w->index, r->to, r->form, w->hidden, r->first + i, c, y, n);
    }
}

static void gate_up_groups(const struct job *job, const struct piece *p)
{
    struct forward *f = job->f;
    size_t c = p->begin * GROUP, n = min_size(p->end * GROUP, job->w->hidden) - c;
    struct ffn_rows rows = {&p->act, &f->ffn, p->row, p->n, f->n};
    ffn_columns(f, job->w, 0, &rows, c, n, &f->scratch[p->thread]);
}

static void gate_up_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    size_t step = job->f->gate_floats / GROUP / min_size(act.n, MOST_ROWS);
    in_pieces(job, &act, begin, end, min_size(step, COLUMNS / GROUP), gate_up_groups, thread);
}

void step_gate_up(struct forward *f, const struct layer *w)
{
    struct input in = {.src = f->x,
                       .stride = f->dim_stride,
                       .n = f->n,
                       .k = f->model->dim,
                       .norm = layer_ffn_norm(w),
                       .layer = w->index,
                       .quantize = type_is_quantized(w->gate.type) || type_is_quantized(w->up.type),
                       .floats = !type_is_quantized(w->up.type) ||
                                 (w->gated && !type_is_quantized(w->gate.type))};
    input_prepare(f, &in);
    profile_run(f->profile, OP_GATE_UP, f->pool, ceil_div(w->hidden, GROUP), gate_up_items,
                &(struct job){.f = f, .w = w, .in = &in});
}

/* ---- the expert that every row takes: a dense step whose output waits in f->z ---------------- */

static void shared_down_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct job *job = arg;
    (void)thread;
    linear(job->f, job->f->z, job->f->dim_stride, &job->w->down, begin, end, job->act);
}

void step_shared_expert(struct forward *f, const struct layer *w)
{
    struct layer dense = *w;
    dense.gate = w->experts.shared_gate, dense.up = w->experts.shared_up;
    dense.down = w->experts.shared_down, dense.hidden = w->experts.shared_hidden;
    step_gate_up(f, &dense);
    struct activations act =
        lines_view(&f->ffn, f->n, dense.hidden, type_is_quantized(dense.down.type));
    profile_run(f->profile, OP_DOWN, f->pool, ceil_div(dense.down.rows, TILE_ROWS),
                shared_down_items, &(struct job){.f = f, .w = &dense, .act = &act});
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
    for (size_t i = 0; i < act.n; i++) {
        float *y = f->logits + i * f->vocab_stride + r0;
        if (f->model->logit_scale != 1)
            f->kernels->scale(y, f->model->logit_scale, r1 - r0);
        if (!f->kernels->in_range(y, r1 - r0, FLT_MAX)) /* a cap would hide it */
            mark_bad(f, f->model->n_layers, BAD_LOGIT);
        if (f->model->logit_cap > 0)
            f->kernels->softcap(y, f->model->logit_cap, r1 - r0);
    }
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
                       .norm = &f->model->final_norm,
                       .layer = f->model->n_layers,
                       .quantize = type_is_quantized(f->model->head.type),
                       .floats = !type_is_quantized(f->model->head.type)};
    if (f->n_logits == 0)
        return;
    input_prepare(f, &in);
    profile_run(f->profile, OP_LOGITS, f->pool, ceil_div(f->model->vocab, TILE_ROWS), logits_items,
                &(struct job){.f = f, .in = &in});
}
