/* Config keys to features, tensor names to shape-checked matrices: see model.h and FORMAT.md. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keys.h"

enum {
    MAX_LAYERS = 1024,
    MAX_WIDTH = 1 << 20, /* of anything that activations are as wide as */
    MAX_HEADS = 4096,
    MAX_HEAD_DIM = 1024,
    MAX_VOCAB = 1 << 24,
    MAX_SEQ = 1 << 24, /* a position must be exact in f32 */
    MAX_ROPES = 8,
};

static enum tern_status out_of_range(const char *key, uint64_t value, uint64_t low, uint64_t high,
                                     struct tern_error *e)
{
    return error_set(e, TERN_BAD_FILE, "config key '%s' is %llu, want %llu to %llu", key,
                     (unsigned long long)value, (unsigned long long)low, (unsigned long long)high);
}

/* A needed key with one value in low .. high. */
static enum tern_status need_size(struct keys *keys, const char *name, uint64_t low, uint64_t high,
                                  size_t *out, struct tern_error *e)
{
    uint64_t value;
    if (!keys_find(keys, name))
        return error_set(e, TERN_BAD_FILE, "config key '%s' is missing", name);
    enum tern_status s = keys_u64(keys, name, &value, e);
    if (s)
        return s;
    if (value < low || value > high)
        return out_of_range(name, value, low, high, e);
    *out = (size_t)value;
    return TERN_OK;
}

/* A key with one value for all layers or one for each: its values, and *step 0 or 1. */
static enum tern_status per_layer_count(uint64_t count, const char *name, size_t n_layers,
                                        size_t *step, struct tern_error *e)
{
    if (count != 1 && count != n_layers)
        return error_set(e, TERN_BAD_FILE, "config key '%s' has %llu values, want 1 or %zu", name,
                         (unsigned long long)count, n_layers);
    *step = count == n_layers && n_layers > 1;
    return TERN_OK;
}

struct layer_key {
    const char *name;
    uint64_t low, high;
    size_t field; /* offset of a size_t in struct shape */
    int needed;
};

/* What the config says of one layer before it is bound. */
struct shape {
    size_t n_heads, n_kv_heads, head_dim, hidden, window, rope_set, attn_bias, ffn_bias;
};

static const struct layer_key layer_keys[] = {
    {"n_heads", 1, MAX_HEADS, offsetof(struct shape, n_heads), 1},
    {"n_kv_heads", 1, MAX_HEADS, offsetof(struct shape, n_kv_heads), 1},
    {"head_dim", 1, MAX_HEAD_DIM, offsetof(struct shape, head_dim), 1},
    {"hidden", 1, MAX_WIDTH, offsetof(struct shape, hidden), 1},
    {"window", 0, UINT32_MAX, offsetof(struct shape, window), 0},
    {"rope_set", 0, MAX_ROPES, offsetof(struct shape, rope_set), 0},
    {"attn_bias", 0, 15, offsetof(struct shape, attn_bias), 0},
    {"ffn_bias", 0, 7, offsetof(struct shape, ffn_bias), 0},
};

static enum tern_status read_layer_key(struct keys *keys, const struct layer_key *key,
                                       struct shape *shapes, size_t n_layers, struct tern_error *e)
{
    const uint64_t *values = NULL;
    uint64_t count = 0;
    size_t step = 0;
    enum tern_status s = keys_u64s(keys, key->name, &values, &count, e);
    if (s || (!values && !key->needed))
        return s;
    if (!values)
        return error_set(e, TERN_BAD_FILE, "config key '%s' is missing", key->name);
    if ((s = per_layer_count(count, key->name, n_layers, &step, e)))
        return s;
    for (size_t l = 0; l < n_layers; l++) {
        uint64_t value = load_u64(&values[l * step]);
        if (value < key->low || value > key->high)
            return out_of_range(key->name, value, key->low, key->high, e);
        *(size_t *)((char *)&shapes[l] + key->field) = (size_t)value;
    }
    return TERN_OK;
}

static int is_finite(float x)
{
    return x - x == 0;
}

static enum tern_status read_attn_scale(struct keys *keys, struct model *m, struct tern_error *e)
{
    const float *values = NULL;
    uint64_t count = 0;
    size_t step = 0;
    enum tern_status s = keys_f32s(keys, "attn_scale", &values, &count, e);
    if (s)
        return s;
    if (!values)
        return error_set(e, TERN_BAD_FILE, "config key 'attn_scale' is missing");
    if ((s = per_layer_count(count, "attn_scale", m->n_layers, &step, e)))
        return s;
    for (size_t l = 0; l < m->n_layers; l++) {
        m->layers[l].attn_scale = load_f32(&values[l * step]);
        if (!is_finite(m->layers[l].attn_scale))
            return error_set(e, TERN_BAD_FILE, "config key 'attn_scale' is not a finite number");
    }
    return TERN_OK;
}

