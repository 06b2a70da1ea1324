/* The kernel contracts: one function type per slot, with formula and shapes. ref.c defines every
 * slot in plain C; a file per target overrides the slots that it wins, and gives equal bits
 * (src/kernels/README.md). A kernel knows no threads: it gets a range, or one row.
 *
 * Shapes are [rows, cols], row-major, last index fastest. A kernel reads and writes exactly the
 * elements that its comment names, except that matmul handles whole tiles:
 * - it writes all 16 rows of a tile into y, whose rows are 64-byte aligned and padded to 16 floats;
 * - it may read whole lines and octets of its activations, which are 64-byte aligned with rows
 *   padded to 64 bytes. What padding holds must not change a result.
 * A kernel takes at most 24 KiB of stack (matmul for q4c 18): the whole library works in threads of
 * 256 KiB (tests/unit/test_small_stack.c).
 * Other float pointers need not be aligned (heads of 24 or 80 dims lie side by side). Weights and
 * cache end where they end: nothing is read beyond.
 *
 * Words, each with one meaning:
 *   tile    16 rows of a matrix over all of its k. In a K cache the rows are positions.
 *   line    what lies side by side for the 16 rows of a tile: one k of a float format, 4 or 8 k of
 *           an integer format
 *   group   32 k that share a scale: of a row of activations, or of the 16 rows of a tile, which
 *           have a scale each
 *   quad    4 k of a group, the operand of an integer dot
 *   octet   8 rows of activations, interleaved for matmul
 *   lane    one of the 16 partial sums of a lane sum: element i goes to lane i mod 16
 *   block   256 positions of the cache, which attention handles as one: a page of the cache
 *   GQA group  the query heads that share a KV head; never just "group"
 *   target  what --cpu names (targets.h)
 *   part    one vector register of outputs; a panel is a few parts over all lines that a
 *           micro-kernel meets, with its sums in registers (simd_lines.h, simd_attend.h)
 *
 * The SIMD targets share their kernels: simd_*.h write them in a small vector vocabulary, and an
 * ops_<isa>.h is that vocabulary in one instruction set.
 *
 * ADDING A TARGET: see targets.h. ADDING A FORMAT: see formats.h. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/formats.h" /* TILE_ROWS, GROUP, N_TYPES, half precision */
#include "tern.h"

enum {
    BLOCK = 256,      /* positions */
    LANES = 16,       /* of a lane sum; also positions of a K tile */
    OCTET = 8,        /* rows */
    N_CACHE_TYPES = 3 /* enum tern_cache_type */
};

/* The sum of the lanes of a lane sum: halves, quarters, eighths, pairs. Overwrites them. */
static inline float sum_lanes(float lane[LANES])
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* Eight quantized rows, in the order in which matmul reads it: q[k / 8][row][k % 8] */
struct octet {
    int8_t q[GROUP / 8][OCTET][8];
    int32_t
        bias[OCTET]; /* -128 times the sum of q: what weights that are 128 too large give back */
    float scale[OCTET];
};

/* n rows of k activations, as matmul reads them: x for float weights; for integer weights one row,
 * or octets. */
struct activations {
    size_t n, k;
    size_t stride;  /* floats between rows of x, a multiple of 16 */
    const float *x; /* [n, stride] */

    /* n == 1 */
    const int8_t *q;    /* [k]  zero from k to the next multiple of 32 */
    const float *scale; /* [groups of 32] */
    const int32_t *sum; /* [groups of 32]  of the q: undoes an implied zero point */

    /* n > 1 */
    const struct octet *octets; /* [n / 8 rounded up, groups of 32] */

    const void *next; /* weights to prefetch that are read after those of the last tile; NULL: those
                       * that follow it */
};

/* Number `group` of the octets of row `row` */
static inline size_t octet_at(size_t row, size_t group, size_t k)
{
    return row / OCTET * ((k + GROUP - 1) / GROUP) + group;
}

