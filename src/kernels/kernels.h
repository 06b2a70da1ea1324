/* The kernel contracts: one function type per slot, with formula and shapes. ref.c defines every
 * slot in plain C (README, "Exact"); a file per target overrides the slots that it wins and gives
 * equal bits. A kernel knows no threads: it is told a range, or one row.
 *
 * Shapes are [rows, cols], row-major, last index fastest. A kernel reads and writes exactly the
 * elements that its comment names, with these exceptions: matmul writes whole tiles of 16 into y,
 * whose rows are 64-byte aligned and padded to 16 floats, and the x, q, scale and sum of its
 * activations are 64-byte aligned with rows padded to 64 bytes, so that whole lines may be read
 * (what padding holds must not change a result). Other float pointers need not be aligned (heads
 * of 24 or 80 dims lie side by side). Weights and cache end where they end: no read beyond.
 *
 * The SIMD targets share their kernels: simd_*.h write them in a small vector vocabulary, and an
 * ops_<isa>.h is that vocabulary in one instruction set.
 *
 * ADDING A TARGET: one file <arch>_<isa>.c whose first line states its compiler flags, with a
 * function void <arch>_<isa>_init(struct kernels *k), usually an ops_<isa>.h for it, and one row in
 * kernels.c. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/formats.h" /* TILE_ROWS, GROUP, N_TYPES, half precision */
#include "tern.h"

enum {
    BLOCK = 256,      /* positions of an attention block, and of a cache page */
    LANES = 16,       /* of a lane sum, and positions of a K tile */
    N_CACHE_TYPES = 2 /* enum tern_cache_type */
};

/* n rows of k activations, as matmul reads them: x for float weights, the rest for int8 weights. */
struct activations {
    size_t n, k;
    size_t stride;       /* floats between rows of x, and bytes between rows of q; multiple of 64 */
    size_t group_stride; /* values between rows of scale and sum */
    const float *x;      /* [n, stride] */
    const int8_t *q;     /* [n, stride]        zero from k to the next multiple of 32 */
    const float *scale;  /* [n, group_stride]  one per 32 of q */
    const int32_t *sum;  /* [n, group_stride]  of the 32 q: undoes an implied zero point */
};

/* y[i, r] = sum_c w[r, c] * x[i, c]   for rows r of tiles tile0 <= t < tile1, all i < x->n
 *   w  first tile of the matrix, in the slot's format (src/model/FORMAT.md); [rows, k]
 *   y  [n, y_stride]; whole tiles are written
 * float weights: acc = fma(w, x, acc), c ascending over the true k, from +0.
 * int8, int4: acc = fma((float)dot, ws * xs, acc), groups of 32 ascending, from +0; dot exact. */
typedef void (*matmul_fn)(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                          const struct activations *x);

/* y[c] = w[row, c]: one row of a matrix as f32; q8, q4: (float)q * scale.   y [k] */
typedef void (*get_row_fn)(float *y, const void *w, size_t k, size_t row);

/* Groups of 32 of x [k]: m = max|x|; m < 2^-100: zeros, scale 0; else scale = m / 127,
 * q = rne(x * (127 / m)); sum = sum of q.   q [k rounded up to 32], scale and sum [its groups].
 * rne of a value outside [-127, 127] (not finite input only) is clamped; NaN gives 0. */
typedef void (*quantize_fn)(int8_t *q, float *scale, int32_t *sum, const float *x, size_t k);

/* y[i] = (x[i] * r) * w[i],  r = 1 / sqrt(lane_sum(x * x by fma) / n + eps)   x, w, y [n] */
typedef void (*rmsnorm_fn)(float *y, const float *x, const float *w, size_t n, float eps);

/* y[i] += x[i]   [n] */
typedef void (*add_fn)(float *y, const float *x, size_t n);

/* y[i] = gate[i] / (1 + exp(-gate[i])) * up[i]   [n]; y may be gate or up */
typedef void (*swiglu_fn)(float *y, const float *gate, const float *up, size_t n);

