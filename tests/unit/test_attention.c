/* Attention as the tutorials work it out by hand, on the attention kernel of every target and both
 * cache types: (a) three tokens, causal; (b) two tokens, unmasked; (c) a masked score; then two
 * sequences in one batch, heads split, attended, concatenated and projected, against numbers that
 * attention_numbers.py made with numpy, for MHA, GQA and MQA. */
#include <math.h>

#include "kernel_levels.h"
#include "kernels/kernels.h"
#include "suite.h"

enum { MAX_DIM = 8, FRESH = 0xff };

/* One KV head: a page of K and of V, of a cache type; unwritten places hold NaNs. */
struct head {
    enum tern_cache_type type;
    size_t k_dim, v_dim;
    float k[BLOCK * MAX_DIM], v[BLOCK * MAX_DIM];
};

static void head_open(struct head *h, enum tern_cache_type type, size_t k_dim, size_t v_dim)
{
    memset(h, FRESH, sizeof *h);
    h->type = type, h->k_dim = k_dim, h->v_dim = v_dim;
}

static void put(struct head *h, float *page, size_t i, float x)
{
    if (h->type == TERN_CACHE_F32)
        page[i] = x;
    else
        ((uint16_t *)(void *)page)[i] = f16_of_f32(x);
}

static void write_position(struct head *h, size_t p, const float *k, const float *v)
{
    for (size_t d = 0; d < h->k_dim; d++)
        put(h, h->k, (p / 16 * h->k_dim + d) * 16 + p % 16, k[d]);
    for (size_t d = 0; d < h->v_dim; d++)
        put(h, h->v, p * h->v_dim + d, v[d]);
}

/* out [n_q, v_dim] = softmax(q k^T * scale) v over the positions lo..hi-1; q [n_q, k_dim] */
static void attend(const struct kernels *k, const struct head *h, float *out, const float *q,
                   size_t n_q, size_t lo, size_t hi, float scale)
{
    static float scores[MAX_DIM * BLOCK];
    float m[MAX_DIM], l[MAX_DIM];
    struct span see[MAX_DIM];
    for (size_t g = 0; g < n_q; g++)
        see[g] = (struct span){(uint16_t)lo, (uint16_t)hi};
    struct attend b = {.v_dim = h->v_dim, .a_stride = h->v_dim, .see = see, .scale = scale};
    b.q = (struct queries){.n = n_q, .k = h->k_dim, .stride = h->k_dim, .x = q};
    b.k = h->k, b.v = h->v, b.m = m, b.l = l, b.a = out, b.scores = scores;
    attend_block(k, h->type, &b);
    for (size_t g = 0; g < n_q; g++)
        k->divide(out + g * h->v_dim, out + g * h->v_dim, l[g], h->v_dim);
}

static void near(const float *got, const float *want, size_t n, double bound)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= bound))
            ck_abort_msg("[%zu]: got %.7f, want %.7f", i, got[i], want[i]);
}

/* _i: cache type, and 0 for ref or 1 + level */
static bool choose(int i, struct kernels *k, enum tern_cache_type *type)
{
    const struct level *level = i / 2 ? level_find((size_t)i / 2 - 1) : NULL;
    if (i / 2 && !level) {
        suite_skip(levels[i / 2 - 1].name, "not on this machine");
        return false;
    }
    *type = (enum tern_cache_type)(i % 2);
    kernels_fill(k, level ? level->cpu : 0);
    return true;
}

enum { N_CHOICES = 2 * (N_LEVELS + 1) };

static const float identity[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};

START_TEST(example_a)
{
    static const float x[3][2] = {{1, 0}, {0, 1}, {1, 1}}, v[3][2] = {{1, 2}, {3, 0}, {0, 1}};
    static const float weights[2][3][3] = {
        {{1}, {0.2689414f, 0.7310586f}, {0.2119416f, 0.2119416f, 0.5761169f}},
        {{1}, {0.3302385f, 0.6697615f}, {0.2482551f, 0.2482551f, 0.5034898f}}};
    struct kernels k;
    enum tern_cache_type type;
    struct head rows, weigher;
    if (!choose(_i, &k, &type))
        return;
    for (int scaled = 0; scaled < 2; scaled++) {
        float scale = scaled ? 0.70710678f : 1;
        head_open(&rows, type, 2, 2);
        head_open(&weigher, type, 2, 3); /* V = identity shows the softmax */
        for (size_t i = 0; i < 3; i++) {
            float got[3], want[2] = {0};
            write_position(&rows, i, x[i], v[i]);
            write_position(&weigher, i, x[i], identity[i]);
            attend(&k, &weigher, got, x[i], 1, 0, i + 1, scale);
            near(got, weights[scaled][i], 3, 1e-6);
            attend(&k, &rows, got, x[i], 1, 0, i + 1, scale);
            for (size_t j = 0; j <= i; j++)
                for (size_t d = 0; d < 2; d++)
                    want[d] += weights[scaled][i][j] * v[j][d];
            near(got, want, 2, 2e-6);
        }
    }
}
END_TEST

