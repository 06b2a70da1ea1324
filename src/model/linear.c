/* cflags: -O2 */
/* Linear maps: see linear.h. Work is never split inside an output element, so threads and pieces
 * cannot change a bit. */
#include "model/linear.h"

#include <string.h>

#include "base/sizes.h"
#include "model/residual.h"

enum {
    FEW_ROWS = 16,
    ACT_BYTES = 384 << 10 /* of activations: they fit beside weights into a cache of 1 MiB */
};

void quantize_row(struct forward *f, size_t l, const struct act_buffer *to, size_t rows, size_t k,
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

/* ---- input ---- */

/* Columns c .. c + n - 1 of a row; with a norm it is computed whole for each part of it. */
static void input_row(struct forward *f, const struct input *in, size_t row,
                      const struct act_buffer *to, size_t c, size_t n, int thread)
{
    const float *x = in->src + row * in->stride;
    size_t at = in->n == 1 ? 0 : row;
    if (has_norm(in->norm) || in->round || in->floats) {
        bool there = in->floats && n == in->k; /* where it is to be */
        float *y = there ? to->x + at * to->stride : f->scratch[thread].in.x;
        if (has_norm(in->norm))
            norm_row(f, y, x, in->norm, in->k);
        else
            memcpy(y, x, in->k * sizeof *y);
        if (in->round)
            round_row(y, in->k);
        if (in->floats && !there)
            memcpy(to->x + at * to->stride + c, y + c, n * sizeof *y);
        x = y;
    }
    if (in->quantize)
        quantize_row(f, in->layer, to, in->n, in->k, at, c, x + c, n);
}

/* Items are some columns of some rows: of octets, whose rows share cache lines. */
struct input_job {
    struct forward *f;
    const struct input *in;
    size_t rows, parts;
};

static void input_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct input_job *job = arg;
    size_t k = job->in->k, groups = ceil_div(k, GROUP);
    for (size_t i = begin; i < end; i++) {
        size_t row = i / job->parts * job->rows, part = i % job->parts;
        size_t stop = min_size(row + job->rows, job->in->n);
        size_t c = groups * part / job->parts * GROUP;
        size_t n = min_size(groups * (part + 1) / job->parts * GROUP, k) - c;
        for (; row < stop && n > 0; row++)
            input_row(job->f, job->in, row, &job->f->in, c, n, thread);
    }
}

static bool input_is_plain(const struct input *in)
{
    return !has_norm(in->norm) && !in->quantize && !in->round;
}

#ifdef TERN_MPI

struct gather_job {
    struct forward *f;
    const struct input *in;
    struct portion own;
};

/* Items are octets, whose rows share cache lines. */
static void own_octets(void *arg, size_t begin, size_t end, int thread)
{
    const struct gather_job *job = arg;
    for (size_t i = begin * OCTET; i < min_size(end * OCTET, job->in->n); i++)
        input_row(job->f, job->in, i, &job->f->in, job->own.begin, job->own.end - job->own.begin, thread);
}

void input_gather(struct forward *f, struct input *in, struct cutting cut)
{
    struct gather_job job = {f, in, own_columns(f->model, cut)};
    if (!split_of(f->model))
        return;
    if (!in->quantize) {
        split_floats(f, f->att, in->stride, cut);
        return;
    }
    in->number = ++f->n_inputs;
    if (job.own.begin < job.own.end)
        profile_run(f->profile, OP_NORM, f->pool, ceil_div(in->n, OCTET), own_octets, &job);
    split_rows(f, &f->in, true, cut);
    in->there = true;
}

#endif

/* What input_gather prepared needs no more. */
static bool is_there(const struct input *in)
{
#ifdef TERN_MPI
    return in->there;
#else
    (void)in;
    return false;
#endif
}

void input_prepare(struct forward *f, struct input *in)
{
    if (is_there(in))
        return;
    in->number = ++f->n_inputs;
    if (in->n == 1 || input_is_plain(in))
        return;
    struct input_job job = {.f = f, .in = in, .rows = in->quantize ? OCTET : 1};
    size_t items = ceil_div(in->n, job.rows);
    job.parts = in->quantize ? ceil_div((size_t)pool_threads(f->pool), items) : 1;
    profile_run(f->profile, OP_NORM, f->pool, items * job.parts, input_items, &job);
}

struct activations input_view(struct forward *f, const struct input *in, int thread)
{
    const struct act_buffer *rows = &f->in;
    if (is_there(in))
        return act_buffer_view(rows, in->n, in->k, in->quantize);
    if (input_is_plain(in))
        return (struct activations){.n = in->n, .k = in->k, .stride = in->stride, .x = in->src};
    if (in->n == 1) {
        struct scratch *s = &f->scratch[thread];
        rows = &s->in;
        if (s->has_input != in->number) {
            uint64_t start = profile_begin(f->profile);
            input_row(f, in, 0, rows, 0, in->k, thread);
            profile_end(f->profile, thread, start);
            s->has_input = in->number;
        }
    }
    return act_buffer_view(rows, in->n, in->k, in->quantize);
}

