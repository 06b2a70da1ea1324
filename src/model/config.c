/* Config keys to features: see config.h, and FORMAT.md for what each key means. */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/altup.h"
#include "weights/keys.h"

enum {
    MAX_LAYERS = 1024,
    MAX_WIDTH = 1 << 20, /* of anything that activations are as wide as */
    MAX_HEADS = 4096,
    MAX_HEAD_DIM = 1024,
    MAX_VOCAB = 1 << 24,
    MAX_SEQ = 1 << 24, /* a position must be exact in f32 */
    MAX_ROPES = 8,
    MAX_EXPERTS = 1024,
    MAX_STATE_DIM = 512, /* of a recurrent head, each way */
};

/* A key that holds one value for each of n structs, or one for all of them. Names lie in the tables:
 * pointers would each need a relocation. */
enum { KEY_NAME = 20 };

struct size_key {
    char name[KEY_NAME];
    unsigned char low;
    uint16_t field; /* offset of a size_t */
    uint32_t high;
    uint32_t absent; /* the default, or NEEDED */
};

struct number_key {
    char name[KEY_NAME];
    uint16_t field; /* offset of a float */
    float low, high;
    float absent; /* the default; NAN: the key is needed */
};

#define NEEDED UINT32_MAX
#define OF_MODEL(field) offsetof(struct model, field)
#define OF_LAYER(field) offsetof(struct shape, field)
#define MAX_NUMBER 0x1p100f
enum { MAX_SLOPE = 1 << 20, MAX_Q_SCALES = 4096 };

static const struct size_key model_sizes[] = {
    {"n_layers", 1, OF_MODEL(n_layers), MAX_LAYERS, NEEDED},
    {"dim", 1, OF_MODEL(dim), MAX_WIDTH, NEEDED},
    {"vocab", 1, OF_MODEL(vocab), MAX_VOCAB, NEEDED},
    {"max_seq", 1, OF_MODEL(max_seq), MAX_SEQ, NEEDED},
    {"head_tied", 0, OF_MODEL(head_tied), 1, NEEDED},
    {"head_bias", 0, OF_MODEL(head_bias), 1, 0},
    {"norm_bias", 0, OF_MODEL(norm_bias), 1, 0},
    {"embed_norm", 0, OF_MODEL(has_embed_norm), 1, 0},
    {"q_scale_every", 1, OF_MODEL(q_scale_every), MAX_SEQ, 1},
    {"q_scale_shift", 0, OF_MODEL(q_scale_shift), MAX_SEQ, 0},
    {"learned_positions", 0, OF_MODEL(learned_positions), 1, 0},
    {"ple_vocab", 0, OF_MODEL(ple_vocab), MAX_VOCAB, 0},
    {"n_streams", 0, OF_MODEL(n_streams), MAX_STREAMS, 0},
    {"ple_dim", 0, OF_MODEL(ple_dim), MAX_WIDTH, 0},
    {"mtp", 0, OF_MODEL(n_mtp), 1, 0},
};

static const struct number_key model_numbers[] = {
    {"norm_eps", OF_MODEL(norm_eps), 0, MAX_NUMBER, NAN},
    {"embed_scale", OF_MODEL(embed_scale), -MAX_NUMBER, MAX_NUMBER, 1},
    {"residual_scale", OF_MODEL(residual_scale), -MAX_NUMBER, MAX_NUMBER, 1},
    {"logit_scale", OF_MODEL(logit_scale), -MAX_NUMBER, MAX_NUMBER, 1},
    {"logit_cap", OF_MODEL(logit_cap), 0, MAX_NUMBER, 0},
    {"ple_embed_scale", OF_MODEL(ple_embed_scale), -MAX_NUMBER, MAX_NUMBER, 1},
    {"ple_in_scale", OF_MODEL(ple_in_scale), -MAX_NUMBER, MAX_NUMBER, 1},
    {"ple_scale", OF_MODEL(ple_scale), -MAX_NUMBER, MAX_NUMBER, 1},
};

