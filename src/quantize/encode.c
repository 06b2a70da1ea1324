/* cflags: -O2 */
/* The search for scales: see encode.h. All loops run over the 16 rows of a tile innermost.
 *
 * With errors e_i = w_i - s q_i and u from the factor of X^T X, the loss of a row is the sum over
 * columns j of d_j (e_j + sum_{i<j} u_ij e_i)^2 = d_j (b_j - s p_j)^2, where
 *
 *   b_j = w_j + fix_j + sum_{i<j} u_ij w_i       p_j = q_j + sum_{i<j} u_ij q_i
 *
 * and columns outside the group are in `fix`. Column by column the best q_j is (b_j - s f_j) / s
 * rounded, f_j = p_j - q_j; given all q, the best s is sum d b p / sum d p^2. This is GPTQ
 * (Frantar et al. 2022) in the form of LDLQ (Chee et al. 2023), with the scale searched. */
#include "quantize/encode.h"

#include <float.h>

enum { REFINEMENTS = 2, ROUNDS = 2 };

/* The largest value becomes the first or last value, -8 or 7, or what is so many eighths of
 * the range away from it, by these candidates. */
static const float steps[] = {0, -1.5f, -1.25f, -1, -0.75f, -0.5f, -0.25f, 0.25f, 0.5f, 1, 1.5f};

/* What a group's scales are tried on. */
struct trial {
    const struct group *g;
    float b[GROUP][TILE_ROWS];
};

/* sum[r] += sum over columns i < j of u_ij x[i, r] */
static void feel(const struct group *g, unsigned j, float (*x)[TILE_ROWS], float *sum)
{
    for (unsigned i = 0; i < j; i++) {
        float u = g->u[j * g->u_stride + i];
        for (unsigned r = 0; r < TILE_ROWS; r++)
            sum[r] += u * x[i][r];
    }
}

/* x [16] = the nearest of -8 .. 7 */
static void round_whole(float *x)
{
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        float q = x[r] > -8 ? x[r] : -8;
        q = q < 7 ? q : 7;
        x[r] = (q + 0x1.8p23f) - 0x1.8p23f; /* to the nearest whole number */
    }
}

void values_make(struct values *v, const int8_t *table)
{
    v->low = table[0], v->high = table[CODES - 1];
    for (int i = 0, code = 0; i < 512; i++) { /* for numbers from (i - 256) / 2 on */
        while (code < CODES - 1 && i - 256 >= table[code] + table[code + 1])
            code++;
        v->nearest[i] = table[code];
    }
}

/* x [16] = the nearest of the values, the higher of two; a NaN gives the first */
static void round_into(float *x, const struct values *v)
{
    int at[TILE_ROWS];
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        float low = x[r] > -128 ? x[r] : -128;
        at[r] = (int)((low < 127 ? low : 127) * 2 + 256);
    }
    for (unsigned r = 0; r < TILE_ROWS; r++)
        x[r] = v->nearest[at[r]];
}

static void round_codes(float *x, const struct values *values)
{
    if (values)
        round_into(x, values);
    else
        round_whole(x);
}

/* Fills c->q and c->loss for c->scale; refined [16] = the best scales for those codes. */
static void try_scales(const struct trial *t, struct codes *c, float *refined)
{
    float inverse[TILE_ROWS], bp[TILE_ROWS] = {0}, pp[TILE_ROWS] = {0};
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        inverse[r] = c->scale[r] != 0 ? 1 / c->scale[r] : 0;
        c->loss[r] = 0;
    }
    for (unsigned j = 0; j < GROUP; j++) {
        float f[TILE_ROWS] = {0}, d = t->g->d ? t->g->d[j] : 1;
        if (t->g->u)
            feel(t->g, j, c->q, f);
        for (unsigned r = 0; r < TILE_ROWS; r++)
            c->q[j][r] = (t->b[j][r] - c->scale[r] * f[r]) * inverse[r];
        round_codes(c->q[j], t->g->values);
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            float b = t->b[j][r], p = c->q[j][r] + f[r], rest = b - c->scale[r] * p;
            c->loss[r] += d * rest * rest;
            bp[r] += d * b * p;
            pp[r] += d * p * p;
        }
    }
    for (unsigned r = 0; r < TILE_ROWS; r++)
        refined[r] = pp[r] > 0 ? bp[r] / pp[r] : 0;
}

static void keep_better(struct codes *best, const struct codes *c)
{
    bool better[TILE_ROWS];
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        better[r] = c->loss[r] < best->loss[r];
        best->loss[r] = better[r] ? c->loss[r] : best->loss[r];
        best->scale[r] = better[r] ? c->scale[r] : best->scale[r];
    }
    for (unsigned j = 0; j < GROUP; j++)
        for (unsigned r = 0; r < TILE_ROWS; r++)
            best->q[j][r] = better[r] ? c->q[j][r] : best->q[j][r];
}

/* f16(x) as f32; a zero of either sign gives +0 */
static float stored(float x)
{
    uint16_t h = f16_of_f32(x);
    return h & 0x7fff ? f16_to_f32(h) : 0;
}

