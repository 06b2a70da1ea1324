/* cflags: -fno-tree-vectorize */
/* The definition of every kernel (kernels.h has formulas and shapes): plain C, one operation after
 * the other in canonical order. Slow on purpose, and small; a target that gives other bits is
 * wrong. It runs where nothing else can, and in the tests, as the answer. */
#include <float.h>
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/math.h"
#include "kernels/math_constants.h"
#include "kernels/targets.h"

/* ---- what several use ---- */

static float max_of(float a, float b)
{
    return a > b ? a : b;
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

/* The integer at row r, k c of a group; table: what the tile begins with */
typedef int (*value_fn)(const int8_t *table, const unsigned char *group, size_t r, size_t c);

static int value_q8(const int8_t *table, const unsigned char *group, size_t r, size_t c)
{
    (void)table;
    return (int8_t)group[c / 4 * 64 + 4 * r + c % 4];
}

static unsigned nibble(const unsigned char *group, size_t r, size_t c)
{
    unsigned pair = group[c / 8 * 64 + 4 * r + c % 4];
    return c % 8 < 4 ? pair & 15 : pair >> 4;
}

static int value_q4(const int8_t *table, const unsigned char *group, size_t r, size_t c)
{
    (void)table;
    return (int)nibble(group, r, c) - 8;
}

static int value_q4c(const int8_t *table, const unsigned char *group, size_t r, size_t c)
{
    return table[nibble(group, r, c)];
}

/* A format of integers: of a tile, the bytes before its groups; of a group, those before its 16
 * f16 scales */
struct ints {
    value_fn value;
    size_t head, lines;
};

/* y[r] += (sum_c w[r, c] * q[c]) * (ws[r] * xs) over one group of 32; the dot is exact */
static void dot_group(float *y, const struct ints *f, const int8_t *table,
                      const unsigned char *group, const int8_t *q, float xs)
{
    float ws[TILE_ROWS];
    line_f16(ws, group + f->lines, 0);
    for (size_t r = 0; r < TILE_ROWS; r++) {
        int dot = 0;
        for (size_t c = 0; c < GROUP; c++)
            dot += f->value(table, group, r, c) * q[c];
        y[r] = fmaf((float)dot, ws[r] * xs, y[r]);
    }
}

/* *xs and q [32] of row `row`, group g of x */
static void group_of(int8_t *q, float *xs, const struct activations *x, size_t row, size_t g)
{
    if (x->n == 1) {
        *xs = x->scale[g];
        memcpy(q, x->q + g * GROUP, GROUP);
        return;
    }
    const struct octet *o = &x->octets[octet_at(row, g, x->k)];
    *xs = o->scale[row % OCTET];
    for (size_t c = 0; c < GROUP; c++)
        q[c] = o->q[c / 8][row % OCTET][c % 8];
}

static void matmul_int(float *y, size_t y_stride, const struct ints *f, const void *w, size_t tile0,
                       size_t tile1, const struct activations *x)
{
    size_t groups = (x->k + GROUP - 1) / GROUP, group_bytes = f->lines + 2 * TILE_ROWS;
    for (size_t i = 0; i < x->n; i++)
        for (size_t t = tile0; t < tile1; t++) {
            float *row = y + i * y_stride + t * TILE_ROWS;
            const unsigned char *tile = w, *group;
            tile += t * (f->head + groups * group_bytes);
            group = tile + f->head;
            for (size_t r = 0; r < TILE_ROWS; r++)
                row[r] = 0;
            for (size_t g = 0; g < groups; g++, group += group_bytes) {
                int8_t q[GROUP];
                float xs;
                group_of(q, &xs, x, i, g);
                dot_group(row, f, (const int8_t *)tile, group, q, xs);
            }
        }
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

/* y[c] = integer * scale of its group */
static void get_row_int(float *y, const struct ints *f, const void *w, size_t k, size_t row)
{
    size_t groups = (k + GROUP - 1) / GROUP, group_bytes = f->lines + 2 * TILE_ROWS;
    const unsigned char *tile = w;
    tile += row / TILE_ROWS * (f->head + groups * group_bytes);
    for (size_t c = 0; c < k; c++) {
        const unsigned char *group = tile + f->head + c / GROUP * group_bytes;
        uint16_t scale;
        memcpy(&scale, group + f->lines + 2 * (row % TILE_ROWS), sizeof scale);
        y[c] = (float)f->value((const int8_t *)tile, group, row % TILE_ROWS, c % GROUP) *
               f16_to_f32(scale);
    }
}

/* Both slots of a format, by the functions of its kind */
#define LAYOUT_float(name, bytes, head) line_##name
#define LAYOUT_int(name, bytes, head)                            \
    &(const struct ints)                                         \
    {                                                            \
        value_##name, head, (bytes)-TILE_ROWS * sizeof(uint16_t) \
    }
#define SLOTS(id, name, kind, bytes, head, ...)                                           \
    static void matmul_##name(float *y, size_t y_stride, const void *w, size_t tile0,     \
                              size_t tile1, const struct activations *x)                  \
    {                                                                                     \
        matmul_##kind(y, y_stride, LAYOUT_##kind(name, bytes, head), w, tile0, tile1, x); \
    }                                                                                     \
    static void get_row_##name(float *y, const void *w, size_t k, size_t row)             \
    {                                                                                     \
        get_row_##kind(y, LAYOUT_##kind(name, bytes, head), w, k, row);                   \
    }
#define MATMUL(id, name, ...) [TERN_##id] = matmul_##name,
#define GET_ROW(id, name, ...) [TERN_##id] = get_row_##name,

FORMATS(SLOTS)

/* ---- rows of activations ---- */

/* rne(x); a NaN gives 0 */
static int8_t round_q(float x)
{
    return x == x ? (int8_t)((x + 0x1.8p23f) - 0x1.8p23f) : 0;
}

/* One group, of which n <= 32 values are there */
static bool quantize_group(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n)
{
    bool finite = true;
    float m = 0;
    for (size_t i = 0; i < n; i++) {
        m = max_of(fabsf(x[i]), m);
        finite &= fabsf(x[i]) <= FLT_MAX;
    }
    float inverse = 127 / m;
    bool zero = m < 0x1p-100f;
    *scale = zero ? 0 : m / 127;
    *sum = 0;
    for (size_t i = 0; i < GROUP; i++) {
        q[i] = i < n && !zero ? round_q(x[i] * inverse) : 0;
        *sum += q[i];
    }
    return finite;
}

static bool quantize(int8_t *q, float *scale, int32_t *sum, const float *x, size_t k)
{
    bool finite = true;
    for (size_t c = 0; c < k; c += GROUP)
        finite &= quantize_group(q + c, scale + c / GROUP, sum + c / GROUP, x + c,
                                 k - c < GROUP ? k - c : GROUP);
    return finite;
}

static bool quantize_octets(struct octet *to, size_t row, const float *x, size_t k)
{
    bool finite = true;
    for (size_t c = 0; c < k; c += GROUP, to++) {
        int8_t q[GROUP];
        int32_t sum;
        finite &= quantize_group(q, &to->scale[row], &sum, x + c, k - c < GROUP ? k - c : GROUP);
        to->bias[row] = -128 * sum;
        for (size_t i = 0; i < GROUP; i++)
            to->q[i / 8][row][i % 8] = q[i];
    }
    return finite;
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

static void layernorm(float *y, const float *x, const float *w, const float *b, size_t n, float eps)
{
    float lane[16] = {0}, square[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 16] += x[i];
    float mean = sum_lanes(lane) / (float)n;
    for (size_t i = 0; i < n; i++)
        square[i % 16] = fmaf(x[i] - mean, x[i] - mean, square[i % 16]);
    float r = 1 / sqrtf(sum_lanes(square) / (float)n + eps);
    for (size_t i = 0; i < n; i++) {
        y[i] = ((x[i] - mean) * r) * w[i];
        if (b)
            y[i] += b[i];
    }
}

static float activation(float g, enum activation kind)
{
    float m = g < 0 ? 0 : g; /* a NaN stays one */
    switch (kind) {
    case ACT_GELU:
        return (g * 0.5f) * (1 + math_erf(g * ROOT_HALF));
    case ACT_GELU_TANH:
        return (g * 0.5f) * (1 + math_tanh(GELU_SCALE * fmaf(GELU_CUBE * g * g, g, g)));
    case ACT_RELU2:
        return m * m;
    case ACT_RELU:
        return m;
    case ACT_SWIGLU_OAI:
        return g / (1 + math_exp(g * -SWIGLU_ALPHA));
    default:
        return g / (1 + math_exp(-g));
    }
}

static void activate(float *y, const float *gate, const float *up, size_t n, enum activation kind,
                     float limit)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i], u = up ? up[i] : 1;
        if (kind == ACT_SWIGLU_OAI) {
            g = g > limit ? limit : g;
            u = u > limit ? limit : u < -limit ? -limit : u;
            u += 1;
        }
        y[i] = activation(g, kind) * u;
    }
}

