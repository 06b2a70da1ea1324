/* Attention is cut up in many ways: strips of rows, items or parts of blocks, heads together or one
 * by one, blocks widened or not. All give the bits of single rows, for heads of every shape.
 * test_golden.c holds those to plain.c. */
#include "golden.h"
#include "suite.h"
#include "tern_lab.h"
#include "toy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB = 24, LENGTH = 532, LAST = 20, CTX = 560 }; /* the last rows are compared */

/* Query heads, KV heads, dims of a head, window of the first layer. */
static const struct {
    uint64_t n_heads, n_kv_heads, head_dim, window;
    enum tern_cache_type type;
} shapes[] = {
    {4, 4, 8, 0, TERN_CACHE_F16},     /* narrow: four KV heads together */
    {6, 3, 16, 0, TERN_CACHE_F16},    /* three */
    {2, 2, 8, 0, TERN_CACHE_F16},     /* two */
    {10, 2, 16, 40, TERN_CACHE_F16},  /* two, but for so many queries */
    {34, 2, 4, 0, TERN_CACHE_F16},    /* more than are scored at once in each of two */
    {129, 1, 64, 40, TERN_CACHE_F16}, /* one row a strip */
    {2, 2, 17, 0, TERN_CACHE_F16},    /* not narrow */
    {2, 1, 40, 300, TERN_CACHE_Q8},   /* not a multiple of 32 */
    {17, 1, 4, 0, TERN_CACHE_Q8},     /* more queries than are scored at once */
    {17, 1, 4, 0, TERN_CACHE_F32},    {1, 1, 300, 0, TERN_CACHE_F16}, /* few rows a strip */
};

/* First LENGTH - LAST rows in steps of `chunk`, then the others in steps of `last`. Strips of 512 rows
 * fill the memory that they have. */
static const struct way {
    int n_threads;
    size_t chunk, last, n_batch;
} ways[] = {{1, 16, 1, 512},  {1, 512, 20, 512}, {1, 256, 2, 512}, {2, 512, 1, 512},
            {3, 255, 3, 512}, {5, 7, 4, 16},     {3, 1, 1, 1}};
enum { OF_THREADS = 3 }; /* the first of those with several */

static char path[256];
static float want[2 * LAST][VOCAB], got[2 * LAST][VOCAB];

static void feed(tern_context *c, uint32_t seq, size_t from, size_t to, size_t step,
                 float (*rows)[VOCAB])
{
    for (size_t at = from; at < to; at += step) {
        size_t end = at + step < to ? at + step : to;
        for (size_t i = at; i < end; i++)
            ck_assert(!tern_batch_add(c, seq, (tern_token)(i * i * 7 % VOCAB),
                                      rows ? TERN_ROW_LOGITS : 0, NULL));
        ck_assert(!tern_forward(c));
        for (size_t i = at; rows && i < end; i++)
            memcpy(rows[i - from], tern_logits(c, i - at), sizeof *rows);
    }
}

/* Rows of one sequence, and then of one that begins like it, a little behind, among its rows. */
static void run(const struct way *w, enum tern_cache_type type, float (*rows)[VOCAB])
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = w->n_threads};
    struct tern_context_params cp = {
        .n_ctx = CTX, .n_batch = (uint32_t)w->n_batch, .n_seqs = 2, .cache_type = type};
    tern_model *m;
    tern_context *c;
    ck_assert_msg(!tern_model_open(&m, path, &mp, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&c, m, &cp, &e), "%s", e.text);
    feed(c, 0, 0, LENGTH - LAST, w->chunk, NULL);
    ck_assert_uint_eq(tern_seq_fork(c, 0, 1, LENGTH - LAST), LENGTH - LAST);
    if (w->n_batch > 1) { /* a batch of two strips, which leaves nothing */
        for (uint32_t seq = 0; seq < 2; seq++)
            ck_assert(!tern_batch_add(c, seq, 0, 0, NULL));
        ck_assert(!tern_forward(c));
        for (uint32_t seq = 0; seq < 2; seq++)
            tern_seq_keep(c, seq, LENGTH - LAST);
    }
    feed(c, 0, LENGTH - LAST, LENGTH, w->last, rows);
    tern_seq_keep(c, 0, LENGTH - LAST);
    size_t at_once = w->n_batch < 8 ? 1 : 8;
    for (size_t i = 0; i < LAST; i += 4) /* 4 rows of each sequence, in a batch if it has room */
        for (size_t k = 0; k < 8; k++) {
            uint32_t seq = k / 4;
            ck_assert(!tern_batch_add(c, seq, (tern_token)((i + k % 4 * (1 + seq)) % VOCAB),
                                      TERN_ROW_LOGITS, NULL));
            if ((k + 1) % at_once)
                continue;
            ck_assert(!tern_forward(c));
            for (size_t j = 0; j < at_once; j++) {
                size_t row = k + 1 - at_once + j;
                if (row / 4 == i / 4 % 2)
                    memcpy(rows[LAST + i + row % 4], tern_logits(c, j), sizeof *rows);
            }
        }
    tern_context_close(c);
    tern_model_close(m);
}

START_TEST(every_way_gives_the_same_bits)
{
    struct tern_error e = {0};
    enum tern_cache_type type = shapes[_i].type;
    struct toy t = toy_default();
    t.n_heads = shapes[_i].n_heads, t.n_kv_heads = shapes[_i].n_kv_heads;
    t.head_dim = shapes[_i].head_dim, t.window[0] = shapes[_i].window;
    t.dim = 16, t.hidden = 16, t.vocab = VOCAB, t.max_seq = CTX;
    toy_path(path, sizeof path, "ways.bin");
    ck_assert_msg(!toy_write(path, &t, &e), "%s", e.text);
    if (golden_is_threaded()) { /* what counts there is how threads meet */
        run(&ways[OF_THREADS + _i % 4], type, got);
        unlink(path);
        return;
    }
    run(&ways[0], type, want);
    for (size_t i = 1; i < sizeof ways / sizeof *ways; i++) {
        if (golden_is_quick() && (i + (size_t)_i) % 3) /* each way comes up with some shapes */
            continue;
        run(&ways[i], type, got);
        ck_assert_msg(!memcmp(got, want, sizeof got), "way %zu", i);
    }
    unlink(path);
}
END_TEST

SUITE("attention_ways", LOOP(every_way_gives_the_same_bits, 0, sizeof shapes / sizeof *shapes))