/* largest [16] = the value of largest magnitude that a row has to represent */
static void find_largest(const struct group *g, float *largest)
{
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        float m = -1;
        for (unsigned j = 0; j < GROUP; j++) {
            float x = g->w[j * TILE_ROWS + r] + (g->fix ? g->fix[j * TILE_ROWS + r] : 0);
            float a = x < 0 ? -x : x;
            largest[r] = a > m ? x : largest[r];
            m = a > m ? a : m;
        }
    }
}

static void start(struct trial *t, const struct group *g, struct codes *best)
{
    float w[GROUP][TILE_ROWS];
    memcpy(w, g->w, sizeof w);
    memcpy(t->b, w, sizeof w);
    t->g = g;
    for (unsigned j = 0; j < GROUP; j++) {
        for (unsigned r = 0; g->fix && r < TILE_ROWS; r++)
            t->b[j][r] += g->fix[j * TILE_ROWS + r];
        if (g->u)
            feel(g, j, w, t->b[j]);
    }
    memset(best, 0, sizeof *best);
    for (unsigned r = 0; r < TILE_ROWS; r++)
        best->loss[r] = FLT_MAX;
}

void encode_group(const struct group *g, struct codes *best)
{
    struct trial t;
    struct codes c;
    float largest[TILE_ROWS] = {0}, refined[TILE_ROWS];
    float low = g->values ? g->values->low : -8, high = g->values ? g->values->high : 7;
    float eighth = g->values ? (high - low) / 16 : 1;
    start(&t, g, best);
    find_largest(g, largest);
    for (size_t k = 0; k < 2 * sizeof steps / sizeof *steps; k++) {
        float by = k % 2 ? high + steps[k / 2] * eighth : low - steps[k / 2] * eighth;
        for (unsigned r = 0; r < TILE_ROWS; r++)
            c.scale[r] = stored(largest[r] / by);
        if (k == 0)
            memcpy(best->scale, c.scale, sizeof c.scale); /* kept where no loss is finite */
        try_scales(&t, &c, refined);
        keep_better(best, &c);
    }
    memcpy(c.scale, best->scale, sizeof c.scale);
    for (unsigned k = 0; k < REFINEMENTS; k++) {
        try_scales(&t, &c, refined);
        for (unsigned r = 0; r < TILE_ROWS; r++)
            c.scale[r] = best->loss[r] < FLT_MAX ? stored(refined[r]) : best->scale[r];
        try_scales(&t, &c, refined);
        keep_better(best, &c);
    }
}

/* ---- polish: with a change z of the errors of a row, e^T H e changes by 2 z^T H e + z^T H z ----
 */

/* z = -ds q of the best step ds of the scale, unless its rounding to f16 makes that a loss. */
static void polish_scales(struct codes *c, const float (*h)[GROUP], float (*e)[TILE_ROWS],
                          float (*he)[TILE_ROWS])
{
    float hq[GROUP][TILE_ROWS] = {{0}}, qhe[TILE_ROWS] = {0}, qhq[TILE_ROWS] = {0}, step[TILE_ROWS];
    for (unsigned j = 0; j < GROUP; j++)
        for (unsigned i = 0; i < GROUP; i++)
            for (unsigned r = 0; r < TILE_ROWS; r++)
                hq[j][r] += h[j][i] * c->q[i][r];
    for (unsigned j = 0; j < GROUP; j++)
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            qhe[r] += c->q[j][r] * he[j][r];
            qhq[r] += c->q[j][r] * hq[j][r];
        }
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        float s = stored(qhq[r] > 0 ? c->scale[r] + qhe[r] / qhq[r] : c->scale[r]);
        step[r] = s - c->scale[r];
        if (step[r] * (step[r] * qhq[r] - 2 * qhe[r]) < 0)
            c->scale[r] = s;
        else
            step[r] = 0;
    }
    for (unsigned j = 0; j < GROUP; j++)
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            e[j][r] -= step[r] * c->q[j][r];
            he[j][r] -= step[r] * hq[j][r];
        }
}

/* One code a row: the parabola's minimum, rounded. */
static void polish_column(struct codes *c, unsigned j, const struct values *values,
                          const float (*h)[GROUP], float (*e)[TILE_ROWS], float (*he)[TILE_ROWS])
{
    float q[TILE_ROWS];
    for (unsigned r = 0; r < TILE_ROWS; r++)
        q[r] = c->q[j][r] + (c->scale[r] != 0 ? he[j][r] / (h[j][j] * c->scale[r]) : 0);
    round_codes(q, values);
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        float z = (c->q[j][r] - q[r]) * c->scale[r];
        c->q[j][r] = q[r];
        e[j][r] += q[r] = z;
    }
    for (unsigned i = 0; i < GROUP; i++)
        for (unsigned r = 0; r < TILE_ROWS; r++)
            he[i][r] += h[i][j] * q[r];
}

void polish_group(struct codes *c, const struct values *values, const float (*h)[GROUP],
                  float (*e)[TILE_ROWS], float (*he)[TILE_ROWS])
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        polish_scales(c, h, e, he);
        for (unsigned j = 0; j < GROUP; j++)
            polish_column(c, j, values, h, e, he);
    }
}
