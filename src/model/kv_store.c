/* Keys and values into the cache, and back: see kv_store.h; kernels.h draws K and V of a block. */
#include "model/kv_store.h"

#include <float.h>
#include <string.h>

#include "base/sizes.h"

/* One key [head_dim] into its lane of a K tile: k[tile][d][lane]. */
static void store_key(void *k, enum tern_cache_type type, const void *key, size_t head_dim,
                      size_t p)
{
    size_t at = p / LANES * head_dim * LANES + p % LANES;
    for (size_t d = 0; d < head_dim; d++, at += LANES)
        if (type == TERN_CACHE_F32)
            ((float *)k)[at] = ((const float *)key)[d];
        else
            ((uint16_t *)k)[at] = ((const uint16_t *)key)[d];
}

/* One quantized key into its row of a q8 tile */
static void store_key_q8(unsigned char *k, const int8_t *q, const uint16_t *scale, size_t groups,
                         size_t p)
{
    const struct format *q8 = format_find(TERN_Q8);
    k += p / LANES * groups * q8->grain_bytes;
    for (size_t g = 0; g < groups; g++, k += q8->grain_bytes, q += GROUP) {
        for (size_t c = 0; c < GROUP; c += 4)
            memcpy(k + (c * LANES + 4 * (p % LANES)), q + c, 4);
        memcpy(k + GROUP * LANES + 2 * (p % LANES), scale + g, sizeof *scale);
    }
}

/* One quantized value into its row of V, and its scales behind all rows */
static void store_value_q8(unsigned char *v, const int8_t *q, const uint16_t *scale, size_t groups,
                           size_t p)
{
    uint16_t *scales = (uint16_t *)(void *)(v + BLOCK * groups * GROUP);
    memcpy(v + p * groups * GROUP, q, groups * GROUP);
    for (size_t g = 0; g < groups; g++)
        scales[g * BLOCK + p] = scale[g];
}

void kv_put(void *to, enum tern_cache_type type, bool is_key, const void *x, const uint16_t *scale,
            size_t head_dim, size_t p)
{
    size_t bytes = head_dim * (type == TERN_CACHE_F32 ? 4 : 2);
    if (type == TERN_CACHE_Q8)
        (is_key ? store_key_q8 : store_value_q8)(to, x, scale, ceil_div(head_dim, GROUP), p);
    else if (is_key)
        store_key(to, type, x, head_dim, p);
    else
        memcpy((char *)to + p * bytes, x, bytes);
}

/* Largest size of a value: f16's, and for q8 f16's scale's */
static float cache_limit(enum tern_cache_type type)
{
    return type == TERN_CACHE_F32 ? FLT_MAX : type == TERN_CACHE_F16 ? 65504.0f : 127 * 65504.0f;
}

void kv_write(const struct kernels *k, void *to, enum tern_cache_type type, bool is_key,
              const float *x, size_t head_dim, size_t p, struct attention_scratch *s)
{
    const void *rounded = x;
    if (type == TERN_CACHE_F16) {
        k->to_f16(s->half, x, head_dim);
        rounded = s->half;
    }
    if (type == TERN_CACHE_Q8) {
        k->quantize(s->q8, s->scale, s->sum, x, head_dim);
        k->to_f16(s->half, s->scale, ceil_div(head_dim, GROUP));
        rounded = s->q8;
    }
    kv_put(to, type, is_key, rounded, s->half, head_dim, p);
}

void kv_store(struct forward *f, size_t l, const struct row *row, size_t head, bool is_key,
              const float *x, size_t head_dim, struct attention_scratch *s)
{
    enum tern_cache_type type = f->cache->type;
    void *to = (is_key ? cache_k : cache_v)(f->cache, l, row->seq, row->position, head);
    if (!f->kernels->in_range(x, head_dim, cache_limit(type)))
        mark_bad(f, l, is_key ? BAD_KEY : BAD_VALUE);
    kv_write(f->kernels, to, type, is_key, x, head_dim, row->position % BLOCK, s);
}

void kv_clear(unsigned char *block, const struct cache *c, const struct layer *w, size_t begin,
              size_t end, const void *zeros)
{
    for (size_t p = begin; p < end && p < BLOCK; p++)
        for (size_t h = 0; h < layer_kv(w); h++)
            kv_put(block + h * c->layers[w->index].kv_bytes, c->type, h % 2 == 0, zeros, zeros,
                   w->head_dim, p);
}

/* ---- and back ----------------------------------------------------------------------------- */

/* Dim d of the key or value at position p of a block: store_key_q8, store_value_q8 read backwards */
static float load_q8(const unsigned char *from, bool is_key, size_t d, size_t groups, size_t p)
{
    const struct format *q8 = format_find(TERN_Q8);
    size_t g = d / GROUP, c = d % GROUP, lane = p % LANES, at;
    uint16_t scale;
    if (is_key) {
        from += (p / LANES * groups + g) * q8->grain_bytes;
        at = c / 4 * 4 * LANES + 4 * lane + c % 4;
        memcpy(&scale, from + GROUP * LANES + 2 * lane, sizeof scale);
    } else {
        at = p * groups * GROUP + d;
        memcpy(&scale, from + BLOCK * groups * GROUP + 2 * (g * BLOCK + p), sizeof scale);
    }
    return (float)(int8_t)from[at] * f16_to_f32(scale);
}

void kv_load(float *x, const struct cache *c, size_t l, size_t seq, size_t position, size_t head,
             bool is_key, size_t head_dim)
{
    const void *from = (is_key ? cache_k : cache_v)(c, l, seq, position, head);
    size_t p = position % BLOCK;
    for (size_t d = 0; d < head_dim; d++) {
        size_t at = is_key ? (p / LANES * head_dim + d) * LANES + p % LANES : p * head_dim + d;
        x[d] = c->type == TERN_CACHE_Q8    ? load_q8(from, is_key, d, ceil_div(head_dim, GROUP), p)
               : c->type == TERN_CACHE_F32 ? ((const float *)from)[at]
                                           : f16_to_f32(((const uint16_t *)from)[at]);
    }
}
