/* The config of a random model: see random_config.h. */
#include "engine/lab/random_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "kernels/math.h"

enum { MAX_LAYERS = 1024, MAX_HALF = 512 };

/* A key of the shape's text as it stands there */
struct item {
    const char *name, *values;
    size_t name_bytes, bytes;
};

static bool next_item(const char **text, struct item *it)
{
    const char *at = *text;
    size_t n = at ? strcspn(at, ",") : 0;
    if (!n)
        return false;
    it->name = at, it->name_bytes = strcspn(at, "=,");
    it->values = at + it->name_bytes + (it->name_bytes < n);
    it->bytes = n - (size_t)(it->values - at);
    *text = at + n + (at[n] == ',');
    return true;
}

static bool find_item(const char *text, const char *name, struct item *it)
{
    while (next_item(&text, it))
        if (it->name_bytes == strlen(name) && !memcmp(it->name, name, it->name_bytes))
            return true;
    return false;
}

/* Digits with at most one point; NULL where there are none */
static const char *read_number(const char *p, const char *end, double *value)
{
    const char *begin = p;
    double unit = 1;
    bool point = false;
    for (*value = 0; p < end && ((*p >= '0' && *p <= '9') || (*p == '.' && !point)); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        *value = *value * 10 + (*p - '0');
        unit = point ? unit * 10 : 1;
    }
    *value /= unit;
    return p == begin ? NULL : p;
}

/* The values "2*3/1" are 2, 2, 2, 1 and begin anew after the last, up to `max`. Returns how many
 * stand there, 0 when they are no numbers. */
static size_t read_values(const struct item *it, double *to, size_t max)
{
    const char *p = it->values, *end = p + it->bytes;
    size_t n = 0;
    for (double value, times; p < end; p += p < end && *p == '/') {
        times = 1;
        p = read_number(p, end, &value);
        if (p && p < end && *p == '*')
            p = read_number(p + 1, end, &times);
        if (!p || (p < end && *p != '/'))
            return 0;
        for (; times >= 1 && n < max; times--)
            to[n++] = value;
    }
    for (size_t i = n; n && i < max; i++)
        to[i] = to[i - n];
    return n;
}

/* ---- the keys of the text ------------------------------------------------------------------- */

static void add_values(struct keywriter *k, const char *name, bool reals, const double *v,
                       size_t n)
{
    uint64_t whole[MAX_LAYERS];
    float real[MAX_LAYERS];
    for (size_t i = 0; i < n; i++)
        whole[i] = (uint64_t)v[i], real[i] = (float)v[i];
    keywriter_add(k, name, true, reals ? KEY_F32 : KEY_U64, reals ? (void *)real : whole, n);
}

static enum tern_status add_item(struct keywriter *k, const struct item *it, size_t n_layers,
                                 struct tern_error *e)
{
    char name[64] = {0}, word[64] = {0};
    double v[MAX_LAYERS];
    memcpy(name, it->name, min_size(it->name_bytes, sizeof name - 1));
    if (it->bytes && it->bytes < sizeof word && *it->values >= 'a' && *it->values <= 'z') {
        memcpy(word, it->values, it->bytes);
        keywriter_text(k, name, word);
        return TERN_OK;
    }
    size_t n = read_values(it, v, n_layers);
    if (!n)
        return error_set(e, TERN_USAGE, "shape: '%.60s' is not a key as in mixer=2*3/1 or norm=layer",
                         name);
    add_values(k, name, memchr(it->values, '.', it->bytes), v, n > 1 ? n_layers : 1);
    return TERN_OK;
}

/* ---- the shape's own ------------------------------------------------------------------------ */

/* A size of heads, 0 in layers whose mixer is not attention */
static void add_heads(struct keywriter *k, const struct tern_shape *s, const char *name,
                      uint64_t value)
{
    struct item it;
    double mixer[MAX_LAYERS], v[MAX_LAYERS];
    if (!find_item(s->keys, "mixer", &it) || !read_values(&it, mixer, s->n_layers)) {
        keywriter_u64(k, name, value);
        return;
    }
    for (uint64_t l = 0; l < s->n_layers; l++)
        v[l] = (uint64_t)mixer[l] & 1 ? (double)value : 0;
    add_values(k, name, false, v, s->n_layers);
}

/* 10000^(-i / half) for each set of `rope_dims`, or for one of whole heads */
static void add_ropes(struct keywriter *k, const struct tern_shape *s)
{
    struct item it;
    double dims[8] = {(double)s->head_dim};
    float inv_freq[MAX_HALF];
    char name[] = "rope.0.inv_freq";
    size_t n = find_item(s->keys, "rope_dims", &it) ? read_values(&it, dims, 8) : 1;
    for (size_t set = 0; set < n; set++, name[5]++) {
        size_t half = min_size((size_t)dims[set] / 2, MAX_HALF);
        for (size_t i = 0; i < half; i++)
            inv_freq[i] = math_exp(-9.210340372f * (float)i / (float)half);
        keywriter_add(k, name, true, KEY_F32, inv_freq, half);
    }
}

static void add_own(struct keywriter *k, const struct tern_shape *s)
{
    struct item it;
    const struct {
        const char *name;
        uint64_t value;
        bool heads;
    } numbers[] = {{"n_layers", s->n_layers, false},
                   {"dim", s->dim, false},
                   {"vocab", s->vocab, false},
                   {"max_seq", s->max_seq, false},
                   {"head_tied", s->tied != 0, false},
                   {"n_heads", s->n_heads, true},
                   {"n_kv_heads", s->n_kv_heads, true},
                   {"head_dim", s->head_dim, true},
                   {"hidden", s->hidden, false},
                   {"rope_set", 1, false},
                   {"window", s->window, false}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (find_item(s->keys, numbers[i].name, &it))
            continue;
        else if (numbers[i].heads)
            add_heads(k, s, numbers[i].name, numbers[i].value);
        else if (numbers[i].value || strcmp(numbers[i].name, "window"))
            keywriter_u64(k, numbers[i].name, numbers[i].value);
    add_ropes(k, s);
    keywriter_f32(k, "norm_eps", 1e-5f);
    if (!find_item(s->keys, "attn_scale", &it))
        keywriter_f32(k, "attn_scale", 1 / sqrtf((float)s->head_dim));
    if (!find_item(s->keys, "activation", &it))
        keywriter_text(k, "activation", "silu");
}

enum tern_status random_config(struct keywriter *k, const struct tern_shape *s,
                               struct tern_error *e)
{
    struct item it;
    keywriter_init(k);
    add_own(k, s);
    for (const char *text = s->keys; next_item(&text, &it);) {
        enum tern_status status = TERN_OK;
        if (it.name_bytes != 9 || memcmp(it.name, "rope_dims", 9))
            status = add_item(k, &it, s->n_layers, e);
        if (status)
            return status;
    }
    return k->failed ? error_memory(e, "the config", k->bytes) : TERN_OK;
}
