/* matmul with q8, q4 and q4c weights in the vocabulary of ops_*.h: integer dots of groups of 32,
 * whose lanes are rows of a tile. `int_init` sets the slots. */
#ifndef KERNELS_SIMD_INT_H
#define KERNELS_SIMD_INT_H

/* Up to FEW_<type> rows of x meet weights as they are. For more, some groups of them are spread in
 * scratch first, so that they are unpacked once. */
enum {
    INT_PER_16 = 16 / WIDTH,
    INT_NEAR = 512,                              /* bytes of prefetch for few rows: into L1, */
    INT_FAR = 4096,                              /* and before that into L2, where more lines can be
                                                  * on their way; */
    INT_TWO = 2048,                              /* of two tiles side by side: into L1 at once */
    SPREAD = 16,                                 /* groups at a time, */
    SPREAD_GROUP = SPREAD_LINES + 4 * TILE_ROWS, /* bytes from one to the next, scales in f32, */
    SPREAD_TILE = SPREAD * SPREAD_GROUP          /* and from tile to tile */
};

/* One or two tiles of integer weights, and the rows of x that meet them: one row, or octets from
 * some row of the first on */
struct dots {
    const unsigned char *w; /* first group of the first tile */
    size_t tile, y_tile;    /* bytes between tiles, floats between their rows of y; 0: one tile met
                               twice */
    size_t groups, step;    /* of a tile, bytes from one to the next */
    enum tern_type type;    /* this, `spread` and `one`: constants where this is used */
    bool spread;            /* w is what spread_groups has made */
    bool one, more;         /* more: the sums begin with what y holds */
    const int8_t *q;
    const float *scale;
    const int32_t *sum;        /* of one row, or the bias of octets */
    bool stream;               /* one row, or the first of few: prefetch what follows in w */
    const unsigned char *next; /* memory to prefetch for more rows, `ahead` bytes a group */
    size_t ahead;
};

/* Bytes from group to group of x */
SIMD size_t x_group(const struct dots *d, size_t one)
{
    return d->one ? one : sizeof(struct octet);
}

/* Where a quad of k of row t of x lies in a group */
SIMD size_t x_quad(const struct dots *d, size_t quad, size_t t)
{
    return d->one ? 4 * quad : quad / 2 * 8 * OCTET + 8 * t + quad % 2 * 4;
}

/* Bytes of a group of a tile before its scales */
SIMD size_t group_lines(enum tern_type type, bool spread)
{
    return spread ? SPREAD_LINES : type == TERN_Q8 ? Q8_LINES : Q4_LINES;
}

/* w [2]: quads 2 j and 2 j + 1 of k, of the rows of part p */
SIMD void load_quads(vw *w, const struct dots *d, const unsigned char *group, size_t j, size_t p)
{
    const unsigned char *at = group + p % INT_PER_16 * 4 * WIDTH;
    if (d->spread) {
        w[0] = vw_spread(at + 2 * j * 64);
        w[1] = vw_spread(at + (2 * j + 1) * 64);
    } else if (d->type == TERN_Q4) {
        vw_q4(w, at + j * 64);
    } else if (d->type == TERN_Q4C) {
        vw_q4c(w, at + j * 64, vt_load(d->w + p / INT_PER_16 * d->tile - Q4C_HEAD));
    } else {
        w[0] = vw_q8(at + 2 * j * 64);
        w[1] = vw_q8(at + (2 * j + 1) * 64);
    }
}

/* What the sums of x take back of a dot, as its beginning: -by * sum. Of int16 sums, both lanes take
 * it. An octet has it for 128; other values are 128 / 2^n. */
SIMD int32_t begin_of(const struct dots *d, int32_t sum, int32_t by)
{
    uint32_t v = (uint32_t)(d->one ? -by * sum : by ? sum / (128 / by) : 0);
    return (int32_t)(HALVES ? v << 16 | (v & 0xffff) : v);
}