static void add_scaled(float *y, const float *x, float c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(x[i], c, y[i]);
}

static void scale(float *x, float c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= c;
}

static void softcap(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = cap * math_tanh(x[i] / cap);
}

static void clamp(float *x, float limit, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
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

/* s[r] = q of query g . k[16 * tile + r]; s [16] */
typedef void (*score_tile_fn)(float *s, const struct attend *b, size_t g, size_t tile);

static void score_tile_f32(float *s, const struct attend *b, size_t g, size_t tile)
{
    tile_float(s, line_f32, b->k, tile, b->q.x + g * b->q.stride, b->q.k);
}

static void score_tile_f16(float *s, const struct attend *b, size_t g, size_t tile)
{
    tile_float(s, line_f16, b->k, tile, b->q.x + g * b->q.stride, b->q.k);
}

static void score_tile_q8(float *s, const struct attend *b, size_t g, size_t tile)
{
    static const struct ints q8 = {value_q8, 0, Q8_LINES};
    size_t groups = (b->q.k + GROUP - 1) / GROUP;
    const unsigned char *k = (const unsigned char *)b->k + tile * groups * Q8_BYTES;
    memset(s, 0, TILE_ROWS * sizeof *s);
    for (size_t i = 0; i < groups; i++)
        dot_group(s, &q8, NULL, k + i * Q8_BYTES, b->q.q + g * b->q.stride + i * GROUP,
                  b->q.scale[g * b->q.group_stride + i]);
}

/* The tiles that a query sees; of the first and the last, only the positions that it sees. */
static void score(const struct attend *b, score_tile_fn score_tile)
{
    for (size_t g = 0; g < b->q.n; g++)
        for (size_t t = b->see[g].lo / TILE_ROWS; t * TILE_ROWS < b->see[g].hi; t++) {
            float s[TILE_ROWS];
            score_tile(s, b, g, t);
            for (size_t r = 0, p = t * TILE_ROWS; r < TILE_ROWS; r++, p++)
                if (p >= b->see[g].lo && p < b->see[g].hi)
                    b->scores[g * BLOCK + p] = s[r];
        }
}

static void score_f32(const struct attend *b)
{
    score(b, score_tile_f32);
}

static void score_f16(const struct attend *b)
{
    score(b, score_tile_f16);
}

static void score_q8(const struct attend *b)
{
    score(b, score_tile_q8);
}

static void add_alibi(float *s, struct span see, struct alibi a, size_t first)
{
    for (size_t p = see.lo; p < see.hi; p++)
        s[p] += alibi_bias(a.slope, (float)(first + p)) - alibi_bias(a.slope, a.position);
}

/* s [256] becomes e, *m and *l as in kernels.h */
static void weigh_query(float *s, struct span see, const struct attend *b, float *m, float *l)
{
    float lane[16] = {0};
    for (size_t p = see.lo; p < see.hi; p++) {
        s[p] *= b->scale;
        s[p] = b->softcap > 0 ? b->softcap * math_tanh(s[p] / b->softcap) : s[p];
    }
    *m = s[see.lo];
    for (size_t p = see.lo; p < see.hi; p++)
        *m = max_of(s[p], *m);
    *m += 0.0f; /* -0 becomes +0: the order of the comparisons leaves no trace */
    for (size_t p = see.lo; p < see.hi; p++) {
        s[p] = math_exp(s[p] - *m);
        lane[p % 16] += s[p];
    }
    *l = sum_lanes(lane);
}

static void weigh(const struct attend *b)
{
    for (size_t g = 0; g < b->q.n; g++) {
        if (b->alibi)
            add_alibi(b->scores + g * BLOCK, b->see[g], b->alibi[g], b->first);
        weigh_query(b->scores + g * BLOCK, b->see[g], b, &b->m[g], &b->l[g]);
    }
}

/* v[p, d] of a block; dim: values of a position */
typedef float (*v_fn)(const void *v, size_t dim, size_t p, size_t d);

static float v_f32(const void *v, size_t dim, size_t p, size_t d)
{
    return ((const float *)v)[p * dim + d];
}

static float v_f16(const void *v, size_t dim, size_t p, size_t d)
{
    return f16_to_f32(((const uint16_t *)v)[p * dim + d]);
}

static float v_q8(const void *v, size_t dim, size_t p, size_t d)
{
    size_t padded = (dim + GROUP - 1) / GROUP * GROUP;
    const int8_t *q = v;
    const uint16_t *scales = (const uint16_t *)(const void *)(q + BLOCK * padded);
    return (float)q[p * padded + d] * f16_to_f32(scales[d / GROUP * BLOCK + p]);
}

static void mix(const struct attend *b, v_fn value)
{
    for (size_t g = 0; g < b->q.n; g++)
        for (size_t d = 0; d < b->v_dim; d++) {
            float acc = 0;
            for (size_t p = b->see[g].lo; p < b->see[g].hi; p++)
                acc = fmaf(b->scores[g * BLOCK + p], value(b->v, b->v_dim, p, d), acc);
            b->a[g * b->a_stride + d] = acc;
        }
}

static void mix_f32(const struct attend *b)
{
    mix(b, v_f32);
}

static void mix_f16(const struct attend *b)
{
    mix(b, v_f16);
}

static void mix_q8(const struct attend *b)
{
    mix(b, v_q8);
}

static void mix_heads(const struct attend *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mix_f16(&b[i]);
}

static void widen_f16(float *y, const void *v, size_t dim, size_t n)
{
    for (size_t i = 0; i < n * dim; i++)
        y[i] = f16_to_f32(((const uint16_t *)v)[i]);
}

static void widen_q8(float *y, const void *v, size_t dim, size_t n)
{
    for (size_t i = 0; i < n * dim; i++)
        y[i] = v_q8(v, dim, i / dim, i % dim);
}

static float key(const void *k, enum tern_cache_type type, size_t dim, size_t p, size_t d)
{
    size_t at = (p / TILE_ROWS * dim + d) * TILE_ROWS + p % TILE_ROWS, c = d % GROUP;
    if (type != TERN_CACHE_Q8)
        return type == TERN_CACHE_F32 ? ((const float *)k)[at]
                                      : f16_to_f32(((const uint16_t *)k)[at]);
    const int8_t *q =
        (const int8_t *)k + (p / TILE_ROWS * ((dim + GROUP - 1) / GROUP) + d / GROUP) * Q8_BYTES;
    const uint16_t *scales = (const uint16_t *)(const void *)(q + Q8_LINES);
    return (float)q[c / 4 * 4 * TILE_ROWS + 4 * (p % TILE_ROWS) + c % 4] *
           f16_to_f32(scales[p % TILE_ROWS]);
}

static void turn(float *y, const void *k, enum tern_cache_type type, size_t k_dim, size_t v_dim,
                 size_t n)
{
    for (size_t p = 0; p < n; p++)
        for (size_t d = 0; d < v_dim; d++)
            y[p * v_dim + d] = key(k, type, k_dim, p, d);
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

/* ---- gates, convolutions and recurrences ---- */

static void sigmoid(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] / (1 + math_exp(-x[i]));
}

static void multiply(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= x[i];
}

static void l2norm(float *x, size_t n, float eps, float c)
{
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    float r = 1 / sqrtf(sum_lanes(lane) + eps);
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] * r) * c;
}

