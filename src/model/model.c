/* Tensor names to shape-checked matrices: see model.h and FORMAT.md. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/keys.h"
#include "kernels/formats.h"
#include "model/config.h"

enum { ANY_TYPE = (1 << N_TYPES) - 1 };

enum { NO_LAYER = -1 };

/* What a matrix must be: a row of the table of FORMAT.md, "Tensor directory" */
struct slot {
    const char *part;
    size_t rows, k, matrices; /* matrices 0: there is none */
    bool has_bias;
    struct matrix *to;
};

struct binder {
    struct model *m;
    int layer; /* or NO_LAYER */
    model_wants_fn wants; /* NULL: tensors are bound; else only named to it */
    void *arg;
    enum tern_status status;
    struct tern_error *e;
};

static void bind(struct binder *b, const char *part, const char *suffix, unsigned types,
                 size_t rows, size_t k, size_t matrices, const struct tensor **out)
{
    char name[64];
    if (b->status)
        return;
    if (b->layer == NO_LAYER)
        snprintf(name, sizeof name, "%s%s", part, suffix);
    else
        snprintf(name, sizeof name, "layer.%d.%s%s", b->layer, part, suffix);
    if (b->wants)
        b->wants(b->arg, &(struct tensor_want){name, types, rows, k, matrices});
    else
        b->status = weights_bind(b->m->weights, name, types, rows, k, matrices, out, b->e);
}

/* A vector [n] where `there` says so */
static void bind_vector(struct binder *b, const char *part, const char *suffix, size_t there,
                        size_t n, const float **out)
{
    const struct tensor *t = NULL;
    if (there)
        bind(b, part, suffix, 1 << TERN_F32, n, 1, 1, &t);
    *out = t && !b->status ? t->data : NULL;
}

static void bind_norm(struct binder *b, const char *part, size_t there, size_t n, struct norm *out)
{
    bind_vector(b, part, "", there, n, &out->weight);
    bind_vector(b, part, "_bias", there && b->m->norm_bias, n, &out->bias);
}

/* Experts have their biases one after another: [matrices * rows] */
static void bind_matrix(struct binder *b, const struct slot *s, unsigned types)
{
    const struct tensor *t = NULL;
    if (!s->matrices)
        return;
    bind(b, s->part, "", types, s->rows, s->k, s->matrices, &t);
    if (t && !b->status)
        *s->to = (struct matrix){t->data, t->type, s->rows, s->k, NULL};
    bind_vector(b, s->part, "_bias", s->has_bias, s->matrices * s->rows, &s->to->bias);
}

static void bind_attention(struct binder *b, struct layer *w, const struct shape *c)
{
    size_t dim = b->m->dim, q = c->n_heads * c->head_dim, k = c->n_kv_heads * c->head_dim;
    bool own = !c->kv_from;
    const struct slot slots[] = {
        {"q", q, dim, 1, c->attn_bias & BIAS_Q, &w->q},
        {"k", k, dim, own, c->attn_bias & BIAS_K, &w->k},
        {"v", k, dim, own && !c->v_from_k, c->attn_bias & BIAS_V, &w->v},
        {"o", dim, q, 1, c->attn_bias & BIAS_O, &w->o},
    };
    if (!(c->mixer & MIX_ATTENTION))
        return;
    bool full = c->qk_norm == QK_FULL || c->qk_norm == QK_HEAD_LAYER;
    bool bias = c->qk_norm == QK_SHARED_LAYER;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        bind_matrix(b, &slots[i], ANY_TYPE);
    if (c->v_from_k)
        w->v = w->k;
    bind_vector(b, "q_norm", "", c->qk_norm, full ? q : c->head_dim, &w->q_norm.weight);
    bind_vector(b, "k_norm", "", own ? c->qk_norm : 0, full ? k : c->head_dim, &w->k_norm.weight);
    bind_vector(b, "q_norm", "_bias", bias, c->head_dim, &w->q_norm.bias);
    bind_vector(b, "k_norm", "_bias", own && bias, c->head_dim, &w->k_norm.bias);
    bind_vector(b, "v_norm", "", c->v_norm, c->head_dim, &w->v_norm);
    bind_vector(b, "sinks", "", c->sinks, c->n_heads, &w->sinks);
}

