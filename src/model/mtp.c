/* The layer that guesses: see mtp.h. */
#include "model/mtp.h"

#include <string.h>

#include "base/sizes.h"
#include "kernels/math.h"
#include "model/embed.h"
#include "model/forward.h"
#include "model/head.h"
#include "model/latent.h"
#include "model/linear.h"
#include "model/projections.h"
#include "model/residual.h"
#include "model/split.h"

static const struct layer *layer_of(const struct forward *f)
{
    return &f->model->layers[f->model->n_layers];
}

static float *join_of(const struct forward *f, size_t i)
{
    return f->join + i * f->join_stride;
}

/* ---- a pass: rows of this layer alone ---- */

/* What of the forward pass belongs to the model's own rows */
struct lent {
    struct row *rows;
    size_t n, n_logits;
    struct profile *profile;
    void (*watch)(void *arg, struct forward *f, size_t layer, enum watch_point at);
    void (*attend)(struct forward *f, const struct layer *w);
    int bad;
};

static struct lent lend(struct forward *f, size_t n)
{
    struct lent own = {f->rows,  f->n,      f->n_logits, f->profile,
                      f->watch, f->attend, atomic_exchange(&f->bad, 0)};
    f->rows = f->guess_rows, f->n = n, f->n_logits = 0;
    f->profile = NULL, f->watch = NULL, f->attend = NULL;
    return own;
}

/* A profile sees what this layer does since `begin` as one operation. */
static void note_time(struct forward *f, uint64_t begin)
{
    if (!f->profile)
        return;
    f->profile->ops[OP_GUESS].calls++;
    f->profile->ops[OP_GUESS].ns += clock_ns() - begin;
}

/* True when all values were finite. */
static bool take_back(struct forward *f, const struct lent *own)
{
    f->rows = own->rows, f->n = own->n, f->n_logits = own->n_logits;
    f->profile = own->profile, f->watch = own->watch, f->attend = own->attend;
    return atomic_exchange(&f->bad, own->bad) == 0;
}

static void join_items(void *arg, size_t begin, size_t end, int thread)
{
    struct forward *f = arg;
    const struct model *m = f->model;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *to = join_of(f, i), *h = to + m->dim;
        norm_row(f, to, f->x + i * f->dim_stride, &m->mtp_embed_norm, m->dim);
        norm_row(f, h, h, &m->mtp_hidden_norm, m->dim);
    }
}

struct in_job {
    struct forward *f;
    const struct input *in;
};

static void in_piece(void *arg, const struct piece *p)
{
    const struct in_job *job = arg;
    struct forward *f = job->f;
    linear(f, f->x + p->row * f->dim_stride, f->dim_stride, &f->model->mtp_in, p->begin, p->end,
           &p->act);
}

static void in_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct in_job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    in_tiles(&act, job->f->model->mtp_in.rows, begin, end, in_piece, arg, thread);
}

/* x = Win [norm_e(embed[t]) | norm_h(h)], h in the second half of join */
static void join(struct forward *f)
{
    const struct matrix *w = &f->model->mtp_in;
    struct input in = {.src = f->join,
                       .stride = f->join_stride,
                       .n = f->n,
                       .k = w->k,
                       .layer = layer_of(f)->index,
                       .quantize = type_is_quantized(w->type),
                       .floats = !type_is_quantized(w->type)};
    step_embed(f);
    pool_run(f->pool, f->n, join_items, f);
    input_prepare(f, &in);
    pool_run(f->pool, tile_items(w->rows, f->n), in_items, &(struct in_job){f, &in});
}

/* Makes the n rows in guess_rows, whose h lie in the second half of join: their keys and values */
static void make_keys(struct forward *f)
{
    const struct layer *w = layer_of(f);
    if (f->kernels->plain && !split_of(f->model)) {
        for (size_t i = 0; i < f->n; i++)
            plain_guess(f, &f->rows[i], join_of(f, i) + f->model->dim, f->y, NULL);
        return;
    }
    join(f);
    (w->latent.rank ? step_project_latent : step_project_qkv)(f, w);
}

/* The same, and logits of the last row, whose state g goes to y */
static void make_rows(struct forward *f)
{
    const struct model *m = f->model;
    size_t last = f->n - 1;
    f->n_logits = 1;
    if (f->kernels->plain && !split_of(f->model)) {
        f->n = last;
        make_keys(f);
        plain_guess(f, &f->rows[last], join_of(f, last) + m->dim, f->y, f->logits);
        return;
    }
    join(f);
    forward_layer(f, layer_of(f));
    memcpy(f->y, f->x + last * f->dim_stride, m->dim * sizeof *f->x);
    head_run(f, &m->mtp_norm);
    split_finish(f);
    norm_row(f, f->y, f->y, &m->mtp_norm, m->dim);
}

/* Row number n of guess_rows: a token, and the state before it, or zeros where that is unknown */
static void put_row(struct forward *f, size_t n, size_t seq, size_t position, tern_token token,
                    const float *h)
{
    size_t bytes = f->model->dim * sizeof *h;
    f->guess_rows[n] = (struct row){
        .seq = (uint32_t)seq, .position = (uint32_t)position, .token = token};
    if (h)
        memcpy(join_of(f, n) + f->model->dim, h, bytes);
    else
        memset(join_of(f, n) + f->model->dim, 0, bytes);
}