/* c[i] = cos(pos * inv_freq[i]) * factor, s[i] = sin(...) * factor   [half] */
typedef void (*rope_angles_fn)(float *c, float *s, const float *inv_freq, size_t half,
                               uint32_t position, float factor);

/* Turns x[i] with x[i + half]: a' = fma(-b, s, a * c), b' = fma(a, s, b * c)   x [2 * half, ...] */
typedef void (*rope_fn)(float *x, const float *c, const float *s, size_t half);

/* y[i] = f16(x[i]), round to nearest even, subnormals kept   [n], no alignment */
typedef void (*to_f16_fn)(uint16_t *y, const float *x, size_t n);

/* True when every |x[i]| <= limit (false on NaN)   [n], no alignment */
typedef bool (*in_range_fn)(const float *x, size_t n, float limit);

/* Attention of n_q queries that share one KV head over one block of positions, of which only
 * lo <= p < hi (within the block) are visible. For query g:
 *   s[p] = (fma over d ascending of q[g, d] * k[d, p], from +0) * scale;  softcap > 0: cap * tanh(s
 * / cap) m[g] = max s;  e[p] = exp(s[p] - m);  l[g] = lane_sum(e), lane = p mod 16 a[g, d] =
 * fma(e[p], v[p, d], a[g, d]), p ascending, from +0 A masked position takes part in no operation,
 * and its K and V are not read as values. */
struct attend {
    size_t n_q, k_dim, v_dim; /* queries; dims of a key, of a value */
    const float *q;           /* [n_q, q_stride] */
    size_t q_stride;
    const void *k; /* 16 tiles [k_dim, 16 positions] in the slot's cache type */
    const void *v; /* [256, v_dim] */
    size_t lo, hi; /* 0 <= lo < hi <= 256 */
    float scale, softcap;
    float *m, *l; /* [n_q] */
    float *a;     /* [n_q, a_stride] */
    size_t a_stride;
    float *scores; /* scratch [n_q, 256] */
};
typedef void (*attend_fn)(const struct attend *b);

/* Merges block (m, l, a) into the running (M, L, A), per query; a, A [n]:
 *   m <= M: c = exp(m - M), L = fma(l, c, L), A = fma(a, c, A)
 *   else:   c = exp(M - m), L = fma(L, c, l), A = fma(A, c, a), M = m */
typedef void (*merge_fn)(float *M, float *L, float *A, float m, float l, const float *a, size_t n);

/* y[i] = x[i] / d   [n] */
typedef void (*divide_fn)(float *y, const float *x, float d, size_t n);

/* log sum_i exp(x[i]) = max + log(lane_sum(exp(x - max)))   x [n], no alignment */
typedef float (*log_sum_exp_fn)(const float *x, size_t n);

struct kernels {
    const char *name; /* of the widest target that set a slot: ref, avx2, avx512, neon */
    matmul_fn matmul[N_TYPES];
    get_row_fn get_row[N_TYPES];
    quantize_fn quantize;
    rmsnorm_fn rmsnorm;
    add_fn add;
    swiglu_fn swiglu;
    rope_angles_fn rope_angles;
    rope_fn rope;
    to_f16_fn to_f16;
    in_range_fn in_range;
    attend_fn attend[N_CACHE_TYPES];
    merge_fn merge;
    divide_fn divide;
    log_sum_exp_fn log_sum_exp;
};

/* Fills k for the best target that this machine has, or the narrower one that `cpu` names (NULL:
 * best). TERN_USAGE for a name that is unknown, not built, or not on this machine. Then runs the
 * known-answer test: a few hundred operations whose results are constants (TERN_INTERNAL). */
enum tern_status kernels_init(struct kernels *k, const char *cpu, struct tern_error *e);

/* Fills k for a processor with the CPU bits `cpu` (base/cpu.h) and no others, without a test. */
void kernels_fill(struct kernels *k, unsigned cpu);

/* Names of the targets built into this library, narrow to wide, NULL at the end. */
const char *const *kernels_targets(void);

/* True when matmul of this type reads q, scale and sum rather than x. */
static inline bool type_is_quantized(enum tern_type type)
{
    return type >= TERN_Q8;
}

#endif
