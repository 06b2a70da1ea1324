/* Recurrent mixers and short convolutions: see recurrence.h; plain_recurrent.c and
 * plain_convolution.c define them. An item is a head, or some of its columns, or some channels; no
 * sum is split. */
#include "model/recurrence.h"

#include <string.h>

#include "base/sizes.h"
#include "kernels/math.h"
#include "model/linear.h"
#include "model/plain_mixer.h"
#include "model/residual.h"
#include "model/split.h"

enum {
    MOST_PARTS = 6, /* of matrices that read the same rows */
    CHANNELS = 64   /* of a short convolution, together */
};

struct mixer_job {
    struct forward *f;
    const struct layer *w;
    const struct input *in;
    struct portion own; /* heads or channels */
    struct finish finish;
};

/* Rows i .. result - 1 of the batch are of one sequence. */
static size_t run_end(const struct forward *f, size_t i)
{
    size_t end = i + 1;
    while (end < f->n && f->rows[end].seq == f->rows[i].seq)
        end++;
    return end;
}

static struct recurrent_seq *run_of(const struct forward *f, size_t i)
{
    return &f->cache->recurrent.seqs[f->rows[i].seq];
}

/* ---- projections ---- */

/* Finds out which types read rows that are described except for that, and prepares them. */
static void prepare_rows(struct forward *f, const struct layer *w, struct input *in,
                         const struct projected *parts)
{
    in->n = f->n, in->layer = w->index;
    for (const struct projected *p = parts; p->m; p++) {
        in->quantize |= type_is_quantized(p->m->type);
        in->floats |= !type_is_quantized(p->m->type);
    }
    input_prepare(f, in);
}

/* The rows that a layer's mixers read */
static struct input mixer_input(const struct forward *f, const struct layer *w)
{
    return (struct input){
        .src = f->x, .stride = f->dim_stride, .k = f->model->dim, .norm = &w->attn_norm};
}

/* Matrices that read the same rows, one of them no matrix: the end */
struct own_parts {
    struct projected parts[MOST_PARTS + 1];
    size_t n;
#ifdef TERN_MPI
    struct matrix rows[MOST_PARTS]; /* what this machine has of them */
#endif
};

#ifdef TERN_MPI

static void add_rows(struct own_parts *p, struct projected part, struct portion rows)
{
    p->parts[p->n] = project_own(&part, rows, &p->rows[p->n]);
    p->n++;
}

/* Rows of a matrix of several parts, of which *end are taken: no two threads write a tile. */
static void add_next(struct own_parts *p, struct projected part, struct portion rows, size_t *end)
{
    if (rows.begin == rows.end)
        return;
    rows.begin = max_size(rows.begin, *end);
    *end = round_up(rows.end, TILE_ROWS);
    if (rows.begin < rows.end)
        add_rows(p, part, rows);
}

/* What the convolution reads: [q | k | v] of some heads; [B | C | x] of some channels */
static void add_inputs(struct forward *f, struct own_parts *p, const struct mixer *x,
                       struct projected in)
{
    size_t width = x->k_heads * x->k_dim, end = 0;
    for (size_t i = 0; i < 2 && x->v_heads; i++)
        add_next(p, in, portion_times(own_keys(f->model, x), x->k_dim, i * width), &end);
    if (x->v_heads)
        add_next(p, in, portion_times(own_states(f->model, x), x->v_dim, 2 * width), &end);
    for (size_t i = 0; i < 3 && !x->v_heads; i++)
        add_next(p, in, portion_times(own_columns(f->model, cut_states(x)), 1, i * x->channels),
                 &end);
}

#endif

/* This machine's rows of a matrix; all of a narrow one, and of a gate that waits for a norm of all */
static void add_part(struct forward *f, struct own_parts *p, const struct mixer *x,
                     struct projected part)
{
#ifdef TERN_MPI
    struct portion heads = x->v_heads ? own_states(f->model, x) : (struct portion){0, 0};
    if (!split_of(f->model))
        p->parts[p->n++] = part;
    else if (part.m == &x->in)
        add_inputs(f, p, x, part);
    else if (part.m == &x->gate && !state_gate_is_whole(x))
        add_rows(p, part, portion_times(heads, x->v_dim, 0));
    else if (part.m == &x->decay || part.m == &x->beta)
        add_rows(p, part, portion_times(heads, part.m->rows / x->v_heads, 0));
    else
        p->parts[p->n++] = part;
#else
    (void)f, (void)x;
    p->parts[p->n++] = part;
#endif
}

