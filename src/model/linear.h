/* Linear maps: y = x W^T + bias over the rows of a batch. A step describes its input, prepares it
 * once (norm, quantization), and works through its share of the output in pieces that stay in a
 * cache. */
#ifndef MODEL_LINEAR_H
#define MODEL_LINEAR_H

#include <stdbool.h>

#include "base/sizes.h"
#include "model/split.h"
#include "model/state.h"

enum {
    MOST_ROWS = 272, /* rows of a batch that go through a step together, at most */
    COLUMNS = 128 /* outputs of a matrix that are finished together, where there are several rows */
};

/* The rows that a step's matrices read: src, or norm(src), quantized where a matrix wants that. */
struct input {
    const float *src; /* [n, stride] */
    size_t stride, n, k;
    const struct norm *norm; /* NULL, or one without weights: none */
    bool quantize, floats;   /* some matrix reads integers; some matrix reads f32 */
    bool round;              /* by round_row, after the norm */
    size_t layer;            /* n_layers: the head */
    uint64_t number;         /* of all inputs that were prepared, set by input_prepare */
#ifdef TERN_MPI
    bool there; /* input_gather has prepared it */
#endif
};

/* Brings the parts of src from all machines, cut so, and as the matrices read them; before input_prepare. */
#ifdef TERN_MPI
void input_gather(struct forward *f, struct input *in, struct cutting cut);
#else
static inline void input_gather(struct forward *f, struct input *in, struct cutting cut)
{
    (void)f, (void)in, (void)cut;
}
#endif

/* Prepares the rows of a batch. A single row waits for input_view. */
void input_prepare(struct forward *f, struct input *in);

/* The prepared rows; a single row is prepared here, by every thread for itself and once. */
struct activations input_view(struct forward *f, const struct input *in, int thread);

/* Before a batch is evaluated: cuts the work of few rows, which read little else but weights, finer. */
void linear_cut(struct forward *f);

/* A matrix, and where its outputs of the rows of a batch go */
struct projected {
    const struct matrix *m;
    float *to; /* [n, stride] */
    size_t stride;
};

/* Some rows of a part's matrix, which become `matrix`: from a tile to a tile, for those about them are as
 * right. All of them: the part itself */
#ifdef TERN_MPI
struct projected project_own(const struct projected *part, struct portion rows,
                             struct matrix *matrix);
#else
static inline struct projected project_own(const struct projected *part, struct portion rows,
                                           struct matrix *matrix)
{
    (void)rows, (void)matrix;
    return *part;
}
#endif

/* Prepared rows through some matrices; a part without a matrix ends the list. */
void project_rows(struct forward *f, enum operation op, const struct input *in,
                  const struct projected *parts);

/* y[i, r] = sum_c w[r, c] x[i, c] + bias[r]   for the rows r of tiles tile0 <= t < tile1 */
void linear(const struct forward *f, float *y, size_t y_stride, const struct matrix *w,
            size_t tile0, size_t tile1, const struct activations *x);

/* x [n] as the quantized columns c .. c + n - 1 of row `at` of a buffer of `rows` rows of k; c is a
 * multiple of 32. Quantizing hides what is not finite, so it is looked for here. */
void quantize_row(struct forward *f, size_t l, const struct act_buffer *to, size_t rows, size_t k,
                  size_t at, size_t c, const float *x, size_t n);

/* Rows r0 .. r0 + n - 1 of matrix number `at` of w's (0, except for experts) as a matrix; r0 is a
 * multiple of 16. */
struct matrix matrix_rows(const struct matrix *w, size_t at, size_t r0, size_t n);

/* Rows row .. row + n - 1 of the batch with their activations, and outputs begin .. end - 1 of a
 * thread's share, counted as the step counts them: in heads, tiles or groups. */
struct piece {
    size_t row, n, begin, end;
    struct activations act;
    int thread;
};

typedef void (*piece_fn)(void *arg, const struct piece *p);

/* Heads that are projected together: as few as end on a tile */
static inline size_t heads_on_tiles(size_t head_dim)
{
    size_t heads = 1;
    while (heads * head_dim % TILE_ROWS)
        heads++;
    return heads;
}

/* Items of a run over the tiles of `outputs`, for n rows: pairs of tiles for several rows, which kernels
 * take side by side (one alone takes as long as two), and tiles for one row. Items begin .. end - 1 are
 * tiles tile_first(begin) .. tile_end(end) - 1. */
static inline size_t tile_first(size_t item, size_t n)
{
    return n > 1 ? 2 * item : item;
}

static inline size_t tile_end(size_t item, size_t outputs, size_t n)
{
    return min_size(tile_first(item, n), ceil_div(outputs, TILE_ROWS));
}

static inline size_t tile_items(size_t outputs, size_t n)
{
    return ceil_div(outputs, TILE_ROWS * tile_first(1, n));
}

/* in_pieces of such items */
void in_tiles(const struct activations *act, size_t outputs, size_t begin, size_t end, piece_fn fn,
              void *arg, int thread);

/* All rows of act and outputs begin .. end - 1, piece by piece; of several rows, at most `step`
 * outputs at a time. */
void in_pieces(const struct activations *act, size_t begin, size_t end, size_t step, piece_fn fn,
               void *arg, int thread);

#endif