static void bind_latent(struct binder *b, struct layer *w, const struct shape *c)
{
    size_t dim = b->m->dim, q = c->n_heads * (c->nope_dim + c->head_dim - c->kv_rank);
    struct latent *t = &w->latent;
    const struct slot slots[] = {
        {"q_down", c->q_rank, dim, c->q_rank != 0, false, &t->q_down},
        {"q", q, c->q_rank ? c->q_rank : dim, 1, false, &w->q},
        {"k", c->head_dim, dim, 1, false, &w->k},
        {"k_up", c->kv_rank, c->nope_dim, c->n_heads, false, &t->k_up},
        {"v_up", c->value_dim, c->kv_rank, c->n_heads, false, &t->v_up},
        {"o", dim, c->n_heads * c->value_dim, 1, false, &w->o},
    };
    t->rank = c->kv_rank, t->q_rank = c->q_rank, t->nope = c->nope_dim, t->value = c->value_dim;
    t->eps = c->latent_eps > 0 ? c->latent_eps : b->m->norm_eps;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        bind_matrix(b, &slots[i], ANY_TYPE);
    bind_vector(b, "q_down_norm", "", c->q_rank, c->q_rank, &t->q_norm);
    bind_vector(b, "k_norm", "", 1, c->kv_rank, &t->k_norm);
    bind_vector(b, "sinks", "", c->sinks, c->n_heads, &w->sinks);
}

/* A recurrent mixer or a short convolution, and where its state and log lie */
static void bind_mixer(struct binder *b, struct layer *w, const struct shape *c)
{
    struct model *m = b->m;
    struct mixer *x = &w->mix;
    bool recurs = c->mixer & MIX_RECURRENT, delta = recurs && c->rule == RULE_DELTA;
    size_t dim = m->dim, value = c->v_heads * c->v_dim, key = c->k_heads * c->k_dim;
    size_t n_decay = c->state_decay ? c->k_dim : 1, decays = c->v_heads * n_decay;
    if (c->mixer <= MIX_ATTENTION)
        return;
    *x = (struct mixer){.rule = (enum recurrence_rule)c->rule,
                        .width = c->conv_width,
                        .channels = recurs ? 2 * key + value : dim,
                        .in_place = recurs ? 0 : 2 * dim,
                        .norm_order = (enum state_norm)c->state_norm,
                        .norm_groups = delta ? c->v_heads : c->norm_groups,
                        .sigmoid = c->state_gate,
                        .norm_eps = c->state_norm_eps > 0 ? c->state_norm_eps : m->norm_eps,
                        .beta_scale = c->beta_scale,
                        .decay_floor = c->decay_floor,
                        .n_decay = n_decay};
    if (recurs)
        x->k_heads = c->k_heads, x->v_heads = c->v_heads, x->k_dim = c->k_dim, x->v_dim = c->v_dim;
    const struct slot slots[] = {
        {"mix_in", recurs ? x->channels : 3 * dim, dim, 1, c->mix_bias & MIX_BIAS_IN, &x->in},
        {"mix_gate_down", c->gate_rank, dim, recurs && c->gate_rank, false, &x->gate_down},
        {"mix_gate", value, c->gate_rank ? c->gate_rank : dim, recurs, c->mix_bias & MIX_BIAS_GATE,
         &x->gate},
        {"mix_out", dim, recurs ? value : dim, 1, c->mix_bias & MIX_BIAS_OUT, &x->out},
    };
    const struct slot down = {"mix_decay_down", c->decay_rank, dim, recurs && c->decay_rank, false,
                              &x->decay_down};
    const struct slot decay = {"mix_decay", decays, c->decay_rank ? c->decay_rank : dim, recurs, recurs,
                               &x->decay};
    const struct slot beta = {"mix_beta", c->v_heads, dim, delta, false, &x->beta};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        bind_matrix(b, &slots[i], ANY_TYPE);
    bind_matrix(b, &down, 1 << TERN_F32);
    bind_matrix(b, &decay, c->state_decay && !c->decay_rank ? ANY_TYPE : 1 << TERN_F32);
    bind_matrix(b, &beta, 1 << TERN_F32);
    bind_vector(b, "mix_conv", "", 1, x->width * x->channels, &x->conv);
    bind_vector(b, "mix_conv_bias", "", c->conv_bias, x->channels, &x->conv_bias);
    bind_vector(b, "mix_a", "", recurs, c->v_heads, &x->a);
    bind_vector(b, "mix_skip", "", recurs && c->skip, c->v_heads, &x->d);
    bind_vector(b, "mix_norm", "", recurs && c->state_norm, delta ? c->v_dim : value, &x->norm);
    x->at = m->state_floats, x->log_at = m->log_floats;
    x->floats = (x->width - 1) * x->channels + x->v_heads * x->k_dim * x->v_dim;
    x->log_floats = x->channels + x->decay.rows + x->beta.rows;
    m->state_floats += (x->floats + 15) / 16 * 16;
    m->log_floats += (x->log_floats + 15) / 16 * 16;
}