/* What a narrow row [rank], made of x before, becomes */
static void project_narrow(struct forward *f, const struct layer *w, const float *narrow,
                           const struct projected *part)
{
    struct input in = {.src = narrow, .stride = f->kv_stride, .k = part->m->k};
    struct own_parts own = {.n = 0};
    add_part(f, &own, &w->mix, *part);
    prepare_rows(f, w, &in, own.parts);
    project_rows(f, OP_QKV, &in, own.parts);
}

void step_project_mixer(struct forward *f, const struct layer *w)
{
    const struct mixer *x = &w->mix;
    const struct projected gate = {&x->gate, f->mix_gate, f->q_stride},
                           decay = {&x->decay, f->decay, f->decay_stride},
                           gate_down = {&x->gate_down, f->k, f->kv_stride},
                           decay_down = {&x->decay_down, f->v, f->kv_stride};
    const struct projected all[] = {{&x->in, f->mix, f->mix_stride},
                                    x->gate_down.data ? gate_down : gate,
                                    x->decay_down.data ? decay_down : decay,
                                    {&x->beta, f->beta, f->number_stride}};
    struct own_parts own = {.n = 0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].m->data)
            add_part(f, &own, x, all[i]);
    if (!(w->mixer & MIX_ATTENTION))
        state_watch(f, w->index, WATCH_ATTENTION);
    struct input in = mixer_input(f, w);
    prepare_rows(f, w, &in, own.parts);
    project_rows(f, OP_QKV, &in, own.parts);
    if (x->gate_down.data)
        project_narrow(f, w, f->k, &gate);
    if (x->decay_down.data)
        project_narrow(f, w, f->v, &decay);
}

/* ---- convolution ---- */

/* Some channels of the inputs of a sequence's convolution: row t of the batch, or before it */
struct inputs {
    const float *before; /* [width - 1, channels], or NULL: zeros */
    const float *rows;   /* [n, stride] */
    size_t width, channels, stride;
};

static const float *input_at(const struct inputs *in, size_t t, size_t j)
{
    size_t from = t + j; /* the batch begins at width - 1 */
    return from + 1 < in->width ? in->before + from * in->channels
                                : in->rows + (from + 1 - in->width) * in->stride;
}

/* The inputs that the rows after the first `row` see; `to` may be where the older ones are. */
static void keep_inputs(const struct inputs *in, size_t row, float *to, size_t n)
{
    for (size_t j = 0; j + 1 < in->width; j++)
        memmove(to + j * in->channels, input_at(in, row, j), n * sizeof *to);
}

static void log_rows(struct forward *f, const struct mixer *x, size_t i, size_t t0, size_t n_rows,
                     size_t at, const float *from, size_t stride, size_t n)
{
    for (size_t t = t0; t < n_rows; t++) {
        const struct row *row = &f->rows[i + t];
        float *log = recurrent_log(&f->cache->recurrent, row->seq, row->position) + x->log_at;
        memcpy(log + at, from + t * stride, n * sizeof *log);
    }
}

/* Channels c .. c + n - 1 of rows i .. end - 1, of one sequence */
static void convolve_run(struct forward *f, const struct layer *w, size_t i, size_t end, size_t c,
                         size_t n)
{
    const struct mixer *x = &w->mix;
    const struct recurrent_seq *q = run_of(f, i);
    size_t n_rows = end - i, dim = f->model->dim;
    float *rows = f->mix + i * f->mix_stride + x->in_place + c, *to = q->to + x->at + c;
    const float *taps[MAX_CONV];
    struct inputs in = {.before = q->from + x->at + c,
                        .rows = rows,
                        .width = x->width,
                        .channels = x->channels,
                        .stride = f->mix_stride};
    struct convolve job = {.n = n, .width = x->width, .w_stride = x->channels, .x = taps};
    job.w = x->conv + c, job.bias = x->conv_bias ? x->conv_bias + c : NULL, job.silu = x->v_heads;
    for (size_t t = 0; !x->v_heads && !f->again && t < n_rows; t++)
        f->kernels->multiply(rows + t * f->mix_stride, rows + t * f->mix_stride - 2 * dim, n);
    log_rows(f, x, i, q->log_from, n_rows, c, rows, f->mix_stride, n);
    for (size_t t = 0; t < n_rows; t++) {
        for (size_t j = 0; j < x->width; j++)
            taps[j] = input_at(&in, t, j);
        f->kernels->convolve(f->conv + (i + t) * f->conv_stride + c, &job);
    }
    for (size_t m = 0; m < q->n_marks; m++)
        keep_inputs(&in, q->marks[m].row, q->marks[m].to + x->at + c, n);
    keep_inputs(&in, n_rows, to, n);
}

