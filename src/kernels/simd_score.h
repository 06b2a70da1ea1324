/* score of a q8 cache in the vocabulary of ops_*.h: K's tiles are q8 weight tiles, and the queries
 * are activations. `score_init` sets the slot. */
#ifndef KERNELS_SIMD_SCORE_H
#define KERNELS_SIMD_SCORE_H

enum {
    SCORE_PER_16 = 16 / WIDTH,
    SCORE_PARTS = TILES * SCORE_PER_16 /* vectors of positions that run together */
};

/* A tile or two, and the queries that meet them */
struct score_part {
    const unsigned char *k; /* first group of the first tile */
    size_t tile;            /* bytes to the other tile; 0: one tile met twice */
    const struct queries *q;
    size_t row[4];
    const char *ahead; /* prefetched meanwhile, `step` bytes for four dims of a tile */
    size_t step;
};

/* acc[p][t] += dot * (ks * qs) of group i of TILES * 16 positions, for `tokens` queries */
SIMD void score_group(vf acc[4][4], const struct score_part *s, size_t i, size_t tokens)
{
    const struct queries *q = s->q;
    const unsigned char *group = s->k + i * Q8_BYTES;
    va dot[4][4];
    int32_t bias[4];
    UNROLL(t, tokens) {
        bias[t] = BIAS_Q8 ? -BIAS_Q8 * q->sum[s->row[t] * q->group_stride + i] : 0;
        UNROLL(p, SCORE_PARTS)
            dot[p][t] = va_begin(&bias[t], NULL, DOT_Q8);
    }
#pragma GCC unroll(2 * INT_UNROLL)
    for (size_t j = 0; j < 8; j++) {
        vw w[4];
        for (size_t t = 0; t < TILES && s->step; t++)
            __builtin_prefetch(s->ahead + ((i * 8 + j) * TILES + t) * s->step, 0, 2);
        UNROLL(p, SCORE_PARTS)
            w[p] =
                vw_q8(group + p / SCORE_PER_16 * s->tile + j * 64 + p % SCORE_PER_16 * 4 * WIDTH);
        UNROLL(t, tokens) {
            vx x = vx_load(q->q + s->row[t] * q->stride + i * GROUP + 4 * j);
            UNROLL(p, SCORE_PARTS)
                dot[p][t] = va_dot(dot[p][t], w[p], x, DOT_Q8);
        }
    }
    UNROLL(p, SCORE_PARTS) {
        const unsigned char *scales = group + p / SCORE_PER_16 * s->tile + Q8_LINES;
        vf ks = vf_load_f16((const uint16_t *)(const void *)scales + p % SCORE_PER_16 * WIDTH);
        UNROLL(t, tokens) {
            vf by = vf_mul(ks, vf_set1(q->scale[s->row[t] * q->group_stride + i]));
            acc[p][t] = vf_fma(va_result(dot[p][t], DOT_Q8), by, acc[p][t]);
        }
    }
}

/* Queries first .. first + tokens - 1 against the tiles at y, of which the second may be the first
 * again; beyond the last query it is computed again, which writes the same numbers to the same
 * place. */
SIMD void score_some(const struct attend *b, struct score_part s, float *y, size_t first,
                     size_t tokens)
{
    size_t groups = (b->q.k + GROUP - 1) / GROUP, y_tile = s.tile ? TILE_ROWS : 0;
    vf acc[4][4];
    UNROLL(t, tokens) {
        s.row[t] = first + t < b->q.n ? first + t : b->q.n - 1;
        UNROLL(p, SCORE_PARTS)
            acc[p][t] = vf_set1(0);
    }
    for (size_t i = 0; i < groups; i++)
        score_group(acc, &s, i, tokens);
    UNROLL(t, tokens)
        UNROLL(p, SCORE_PARTS)
            vf_store(y + s.row[t] * BLOCK + p / SCORE_PER_16 * y_tile + p % SCORE_PER_16 * WIDTH,
                     acc[p][t]);
}

/* Meanwhile the V of the block is prefetched: as many bytes. */
static void score_q8(const struct attend *b)
{
    size_t tile = (b->q.k + GROUP - 1) / GROUP * Q8_BYTES;
    size_t end = (b->see[b->q.n - 1].hi + TILE_ROWS - 1u) / TILE_ROWS;
    for (size_t t = b->see[0].lo / TILE_ROWS; t < end; t += TILES) {
        struct score_part s = {.k = (const unsigned char *)b->k + t * tile, .q = &b->q};
        s.tile = t + 1 < end ? tile : 0;
        s.ahead = (const char *)b->v + t * tile, s.step = Q8_BYTES / 8;
        for (size_t g = 0; g < b->q.n; g += 4, s.step = 0)
            if (b->q.n - g > 1)
                score_some(b, s, b->scores + t * TILE_ROWS, g, 4);
            else
                score_some(b, s, b->scores + t * TILE_ROWS, g, 1);
    }
}

SIMD void score_init(struct kernels *k)
{
    k->score[TERN_CACHE_Q8] = score_q8;
}

#endif
