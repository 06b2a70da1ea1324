/* cflags: -O2 -fno-tree-vectorize -march=armv8.2-a+dotprod+i8mm */
/* The target i8mm: integer matmul of several rows of x with smmla, which multiplies two rows of 8 k
 * by two rows of 8 k. A tile has 4 k of a row together, so two quads of it are zipped, and an octet
 * of x has 8. One row of x meets dots of 4 k, as in the target dotprod. */
#include "kernels/ops_neon.h"
#include "kernels/targets.h"
/* after its vocabulary: */
#include "kernels/simd_int.h"

enum {
    PARTS_16 = TILE_ROWS / WIDTH,
    FEW_ZIPPED = OCTET,                         /* rows of x that meet weights as they are */
    CHUNK = 16,                                 /* groups that are zipped for more of them */
    ZIPPED_LINES = TILE_ROWS * GROUP,           /* of a group: part, 8 k, two pairs of rows; */
    ZIPPED_GROUP = ZIPPED_LINES + 8 * TILE_ROWS /* and scales in f32, each twice */
};

/* w [2]: k 8 j to 8 j + 7 of rows 0 and 1, and of rows 2 and 3, of part p */
SIMD void load_pairs(vw *w, const struct dots *d, bool zipped, const unsigned char *group, size_t j,
                     size_t p)
{
    vw quads[2];
    if (zipped) {
        w[0] = vw_q8(group + (p * 4 + j) * 32);
        w[1] = vw_q8(group + (p * 4 + j) * 32 + 16);
        return;
    }
    load_quads(quads, d, group, j, p);
    int32x4_t low = vreinterpretq_s32_s8(quads[0]), high = vreinterpretq_s32_s8(quads[1]);
    w[0] = vreinterpretq_s8_s32(vzip1q_s32(low, high));
    w[1] = vreinterpretq_s8_s32(vzip2q_s32(low, high));
}

/* ws [2]: the scales of those rows, each twice */
SIMD void load_scales(vf *ws, const struct dots *d, bool zipped, const unsigned char *group,
                      size_t p)
{
    const unsigned char *at = group + (zipped ? ZIPPED_LINES + 32 * p : d->step - 32 + 8 * p);
    if (zipped) {
        ws[0] = vf_load((const float *)(const void *)at);
        ws[1] = vf_load((const float *)(const void *)(at + 16));
    } else {
        vf s = vf_load_f16((const uint16_t *)(const void *)at);
        ws[0] = vzip1q_f32(s, s), ws[1] = vzip2q_f32(s, s);
    }
}

/* acc[i][t] += dot * (ws * xs) for pair i of the rows of part p and pair t of rows of x, which begin
 * at q and xs: its lanes are row 0 with x 0 and x 1, row 1 with both */
SIMD void add_pairs(vf acc[2][4], const struct dots *d, bool zipped, const unsigned char *group,
                    const int8_t *q, const float *xs, size_t p, size_t tokens)
{
    va dot[2][4];
    vf ws[2];
    UNROLL(t, tokens / 2)
        dot[0][t] = dot[1][t] = va_zero();
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; j++) {
        vw w[2];
        load_pairs(w, d, zipped, group, j, p);
        UNROLL(t, tokens / 2) {
            vx x = vld1q_s8(q + (j * OCTET + 2 * t) * 8);
            dot[0][t] = vmmlaq_s32(dot[0][t], w[0], x);
            dot[1][t] = vmmlaq_s32(dot[1][t], w[1], x);
        }
    }
    load_scales(ws, d, zipped, group, p);
    UNROLL(t, tokens / 2) {
        float64x2_t x = vreinterpretq_f64_f32(vf_load(xs + t / 2 * 4));
        vf s = vreinterpretq_f32_f64(t % 2 ? vzip2q_f64(x, x) : vzip1q_f64(x, x));
        UNROLL(i, 2)
            acc[i][t] = vf_fma(va_result(dot[i][t], DOT_Q8), vf_mul(ws[i], s), acc[i][t]);
    }
}

/* y[t][r] for the rows of part p and `tokens` rows of x (a constant), which begin at lane 0 of the
 * octets x; the first n are stored. first: the first group of w */
SIMD void pairs(float *y, size_t y_stride, const struct dots *d, bool zipped, size_t first,
                const struct octet *x, size_t p, size_t tokens, size_t n)
{
    vf acc[2][4];
    UNROLL(t, tokens / 2) {
        bool a = d->more && 2 * t < n, b = d->more && 2 * t + 1 < n;
        vf ya = a ? vf_load(y + 2 * t * y_stride) : vf_set1(0);
        vf yb = b ? vf_load(y + (2 * t + 1) * y_stride) : vf_set1(0);
        acc[0][t] = vzip1q_f32(ya, yb), acc[1][t] = vzip2q_f32(ya, yb);
    }
    for (size_t g = 0; g < d->groups; g++) {
        for (size_t i = 0; i < d->ahead; i += 64)
            __builtin_prefetch(d->next + g * d->ahead + i);
        add_pairs(acc, d, zipped, d->w + (first + g) * d->step, x[g].q[0][0], x[g].scale, p,
                  tokens);
    }
    UNROLL(t, tokens / 2) {
        if (2 * t < n)
            vf_store(y + 2 * t * y_stride, vuzp1q_f32(acc[0][t], acc[1][t]));
        if (2 * t + 1 < n)
            vf_store(y + (2 * t + 1) * y_stride, vuzp2q_f32(acc[0][t], acc[1][t]));
    }
}

