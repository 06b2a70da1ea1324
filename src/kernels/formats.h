/* The weight formats: numbers in, tiles out, and back. This table alone knows how a format lies in
 * memory (drawn in src/weights/FORMAT.md, "Tiles"); its encoders and decoders are the definition,
 * and kernels are compared with them.
 *
 * A matrix [rows, k] is cut into tiles of 16 rows; a tile into groups of 32 k. Encoders and
 * decoders work on one group at a time, as plain f32 w [16, 32], row-major.
 *
 * ADDING A FORMAT:
 * - its number in enum tern_type (tern.h), and its row in FORMATS, below
 * - formats.c: encode_<name> and decode_<name>, and store_<name> where codes are searched for
 * - ref.c: line_<name> (a float format) or value_<name> (an integer format): its definition
 * - known_answers.c: its two rows; `prog_kernels --known` prints the constants
 * - src/weights/FORMAT.md, and in tools/tern its reader, its writer and the bounds of verify.py
 * - when plain C is too slow: its slots in simd_float.h or simd_int.h
 * - the man pages of bench and quantize; a test holds them to FORMATS
 * Names, sizes, slots and trials of the kernels follow from the row. */
#ifndef KERNELS_FORMATS_H
#define KERNELS_FORMATS_H

#include "base/bytes.h"
#include "tern.h"

enum {
    TILE_ROWS = 16, /* rows of a tile */
    GROUP = 32,     /* k that share a scale: of a row of weights, and of activations */
    CODES = 16      /* values of a table of q4c */
};

/* Bytes: the lines of a group of a tile, before its scales; that group; what is before the groups.
 */
enum { Q8_LINES = 512, Q8_BYTES = 544, Q4_LINES = 256, Q4_BYTES = 288, Q4C_HEAD = 32 };

/* One row per format, in the order of enum tern_type:
 *   id, name   TERN_<id>, and what programs and files call it
 *   kind       float: k is not padded, activations are f32; int: k is padded to groups, activations
 *              are quantized
 *   bytes      of a tile's `k`, which is 1 for float and 32 for int
 *   head       bytes of a tile before its groups
 *   bits       a weight, scales included
 *   store      for an encoder that searches for codes (see struct format), or NULL */
#define FORMATS(FORMAT)                             \
    FORMAT(F32, f32, float, 64, 0, 32, NULL)        \
    FORMAT(F16, f16, float, 32, 0, 16, NULL)        \
    FORMAT(BF16, bf16, float, 32, 0, 16, NULL)      \
    FORMAT(Q8, q8, int, Q8_BYTES, 0, 8.5, NULL)     \
    FORMAT(Q4, q4, int, Q4_BYTES, 0, 4.5, store_q4) \
    FORMAT(Q4C, q4c, int, Q4_BYTES, Q4C_HEAD, 4.5, store_q4c)

#define COUNT_FORMAT(id, name, ...) +1
enum { N_TYPES = FORMATS(COUNT_FORMAT) };

struct format {
    enum tern_type type;
    const char *name;
    unsigned grain;       /* k is padded to a multiple of it: 32 for quantized types, else 1 */
    unsigned grain_bytes; /* of one tile's `grain` k: f32 64, f16, bf16 32, q8 544, q4, q4c 288 */
    unsigned head_bytes;  /* of a tile, before its groups: q4c 32, else 0 */
    bool quantized;       /* kind int */
    double bits;          /* a weight, scales included */

    /* Group number `group` of a tile from w [16, 32]; only its first n k are there (n < 32 in the
     * last group of a tile), the rest of w is zero. Finite w only. The tile's head is there. */
    void (*encode)(void *tile, uint64_t group, const float *w, unsigned n);

    /* w [16, 32] from group number `group` of a tile; k from n on are padding: zero. */
    void (*decode)(float *w, const void *tile, uint64_t group, unsigned n);

    /* Group number `group` of a tile from codes [32 columns, 16 rows] below 16 and scales [16], for
     * an encoder that searches for them; NULL: a format without codes. */
    void (*store)(void *tile, uint64_t group, const uint8_t (*codes)[TILE_ROWS],
                  const float *scale);
};

/* The format of a type id as it stands in a file, or NULL when unknown. */
const struct format *format_find(uint64_t type);

/* The quantized formats, which `quantize` makes: "q8|q4|q4c". */
const char *format_quantized_names(void);

/* True when matmul of this type reads q, scale and sum rather than x. */
bool type_is_quantized(enum tern_type type);

/* Bytes of one tile of `k`, and of a whole tensor. Only for shapes that format_size accepted. */
size_t format_tile_bytes(const struct format *f, uint64_t k);

/* *bytes = the size of a tensor of any shape, even from a file; false when it does not fit a u64
 * or a dimension is zero. */
bool format_size(const struct format *f, uint64_t rows, uint64_t k, uint64_t matrices,
                 uint64_t *bytes);

/* y [k] = row `row` of the matrix at `data`. */
void format_decode_row(const struct format *f, float *y, const void *data, uint64_t row,
                       uint64_t k);

/* The tensor at `data` (format_size bytes) from w [rows, k], row-major. For tests and small jobs.
 */
void format_encode_matrix(const struct format *f, void *data, const float *w, uint64_t rows,
                          uint64_t k);

/* What the codes of a tile stand for [CODES]; only for formats that have codes. */
const int8_t *format_values(const struct format *f, const void *tile);

/* The head of a tile: nothing, or q4c's table [CODES], in [-127, 127]; NULL: a general one. */
void format_start_tile(const struct format *f, void *tile, const int8_t *table);

/* ---- half precision: IEEE binary16 and bfloat16, round to nearest even, with subnormals.
 * Overflow gives infinity; a NaN stays one, made quiet, as processors do it. */

static inline uint32_t f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float f32_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest < 0x0400) /* zero or subnormal: rest * 2^-24, exact */
        return f32_of_bits(sign | f32_bits((float)rest * 0x1p-24f));
    if (rest > 0x7c00)
        return f32_of_bits(sign | 0x7fc00000 | rest << 13);
    if (rest == 0x7c00)
        return f32_of_bits(sign | 0x7f800000);
    return f32_of_bits(sign | ((rest << 13) + ((127 - 15) << 23)));
}

static inline uint16_t f16_of_f32(float x)
{
    uint32_t u = f32_bits(x), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) /* below 2^-14: the sum's last bit is 2^-24, so the adder rounds */
        return (uint16_t)(sign | (f32_bits(f32_of_bits(rest) + 0.5f) - 0x3f000000));
    rest += 0x0fff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest - ((127 - 15) << 23)) >> 13));
}

static inline float bf16_to_f32(uint16_t b)
{
    return f32_of_bits((uint32_t)b << 16);
}

static inline uint16_t bf16_of_f32(float x)
{
    uint32_t u = f32_bits(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#endif
