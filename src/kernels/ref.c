/* cflags: -fno-tree-vectorize */
/* The definition of every kernel (kernels.h has formulas and shapes): plain C, one operation after
 * the other in canonical order. Slow on purpose, and small; a target that gives other bits is
 * wrong. It runs where nothing else can, and in the tests, as the answer. */
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/math.h"
#include "kernels/targets.h"

/* ---- order of sums ---- */

static float max_of(float a, float b)
{
    return a > b ? a : b;
}

/* The sum of 16 lanes: halves, quarters, eighths, pairs. */
static float sum_lanes(float lane[16])
{
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* ---- matmul ---- */

/* w [16] = line `i` of a matrix: one k of 16 rows, or one position of 16 in the cache */
typedef void (*line_fn)(float *w, const void *lines, size_t i);

static void line_f32(float *w, const void *lines, size_t i)
{
    memcpy(w, (const float *)lines + i * TILE_ROWS, TILE_ROWS * sizeof *w);
}

static void line_f16(float *w, const void *lines, size_t i)
{
    for (size_t r = 0; r < TILE_ROWS; r++)
        w[r] = f16_to_f32(((const uint16_t *)lines)[i * TILE_ROWS + r]);
}

static void line_bf16(float *w, const void *lines, size_t i)
{
    for (size_t r = 0; r < TILE_ROWS; r++)
        w[r] = bf16_to_f32(((const uint16_t *)lines)[i * TILE_ROWS + r]);
}

/* y[r] = sum_c w[r, c] * x[c], for the rows of one tile; y [16], x [k] */
static void tile_float(float *y, line_fn line, const void *w, size_t tile, const float *x, size_t k)
{
    for (size_t r = 0; r < TILE_ROWS; r++)
        y[r] = 0;
    for (size_t c = 0; c < k; c++) {
        float wc[TILE_ROWS];
        line(wc, w, tile * k + c);
        for (size_t r = 0; r < TILE_ROWS; r++)
            y[r] = fmaf(wc[r], x[c], y[r]);
    }
}

static void matmul_float(float *y, size_t y_stride, line_fn line, const void *w, size_t tile0,
                         size_t tile1, const struct activations *x)
{
    for (size_t i = 0; i < x->n; i++)
        for (size_t t = tile0; t < tile1; t++)
            tile_float(y + i * y_stride + t * TILE_ROWS, line, w, t, x->x + i * x->stride, x->k);
}

static void matmul_f32(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                       const struct activations *x)
{
    matmul_float(y, y_stride, line_f32, w, tile0, tile1, x);
}

static void matmul_f16(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                       const struct activations *x)
{
    matmul_float(y, y_stride, line_f16, w, tile0, tile1, x);
}

static void matmul_bf16(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                        const struct activations *x)
{
    matmul_float(y, y_stride, line_bf16, w, tile0, tile1, x);
}

/* The integer at row r, k c of a block */
typedef int (*value_fn)(const unsigned char *block, size_t r, size_t c);

static int value_q8(const unsigned char *block, size_t r, size_t c)
{
    return (int8_t)block[c / 4 * 64 + 4 * r + c % 4];
}

static int value_q4(const unsigned char *block, size_t r, size_t c)
{
    unsigned pair = block[c / 8 * 64 + 4 * r + c % 4];
    return (int)(c % 8 < 4 ? pair & 15 : pair >> 4) - 8;
}

/* y[r] += (sum_c w[r, c] * q[c]) * (ws[r] * xs) over one group of 32; the dot is exact */
static void block_int(float *y, value_fn value, const unsigned char *block, const void *scales,
                      const int8_t *q, float xs)
{
    float ws[TILE_ROWS];
    line_f16(ws, scales, 0);
    for (size_t r = 0; r < TILE_ROWS; r++) {
        int dot = 0;
        for (size_t c = 0; c < GROUP; c++)
            dot += value(block, r, c) * q[c];
        y[r] = fmaf((float)dot, ws[r] * xs, y[r]);
    }
}

/* lines: bytes of a block's integers, before its 16 f16 scales */
static void matmul_int(float *y, size_t y_stride, value_fn value, size_t lines, const void *w,
                       size_t tile0, size_t tile1, const struct activations *x)
{
    size_t groups = (x->k + GROUP - 1) / GROUP, block_bytes = lines + 2 * TILE_ROWS;
    for (size_t i = 0; i < x->n; i++)
        for (size_t t = tile0; t < tile1; t++) {
            float *row = y + i * y_stride + t * TILE_ROWS;
            const unsigned char *block = (const unsigned char *)w + t * groups * block_bytes;
            for (size_t r = 0; r < TILE_ROWS; r++)
                row[r] = 0;
            for (size_t g = 0; g < groups; g++, block += block_bytes)
                block_int(row, value, block, block + lines, x->q + i * x->stride + g * GROUP,
                          x->scale[i * x->group_stride + g]);
        }
}

static void matmul_q8(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                      const struct activations *x)
{
    matmul_int(y, y_stride, value_q8, 512, w, tile0, tile1, x);
}

static void matmul_q4(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                      const struct activations *x)
{
    matmul_int(y, y_stride, value_q4, 256, w, tile0, tile1, x);
}

/* y[c] = w[row, c] for k of float lines */
static void get_row_float(float *y, line_fn line, const void *w, size_t k, size_t row)
{
    for (size_t c = 0; c < k; c++) {
        float wc[TILE_ROWS];
        line(wc, w, row / TILE_ROWS * k + c);
        y[c] = wc[row % TILE_ROWS];
    }
}

static void get_row_f32(float *y, const void *w, size_t k, size_t row)
{
    get_row_float(y, line_f32, w, k, row);
}

static void get_row_f16(float *y, const void *w, size_t k, size_t row)
{
    get_row_float(y, line_f16, w, k, row);
}

static void get_row_bf16(float *y, const void *w, size_t k, size_t row)
{
    get_row_float(y, line_bf16, w, k, row);
}

/* y[c] = integer * scale of its block */
static void get_row_int(float *y, value_fn value, size_t lines, const void *w, size_t k, size_t row)
{
    size_t groups = (k + GROUP - 1) / GROUP, block_bytes = lines + 2 * TILE_ROWS;
    const unsigned char *tile = (const unsigned char *)w + row / TILE_ROWS * groups * block_bytes;
    for (size_t c = 0; c < k; c++) {
        const unsigned char *block = tile + c / GROUP * block_bytes;
        uint16_t scale;
        memcpy(&scale, block + lines + 2 * (row % TILE_ROWS), sizeof scale);
        y[c] = (float)value(block, row % TILE_ROWS, c % GROUP) * f16_to_f32(scale);
    }
}

static void get_row_q8(float *y, const void *w, size_t k, size_t row)
{
    get_row_int(y, value_q8, 512, w, k, row);
}

static void get_row_q4(float *y, const void *w, size_t k, size_t row)
{
    get_row_int(y, value_q4, 256, w, k, row);
}

/* ---- rows of activations ---- */

/* rne(x) clamped to [-127, 127]; a NaN gives 0 */
static int8_t round_q(float x)
{
    if (x > 127)
        return 127;
    if (x < -127)
        return -127;
    return x == x ? (int8_t)((x + 0x1.8p23f) - 0x1.8p23f) : 0;
}

/* One group, of which n <= 32 values are there */
static void quantize_group(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n)
{
    float m = 0;
    for (size_t i = 0; i < n; i++)
        m = max_of(fabsf(x[i]), m);
    float inverse = 127 / m;
    bool zero = m < 0x1p-100f;
    *scale = zero ? 0 : m / 127;
    *sum = 0;
    for (size_t i = 0; i < GROUP; i++) {
        q[i] = i < n && !zero ? round_q(x[i] * inverse) : 0;
        *sum += q[i];
    }
}

static void quantize(int8_t *q, float *scale, int32_t *sum, const float *x, size_t k)
{
    for (size_t c = 0; c < k; c += GROUP)
        quantize_group(q + c, scale + c / GROUP, sum + c / GROUP, x + c,
                       k - c < GROUP ? k - c : GROUP);
}

static void rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    float r = 1 / sqrtf(sum_lanes(lane) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * w[i];
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void swiglu(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] / (1 + math_exp(-gate[i])) * up[i];
}

static void rope_angles(float *c, float *s, const float *inv_freq, size_t half, uint32_t position,
                        float factor)
{
    for (size_t i = 0; i < half; i++) {
        float sin, cos;
        math_sincos((float)position * inv_freq[i], &sin, &cos);
        c[i] = cos * factor;
        s[i] = sin * factor;
    }
}

static void rope(float *x, const float *c, const float *s, size_t half)
{
    for (size_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = fmaf(-b, s[i], a * c[i]);
        x[i + half] = fmaf(a, s[i], b * c[i]);
    }
}

static void to_f16(uint16_t *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = f16_of_f32(x[i]);
}

static bool in_range(const float *x, size_t n, float limit)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok = ok && fabsf(x[i]) <= limit;
    return ok;
}