/* Those of `tokens` rows, in `room` if they have to be computed */
SIMD const int32_t *begins_of(int32_t *room, const struct dots *d, const int32_t *sum,
                              size_t tokens)
{
    typedef int32_t four __attribute__((vector_size(16)));
    const int32_t by = d->type == TERN_Q4 ? BIAS_Q4 : BIAS_Q8;
    if (!d->one && by == 128)
        return sum;
    for (size_t t = 0; t < tokens % 4; t++)
        room[t] = begin_of(d, sum[t], by);
    UNROLL(i, tokens / 4) {
        four v;
        memcpy(&v, sum + 4 * i, sizeof v);
        v >>= by == 8 ? 4 : 5;
        v = HALVES ? v << 16 | (v & 0xffff) : v;
        memcpy(room + 4 * i, &v, sizeof v);
    }
    if (WIDTH == 16) /* so that memory is broadcast, which takes no unit that multiplies */
        __asm__("" : "+m"(*(int32_t(*)[8])room));
    return room;
}

SIMD enum dot_form form_of(const struct dots *d)
{
    return d->spread ? DOT_SPREAD : d->type == TERN_Q4 ? DOT_Q4 : DOT_Q8;
}

SIMD void prefetch_after(const unsigned char *w)
{
    __builtin_prefetch(w + INT_FAR, 0, 2);
    __builtin_prefetch(w + INT_NEAR);
}

/* What lies `two` after a group of one of two tiles, or as above after one */
SIMD void prefetch_few(const unsigned char *group, size_t step, size_t two)
{
#pragma GCC unroll 1
    for (size_t i = 0; i < step; i += 64)
        if (INT_TILES == 2)
            __builtin_prefetch(group + i + two);
        else
            prefetch_after(group + i);
}

/* Two quads of k, of all tiles and rows */
SIMD void dot_quads(va dot[8][8], const struct dots *d, const unsigned char *const *group,
                    const int8_t *q, size_t j, size_t parts, size_t tokens)
{
    vw w[8][2];
    UNROLL(p, parts)
        load_quads(w[p], d, group[p], j, p);
    UNROLL(i, 2)
        UNROLL(t, tokens) {
            vx x = vx_load(q + x_quad(d, 2 * j + i, t));
            UNROLL(p, parts)
                dot[p][t] = va_dot(dot[p][t], w[p][i], x, form_of(d));
        }
}

/* acc[p][t] += dot * (ws * xs) for group g of all tiles (parts) and rows (tokens) */
SIMD void add_group(vf acc[8][8], const struct dots *d, size_t g, size_t parts, size_t tokens)
{
    size_t lines = group_lines(d->type, d->spread);
    const unsigned char *group[8];
    const int8_t *q = d->q + g * x_group(d, GROUP);
    const float *xs = (const float *)(const void *)((const char *)d->scale + g * x_group(d, 4));
    const int32_t *sum = (const int32_t *)(const void *)((const char *)d->sum + g * x_group(d, 4));
    int32_t room[8];
    const int32_t *begin = begins_of(room, d, sum, tokens);
    va dot[8][8];
    size_t two = INT_TWO; /* after the first tile comes the second, which is met already */
    if (INT_TILES > 1 && g + INT_TWO / d->step >= d->groups)
        two += d->tile;
    UNROLL(p, parts) {
        group[p] = d->w + p / INT_PER_16 * d->tile + g * d->step;
        if (d->one && p == 0)
#pragma GCC unroll 9
            for (size_t i = 0; i < d->step; i += 64)
                prefetch_after(group[0] + i);
        if (!d->one && d->stream && p == 0)
            prefetch_few(group[0], d->step, two);
        UNROLL(t, tokens)
            dot[p][t] = va_begin(begin + t, group[p] + p % INT_PER_16 * 4 * WIDTH, form_of(d));
    }
    for (size_t i = 0; !d->one && i < d->ahead; i += 64)
        __builtin_prefetch(d->next + g * d->ahead + i);
    if (tokens == 8)
        UNROLL(j, 4)
            dot_quads(dot, d, group, q, j, parts, tokens);
    else
#pragma GCC unroll INT_UNROLL
        for (size_t j = 0; j < 4; j++)
            dot_quads(dot, d, group, q, j, parts, tokens);
    if (!d->one && d->stream && INT_TILES == 2) /* not at once: prefetches keep loads waiting */
        prefetch_few(group[INT_PER_16], d->step, two);
    UNROLL(p, parts) {
        const unsigned char *scales = group[p] + lines;
        size_t row = p % INT_PER_16 * WIDTH;
        vf ws = d->spread ? vf_load((const float *)(const void *)scales + row)
                          : vf_load_f16((const uint16_t *)(const void *)scales + row);
        UNROLL(t, tokens) {
            vf s = vf_mul(ws, vf_set1(xs[t]));
            acc[p][t] = vf_fma(va_result(dot[p][t], form_of(d)), s, acc[p][t]);
        }
    }
}