static void bind_ffn(struct binder *b, struct layer *w, const struct shape *c)
{
    size_t dim = b->m->dim, shared = c->shared_hidden;
    size_t n = c->n_experts ? c->n_experts : c->hidden != 0;
    struct experts *x = &w->experts;
    const struct slot slots[] = {
        {"gate", c->hidden, dim, c->gated ? n : 0, c->ffn_bias & BIAS_GATE, &w->gate},
        {"up", c->hidden, dim, n, c->ffn_bias & BIAS_UP, &w->up},
        {"down", dim, c->hidden, n, c->ffn_bias & BIAS_DOWN, &w->down},
        {"shared_gate", shared, dim, shared && c->gated, false, &x->shared_gate},
        {"shared_up", shared, dim, shared != 0, false, &x->shared_up},
        {"shared_down", dim, shared, shared != 0, false, &x->shared_down},
    };
    const struct slot router = {"router",          c->n_experts,   dim,
                                c->n_experts != 0, c->router_bias, &x->router};
    const struct slot shared_switch = {"shared_switch",  1,     dim,
                                       c->shared_switch, false, &x->shared_switch};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        bind_matrix(b, &slots[i], ANY_TYPE);
    bind_matrix(b, &router, 1 << TERN_F32);
    bind_matrix(b, &shared_switch, 1 << TERN_F32);
    bind_vector(b, "xielu", "", c->hidden && (int)b->m->activation == ACT_XIELU, 4, &w->xielu);
    bind_vector(b, "router_select_bias", "", c->select_bias, c->n_experts, &x->select_bias);
    bind_vector(b, "router_scale", "", c->router_scaled, c->n_experts, &x->scale);
    bind_norm(b, "router_norm", c->expert_norms, dim, &x->router_norm);
    bind_norm(b, "expert_norm", c->expert_norms, dim, &x->in_norm);
    bind_norm(b, "shared_post_norm", c->expert_norms, dim, &x->shared_post_norm);
    bind_norm(b, "expert_post_norm", c->expert_norms, dim, &x->post_norm);
}

/* How the layer mixes the streams, and its residual */
static void bind_streams(struct binder *b, struct layer *w, const struct shape *c)
{
    size_t dim = b->m->dim, n = b->m->n_streams, rank = c->laurel_rank;
    const struct slot router = {"altup_router", n, dim, n != 0, false, &w->altup.router};
    const struct slot left = {"laurel_left", rank, dim, rank != 0, false, &w->laurel_left};
    const struct slot right = {"laurel_right", dim, rank, rank != 0, false, &w->laurel_right};
    bind_matrix(b, &router, 1 << TERN_F32);
    bind_norm(b, "altup_norm", n, dim, &w->altup.norm);
    bind_vector(b, "altup_predict", "", n, n * n * n, &w->altup.predict);
    bind_vector(b, "altup_correct", "", n, n * n, &w->altup.correct);
    bind_vector(b, "altup_scale", "", n, dim, &w->altup.scale);
    bind_matrix(b, &left, ANY_TYPE);
    bind_matrix(b, &right, ANY_TYPE);
    bind_norm(b, "laurel_norm", rank, dim, &w->laurel_norm);
}

/* What each layer has of the embeddings per layer, and its scale */
static void bind_layer_end(struct binder *b, struct layer *w, const struct shape *c)
{
    size_t dim = b->m->dim, n = b->m->ple_dim;
    const struct slot gate = {"ple_gate", n, dim, n != 0, false, &w->ple_gate};
    const struct slot out = {"ple_out", dim, n, n != 0, false, &w->ple_out};
    bind_matrix(b, &gate, ANY_TYPE);
    bind_matrix(b, &out, ANY_TYPE);
    bind_norm(b, "ple_post_norm", n, dim, &w->ple_post_norm);
    bind_vector(b, "x_scale", "", c->scaled, 1, &w->scale);
}