/* y[i, r] = sum_c w[r, c] * x[i, c]   for rows r of tiles tile0 <= t < tile1, all i < x->n
 *   w  first tile of the matrix, in the slot's format (src/weights/FORMAT.md); [rows, k]
 *   y  [n, y_stride]; whole tiles are written
 * float weights: acc = fma(w, x, acc), c ascending over the true k, from +0.
 * int8, int4: acc = fma((float)dot, ws * xs, acc), groups of 32 ascending, from +0; dot exact. */
typedef void (*matmul_fn)(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                          const struct activations *x);

/* y[c] = w[row, c]: one row of a matrix as f32; q8, q4: (float)q * scale.   y [k] */
typedef void (*get_row_fn)(float *y, const void *w, size_t k, size_t row);

/* Groups of 32 of x [k]: m = max|x|; m < 2^-100: zeros, scale 0; else scale = m / 127,
 * q = rne(x * (127 / m)); sum = sum of q.   q [k rounded up to 32], scale and sum [its groups].
 * False when x holds a NaN or an infinity; where x * (127 / m) is then NaN, q is 0. */
typedef bool (*quantize_fn)(int8_t *q, float *scale, int32_t *sum, const float *x, size_t k);

/* The same, into row `row` of each octet */
typedef bool (*quantize_octets_fn)(struct octet *to, size_t row, const float *x, size_t k);

/* y[i] = (x[i] * r) * w[i],  r = 1 / sqrt(lane_sum(x * x by fma) / n + eps)   x, w, y [n] */
typedef void (*rmsnorm_fn)(float *y, const float *x, const float *w, size_t n, float eps);

/* y[i] += x[i]   [n] */
typedef void (*add_fn)(float *y, const float *x, size_t n);

/* y[i] = gate[i] / (1 + exp(-gate[i])) * up[i]   [n]; y may be gate or up */
typedef void (*swiglu_fn)(float *y, const float *gate, const float *up, size_t n);

/* LayerNorm: mean = lane_sum(x) / n, d = x - mean, r = 1 / sqrt(lane_sum(d * d by fma) / n + eps),
 * y[i] = (d[i] * r) * w[i] + b[i]   x, w, b, y [n]; b may be NULL: no addition */
typedef void (*layernorm_fn)(float *y, const float *x, const float *w, const float *b, size_t n,
                             float eps);

/* The other activations: y[i] = act(gate[i]) * up[i], or act(gate[i]) where up is NULL; a NaN stays
 * one   [n]
 *   silu        g / (1 + exp(-g))
 *   gelu        (g * 0.5) * (1 + erf(g * sqrt(1/2)))
 *   gelu_tanh   (g * 0.5) * (1 + tanh(u)), u = sqrt(2/pi) * fma(0.044715 * g * g, g, g)
 *   relu2       m * m, m = max(g, 0)
 *   swiglu_oai  g = min(g, limit), h = clamp(up, +-limit): (g / (1 + exp(-1.702 * g))) * (h + 1)
 *   relu        max(g, 0) */
enum activation {
    ACT_SILU,
    ACT_GELU,
    ACT_GELU_TANH,
    ACT_RELU2,
    ACT_SWIGLU_OAI,
    ACT_RELU,
    N_ACTIVATIONS
};
typedef void (*activate_fn)(float *y, const float *gate, const float *up, size_t n,
                            enum activation kind, float limit);

/* y[i] = fma(x[i], c, y[i])   [n] */
typedef void (*add_scaled_fn)(float *y, const float *x, float c, size_t n);

/* x[i] *= c   [n] */
typedef void (*scale_fn)(float *x, float c, size_t n);

/* x[i] = cap * tanh(x[i] / cap)   [n] */
typedef void (*softcap_fn)(float *x, float cap, size_t n);

/* x[i] clamped to [-limit, limit]; a NaN stays   [n] */
typedef void (*clamp_fn)(float *x, float limit, size_t n);

/* c[i] = cos(pos * inv_freq[i]) * factor, s[i] = sin(...) * factor   [half] */
typedef void (*rope_angles_fn)(float *c, float *s, const float *inv_freq, size_t half,
                               uint32_t position, float factor);

