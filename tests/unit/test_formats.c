/* Weight formats: conversions against exact midpoints, tiles against FORMAT.md's words, encoders
 * against a plain reference. */
#include "kernels/formats.h"
#include "suite.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* As ck_assert_msg, but quick when it holds: for the inside of long loops. */
#define HOLDS(condition, ...)          \
    do {                               \
        if (!(condition))              \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)

static uint64_t state = 1;

static float uniform(void) /* [-1, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)(state >> 40) - (1 << 23)) * 0x1p-23f;
}

/* ---- half precision ---- */

/* By definition: sign, exponent, fraction. */
static double f16_value(unsigned h)
{
    unsigned exponent = h >> 10 & 31, fraction = h & 1023;
    double m = exponent ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -m : m;
}

START_TEST(f16_reads_every_value)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float x = f16_to_f32((uint16_t)h);
        if ((h & 0x7c00) != 0x7c00)
            HOLDS((double)x == f16_value(h) && !signbit(x) == !(h & 0x8000), "%04x", h);
        else if (h & 0x3ff)
            HOLDS(isnan(x) && !signbit(x) == !(h & 0x8000), "%04x", h);
        else
            HOLDS(isinf(x) && !signbit(x) == !(h & 0x8000), "%04x", h);
    }
}
END_TEST

/* Rounding is right when it is right at, just below and just above the middle of all neighbours. */
START_TEST(f16_rounds_to_nearest_even)
{
    for (unsigned h = 0; h < 0x7bff; h++) {
        float middle = (float)((f16_value(h) + f16_value(h + 1)) / 2);
        unsigned even = h & 1 ? h + 1 : h;
        for (unsigned sign = 0; sign < 2; sign++) {
            float s = sign ? -1 : 1;
            HOLDS(f16_of_f32(s * (float)f16_value(h)) == (h | sign << 15), "%04x", h);
            HOLDS(f16_of_f32(s * middle) == (even | sign << 15), "%04x", h);
            HOLDS(f16_of_f32(s * nextafterf(middle, 0)) == (h | sign << 15), "%04x", h);
            HOLDS(f16_of_f32(s * nextafterf(middle, INFINITY)) == ((h + 1) | sign << 15), "%04x",
                  h);
        }
    }
    ck_assert_uint_eq(f16_of_f32(nextafterf(65520, 0)), 0x7bff);
    ck_assert_uint_eq(f16_of_f32(65520), 0x7c00);
    ck_assert_uint_eq(f16_of_f32(-INFINITY), 0xfc00);
    ck_assert_uint_eq(f16_of_f32(FLT_TRUE_MIN), 0);
    ck_assert_uint_eq(f16_of_f32(f32_of_bits(0x7f800001)), 0x7e00);
    ck_assert_uint_eq(f16_of_f32(f32_of_bits(0xffc02000)), 0xfe01);
}
END_TEST

START_TEST(bf16_rounds_to_nearest_even)
{
    for (unsigned h = 0; h < 0x7f80; h++) {
        uint32_t bits = h << 16;
        HOLDS(f32_bits(bf16_to_f32((uint16_t)h)) == bits, "%04x", h);
        HOLDS(bf16_of_f32(f32_of_bits(bits | 0x7fff)) == h, "%04x", h);
        HOLDS(bf16_of_f32(f32_of_bits(bits | 0x8000)) == (h & 1 ? h + 1 : h), "%04x", h);
        HOLDS(bf16_of_f32(f32_of_bits(bits | 0x8001)) == (h + 1), "%04x", h);
        HOLDS(bf16_of_f32(f32_of_bits(bits | 0x80007fff)) == (h | 0x8000), "%04x", h);
    }
    ck_assert_uint_eq(bf16_of_f32(INFINITY), 0x7f80);
    ck_assert_uint_eq(bf16_of_f32(f32_of_bits(0x7f800001)), 0x7fc0);
    ck_assert_uint_eq(bf16_of_f32(f32_of_bits(0xffffffff)), 0xffff);
}
END_TEST

/* ---- sizes ---- */

