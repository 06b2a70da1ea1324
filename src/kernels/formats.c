/* The table of weight formats: see formats.h. */
#include "kernels/formats.h"

#include <assert.h>

/* Below 2^22, adding and taking away 1.5 * 2^23 leaves x rounded to nearest even. */
static float rne(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

/* rne(x), clamped; a NaN gives lo. */
static int round_into(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return (int)rne(x < hi ? x : hi);
}

/* ---- float formats: lines of 16 rows, one per k ---- */

static void encode_f32(void *tile, uint64_t group, const float *w, unsigned n)
{
    float *out = (float *)tile + group * GROUP * TILE_ROWS;
    for (unsigned c = 0; c < n; c++)
        for (unsigned r = 0; r < TILE_ROWS; r++)
            out[c * TILE_ROWS + r] = w[r * GROUP + c];
}

static void decode_f32(float *w, const void *tile, uint64_t group, unsigned n)
{
    const float *in = (const float *)tile + group * GROUP * TILE_ROWS;
    for (unsigned r = 0; r < TILE_ROWS; r++)
        for (unsigned c = 0; c < GROUP; c++)
            w[r * GROUP + c] = c < n ? in[c * TILE_ROWS + r] : 0;
}

static void encode_f16(void *tile, uint64_t group, const float *w, unsigned n)
{
    uint16_t *out = (uint16_t *)tile + group * GROUP * TILE_ROWS;
    for (unsigned c = 0; c < n; c++)
        for (unsigned r = 0; r < TILE_ROWS; r++)
            out[c * TILE_ROWS + r] = f16_of_f32(w[r * GROUP + c]);
}

static void decode_f16(float *w, const void *tile, uint64_t group, unsigned n)
{
    const uint16_t *in = (const uint16_t *)tile + group * GROUP * TILE_ROWS;
    for (unsigned r = 0; r < TILE_ROWS; r++)
        for (unsigned c = 0; c < GROUP; c++)
            w[r * GROUP + c] = c < n ? f16_to_f32(in[c * TILE_ROWS + r]) : 0;
}

static void encode_bf16(void *tile, uint64_t group, const float *w, unsigned n)
{
    uint16_t *out = (uint16_t *)tile + group * GROUP * TILE_ROWS;
    for (unsigned c = 0; c < n; c++)
        for (unsigned r = 0; r < TILE_ROWS; r++)
            out[c * TILE_ROWS + r] = bf16_of_f32(w[r * GROUP + c]);
}

static void decode_bf16(float *w, const void *tile, uint64_t group, unsigned n)
{
    const uint16_t *in = (const uint16_t *)tile + group * GROUP * TILE_ROWS;
    for (unsigned r = 0; r < TILE_ROWS; r++)
        for (unsigned c = 0; c < GROUP; c++)
            w[r * GROUP + c] = c < n ? bf16_to_f32(in[c * TILE_ROWS + r]) : 0;
}

/* ---- quantized formats: the lines of a group, then 16 f16 scales ---- */

static float load_scale(const unsigned char *scales, unsigned r)
{
    uint16_t h;
    memcpy(&h, scales + 2 * r, sizeof h);
    return f16_to_f32(h);
}

/* Stores f16(x), or +0 when that is a zero of either sign; returns the stored value. */
static float store_scale(unsigned char *scales, unsigned r, float x)
{
    uint16_t h = f16_of_f32(x);
    if (!(h & 0x7fff))
        h = 0;
    memcpy(scales + 2 * r, &h, sizeof h);
    return f16_to_f32(h);
}

/* The value of largest magnitude, the first of several */
static float largest_of(const float *w, unsigned n)
{
    float m = 0, largest = 0;
    for (unsigned i = 0; i < n; i++) {
        float a = w[i] < 0 ? -w[i] : w[i];
        if (a > largest)
            largest = a, m = w[i];
    }
    return m;
}

/* Line c / 4, byte 4 r + c % 4 holds row r, k c. */
static unsigned q8_at(unsigned r, unsigned c)
{
    return c / 4 * 64 + 4 * r + c % 4;
}

static void encode_q8(void *tile, uint64_t group, const float *w, unsigned n)
{
    unsigned char *out = (unsigned char *)tile + group * Q8_BYTES;
    (void)n;
    for (unsigned r = 0; r < TILE_ROWS; r++, w += GROUP) {
        float m = largest_of(w, GROUP);
        float scale = store_scale(out + Q8_LINES, r, (m < 0 ? -m : m) / 127);
        for (unsigned c = 0; c < GROUP; c++) {
            int q = scale != 0 ? round_into(w[c] / scale, -127, 127) : 0;
            out[q8_at(r, c)] = (unsigned char)q;
        }
    }
}

static void decode_q8(float *w, const void *tile, uint64_t group, unsigned n)
{
    const unsigned char *in = (const unsigned char *)tile + group * Q8_BYTES;
    (void)n;
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        float scale = load_scale(in + Q8_LINES, r);
        for (unsigned c = 0; c < GROUP; c++)
            w[r * GROUP + c] = (float)(int8_t)in[q8_at(r, c)] * scale;
    }
}

