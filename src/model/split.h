/* One model on several machines: which outputs this one computes, and how it gets the others'. Every
 * matrix is cut by output rows, so that no sum is ever split: the bits are those of one machine. On a
 * single machine all of it is its own, and the compiler leaves nothing of these functions.
 *
 *   q, k, v, attention   whole query heads, and the KV heads that they read
 *   recurrent mixers     whole heads, or channels of a convolution
 *   gate, up; experts    units of 32 rows
 *   o, down; the head    units of 32 rows
 *
 * What is small, or what every machine needs whole, all compute: norms, routers, the compressed rows of
 * latent attention, q and k where a norm goes over all of their heads, embeddings per layer.
 *
 * Four gathers a layer: before o and down its input (quantized, where the matrix reads that: 40 bytes
 * instead of 128 for 32 columns), after them the stream. */
#ifndef MODEL_SPLIT_H
#define MODEL_SPLIT_H

#include <stdbool.h>

#include "base/machines.h"
#include "base/sizes.h"
#include "model/state.h"

enum { SPLIT_UNIT = 32 }; /* rows: two tiles, and a group of what reads them */

/* Machine r computes the share until[r] .. until[r + 1] - 1 of until[n] */
struct split {
    size_t n, rank;
    uint64_t until[MOST_MACHINES + 1];
};

/* Outputs begin .. end - 1 of something are this machine's. */
struct portion {
    size_t begin, end;
};

/* The numbers of heads, `width` each, behind `from` others */
static inline struct portion portion_times(struct portion heads, size_t width, size_t from)
{
    return (struct portion){from + heads.begin * width, from + heads.end * width};
}

/* How `total` columns are cut: by whole units, of which the last may be shorter */
struct cutting {
    size_t unit, total;
};

/* NULL: the model is on one machine. */
static inline const struct split *split_of(const struct model *m)
{
#ifdef TERN_MPI
    return m->split;
#else
    (void)m;
    return NULL;
#endif
}

/* First column of machine `rank` */
static inline size_t split_at(const struct split *s, struct cutting c, size_t rank)
{
    uint64_t units = ceil_div(c.total, c.unit), all = s->until[s->n];
    return min_size((size_t)((units * s->until[rank] + all / 2) / all) * c.unit, c.total);
}

static inline struct portion own_columns(const struct model *m, struct cutting c)
{
    const struct split *s = split_of(m);
    if (s && split_at(s, c, s->rank) == split_at(s, c, s->rank + 1)) /* no tile either */
        return (struct portion){0, 0};
    return s ? (struct portion){split_at(s, c, s->rank), split_at(s, c, s->rank + 1)}
             : (struct portion){0, c.total};
}

/* ---- cuts ---- */

static inline struct cutting cut_rows(size_t rows)
{
    return (struct cutting){SPLIT_UNIT, rows};
}

static inline struct portion own_rows(const struct model *m, size_t rows)
{
    return own_columns(m, cut_rows(rows));
}

#ifdef TERN_MPI

/* Of what the query heads of a layer give, `width` numbers each; of what the heads of a recurrent mixer
 * give, or of a convolution's channels */
struct cutting cut_heads(const struct layer *w, size_t width);
struct cutting cut_states(const struct mixer *x);

/* Query heads, and the KV heads whose keys and values this machine makes and holds */
struct portion own_heads(const struct model *m, const struct layer *w);
struct portion own_kv(const struct model *m, const struct layer *w);

/* Heads of a recurrent mixer, and of its keys */
struct portion own_states(const struct model *m, const struct mixer *x);
struct portion own_keys(const struct model *m, const struct mixer *x);

/* A norm of the states over several heads waits for all of them. The gate comes then after it, or before. */
static inline bool norm_is_whole(const struct mixer *x)
{
    return x->v_heads && x->norm && x->norm_groups < x->v_heads;
}

static inline bool state_gate_is_whole(const struct mixer *x)
{
    return norm_is_whole(x) && x->norm_order == STATE_NORM_FIRST;
}

