/* The graph of the transformer, defined: one row at a time, one thread, every operation in
 * canonical order, every feature. ref.c defines the kernels that are called here (kernels.h has
 * their formulas); the rest of src/model computes the same bits faster (forward.c). Start at
 * plain_rows, at the end, and read upwards.
 *
 * Shapes, with d = head_dim (latent attention: project_latent):
 *   x, h, y, z [dim]   q, att [n_heads, d]   k, v [n_kv_heads, d]   gate, up [hidden]
 *
 * ADDING A FEATURE: its line here first, where its place in the equations is. */
#include "model/plain.h"

#include <float.h>
#include <string.h>

#include "base/sizes.h"
#include "kernels/math.h"
#include "model/altup.h"
#include "model/ffn.h"
#include "model/kv_store.h"
#include "model/linear.h"
#include "model/moments.h"
#include "model/plain_mixer.h"
#include "model/ple.h"
#include "model/recurrence.h"
#include "model/residual.h"
#include "model/router.h"
#include "model/xielu.h"

/* y = W x + bias   W [rows, k], x [k], y [rows]. Integer formats read x as integers: q = round(x *
 * 127 / m) and a scale m / 127 for every 32 values, m their largest magnitude. */
void plain_matmul(struct forward *f, size_t l, float *y, const struct matrix *w, const float *x)
{
    const struct kernels *k = f->kernels;
    struct act_buffer in = f->plain.in;
    if (type_is_quantized(w->type))
        quantize_row(f, l, &in, 1, w->k, 0, 0, x, w->k);
    struct activations act = {
        .n = 1, .k = w->k, .stride = w->k, .x = x, .q = in.q, .scale = in.scale, .sum = in.sum};
    k->matmul[w->type](y, 0, w->data, 0, ceil_div(w->rows, TILE_ROWS), &act);
    if (w->bias)
        k->add(y, w->bias, w->rows);
}

/* h = norm(x), or x where there is no such norm; both [dim] */
static const float *normed(struct forward *f, const struct norm *norm)
{
    struct plain *p = &f->plain;
    if (!has_norm(norm))
        return p->x;
    norm_row(f, p->h, p->x, norm, f->model->dim);
    return p->h;
}

/* norm(x), rounded where the layer wants that: what its matrices read   [dim] */
static const float *input_of(struct forward *f, const struct layer *w, const struct norm *norm)
{
    const float *h = normed(f, norm);
    if (!w->round_inputs)
        return h;
    memmove(f->plain.h, h, f->model->dim * sizeof *h);
    round_row(f->plain.h, f->model->dim);
    return f->plain.h;
}

/* y = norm(y), rounded: the same of the inputs [n] of o and down */
static void inner_norm(struct forward *f, const struct layer *w, float *y, const struct norm *norm, size_t n)
{
    if (has_norm(norm))
        norm_row(f, y, y, norm, n);
    if (w->round_inputs)
        round_row(y, n);
}

/* x += residual_scale * y, or of norm(y) where y has a norm */
static void add_to_stream(struct forward *f, float *y, const struct norm *norm)
{
    const struct model *m = f->model;
    if (has_norm(norm))
        norm_row(f, y, y, norm, m->dim);
    if (m->residual_scale != 1)
        f->kernels->scale(y, m->residual_scale, m->dim);
    f->kernels->add(f->plain.x, y, m->dim);
}

/* ---- embedding ---- */

/* x = norm(embed[token] * embed_scale) (+ positions[position]), and the angles of RoPE:
 * cos[i], sin[i] of position * inv_freq[i], i < half, for every set */
