/* Toy models: see toy.h. */
#include "toy.h"

#include "weights/keywriter.h"
#include "kernels/formats.h"
#include "weights/writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct toy toy_default(void)
{
    return (struct toy){.seed = 1,
                        .n_layers = 2,
                        .dim = 64,
                        .n_heads = 4,
                        .n_kv_heads = 2,
                        .head_dim = 16,
                        .hidden = 160,
                        .vocab = 259,
                        .max_seq = 64,
                        .rope_theta = 10000,
                        .norm_eps = 1e-5f};
}

void toy_path(char *path, size_t size, const char *name)
{
    static int count;
    const char *folder = getenv("TMPDIR");
    snprintf(path, size, "%s/tern-%ld-%d-%s", folder ? folder : "/tmp", (long)getpid(), count++,
             name);
}

/* ---- values ---- */

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

static uint64_t fnv1a64(const char *s)
{
    uint64_t h = 0xCBF29CE484222325;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001B3;
    return h;
}

static bool ends(const char *name, const char *with)
{
    size_t n = strlen(name), m = strlen(with);
    return n >= m && !strcmp(name + n - m, with);
}

static float scale_of(const char *name, uint64_t k)
{
    double scale = sqrt(3.0 / (double)k);
    if (!strcmp(name, "embed"))
        return 1;
    if (ends(name, "_bias"))
        return 0.5f;
    return (float)(strcmp(name, "head") ? scale : 4 * scale);
}

void toy_values(float *values, size_t n, uint64_t seed, const char *name, uint64_t k)
{
    uint64_t key = seed ^ fnv1a64(name);
    bool norm = ends(name, "_norm") || ends(name, "_scale");
    bool decay = ends(name, "mix_a");
    float scale = scale_of(name, k);
    for (size_t i = 0; i < n; i++) {
        int64_t bits = (int64_t)(mix(key + i * 0x9E3779B97F4A7C15) >> 40) - (1 << 23);
        float u = (float)bits * 0x1p-23f;
        values[i] = norm ? 1 + u * 0.25f : decay ? 1 + u * 0.75f : u * scale;
    }
}

/* ---- tensors: one walk declares them, a second one writes them ---- */

struct walk {
    const struct toy *toy;
    struct writer *w;
    bool data;
    enum tern_status status;
    struct tern_error *e;
};

enum tern_status toy_data(struct writer *w, const char *name, enum tern_type type, uint64_t rows,
                          uint64_t k, uint64_t matrices, uint64_t seed, struct tern_error *e)
{
    const struct format *f = format_find(type);
    size_t n = (size_t)(rows * k);
    uint64_t bytes = 0;
    format_size(f, rows, k, 1, &bytes);
    float *values = malloc(n * (size_t)matrices * sizeof *values);
    char *data = malloc((size_t)(bytes * matrices));
    enum tern_status s = error_memory(e, "a toy tensor", (size_t)(bytes * matrices));
    if (values && data) {
        toy_values(values, n * (size_t)matrices, seed, name, k);
        for (size_t i = 0; i < matrices; i++)
            format_encode_matrix(f, data + i * bytes, values + i * n, rows, k);
        s = writer_data(w, data, (size_t)(bytes * matrices), e);
    }
    free(values);
    free(data);
    return s;
}

/* layer < 0: the name stands alone */
static void tensor(struct walk *a, int layer, const char *name, enum tern_type type, uint64_t rows,
                   uint64_t k)
{
    char full[64];
    if (a->status)
        return;
    if (layer < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "layer.%d.%s", layer, name);
    if (a->data)
        a->status = toy_data(a->w, full, type, rows, k, 1, a->toy->seed, a->e);
    else
        a->status = writer_tensor(a->w, full, type, rows, k, 1, a->e);
}

static void layer_tensors(struct walk *a, int l)
{
    const struct toy *t = a->toy;
    const uint64_t q = t->n_heads * t->head_dim, kv = t->n_kv_heads * t->head_dim;
    const struct {
        const char *name, *bias;
        uint64_t rows, k;
        bool has_bias;
    } matrices[] = {
        {"q", "q_bias", q, t->dim, t->attn_bias & 1},
        {"k", "k_bias", kv, t->dim, t->attn_bias & 2},
        {"v", "v_bias", kv, t->dim, t->attn_bias & 4},
        {"o", "o_bias", t->dim, q, t->attn_bias & 8},
        {"gate", "gate_bias", t->hidden, t->dim, t->ffn_bias & 1},
        {"up", "up_bias", t->hidden, t->dim, t->ffn_bias & 2},
        {"down", "down_bias", t->dim, t->hidden, t->ffn_bias & 4},
    };
    const size_t n = sizeof matrices / sizeof *matrices;
    tensor(a, l, "attn_norm", TERN_F32, t->dim, 1);
    tensor(a, l, "ffn_norm", TERN_F32, t->dim, 1);
    for (size_t i = 0; i < n; i++)
        tensor(a, l, matrices[i].name, t->type, matrices[i].rows, matrices[i].k);
    for (size_t i = 0; i < n; i++)
        if (matrices[i].has_bias)
            tensor(a, l, matrices[i].bias, TERN_F32, matrices[i].rows, 1);
}