START_TEST(sizes)
{
    static const struct {
        uint64_t rows, k, matrices, bytes[N_TYPES];
    } rows[] = {
        {1, 1, 1, {64, 32, 32, 544, 288, 320}},
        {16, 32, 1, {2048, 1024, 1024, 544, 288, 320}},
        {17, 33, 3, {12672, 6336, 6336, 6528, 3456, 3648}},
        {32000, 4096, 1, {524288000, 262144000, 262144000, 139264000, 73728000, 73792000}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint64_t type = 0; type < N_TYPES; type++) {
            uint64_t bytes;
            ck_assert(
                format_size(format_find(type), rows[i].rows, rows[i].k, rows[i].matrices, &bytes));
            ck_assert_uint_eq(bytes, rows[i].bytes[type]);
        }
    ck_assert_ptr_null(format_find(N_TYPES));
    ck_assert_ptr_null(format_find(UINT64_MAX));
    for (uint64_t type = 0; type < N_TYPES; type++)
        ck_assert_uint_eq(format_find(type)->type, type);
}
END_TEST

/* Against 128-bit arithmetic, around every power of two. */
START_TEST(sizes_that_overflow)
{
    static const uint64_t more[] = {0, 1, 15, 17, 31, 33};
    for (uint64_t type = 0; type < N_TYPES; type++)
        for (int a = 0; a < 64; a++)
            for (int b = 0; b < 64; b++)
                for (size_t m = 0; m < 6; m++) {
                    const struct format *f = format_find(type);
                    uint64_t rows = (1ull << a) + more[m], k = (1ull << b) - more[m], bytes = 0;
                    unsigned __int128 tiles = ((unsigned __int128)rows + 15) / 16;
                    unsigned __int128 groups = ((unsigned __int128)k + f->grain - 1) / f->grain;
                    unsigned __int128 tile = groups * f->grain_bytes + f->head_bytes;
                    bool fits = rows && k && tiles * 16 <= UINT64_MAX &&
                                groups * f->grain <= UINT64_MAX && tile <= UINT64_MAX &&
                                tiles <= UINT64_MAX / (uint64_t)tile;
                    HOLDS(format_size(f, rows, k, 1, &bytes) == fits, "2^%d, 2^%d, %zu", a, b, m);
                    HOLDS(!fits || bytes == (uint64_t)(tiles * tile), "2^%d, 2^%d, %zu", a, b, m);
                }
    uint64_t bytes;
    ck_assert(!format_size(format_find(0), 0, 1, 1, &bytes));
    ck_assert(!format_size(format_find(0), 1, 0, 1, &bytes));
    ck_assert(!format_size(format_find(0), 1, 1, 0, &bytes));
    ck_assert(!format_size(format_find(0), 16, 1, 1ull << 58, &bytes));
    ck_assert(format_size(format_find(0), 16, 1, 1ull << 57, &bytes));
}
END_TEST

/* ---- tiles ---- */

enum { ROWS = 21, COLUMNS = 45, TILES = 2, GROUPS = 2 };

static float matrix[ROWS][COLUMNS];

static void fill_matrix(float scale)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            matrix[r][c] = uniform() * scale;
}

static unsigned char *encoded(enum tern_type type)
{
    uint64_t bytes = 0;
    format_size(format_find(type), ROWS, COLUMNS, 1, &bytes);
    unsigned char *data = malloc((size_t)bytes); /* exact: sanitizers see a write beyond */
    memset(data, 0xa5, (size_t)bytes);
    format_encode_matrix(format_find(type), data, matrix[0], ROWS, COLUMNS);
    return data;
}

static float value(int r, int c)
{
    return r < ROWS && c < COLUMNS ? matrix[r][c] : 0;
}