static void embed(struct forward *f, const struct row *row)
{
    const struct model *m = f->model;
    const struct kernels *k = f->kernels;
    struct plain *p = &f->plain;
    k->get_row[m->embed.type](p->x, m->embed.data, m->dim, (size_t)row->token);
    if (m->embed_scale != 1)
        k->scale(p->x, m->embed_scale, m->dim);
    if (has_norm(&m->embed_norm))
        norm_row(f, p->x, p->x, &m->embed_norm, m->dim);
    if (m->positions)
        k->add(p->x, m->positions + row->position * m->dim, m->dim);
    for (size_t r = 0; r < m->n_ropes; r++) {
        const struct rope_set *set = &m->ropes[r];
        bool far = set->far && f->cache->far[row->seq];
        k->rope_angles(p->cos + r * p->rope_stride, p->sin + r * p->rope_stride,
                       far ? set->far : set->inv_freq, set->half, row->position, set->factor);
    }
}

/* Embeddings per layer: ple[l] = (norm(Win[l] x * in_scale) + embed[token][l] * embed_scale) * scale
 * [ple_dim] for every layer, from x before the first */
static void embed_layers(struct forward *f, const struct row *row)
{
    const struct model *m = f->model;
    const struct kernels *k = f->kernels;
    struct plain *p = &f->plain;
    size_t n = m->n_layers * m->ple_dim;
    plain_matmul(f, 0, p->ple, &m->ple_in, p->x);
    k->scale(p->ple, m->ple_in_scale, n);
    for (size_t l = 0; l < m->n_layers; l++)
        norm_row(f, p->ple + l * m->ple_dim, p->ple + l * m->ple_dim, &m->ple_norm, m->ple_dim);
    k->get_row[m->ple_embed.type](p->ple_row, m->ple_embed.data, n, ple_row_of(m, row->token));
    k->scale(p->ple_row, m->ple_embed_scale, n);
    k->add(p->ple, p->ple_row, n);
    k->scale(p->ple, m->ple_scale, n);
}

/* ---- attention ---- */

/* q = norm(q): over each head with weights [d] or [n_heads, d], or over all heads together */
static void norm_heads(struct forward *f, const struct layer *w, float *q, const struct norm *norm,
                       size_t n_heads)
{
    const struct kernels *k = f->kernels;
    size_t d = w->head_dim;
    float eps = f->model->norm_eps;
    if (w->qk_norm == QK_FULL && n_heads)
        k->rmsnorm(q, q, norm->weight, n_heads * d, eps);
    for (size_t h = 0; h < n_heads && w->qk_norm == QK_HEAD; h++)
        k->rmsnorm(q + h * d, q + h * d, norm->weight, d, eps);
    for (size_t h = 0; h < n_heads && w->qk_norm == QK_HEAD_LAYER; h++)
        k->layernorm(q + h * d, q + h * d, norm->weight + h * d, NULL, d, eps);
    for (size_t h = 0; h < n_heads && w->qk_norm == QK_SHARED_LAYER; h++)
        k->layernorm(q + h * d, q + h * d, norm->weight, norm->bias, d, eps);
}

/* RoPE: in every head, q[i] and q[i + half] turn by the angle of i */
static void turn_heads(struct forward *f, const struct layer *w, float *q, size_t n_heads)
{
    struct plain *p = &f->plain;
    if (!w->rope)
        return;
    size_t at = (size_t)(w->rope - f->model->ropes) * p->rope_stride;
    for (size_t h = 0; h < n_heads; h++)
        f->kernels->rope(q + h * w->head_dim, p->cos + at, p->sin + at, w->rope->half);
}

static void clip_heads(struct forward *f, const struct layer *w)
{
    struct plain *p = &f->plain;
    size_t n_kv = w->kv_from ? 0 : w->n_kv_heads * w->head_dim;
    f->kernels->clamp(p->q, w->qkv_clip, w->n_heads * w->head_dim);
    f->kernels->clamp(p->k, w->qkv_clip, n_kv);
    f->kernels->clamp(p->v, w->qkv_clip, n_kv);
}

