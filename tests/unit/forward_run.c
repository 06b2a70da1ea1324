/* See forward_run.h. */
#include "forward_run.h"

#include <stdio.h>
#include <string.h>

#include "suite.h"
#include "weights/weights.h"

struct toy run_toy(void)
{
    struct toy t = toy_default();
    t.vocab = VOCAB, t.dim = 48, t.hidden = 72, t.max_seq = CTX, t.untied = 1;
    return t;
}

void run_write(struct run *r, struct toy toy)
{
    struct tern_error e = {0};
    *r = (struct run){.toy = toy};
    toy_path(r->path, sizeof r->path, "forward.bin");
    ck_assert_msg(!toy_write(r->path, &toy, &e), "%s", e.text);
}

void run_start(struct run *r, enum tern_cache_type type, uint32_t n_seqs)
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = 2};
    struct tern_context_params cp = {
        .n_ctx = CTX, .n_batch = BATCH, .n_seqs = n_seqs, .cache_type = type};
    ck_assert_msg(!tern_model_open(&r->model, r->path, &mp, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&r->ctx, r->model, &cp, &e), "%s", e.text);
}

void run_open(struct run *r, struct toy toy, uint32_t n_seqs)
{
    run_write(r, toy);
    run_start(r, TERN_CACHE_F32, n_seqs);
}

void run_close(struct run *r)
{
    tern_context_close(r->ctx);
    tern_model_close(r->model);
    remove(r->path);
}

void run_add(const struct run *r, uint32_t seq, tern_token token, unsigned flags)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_batch_add(r->ctx, seq, token, flags, &e), "%s", e.text);
}

void run_feed(const struct run *r, uint32_t seq, const tern_token *ids, size_t n, logits_rows out)
{
    for (size_t at = 0; at < n; at += TERN_DEFAULT_LOGITS) {
        size_t end = at + TERN_DEFAULT_LOGITS < n ? at + TERN_DEFAULT_LOGITS : n;
        for (size_t i = at; i < end; i++)
            run_add(r, seq, ids[i], TERN_ROW_LOGITS);
        ck_assert_int_eq(tern_forward(r->ctx), TERN_OK);
        ck_assert_uint_eq(tern_n_logits(r->ctx), end - at);
        for (size_t i = at; i < end; i++)
            memcpy(out[i], tern_logits(r->ctx, i - at), sizeof out[i]);
    }
}

void run_feed_fresh(const struct run *r, const tern_token *ids, size_t n, logits_rows out)
{
    tern_seq_keep(r->ctx, 0, 0);
    run_feed(r, 0, ids, n, out);
}

void run_ids(tern_token *ids, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (tern_token)((i * i * 7 + i * 31 + seed * 13) % VOCAB);
}

int run_same(const float *a, const float *b)
{
    return memcmp(a, b, VOCAB * sizeof *a) == 0;
}

void run_patch(const char *path, const char *name, size_t offset, const void *data, size_t bytes)
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