/* Line c / 8, byte 4 r + c % 4; k 0 to 3 of each eight are low nibbles, 4 to 7 high ones. */
static unsigned q4_at(unsigned r, unsigned c)
{
    return c / 8 * 64 + 4 * r + c % 4;
}

static unsigned q4_shift(unsigned c)
{
    return c & 4;
}

/* A group of a tile from codes [32 columns, 16 rows] and scales [16] */
static void store_codes(unsigned char *out, const uint8_t (*codes)[TILE_ROWS], const float *scale)
{
    memset(out, 0, Q4_LINES);
    for (unsigned c = 0; c < GROUP; c++)
        for (unsigned r = 0; r < TILE_ROWS; r++)
            out[q4_at(r, c)] |= (unsigned char)(codes[c][r] << q4_shift(c));
    for (unsigned r = 0; r < TILE_ROWS; r++)
        store_scale(out + Q4_LINES, r, scale[r]);
}

static void encode_q4(void *tile, uint64_t group, const float *w, unsigned n)
{
    unsigned char *out = (unsigned char *)tile + group * Q4_BYTES;
    (void)n;
    memset(out, 0, Q4_LINES);
    for (unsigned r = 0; r < TILE_ROWS; r++, w += GROUP) {
        float scale = store_scale(out + Q4_LINES, r, largest_of(w, GROUP) / -8);
        for (unsigned c = 0; c < GROUP; c++) {
            int q = scale != 0 ? round_into(w[c] / scale, -8, 7) : 0;
            out[q4_at(r, c)] |= (unsigned char)((unsigned)(q + 8) << q4_shift(c));
        }
    }
}

static void store_q4(void *tile, uint64_t group, const uint8_t (*codes)[TILE_ROWS],
                     const float *scale)
{
    store_codes((unsigned char *)tile + group * Q4_BYTES, codes, scale);
}

static void decode_q4(float *w, const void *tile, uint64_t group, unsigned n)
{
    const unsigned char *in = (const unsigned char *)tile + group * Q4_BYTES;
    (void)n;
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        float scale = load_scale(in + Q4_LINES, r);
        for (unsigned c = 0; c < GROUP; c++)
            w[r * GROUP + c] = (float)((in[q4_at(r, c)] >> q4_shift(c) & 15) - 8) * scale;
    }
}

/* ---- q4c: a tile's table of 16 int8, 16 zero bytes, then groups as those of q4 ---- */

/* For weights that no better table was made for: near the least squared error of normal ones with a
 * scale per 32, and of those of models, of which no tensor gains 1 % by one of its own. */
static const int8_t general[CODES] = {-127, -102, -82, -65, -49, -35, -22, -11,
                                      0,    11,   22,  35,  49,  65,  84,  107};

void format_start_tile(const struct format *f, void *tile, const int8_t *table)
{
    if (!f->head_bytes)
        return;
    memset(tile, 0, f->head_bytes);
    memcpy(tile, table ? table : general, CODES);
}

static void store_q4c(void *tile, uint64_t group, const uint8_t (*codes)[TILE_ROWS],
                      const float *scale)
{
    store_codes((unsigned char *)tile + Q4C_HEAD + group * Q4_BYTES, codes, scale);
}

/* The code whose value is nearest to x, the lowest of several */
static uint8_t nearest(const int8_t *table, float x)
{
    unsigned best = 0;
    for (unsigned i = 1; i < CODES; i++) {
        float d = (float)table[i] - x, b = (float)table[best] - x;
        if ((d < 0 ? -d : d) < (b < 0 ? -b : b))
            best = i;
    }
    return (uint8_t)best;
}

