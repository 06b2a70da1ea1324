/* One model on several machines: see split.h. */
#include "model/split.h"

#include <math.h>
#include <string.h>

#include "model/halves.h"
#include "model/linear.h"

#ifdef TERN_MPI

/* ---- cuts ---- */

/* Least number of heads whose widths are all multiples of what is cut there */
static size_t heads_together(size_t a, size_t b, size_t c)
{
    size_t n = 1;
    while (n * a % SPLIT_UNIT || n * b % SPLIT_UNIT || n * c % SPLIT_UNIT)
        n++;
    return n;
}

static struct cutting cut_of_heads(const struct layer *w)
{
    if (!w->n_heads)
        return (struct cutting){1, 0};
    return (struct cutting){
        heads_together(layer_q_dim(w), w->head_dim, layer_out_dim(w) / w->n_heads), w->n_heads};
}

struct cutting cut_heads(const struct layer *w, size_t width)
{
    struct cutting heads = cut_of_heads(w);
    return (struct cutting){heads.unit * width, heads.total * width};
}

struct portion own_heads(const struct model *m, const struct layer *w)
{
    return own_columns(m, cut_of_heads(w));
}

/* KV heads that query heads of the layer read, by whole tiles of what makes them */
static struct portion kv_of(const struct model *m, const struct layer *w)
{
    struct portion q = own_heads(m, w);
    size_t queries = w->n_heads / w->n_kv_heads, whole = heads_on_tiles(w->head_dim);
    if (q.begin == q.end)
        return (struct portion){0, 0};
    return (struct portion){q.begin / queries / whole * whole,
                            min_size(round_up(ceil_div(q.end, queries), whole), w->n_kv_heads)};
}

struct portion own_kv(const struct model *m, const struct layer *w)
{
    if (!split_of(m) || w->latent.rank || !w->n_kv_heads)
        return (struct portion){0, w->n_kv_heads};
    size_t from = w->kv_from ? w->kv_from - 1 : w->index;
    struct portion all = kv_of(m, &m->layers[from]);
    for (size_t l = 0; l < m->n_layers; l++) { /* other layers read them, too */
        if (m->layers[l].kv_from != from + 1)
            continue;
        struct portion more = kv_of(m, &m->layers[l]);
        if (more.begin == more.end)
            continue;
        all.begin = all.begin == all.end ? more.begin : min_size(all.begin, more.begin);
        all.end = max_size(all.end, more.end);
    }
    return all;
}

struct cutting cut_states(const struct mixer *x)
{
    if (!x->v_heads)
        return (struct cutting){2 * SPLIT_UNIT, x->channels};
    return (struct cutting){heads_together(x->v_dim, x->v_dim, x->v_dim) * x->v_dim,
                            x->v_heads * x->v_dim};
}

struct portion own_states(const struct model *m, const struct mixer *x)
{
    struct portion columns = own_columns(m, cut_states(x));
    return (struct portion){columns.begin / x->v_dim, columns.end / x->v_dim};
}

struct portion own_keys(const struct model *m, const struct mixer *x)
{
    struct portion heads = own_states(m, x);
    size_t shared = x->v_heads / x->k_heads;
    if (heads.begin == heads.end)
        return (struct portion){0, 0};
    return (struct portion){heads.begin / shared, ceil_div(heads.end, shared)};
}

struct portion own_tiles(struct portion rows, size_t n)
{
    size_t item = TILE_ROWS * tile_first(1, n);
    return (struct portion){rows.begin / item, ceil_div(rows.end, item)};
}

/* ---- runs ---- */

struct shifted {
    pool_fn fn;
    void *arg;
    size_t first;
};

static void shifted_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct shifted *job = arg;
    job->fn(job->arg, job->first + begin, job->first + end, thread);
}

void run_own(struct forward *f, enum operation op, struct portion own, pool_fn fn, void *arg)
{
    if (own.begin < own.end)
        profile_run(f->profile, op, f->pool, own.end - own.begin, shifted_items,
                    &(struct shifted){fn, arg, own.begin});
}

/* ---- gathers ---- */

/* What rank 0 knows and all must agree on goes ahead of each part: whether the batch is cancelled. Of the
 * last gather of a batch: what of each machine was not finite. */
typedef int32_t note_word;

/* Bytes of a row of the plane that are machine r's, from *from on */
static size_t row_part(const struct split *s, const struct plane *p, size_t r, size_t *from)
{
    size_t begin = split_at(s, p->cut, r), end = split_at(s, p->cut, r + 1);
    *from = begin / p->per * p->bytes;
    return begin < end ? ceil_div(end, p->per) * p->bytes - *from : 0;
}

