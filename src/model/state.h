/* The state of the forward pass: the batch, the activations between its steps, and who watches. All
 * memory is settled by state_open; running a batch allocates nothing and cannot fail. */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "model/act_buffer.h"
#include "model/attention.h"
#include "model/cache.h"
#include "model/experts.h"
#include "model/latent.h"
#include "model/model.h"
#include "model/plain.h"
#include "model/profile.h"

struct row { /* one token of the batch */
    uint32_t seq, position;
    tern_token token;
    unsigned flags; /* TERN_ROW_LOGITS, TERN_ROW_HIDDEN */
    bool within;    /* of a text being made: the end of such rows is not that of a prompt */
    bool trial;     /* a guess, behind all rows of its sequence that are none */
#ifdef TERN_MPI
    uint16_t best; /* the logits that are wanted: the best so many of each machine (MOST_BEST); 0: all */
#endif
};

#ifdef TERN_MPI
enum { MOST_BEST = 128 };
#endif

/* What each thread has for itself. */
struct scratch {
    struct act_buffer in; /* one row: the input of a step when the batch is one row */
    uint64_t has_input;   /* its number; 0: none */
    float *gate, *up;     /* [gate_floats]: some columns of the rows that go together */
    float *ple_row;       /* [n_layers, ple_dim] a token's embedding of each layer */
    struct attention_scratch attention;
    struct latent_scratch latent;
};

/* Where somebody may look. A step calls state_watch with what it is about to read, or has made. */
enum watch_point {
    WATCH_ATTENTION, /* about to be read: x, through the norm of q, k and v */
    WATCH_OUT,       /*   att */
    WATCH_FFN,       /*   x, through the norm of gate and up */
    WATCH_DOWN,      /*   ffn */
    WATCH_LATENT,    /*   v, the compressed rows that q is made of */
    WATCH_PLE,       /*   x, where the layer adds its own embedding or has a scale */
    WATCH_PLE_OUT,   /*   ffn, gated by it */
    WATCH_PLE_IN,    /*   z, that its gate reads where there are several streams */
    WATCH_MIX_OUT,   /*   att, what a mixer beside attention made */
    WATCH_HEADS,     /*   att, that the value matrices of latent attention read, a head each */
    WATCH_LAUREL,    /*   ffn, the narrow row of the learned residual */
    WATCH_EMBED,     /*   x, before the first layer, where it becomes more than that */
    WATCH_STREAMS,   /*   x and the other streams, to be mixed or, after the last layer, joined */
    /* those above are the inputs of matrices, which calibrate.c counts */
    WATCH_ATTEND,    /*   q, k, v */
    WATCH_EXPERTS,   /*   the choice of experts */
    WATCH_EXPERT,    /*   what each expert gives, before its weight */
    WATCH_ATTN_POST, /* made: y, or what waits (ffn.h) where attention and feed-forward are parallel */
    WATCH_FFN_POST,  /*   y */
    WATCH_PLE_POST,  /*   y, what that embedding gives, before its norm */
    WATCH_LOGITS,    /*   logits, and in y the rows that asked for them */
};

struct forward {
    const struct model *model;
    const struct kernels *kernels;
    struct pool *pool;
    struct cache *cache;
    size_t n_batch, most_logits;
    struct profile *profile; /* borrowed; NULL: nobody measures */

    struct row *rows; /* [n_batch] */
    size_t n, n_logits;
    bool if_finite;  /* a batch in which a value is not finite leaves the sequences as they were */
    size_t n_hidden; /* rows of x that were asked for, left at its front after the final norm */