/* All rows of x and the groups of a tile that are those of x from g0 on. Meanwhile d.next, `bytes` of
 * it, comes nearer. */
SIMD void pairs_octets(float *y, size_t y_stride, struct dots d, bool zipped,
                       const struct activations *x, size_t g0, size_t bytes)
{
    size_t steps = (x->n + OCTET - 1) / OCTET * PARTS_16 * d.groups, first = zipped ? 0 : g0;
    const unsigned char *end = d.next + bytes;
    d.ahead = (bytes / steps + 63) / 64 * 64;
    for (size_t i = 0; i < x->n; i += OCTET, y += OCTET * y_stride)
        for (size_t p = 0; p < PARTS_16; p++, d.next += d.groups * d.ahead) {
            const struct octet *o = x->octets + octet_at(i, g0, x->k);
            float *to = y + p * WIDTH;
            size_t left = x->n - i;
            if (d.next >= end)
                d.ahead = 0;
            if (left <= 2)
                pairs(to, y_stride, &d, zipped, first, o, p, 2, left);
            else if (left <= 4)
                pairs(to, y_stride, &d, zipped, first, o, p, 4, left);
            else
                pairs(to, y_stride, &d, zipped, first, o, p, OCTET, left);
        }
}

static __attribute__((noinline)) void zipped_octets(float *y, size_t y_stride, struct dots d,
                                                    const struct activations *x, size_t g0,
                                                    size_t bytes)
{
    pairs_octets(y, y_stride, d, true, x, g0, bytes);
}

/* The groups of d from `first` on */
SIMD void zip(unsigned char *to, const struct dots *d, size_t first)
{
    const unsigned char *group = d->w + first * d->step;
    for (size_t g = 0; g < d->groups; g++, group += d->step, to += ZIPPED_GROUP)
        for (size_t p = 0; p < PARTS_16; p++) {
            float *scales = (float *)(void *)(to + ZIPPED_LINES + 32 * p);
            vf ws[2];
            load_scales(ws, d, false, group, p);
            vf_store(scales, ws[0]);
            vf_store(scales + 4, ws[1]);
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++) {
                int8_t *at = (int8_t *)to + (p * 4 + j) * 32;
                vw w[2];
                load_pairs(w, d, false, group, j, p);
                vst1q_s8(at, w[0]);
                vst1q_s8(at + 16, w[1]);
            }
        }
}

/* A few groups of a tile at a time, which stay in L1 for all rows of x */
SIMD void matmul_pairs(float *y, size_t y_stride, const unsigned char *w, enum tern_type type,
                       size_t tile0, size_t tile1, const struct activations *x)
{
    _Alignas(64) unsigned char zipped[CHUNK * ZIPPED_GROUP];
    const struct dots all = dots_of(type, x);
    if (x->n == 1) {
        matmul_one(y, w, type, tile0, tile1, x);
        return;
    }
    for (size_t t = tile0; t < tile1; t++)
        for (size_t g = 0; g < all.groups; g += CHUNK) {
            struct dots d = all;
            float *to = y + t * TILE_ROWS;
            d.w = w + (t + 1) * d.tile - d.groups * d.step;
            d.groups = all.groups - g < CHUNK ? all.groups - g : CHUNK;
            d.more = g > 0;
            d.next = d.w + (g + d.groups) * d.step;
            if (t + 1 == tile1 && g + d.groups == all.groups && x->next)
                d.next = x->next;
            if (x->n <= FEW_ZIPPED) {
                pairs_octets(to, y_stride, d, false, x, g, d.groups * d.step);
                continue;
            }
            zip(zipped, &d, g);
            d.w = zipped, d.step = ZIPPED_GROUP;
            zipped_octets(to, y_stride, d, x, g, d.groups * all.step);
        }
}

static void pairs_q8(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                     const struct activations *x)
{
    matmul_pairs(y, y_stride, w, TERN_Q8, tile0, tile1, x);
}

static void pairs_q4(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                     const struct activations *x)
{
    matmul_pairs(y, y_stride, w, TERN_Q4, tile0, tile1, x);
}

static void pairs_q4c(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                      const struct activations *x)
{
    matmul_pairs(y, y_stride, w, TERN_Q4C, tile0, tile1, x);
}

void arm_i8mm_init(struct kernels *k)
{
    k->matmul[TERN_Q8] = pairs_q8;
    k->matmul[TERN_Q4] = pairs_q4;
    k->matmul[TERN_Q4C] = pairs_q4c;
}
