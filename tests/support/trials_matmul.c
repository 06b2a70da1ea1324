/* See trials_matmul.h. */
#include "trials_matmul.h"

#include <stdio.h>

static void *take_weights(struct trial *t, enum tern_type type, size_t tiles, size_t k)
{
    const struct format *f = format_find(type);
    size_t tile = format_tile_bytes(f, k), bytes = tiles * tile;
    size_t head = f->head_bytes, block = f->grain_bytes, kind = trial_in(t, 0, TINY);
    char *w = trial_take(t, bytes);
    if (type == TERN_F32) {
        for (size_t i = 0; i < bytes / 4; i++)
            ((float *)(void *)w)[i] = trial_float(t, kind);
        return w;
    }
    if (type <= TERN_BF16) {
        trial_halves(t, (uint16_t *)(void *)w, bytes / 2, type == TERN_F16 ? 0x7c00 : 0x7f80, kind);
        return w;
    }
    size_t extreme = trial_in(t, 0, 7);
    for (size_t i = 0; i < bytes; i++)
        w[i] = extreme == 0   ? (char)-127
               : extreme == 1 ? 127
               : extreme == 2 ? -1
                              : (char)trial_rnd(t);
    for (size_t i = 0; i < bytes; i += tile) /* q4c: any table, of any bytes */
        for (size_t j = i + head; j < i + tile; j += block)
            trial_halves(t, (uint16_t *)(void *)(w + j + block - 32), 16, 0x7c00, kind);
    return w;
}

/* Quantized activations in the form that n wants; what rows beyond n hold stays NaN. */
static void take_ints(struct trial *t, struct activations *x)
{
    size_t extreme = trial_in(t, 0, 7), kind = trial_in(t, 0, TINY), groups = (x->k + 31) / 32;
    size_t padded = (groups + 15) / 16 * 16;
    int8_t *q = trial_take(t, (groups * 32 + 63) / 64 * 64);
    float *scale = trial_take(t, padded * 4);
    int32_t *sum = trial_take(t, padded * 4);
    struct octet *octets = trial_take(t, (x->n + 7) / 8 * groups * sizeof *octets);
    x->q = q, x->scale = scale, x->sum = sum, x->octets = octets;
    for (size_t i = 0; i < x->n; i++)
        for (size_t g = 0; g < groups; g++) {
            struct octet *o = &octets[octet_at(i, g, x->k)];
            int32_t total = 0;
            for (size_t c = 0; c < 32; c++) {
                int v = extreme == 0 ? -127 : extreme == 1 ? 127 : (int)trial_in(t, 0, 254) - 127;
                v = g * 32 + c < x->k ? v : 0;
                q[g * 32 + c] = o->q[c / 8][i % 8][c % 8] = (int8_t)v;
                total += v;
            }
            sum[g] = total, o->bias[i % 8] = -128 * total;
            scale[g] = o->scale[i % 8] = trial_float(t, kind);
        }
}

static void matmul_of(struct trial *t, enum tern_type type)
{
    size_t n = trial_in(t, 0, 3) ? trial_in(t, 1, 19) : 1;
    size_t k = trial_in(t, 0, 1) ? 1 + t->seed % 67 : trial_in(t, 1, 300);
    if (trial_in(t, 0, 7) == 0) /* more groups than are spread at a time, */
        k += 500;
    if (trial_in(t, 0, 7) == 0) /* and rows for which q8 is */
        n += 48;
    size_t tiles = trial_in(t, 1, 9), tile0 = trial_in(t, 0, tiles - 1);
    size_t tile1 = trial_in(t, tile0, tiles), y_stride = tiles * 16 + 16 * trial_in(t, 0, 1);
    size_t stride = (k + 15) / 16 * 16;
    snprintf(t->shape, sizeof t->shape, "n %zu k %zu tiles %zu..%zu of %zu", n, k, tile0, tile1,
             tiles);
    float *x = trial_take(t, n * stride * 4);
    size_t kind = trial_in(t, 0, N_KINDS - 1);
    struct activations a = {.n = n, .k = k, .stride = stride, .x = x};
    for (size_t i = 0; i < n * k; i++)
        x[i / k * stride + i % k] = trial_float(t, kind);
    take_ints(t, &a);
    void *w = take_weights(t, type, tiles, k);
    size_t bytes = n * y_stride * 4;
    float *got = trial_take(t, bytes), *want = trial_take(t, bytes);
    t->k.matmul[type](got, y_stride, w, tile0, tile1, &a);
    t->ref.matmul[type](want, y_stride, w, tile0, tile1, &a);
    trial_same_floats(t, "y", got, want, bytes / 4);
}

static void get_row_of(struct trial *t, enum tern_type type)
{
    size_t k = trial_in(t, 1, 200), tiles = trial_in(t, 1, 3), row = trial_in(t, 0, tiles * 16 - 1);
    snprintf(t->shape, sizeof t->shape, "k %zu row %zu", k, row);
    void *w = take_weights(t, type, tiles, k);
    float *got = trial_take(t, k * 4), *want = trial_take(t, k * 4),
          *decoded = trial_take(t, k * 4);
    t->k.get_row[type](got, w, k, row);
    t->ref.get_row[type](want, w, k, row);
    format_decode_row(format_find(type), decoded, w, row, k);
    trial_same_floats(t, "y", got, want, k);
    trial_same_floats(t, "decoded", decoded, want, k);
}

#define TRY_MATMUL(id, name, ...)           \
    void try_matmul_##name(struct trial *t) \
    {                                       \
        matmul_of(t, TERN_##id);            \
    }
FORMATS(TRY_MATMUL)

void try_get_row(struct trial *t)
{
    for (int type = 0; type < N_TYPES; type++)
        get_row_of(t, (enum tern_type)type);
}