/* Copies machine r's columns of the planes into its part, or out of it. */
static void move(const struct split *s, size_t r, char *part, const struct plane *planes, size_t n,
                 bool in)
{
    for (const struct plane *p = planes; p < planes + n; p++) {
        size_t from, bytes = row_part(s, p, r, &from);
        for (size_t i = 0; i < p->n && bytes; i++, part += bytes) {
            char *row = (char *)p->base + i * p->stride + from;
            memcpy(in ? part : row, in ? row : part, bytes);
        }
    }
}

/* Where the parts begin in what travels */
static void part_places(const struct split *s, const struct plane *planes, size_t n, size_t *at)
{
    size_t from;
    at[0] = 0;
    for (size_t r = 0; r < s->n; r++) {
        at[r + 1] = at[r] + sizeof(note_word);
        for (size_t i = 0; i < n; i++)
            at[r + 1] += planes[i].n * row_part(s, &planes[i], r, &from);
    }
}

void split_gather(struct forward *f, const struct plane *planes, size_t n)
{
    const struct split *s = split_of(f->model);
    size_t at[MOST_MACHINES + 1];
    part_places(s, planes, n, at);
    struct forward *front = f->half ? f->halves->front : f; /* which can be cancelled */
    note_word stop = atomic_load(&front->cancel) == FORWARD_CANCEL;
    char *own = f->travel + at[s->rank];
    memcpy(own, &stop, sizeof stop);
    move(s, s->rank, own + sizeof stop, planes, n, true);
    if (f->in_halves) {
        halves_gather(f, f->travel, at);
    } else {
        machines_gather(f->travel, at);
    }
    memcpy(&stop, f->travel, sizeof stop);
    f->stopped = stop;
    for (size_t r = 0; r < s->n; r++)
        if (r != s->rank)
            move(s, r, f->travel + at[r] + sizeof stop, planes, n, false);
}

struct plane split_plane(float *x, size_t n, size_t stride, struct cutting cut)
{
    return (struct plane){x, n, stride * sizeof *x, 1, sizeof *x, cut};
}

void split_floats(struct forward *f, float *x, size_t stride, struct cutting cut)
{
    struct plane plane = split_plane(x, f->n, stride, cut);
    if (split_of(f->model))
        split_gather(f, &plane, 1);
}

void split_stream(struct forward *f, bool x, bool y, bool z)
{
    float *const all[] = {x ? f->x : NULL, y ? f->y : NULL, z ? f->z : NULL};
    struct plane planes[MOST_PLANES];
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            planes[n++] = split_plane(all[i], f->n, f->dim_stride, cut_rows(f->model->dim));
    if (split_of(f->model) && n)
        split_gather(f, planes, n);
}

size_t split_planes(struct plane *planes, const struct act_buffer *b, size_t n, bool quantized,
                    struct cutting cut)
{
    size_t octets = ceil_div(cut.total, GROUP) * sizeof *b->octets;
    planes[0] = split_plane(b->x, n, b->stride, cut);
    if (!quantized)
        return 1;
    planes[0] =
        (struct plane){b->octets, ceil_div(n, OCTET), octets, GROUP, sizeof *b->octets, cut};
    if (n > 1)
        return 1;
    planes[0] = (struct plane){b->q, 1, 0, GROUP, GROUP, cut};
    planes[1] = (struct plane){b->scale, 1, 0, GROUP, sizeof *b->scale, cut};
    planes[2] = (struct plane){b->sum, 1, 0, GROUP, sizeof *b->sum, cut};
    return 3;
}

void split_rows(struct forward *f, const struct act_buffer *b, bool quantized, struct cutting cut)
{
    struct plane planes[MOST_PLANES];
    if (split_of(f->model))
        split_gather(f, planes, split_planes(planes, b, f->n, quantized, cut));
}

uint64_t split_token_bytes(const struct model *m)
{
    uint64_t n = 0;
    for (size_t l = 0; l < m->n_layers; l++) {
        const struct layer *w = &m->layers[l];
        size_t used = w->experts.n_used;
        size_t heads = w->n_heads ? layer_out_dim(w) : w->mix.out.k;
        size_t rows = used ? used * w->hidden + w->experts.shared_hidden : w->hidden;
        size_t group =
            type_is_quantized(w->down.type) ? GROUP + 2 * sizeof(float) : GROUP * sizeof(float);
        n += (heads + rows) / GROUP * group + 2 * m->dim * sizeof(float);
    }
    return n;
}

uint64_t split_bytes(const struct model *m, size_t n_batch, size_t n_logits)
{
    uint64_t most = 3 * m->dim, floats = sizeof(float);
    for (size_t l = 0; l < m->n_layers + m->n_mtp; l++) {
        const struct layer *w = &m->layers[l];
        size_t used = w->experts.n_used, heads = w->n_heads ? layer_out_dim(w) : 0;
        size_t rows =
            used * w->hidden + w->experts.shared_hidden; /* rows of experts fill up octets */
        most = max_size(most, max_size(heads + w->mix.out.k, used ? OCTET * rows : w->hidden));
    }
    if (!split_of(m))
        return 0;
    n_batch = round_up(n_batch, OCTET); /* which a few rows fill up */
    return max_size(n_batch * (most + SPLIT_UNIT), n_logits * m->vocab) * floats +
           MOST_MACHINES * sizeof(note_word);
}