/* Norms of q and k, where this is their place: before RoPE, or after it */
static void norm_qk(struct forward *f, const struct layer *w, bool last)
{
    if (w->qk_norm_last != last)
        return;
    norm_heads(f, w, f->plain.q, &w->q_norm, w->n_heads);
    norm_heads(f, w, f->plain.k, &w->k_norm, w->kv_from ? 0 : w->n_kv_heads);
}

/* q, k, v = Wq h, Wk h, Wv h, clamped, normed (or normed, clamped), turned (or turned, normed), q scaled by its position;
 * k and v into the cache at the row's position. A layer that reads the keys and values of an earlier one makes only q. */
static void project_qkv(struct forward *f, const struct layer *w, const struct row *row,
                        const float *h)
{
    struct plain *p = &f->plain;
    struct attention_scratch *s = &f->scratch->attention;
    size_t d = w->head_dim, l = w->index, n_kv = w->kv_from ? 0 : w->n_kv_heads;
    plain_matmul(f, l, p->q, &w->q, h);
    if (n_kv) {
        plain_matmul(f, l, p->k, &w->k, h);
        plain_matmul(f, l, p->v, &w->v, h);
    }
    if (w->qkv_clip > 0 && !w->clip_last)
        clip_heads(f, w);
    norm_qk(f, w, false);
    for (size_t i = 0; w->v_norm && i < n_kv; i++)
        f->kernels->rmsnorm(p->v + i * d, p->v + i * d, w->v_norm, d, f->model->norm_eps);
    if (w->qkv_clip > 0 && w->clip_last)
        clip_heads(f, w);
    turn_heads(f, w, p->q, w->n_heads);
    turn_heads(f, w, p->k, n_kv);
    norm_qk(f, w, true);
    if (f->model->q_scales && w->q_scaled)
        f->kernels->scale(p->q, q_scale_of(f->model, w, row->position), w->n_heads * d);
    for (size_t i = 0; i < n_kv; i++) {
        kv_store(f, l, row, i, true, p->k + i * d, d, s);
        kv_store(f, l, row, i, false, p->v + i * d, d, s);
    }
}

/* Latent attention: q, and the row of the cache (kernels sum as their formulas say)
 *   c = norm(Wdown h); [qn | qr] = Wq c of each head; q[i] = [Wk_up[i] qn[i] | turned qr[i]]
 *   k = [norm(k) | turned], k = Wk h: one row for all heads, whose first `rank` numbers are the value */
static void project_latent(struct forward *f, const struct layer *w, const struct row *row,
                           const float *h)
{
    struct plain *p = &f->plain;
    const struct latent *t = &w->latent;
    size_t d = w->head_dim, rotary = d - t->rank, step = t->nope + rotary, l = w->index;
    plain_matmul(f, l, p->k, &w->k, h);
    f->kernels->rmsnorm(p->k, p->k, t->k_norm, t->rank, t->eps);
    turn_heads(f, w, p->k + t->rank, 1);
    kv_store(f, l, row, 0, true, p->k, d, &f->scratch->attention);
    if (t->q_rank) {
        plain_matmul(f, l, p->v, &t->q_down, h);
        f->kernels->rmsnorm(p->v, p->v, t->q_norm, t->q_rank, t->eps);
    }
    plain_matmul(f, l, p->att, &w->q, t->q_rank ? p->v : h);
    for (size_t i = 0; i < w->n_heads; i++) {
        const struct matrix up = matrix_rows(&t->k_up, i, 0, t->rank);
        float *q = p->q + i * d;
        plain_matmul(f, l, p->A, &up, p->att + i * step);
        memcpy(q, p->A, t->rank * sizeof *q);
        memcpy(q + t->rank, p->att + i * step + t->nope, rotary * sizeof *q);
        turn_heads(f, w, q + t->rank, 1);
    }
    if (f->model->q_scales && w->q_scaled)
        f->kernels->scale(p->q, q_scale_of(f->model, w, row->position), w->n_heads * d);
}