static void bind_layer(struct binder *b, struct layer *w, const struct shape *c)
{
    struct model *m = b->m;
    bool attends = c->mixer & MIX_ATTENTION;
    *w = (struct layer){.index = (size_t)(w - m->layers),
                        .mixer = c->mixer,
                        .n_heads = c->n_heads,
                        .n_kv_heads = c->n_kv_heads,
                        .head_dim = c->head_dim,
                        .hidden = c->hidden,
                        .window = c->window,
                        .chunked = c->chunked,
                        .q_scaled = c->q_scaled,
                        .rope = attends && c->rope_set ? &m->ropes[c->rope_set - 1] : NULL,
                        .alibi = m->alibi,
                        .attn_scale = c->attn_scale,
                        .attn_cap = c->attn_cap,
                        .qkv_clip = c->qkv_clip,
                        .clip_last = c->qkv_clip_last,
                        .qk_norm_last = c->qk_norm_last,
                        .kv_from = c->kv_from,
                        .qk_norm = (enum qk_norm)c->qk_norm,
                        .parallel = c->parallel,
                        .round_inputs = c->round_inputs,
                        .gated = c->gated,
                        .ffn_clamp = c->ffn_clamp,
                        .ffn_cutoff = c->ffn_cutoff,
                        .experts = {.n = c->n_experts,
                                    .n_used = c->experts_used,
                                    .score = (enum router_score)c->router_score,
                                    .normalize = c->router_normalize,
                                    .factor = c->router_factor,
                                    .weigh_input = c->weigh_input,
                                    .jitter = c->router_jitter,
                                    .groups = c->router_groups,
                                    .groups_used = c->router_groups_used,
                                    .group_best = c->router_group_best,
                                    .shared_hidden = c->shared_hidden}};
    bind_norm(b, "attn_norm", c->norms & NORM_ATTN, m->dim, &w->attn_norm);
    bind_norm(b, "attn_post_norm", c->norms & NORM_ATTN_POST, m->dim, &w->attn_post_norm);
    (c->kv_rank ? bind_latent : bind_attention)(b, w, c);
    bool by_heads = c->attn_gate == GATE_HEADS || c->attn_gate == GATE_SOFT_HEADS;
    const struct slot gate = {"attn_gate", by_heads ? c->n_heads : layer_out_dim(w),
                              m->dim, attends && c->attn_gate != GATE_NONE, false, &w->attn_gate};
    w->soft_gate = c->attn_gate >= GATE_SOFT_VALUES;
    bind_matrix(b, &gate, ANY_TYPE);
    bind_mixer(b, w, c);
    bind_norm(b, "ffn_norm", c->norms & NORM_FFN, m->dim, &w->ffn_norm);
    bind_norm(b, "out_norm", c->norms & NORM_OUT, c->n_heads * c->head_dim, &w->out_norm);
    bind_norm(b, "down_norm", c->norms & NORM_DOWN, c->hidden, &w->down_norm);
    bind_norm(b, "ffn_post_norm", c->norms & NORM_FFN_POST, m->dim, &w->ffn_post_norm);
    bind_ffn(b, w, c);
    bind_layer_end(b, w, c);
    bind_streams(b, w, c);
}

/* What the layer that guesses has beside a layer's own */
static void bind_mtp(struct binder *b)
{
    struct model *m = b->m;
    const struct slot in = {"mtp_in", m->dim, 2 * m->dim, 1, false, &m->mtp_in};
    bind_matrix(b, &in, ANY_TYPE);
    bind_norm(b, "mtp_embed_norm", 1, m->dim, &m->mtp_embed_norm);
    bind_norm(b, "mtp_hidden_norm", 1, m->dim, &m->mtp_hidden_norm);
    bind_norm(b, "mtp_norm", 1, m->dim, &m->mtp_norm);
}

