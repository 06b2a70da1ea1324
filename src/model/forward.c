/* The transformer on one page: layer and forward_run. plain.c defines every step of it. */
#include "model/forward.h"

#include <stdbool.h>

#include "model/altup.h"
#include "model/embed.h"
#include "model/ffn.h"
#include "model/halves.h"
#include "model/head.h"
#include "model/latent.h"
#include "model/linear.h"
#include "model/mtp.h"
#include "model/ple.h"
#include "model/plain.h"
#include "model/projections.h"
#include "model/recurrence.h"
#include "model/residual.h"
#include "model/split.h"

static void layer(struct forward *f, const struct layer *w)
{
    step_predict(f, w); /* x, of several streams, from all of them */
    step_laurel(f, w);  /* z = h + norm(h Wleft Wright), h = norm(x), if it has them */
    if (w->mixer & MIX_ATTENTION) {
        /* q, k, v = norm(x) Wq, Wk, Wv; RoPE; cache K, V */
        (w->latent.rank ? step_project_latent : step_project_qkv)(f, w);
        (f->attend ? f->attend : step_attend)(f, w); /* att = softmax(q K^T * scale) V, by heads */
        if (w->latent.rank)
            step_latent_values(f, w); /* att = att Wup_v, by heads */
        step_gate_attention(f, w);           /* att *= sigmoid(norm(x) Wgate), if it has one */
        step_inner_norm(f, w, &w->out_norm); /* att = norm(att), rounded, if it has one */
        step_project_out(f, w);              /* y = att Wo; x += y */
    }
    if (w->mixer & ~(size_t)MIX_ATTENTION) {
        step_project_mixer(f, w); /* mix, gate, decay, beta = norm(x) W... */
        step_convolve(f, w);      /* q, k, v = silu(conv(mix)); or conv(B * x) */
        step_recur(f, w);         /* att = gated norm(q S), S of each row; or C * conv */
        step_mix_out(f, w);       /* y = att Wout (+ what attention made); x += y */
    }
    if (w->mixer)
        step_post_norm(f, &w->attn_post_norm); /* or, where y has a norm: x += norm(y) */
    else
        state_watch(f, w->index, WATCH_ATTENTION);
    step_add_laurel(f, w); /* x = (x + z) / sqrt(2) */
    if (w->experts.n) {
        step_experts(f, w); /* y = sum over the chosen experts e of weight[e] * ffn_e(norm(x)) */
    } else if (w->hidden) {
        step_gate_up(f, w);                   /* ffn = act(norm(x) Wgate) * (norm(x) Wup) */
        step_inner_norm(f, w, &w->down_norm); /* ffn = norm(ffn), rounded, if it has one */
        step_project_down(f, w);              /* y = ffn Wdown; x += y */
    }
    if (w->hidden)
        step_post_norm(f, &w->ffn_post_norm);
    if (w->ple_gate.data || w->scale || f->model->n_streams)
        state_watch(f, w->index, WATCH_PLE);
    step_correct(f, w); /* the other streams follow x */
    step_ple(f, w);     /* x += norm((act(x Wgate) * ple) Wout), ple: this layer's own embedding */
    step_scale(f, w);   /* x *= scale */
}

void forward_layer(struct forward *f, const struct layer *w)
{
    layer(f, w);
}

/* First row after `i` that belongs to another sequence. */
static size_t sequence_end(const struct forward *f, size_t i)
{
    size_t end = i + 1;
    while (end < f->n && f->rows[end].seq == f->rows[i].seq)
        end++;
    return end;
}

static void extend_sequences(struct forward *f)
{
    for (size_t i = 0, end; i < f->n; i = end) {
        end = sequence_end(f, i);
        cache_extend(f->cache, f->rows[i].seq, end - i);
        bool is_prompt = end - i > 1 && f->rows[end - 1].flags && !f->rows[end - 1].within;
        recurrence_begin(f, f->rows[i].seq, end - i, is_prompt);
    }
}

static void commit_sequences(struct forward *f, bool done)
{
    for (size_t i = 0, end; i < f->n; i = end) {
        end = sequence_end(f, i);
        if (f->cache->recurrent.state_floats)
            recurrent_end(&f->cache->recurrent, f->rows[i].seq, done);
        cache_commit(f->cache, f->rows[i].seq, done ? end - i : 0);
    }
}

/* The rows of a batch, or half of them, from embedding to x */
static void through_layers(void *arg)
{
    struct forward *f = arg;
    profile_layer(f->profile, f->model->n_layers);
    step_embed(f);
    if (f->model->ple_dim || f->model->n_streams)
        state_watch(f, f->model->n_layers, WATCH_EMBED);
    step_embed_layers(f);
    step_spread(f);
    for (size_t l = 0; l < f->model->n_layers && !forward_stops(f); l++) {
        profile_layer(f->profile, l);
        layer(f, &f->model->layers[l]);
    }
    profile_layer(f->profile, f->model->n_layers);
    if (!forward_stops(f))
        step_merge(f);
}

/* All rows at once, layer by layer. False when it was cancelled. */
static bool all_rows(struct forward *f)
{
    if (!halves_run(f, through_layers))
        through_layers(f);
    bool done = !forward_stops(f);
    if (done)
        step_logits(f);
    return done;
}

enum tern_status forward_run(struct forward *f)
{
    f->n_logits = f->n_hidden = 0;
    linear_cut(f);
    mtp_precede(f);
    extend_sequences(f);
    /* Who watches sees all rows of a step at once, a profile times the steps, and other attention
     * replaces one: not plain's. */
    bool plain = f->kernels->plain && !f->watch && !f->profile && !f->attend && !split_of(f->model);
    bool ran = plain ? plain_rows(f) : all_rows(f);
    bool done = ran && !(f->if_finite && atomic_load(&f->bad));
    if (done) {
        mtp_follow(f);
        step_hidden(f);
    } else {
        f->n_logits = 0;
    }
    if (!ran)
        atomic_store(&f->cancel, 0);
    commit_sequences(f, done);
    return done ? TERN_OK : ran ? TERN_LIMIT : TERN_CANCELLED;
}