/* The head's numbers of rows i .. end - 1 */
static void number_run(struct forward *f, const struct layer *w, size_t i, size_t end, size_t head)
{
    const struct mixer *x = &w->mix;
    float *decay = f->decay + i * f->decay_stride + head * x->n_decay;
    float *beta = f->beta + i * f->number_stride + head;
    size_t from = run_of(f, i)->log_from, n = end - i, at = x->channels + x->decay.rows;
    log_rows(f, x, i, from, n, x->channels + head * x->n_decay, decay, f->decay_stride, x->n_decay);
    if (x->beta.rows)
        log_rows(f, x, i, from, n, at + head, beta, f->number_stride, 1);
    for (size_t t = 0; t < n; t++, decay += f->decay_stride, beta += f->number_stride)
        recurrent_numbers(x, head, decay, beta);
}

/* Items: heads of q, of k and of v; or blocks of channels */
static void convolve_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct mixer_job *job = arg;
    struct forward *f = job->f;
    const struct mixer *x = &job->w->mix;
    size_t keys = 2 * x->k_heads;
    (void)thread;
    for (size_t item = begin; item < end; item++)
        for (size_t i = 0, stop; i < f->n; i = stop) {
            size_t n = !x->v_heads ? CHANNELS : item < keys ? x->k_dim : x->v_dim;
            size_t c = item < keys ? item * n : keys * x->k_dim + (item - keys) * n;
            stop = run_end(f, i);
            convolve_run(f, job->w, i, stop, c, min_size(n, x->channels - c));
            for (size_t t = i; t < stop && item < keys; t++)
                recurrent_key(f->kernels, x, f->conv + t * f->conv_stride + c, item < x->k_heads);
            if (x->v_heads && item >= keys)
                number_run(f, job->w, i, stop, item - keys);
        }
}

void step_convolve(struct forward *f, const struct layer *w)
{
    const struct mixer *x = &w->mix;
    struct mixer_job job = {.f = f, .w = w};
    if (!x->v_heads) {
        struct portion channels = own_columns(f->model, cut_states(x));
        run_own(f, OP_CONVOLVE,
                (struct portion){channels.begin / CHANNELS, ceil_div(channels.end, CHANNELS)},
                convolve_items, &job);
        return;
    }
    if (!split_of(f->model)) {
        profile_run(f->profile, OP_CONVOLVE, f->pool, 2 * x->k_heads + x->v_heads, convolve_items,
                    &job);
        return;
    }
    struct portion keys = own_keys(f->model, x);
    run_own(f, OP_CONVOLVE, keys, convolve_items, &job);
    run_own(f, OP_CONVOLVE, portion_times(keys, 1, x->k_heads), convolve_items, &job);
    run_own(f, OP_CONVOLVE, portion_times(own_states(f->model, x), 1, 2 * x->k_heads),
            convolve_items, &job);
}

/* ---- state ---- */