/* att[i] = Wv_up[i] att[i] */
static void latent_values(struct forward *f, const struct layer *w)
{
    struct plain *p = &f->plain;
    const struct latent *t = &w->latent;
    for (size_t i = 0; i < w->n_heads; i++) {
        const struct matrix up = matrix_rows(&t->v_up, i, 0, t->value);
        plain_matmul(f, w->index, p->A, &up, p->att + i * t->rank);
        memcpy(p->q + i * t->value, p->A, t->value * sizeof *p->q);
    }
    memcpy(p->att, p->q, layer_out_dim(w) * sizeof *p->att);
}

/* A query head [d] in the form that scores of the cache's type read */
static struct queries query(struct forward *f, size_t l, const float *q, size_t d)
{
    const struct act_buffer *in = &f->plain.in;
    bool finite = f->cache->type == TERN_CACHE_Q8
                      ? f->kernels->quantize(in->q, in->scale, in->sum, q, d)
                      : f->kernels->in_range(q, d, FLT_MAX);
    if (!finite)
        mark_bad(f, l, BAD_QUERY);
    return (struct queries){.n = 1, .k = d, .x = q, .q = in->q, .scale = in->scale, .sum = in->sum};
}

/* v [256, rank] f32 of latent attention: the first dims of the keys that the row sees in a block */
static const float *keys_as_values(struct forward *f, const struct layer *w, const struct row *row,
                                   size_t at, const struct span *see)
{
    float *v = f->scratch->attention.wide, *key = v + BLOCK * w->head_dim;
    for (size_t j = see->lo; j < see->hi; j++) {
        kv_load(key, f->cache, w->index, row->seq, at + j, 0, true, w->head_dim);
        memcpy(v + j * w->latent.rank, key, w->latent.rank * sizeof *v);
    }
    return v;
}

/* att[h] = sum_j e_j v_j / sum_j e_j over the positions j that the row sees, where
 *   s_j = (q[h] . k_j + alibi) * attn_scale, capped;  e_j = exp(s_j - max s)
 * Blocks of 256 positions are summed one by one and merged in order: (m, l, a) are the largest
 * score, sum e and sum e v of a block, (M, L, A) of all blocks so far. A sink is a score without a
 * value, before the first block. Online softmax: Milakov and Gimelshein 2018. */
static void attend_head(struct forward *f, const struct layer *w, const struct row *row, size_t h)
{
    const struct kernels *k = f->kernels;
    struct plain *p = &f->plain;
    size_t d = w->head_dim, kv_head = h / (w->n_heads / w->n_kv_heads), v_dim = layer_v_dim(w);
    size_t end = (size_t)row->position + 1;
    size_t begin = cache_begin(f->cache, w, row->seq, row->position);
    float m, l, M = w->sinks ? w->sinks[h] : 0, L = 1;
    bool is_first = !w->sinks;
    struct span see;
    struct attend b = {.q = query(f, w->index, p->q + h * d, d), .v_dim = v_dim, .see = &see, .a_stride = v_dim};
    b.scale = w->attn_scale, b.softcap = w->attn_cap, b.scores = p->scores;
    b.m = &m, b.l = &l, b.a = p->a;
    struct alibi alibi = {w->alibi ? w->alibi[h] : 0, (float)row->position};
    b.alibi = w->alibi ? &alibi : NULL;
    memset(p->A, 0, v_dim * sizeof *p->A);
    for (size_t at = begin / BLOCK * BLOCK; at < end; at += BLOCK, is_first = false) {
        b.first = at;
        see.lo = (uint16_t)(max_size(begin, at) - at);
        see.hi = (uint16_t)(min_size(end, at + BLOCK) - at);
        b.k = cache_k(f->cache, w->index, row->seq, at, kv_head);
        b.v = w->latent.rank ? keys_as_values(f, w, row, at, &see)
                           : cache_v(f->cache, w->index, row->seq, at, kv_head);
        k->score[f->cache->type](&b);
        k->weigh(&b);
        k->mix[w->latent.rank ? TERN_CACHE_F32 : f->cache->type](&b);
        if (is_first)
            M = m, L = l, memcpy(p->A, p->a, v_dim * sizeof *p->A);
        else
            k->merge(&M, &L, p->A, m, l, p->a, v_dim);
    }
    k->divide(p->att + h * v_dim, p->A, L, v_dim);
}