/* ---- attention ---- */

/* s[p] for lo <= p < hi: q [k_dim] against the keys; s [256] */
static void score(float *s, const struct attend *b, line_fn line, const float *q)
{
    for (size_t p = b->lo; p < b->hi; p++) {
        float acc = 0, k[16];
        for (size_t d = 0; d < b->k_dim; d++) {
            line(k, b->k, p / 16 * b->k_dim + d);
            acc = fmaf(q[d], k[p % 16], acc);
        }
        acc *= b->scale;
        s[p] = b->softcap > 0 ? b->softcap * math_tanh(acc / b->softcap) : acc;
    }
}

/* s[p] becomes exp(s[p] - m); *m and *l as in kernels.h */
static void weigh(float *s, const struct attend *b, float *m, float *l)
{
    float lane[16] = {0};
    *m = s[b->lo];
    for (size_t p = b->lo; p < b->hi; p++)
        *m = max_of(s[p], *m);
    *m += 0.0f; /* -0 becomes +0: the order of the comparisons leaves no trace */
    for (size_t p = b->lo; p < b->hi; p++) {
        s[p] = math_exp(s[p] - *m);
        lane[p % 16] += s[p];
    }
    *l = sum_lanes(lane);
}

/* a[d] = sum_p e[p] * v[p, d];  `half` values: f16 */
static void mix(float *a, const float *e, const struct attend *b, bool half)
{
    for (size_t d = 0; d < b->v_dim; d++) {
        float acc = 0;
        for (size_t p = b->lo; p < b->hi; p++) {
            size_t i = p * b->v_dim + d;
            acc = fmaf(e[p],
                       half ? f16_to_f32(((const uint16_t *)b->v)[i]) : ((const float *)b->v)[i],
                       acc);
        }
        a[d] = acc;
    }
}