START_TEST(float_tiles)
{
    fill_matrix(3);
    float *f32 = (float *)encoded(TERN_F32);
    uint16_t *f16 = (uint16_t *)encoded(TERN_F16), *bf16 = (uint16_t *)encoded(TERN_BF16);
    for (int r = 0; r < 16 * TILES; r++)
        for (int c = 0; c < COLUMNS; c++) {
            int at = (r / 16 * COLUMNS + c) * 16 + r % 16;
            HOLDS(f32_bits(f32[at]) == f32_bits(value(r, c)), "[%d, %d]", r, c);
            HOLDS(f16[at] == f16_of_f32(value(r, c)), "[%d, %d]", r, c);
            HOLDS(bf16[at] == bf16_of_f32(value(r, c)), "[%d, %d]", r, c);
        }
    free(f32), free(f16), free(bf16);
}
END_TEST

/* The group of 32 that holds [r, 32 g ..], by the words of FORMAT.md. Returns the stored scale. */
static uint16_t reference_group(enum tern_type type, int r, int g, int q[32])
{
    float m = 0, largest = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(value(r, 32 * g + i)) > largest)
            largest = fabsf(m = value(r, 32 * g + i));
    uint16_t scale = f16_of_f32(type == TERN_Q8 ? largest / 127 : m / -8);
    if ((scale & 0x7fff) == 0)
        scale = 0;
    for (int i = 0; i < 32; i++) {
        float x = scale ? rintf(value(r, 32 * g + i) / f16_to_f32(scale)) : 0;
        q[i] = (int)(type == TERN_Q8 ? fmaxf(-127, fminf(x, 127)) : fmaxf(-8, fminf(x, 7)));
    }
    return scale;
}

static void check_quantized(enum tern_type type)
{
    unsigned char *data = encoded(type);
    const int block = type == TERN_Q8 ? 544 : 288, lines = block - 32;
    for (int r = 0; r < 16 * TILES; r++)
        for (int g = 0; g < GROUPS; g++) {
            const unsigned char *p = data + (r / 16 * GROUPS + g) * block;
            int q[32];
            uint16_t scale = reference_group(type, r, g, q), stored;
            memcpy(&stored, p + lines + 2 * (r % 16), 2);
            HOLDS(stored == scale, "[%d, %d]", r, g);
            for (int j = 0; type == TERN_Q8 && j < 8; j++)
                for (int i = 0; i < 4; i++)
                    HOLDS((int8_t)p[64 * j + 4 * (r % 16) + i] == q[4 * j + i], "[%d, %d]", r, g);
            for (int j = 0; type == TERN_Q4 && j < 4; j++)
                for (int i = 0; i < 4; i++) {
                    int byte = p[64 * j + 4 * (r % 16) + i];
                    HOLDS((byte & 15) - 8 == q[8 * j + i], "[%d, %d]", r, g);
                    HOLDS((byte >> 4) - 8 == q[8 * j + 4 + i], "[%d, %d]", r, g);
                }
        }
    free(data);
}

/* Ordinary, large, and so small that scales are subnormal or zero. */
static const float magnitudes[] = {1, 60000, 3e-4f, 1e-6f, 6e-8f, 1e-30f};

START_TEST(quantized_tiles)
{
    for (int n = 0; n < 20; n++) {
        fill_matrix(magnitudes[_i]);
        matrix[n][3] = -matrix[n][4]; /* ties of magnitude and of rounding */
        matrix[n][5] = matrix[n][6] / 2;
        matrix[n][7] = -0.0f;
        check_quantized(TERN_Q8);
        check_quantized(TERN_Q4);
    }
}
END_TEST

/* One row of one group, the rest zero: q and scale as FORMAT.md's encoder gives them. */
static void check_group(enum tern_type type, const float *w, size_t n, uint16_t scale, const int *q)
{
    memset(matrix, 0, sizeof matrix);
    memcpy(matrix[0], w, n * sizeof *w);
    int got[32];
    ck_assert_uint_eq(reference_group(type, 0, 0, got), scale);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(got[i], q[i]);
    check_quantized(type);
}

