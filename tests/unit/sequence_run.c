#include "sequence_run.h"

#include <stdlib.h>
#include <unistd.h>

#include "golden.h"
#include "suite.h"

char seq_model_path[256], seq_path[256];
tern_model *seq_model;
struct tern_model_info seq_info;
tern_token seq_text[800];

bool seq_is_slow(void)
{
    const char *quick = getenv("QUICK");
    return quick && *quick;
}

void seq_open_path(void)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_model_open(&seq_model, seq_model_path, NULL, &e), "%s", e.text);
    tern_model_info(seq_model, &seq_info);
    golden_prompt(seq_text, sizeof seq_text / sizeof *seq_text, 5, seq_info.vocab);
    toy_path(seq_path, sizeof seq_path, "session");
}

void seq_open_golden(const char *name)
{
    static struct golden g;
    golden_read(&g, name);
    golden_write(seq_model_path, sizeof seq_model_path, &g, TERN_F32);
    golden_close(&g);
    seq_open_path();
}

struct toy seq_small_toy(void)
{
    struct toy toy = toy_default();
    toy.n_layers = 2, toy.dim = 32, toy.n_heads = 1, toy.n_kv_heads = 1, toy.head_dim = 2;
    toy.hidden = 16, toy.vocab = 40, toy.max_seq = 700, toy.window[1] = 20;
    return toy;
}

void seq_open_toy(const struct toy *toy)
{
    struct tern_error e = {0};
    toy_path(seq_model_path, sizeof seq_model_path, "session.bin");
    ck_assert_msg(!toy_write(seq_model_path, toy, &e), "%s", e.text);
    seq_open_path();
}

void seq_close(void)
{
    tern_model_close(seq_model);
    unlink(seq_model_path);
    unlink(seq_path);
}

tern_context *seq_context(uint32_t n_ctx, uint32_t n_batch, enum tern_cache_type type)
{
    struct tern_error e = {0};
    struct tern_context_params p = {
        .n_ctx = n_ctx, .n_batch = n_batch, .n_seqs = 2, .cache_type = type, .fingerprint = 1};
    tern_context *ctx = NULL;
    ck_assert_msg(!tern_context_open(&ctx, seq_model, &p, &e), "%s", e.text);
    return ctx;
}

void seq_feed(tern_context *ctx, const tern_token *tokens, size_t from, size_t to, bool logits)
{
    struct tern_memory plan;
    size_t n = 0;
    tern_context_memory(ctx, &plan);
    for (size_t i = from; i < to; i++) {
        ck_assert(!tern_batch_add(ctx, 0, tokens[i], logits ? TERN_ROW_LOGITS : 0, NULL));
        if (++n == plan.n_batch || n == TERN_DEFAULT_LOGITS || i + 1 == to)
            n = 0, ck_assert(!tern_forward(ctx));
    }
}

uint64_t seq_mark(tern_context *ctx, const tern_token *tokens, size_t from, size_t to)
{
    tern_fingerprint_begin(ctx);
    seq_feed(ctx, tokens, from, to, true);
    return tern_fingerprint(ctx, NULL);
}

uint64_t seq_fresh_mark(enum tern_cache_type type, const tern_token *tokens, size_t from, size_t to)
{
    tern_context *ctx = seq_context((uint32_t)to, 64, type);
    seq_feed(ctx, tokens, 0, from, false);
    uint64_t hash = seq_mark(ctx, tokens, from, to);
    tern_context_close(ctx);
    return hash;
}