SIMD size_t y_at(const struct dots *d, size_t y_stride, size_t p, size_t t)
{
    return t * y_stride + p / INT_PER_16 * d->y_tile + p % INT_PER_16 * WIDTH;
}

/* y[t][r] for `parts` vectors of rows of w and `tokens` rows of x (both constants), of which the
 * first n are stored */
SIMD void dot_groups(float *y, size_t y_stride, const struct dots *d, size_t parts, size_t tokens,
                     size_t n)
{
    vf acc[8][8];
    UNROLL(p, parts)
        UNROLL(t, tokens)
            acc[p][t] = d->more && t < n ? vf_load(y + y_at(d, y_stride, p, t)) : vf_set1(0);
    for (size_t g = 0; g < d->groups; g++)
        add_group(acc, d, g, parts, tokens);
    UNROLL(t, tokens)
        if (t < n)
            UNROLL(p, parts)
                vf_store(y + y_at(d, y_stride, p, t), acc[p][t]);
}

/* The same for all rows of x, from group g0 on. Meanwhile d.next, `bytes` of it, comes nearer. */
SIMD void dot_octets(float *y, size_t y_stride, struct dots d, const struct activations *x,
                     size_t g0, size_t bytes)
{
    size_t tokens = d.spread || d.type == TERN_Q4 ? INT_TOKENS : DIRECT_TOKENS;
    size_t times = (x->n + tokens - 1) / tokens, parts = INT_TILES * INT_PER_16;
    const unsigned char *end = d.next + bytes;
    bool few = !d.spread && times <= 2;
    d.ahead = few ? 0 : (bytes / (times * d.groups) + 63) / 64 * 64;
    for (size_t i = 0; i < x->n; i += tokens, d.next += d.groups * d.ahead) {
        const struct octet *o = x->octets + octet_at(i, g0, x->k);
        size_t lane = i % OCTET, left = x->n - i;
        d.q = o->q[0][lane], d.scale = o->scale + lane, d.sum = o->bias + lane;
        d.stream = few && i == 0;
        if (d.next >= end)
            d.ahead = 0;
        if (INT_PAIR && !d.spread && left == 2)
            dot_groups(y + i * y_stride, y_stride, &d, parts, 2, 2);
        else if (tokens > 4 && left <= 4)
            dot_groups(y + i * y_stride, y_stride, &d, parts, 4, left);
        else
            dot_groups(y + i * y_stride, y_stride, &d, parts, tokens, left);
    }
}

/* Tiles of x->k columns, w not set */
SIMD struct dots dots_of(enum tern_type type, const struct activations *x)
{
    size_t groups = (x->k + GROUP - 1) / GROUP, step = group_lines(type, false) + 2 * TILE_ROWS;
    return (struct dots){.tile = groups * step + (type == TERN_Q4C ? Q4C_HEAD : 0),
                         .y_tile = TILE_ROWS,
                         .groups = groups,
                         .step = step,
                         .type = type};
}

/* One row of x: one stream through memory. */
SIMD void matmul_one(float *y, const unsigned char *w, enum tern_type type, size_t tile0,
                     size_t tile1, const struct activations *x)
{
    struct dots d = dots_of(type, x);
    d.one = d.stream = true, d.q = x->q, d.scale = x->scale, d.sum = x->sum;
    for (size_t t = tile0; t < tile1; t++) {
        d.w = w + (t + 1) * d.tile - d.groups * d.step;
        dot_groups(y + t * TILE_ROWS, 0, &d, INT_PER_16, 1, 1);
    }
}

SIMD void matmul_int(float *y, size_t y_stride, const unsigned char *w, enum tern_type type,
                     size_t tile0, size_t tile1, const struct activations *x)
{
    struct dots d = dots_of(type, x);
    size_t tile = d.tile, bytes = INT_TILES * tile;
    if (x->n == 1) {
        matmul_one(y, w, type, tile0, tile1, x);
        return;
    }
    for (size_t t = tile0; t < tile1; t += INT_TILES) {
        float *to = y + t * TILE_ROWS;
        d.w = w + t * tile + tile - d.groups * d.step;
        d.next = t + INT_TILES < tile1 || !x->next ? d.w + bytes : x->next;
        if (t + INT_TILES > tile1)
            d.tile = d.y_tile = 0;
        dot_octets(to, y_stride, d, x, 0, bytes);
    }
}