static const struct size_key layer_sizes[] = {
    {"n_heads", 0, OF_LAYER(n_heads), MAX_HEADS, NEEDED},
    {"n_kv_heads", 0, OF_LAYER(n_kv_heads), MAX_HEADS, NEEDED},
    {"head_dim", 0, OF_LAYER(head_dim), MAX_HEAD_DIM, NEEDED},
    {"hidden", 0, OF_LAYER(hidden), MAX_WIDTH, NEEDED},
    {"window", 0, OF_LAYER(window), UINT32_MAX, 0},
    {"window_chunked", 0, OF_LAYER(chunked), 1, 0},
    {"q_scaled", 0, OF_LAYER(q_scaled), 1, 1},
    {"rope_set", 0, OF_LAYER(rope_set), MAX_ROPES, 0},
    {"attn_bias", 0, OF_LAYER(attn_bias), 15, 0},
    {"ffn_bias", 0, OF_LAYER(ffn_bias), 7, 0},
    {"norms", 0, OF_LAYER(norms), 63, NORM_ATTN | NORM_FFN},
    {"round_inputs", 0, OF_LAYER(round_inputs), 1, 0},
    {"qk_norm", 0, OF_LAYER(qk_norm), QK_SHARED_LAYER, QK_NONE},
    {"qk_norm_last", 0, OF_LAYER(qk_norm_last), 1, 0},
    {"qkv_clip_last", 0, OF_LAYER(qkv_clip_last), 1, 0},
    {"attn_sinks", 0, OF_LAYER(sinks), 1, 0},
    {"parallel", 0, OF_LAYER(parallel), 1, 0},
    {"ffn_gated", 0, OF_LAYER(gated), 1, 1},
    {"n_experts", 0, OF_LAYER(n_experts), MAX_EXPERTS, 0},
    {"experts_used", 0, OF_LAYER(experts_used), MAX_EXPERTS, 0},
    {"router_score", 0, OF_LAYER(router_score), ROUTER_SIGMOID_CHOSEN, ROUTER_SOFTMAX},
    {"expert_in_weight", 0, OF_LAYER(weigh_input), 1, 0},
    {"router_normalize", 0, OF_LAYER(router_normalize), 1, 0},
    {"router_groups", 1, OF_LAYER(router_groups), MAX_EXPERTS, 1},
    {"router_groups_used", 1, OF_LAYER(router_groups_used), MAX_EXPERTS, 1},
    {"router_group_best", 1, OF_LAYER(router_group_best), 2, 2},
    {"router_bias", 0, OF_LAYER(router_bias), 1, 0},
    {"router_select_bias", 0, OF_LAYER(select_bias), 1, 0},
    {"shared_hidden", 0, OF_LAYER(shared_hidden), MAX_WIDTH, 0},
    {"shared_switch", 0, OF_LAYER(shared_switch), 1, 0},
    {"kv_rank", 0, OF_LAYER(kv_rank), MAX_HEAD_DIM, 0},
    {"q_rank", 0, OF_LAYER(q_rank), MAX_WIDTH, 0},
    {"nope_dim", 0, OF_LAYER(nope_dim), MAX_HEAD_DIM, 0},
    {"value_dim", 0, OF_LAYER(value_dim), MAX_HEAD_DIM, 0},
    {"laurel_rank", 0, OF_LAYER(laurel_rank), MAX_WIDTH, 0},
    {"mixer", 0, OF_LAYER(mixer), MIX_CONVOLUTION, MIX_ATTENTION},
    {"attn_gate", 0, OF_LAYER(attn_gate), GATE_SOFT_HEADS, GATE_NONE},
    {"recurrence", 0, OF_LAYER(rule), RULE_MAMBA2, RULE_DELTA},
    {"k_heads", 0, OF_LAYER(k_heads), MAX_HEADS, 0},
    {"v_heads", 0, OF_LAYER(v_heads), MAX_HEADS, 0},
    {"k_dim", 0, OF_LAYER(k_dim), MAX_STATE_DIM, 0},
    {"v_dim", 0, OF_LAYER(v_dim), MAX_STATE_DIM, 0},
    {"conv_width", 0, OF_LAYER(conv_width), MAX_CONV, 0},
    {"conv_bias", 0, OF_LAYER(conv_bias), 1, 0},
    {"mix_bias", 0, OF_LAYER(mix_bias), 7, 0},
    {"state_norm", 0, OF_LAYER(state_norm), STATE_NORM_LAST, STATE_NORM_NONE},
    {"state_norm_groups", 1, OF_LAYER(norm_groups), MAX_HEADS, 1},
    {"state_gate", 0, OF_LAYER(state_gate), 1, 0},
    {"state_skip", 0, OF_LAYER(skip), 1, 0},
    {"state_decay", 0, OF_LAYER(state_decay), 1, 0},
    {"decay_rank", 0, OF_LAYER(decay_rank), MAX_WIDTH, 0},
    {"gate_rank", 0, OF_LAYER(gate_rank), MAX_WIDTH, 0},
    {"expert_norms", 0, OF_LAYER(expert_norms), 1, 0},
    {"router_scale", 0, OF_LAYER(router_scaled), 1, 0},
    {"kv_from", 0, OF_LAYER(kv_from), MAX_LAYERS, 0},
    {"v_from_k", 0, OF_LAYER(v_from_k), 1, 0},
    {"v_norm", 0, OF_LAYER(v_norm), 1, 0},
    {"layer_scale", 0, OF_LAYER(scaled), 1, 0},
};

