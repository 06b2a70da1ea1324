/* Keys and values in the cache: every one is read back as the type rounds it, whatever was written
 * after it, and one that is too large for the type is reported. */
#include "model/kv_store.h"
#include "suite.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { N_CTX = 300, N_LAYERS = 2, HEADS = 2, MAX_DIM = 70 };

static const size_t dims[] = {1, 5, 32, 40, 70};
static const enum tern_cache_type types[] = {TERN_CACHE_F16, TERN_CACHE_F32, TERN_CACHE_Q8};

static struct layer layers[N_LAYERS];
static const struct model model = {.n_layers = N_LAYERS, .layers = layers};
static struct cache cache;
static struct kernels kernels;
static struct forward f;

/* of the scratch */
static int8_t q8[MAX_DIM + GROUP];
static float scale[MAX_DIM];
static int32_t sum[MAX_DIM];
static uint16_t half[MAX_DIM];
static struct attention_scratch scratch = {.q8 = q8, .scale = scale, .sum = sum, .half = half};

static void open_all(enum tern_cache_type type, size_t dim)
{
    struct tern_error e = {0};
    for (size_t l = 0; l < N_LAYERS; l++)
        layers[l] = (struct layer){.n_kv_heads = HEADS, .head_dim = dim};
    ck_assert(!kernels_init(&kernels, NULL, &e));
    ck_assert_msg(!cache_open(&cache, &model, &(struct cache_request){type, N_CTX, N_CTX, 1, 0}, &e), "%s", e.text);
    cache_extend(&cache, 0, N_CTX);
    f.model = &model, f.kernels = &kernels, f.cache = &cache;
    atomic_store(&f.bad, 0);
}

/* Number i of all keys and values [dim]: of every size and sign, and never the same */
static void make(float *x, size_t i, size_t dim)
{
    for (size_t d = 0; d < dim; d++)
        x[d] = ldexpf((float)((i * 7919 + d * 104729) % 65521) - 32760.5f, (int)(i % 9) - 17);
}

static void rounded(float *y, enum tern_cache_type type, const float *x, size_t dim)
{
    int8_t q[MAX_DIM + GROUP];
    float scales[MAX_DIM];
    int32_t sums[MAX_DIM];
    kernels.quantize(q, scales, sums, x, dim);
    for (size_t d = 0; d < dim; d++)
        y[d] = type == TERN_CACHE_F32   ? x[d]
               : type == TERN_CACHE_F16 ? f16_to_f32(f16_of_f32(x[d]))
                                        : (float)q[d] * f16_to_f32(f16_of_f32(scales[d / GROUP]));
}

/* The i-th of all keys and values */
struct place {
    size_t l, head;
    struct row row;
    bool is_key;
};

static struct place place_of(size_t i)
{
    size_t position = i / (2 * N_LAYERS * HEADS);
    return (struct place){
        i / 2 % N_LAYERS, i / (2 * N_LAYERS) % HEADS, {.position = (uint32_t)position}, i % 2};
}

START_TEST(what_is_stored_is_read_back)
{
    size_t dim = dims[_i % 5], n = 2 * N_LAYERS * HEADS * N_CTX;
    enum tern_cache_type type = types[_i / 5];
    float x[MAX_DIM], want[MAX_DIM], got[MAX_DIM + 1];
    open_all(type, dim);
    for (size_t i = 0; i < n; i++) {
        struct place p = place_of(i);
        make(x, i, dim);
        kv_store(&f, p.l, &p.row, p.head, p.is_key, x, dim, &scratch);
    }
    ck_assert_int_eq(atomic_load(&f.bad), 0);
    for (size_t i = 0; i < n; i++) {
        struct place p = place_of(i);
        make(x, i, dim);
        rounded(want, type, x, dim);
        got[dim] = 17;
        kv_load(got, &cache, p.l, 0, p.row.position, p.head, p.is_key, dim);
        if (memcmp(got, want, dim * sizeof *got) || !(got[dim] >= 17 && got[dim] <= 17))
            ck_abort_msg("layer %zu, head %zu, position %u, %s", p.l, p.head, p.row.position,
                         p.is_key ? "key" : "value");
    }
    cache_close(&cache);
}
END_TEST

/* Largest values: of f32, of f16, and of 127 with the largest scale in f16 */
START_TEST(what_is_too_large_is_reported)
{
    static const float limits[] = {65504, FLT_MAX, 127 * 65504.0f};
    for (int is_key = 0; is_key < 2; is_key++) {
        float x[40] = {0};
        struct row row = {.position = 3};
        open_all(types[_i], 40);
        x[39] = -limits[_i];
        kv_store(&f, 1, &row, 1, is_key, x, 40, &scratch);
        ck_assert_int_eq(atomic_load(&f.bad), 0);
        x[39] = nextafterf(x[39], -INFINITY);
        kv_store(&f, 1, &row, 1, is_key, x, 40, &scratch);
        ck_assert_int_eq(atomic_load(&f.bad), 1 + N_BAD * 1 + (is_key ? BAD_KEY : BAD_VALUE));
        cache_close(&cache);
    }
}
END_TEST

SUITE("kv store", LOOP(what_is_stored_is_read_back, 0, 15),
      LOOP(what_is_too_large_is_reported, 0, 3))