/* Rows i .. end - 1 of one sequence through block `at` of a head's columns */
static void recur_run(struct forward *f, const struct layer *w, size_t i, size_t end, size_t head,
                      size_t at)
{
    const struct mixer *x = &w->mix;
    const struct recurrent_seq *q = run_of(f, i);
    size_t key = x->k_heads * x->k_dim, place = x->at + state_place(x, head, at), m = 0;
    size_t column = head * x->v_dim + at * STATE_COLUMNS;
    struct recur r = {.k_dim = x->k_dim, .columns = state_columns(x, at)};
    size_t bytes = r.k_dim * r.columns * sizeof *r.state;
    r.delta = x->rule == RULE_DELTA, r.state = q->to + place;
    r.key_stride = r.v_stride = f->conv_stride;
    r.g_stride = f->decay_stride, r.g_step = x->n_decay > 1;
    r.b_stride = f->number_stride, r.o_stride = f->q_stride;
    if (q->from != q->to)
        memcpy(r.state, q->from + place, bytes);
    for (size_t t = i, stop; t < end; t = stop) {
        stop = m < q->n_marks ? i + q->marks[m].row : end;
        r.q = f->conv + t * f->conv_stride + head / (x->v_heads / x->k_heads) * x->k_dim;
        r.k = r.q + key, r.v = f->conv + t * f->conv_stride + 2 * key + column;
        r.g = f->decay + t * f->decay_stride + head * x->n_decay;
        r.b = f->beta + t * f->number_stride + head;
        r.o = f->att + t * f->q_stride + column, r.rows = stop - t;
        f->kernels->recur(&r);
        for (; m < q->n_marks && i + q->marks[m].row == stop; m++)
            memcpy(q->marks[m].to + place, r.state, bytes);
    }
}

static void recur_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct mixer_job *job = arg;
    struct forward *f = job->f;
    size_t blocks = ceil_div(job->w->mix.v_dim, STATE_COLUMNS);
    (void)thread;
    for (size_t item = begin; item < end; item++)
        for (size_t i = 0, stop; i < f->n; i = stop) {
            stop = run_end(f, i);
            recur_run(f, job->w, i, stop, item / blocks, item % blocks);
        }
}

static void finish_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct mixer_job *job = arg;
    struct forward *f = job->f;
    const struct mixer *x = &job->w->mix;
    size_t dim = f->model->dim, c = job->own.begin, n = job->own.end - c;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *o = f->att + i * f->q_stride, *conv = f->conv + i * f->conv_stride;
        const float *v = conv + 2 * x->k_heads * x->k_dim;
        float *z = f->mix_gate + i * f->q_stride;
        if (!x->v_heads) {
            memcpy(o + c, conv + c, n * sizeof *o);
            f->kernels->multiply(o + c, f->mix + i * f->mix_stride + dim + c, n);
            continue;
        }
        recurrent_finish(f->kernels, x, o, v, z, job->finish);
    }
}

/* What heads read from their states becomes the input of a matrix. A norm over several of them needs all. */
static void finish(struct forward *f, const struct layer *w)
{
    const struct mixer *x = &w->mix;
    struct portion own =
        x->v_heads ? own_states(f->model, x) : own_columns(f->model, cut_states(x));
    struct mixer_job job = {.f = f, .w = w, .own = own, .finish = {own.begin, own.end, FINISH_ALL}};
#ifdef TERN_MPI
    if (norm_is_whole(x) && split_of(f->model)) {
        job.finish.halves = FINISH_VALUES;
        profile_run(f->profile, OP_RECUR, f->pool, f->n, finish_items, &job);
        split_floats(f, f->att, f->q_stride, cut_states(x));
        job.finish = (struct finish){0, x->v_heads, FINISH_NORM};
    }
#endif
    profile_run(f->profile, OP_RECUR, f->pool, f->n, finish_items, &job);
}

void step_recur(struct forward *f, const struct layer *w)
{
    struct mixer_job job = {.f = f, .w = w};
    size_t blocks = ceil_div(w->mix.v_dim, STATE_COLUMNS);
    if (w->mix.v_heads)
        run_own(f, OP_RECUR, portion_times(own_states(f->model, &w->mix), blocks, 0), recur_items,
                &job);
    if (!f->again)
        finish(f, w);
}

/* ---- the gate of attention ---- */

static void gate_tiles(void *arg, const struct piece *p)
{
    const struct mixer_job *job = arg;
    struct forward *f = job->f;
    const struct matrix *m = &job->w->attn_gate;
    size_t c0 = p->begin * TILE_ROWS, c1 = min_size(p->end * TILE_ROWS, m->rows);
    size_t d = m->rows == job->w->n_heads ? layer_out_dim(job->w) / m->rows : 1;
    linear(f, f->mix + p->row * f->mix_stride, f->mix_stride, m, p->begin, p->end, &p->act);
    for (size_t i = p->row; i < p->row + p->n; i++) {
        const float *gate = f->mix + i * f->mix_stride;
        float *att = f->att + i * f->q_stride;
        if (job->w->soft_gate) {
            soft_gate(att + c0 * d, gate + c0, c1 - c0, d);
            continue;
        }
        if (d == 1)
            f->kernels->sigmoid(att + c0, gate + c0, c1 - c0);
        for (size_t h = c0; d > 1 && h < c1; h++)
            f->kernels->divide(att + h * d, att + h * d, 1 + math_exp(-gate[h]), d);
    }
}