START_TEST(example_b)
{
    static const float x[2][2] = {{1, 0}, {0, 1}};
    static const float want[4] = {0.6697615f, 0.3302385f, 0.3302385f, 0.6697615f};
    struct kernels k;
    enum tern_cache_type type;
    struct head h;
    float got[4];
    if (!choose(_i, &k, &type))
        return;
    head_open(&h, type, 2, 2);
    write_position(&h, 0, x[0], x[0]);
    write_position(&h, 1, x[1], x[1]);
    attend(&k, &h, got, &x[0][0], 2, 0, 2, 0.70710678f);
    near(got, want, 4, 1e-6);
}
END_TEST

START_TEST(example_c)
{
    static const float key[3] = {2, 1, 3}, want[3] = {0.7310586f, 0.2689414f, 0};
    static const float without_first[3] = {0, 0.1192029f, 0.8807971f};
    struct kernels k;
    enum tern_cache_type type;
    struct head h;
    float one = 1, got[3];
    if (!choose(_i, &k, &type))
        return;
    head_open(&h, type, 1, 3);
    for (size_t p = 0; p < 3; p++)
        write_position(&h, p, &key[p], identity[p]);
    attend(&k, &h, got, &one, 1, 0, 2, 1);
    near(got, want, 3, 1e-6);
    ck_assert(f32_bits(got[2]) == 0);
    attend(&k, &h, got, &one, 1, 1, 3, 1); /* a window that begins at the second */
    near(got, without_first, 3, 1e-6);
}
END_TEST

/* ---- a batch of two sequences ---- */

enum {
    SEQUENCES = 2,
    TOKENS_EACH = 3,
    ROWS = SEQUENCES * TOKENS_EACH,
    DIM = 8,
    HEAD = 2,
    PAD = 16
};

struct numbers {
    size_t n_heads, n_kv;
    float y[ROWS * DIM];
};

static const struct numbers numbers[] = {
    {/* MHA */ 2,
     2,
     {
         1.3066406f,  -0.3808594f, -1.1015625f, -0.4042969f, -1.1250000f, 1.3769531f,  -1.1484375f,
         1.3535156f,  0.9863377f,  -0.9907416f, 0.2146411f,  -0.7662082f, 0.4391744f,  0.3127378f,
         0.6637077f,  0.5372711f,  0.2264345f,  -0.0900100f, 0.3079243f,  -0.1603589f, 0.2375754f,
         0.4374812f,  0.1672265f,  0.3671323f,  0.2343750f,  -0.7851562f, -0.1289062f, -0.8906250f,
         -0.2343750f, 0.5507812f,  -0.3398438f, 0.4453125f,  0.8306507f,  -0.9767432f, -0.1418347f,
         -0.9686051f, -0.1336966f, 0.8062364f,  -0.1255586f, 0.8143745f,  0.5130376f,  -0.7045966f,
         -0.0316647f, -0.7863504f, -0.1134186f, 0.7582991f,  -0.1951724f, 0.6765453f,
     }},
    {/* GQA */ 4,
     2,
     {
         -0.6914062f, -0.4160156f, 0.0527344f,  0.0058594f,  0.2812500f,  2.0390625f,  -0.3925781f,
         -0.4394531f, -0.4136430f, -0.4083899f, 0.0117782f,  0.2653248f,  -1.3128192f, 0.4936976f,
         0.1767591f,  0.4303057f,  -0.3140057f, -1.0823497f, 0.5480937f,  0.6154969f,  -1.1845051f,
         -0.0287218f, 0.1043903f,  0.1717935f,  -1.1601562f, 0.5625000f,  -1.7109375f, -1.9218750f,
         -0.1992188f, 1.1367188f,  0.6679688f,  0.4570312f,  -0.1641494f, 0.9791378f,  -0.9880811f,
         -1.0304758f, -0.8979047f, 0.7000646f,  -0.3499308f, -0.3923255f, -0.2707542f, 0.2905566f,
         -0.9540554f, -0.8917192f, -0.6410847f, 0.3279881f,  -0.1117773f, -0.0494411f,
     }},
    {/* MQA */ 2,
     1,
     {
         -0.0410156f, 0.0878906f,  -0.1054688f, -0.2988281f, -0.4921875f, 1.1191406f,  -0.8789062f,
         0.7324219f,  0.4600640f,  -0.2455311f, 0.1820069f,  -0.2752946f, 0.1522434f,  0.5493546f,
         0.1224799f,  0.5195911f,  0.7419585f,  -0.3564955f, -0.0077356f, -0.2704425f, 0.0783174f,
         0.4837995f,  0.1643704f,  0.5698525f,  -1.0898438f, 0.5273438f,  0.2109375f,  -0.1054688f,
         -0.4218750f, 0.8085938f,  -1.0546875f, 0.1757812f,  -0.3986635f, 0.0017763f,  0.3535898f,
         -0.4316524f, -0.0798388f, 0.9016225f,  -0.5132675f, 0.4681938f,  -0.0477635f, -0.2103430f,
         0.1584462f,  -0.5031078f, -0.1343186f, 0.8305308f,  -0.4270834f, 0.5377661f,
     }}};