static enum tern_status read_rope(struct keys *keys, struct rope_set *rope, size_t i,
                                  struct tern_error *e)
{
    char name[32];
    uint64_t count = 0;
    snprintf(name, sizeof name, "rope.%zu.inv_freq", i);
    enum tern_status s = keys_f32s(keys, name, &rope->inv_freq, &count, e);
    if (s || !rope->inv_freq)
        return s;
    if (count == 0 || count > MAX_HEAD_DIM / 2)
        return out_of_range(name, count, 1, MAX_HEAD_DIM / 2, e);
    for (size_t j = 0; j < count; j++)
        if (!is_finite(rope->inv_freq[j]))
            return error_set(e, TERN_BAD_FILE, "config key '%s' holds a value that is not finite",
                             name);
    rope->half = (size_t)count;
    rope->factor = 1;
    snprintf(name, sizeof name, "rope.%zu.factor", i);
    return keys_f32(keys, name, &rope->factor, e);
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
    }
    return TERN_OK;
}

/* What the features of one layer demand of each other. */
static enum tern_status check_shape(const struct model *m, const struct shape *s, size_t l,
                                    struct tern_error *e)
{
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
    return TERN_OK;
}

static enum tern_status read_globals(struct keys *keys, struct model *m, struct tern_error *e)
{
    const char *activation = NULL;
    uint64_t n = 0;
    size_t tied = 0;
    enum tern_status s;
    if ((s = need_size(keys, "n_layers", 1, MAX_LAYERS, &m->n_layers, e)) ||
        (s = need_size(keys, "dim", 1, MAX_WIDTH, &m->dim, e)) ||
        (s = need_size(keys, "vocab", 1, MAX_VOCAB, &m->vocab, e)) ||
        (s = need_size(keys, "max_seq", 1, MAX_SEQ, &m->max_seq, e)) ||
        (s = need_size(keys, "head_tied", 0, 1, &tied, e)) ||
        (s = keys_f32(keys, "norm_eps", &m->norm_eps, e)) ||
        (s = keys_text(keys, "activation", &activation, &n, e)))
        return s;
    m->head_tied = (int)tied;
    if (!(m->norm_eps >= 0) || !is_finite(m->norm_eps))
        return error_set(e, TERN_BAD_FILE,
                         "config key 'norm_eps' is missing, negative or not finite");
    if (!activation || !text_is(activation, n, "silu"))
        return error_set(e, TERN_BAD_FILE, "config key 'activation' is '%.*s', want 'silu'",
                         (int)(n < 64 ? n : 64), activation ? activation : "");
    return TERN_OK;
}

/* Reads every config key; then any critical key that was not asked for is refused by name. */
static enum tern_status read_config(struct model *m, struct shape **shapes, struct tern_error *e)
{
    struct keys *keys = weights_config(m->weights);
    enum tern_status s;
    m->norm_eps = -1;
    if ((s = read_globals(keys, m, e)))
        return s;
    m->layers = calloc(m->n_layers, sizeof *m->layers);
    *shapes = calloc(m->n_layers, sizeof **shapes);
    if (!m->layers || !*shapes)
        return error_memory(e, "the layers", m->n_layers * sizeof *m->layers);
    for (size_t i = 0; i < sizeof layer_keys / sizeof *layer_keys; i++)
        if ((s = read_layer_key(keys, &layer_keys[i], *shapes, m->n_layers, e)))
            return s;
    if ((s = read_attn_scale(keys, m, e)) || (s = read_ropes(keys, m, e)))
        return s;
    for (size_t l = 0; l < m->n_layers; l++)
        if ((s = check_shape(m, &(*shapes)[l], l, e)))
            return s;
    return keys_unknown(keys, e);
}

enum { ANY_TYPE = 1 << TERN_F32 | 1 << TERN_F16 | 1 << TERN_BF16 | 1 << TERN_Q8 | 1 << TERN_Q4 };

static enum tern_status bind_matrix(struct model *m, const char *name, size_t rows, size_t k,
                                    struct matrix *out, struct tern_error *e)
{
    const struct tensor *t;
    enum tern_status s = weights_bind(m->weights, name, ANY_TYPE, rows, k, &t, e);
    if (!s)
        *out = (struct matrix){t->data, t->type, rows, k, NULL};
    return s;
}