static void gate_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct mixer_job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    in_tiles(&act, job->w->attn_gate.rows, begin, end, gate_tiles, arg, thread);
}

void step_gate_attention(struct forward *f, const struct layer *w)
{
    const struct projected parts[2] = {{&w->attn_gate, f->mix, f->mix_stride}};
    if (!w->attn_gate.data)
        return;
    struct input in = mixer_input(f, w);
    prepare_rows(f, w, &in, parts);
    struct portion heads = own_heads(f->model, w);
    struct portion rows = portion_times(heads, w->attn_gate.rows / w->n_heads, 0);
    run_own(f, OP_QKV, own_tiles(rows, f->n), gate_items,
            &(struct mixer_job){.f = f, .w = w, .in = &in});
}

/* ---- where the states are ---- */

/* Rows of the log, of at most a batch, through the mixers of all layers */
static void run_again(struct forward *f, size_t seq)
{
    struct recurrent *r = &f->cache->recurrent;
    struct recurrent_seq *q = &r->seqs[seq];
    struct row *rows = f->rows;
    size_t n_rows = f->n;
    f->rows = f->again_rows, f->again = true;
    f->n = min_size(q->n, f->n_batch);
    for (size_t i = 0; i < f->n; i++)
        f->rows[i] = (struct row){.seq = (uint32_t)seq, .position = (uint32_t)(q->first + i)};
    for (size_t l = 0; l < f->model->n_layers; l++) {
        const struct mixer *x = &f->model->layers[l].mix;
        for (size_t i = 0; x->width && i < f->n; i++) {
            const float *log = recurrent_log(r, seq, q->first + i) + x->log_at;
            memcpy(f->mix + i * f->mix_stride + x->in_place, log, x->channels * sizeof *log);
            log += x->channels;
            memcpy(f->decay + i * f->decay_stride, log, x->decay.rows * sizeof *log);
            log += x->decay.rows;
            memcpy(f->beta + i * f->number_stride, log, x->beta.rows * sizeof *log);
        }
        if (x->width) {
            step_convolve(f, &f->model->layers[l]);
            step_recur(f, &f->model->layers[l]);
        }
    }
    recurrent_replayed(r, seq, f->n);
    f->rows = rows, f->n = n_rows, f->again = false;
}

void recurrence_begin(struct forward *f, size_t seq, size_t n, bool is_prompt)
{
    struct recurrent *r = &f->cache->recurrent;
    while (r->state_floats && recurrent_begin(r, seq, f->cache->length[seq], n, is_prompt))
        for (struct recurrent_seq *q = &r->seqs[seq]; q->n;)
            run_again(f, seq);
}

void recurrence_resume(struct forward *f, size_t seq)
{
    struct recurrent *r = &f->cache->recurrent;
    size_t n = f->cache->length[seq];
    recurrence_begin(f, seq, 0, false);
    float *to = r->state_floats ? recurrent_add_snapshot(r, seq, n) : NULL;
    if (to)
        memcpy(to, recurrent_state(r, seq, n), r->state_floats * sizeof(float));
}

void recurrence_copy(struct forward *f, size_t seq)
{
    const struct recurrent *r = &f->cache->recurrent;
    if (r->state_floats)
        memcpy(r->seqs[seq].to, r->seqs[seq].from, r->state_floats * sizeof(float));
}

void recurrence_mark(struct forward *f, size_t seq, size_t row)
{
    const struct recurrent *r = &f->cache->recurrent;
    const struct recurrent_seq *q = r->state_floats ? &r->seqs[seq] : NULL;
    for (size_t m = 0; q && m < q->n_marks; m++)
        if (q->marks[m].row == row)
            memcpy(q->marks[m].to, q->to, r->state_floats * sizeof(float));
}