    float *x, *y;     /* [n_batch, dim] residual stream; what a step adds to it */
    float *z;         /* [n_batch, dim] and what a parallel step or a shared expert adds; or NULL */
    float *q, *k, *v; /* [n_batch, heads * head_dim] */
    float *att;       /* [n_batch, n_heads * head_dim] */
    float *mix, *conv; /* [n_batch, channels] what a mixer's convolution reads, and makes; mix also
                            * the gate of attention. NULL, like the next, if no layer has one */
    float *mix_gate;   /* [n_batch, v_heads * v_dim] */
    float *decay, *beta;    /* [n_batch, v_heads * n_decay], [n_batch, v_heads] */
    struct row *again_rows; /* [n_batch] rows that are run again from the log, */
    bool again;             /* which is under way */
    float *streams;   /* [n_batch, n_streams, dim_stride] of altup.h; NULL: x is the only one */
    float *ple;       /* [n_batch, ple_stride] each layer's own embedding: [n_layers, ple_dim] */
    struct act_buffer in;   /* [n_batch, ...] input of a step */
    struct row *guess_rows; /* [n_batch] rows of the layer that guesses (mtp.h), and */
    float *join;            /* [n_batch, join_stride] what it reads; NULL without one */
    struct act_buffer ffn;  /* [n_batch, hidden] input of the down projection */
    float *gate, *up; /* [n_batch, ffn.stride] what ffn was made of, if somebody watches; or NULL */
    float *rope_cos, *rope_sin; /* [n_ropes, n_batch, rope_stride] */
    float *logits;              /* [most_logits, vocab_stride] */
    size_t mix_stride, conv_stride, decay_stride, number_stride, join_stride;
    size_t dim_stride, q_stride, kv_stride, rope_stride, vocab_stride, ple_stride;
    size_t gate_floats;
    uint64_t n_inputs;       /* that steps have prepared */
    struct scratch *scratch; /* [threads] */
    struct attention attention;
    struct expert_work experts;
    struct plain plain;

    /* Called at each watch_point of each layer that it has, and with layer n_layers after the last
     * (WATCH_ATTENTION, x before the final norm; WATCH_LOGITS); NULL: nobody looks. Who only looks
     * changes nothing but `cancel`; engine/lab/surgery.h says what an editor may change. */
    void (*watch)(void *arg, struct forward *f, size_t layer, enum watch_point at);
    void *watch_arg;

    /* In the place of step_attend, if somebody asked for it (lab/attention_use.c); or NULL */
    void (*attend)(struct forward *f, const struct layer *w);
    struct zoo_use *attend_with;

#ifdef TERN_MPI
    char *travel; /* what gathers of a batch take */
    bool stopped; /* all machines agree that the batch is cancelled */
    /* While a half of a long batch waits for the others, the other half is evaluated (halves.h). */
    struct halves *halves; /* NULL: batches are evaluated whole */
    int half;              /* 0: the front or all, 1: the rear */
    bool in_halves;        /* now */
#endif

    struct arena arena;        /* owns all of the above */
    struct arena attend_arena; /* owns attend_with */
    atomic_int cancel;         /* enum forward_cancel */
    atomic_int bad; /* 0, or 1 + N_BAD * layer + enum bad_step, of the first value out of range */
};

/* What attention made becomes q, whose heads are read no more, and the other way round. */
static inline void state_swap_heads(struct forward *f)
{
    float *att = f->q;
    f->q = f->att, f->att = att;
}

enum forward_cancel { FORWARD_CANCEL = 1, FORWARD_HELD = 2 };

static inline bool forward_is_cancelled(struct forward *f)
{
    return atomic_load(&f->cancel) == FORWARD_CANCEL;
}

/* The same while a batch is evaluated: all machines stop at the same place. */
static inline bool forward_stops(struct forward *f)
{
#ifdef TERN_MPI
    if (f->model->split)
        return f->stopped;
#endif
    return forward_is_cancelled(f);
}

/* What is to be evaluated whole or not at all: a cancel waits from hold, which says whether it did
 * already, to release, which says whether one came. */
static inline bool forward_hold(struct forward *f)
{
    return atomic_fetch_or(&f->cancel, FORWARD_HELD) & FORWARD_HELD;
}

static inline bool forward_release(struct forward *f)
{
    return atomic_exchange(&f->cancel, 0) & FORWARD_CANCEL;
}

enum bad_step { BAD_KEY, BAD_VALUE, BAD_INPUT, BAD_LOGIT, BAD_QUERY, BAD_ROUTER, N_BAD };

static inline void mark_bad(struct forward *f, size_t l, enum bad_step step)
{
    int none = 0;
    atomic_compare_exchange_strong(&f->bad, &none, 1 + N_BAD * (int)l + (int)step);
}

/* Bytes that state_open would take; UINT64_MAX when that does not fit. */
uint64_t state_bytes(const struct model *m, size_t n_ctx, size_t n_batch, size_t n_logits,
                     int n_threads);

enum tern_status state_open(struct forward *f, const struct model *m, const struct kernels *k,
                            struct pool *pool, struct cache *cache, size_t n_batch,
                            size_t n_logits, struct tern_error *e);
void state_close(struct forward *f);

/* Shows the state to who watches, if anybody does. `layer` is n_layers before the first layer
 * (WATCH_EMBED) and after the last. */
void state_watch(struct forward *f, size_t layer, enum watch_point at);

#endif
