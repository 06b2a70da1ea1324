/* What a machine needs of a weights file: see slices.h. */
#include "model/slices.h"

#ifdef TERN_MPI

#include <stdlib.h>

#include "kernels/formats.h"
#include "model/split.h"

enum { MOST_PORTIONS = 3 };

/* What of a tensor is needed: rows of each of its matrices, and which of these */
struct need {
    struct portion rows[MOST_PORTIONS]; /* ascending */
    size_t n;                           /* 0: all rows */
    struct portion matrices;
    bool tokens; /* a tied head: other rows are embeddings */
};

struct cutter {
    const struct model *m;
    struct need *needs; /* [n_tensors] */
};

/* ---- what is cut ---- */

static struct need *need_of(const struct cutter *c, const void *data)
{
    size_t low = 0, high = weights_count(c->m->weights);
    while (high - low > 1) { /* tensors lie in their order */
        size_t middle = low + (high - low) / 2;
        if ((const char *)weights_at(c->m->weights, middle)->data <= (const char *)data)
            low = middle;
        else
            high = middle;
    }
    return &c->needs[low];
}

/* Whole units of 32 rows, as a batch of several rows takes them */
static void cut(const struct cutter *c, const struct matrix *matrix, struct portion rows)
{
    if (!matrix->data)
        return;
    struct need *need = need_of(c, matrix->data);
    rows.begin = rows.begin / SPLIT_UNIT * SPLIT_UNIT;
    rows.end =
        rows.begin < rows.end ? min_size(round_up(rows.end, SPLIT_UNIT), matrix->rows) : rows.begin;
    need->rows[need->n++] = rows;
}

static void cut_own(const struct cutter *c, const struct matrix *matrix)
{
    cut(c, matrix, own_rows(c->m, matrix->rows));
}

static void cut_attention(const struct cutter *c, const struct layer *w)
{
    const struct latent *t = &w->latent;
    bool all = w->qk_norm == QK_FULL;
    if (!w->n_heads)
        return;
    struct portion heads = own_heads(c->m, w), kv = own_kv(c->m, w);
    if (!all)
        cut(c, &w->q, portion_times(heads, layer_q_dim(w), 0));
    cut_own(c, &w->o);
    cut(c, &w->attn_gate, portion_times(heads, w->attn_gate.rows / w->n_heads, 0));
    if (t->rank) {
        need_of(c, t->k_up.data)->matrices = heads;
        need_of(c, t->v_up.data)->matrices = heads;
    } else if (!w->kv_from) {
        if (!all)
            cut(c, &w->k, portion_times(kv, w->head_dim, 0));
        if (w->v.data != w->k.data)
            cut(c, &w->v, portion_times(kv, w->head_dim, 0));
    }
}

static void cut_mixer(const struct cutter *c, const struct mixer *x)
{
    if (!x->in.data)
        return;
    cut_own(c, &x->out);
    for (size_t i = 0; i < 3 && !x->v_heads; i++)
        cut(c, &x->in, portion_times(own_columns(c->m, cut_states(x)), 1, i * x->channels));
    if (!x->v_heads)
        return;
    struct portion heads = own_states(c->m, x), keys = own_keys(c->m, x);
    size_t width = x->k_heads * x->k_dim;
    cut(c, &x->in, portion_times(keys, x->k_dim, 0));
    cut(c, &x->in, portion_times(keys, x->k_dim, width));
    cut(c, &x->in, portion_times(heads, x->v_dim, 2 * width));
    if (!state_gate_is_whole(x))
        cut(c, &x->gate, portion_times(heads, x->v_dim, 0));
    cut(c, &x->decay, portion_times(heads, x->decay.rows / x->v_heads, 0));
    cut(c, &x->beta, heads);
}

static void cut_ffn(const struct cutter *c, const struct layer *w)
{
    const struct experts *x = &w->experts;
    if (w->ffn_cutoff <= NO_CUTOFF) { /* else all of gate counts */
        cut_own(c, &w->gate);
        cut_own(c, &x->shared_gate);
    }
    cut_own(c, &w->up);
    cut_own(c, &w->down);
    cut_own(c, &x->shared_up);
    cut_own(c, &x->shared_down);
}

static void cut_model(const struct cutter *c)
{
    const struct model *m = c->m;
    for (size_t l = 0; l < m->n_layers + m->has_mtp; l++) {
        cut_attention(c, &m->layers[l]);
        cut_mixer(c, &m->layers[l].mix);
        cut_ffn(c, &m->layers[l]);
    }
    cut_own(c, &m->head);
    need_of(c, m->head.data)->tokens = m->head.data == m->embed.data;
}

/* ---- slices ---- */

/* Bytes begin .. end - 1, behind those before, with which they may become one; false without memory */
static bool push(struct slices *s, uint64_t begin, uint64_t end, bool rare)
{
    enum { ROOM = 64 };
    struct slice *last = s->n ? &s->list[s->n - 1] : NULL;
    if (begin >= end)
        return true;
    if (last && begin < last->end + LAYOUT_TENSOR_ALIGN && last->rare == rare) {
        last->end = end > last->end ? end : last->end;
        return true;
    }
    if (s->n % ROOM == 0) {
        struct slice *more = realloc(s->list, (s->n + ROOM) * sizeof *more);
        if (!more)
            return false;
        s->list = more;
    }
    s->list[s->n++] = (struct slice){begin, end, rare};
    return true;
}

/* A matrix of the tensor, from byte `at` on */
static bool push_matrix(struct slices *s, const struct tensor *t, const struct need *need,
                        uint64_t at)
{
    uint64_t tile = format_tile_bytes(format_find(t->type), (size_t)t->k);
    uint64_t end = at + ceil_div((size_t)t->rows, TILE_ROWS) * tile, done = at;
    bool fits = true;
    for (size_t i = 0; i < need->n; i++) {
        uint64_t a = at + need->rows[i].begin / TILE_ROWS * tile;
        uint64_t b = at + ceil_div(need->rows[i].end, TILE_ROWS) * tile;
        fits &= !need->tokens || push(s, done, a, true);
        fits &= push(s, a, b, false);
        done = b;
    }
    return fits && (!(need->tokens || !need->n) || push(s, done, end, need->tokens));
}

static bool push_tensor(struct slices *s, const struct tensor *t, const struct need *need)
{
    uint64_t one = t->bytes / t->matrices;
    bool fits = true;
    for (size_t i = need->matrices.begin; i < need->matrices.end && fits; i++)
        fits = push_matrix(s, t, need, t->offset + i * one);
    return fits;
}

enum tern_status slices_find(struct model *m, struct tern_error *e)
{
    size_t n = weights_count(m->weights);
    struct cutter c = {m, calloc(n, sizeof *c.needs)};
    struct slices s = {NULL, 0};
    bool fits = c.needs != NULL;
    for (size_t i = 0; i < n && fits; i++)
        c.needs[i].matrices.end = (size_t)weights_at(m->weights, i)->matrices;
    if (fits)
        cut_model(&c);
    for (size_t i = 0; i < n && fits; i++)
        fits = push_tensor(&s, weights_at(m->weights, i), &c.needs[i]);
    free(c.needs);
    if (fits)
        return weights_take_slices(m->weights, s, e);
    free(s.list);
    return error_memory(e, "the list of this machine's weights", n * sizeof *c.needs);
}

#endif