static void attend_f16(const struct attend *b)
{
    for (size_t g = 0; g < b->n_q; g++) {
        float *s = b->scores + g * BLOCK;
        score(s, b, line_f16, b->q + g * b->q_stride);
        weigh(s, b, &b->m[g], &b->l[g]);
        mix(b->a + g * b->a_stride, s, b, true);
    }
}

static void attend_f32(const struct attend *b)
{
    for (size_t g = 0; g < b->n_q; g++) {
        float *s = b->scores + g * BLOCK;
        score(s, b, line_f32, b->q + g * b->q_stride);
        weigh(s, b, &b->m[g], &b->l[g]);
        mix(b->a + g * b->a_stride, s, b, false);
    }
}

static void merge(float *M, float *L, float *A, float m, float l, const float *a, size_t n)
{
    if (m <= *M) {
        float c = math_exp(m - *M);
        *L = fmaf(l, c, *L);
        for (size_t i = 0; i < n; i++)
            A[i] = fmaf(a[i], c, A[i]);
    } else {
        float c = math_exp(*M - m);
        *L = fmaf(*L, c, l);
        for (size_t i = 0; i < n; i++)
            A[i] = fmaf(A[i], c, a[i]);
        *M = m;
    }
}

static void divide(float *y, const float *x, float d, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / d;
}

static float log_sum_exp(const float *x, size_t n)
{
    float lane[16] = {0}, max = x[0];
    for (size_t i = 1; i < n; i++)
        max = max_of(x[i], max);
    for (size_t i = 0; i < n; i++)
        lane[i % 16] += math_exp(x[i] - max);
    return max + math_log(sum_lanes(lane));
}

void ref_init(struct kernels *k)
{
    *k = (struct kernels){
        .name = "ref",
        .matmul = {matmul_f32, matmul_f16, matmul_bf16, matmul_q8, matmul_q4},
        .get_row = {get_row_f32, get_row_f16, get_row_bf16, get_row_q8, get_row_q4},
        .quantize = quantize,
        .rmsnorm = rmsnorm,
        .add = add,
        .swiglu = swiglu,
        .rope_angles = rope_angles,
        .rope = rope,
        .to_f16 = to_f16,
        .in_range = in_range,
        .attend = {attend_f16, attend_f32},
        .merge = merge,
        .divide = divide,
        .log_sum_exp = log_sum_exp,
    };
}