static enum tern_status bind_vector(struct model *m, const char *name, size_t n, const float **out,
                                    struct tern_error *e)
{
    const struct tensor *t;
    enum tern_status s = weights_bind(m->weights, name, 1 << TERN_F32, n, 1, &t, e);
    if (!s)
        *out = t->data;
    return s;
}

static enum tern_status bind_norm(struct model *m, size_t l, const char *part, const float **out,
                                  struct tern_error *e)
{
    char name[64];
    snprintf(name, sizeof name, "layer.%zu.%s", l, part);
    return bind_vector(m, name, m->dim, out, e);
}

/* layer.L.PART [rows, k], and layer.L.PART_bias [rows] where the config says so. */
static enum tern_status bind_linear(struct model *m, size_t l, const char *part, size_t rows,
                                    size_t k, int has_bias, struct matrix *out,
                                    struct tern_error *e)
{
    char name[64];
    snprintf(name, sizeof name, "layer.%zu.%s", l, part);
    enum tern_status s = bind_matrix(m, name, rows, k, out, e);
    if (s || !has_bias)
        return s;
    snprintf(name, sizeof name, "layer.%zu.%s_bias", l, part);
    return bind_vector(m, name, rows, &out->bias, e);
}

static enum tern_status bind_layer(struct model *m, size_t l, const struct shape *c,
                                   struct tern_error *e)
{
    struct layer *w = &m->layers[l];
    size_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    enum tern_status s;
    w->n_heads = c->n_heads, w->n_kv_heads = c->n_kv_heads, w->head_dim = c->head_dim;
    w->hidden = c->hidden, w->window = c->window;
    w->rope = c->rope_set ? &m->ropes[c->rope_set - 1] : NULL;
    (void)((s = bind_norm(m, l, "attn_norm", &w->attn_norm, e)) ||
           (s = bind_linear(m, l, "q", q, m->dim, c->attn_bias & 1, &w->q, e)) ||
           (s = bind_linear(m, l, "k", kv, m->dim, c->attn_bias & 2, &w->k, e)) ||
           (s = bind_linear(m, l, "v", kv, m->dim, c->attn_bias & 4, &w->v, e)) ||
           (s = bind_linear(m, l, "o", m->dim, q, c->attn_bias & 8, &w->o, e)) ||
           (s = bind_norm(m, l, "ffn_norm", &w->ffn_norm, e)) ||
           (s = bind_linear(m, l, "gate", c->hidden, m->dim, c->ffn_bias & 1, &w->gate, e)) ||
           (s = bind_linear(m, l, "up", c->hidden, m->dim, c->ffn_bias & 2, &w->up, e)) ||
           (s = bind_linear(m, l, "down", m->dim, c->hidden, c->ffn_bias & 4, &w->down, e)));
    return s;
}

static enum tern_status bind(struct model *m, const struct shape *shapes, struct tern_error *e)
{
    enum tern_status s;
    if ((s = bind_matrix(m, "embed", m->vocab, m->dim, &m->embed, e)) ||
        (s = bind_vector(m, "final_norm", m->dim, &m->final_norm, e)))
        return s;
    m->head = m->embed;
    if (!m->head_tied && (s = bind_matrix(m, "head", m->vocab, m->dim, &m->head, e)))
        return s;
    for (size_t l = 0; l < m->n_layers; l++)
        if ((s = bind_layer(m, l, &shapes[l], e)))
            return s;
    return weights_all_bound(m->weights, e);
}

enum tern_status model_open(struct model **out, const char *path, struct tern_error *e)
{
    struct shape *shapes = NULL;
    struct model *m = calloc(1, sizeof *m);
    enum tern_status s;
    *out = NULL;
    if (!m)
        return error_memory(e, "the model", sizeof *m);
    if (!(s = weights_open(&m->weights, path, e)) && (s = read_config(m, &shapes, e)))
        error_in(e, s, path);
    else if (!s)
        s = bind(m, shapes, e);
    free(shapes);
    if (s) {
        model_close(m);
        return s;
    }
    *out = m;
    return TERN_OK;
}

void model_close(struct model *m)
{
    if (!m)
        return;
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

uint64_t model_token_bytes(const struct model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < weights_count(m->weights); i++)
        n += weights_at(m->weights, i)->bytes;
    const struct tensor *embed = weights_find(m->weights, "embed");
    return m->head_tied ? n : n - embed->bytes;
}