/* Rotates the pairs x[i], x[i + half]: a' = fma(-b, s, a * c), b' = fma(a, s, b * c)   x [2 * half, ...] */
typedef void (*rope_fn)(float *x, const float *c, const float *s, size_t half);

/* y[i] = f16(x[i]), round to nearest even, subnormals kept   [n], no alignment */
typedef void (*to_f16_fn)(uint16_t *y, const float *x, size_t n);

/* True when every |x[i]| <= limit (false on NaN)   [n], no alignment */
typedef bool (*in_range_fn)(const float *x, size_t n, float limit);

/* Attention of n_q = q.n queries [k_dim = q.k] that share one KV head over one block of positions.
 * Query g sees the positions lo <= p < hi of see[g], at least one. In three steps:
 *
 * - score: s[g, p] = fma over d ascending of q[g, d] * k[d, p], from +0;
 *   q8: acc = fma((float)dot, ks[p] * qs[g], acc), groups of 32 dims ascending, from +0
 * - weigh: alibi: s = s + (bias(first + p) - bias(position)), bias(j) = r(slope * r(j)),
 *   or, of a negative slope, -slope * j;
 *   s = s * scale; softcap > 0: s = cap * tanh(s / cap); m[g] = max s;
 *   e[p] = exp(s[p] - m); l[g] = lane_sum(e), lane = p mod 16
 * - mix: a[g, d] = fma(e[p], v[p, d], a[g, d]), p ascending, from +0; q8: v is (float)q * scale
 *
 * r(x) = c - (c - x), c = x * 65537: x to the nearest of 8 bits, those of bf16, ties to even. ALiBi
 * (Press et al. 2021) adds slope * (j - i); models were trained with it in bf16, as above.
 *
 * A masked position takes part in no operation, and its K and V are not read as values. Between the
 * steps, `scores` holds s and then e of the visible positions, and anything elsewhere.
 *
 * K and V of a block, in the slot's cache type (attend_bytes each):
 *   f16, f32  K [16 tiles][k_dim][16 positions]   V [256][v_dim]
 *   q8        K 16 q8 tiles (src/weights/FORMAT.md), rows are positions, dims padded to 32
 *             V int8 [256][v_dim padded to 32], then f16 scales [v_dim / 32][256] */
struct span {
    uint16_t lo, hi; /* 0 <= lo < hi <= 256 */
};
struct queries { /* [n, k]: x for float types, q, scale and sum (see quantize) for q8 */
    size_t n, k;
    size_t stride;       /* between rows of x, and of q */
    size_t group_stride; /* between rows of scale and sum */
    const float *x;
    const int8_t *q;
    const float *scale;
    const int32_t *sum;
};
struct alibi {
    float slope, position; /* of the query's head; of the query, an integer below 2^24 */
};
/* bias(position) of the formula above */
static inline float alibi_bias(float slope, float position)
{
    if (slope < 0)
        return -slope * position;
    float c = position * 65537, x = slope * (c - (c - position));
    c = x * 65537;
    return c - (c - x);
}

/* Memory that is read next; 0 bytes: unknown */
struct ahead {
    const char *at;
    size_t bytes;
};

struct attend {
    struct queries q;
    const void *k, *v; /* of the block */
    size_t v_dim;
    const void *next; /* the K that is read next: mix prefetches it; NULL: unknown */
    struct ahead score_ahead, mix_ahead; /* of score_packed, of mix_packed: evenly prefetched */
    const struct span *see;              /* [n_q] */
    float scale, softcap;
    const struct alibi *alibi; /* [n_q], or NULL: none */
    size_t first;              /* position of the block, for alibi */
    float *m, *l;              /* [n_q] */
    float *a;                  /* [n_q, a_stride] */
    size_t a_stride;
    float *scores; /* [n_q, 256] */
};
typedef void (*attend_fn)(const struct attend *b);

/* mix of an f16 cache for n KV heads at once: b [n], equal in q.n, v_dim, a_stride and in what the
 * queries see */