static const struct number_key layer_numbers[] = {
    {"attn_scale", OF_LAYER(attn_scale), -MAX_NUMBER, MAX_NUMBER, NAN},
    {"attn_cap", OF_LAYER(attn_cap), 0, MAX_NUMBER, 0},
    {"qkv_clip", OF_LAYER(qkv_clip), 0, MAX_NUMBER, 0},
    {"ffn_clamp", OF_LAYER(ffn_clamp), 0, MAX_NUMBER, 0},
    {"ffn_cutoff", OF_LAYER(ffn_cutoff), NO_CUTOFF, MAX_NUMBER, NO_CUTOFF},
    {"router_factor", OF_LAYER(router_factor), -MAX_NUMBER, MAX_NUMBER, 1},
    {"router_jitter", OF_LAYER(router_jitter), 0, 1, 0},
    {"beta_scale", OF_LAYER(beta_scale), 0, MAX_NUMBER, 1},
    {"decay_floor", OF_LAYER(decay_floor), -MAX_NUMBER, 0, 0},
    {"state_norm_eps", OF_LAYER(state_norm_eps), 0, MAX_NUMBER, 0},
    {"latent_eps", OF_LAYER(latent_eps), 0, MAX_NUMBER, 0},
};

static const char *const activations[N_ACTIVATIONS + 1] = {"silu",  "gelu",       "gelu_tanh",
                                                       "relu2", "swiglu_oai", "relu", "xielu"};

static enum tern_status out_of_range(const char *key, uint64_t value, uint64_t low, uint64_t high,
                                     struct tern_error *e)
{
    return error_set(e, TERN_BAD_FILE, "config key '%s' is %llu, want %llu to %llu", key,
                     (unsigned long long)value, (unsigned long long)low, (unsigned long long)high);
}

/* *step: 0 when the key has one value for all, 1 when it has n. */
static enum tern_status check_count(uint64_t count, const char *name, size_t n, size_t *step,
                                    struct tern_error *e)
{
    *step = count == n && n > 1;
    if (count == 1 || count == n)
        return TERN_OK;
    if (n == 1)
        return error_set(e, TERN_BAD_FILE, "config key '%s' has %llu values, want one", name,
                         (unsigned long long)count);
    return error_set(e, TERN_BAD_FILE, "config key '%s' has %llu values, want 1 or %zu", name,
                     (unsigned long long)count, n);
}

static enum tern_status missing(const char *name, struct tern_error *e)
{
    return error_set(e, TERN_BAD_FILE, "config key '%s' is missing", name);
}

/* The key into its field of the n structs [n] of `size` bytes at `to`. */
static enum tern_status read_size(struct keys *keys, const struct size_key *key, void *to,
                                  size_t size, size_t n, struct tern_error *e)
{
    const uint64_t *values = NULL;
    uint64_t count = 1;
    size_t step = 0;
    enum tern_status s = keys_u64s(keys, key->name, &values, &count, e);
    if (s || (!values && key->absent == NEEDED))
        return s ? s : missing(key->name, e);
    if (values && (s = check_count(count, key->name, n, &step, e)))
        return s;
    for (size_t i = 0; i < n; i++) {
        uint64_t value = values ? load_u64(&values[i * step]) : key->absent;
        if (value < key->low || value > key->high)
            return out_of_range(key->name, value, key->low, key->high, e);
        *(size_t *)((char *)to + i * size + key->field) = (size_t)value;
    }
    return TERN_OK;
}