/* Items of a run over the tiles of these rows for n rows of a batch (linear.h) */
struct portion own_tiles(struct portion rows, size_t n);

/* profile_run over the items of `own` */
void run_own(struct forward *f, enum operation op, struct portion own, pool_fn fn, void *arg);

#else

static inline struct cutting cut_heads(const struct layer *w, size_t width)
{
    return (struct cutting){1, w->n_heads * width};
}

static inline struct cutting cut_states(const struct mixer *x)
{
    return (struct cutting){1, x->v_heads ? x->v_heads * x->v_dim : x->channels};
}

static inline struct portion own_heads(const struct model *m, const struct layer *w)
{
    (void)m;
    return (struct portion){0, w->n_heads};
}

static inline struct portion own_kv(const struct model *m, const struct layer *w)
{
    (void)m;
    return (struct portion){0, w->n_kv_heads};
}

static inline struct portion own_states(const struct model *m, const struct mixer *x)
{
    (void)m;
    return (struct portion){0, x->v_heads};
}

static inline struct portion own_keys(const struct model *m, const struct mixer *x)
{
    (void)m;
    return (struct portion){0, x->k_heads};
}

static inline struct portion own_tiles(struct portion rows, size_t n)
{
    return (struct portion){0, ceil_div(rows.end, n > 1 ? 2 * TILE_ROWS : TILE_ROWS)};
}

static inline void run_own(struct forward *f, enum operation op, struct portion own, pool_fn fn,
                           void *arg)
{
    profile_run(f->profile, op, f->pool, own.end, fn, arg);
}

#endif

/* ---- gathers ----
 *
 * The rows of the batch from all machines: of the stream, of y, of both; of att; of ffn as down reads
 * it. Where the model is on one machine: nothing. */
#ifdef TERN_MPI

struct plane { /* of n rows, `per` columns take so many bytes */
    void *base;
    size_t n, stride, per, bytes;
    struct cutting cut;
};

enum { MOST_PLANES = 4 };

/* Bytes that gathers of a batch take, and planes */
uint64_t split_bytes(const struct model *m, size_t n_batch, size_t n_logits);

/* Bytes that gathers of one token carry, of all machines together */
uint64_t split_token_bytes(const struct model *m);

/* n rows of floats */
struct plane split_plane(float *x, size_t n, size_t stride, struct cutting cut);

/* The machines' parts of the planes, to all of them */
void split_gather(struct forward *f, const struct plane *planes, size_t n);

/* The planes, at most MOST_PLANES, of n rows as a matrix reads them; returns how many. */
size_t split_planes(struct plane *planes, const struct act_buffer *b, size_t n, bool quantized,
                    struct cutting cut);

void split_stream(struct forward *f, bool x, bool y, bool z);
void split_floats(struct forward *f, float *x, size_t stride, struct cutting cut);
void split_rows(struct forward *f, const struct act_buffer *b, bool quantized, struct cutting cut);

/* Ends a batch: rank 0 gets the logits, and all agree on what was not finite. */
void split_finish(struct forward *f);

/* The guess that rank 0 has chosen, and whether it is the last */
void split_guess(struct forward *f, tern_token *guess, bool *ends);

#else

static inline void split_stream(struct forward *f, bool x, bool y, bool z)
{
    (void)f, (void)x, (void)y, (void)z;
}

static inline void split_floats(struct forward *f, float *x, size_t stride, struct cutting cut)
{
    (void)f, (void)x, (void)stride, (void)cut;
}

static inline void split_rows(struct forward *f, const struct act_buffer *b, bool quantized,
                              struct cutting cut)
{
    (void)f, (void)b, (void)quantized, (void)cut;
}

static inline void split_finish(struct forward *f)
{
    (void)f;
}

static inline void split_guess(struct forward *f, tern_token *guess, bool *ends)
{
    (void)f, (void)guess, (void)ends;
}

#endif

#endif