/* n groups of a tile, from `from` on, as many rows of x meet them; `type`: a constant */
SIMD void spread_groups(unsigned char *to, struct dots d, const unsigned char *from, size_t n,
                        enum tern_type type)
{
    for (d.type = type; n > 0; n--, to += SPREAD_GROUP, from += d.step) {
        for (size_t p = 0; p < INT_PER_16; p++) {
            unsigned char *at = to + p * 4 * WIDTH;
            va sum = va_zero();
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++) {
                vw w[2];
                load_quads(w, &d, from, j, p);
                sum = vw_store(at + 2 * j * 64, w[0], sum, form_of(&d));
                sum = vw_store(at + (2 * j + 1) * 64, w[1], sum, form_of(&d));
            }
            va_store(at, sum);
        }
        for (size_t r = 0; r < TILE_ROWS; r += WIDTH) {
            const uint16_t *scales =
                (const uint16_t *)(const void *)(from + group_lines(type, false));
            vf_store((float *)(void *)(to + SPREAD_LINES) + r, vf_load_f16(scales + r));
        }
    }
}

/* Whether n rows of x meet weights spread, where up to `few` meet them as they are */
SIMD bool spreads(size_t few, size_t n)
{
    return few < ANY && n > few;
}

SIMD void spread_type(unsigned char *to, struct dots d, const unsigned char *from, size_t n,
                      enum tern_type type)
{
    if (type == TERN_Q4C)
        spread_groups(to, d, from, n, TERN_Q4C);
    else if (type == TERN_Q4 && spreads(FEW_Q4, ANY))
        spread_groups(to, d, from, n, TERN_Q4);
    else if (spreads(FEW_Q8, ANY))
        spread_groups(to, d, from, n, TERN_Q8);
}

/* Many rows of x meet a few groups of INT_TILES tiles, which have been spread for them. */
static __attribute__((noinline)) void matmul_spread(float *y, size_t y_stride,
                                                    const unsigned char *w, enum tern_type type,
                                                    size_t tile0, size_t tile1,
                                                    const struct activations *x)
{
    _Alignas(64) unsigned char scratch[INT_TILES * SPREAD_TILE];
    struct dots all = dots_of(type, x);
    for (size_t t = tile0; t < tile1; t += INT_TILES)
        for (size_t g = 0; g < all.groups; g += SPREAD) {
            struct dots d = {
                .w = scratch, .tile = SPREAD_TILE, .y_tile = TILE_ROWS, .step = SPREAD_GROUP};
            d.groups = all.groups - g < SPREAD ? all.groups - g : SPREAD;
            d.more = g > 0;
            all.w = w + (t + 1) * all.tile - all.groups * all.step;
            for (size_t i = 0; i < INT_TILES && t + i < tile1; i++, all.w += all.tile)
                spread_type(scratch + i * SPREAD_TILE, all, all.w + g * all.step, d.groups, type);
            if (t + INT_TILES > tile1)
                d.tile = d.y_tile = 0;
            d.next = all.w + g * INT_TILES * all.step;
            size_t bytes = INT_TILES * d.groups * all.step;
            d.type = TERN_Q8, d.spread = true;
            dot_octets(y + t * TILE_ROWS, y_stride, d, x, g, bytes);
        }
}

static void matmul_q8(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                      const struct activations *x)
{
    if (spreads(FEW_Q8, x->n))
        matmul_spread(y, y_stride, w, TERN_Q8, tile0, tile1, x);
    else
        matmul_int(y, y_stride, w, TERN_Q8, tile0, tile1, x);
}

static void matmul_q4(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                      const struct activations *x)
{
    if (spreads(FEW_Q4, x->n))
        matmul_spread(y, y_stride, w, TERN_Q4, tile0, tile1, x);
    else
        matmul_int(y, y_stride, w, TERN_Q4, tile0, tile1, x);
}

static void matmul_q4c(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                       const struct activations *x)
{
    if (spreads(FEW_Q4C, x->n))
        matmul_spread(y, y_stride, w, TERN_Q4C, tile0, tile1, x);
    else
        matmul_int(y, y_stride, w, TERN_Q4C, tile0, tile1, x);
}

SIMD void int_init(struct kernels *k)
{
    k->matmul[TERN_Q8] = matmul_q8;
    k->matmul[TERN_Q4] = matmul_q4;
    k->matmul[TERN_Q4C] = matmul_q4c;
}

#endif