static enum tern_status read_number(struct keys *keys, const struct number_key *key, void *to,
                                    size_t size, size_t n, struct tern_error *e)
{
    const float *values = NULL;
    uint64_t count = 1;
    size_t step = 0;
    enum tern_status s = keys_f32s(keys, key->name, &values, &count, e);
    if (s || (!values && key->absent != key->absent))
        return s ? s : missing(key->name, e);
    if (values && (s = check_count(count, key->name, n, &step, e)))
        return s;
    for (size_t i = 0; i < n; i++) {
        float value = values ? load_f32(&values[i * step]) : key->absent;
        if (!(value >= key->low && value <= key->high))
            return error_set(e, TERN_BAD_FILE,
                             "config key '%s' holds a number that is not finite, or too %s",
                             key->name, value < key->low ? "small" : "large");
        *(float *)((char *)to + i * size + key->field) = value;
    }
    return TERN_OK;
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

static enum tern_status read_all(struct keys *keys, const struct size_key *sizes, size_t n_sizes,
                                 const struct number_key *numbers, size_t n_numbers, void *to,
                                 size_t size, size_t n, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    for (size_t i = 0; i < n_sizes && !s; i++)
        s = read_size(keys, &sizes[i], to, size, n, e);
    for (size_t i = 0; i < n_numbers && !s; i++)
        s = read_number(keys, &numbers[i], to, size, n, e);
    return s;
}

/* A text key that must be one of the n names. */
static enum tern_status read_name(struct keys *keys, const char *key, const char *const *names,
                                  size_t n, size_t *out, struct tern_error *e)
{
    const char *text = NULL;
    uint64_t bytes = 0;
    enum tern_status s = keys_text(keys, key, &text, &bytes, e);
    for (*out = 0; !s && text && *out < n; ++*out)
        if (text_is(text, bytes, names[*out]))
            return TERN_OK;
    if (s || !text) {
        *out = 0;
        return s;
    }
    return error_set(e, TERN_BAD_FILE, "config key '%s' is '%.*s', want '%s' or another that %s",
                     key, (int)(bytes < 64 ? bytes : 64), text, names[0],
                     "src/weights/FORMAT.md lists");
}

/* ---- RoPE sets ---------------------------------------------------------------------------- */

static enum tern_status read_frequencies(struct keys *keys, const char *name, const float **out,
                                         size_t *half, struct tern_error *e)
{
    uint64_t count = 0;
    enum tern_status s = keys_f32s(keys, name, out, &count, e);
    if (s || !*out)
        return s;
    if (count == 0 || count > MAX_HEAD_DIM / 2)
        return out_of_range(name, count, 1, MAX_HEAD_DIM / 2, e);
    for (size_t j = 0; j < count; j++)
        if (!(load_f32(&(*out)[j]) - load_f32(&(*out)[j]) == 0))
            return error_set(e, TERN_BAD_FILE, "config key '%s' holds a value that is not finite",
                             name);
    *half = (size_t)count;
    return TERN_OK;
}

static enum tern_status read_rope(struct keys *keys, struct rope_set *rope, size_t i,
                                  struct tern_error *e)
{
    char name[32];
    snprintf(name, sizeof name, "rope.%zu.inv_freq", i);
    enum tern_status s = read_frequencies(keys, name, &rope->inv_freq, &rope->half, e);
    if (s || !rope->inv_freq)
        return s;
    struct number_key factor = {"", 0, -MAX_NUMBER, MAX_NUMBER, 1};
    snprintf(factor.name, sizeof factor.name, "rope.%zu.factor", i);
    return read_number(keys, &factor, &rope->factor, 0, 1, e);
}

/* The second frequencies of a set. All sets that have some must agree on their limit. */
static enum tern_status read_far(struct keys *keys, struct model *m, size_t i, struct tern_error *e)
{
    struct rope_set *rope = &m->ropes[i];
    char name[32];
    uint64_t limit = 0;
    size_t half = 0;
    snprintf(name, sizeof name, "rope.%zu.limit", i);
    enum tern_status s = keys_u64(keys, name, &limit, e);
    if (s || !limit)
        return s;
    if (limit > UINT32_MAX || (m->rope_limit && limit != m->rope_limit))
        return out_of_range(name, limit, 1, m->rope_limit ? m->rope_limit : UINT32_MAX, e);
    m->rope_limit = (size_t)limit;
    snprintf(name, sizeof name, "rope.%zu.far_freq", i);
    s = read_frequencies(keys, name, &rope->far, &half, e);
    if (!s && !rope->far)
        return missing(name, e);
    return s || half == rope->half ? s : out_of_range(name, half, rope->half, rope->half, e);
}

static enum tern_status read_ropes(struct keys *keys, struct model *m, struct tern_error *e)
{
    m->ropes = calloc(MAX_ROPES, sizeof *m->ropes);
    if (!m->ropes)
        return error_memory(e, "the RoPE sets", MAX_ROPES * sizeof *m->ropes);
    for (; m->n_ropes < MAX_ROPES; m->n_ropes++) {
        enum tern_status s = read_rope(keys, &m->ropes[m->n_ropes], m->n_ropes, e);
        if (s)
            return s;
        if (!m->ropes[m->n_ropes].inv_freq)
            break;
        if ((s = read_far(keys, m, m->n_ropes, e)))
            return s;
    }
    return TERN_OK;
}

/* ---- ALiBi ---------------------------------------------------------------------------------- */

static enum tern_status read_alibi(struct keys *keys, struct model *m, struct tern_error *e)
{
    uint64_t count = 0;
    enum tern_status s = keys_f32s(keys, "alibi", &m->alibi, &count, e);
    if (s || !m->alibi)
        return s;
    for (size_t l = 0; l < m->n_layers + m->n_mtp; l++)
        if (m->shapes[l].n_heads && m->shapes[l].n_heads != count)
            return error_set(e, TERN_BAD_FILE,
                             "config key 'alibi' has %llu values, and layer %zu has %zu heads",
                             (unsigned long long)count, l, m->shapes[l].n_heads);
    for (size_t h = 0; h < count; h++)
        if (!(load_f32(&m->alibi[h]) >= -MAX_SLOPE && load_f32(&m->alibi[h]) <= 1))
            return error_set(e, TERN_BAD_FILE,
                             "config key 'alibi' holds a slope that is not between -%d and 1", MAX_SLOPE);
    return TERN_OK;
}

/* ---- scales of queries by position ------------------------------------------------------------ */

static enum tern_status read_q_scales(struct keys *keys, struct model *m, struct tern_error *e)
{
    uint64_t count = 0;
    enum tern_status s = keys_f32s(keys, "q_scales", &m->q_scales, &count, e);
    m->n_q_scales = (size_t)count;
    if (!s && m->q_scales && (!count || count > MAX_Q_SCALES))
        return out_of_range("q_scales", count, 1, MAX_Q_SCALES, e);
    for (size_t i = 0; !s && m->q_scales && i < count; i++)
        if (!(load_f32(&m->q_scales[i]) - load_f32(&m->q_scales[i]) == 0))
            return error_set(e, TERN_BAD_FILE, "config key 'q_scales' holds a value that is not finite");
    return s;
}

/* ---- what the features of one layer demand of each other ----------------------------------- */

/* Latent attention: sizes, and features that it does not take */
static enum tern_status check_latent(const struct model *m, const struct shape *s, size_t l,
                                     struct tern_error *e)
{
    size_t rotary = s->head_dim - s->kv_rank, q = s->n_heads * (s->nope_dim + rotary);
    if (s->kv_from && (s->kv_rank || m->shapes[s->kv_from - 1].kv_rank))
        return error_set(e, TERN_BAD_FILE, "layer %zu: kv_from with latent attention", l);
    if (!s->kv_rank && !s->q_rank && !s->nope_dim && !s->value_dim)
        return TERN_OK;
    if (!s->kv_rank || !s->nope_dim || !s->value_dim || s->n_kv_heads != 1 ||
        s->kv_rank > s->head_dim || q > MAX_WIDTH || s->n_heads * s->value_dim > MAX_WIDTH)
        return error_set(e, TERN_BAD_FILE,
                         "layer %zu: latent attention of rank %zu with %zu KV heads of %zu, and of %zu "
                         "and %zu dims, cannot be",
                         l, s->kv_rank, s->n_kv_heads, s->head_dim, s->nope_dim, s->value_dim);
    if (s->rope_set && 2 * m->ropes[s->rope_set - 1].half > rotary)
        return error_set(e, TERN_BAD_FILE, "layer %zu: %zu rotary dims exceed %zu", l,
                         2 * m->ropes[s->rope_set - 1].half, rotary);
    if (s->attn_bias || s->qk_norm || s->qkv_clip > 0 || m->alibi ||
        s->mixer != MIX_ATTENTION || s->v_from_k || s->v_norm || s->round_inputs ||
        s->norms & NORM_OUT)
        return error_set(e, TERN_BAD_FILE, "layer %zu: latent attention with %s, which is not understood",
                         l, s->attn_bias      ? "attn_bias"
                            : s->qk_norm      ? "qk_norm"
                            : s->qkv_clip > 0 ? "qkv_clip"
                            : m->alibi        ? "alibi"
                            : s->mixer != MIX_ATTENTION ? "another mixer"
                            : s->v_from_k || s->v_norm  ? "v_from_k or v_norm"
                                                        : "round_inputs or a norm of its output");
    return TERN_OK;
}

static enum tern_status check_heads(const struct model *m, const struct shape *s, size_t l,
                                    struct tern_error *e)
{
    if (!(s->mixer & MIX_ATTENTION) && !s->n_heads && !s->n_kv_heads && !s->head_dim)
        return TERN_OK;
    if (!(s->mixer & MIX_ATTENTION))
        return error_set(e, TERN_BAD_FILE, "layer %zu: it has heads, but no attention", l);
    if (!s->n_heads || !s->n_kv_heads || !s->head_dim)
        return out_of_range(!s->n_heads      ? "n_heads"
                            : !s->n_kv_heads ? "n_kv_heads"
                                             : "head_dim",
                            0, 1, s->n_heads && s->n_kv_heads ? MAX_HEAD_DIM : MAX_HEADS, e);
    if (s->n_heads % s->n_kv_heads)
        return error_set(e, TERN_BAD_FILE, "layer %zu: n_kv_heads %zu does not divide n_heads %zu",
                         l, s->n_kv_heads, s->n_heads);
    if (s->n_heads * s->head_dim > MAX_WIDTH)
        return error_set(e, TERN_BAD_FILE, "layer %zu: n_heads * head_dim is %zu, want at most %d",
                         l, s->n_heads * s->head_dim, MAX_WIDTH);
    if (s->rope_set > m->n_ropes)
        return error_set(e, TERN_BAD_FILE, "layer %zu: RoPE set %zu of %zu is wanted", l,
                         s->rope_set, m->n_ropes);
    if (s->rope_set && 2 * m->ropes[s->rope_set - 1].half > s->head_dim)
        return error_set(e, TERN_BAD_FILE, "layer %zu: %zu rotary dims exceed head_dim %zu", l,
                         2 * m->ropes[s->rope_set - 1].half, s->head_dim);
    if (s->chunked && !s->window)
        return error_set(e, TERN_BAD_FILE, "layer %zu: window_chunked without a window", l);
    if (s->qk_norm_last && s->qk_norm == QK_FULL)
        return error_set(e, TERN_BAD_FILE, "layer %zu: qk_norm_last of all heads together", l);
    return TERN_OK;
}

/* Groups of one size, of which those used have enough experts */
static enum tern_status check_groups(const struct model *m, const struct shape *s, size_t l,
                                     struct tern_error *e)
{
    (void)m;
    size_t groups = s->router_groups, used = s->router_groups_used;
    if (!s->n_experts || (groups == 1 && used == 1) ||
        (used <= groups && s->n_experts % groups == 0 &&
         s->n_experts / groups * used >= s->experts_used))
        return TERN_OK;
    return error_set(e, TERN_BAD_FILE, "layer %zu: %zu of %zu groups of %zu experts", l, used,
                     groups, s->n_experts);
}

/* Convolution, state and norm of a mixer that is not attention */
static enum tern_status check_mixer(const struct model *m, const struct shape *s, size_t l,
                                    struct tern_error *e)
{
    size_t width = s->v_heads * s->v_dim, beside = s->mixer & MIX_ATTENTION;
    if (s->mixer > (MIX_ATTENTION | MIX_RECURRENT) && s->mixer != MIX_CONVOLUTION)
        return error_set(e, TERN_BAD_FILE, "layer %zu: mixer %zu is not understood", l, s->mixer);
    if (s->mixer > MIX_ATTENTION && (s->parallel || !s->conv_width))
        return error_set(e, TERN_BAD_FILE, "layer %zu: its mixer %s, which is not understood", l,
                         s->parallel ? "is parallel to the feed-forward step"
                                     : "has no convolution");
    if (!(s->mixer & MIX_RECURRENT))
        return TERN_OK;
    if (!s->k_heads || !s->k_dim || !width || s->v_heads % s->k_heads || width > MAX_WIDTH ||
        (s->state_decay && s->v_heads * s->k_dim > MAX_WIDTH) ||
        2 * s->k_heads * s->k_dim + width > MAX_WIDTH || width % s->norm_groups)
        return error_set(
            e, TERN_BAD_FILE,
            "layer %zu: a recurrent mixer of %zu and %zu heads of %zu and %zu dims and "
            "%zu norms cannot be",
            l, s->k_heads, s->v_heads, s->k_dim, s->v_dim, s->norm_groups);
    if (s->rule != RULE_DELTA && (s->state_decay || s->decay_rank || s->gate_rank || s->decay_floor < 0))
        return error_set(e, TERN_BAD_FILE, "layer %zu: decays or ranks of a delta net in another mixer", l);
    if (beside && (s->norms & NORM_ATTN) == 0)
        return error_set(e, TERN_BAD_FILE, "layer %zu: two mixers without a norm", l);
    return m->layer_norm && s->state_norm
               ? error_set(e, TERN_BAD_FILE, "layer %zu: the norm of a state is RMSNorm", l)
               : TERN_OK;
}

/* Whose keys and values a layer reads, and what V is made of */
static enum tern_status check_kv(const struct model *m, const struct shape *s, size_t l,
                                 struct tern_error *e)
{
    const struct shape *from = s->kv_from ? &m->shapes[s->kv_from - 1] : s;
    if (s->kv_from > l || from->n_kv_heads != s->n_kv_heads || from->head_dim != s->head_dim ||
        from->window != s->window || from->chunked != s->chunked || (s->kv_from && from->kv_from))
        return error_set(e, TERN_BAD_FILE,
                         "layer %zu: kv_from is %zu, want an earlier layer with keys of its own and "
                         "the same heads and window",
                         l, s->kv_from);
    if ((s->v_from_k && s->attn_bias & BIAS_V) ||
        (s->kv_from && (s->v_from_k || s->v_norm || s->attn_bias & (BIAS_K | BIAS_V))))
        return error_set(e, TERN_BAD_FILE, "layer %zu: parts of keys or values that it does not make",
                         l);
    return TERN_OK;
}

static enum tern_status check_ffn(const struct model *m, const struct shape *s, size_t l,
                                  struct tern_error *e)
{
    if (s->experts_used > s->n_experts || (s->n_experts && !s->experts_used))
        return error_set(e, TERN_BAD_FILE, "layer %zu: experts_used is %zu, of %zu experts", l,
                         s->experts_used, s->n_experts);
    if (!s->hidden &&
        (s->n_experts || s->parallel || s->ffn_bias || s->norms & (NORM_FFN | NORM_FFN_POST)))
        return out_of_range("hidden", 0, 1, MAX_WIDTH, e); /* it has parts of such a step */
    if (!s->n_experts && (s->shared_hidden || s->router_bias || s->select_bias))
        return error_set(e, TERN_BAD_FILE, "layer %zu: a router without experts", l);
    if (((s->router_scaled || s->weigh_input) && !s->n_experts) ||
        (s->weigh_input && s->expert_norms) ||
        (s->expert_norms && (!s->shared_hidden || s->shared_switch || !(s->norms & NORM_FFN))))
        return error_set(e, TERN_BAD_FILE,
                         "layer %zu: norms or scales of experts without those experts", l);
    if (s->hidden && (s->norms & NORM_FFN) == 0 && !s->parallel && (s->norms & NORM_FFN_POST) == 0)
        return error_set(e, TERN_BAD_FILE, "layer %zu: its feed-forward step has no norm", l);
    if (s->parallel && (s->expert_norms || s->norms & NORM_ATTN_POST))
        return error_set(e, TERN_BAD_FILE,
                         "layer %zu: a parallel layer has %s, which is not understood", l,
                         s->expert_norms ? "norms of experts" : "a norm after attention");
    if ((int)m->activation == ACT_XIELU && s->gated)
        return error_set(e, TERN_BAD_FILE, "layer %zu: xielu with a gate", l);
    if ((s->round_inputs || s->norms & (NORM_OUT | NORM_DOWN)) &&
        (s->mixer != MIX_ATTENTION || s->attn_gate || !s->hidden || s->n_experts))
        return error_set(e, TERN_BAD_FILE,
                         "layer %zu: inner norms or rounded inputs need attention and one dense "
                         "feed-forward step",
                         l);
    if (m->activation == ACT_SWIGLU_OAI && !s->gated)
        return error_set(e, TERN_BAD_FILE, "layer %zu: swiglu_oai without a gate", l);
    return TERN_OK;
}

/* Several streams, and the residual: layers of attention and a dense step, both with norms after them */
static enum tern_status check_streams(const struct model *m, const struct shape *s, size_t l,
                                      struct tern_error *e)
{
    bool special = m->n_streams || s->laurel_rank, cut = s->ffn_cutoff > NO_CUTOFF;
    size_t both = NORM_ATTN | NORM_ATTN_POST | NORM_FFN_POST;
    if (special && (s->mixer != MIX_ATTENTION || !s->hidden || s->parallel || s->n_experts ||
                    s->round_inputs || s->scaled || (s->norms & both) != both))
        return error_set(e, TERN_BAD_FILE,
                         "layer %zu: n_streams or laurel_rank need attention and a dense step with norms", l);
    if (cut && (!s->gated || s->n_experts))
        return error_set(e, TERN_BAD_FILE, "layer %zu: ffn_cutoff needs a dense step with a gate", l);
    return TERN_OK;
}

static enum tern_status check_shape(const struct model *m, const struct shape *s, size_t l,
                                    struct tern_error *e)
{
    enum tern_status (*const checks[])(const struct model *, const struct shape *, size_t,
                                       struct tern_error *) = {
        check_heads, check_kv, check_latent, check_ffn, check_mixer, check_streams, check_groups};
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < COUNT(checks) && !status; i++)
        status = checks[i](m, s, l, e);
    return status;
}