/* Rows next .. end - 1 of a sequence that are still to be made, at most `most`; all tokens are known. */
static size_t put_lag(struct forward *f, size_t seq, size_t end, size_t most)
{
    struct hidden *h = &f->cache->hidden;
    struct hidden_seq *s = &h->seqs[seq];
    size_t n = 0;
    for (; s->next < end && n < most; n++, s->next++)
        put_row(f, n, seq, s->next, f->cache->tokens[seq * f->cache->n_ctx + s->next],
                hidden_find(h, seq, s->next - 1));
    return n;
}

static void make_lag(struct forward *f, size_t seq, size_t end)
{
    size_t n;
    while ((n = put_lag(f, seq, end, f->n_batch)) > 0) {
        struct lent own = lend(f, n);
        make_keys(f);
        (void)take_back(f, &own);
    }
}

void mtp_catch_up(struct forward *f, size_t seq)
{
    if (f->model->n_mtp)
        make_lag(f, seq, f->cache->length[seq]);
}

/* ---- around a batch ---- */

/* The batch's rows of one sequence: from i on */
static size_t rows_together(const struct forward *f, size_t i)
{
    size_t n = 1;
    while (i + n < f->n && f->rows[i + n].seq == f->rows[i].seq)
        n++;
    return n;
}

void mtp_precede(struct forward *f)
{
    for (size_t i = 0, n; f->model->n_mtp && i < f->n; i += n) {
        size_t seq = f->rows[i].seq, length = f->cache->length[seq];
        n = rows_together(f, i);
        if (length + n > f->cache->hidden.seqs[seq].next + HIDDEN_LAG) {
            uint64_t begin = profile_begin(f->profile);
            make_lag(f, seq, length);
            note_time(f, begin);
        }
    }
}

/* h of row i of the batch: x through the final norm, in place */
static void final_items(void *arg, size_t begin, size_t end, int thread)
{
    struct forward *f = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *x = f->x + i * f->dim_stride;
        norm_row(f, x, x, &f->model->final_norm, f->model->dim);
    }
}

/* The batch's rows i .. i + n - 1 of a sequence become rows of this layer, if they are many; returns
 * how many rows are in work then. */
static size_t put_batch(struct forward *f, size_t i, size_t n, size_t at)
{
    struct hidden *h = &f->cache->hidden;
    size_t seq = f->rows[i].seq;
    struct hidden_seq *s = &h->seqs[seq];
    for (size_t j = i; n > HIDDEN_LAG && j < i + n; j++) {
        const struct row *row = &f->rows[j];
        if (row->position < s->next)
            continue;
        put_row(f, at++, seq, row->position, row->token,
                j > i ? f->x + (j - 1) * f->dim_stride : hidden_find(h, seq, row->position - 1));
        s->next = row->position + 1;
    }
    return at;
}

static void keep_states(struct forward *f, size_t i, size_t n)
{
    struct hidden *h = &f->cache->hidden;
    for (size_t j = n < HIDDEN_RING ? i : i + n - HIDDEN_RING; j < i + n; j++)
        memcpy(hidden_at(h, f->rows[j].seq, f->rows[j].position), f->x + j * f->dim_stride,
               f->model->dim * sizeof *f->x);
    hidden_put(h, f->rows[i].seq, f->rows[i].position + n);
}

void mtp_follow(struct forward *f)
{
    size_t made = 0;
    if (!f->model->n_mtp)
        return;
    uint64_t begin = profile_begin(f->profile);
    pool_run(f->pool, f->n, final_items, f);
    for (size_t i = 0, n; i < f->n; i += n) {
        n = rows_together(f, i);
        made = put_batch(f, i, n, made);
        keep_states(f, i, n);
    }
    if (made) {
        struct lent own = lend(f, made);
        make_keys(f);
        (void)take_back(f, &own);
    }
    note_time(f, begin);
}

/* ---- guesses ---- */

/* The most likely token and, in *sure, its probability */
static tern_token best(const struct forward *f, float *sure)
{
    size_t id = 0;
    for (size_t i = 1; i < f->model->vocab; i++)
        if (f->logits[i] > f->logits[id])
            id = i;
    *sure = math_exp(f->logits[id] - f->kernels->log_sum_exp(f->logits, f->model->vocab));
    return (tern_token)id;
}

bool mtp_row(struct forward *f, size_t seq, tern_token token, size_t ahead)
{
    struct hidden *h = &f->cache->hidden;
    size_t length = f->cache->length[seq], n = 0;
    const float *state = ahead ? f->y : length ? hidden_find(h, seq, length - 1) : NULL;
    if (!state || h->seqs[seq].first > length)
        return false;
    if (!ahead && length - min_size(length, h->seqs[seq].next) >= f->n_batch)
        make_lag(f, seq, length);
    if (!ahead)
        n = put_lag(f, seq, length, f->n_batch);
    put_row(f, n, seq, length + ahead, token, state);
    struct lent own = lend(f, n + 1);
    make_rows(f);
    return take_back(f, &own);
}

size_t mtp_guess(struct forward *f, size_t seq, tern_token token, size_t max, float least,
                 tern_token *guess, size_t *made)
{
    size_t n = 0;
    float all = 1, sure;
    uint64_t begin = profile_begin(f->profile);
    f->n_logits = 0;
    cache_extend(f->cache, seq, max);
    for (*made = 0; n < max && !forward_stops(f); n++) {
        if (!mtp_row(f, seq, n ? guess[n - 1] : token, n))
            break;
        ++*made;
        guess[n] = best(f, &sure);
        bool ends = (all *= sure) < least;
        split_guess(f, &guess[n], &ends);
        if (ends)
            break;
    }
    cache_commit(f->cache, seq, 0);
    note_time(f, begin);
    return n;
}
