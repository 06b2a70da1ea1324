/* Worked examples: see tour_examples.h. page/tour_examples.js has the words. */
#include "app/look/tour_examples.h"

#include "app/look/page.h"

#include <string.h>

enum { MOST = 64 }; /* floats of an example's arrays */

struct example {
    const char *name;
    struct tern_zoo z; /* naive's; out and weights are set when it runs */
    size_t sees;       /* 0: causal. Otherwise every row sees the first `sees` keys, so the engine,
                        * which is causal, computes each row as the last of so many. */
};

/* ---- the numbers ---------------------------------------------------------------------------- */

static const float three[] = {1, 0, 0, 1, 1, 1}, three_v[] = {1, 2, 3, 0, 0, 1};
static const float identity[] = {1, 0, 0, 1};
static const float scores[] = {2, 0, 0, 1, 0, 0, 3, 0, 0}; /* keys: q . k are 2, 1, 3 */
static const float one[] = {1, 0, 0}, basis[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
static const unsigned char third[] = {0, 0, 1};
static const float heads_v[] = {1, 0, 0, 1}, ones[] = {1, 1, 1, 1};
static const float two_queries[] = {1, 0, 0, 1}, mqa_k[] = {1, 1}, mqa_v[] = {2, 2};
static const float eight[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const float near_k[] = {0.2F, 0, 0.5F, 0};

static const struct example examples[] = {
    {.name = "a",
     .z = {.n_rows = 3,
           .n_heads = 1,
           .head_dim = 2,
           .q = three,
           .k = three,
           .v = three_v,
           .scale = 1}},
    {.name = "a_scaled",
     .z = {.n_rows = 3, .n_heads = 1, .head_dim = 2, .q = three, .k = three, .v = three_v}},
    {.name = "b",
     .z = {.n_rows = 2,
           .n_heads = 1,
           .head_dim = 2,
           .q = identity,
           .k = identity,
           .v = identity,
           .bidirectional = 1},
     .sees = 2},
    {.name = "c",
     .z = {.n_rows = 1,
           .n_keys = 3,
           .n_heads = 1,
           .head_dim = 3,
           .q = one,
           .k = scores,
           .v = basis,
           .scale = 1,
           .mask = third},
     .sees = 2},
    {.name = "d",
     .z = {.n_rows = 1, .n_heads = 2, .head_dim = 2, .q = ones, .k = ones, .v = heads_v}},
    {.name = "e",
     .z = {.n_rows = 1,
           .n_heads = 2,
           .n_kv_heads = 1,
           .head_dim = 2,
           .q = two_queries,
           .k = mqa_k,
           .v = mqa_v}},
    {.name = "f",
     .z = {.n_rows = 1,
           .n_heads = 8,
           .n_kv_heads = 2,
           .head_dim = 2,
           .q = eight,
           .k = identity,
           .v = identity}},
    {.name = "wrong", /* scores 0.2 and 0.5 */
     .z = {.n_rows = 1,
           .n_keys = 2,
           .n_heads = 1,
           .head_dim = 2,
           .q = one,
           .k = near_k,
           .v = identity,
           .scale = 1}},
};

/* ---- one example ---------------------------------------------------------------------------- */

/* The engine's out: each row by itself where rows do not see what a causal row sees */
static enum tern_status run_engine(const struct example *x, float *out, struct tern_error *e)
{
    struct tern_zoo z = x->z;
    size_t width = z.n_heads * z.head_dim, rows = x->sees ? z.n_rows : 1;
    enum tern_status status = TERN_OK;
    z.out = out, z.mask = NULL, z.bidirectional = 0;
    if (x->sees)
        z.n_rows = 1, z.n_keys = x->sees;
    for (size_t i = 0; !status && i < rows; i++, z.q += width, z.out += width)
        status = tern_zoo(&z, "engine", NULL, e);
    return status;
}

static enum tern_status put_example(FILE *f, const struct example *x, struct tern_error *e)
{
    struct tern_zoo z = x->z;
    float out[MOST], weights[MOST], engine[MOST];
    size_t n_seqs = z.n_seqs ? z.n_seqs : 1, keys = z.n_keys ? z.n_keys : z.n_rows;
    size_t kv = z.n_kv_heads ? z.n_kv_heads : z.n_heads;
    size_t rows = n_seqs * z.n_rows * z.n_heads, n_kv = n_seqs * keys * kv * z.head_dim;
    z.out = out, z.weights = weights;
    enum tern_status status = tern_zoo(&z, "naive", NULL, e);
    if (!status)
        status = run_engine(x, engine, e);
    if (status)
        return status;
    fprintf(f, ",\n\"%s\":{\"sizes\":[%zu,%zu,%zu,%zu,%zu,%zu]", x->name, n_seqs, z.n_rows, keys,
            z.n_heads, kv, z.head_dim);
    page_list(f, "q", z.q, rows * z.head_dim);
    page_list(f, "k", z.k, n_kv);
    page_list(f, "v", z.v, n_kv);
    page_list(f, "weights", weights, rows * keys);
    page_list(f, "naive", out, rows * z.head_dim);
    page_list(f, "engine", engine, rows * z.head_dim);
    putc('}', f);
    return TERN_OK;
}

/* The two heads of example d, side by side, times Wo [4, 2] = 1 .. 8 */
static void put_projection(FILE *f)
{
    float wo[8], projected[2] = {0};
    for (size_t i = 0; i < 8; i++)
        wo[i] = (float)(i + 1);
    for (size_t i = 0; i < 8; i++)
        projected[i % 2] += heads_v[i / 2] * wo[i];
    page_list(f, "wo", wo, 8);
    page_list(f, "projected", projected, 2);
}

/* ---- a batch in ten steps ------------------------------------------------------------------- */

enum { SEQS = 2, ROWS = 3, DIM = 4, WIDE = 8, HEADS = 2 };

/* Two sequences of three tokens: x = 1 .. 24, projected by W [4, 8] into two heads of 4 */
static enum tern_status put_batch(FILE *f, struct tern_error *e)
{
    float x[SEQS * ROWS * DIM], w[DIM * WIDE] = {0}, q[SEQS * ROWS * WIDE] = {0};
    for (size_t i = 0; i < SEQS * ROWS * DIM; i++)
        x[i] = (float)(i + 1);
    for (size_t j = 0; j < WIDE; j++) {
        w[j] = 0.5F - 0.1F * (float)(j + 1);
        w[WIDE + j] = 0.1F * (float)(j + 1) - 0.25F;
    }
    for (size_t i = 0; i < SEQS * ROWS; i++)
        for (size_t c = 0; c < DIM; c++)
            for (size_t j = 0; j < WIDE; j++)
                q[i * WIDE + j] += x[i * DIM + c] * w[c * WIDE + j];
    page_list(f, "x", x, SEQS * ROWS * DIM);
    page_list(f, "w", w, DIM * WIDE);
    struct example batch = {.name = "g",
                            .z = {.n_seqs = SEQS,
                                  .n_rows = ROWS,
                                  .n_heads = HEADS,
                                  .head_dim = WIDE / HEADS,
                                  .q = q,
                                  .k = q,
                                  .v = q}};
    return put_example(f, &batch, e);
}

enum tern_status tour_examples_put(FILE *f, struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    fputs(",\n\"examples\":{\"none\":null", f);
    for (size_t i = 0; !status && i < sizeof examples / sizeof *examples; i++)
        status = put_example(f, &examples[i], e);
    put_projection(f);
    if (!status)
        status = put_batch(f, e);
    putc('}', f);
    return status;
}