/* att *= sigmoid(Wgate h), or softplus of it, value by value, or a number for each head */
static void gate_attention(struct forward *f, const struct layer *w, const float *h)
{
    struct plain *p = &f->plain;
    size_t d = layer_out_dim(w) / w->n_heads;
    plain_matmul(f, w->index, p->mix, &w->attn_gate, h);
    if (w->soft_gate) {
        soft_gate(p->att, p->mix, w->attn_gate.rows, w->n_heads * d / w->attn_gate.rows);
        return;
    }
    if (w->attn_gate.rows == w->n_heads * d)
        f->kernels->sigmoid(p->att, p->mix, w->attn_gate.rows);
    for (size_t i = 0; w->attn_gate.rows != w->n_heads * d && i < w->n_heads; i++)
        f->kernels->divide(p->att + i * d, p->att + i * d, 1 + math_exp(-p->mix[i]), d);
}

/* y = Wo attend(h) */
static void attention(struct forward *f, const struct layer *w, const struct row *row, float *y,
                      const float *h)
{
    (w->latent.rank ? project_latent : project_qkv)(f, w, row, h);
    for (size_t i = 0; i < w->n_heads; i++)
        attend_head(f, w, row, i);
    if (w->latent.rank)
        latent_values(f, w);
    if (w->attn_gate.data)
        gate_attention(f, w, h);
    inner_norm(f, w, f->plain.att, &w->out_norm, w->o.k);
    plain_matmul(f, w->index, y, &w->o, f->plain.att);
}

/* ---- feed-forward ---- */

/* y = Wdown (act(Wgate h) * (Wup h)), or Wdown act(Wup h) without a gate; Wgate h may be cut first */
static void feed_forward(struct forward *f, const struct layer *w, float *y, const float *h,
                         const struct matrix *gate, const struct matrix *up,
                         const struct matrix *down)
{
    struct plain *p = &f->plain;
    if (w->gated)
        plain_matmul(f, w->index, p->gate, gate, h);
    if (w->ffn_cutoff > NO_CUTOFF)
        moments_cut(p->gate, down->k, w->ffn_cutoff);
    plain_matmul(f, w->index, p->up, up, h);
    if (w->xielu)
        xielu_apply(p->up, p->up, down->k, w->xielu);
    else
        f->kernels->activate(p->up, w->gated ? p->gate : p->up, w->gated ? p->up : NULL, down->k,
                         f->model->activation, w->ffn_clamp);
    inner_norm(f, w, p->up, &w->down_norm, down->k);
    plain_matmul(f, w->index, y, down, p->up);
}

/* y += the expert that every row takes, normed where it has a norm, * sigmoid(switch . h) where it has
 * a switch */
static void add_shared_expert(struct forward *f, const struct layer *w, float *y, const float *h)
{
    const struct experts *x = &w->experts;
    struct plain *p = &f->plain;
    _Alignas(64) float on[TILE_ROWS];
    feed_forward(f, w, p->z, h, &x->shared_gate, &x->shared_up, &x->shared_down);
    if (has_norm(&x->shared_post_norm))
        norm_row(f, p->z, p->z, &x->shared_post_norm, f->model->dim);
    if (!x->shared_switch.data) {
        f->kernels->add(y, p->z, f->model->dim);
        return;
    }
    plain_matmul(f, w->index, on, &x->shared_switch, h);
    f->kernels->add_scaled(y, p->z, 1 / (1 + math_exp(-on[0])), f->model->dim);
}