/* The layer that guesses: attention over keys of its own, and a feed-forward step */
static enum tern_status check_mtp(const struct model *m, const struct shape *s,
                                  struct tern_error *e)
{
    if (s->mixer == MIX_ATTENTION && s->hidden && !s->kv_from && !s->scaled && !m->ple_dim &&
        !m->learned_positions)
        return TERN_OK;
    return error_set(e, TERN_BAD_FILE, "layer %zu: mtp with %s, which is not understood", m->n_layers,
                     s->mixer != MIX_ATTENTION ? "another mixer than attention"
                     : !s->hidden              ? "no feed-forward step"
                     : s->kv_from              ? "kv_from"
                     : s->scaled               ? "layer_scale"
                     : m->ple_dim              ? "ple_dim"
                                               : "learned_positions");
}

enum tern_status config_read(struct model *m, struct keys *keys, struct tern_error *e)
{
    static const char *const norms[] = {"rms", "layer"};
    size_t activation = 0, norm = 0;
    enum tern_status s = read_all(keys, model_sizes, COUNT(model_sizes), model_numbers,
                                  COUNT(model_numbers), m, sizeof *m, 1, e);
    if (s || (s = read_name(keys, "activation", activations, COUNT(activations), &activation, e)) ||
        (s = read_name(keys, "norm", norms, COUNT(norms), &norm, e)))
        return s;
    m->activation = (enum activation)activation;
    m->layer_norm = norm == 1;
    m->has_mtp = m->n_mtp != 0;
    if (m->ple_dim > MAX_WIDTH / m->n_layers)
        return out_of_range("ple_dim", m->ple_dim, 0, MAX_WIDTH / m->n_layers, e);
    if (m->n_streams == 1 || (m->n_streams && m->n_mtp))
        return error_set(e, TERN_BAD_FILE, "config key 'n_streams' is 1, or with mtp");
    m->ple_vocab = m->ple_vocab && m->ple_vocab < m->vocab ? m->ple_vocab : m->vocab;
    size_t n_layers = m->n_layers + m->n_mtp;
    m->shapes = calloc(n_layers, sizeof *m->shapes);
    if (!m->shapes)
        return error_memory(e, "the layers", n_layers * sizeof *m->shapes);
    if ((s = read_all(keys, layer_sizes, COUNT(layer_sizes), layer_numbers, COUNT(layer_numbers),
                      m->shapes, sizeof *m->shapes, n_layers, e)) ||
        (s = read_ropes(keys, m, e)) || (s = read_alibi(keys, m, e)) ||
        (s = read_q_scales(keys, m, e)))
        return s;
    for (size_t l = 0; l < n_layers; l++)
        if ((s = check_shape(m, &m->shapes[l], l, e)))
            return s;
    if (m->n_mtp && (s = check_mtp(m, &m->shapes[m->n_layers], e)))
        return s;
    return keys_unknown(keys, e);
}