typedef void (*mix_heads_fn)(const struct attend *b, size_t n);

/* V of positions 0 .. n - 1 of a block as f32, so that mix of f32 can read it.   y [n, dim],
 * v [256, dim]. An f16 K has the same form: n is then a multiple of 16 */
typedef void (*widen_fn)(float *y, const void *v, size_t dim, size_t n);

/* K or V of positions 0 .. n - 1 of a block, n a multiple of 16, as f32 in the order in which
 * score_packed or mix_packed of the same target reads them: for many queries. `dim` rounded up to
 * 16 floats for each of the 256 positions. mix_packed writes rows of `a` up to a multiple of 16. */
typedef void (*pack_fn)(float *y, const void *kv, size_t dim, size_t n);

/* V of latent attention: the first v_dim dims of the keys [k_dim] of positions 0 .. n - 1, n a
 * multiple of 16, as f32 in the order in which mix_turned of the same target reads them: that of a V
 * of f32 in ref, of mix_packed elsewhere. Memory for y as in pack_fn */
typedef void (*turn_fn)(float *y, const void *k, enum tern_cache_type type, size_t k_dim,
                        size_t v_dim, size_t n);

/* Merges block (m, l, a) into the running (M, L, A), per query; a, A [n]:
 *   m <= M: c = exp(m - M), L = fma(l, c, L), A = fma(a, c, A)
 *   else:   c = exp(M - m), L = fma(L, c, l), A = fma(A, c, a), M = m */
typedef void (*merge_fn)(float *M, float *L, float *A, float m, float l, const float *a, size_t n);

/* y[i] = x[i] / d   [n] */
typedef void (*divide_fn)(float *y, const float *x, float d, size_t n);

/* y[i] = y[i] / (1 + exp(-x[i]))   [n] */
typedef void (*sigmoid_fn)(float *y, const float *x, size_t n);

/* y[i] *= x[i]   [n] */
typedef void (*multiply_fn)(float *y, const float *x, size_t n);

/* x[i] = (x[i] * r) * c,  r = 1 / sqrt(lane_sum(x * x by fma) + eps)   [n] */
typedef void (*l2norm_fn)(float *x, size_t n, float eps, float c);

/* One row of a causal convolution, each channel on its own: acc = fma(w[j, i], x[j][i], acc), j
 * ascending to `width`, from bias[i] (NULL: +0); y[i] = acc, or acc / (1 + exp(-acc)) with silu
 *   x [width][n], the oldest first; w [width, w_stride]; bias, y [n]; y is none of x */
struct convolve {
    size_t n, width, w_stride;
    const float *const *x;
    const float *w, *bias;
    bool silu;
};
typedef void (*convolve_fn)(float *y, const struct convolve *c);

/* Some columns of the state S [k_dim, columns] of a recurrent head, over `rows` rows with q, k
 * [k_dim], v, o [columns] and numbers g, b. For each row:
 *   S = S * g, or S[i, j] = S[i, j] * g[i]
 *   delta:  r[j] = fma over i ascending of k[i] * S[i, j], from +0;  d[j] = (v[j] - r[j]) * b
 *   else:   d[j] = v[j] * b
 *   S[i, j] = fma(k[i], d[j], S[i, j])
 *   o[j] = fma over i ascending of q[i] * S[i, j], from +0 */
enum { STATE_COLUMNS = 32 }; /* at most: with 128 keys they stay in a cache of 32 KiB */
struct recur {
    size_t rows, k_dim, columns;
    bool delta;
    const float *q, *k; /* [rows, key_stride] */
    const float *v;     /* [rows, v_stride] */
    const float *g; /* [rows, g_stride], of each row k_dim numbers (g_step 1) or one (g_step 0) */
    const float *b; /* [rows, b_stride] */
    float *o;       /* [rows, o_stride] */
    size_t key_stride, v_stride, g_stride, g_step, b_stride, o_stride;
    float *state; /* [k_dim, columns] */
};
typedef void (*recur_fn)(const struct recur *r);