START_TEST(quantized_by_hand)
{
    const float ties[] = {-1, 1, 0.0625f, 0.1875f, -0.0625f, -0.1875f};
    const float first[] = {1, -1, 0.25f};
    const float eight[] = {127, -127, 0.5f, 1.5f, -0.5f, -1.5f, 63.49f};
    const float small[] = {0x1p-24f * 63, -0x1p-24f * 63, 0};
    check_group(TERN_Q4, ties, 6, 0x3000, (const int[]){-8, 7, 0, 2, 0, -2});
    check_group(TERN_Q4, first, 3, 0xb000, (const int[]){-8, 7, -2});
    check_group(TERN_Q8, eight, 7, 0x3c00, (const int[]){127, -127, 0, 2, 0, -2, 63});
    check_group(TERN_Q8, small, 3, 0, (const int[]){0, 0, 0}); /* the scale would be 2^-25.01 */
}
END_TEST

/* ---- q4c, by the words of FORMAT.md ---- */

enum { HEAD = 32, Q4C_TILE = HEAD + GROUPS * 288 };

/* The last has nothing but zeros. */
static const int8_t tables[][16] = {
    {-127, -102, -82, -65, -49, -35, -22, -11, 0, 11, 22, 35, 49, 65, 84, 107},
    {5, 90, -7, 127, 33, -33, 5, 64, -90, 12, -127, 100, 7, -60, 77, -5}, /* unsorted, no zero */
    {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},            /* of MXFP4 */
    {0},
};

/* Nearest code, the lowest of several */
static int reference_code(const int8_t *table, float x)
{
    int best = 0;
    for (int i = 1; i < 16; i++)
        if (fabsf((float)table[i] - x) < fabsf((float)table[best] - x))
            best = i;
    return best;
}

/* The tile at row 16 t of the matrix, encoded under a table */
static void encode_tile(unsigned char *tile, const int8_t *table, int t)
{
    const struct format *f = format_find(TERN_Q4C);
    memset(tile, 0xa5, Q4C_TILE);
    format_start_tile(f, tile, table);
    for (int g = 0; g < GROUPS; g++) {
        float w[16 * 32];
        for (int i = 0; i < 16 * 32; i++)
            w[i] = value(16 * t + i / 32, 32 * g + i % 32);
        f->encode(tile, (uint64_t)g, w, g ? COLUMNS - 32 : 32);
    }
}

/* Row r of group g as it lies in the tile: codes, and the scale in binary */
static uint16_t read_group(const unsigned char *tile, int r, int g, int codes[32])
{
    const unsigned char *p = tile + HEAD + g * 288;
    uint16_t scale;
    for (int k = 0; k < 32; k++) {
        int pair = p[64 * (k / 8) + 4 * r + k % 4];
        codes[k] = k % 8 < 4 ? pair & 15 : pair >> 4;
    }
    memcpy(&scale, p + 256 + 2 * r, 2);
    return scale;
}

/* Group g of row 16 t + r; top: the table's value of largest magnitude, the first of several */
static void check_q4c(const unsigned char *tile, float top, int t, int r, int g)
{
    int codes[32];
    uint16_t want = 0, scale = read_group(tile, r, g, codes);
    float m = 0;
    for (int k = 0; k < 32; k++)
        if (fabsf(value(16 * t + r, 32 * g + k)) > fabsf(m))
            m = value(16 * t + r, 32 * g + k);
    if (top != 0 && f16_of_f32(m / top) & 0x7fff)
        want = f16_of_f32(m / top);
    HOLDS(scale == want, "[%d, %d]", 16 * t + r, g);
    for (int k = 0; k < 32; k++) {
        float x = want ? value(16 * t + r, 32 * g + k) / f16_to_f32(want) : 0;
        HOLDS(codes[k] == reference_code((const int8_t *)tile, x), "[%d, %d]", 16 * t + r,
              32 * g + k);
    }
}

START_TEST(tiles_of_q4c)
{
    const int8_t *table = tables[_i];
    unsigned char tile[Q4C_TILE];
    float top = 0;
    for (int i = 0; i < 16; i++)
        top = fabsf((float)table[i]) > fabsf(top) ? (float)table[i] : top;
    for (size_t n = 0; n < TILES * sizeof magnitudes / sizeof *magnitudes; n++) {
        fill_matrix(magnitudes[n / TILES]);
        encode_tile(tile, table, n % TILES);
        ck_assert_mem_eq(tile, table, 16);
        for (int i = 16; i < HEAD; i++)
            ck_assert_int_eq(tile[i], 0);
        for (int i = 0; i < 16 * GROUPS; i++)
            check_q4c(tile, top, n % TILES, i / GROUPS, i % GROUPS);
    }
}
END_TEST