/* All tensors, in the order in which the converter writes them */
static enum tern_status bind_all(struct binder *b)
{
    struct model *m = b->m;
    const size_t n_layers = m->n_layers + m->n_mtp, ple = m->n_layers * m->ple_dim;
    const struct slot embed = {"embed", m->vocab, m->dim, 1, false, &m->embed};
    const struct slot head = {"head", m->vocab, m->dim, !m->head_tied, false, &m->head};
    const struct slot ple_embed = {"ple_embed", m->ple_vocab, ple, ple != 0, false, &m->ple_embed};
    const struct slot ple_in = {"ple_in", ple, m->dim, ple != 0, false, &m->ple_in};
    const size_t more = m->n_streams ? m->n_streams - 1 : 0;
    const struct slot altup_in = {"altup_in", m->dim, m->dim, more, false, &m->altup_in};
    const struct slot altup_out = {"altup_out", m->dim, m->dim, more, false, &m->altup_out};
    m->layers = calloc(n_layers, sizeof *m->layers);
    if (!m->layers)
        return error_memory(b->e, "the layers", n_layers * sizeof *m->layers);
    bind_matrix(b, &embed, ANY_TYPE);
    bind_norm(b, "embed_norm", m->has_embed_norm, m->dim, &m->embed_norm);
    bind_vector(b, "positions", "", m->learned_positions, m->max_seq * m->dim, &m->positions);
    bind_matrix(b, &ple_embed, ANY_TYPE);
    bind_matrix(b, &ple_in, ANY_TYPE);
    bind_norm(b, "ple_norm", ple, m->ple_dim, &m->ple_norm);
    bind_matrix(b, &altup_in, ANY_TYPE);
    bind_matrix(b, &altup_out, ANY_TYPE);
    for (size_t l = 0; l < n_layers && !b->status; l++) {
        b->layer = (int)l;
        bind_layer(b, &m->layers[l], &m->shapes[l]);
        if (l == m->n_layers)
            bind_mtp(b);
    }
    b->layer = NO_LAYER;
    bind_norm(b, "final_norm", 1, m->dim, &m->final_norm);
    m->head = m->embed;
    bind_matrix(b, &head, ANY_TYPE);
    bind_vector(b, "head_bias", "", m->head_bias, m->vocab, &m->head.bias);
    return b->status;
}

enum tern_status model_open(struct model **out, const char *path, struct tern_error *e)
{
    struct model *m = calloc(1, sizeof *m);
    enum tern_status s;
    *out = NULL;
    if (!m)
        return error_memory(e, "the model", sizeof *m);
    if (!(s = weights_open(&m->weights, path, e)) &&
        (s = config_read(m, weights_config(m->weights), e)))
        error_in(e, s, path);
    else if (!s && !(s = bind_all(&(struct binder){.m = m, .layer = NO_LAYER, .e = e})))
        s = weights_all_bound(m->weights, e);
    free(m->shapes);
    m->shapes = NULL;
    if (s) {
        model_close(m);
        return s;
    }
    *out = m;
    return TERN_OK;
}

enum tern_status model_wants(struct keys *config, model_wants_fn fn, void *arg,
                             struct tern_error *e)
{
    struct model *m = calloc(1, sizeof *m);
    enum tern_status s = m ? config_read(m, config, e) : error_memory(e, "the model", sizeof *m);
    if (!s)
        s = bind_all(
            &(struct binder){.m = m, .layer = NO_LAYER, .wants = fn, .arg = arg, .e = e});
    model_close(m);
    return s;
}

void model_close(struct model *m)
{
    if (!m)
        return;
    free(m->shapes);
    free(m->layers);
    free(m->ropes);
    weights_close(m->weights);
    free(m);
}

uint64_t model_params(const struct model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < weights_count(m->weights); i++) {
        const struct tensor *t = weights_at(m->weights, i);
        n += t->rows * t->k * t->matrices;
    }
    return n;
}

/* What only guesses read */
static bool is_of_mtp(const struct model *m, const char *name)
{
    char layer[32];
    snprintf(layer, sizeof layer, "layer.%zu.", m->n_layers);
    return !strncmp(name, layer, strlen(layer));
}

uint64_t model_token_bytes(const struct model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < weights_count(m->weights); i++)
        if (!is_of_mtp(m, weights_at(m->weights, i)->name))
            n += weights_at(m->weights, i)->bytes;
    for (size_t l = 0; l < m->n_layers; l++) { /* of experts, those that one row meets */
        const struct layer *w = &m->layers[l];
        const struct matrix *parts[] = {&w->gate, &w->up, &w->down};
        for (size_t i = 0; i < 3 && w->experts.n; i++) {
            uint64_t one = 0;
            if (parts[i]->data &&
                format_size(format_find(parts[i]->type), parts[i]->rows, parts[i]->k, 1, &one))
                n -= one * (w->experts.n - w->experts.n_used);
        }
    }
    const struct tensor *embed = weights_find(m->weights, "embed");
    if (m->ple_dim)
        n -= weights_find(m->weights, "ple_embed")->bytes;
    return m->head_tied ? n : n - embed->bytes;
}