static void convolve(float *y, const struct convolve *c)
{
    for (size_t i = 0; i < c->n; i++) {
        float acc = c->bias ? c->bias[i] : 0;
        for (size_t j = 0; j < c->width; j++)
            acc = fmaf(c->w[j * c->w_stride + i], c->x[j][i], acc);
        y[i] = c->silu ? acc / (1 + math_exp(-acc)) : acc;
    }
}

/* One row and one column j of a state */
static float recur_column(const struct recur *r, size_t row, size_t j)
{
    const float *q = r->q + row * r->key_stride, *k = r->k + row * r->key_stride;
    const float *g = r->g + row * r->g_stride;
    float b = r->b[row * r->b_stride], *s = r->state + j, known = 0, o = 0;
    for (size_t i = 0; i < r->k_dim; i++) {
        s[i * r->columns] *= g[i * r->g_step];
        known = fmaf(k[i], s[i * r->columns], known);
    }
    float v = r->v[row * r->v_stride + j], d = (r->delta ? v - known : v) * b;
    for (size_t i = 0; i < r->k_dim; i++) {
        s[i * r->columns] = fmaf(k[i], d, s[i * r->columns]);
        o = fmaf(q[i], s[i * r->columns], o);
    }
    return o;
}

static void recur(const struct recur *r)
{
    for (size_t row = 0; row < r->rows; row++)
        for (size_t j = 0; j < r->columns; j++)
            r->o[row * r->o_stride + j] = recur_column(r, row, j);
}

void ref_init(struct kernels *k)
{
    *k = (struct kernels){
        .name = "ref",
        .matmul = {FORMATS(MATMUL)},
        .get_row = {FORMATS(GET_ROW)},
        .quantize = quantize,
        .quantize_octets = quantize_octets,
        .rmsnorm = rmsnorm,
        .add = add,
        .swiglu = swiglu,
        .layernorm = layernorm,
        .activate = activate,
        .add_scaled = add_scaled,
        .scale = scale,
        .softcap = softcap,
        .clamp = clamp,
        .rope_angles = rope_angles,
        .rope = rope,
        .to_f16 = to_f16,
        .in_range = in_range,
        .score = {score_f16, score_f32, score_q8},
        .weigh = weigh,
        .mix = {mix_f16, mix_f32, mix_q8},
        .mix_heads = mix_heads,
        .widen = {widen_f16, NULL, widen_q8},
        .turn = turn,
        .mix_turned = mix_f32,
        .merge = merge,
        .divide = divide,
        .log_sum_exp = log_sum_exp,
        .sigmoid = sigmoid,
        .multiply = multiply,
        .l2norm = l2norm,
        .convolve = convolve,
        .recur = recur,
    };
}