static void encode_q4c(void *tile, uint64_t group, const float *w, unsigned n)
{
    const int8_t *table = tile;
    uint8_t codes[GROUP][TILE_ROWS];
    float scales[TILE_ROWS], values[CODES];
    (void)n;
    for (unsigned i = 0; i < CODES; i++)
        values[i] = table[i];
    float top = largest_of(values, CODES);
    for (unsigned r = 0; r < TILE_ROWS; r++, w += GROUP) {
        float scale = top != 0 ? f16_to_f32(f16_of_f32(largest_of(w, GROUP) / top)) : 0;
        scales[r] = scale;
        for (unsigned c = 0; c < GROUP; c++)
            codes[c][r] = nearest(table, scale != 0 ? w[c] / scale : 0);
    }
    store_q4c(tile, group, (const uint8_t(*)[TILE_ROWS])codes, scales);
}

static void decode_q4c(float *w, const void *tile, uint64_t group, unsigned n)
{
    const unsigned char *in = (const unsigned char *)tile + Q4C_HEAD + group * Q4_BYTES;
    const int8_t *table = tile;
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        float scale = load_scale(in + Q4_LINES, r);
        for (unsigned c = 0; c < GROUP; c++) /* the value of padding need not be zero */
            w[r * GROUP + c] =
                c < n ? (float)table[in[q4_at(r, c)] >> q4_shift(c) & 15] * scale : 0;
    }
}

/* ---- the table ---- */

enum { K_float = 1, K_int = GROUP }; /* what k is padded to */
enum { IS_float = false, IS_int = true };

#define ROW(id, name, kind, bytes, head, bits, store)                    \
    [TERN_##id] = {TERN_##id, #name, K_##kind,      bytes,         head, \
                   IS_##kind, bits,  encode_##name, decode_##name, store},

static const struct format formats[N_TYPES] = {FORMATS(ROW)};

const int8_t *format_values(const struct format *f, const void *tile)
{
    static const int8_t whole[CODES] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return f->head_bytes ? tile : whole;
}

const struct format *format_find(uint64_t type)
{
    return type < N_TYPES ? &formats[type] : NULL;
}

#define BAR_IF_float(name)
#define BAR_IF_int(name) "|" #name
#define BAR_AND_QUANTIZED(id, name, kind, ...) BAR_IF_##kind(name)

const char *format_quantized_names(void)
{
    return &(FORMATS(BAR_AND_QUANTIZED))[1];
}

bool type_is_quantized(enum tern_type type)
{
    return formats[type].quantized;
}

bool format_size(const struct format *f, uint64_t rows, uint64_t k, uint64_t matrices,
                 uint64_t *bytes)
{
    uint64_t tiles, padded, n;
    return rows && k && matrices && size_round_up(rows, TILE_ROWS, &tiles) &&
           size_round_up(k, f->grain, &padded) && size_mul(padded / f->grain, f->grain_bytes, &n) &&
           size_add(n, f->head_bytes, &n) && size_mul(n, tiles / TILE_ROWS, &n) &&
           size_mul(n, matrices, bytes);
}

size_t format_tile_bytes(const struct format *f, uint64_t k)
{
    uint64_t bytes = 0;
    bool fits = format_size(f, TILE_ROWS, k, 1, &bytes);
    assert(fits);
    (void)fits;
    return (size_t)bytes;
}

static unsigned group_columns(uint64_t k, uint64_t group)
{
    uint64_t left = k - group * GROUP;
    return left < GROUP ? (unsigned)left : GROUP;
}

void format_decode_row(const struct format *f, float *y, const void *data, uint64_t row, uint64_t k)
{
    const char *tile = (const char *)data + row / TILE_ROWS * format_tile_bytes(f, k);
    float w[TILE_ROWS * GROUP];
    for (uint64_t g = 0; g * GROUP < k; g++) {
        unsigned n = group_columns(k, g);
        f->decode(w, tile, g, n);
        memcpy(y + g * GROUP, w + row % TILE_ROWS * GROUP, n * sizeof *y);
    }
}

void format_encode_matrix(const struct format *f, void *data, const float *w, uint64_t rows,
                          uint64_t k)
{
    char *tile = data;
    float group[TILE_ROWS * GROUP];
    for (uint64_t row = 0; row < rows; row += TILE_ROWS, tile += format_tile_bytes(f, k)) {
        format_start_tile(f, tile, NULL);
        for (uint64_t g = 0; g * GROUP < k; g++) {
            unsigned n = group_columns(k, g);
            memset(group, 0, sizeof group);
            for (uint64_t r = row; r < rows && r < row + TILE_ROWS; r++)
                memcpy(group + (r - row) * GROUP, w + r * k + g * GROUP, n * sizeof *w);
            f->encode(tile, g, group, n);
        }
    }
}