/* y = sum over the chosen experts e, by ascending id, of weight[e] * ffn_e(h), or of ffn_e(weight[e] * h),
 * from 0. Where experts have norms of their own, the router and they read x through those, and the sum has
 * a norm. */
static void experts(struct forward *f, const struct layer *w, float *y, const float *h)
{
    const struct experts *x = &w->experts;
    struct plain *p = &f->plain;
    size_t dim = f->model->dim;
    bool own = has_norm(&x->in_norm);
    const float *in = own ? p->e : h;
    if (own) {
        norm_row(f, p->e, p->x, &x->in_norm, dim);
        norm_row(f, y, p->x, &x->router_norm, dim);
    }
    plain_matmul(f, w->index, p->scores, &x->router, own ? y : h);
    if (!f->kernels->in_range(p->scores, x->n, FLT_MAX))
        mark_bad(f, w->index, BAD_ROUTER);
    router_choose(x, p->scores, p->taken, p->chosen);
    memset(y, 0, dim * sizeof *y);
    for (size_t j = 0; j < x->n_used; j++) {
        size_t e = p->chosen[j].expert;
        struct matrix up = matrix_rows(&w->up, e, 0, w->hidden);
        struct matrix down = matrix_rows(&w->down, e, 0, dim);
        struct matrix gate = w->gated ? matrix_rows(&w->gate, e, 0, w->hidden) : up;
        float weight = p->chosen[j].weight;
        if (x->weigh_input) {
            memcpy(p->e, h, dim * sizeof *h);
            f->kernels->scale(p->e, weight, dim);
            in = p->e, weight = 1;
        }
        feed_forward(f, w, p->z, in, &gate, &up, &down);
        f->kernels->add_scaled(y, p->z, weight, dim);
    }
    if (own)
        norm_row(f, y, y, &x->post_norm, dim);
    if (x->shared_hidden)
        add_shared_expert(f, w, y, h);
}

/* ---- the layer's end ---- */

/* x += norm(Wout (act(Wgate x) * ple[l]));  x *= scale.  Of several streams, the others follow x, and
 * they get what the embedding adds, of which the gate reads x times a vector. */
static void end_layer(struct forward *f, const struct layer *w)
{
    struct plain *p = &f->plain;
    size_t d = f->model->ple_dim, dim = f->model->dim;
    bool several = f->model->n_streams;
    if (several)
        altup_correct(f, w, p->x, p->streams, dim, p->z);
    if (d) {
        plain_matmul(f, w->index, p->gate, &w->ple_gate, several ? p->z : p->x);
        f->kernels->activate(p->up, p->gate, p->ple + w->index * d, d, f->model->activation,
                             w->ffn_clamp);
        plain_matmul(f, w->index, p->y, &w->ple_out, p->up);
        if (several) {
            norm_row(f, p->y, p->y, &w->ple_post_norm, dim);
            altup_add(f, p->streams, dim, p->y);
        } else {
            add_to_stream(f, p->y, &w->ple_post_norm);
        }
    }
    if (w->scale)
        f->kernels->scale(p->x, *w->scale, dim);
}

/* ---- the graph ---- */

/* y = attention, a recurrent mixer or a short convolution of h; of the first two also the sum */
static void mix(struct forward *f, const struct layer *w, const struct row *row, const float *h)
{
    struct plain *p = &f->plain;
    if (w->mixer & MIX_ATTENTION)
        attention(f, w, row, w->mixer & MIX_RECURRENT ? p->z : p->y, h);
    if (w->mixer & MIX_RECURRENT)
        plain_recurrent(f, w, row, p->y, h);
    if (w->mixer & MIX_CONVOLUTION)
        plain_convolution(f, w, row, p->y, h);
    if (w->mixer == (MIX_ATTENTION | MIX_RECURRENT))
        f->kernels->add(p->y, p->z, f->model->dim);
}