/* Decoded are table[code] * scale, and +0 for padding of k, whatever code it has. */
START_TEST(q4c_comes_back)
{
    const struct format *f = format_find(TERN_Q4C);
    const int8_t *table = tables[_i];
    uint8_t codes[32][16];
    unsigned char tile[Q4C_TILE];
    float scale[16], w[16 * 32];
    format_start_tile(f, tile, table);
    for (int i = 0; i < 16 * 32; i++)
        codes[i / 16][i % 16] = (uint8_t)((uniform() + 1) * 8);
    for (int r = 0; r < 16; r++)
        scale[r] = f16_to_f32(f16_of_f32(r ? uniform() : -0.0f));
    for (unsigned g = 0; g < GROUPS; g++) {
        unsigned n = g ? COLUMNS - 32 : 32;
        f->store(tile, g, (const uint8_t(*)[16])codes, scale);
        f->decode(w, tile, g, n);
        for (unsigned i = 0; i < 16 * 32; i++) {
            int got[32];
            float s = i / 32 ? scale[i / 32] : 0, want = (float)table[codes[i % 32][i / 32]] * s;
            uint16_t stored = read_group(tile, (int)i / 32, (int)g, got);
            ck_assert_uint_eq(stored, f16_of_f32(s)); /* -0 is stored as +0 */
            ck_assert_int_eq(got[i % 32], codes[i % 32][i / 32]);
            ck_assert_uint_eq(f32_bits(w[i]), f32_bits(i % 32 < n ? want : 0));
        }
    }
}
END_TEST

/* ---- back to numbers ---- */

START_TEST(rows_come_back)
{
    static const double step[N_TYPES] = {
        0, 0x1p-11, 0x1p-8, 0.5 / 127 * 1.01, 0.125 * 1.01, 21. / 127 * 1.01};
    fill_matrix(1);
    for (uint64_t type = 0; type < N_TYPES; type++) {
        unsigned char *data = encoded((enum tern_type)type);
        for (int r = 0; r < ROWS; r++) {
            float y[COLUMNS];
            format_decode_row(format_find(type), y, data, (uint64_t)r, COLUMNS);
            for (int c = 0; c < COLUMNS; c++)
                ck_assert_msg(fabs((double)y[c] - (double)matrix[r][c]) <= step[type],
                              "%s [%d, %d]: %g for %g", format_find(type)->name, r, c, (double)y[c],
                              (double)matrix[r][c]);
        }
        free(data);
    }
}
END_TEST

/* What was decoded is encoded to the same bytes: to quantize twice is to quantize once. */
START_TEST(encoding_again_changes_nothing)
{
    fill_matrix(1);
    for (uint64_t type = 0; type < N_TYPES; type++) {
        unsigned char *data = encoded((enum tern_type)type), *again;
        uint64_t bytes;
        for (int r = 0; r < ROWS; r++)
            format_decode_row(format_find(type), matrix[r], data, (uint64_t)r, COLUMNS);
        again = encoded((enum tern_type)type);
        ck_assert(format_size(format_find(type), ROWS, COLUMNS, 1, &bytes));
        ck_assert_int_eq(memcmp(data, again, (size_t)bytes), 0);
        free(data), free(again);
    }
}
END_TEST

SUITE("formats", TEST(f16_reads_every_value), TEST(f16_rounds_to_nearest_even),
      TEST(bf16_rounds_to_nearest_even), TEST(sizes), TEST(sizes_that_overflow), TEST(float_tiles),
      LOOP(quantized_tiles, 0, sizeof magnitudes / sizeof *magnitudes), TEST(quantized_by_hand),
      LOOP(tiles_of_q4c, 0, sizeof tables / sizeof *tables),
      LOOP(q4c_comes_back, 0, sizeof tables / sizeof *tables), TEST(rows_come_back),
      TEST(encoding_again_changes_nothing))
