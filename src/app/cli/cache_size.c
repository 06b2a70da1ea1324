/* The cache in numbers: see cache_size.h. */
#include "app/cli/cache_size.h"

#include "app/cli/number.h"

#include <stdio.h>

enum { WINDOW = 512, TOKEN_BYTES = 4, VALUE_BYTES = 2 };

const uint32_t cache_lengths[CACHE_LENGTHS] = {512, 4096, 32768};

/* Adds what one layer keeps with `kv_heads` KV heads and a window (0: none). */
static void add_layer(struct cache_size *s, const struct tern_layer_info *l, uint64_t kv_heads,
                      uint64_t window)
{
    if (l->kv_shared)
        return;
    uint64_t bytes = (l->kv_rank ? 1 : 2) * kv_heads * l->head_dim * VALUE_BYTES;
    s->position += bytes;
    for (size_t i = 0; i < CACHE_LENGTHS; i++)
        s->at[i] += bytes * (window && window < cache_lengths[i] ? window : cache_lengths[i]);
}

void cache_sizes(const tern_model *model, struct cache_size sizes[CACHE_SIZES])
{
    struct tern_model_info m;
    tern_model_info(model, &m);
    uint64_t window = m.window ? m.window : WINDOW;
    sizes[0] = (struct cache_size){.name = "this model"};
    sizes[1] = sizes[2] = sizes[3] = (struct cache_size){.name = "MQA, 1 KV head"};
    snprintf(sizes[1].name, sizeof sizes[1].name, "MHA, %u KV heads", (unsigned)m.n_heads);
    snprintf(sizes[3].name, sizeof sizes[3].name, "window %u", (unsigned)window);
    for (size_t i = 0; i < CACHE_SIZES * CACHE_LENGTHS; i++)
        sizes[i / CACHE_LENGTHS].at[i % CACHE_LENGTHS] +=
            TOKEN_BYTES * (uint64_t)cache_lengths[i % CACHE_LENGTHS];
    for (uint64_t i = 0; i < m.n_layers; i++) {
        struct tern_layer_info l;
        tern_model_layer(model, i, &l);
        add_layer(&sizes[0], &l, l.n_kv_heads, l.window);
        add_layer(&sizes[1], &l, l.n_heads, l.window);
        add_layer(&sizes[2], &l, 1, l.window);
        add_layer(&sizes[3], &l, l.n_kv_heads, window);
    }
}

const char *cache_sum(const tern_model *model, char *text, size_t n)
{
    struct tern_model_info m;
    struct cache_size sizes[CACHE_SIZES];
    char factors[96] = "", grouped[32];
    tern_model_info(model, &m);
    cache_sizes(model, sizes);
    uint64_t bytes = m.n_layers * m.n_kv_heads * m.head_dim * 2 * VALUE_BYTES;
    if (bytes == sizes[0].position) /* every layer is like the first */
        snprintf(factors, sizeof factors, " x %u KV heads x %u x 2 x %d bytes",
                 (unsigned)m.n_kv_heads, (unsigned)m.head_dim, VALUE_BYTES);
    snprintf(text, n, "%u layers%s = %s a position, plus %d for its token", (unsigned)m.n_layers,
             factors, number_grouped(sizes[0].position, grouped, sizeof grouped), TOKEN_BYTES);
    return text;
}