/* x += mix(norm(x));  x += ffn(norm(x)).  A parallel layer feeds both from the same x. */
static void layer(struct forward *f, const struct layer *w, const struct row *row)
{
    struct plain *p = &f->plain;
    if (f->model->n_streams)
        altup_predict(f, w, p->x, p->streams, f->model->dim, p->h);
    if (w->laurel_left.data)
        plain_laurel(f, w, input_of(f, w, &w->attn_norm));
    if (w->mixer)
        mix(f, w, row, input_of(f, w, &w->attn_norm));
    if (w->mixer && !w->parallel)
        add_to_stream(f, p->y, &w->attn_post_norm);
    if (w->laurel_left.data)
        laurel_add(f, p->x, p->z);
    if (!w->hidden)
        return;
    const float *h = input_of(f, w, ffn_norm_of(w));
    if (w->parallel)
        add_to_stream(f, p->y, NULL);
    if (w->experts.n)
        experts(f, w, p->y, h);
    else
        feed_forward(f, w, p->y, h, &w->gate, &w->up, &w->down);
    add_to_stream(f, p->y, &w->ffn_post_norm);
}

/* logits = (Whead norm(x)) * logit_scale, capped   [vocab] */
static void head(struct forward *f, const struct norm *norm, float *logits)
{
    const struct model *m = f->model;
    const struct kernels *k = f->kernels;
    plain_matmul(f, m->n_layers, logits, &m->head, normed(f, norm));
    if (m->logit_scale != 1)
        k->scale(logits, m->logit_scale, m->vocab);
    if (!k->in_range(logits, m->vocab, FLT_MAX))
        mark_bad(f, m->n_layers, BAD_LOGIT);
    if (m->logit_cap > 0)
        k->softcap(logits, m->logit_cap, m->vocab);
}

/* The layer that guesses: x = layer(Win [norm(embed[token]) | norm(h)]), g = norm(x)   [dim] */
void plain_guess(struct forward *f, const struct row *row, const float *h, float *g, float *logits)
{
    const struct model *m = f->model;
    const struct layer *w = &m->layers[m->n_layers];
    struct plain *p = &f->plain;
    embed(f, row);
    norm_row(f, p->join, p->x, &m->mtp_embed_norm, m->dim);
    norm_row(f, p->join + m->dim, h, &m->mtp_hidden_norm, m->dim);
    plain_matmul(f, w->index, p->y, &m->mtp_in, p->join);
    memcpy(p->x, p->y, m->dim * sizeof *p->x);
    layer(f, w, row);
    if (logits)
        head(f, &m->mtp_norm, logits);
    norm_row(f, g, p->x, &m->mtp_norm, m->dim);
}

bool plain_rows(struct forward *f)
{
    const struct model *m = f->model;
    for (size_t i = 0, first = 0; i < f->n; i++) {
        if (i == 0 || f->rows[i].seq != f->rows[first].seq)
            recurrence_copy(f, f->rows[first = i].seq);
        embed(f, &f->rows[i]);
        if (m->ple_dim)
            embed_layers(f, &f->rows[i]);
        plain_spread(f);
        for (size_t l = 0; l < m->n_layers; l++) {
            if (forward_is_cancelled(f))
                return false;
            layer(f, &m->layers[l], &f->rows[i]);
            end_layer(f, &m->layers[l]);
        }
        recurrence_mark(f, f->rows[i].seq, i + 1 - first);
        if (f->rows[i].flags && m->n_streams)
            plain_merge(f);
        if (f->rows[i].flags & TERN_ROW_LOGITS)
            head(f, &m->final_norm, f->logits + f->n_logits++ * f->vocab_stride);
        if (m->n_mtp || f->rows[i].flags & TERN_ROW_HIDDEN) /* for mtp_follow, step_hidden */
            memcpy(f->x + i * f->dim_stride, f->plain.x, m->dim * sizeof *f->x);
    }
    return !forward_is_cancelled(f);
}