/* ---- output ---- */

void linear_cut(struct forward *f)
{
    pool_cut(f->pool, f->n <= FEW_ROWS ? POOL_FINE : POOL_COARSE);
}

void linear(const struct forward *f, float *y, size_t y_stride, const struct matrix *w,
            size_t tile0, size_t tile1, const struct activations *x)
{
    size_t r0 = tile0 * TILE_ROWS, r1 = min_size(tile1 * TILE_ROWS, w->rows);
    f->kernels->matmul[w->type](y, y_stride, w->data, tile0, tile1, x);
    for (size_t i = 0; w->bias && i < x->n; i++)
        f->kernels->add(y + i * y_stride + r0, w->bias + r0, r1 - r0);
}

struct matrix matrix_rows(const struct matrix *w, size_t at, size_t r0, size_t n)
{
    size_t tile_bytes = format_tile_bytes(format_find(w->type), w->k);
    size_t tile = at * ceil_div(w->rows, TILE_ROWS) + r0 / TILE_ROWS;
    return (struct matrix){(const char *)w->data + tile * tile_bytes, w->type, n, w->k,
                           w->bias ? w->bias + at * w->rows + r0 : NULL};
}

/* Rows that go through a step together, so that they stay in a cache while tiles pass by (floats
 * take so long that what passes by is the weights); of `left` rows, all when few more are left. */
static size_t rows_together(const struct activations *act, size_t left)
{
    size_t row = sizeof(struct octet) / OCTET * ceil_div(act->k, GROUP);
    size_t n = act->octets ? max_size(ACT_BYTES / row / OCTET, 4) * OCTET : MOST_ROWS;
    n = min_size(n, MOST_ROWS - 2 * OCTET);
    return left < n + 2 * OCTET ? left : n;
}

void in_pieces(const struct activations *act, size_t begin, size_t end, size_t step, piece_fn fn,
               void *arg, int thread)
{
    struct piece p = {.act = *act, .thread = thread};
    for (; p.row < act->n; p.row += p.n) {
        p.act.n = p.n = rows_together(act, act->n - p.row);
        if (p.act.octets)
            p.act.octets = act->octets + octet_at(p.row, 0, act->k);
        p.act.x = act->x + p.row * act->stride;
        for (p.begin = begin; p.begin < end; p.begin = p.end) {
            p.end = act->n == 1 ? end : min_size(p.begin + step, end);
            fn(arg, &p);
        }
    }
}

void in_tiles(const struct activations *act, size_t outputs, size_t begin, size_t end, piece_fn fn,
              void *arg, int thread)
{
    in_pieces(act, tile_first(begin, act->n), tile_end(end, outputs, act->n), COLUMNS / TILE_ROWS,
              fn, arg, thread);
}

/* ---- several matrices ---- */

struct project_job {
    struct forward *f;
    const struct input *in;
    const struct projected *part; /* the one in work */
};

static void project_piece(void *arg, const struct piece *p)
{
    const struct project_job *job = arg;
    const struct projected *part = job->part;
    linear(job->f, part->to + p->row * part->stride, part->stride, part->m, p->begin, p->end,
           &p->act);
}

/* Items are tiles of the matrices, or pairs of them, one after another. */
static void project_items(void *arg, size_t begin, size_t end, int thread)
{
    struct project_job job = *(const struct project_job *)arg;
    struct activations act = input_view(job.f, job.in, thread);
    for (size_t first = 0, n; begin < end && job.part->m; first += n, job.part++) {
        n = tile_items(job.part->m->rows, act.n);
        size_t stop = min_size(end, first + n);
        if (begin < stop)
            in_tiles(&act, job.part->m->rows, begin - first, stop - first, project_piece, &job,
                     thread);
        begin = max_size(begin, stop);
    }
}

#ifdef TERN_MPI

struct projected project_own(const struct projected *part, struct portion rows, struct matrix *matrix)
{
    size_t first = rows.begin / TILE_ROWS * TILE_ROWS;
    *matrix = matrix_rows(part->m, 0, first, min_size(round_up(rows.end, TILE_ROWS), part->m->rows) - first);
    return (struct projected){matrix, part->to + first, part->stride};
}

#endif

void project_rows(struct forward *f, enum operation op, const struct input *in,
                  const struct projected *parts)
{
    size_t items = 0;
    for (const struct projected *p = parts; p->m; p++)
        items += tile_items(p->m->rows, in->n);
    profile_run(f->profile, op, f->pool, items, project_items,
                &(struct project_job){f, in, parts});
}