static void all_tensors(struct walk *a)
{
    const struct toy *t = a->toy;
    tensor(a, -1, "embed", t->type, t->vocab, t->dim);
    for (int l = 0; l < (int)t->n_layers; l++)
        layer_tensors(a, l);
    tensor(a, -1, "final_norm", TERN_F32, t->dim, 1);
    if (t->untied)
        tensor(a, -1, "head", t->type, t->vocab, t->dim);
}

/* ---- sections ---- */

static bool has_rope(const struct toy *t)
{
    return t->rope_theta != 0 || t->inv_freq != NULL;
}

static void rope_keys(struct keywriter *k, const struct toy *t)
{
    float inv_freq[512] = {0};
    size_t half = t->head_dim / 2 < 512 ? (size_t)t->head_dim / 2 : 512;
    for (size_t i = 0; i < half; i++)
        inv_freq[i] = t->inv_freq
                          ? t->inv_freq[i]
                          : (float)(1 / pow(t->rope_theta, 2.0 * (double)i / (double)t->head_dim));
    keywriter_add(k, "rope.0.inv_freq", true, KEY_F32, inv_freq, half);
    keywriter_f32(k, "rope.0.factor", 1);
    if (!t->rope_limit)
        return;
    for (size_t i = 0; i < half; i++)
        inv_freq[i] /= 3;
    keywriter_add(k, "rope.0.far_freq", true, KEY_F32, inv_freq, half);
    keywriter_u64(k, "rope.0.limit", t->rope_limit);
}

static void config_keys(struct keywriter *k, const struct toy *t)
{
    keywriter_u64(k, "n_layers", t->n_layers);
    keywriter_u64(k, "dim", t->dim);
    keywriter_u64(k, "vocab", t->vocab);
    keywriter_u64(k, "max_seq", t->max_seq);
    keywriter_f32(k, "norm_eps", t->norm_eps);
    keywriter_u64(k, "head_tied", !t->untied);
    keywriter_u64(k, "n_heads", t->n_heads);
    keywriter_u64(k, "n_kv_heads", t->n_kv_heads);
    keywriter_u64(k, "head_dim", t->head_dim);
    keywriter_u64(k, "hidden", t->hidden);
    keywriter_add(k, "window", true, KEY_U64, t->window, t->n_layers);
    keywriter_u64(k, "rope_set", has_rope(t));
    keywriter_f32(k, "attn_scale", (float)(1 / sqrt((double)t->head_dim)));
    keywriter_u64(k, "attn_bias", t->attn_bias);
    keywriter_u64(k, "ffn_bias", t->ffn_bias);
    keywriter_text(k, "activation", "silu");
    if (has_rope(t))
        rope_keys(k, t);
}

static enum tern_status keys_section(struct writer *w, const char *tag, bool critical,
                                     struct keywriter *k, struct tern_error *e)
{
    enum tern_status s = k->failed ? error_memory(e, "a toy section", k->bytes)
                                   : writer_section(w, tag, critical, k->data, k->bytes, e);
    keywriter_close(k);
    return s;
}

enum tern_status toy_last_sections(struct writer *w, struct tern_error *e)
{
    struct keywriter k;
    keywriter_init(&k);
    keywriter_text(&k, "name", "toy");
    enum tern_status s = keys_section(w, "provenance", false, &k, e);
    return s ? s : writer_empty_seal(w, e);
}

static enum tern_status sections(struct writer *w, const struct toy *t, struct tern_error *e)
{
    struct keywriter k;
    keywriter_init(&k);
    config_keys(&k, t);
    enum tern_status s = keys_section(w, "config", true, &k, e);
    if (!s && t->tokenizer)
        s = writer_section(w, "tokenizer", true, t->tokenizer, t->tokenizer_bytes, e);
    return s ? s : toy_last_sections(w, e);
}

enum tern_status toy_write(const char *path, const struct toy *toy, struct tern_error *e)
{
    struct walk a = {.toy = toy, .e = e};
    a.status = writer_open(&a.w, path, e);
    if (!a.status)
        a.status = sections(a.w, toy, e);
    all_tensors(&a);
    a.data = true;
    all_tensors(&a);
    if (!a.status)
        a.status = writer_finish(a.w, e);
    writer_close(a.w);
    return a.status;
}
