/* What the tests of the forward pass share: a small model and a context, ids fed to it, its logits
 * kept. To be included by a suite, for it asserts with Check. */
#ifndef TESTS_FORWARD_RUN_H
#define TESTS_FORWARD_RUN_H

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "weights/weights.h"
#include "toy.h"

enum { VOCAB = 96, MAX = 600, CTX = 1024, BATCH = 64 };

struct run {
    char path[256];
    struct toy toy;
    tern_model *model;
    tern_context *ctx;
};

typedef float logits_rows[MAX][VOCAB];

static inline struct toy small_toy(void)
{
    struct toy t = toy_default();
    t.vocab = VOCAB, t.dim = 48, t.hidden = 72, t.max_seq = CTX, t.untied = 1;
    return t;
}

static inline void run_write(struct run *r, struct toy toy)
{
    struct tern_error e = {0};
    *r = (struct run){.toy = toy};
    toy_path(r->path, sizeof r->path, "forward.bin");
    ck_assert_msg(!toy_write(r->path, &toy, &e), "%s", e.text);
}

static inline void run_start(struct run *r, enum tern_cache_type type, uint32_t n_seqs)
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = 2};
    struct tern_context_params cp = {
        .n_ctx = CTX, .n_batch = BATCH, .n_seqs = n_seqs, .cache_type = type};
    ck_assert_msg(!tern_model_open(&r->model, r->path, &mp, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&r->ctx, r->model, &cp, &e), "%s", e.text);
}

static inline void run_open(struct run *r, struct toy toy, uint32_t n_seqs)
{
    run_write(r, toy);
    run_start(r, TERN_CACHE_F32, n_seqs);
}

static inline void run_close(struct run *r)
{
    tern_context_close(r->ctx);
    tern_model_close(r->model);
    remove(r->path);
}

static inline void add(const struct run *r, uint32_t seq, tern_token token, unsigned flags)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_batch_add(r->ctx, seq, token, flags, &e), "%s", e.text);
}

/* Appends ids [n] to the sequence; out[i] gets the logits after ids[i]. */
static inline void feed(const struct run *r, uint32_t seq, const tern_token *ids, size_t n,
                        logits_rows out)
{
    for (size_t at = 0; at < n; at += TERN_MAX_LOGITS) {
        size_t end = at + TERN_MAX_LOGITS < n ? at + TERN_MAX_LOGITS : n;
        for (size_t i = at; i < end; i++)
            add(r, seq, ids[i], TERN_ROW_LOGITS);
        ck_assert_int_eq(tern_forward(r->ctx), TERN_OK);
        ck_assert_uint_eq(tern_n_logits(r->ctx), end - at);
        for (size_t i = at; i < end; i++)
            memcpy(out[i], tern_logits(r->ctx, i - at), sizeof out[i]);
    }
}

/* The same from an empty sequence. */
static inline void feed_fresh(const struct run *r, const tern_token *ids, size_t n, logits_rows out)
{
    tern_seq_keep(r->ctx, 0, 0);
    feed(r, 0, ids, n, out);
}

static inline void make_ids(tern_token *ids, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (tern_token)((i * i * 7 + i * 31 + seed * 13) % VOCAB);
}

static inline int same(const float *a, const float *b)
{
    return memcmp(a, b, VOCAB * sizeof *a) == 0;
}

/* Overwrites `bytes` of a tensor from byte `offset` on. */
static inline void patch(const char *path, const char *name, size_t offset, const void *data,
                         size_t bytes)
{
    struct tern_error e = {0};
    struct weights *w = NULL;
    ck_assert_msg(!weights_open(&w, path, &e), "%s", e.text);
    const struct tensor *t = weights_find(w, name);
    ck_assert_ptr_nonnull(t);
    ck_assert_uint_le(offset + bytes, t->bytes);
    long at = (long)(t->offset + offset);
    weights_close(w);
    FILE *f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, at, SEEK_SET), 0);
    ck_assert_uint_eq(fwrite(data, 1, bytes, f), bytes);
    ck_assert_int_eq(fclose(f), 0);
}

static logits_rows one, two; /* too large for a stack */

#endif