/* Small exact numbers, as in attention_numbers.py */
static float number(size_t i, size_t step)
{
    return ((float)((i * step + 3) % 11) - 5) / 8;
}

/* y [ROWS, PAD] = x [ROWS, PAD] times a matrix [rows, k] of numbers */
static void project(const struct kernels *k, float *y, const float *x, size_t rows, size_t cols,
                    size_t step)
{
    _Alignas(64) float padded[ROWS * 64], tile[TILE_ROWS * PAD];
    float w[TILE_ROWS * PAD];
    for (size_t i = 0; i < rows * cols; i++)
        w[i] = number(i, step);
    memset(padded, FRESH, sizeof padded);
    for (size_t i = 0; i < ROWS; i++)
        memcpy(padded + i * 64, x + i * PAD, cols * sizeof *x);
    format_encode_matrix(format_find(TERN_F32), tile, w, rows, cols);
    struct activations a = {.n = ROWS, .k = cols, .stride = 64, .x = padded};
    k->matmul[TERN_F32](y, PAD, tile, 0, 1, &a);
}

START_TEST(batch_of_two)
{
    struct kernels k;
    enum tern_cache_type type;
    static struct head cache[SEQUENCES][2];
    if (!choose(_i, &k, &type) || type == TERN_CACHE_F16) /* f16 would round K and V */
        return;
    for (size_t c = 0; c < sizeof numbers / sizeof *numbers; c++) {
        size_t n_heads = numbers[c].n_heads, n_kv = numbers[c].n_kv, group = n_heads / n_kv;
        _Alignas(64) float x[ROWS * PAD], q[ROWS * PAD], key[ROWS * PAD], v[ROWS * PAD];
        _Alignas(64) float heads[ROWS * PAD], y[ROWS * PAD];
        for (size_t i = 0; i < ROWS * DIM; i++)
            x[i / DIM * PAD + i % DIM] =
                3 * number(i % (TOKENS_EACH * DIM), i < TOKENS_EACH * DIM ? 3 : 8);
        project(&k, q, x, n_heads * HEAD, DIM, 7);
        project(&k, key, x, n_kv * HEAD, DIM, 5);
        project(&k, v, x, n_kv * HEAD, DIM, 9);
        for (size_t i = 0; i < ROWS; i++)
            for (size_t h = 0; h < n_kv; h++) {
                struct head *page = &cache[i / TOKENS_EACH][h];
                size_t at = i * PAD + h * HEAD;
                if (i % TOKENS_EACH == 0)
                    head_open(page, type, HEAD, HEAD);
                write_position(page, i % TOKENS_EACH, key + at, v + at);
                attend(&k, page, heads + i * PAD + h * group * HEAD, q + i * PAD + h * group * HEAD,
                       group, 0, i % TOKENS_EACH + 1, 0.70710678f);
            }
        project(&k, y, heads, DIM, n_heads * HEAD, 4);
        for (size_t i = 0; i < ROWS; i++)
            near(y + i * PAD, numbers[c].y + i * DIM, DIM, 2e-6);
    }
}
END_TEST

SUITE("attention", LOOP(example_a, 0, N_CHOICES), LOOP(example_b, 0, N_CHOICES),
      LOOP(example_c, 0, N_CHOICES), LOOP(batch_of_two, 0, N_CHOICES))