/* log sum_i exp(x[i]) = max + log(lane_sum(exp(x - max)))   x [n], no alignment */
typedef float (*log_sum_exp_fn)(const float *x, size_t n);

struct kernels {
    const char *name; /* of the widest target that set a slot: ref, avx2 ... i8mm; or plain */
    bool plain;       /* ref, and the graph is run by model/plain.c */
    matmul_fn matmul[N_TYPES];
    get_row_fn get_row[N_TYPES];
    quantize_fn quantize;
    quantize_octets_fn quantize_octets;
    rmsnorm_fn rmsnorm;
    add_fn add;
    swiglu_fn swiglu;
    layernorm_fn layernorm;
    activate_fn activate;
    add_scaled_fn add_scaled;
    scale_fn scale;
    softcap_fn softcap;
    clamp_fn clamp;
    rope_angles_fn rope_angles;
    rope_fn rope;
    to_f16_fn to_f16;
    in_range_fn in_range;
    attend_fn score[N_CACHE_TYPES], weigh, mix[N_CACHE_TYPES];
    mix_heads_fn mix_heads;
    widen_fn widen[N_CACHE_TYPES];                        /* f32: NULL */
    pack_fn pack_k[N_CACHE_TYPES], pack_v[N_CACHE_TYPES]; /* all NULL in ref; pack_k of q8: NULL */
    attend_fn score_packed, mix_packed;                   /* NULL in ref */
    turn_fn turn;
    attend_fn mix_turned;
    merge_fn merge;
    divide_fn divide;
    log_sum_exp_fn log_sum_exp;
    sigmoid_fn sigmoid;
    multiply_fn multiply;
    l2norm_fn l2norm;
    convolve_fn convolve;
    recur_fn recur;
};

/* Fills k for the best target that this machine has, or the narrower one that `cpu` names (NULL:
 * best). TERN_USAGE for a name that is unknown, not built, or not on this machine. Then runs the
 * known-answer test: a few hundred operations whose results are constants (TERN_INTERNAL). */
enum tern_status kernels_init(struct kernels *k, const char *cpu, struct tern_error *e);

/* Fills k for a processor with the CPU bits `cpu` (base/cpu.h) and no others, without a test. */
void kernels_fill(struct kernels *k, unsigned cpu);

/* The CPU bits that the target `name` uses; NULL: all that this machine has. TERN_USAGE as above. */
enum tern_status kernels_cpu(const char *name, unsigned *bits, struct tern_error *e);

/* Names of the targets built into this library, narrow to wide, NULL at the end. */
const char *const *kernels_targets(void);

/* Bytes of K, and of V, of one head in a block */
static inline size_t attend_bytes(enum tern_cache_type type, size_t dim)
{
    size_t groups = (dim + GROUP - 1) / GROUP;
    return BLOCK *
           (type == TERN_CACHE_Q8 ? groups * (GROUP + 2) : dim * (type == TERN_CACHE_F32 ? 4 : 2));
}

/* All three steps */
static inline void attend_block(const struct kernels *k, enum tern_cache_type type,
                                const struct attend *b)
{
    k->score[type](b);
    k->weigh(b);
    k->mix[type](b);
}

/* The same, with K and V of the first n positions packed into memory of the caller. Without V, it is
 * that of latent attention. */
static inline void attend_packed(const struct kernels *k, enum tern_cache_type type,
                                 struct attend b, size_t n, float *packed_k, float *packed_v)
{
    attend_fn score = k->score[type], mix = b.v ? k->mix_packed : k->mix_turned;
    if (b.v)
        k->pack_v[type](packed_v, b.v, b.v_dim, n);
    else
        k->turn(packed_v, b.k, type, b.q.k, b.v_dim, n);
    b.v = packed_v;
    if (k->pack_k[type]) {
        k->pack_k[type](packed_k, b.k, b.q.k, n);
        b.k = packed_k, score = k->score_packed;
    }
    score(&b);
    k->weigh(&b);
    mix(&b);
}

#endif
