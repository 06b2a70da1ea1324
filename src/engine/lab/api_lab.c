/* Tensors, fingerprints of single batches, costs, profiles and the observer: tern_lab.h. */
#include "engine/context.h"
#include "engine/meet.h"
#include "engine/lab/timeline.h"
#include "engine/lab/kept_row.h"
#include "tern_lab.h"

/* ---- tensors ------------------------------------------------------------------------------ */

size_t tern_model_n_tensors(const tern_model *m)
{
    return weights_count(m->model->weights);
}

void tern_model_tensor(const tern_model *m, size_t i, struct tern_tensor_info *info)
{
    *info = (struct tern_tensor_info){.name = ""};
    if (i >= tern_model_n_tensors(m))
        return;
    const struct tensor *t = weights_at(m->model->weights, i);
    *info = (struct tern_tensor_info){t->name,     t->type,  t->rows,    t->k,
                                      t->matrices, t->bytes, t->checksum};
}

void tern_model_layer(const tern_model *m, uint64_t layer, struct tern_layer_info *info)
{
    *info = (struct tern_layer_info){0};
    if (layer >= m->model->n_layers)
        return;
    const struct layer *w = &m->model->layers[layer];
    info->n_heads = w->n_heads, info->n_kv_heads = w->n_kv_heads, info->head_dim = w->head_dim;
    info->hidden = w->hidden, info->window = w->window, info->chunked = w->chunked;
    info->n_experts = w->experts.n, info->n_experts_used = w->experts.n_used;
    info->kv_rank = w->latent.rank, info->kv_shared = w->kv_from != 0;
    info->rope_dims = w->rope ? 2 * w->rope->half : 0;
    info->attn_scale = w->attn_scale, info->attn_cap = w->attn_cap, info->sinks = w->sinks;
    info->alibi = w->alibi;
    info->mixer = (unsigned)w->mixer, info->attn_gate = w->attn_gate.data != NULL;
    info->parallel = w->parallel, info->gated = w->gated, info->qk_norm = w->qk_norm != QK_NONE;
    info->attn_post_norm = w->attn_post_norm.weight != NULL;
    info->ffn_post_norm = w->ffn_post_norm.weight != NULL;
    info->qkv_clipped = w->qkv_clip > 0;
    info->learned_positions = m->model->positions != NULL;
}

/* ---- fingerprints ------------------------------------------------------------------------- */

void tern_fingerprint_begin(tern_context *c)
{
    xxh64_init(&c->hash, 0);
    c->hashed_rows = 0;
}

void tern_fingerprint_add(tern_context *c)
{
    for (size_t i = c->first_seen, n = i + c->n_seen; i < n; i++) {
        xxh64_update(&c->hash, &c->logit_position[i], sizeof *c->logit_position);
        xxh64_update(&c->hash, c->forward.logits + i * c->forward.vocab_stride,
                     c->model->model->vocab * sizeof(float));
        c->hashed_rows++;
    }
}

/* ---- costs and profiles ------------------------------------------------------------------- */

void tern_batch_cost(const tern_context *c, struct tern_cost *cost)
{
    struct profile_cost ops[N_OPERATIONS] = {{0}};
    *cost = (struct tern_cost){0};
    profile_cost(c->model->model, &c->cache, c->forward.rows, c->forward.n, ops);
    for (int i = 0; i < N_OPERATIONS; i++) {
        *(i == OP_ATTEND ? &cost->cache_bytes : &cost->weight_bytes) += ops[i].bytes;
        *(i == OP_ATTEND ? &cost->attention_macs : &cost->matmul_macs) += ops[i].macs;
    }
}

enum tern_status tern_profile_start(tern_context *c, struct tern_error *e)
{
    tern_profile_stop(c);
    return profile_open(&c->forward.profile, pool_threads(c->model->pool), e);
}

void tern_profile_stop(tern_context *c)
{
    timeline_close(c);
    profile_close(c->forward.profile);
    c->forward.profile = NULL;
}

size_t tern_profile(const tern_context *c, struct tern_op *ops, size_t max)
{
    const struct profile *p = c->forward.profile;
    size_t n = 0;
    for (size_t i = 0; p && i < N_OPERATIONS && n < max; i++)
        if (p->ops[i].calls)
            ops[n++] = (struct tern_op){.name = profile_name((enum operation)i),
                                        .calls = p->ops[i].calls,
                                        .seconds = (double)p->ops[i].ns * 1e-9,
                                        .wait_seconds = (double)p->ops[i].wait_ns * 1e-9,
                                        .bytes = p->cost[i].bytes,
                                        .macs = p->cost[i].macs};
    return n;
}

/* ---- looking inside ------------------------------------------------------------------------- */

static enum tern_status start_looking(tern_context *c, struct tern_error *e)
{
    enum tern_status s = meet_alone(c->model, "a look inside a model", e);
    return s || c->observer ? s : observe_open(&c->observer, &c->forward, &c->altered, e);
}

static void stop_looking(tern_context *c)
{
    if (c->observer && (c->observer->fn || c->observer->edit || c->observer->kept))
        return;
    observe_close(c->observer);
    c->observer = NULL;
}

enum tern_status tern_observe(tern_context *c, tern_observe_fn fn, void *arg, struct tern_error *e)
{
    enum tern_status s = start_looking(c, e);
    if (!s)
        c->observer->fn = fn, c->observer->fn_arg = arg;
    stop_looking(c);
    return s;
}

enum tern_status tern_edit(tern_context *c, tern_edit_fn fn, void *arg, struct tern_error *e)
{
    enum tern_status s = start_looking(c, e);
    if (!s)
        c->observer->edit = fn, c->observer->edit_arg = arg;
    stop_looking(c);
    return s;
}

enum tern_status tern_keep_terms(tern_context *c, int on, struct tern_error *e)
{
    enum tern_status s = start_looking(c, e);
    if (!s && on)
        s = kept_row_open(c->observer, e);
    else if (!s)
        kept_row_close(c->observer);
    stop_looking(c);
    return s;
}

int tern_altered(const tern_context *c)
{
    return c->altered;
}

void tern_rope_angles(const tern_context *c, uint32_t seq, uint64_t layer, uint32_t position,
                      float *cos, float *sin)
{
    const struct model *m = c->model->model;
    const struct rope_set *rope =
        layer < m->n_layers && seq < c->memory.n_seqs ? m->layers[layer].rope : NULL;
    if (rope)
        c->model->kernels.rope_angles(cos, sin,
                                      rope->far && c->cache.far[seq] ? rope->far : rope->inv_freq,
                                      rope->half, position, rope->factor);
}
