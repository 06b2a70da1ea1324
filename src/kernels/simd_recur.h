/* Recurrences in the vocabulary of ops_*.h: lanes are columns of a state. `recur_init` sets the slot. */
#ifndef KERNELS_SIMD_RECUR_H
#define KERNELS_SIMD_RECUR_H

#include "kernels/simd_rows.h"

enum { STATE_PARTS = STATE_COLUMNS / WIDTH };

/* One part or STATE_PARTS of them from column c on; `left` columns are there. The update of a row is
 * joined with decay and key product of the next: the operations of an element keep their order. */
SIMD void recur_parts(const struct recur *r, size_t c, const size_t parts, size_t left,
                      const bool delta)
{
    static const float one = 1;
    vf known[STATE_PARTS], d[STATE_PARTS], o[STATE_PARTS];
    const float *q = r->q, *k = r->k, *v = r->v + c, *g = r->g, *b = r->b;
    const bool whole = parts == STATE_PARTS;
    float *y = r->o + c;
#define PART_LOAD(p) (whole ? vf_load(p) : load_some(p, left))
#define PART_STORE(p, x) (whole ? vf_store(p, x) : store_some(p, x, left))
    UNROLL(j, parts)
        known[j] = vf_set1(0);
    for (size_t i = 0; delta && i < r->k_dim; i++)
        UNROLL(j, parts) {
            float *at = r->state + i * r->columns + c + j * WIDTH;
            vf s = vf_mul(PART_LOAD(at), vf_set1(g[i * r->g_step]));
            PART_STORE(at, s);
            known[j] = vf_fma(vf_set1(k[i]), s, known[j]);
        }
    for (size_t row = 0; row < r->rows; row++) {
        bool last = row + 1 == r->rows;
        const float *next = last ? k : k + r->key_stride;
        const float *G = !delta ? g : last ? &one : g + r->g_stride;
        const size_t step = delta && last ? 0 : r->g_step;
        UNROLL(j, parts) {
            vf x = PART_LOAD(v + j * WIDTH);
            d[j] = vf_mul(delta ? vf_sub(x, known[j]) : x, vf_set1(*b));
            known[j] = o[j] = vf_set1(0);
        }
        for (size_t i = 0; i < r->k_dim; i++) {
            vf ki = vf_set1(k[i]), qi = vf_set1(q[i]), ni = vf_set1(next[i]), gi = vf_set1(G[i * step]);
            UNROLL(j, parts) {
                float *at = r->state + i * r->columns + c + j * WIDTH;
                vf s = PART_LOAD(at);
                if (!delta)
                    s = vf_mul(s, gi);
                s = vf_fma(ki, d[j], s);
                o[j] = vf_fma(qi, s, o[j]);
                if (delta) {
                    s = vf_mul(s, gi);
                    known[j] = vf_fma(ni, s, known[j]);
                }
                PART_STORE(at, s);
            }
        }
        UNROLL(j, parts)
            PART_STORE(y + j * WIDTH, o[j]);
        q += r->key_stride, k += r->key_stride, v += r->v_stride, y += r->o_stride;
        g += r->g_stride, b += r->b_stride;
    }
#undef PART_LOAD
#undef PART_STORE
}

static void recur(const struct recur *r)
{
    size_t c = 0;
    if (r->columns == STATE_COLUMNS && r->delta)
        recur_parts(r, 0, STATE_PARTS, 0, true);
    else if (r->columns == STATE_COLUMNS)
        recur_parts(r, 0, STATE_PARTS, 0, false);
    else
        for (; c < r->columns; c += WIDTH)
            if (r->delta)
                recur_parts(r, c, 1, r->columns - c, true);
            else
                recur_parts(r, c, 1, r->columns - c, false);
}

SIMD void recur_init(struct kernels *k)
{
    k->recur = recur;
}

#endif