/* ---- the end of a batch ---- */

/* Tells all what of any machine was not finite. */
static void agree(struct forward *f, note_word bad)
{
    machines_broadcast(&bad, sizeof bad);
    atomic_store(&f->bad, bad);
}

/* Logits of row number j that rank 0 wants: the best so many of each machine, or 0: all */
static size_t wanted(const struct forward *f, size_t j)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].flags & TERN_ROW_LOGITS && j-- == 0)
            return f->rows[i].best;
    return 0; /* those of the layer that guesses */
}

struct candidate {
    uint32_t id;
    float value;
};

/* Bytes of row j that machine r sends */
static size_t logits_bytes(const struct forward *f, size_t j, size_t r)
{
    const struct split *s = split_of(f->model);
    struct cutting cut = cut_rows(f->model->vocab);
    size_t n = split_at(s, cut, r + 1) - split_at(s, cut, r), best = wanted(f, j);
    return best ? min_size(best, n) * sizeof(struct candidate) : n * sizeof(float);
}

/* The n best of logits begin .. end - 1, best first; the lower id on ties */
static void put_best(char *part, const float *logits, size_t begin, size_t end, size_t n)
{
    struct candidate best[MOST_BEST];
    size_t have = 0;
    for (size_t i = begin; i < end && n; i++) {
        if (have == n && !(logits[i] > best[n - 1].value))
            continue;
        size_t at = have < n ? have++ : n - 1;
        for (; at > 0 && logits[i] > best[at - 1].value; at--)
            best[at] = best[at - 1];
        best[at] = (struct candidate){(uint32_t)i, logits[i]};
    }
    memcpy(part, best, n * sizeof *best);
}

/* Row j as this machine sends it */
static void put_logits(const struct forward *f, size_t j, char *part, size_t bytes)
{
    struct portion own = own_rows(f->model, f->model->vocab);
    const float *logits = f->logits + j * f->vocab_stride;
    if (wanted(f, j))
        put_best(part, logits, own.begin, own.end, bytes / sizeof(struct candidate));
    else
        memcpy(part, logits + own.begin, bytes);
}

/* And as rank 0 gets it from machine r. Of what was not sent, nothing is likelier than what was. */
static void take_logits(struct forward *f, size_t j, size_t r, const char *part, size_t bytes)
{
    const struct split *s = split_of(f->model);
    struct cutting cut = cut_rows(f->model->vocab);
    float *logits = f->logits + j * f->vocab_stride;
    size_t begin = split_at(s, cut, r), end = split_at(s, cut, r + 1);
    if (!wanted(f, j)) {
        memcpy(logits + begin, part, bytes);
        return;
    }
    for (size_t i = begin; i < end; i++)
        logits[i] = -INFINITY;
    for (; bytes; bytes -= sizeof(struct candidate), part += sizeof(struct candidate)) {
        struct candidate c;
        memcpy(&c, part, sizeof c);
        if (c.id < f->model->vocab)
            logits[c.id] = c.value;
    }
}

void split_finish(struct forward *f)
{
    const struct split *s = split_of(f->model);
    size_t at[MOST_MACHINES + 1] = {0};
    note_word bad = atomic_load(&f->bad), other;
    if (!s)
        return;
    for (size_t r = 0; r < s->n; r++) {
        at[r + 1] = at[r] + sizeof bad;
        for (size_t j = 0; j < f->n_logits && r; j++)
            at[r + 1] += logits_bytes(f, j, r);
    }
    char *part = f->travel + at[s->rank];
    memcpy(part, &bad, sizeof bad);
    part += sizeof bad;
    for (size_t j = 0, n; j < f->n_logits && s->rank; j++, part += n)
        put_logits(f, j, part, n = logits_bytes(f, j, s->rank));
    machines_collect(f->travel, at);
    for (size_t r = 1; r < s->n && !s->rank; r++) {
        part = f->travel + at[r];
        memcpy(&other, part, sizeof other);
        bad = bad ? bad : other;
        part += sizeof other;
        for (size_t j = 0, n; j < f->n_logits; j++, part += n)
            take_logits(f, j, r, part, n = logits_bytes(f, j, r));
    }
    agree(f, bad);
}

void split_guess(struct forward *f, tern_token *guess, bool *ends)
{
    int32_t words[2] = {*guess, *ends || forward_is_cancelled(f)};
    if (!split_of(f->model))
        return;
    machines_broadcast(words, sizeof words);
    *guess = words[0], *ends = words[1];
}

#endif
