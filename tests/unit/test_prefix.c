/* The store of prefixes: what is found is as long as it must be, and the logits behind it are those of
 * a fresh run, for models of each kind and any order of finding, keeping, cutting and forking. */
#include "model/prefix_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/xxh64.h"
#include "engine/context.h"
#include "golden.h"
#include "prefix_check.h"
#include "suite.h"

enum { LENGTH = 700, N_CTX = 768, N_BATCH = 100, N_SEQS = 3, N_TEXTS = 5, N_MODELS = 13 };

/* With full attention; with windows beside it, and alone; compressed; recurrent layers of each kind, alone
 * and in one layer with attention; the layer that guesses; two sets of RoPE frequencies. */
static const char *const names[N_MODELS] = {
    "llama-gqa", "gemma2",     "mistral-long", "deepseek-v2",    "lfm2",            "qwen3-next", "nemotron-h",
    "kimi-linear", "mamba2", "falcon-h1", "mtp/qwen3-next", "mtp/deepseek-v3", "phi3-long"};

static struct {
    char path[256];
    tern_model *model;
    tern_context *ctx;
    size_t vocab;
    tern_token text[N_TEXTS][N_CTX];
    uint64_t rows[N_TEXTS][LENGTH]; /* hash of the logits at each position */
} t;

/* A text begins as another one, up to a position. */
static const struct {
    size_t as, to;
} begins[N_TEXTS] = {{0, 0}, {0, 300}, {0, 512}, {1, 520}, {0, 3}};

static uint32_t state = 1;

static size_t random_below(size_t n)
{
    state ^= state << 13, state ^= state >> 17, state ^= state << 5; /* xorshift32 */
    return state % n;
}

static tern_context *open_context(uint64_t bytes, enum tern_cache_type type)
{
    struct tern_context_params p = {.n_ctx = N_CTX,
                                    .n_batch = N_BATCH,
                                    .n_seqs = N_SEQS,
                                    .cache_type = type,
                                    .prefix_bytes = bytes};
    struct tern_error e = {0};
    tern_context *c;
    ck_assert_msg(!tern_context_open(&c, t.model, &p, &e), "%s", e.text);
    return c;
}

static uint64_t hash(tern_context *c, size_t i)
{
    return xxh64(tern_logits(c, i), t.vocab * sizeof(float));
}

/* Positions from .. to - 1 of a text in batches of `chunk`; the last row of each must be right. */
static void feed(uint32_t seq, size_t text, size_t from, size_t to, size_t chunk)
{
    for (size_t at = from, end; at < to; at = end) {
        end = min_size(at + chunk, to);
        for (size_t i = at; i < end; i++)
            ck_assert(!tern_batch_add(t.ctx, seq, t.text[text][i],
                                      i + 1 == end ? TERN_ROW_LOGITS : 0, NULL));
        ck_assert(!tern_forward(t.ctx));
        ck_assert_msg(hash(t.ctx, 0) == t.rows[text][end - 1],
                      "text %zu, position %zu after %zu in chunks of %zu", text, end - 1, from,
                      chunk);
    }
}

static void open_model(int i, enum tern_cache_type type)
{
    static struct golden g;
    struct tern_error e = {0};
    struct tern_model_params p = {.n_threads = 2,
                                  .load = strncmp(names[i], "mtp/", 4) ? 0 : TERN_LOAD_MTP};
    golden_read(&g, names[i]);
    golden_write(t.path, sizeof t.path, &g, TERN_F32);
    t.vocab = g.vocab;
    for (size_t k = 0; k < N_TEXTS; k++) {
        golden_prompt(t.text[k], N_CTX, g.prompt_seed + k, g.vocab);
        memcpy(t.text[k], t.text[begins[k].as], begins[k].to * sizeof **t.text);
    }
    golden_close(&g);
    ck_assert_msg(!tern_model_open(&t.model, t.path, &p, &e), "%s", e.text);
    t.ctx = open_context(0, type);
    for (size_t k = 0; k < N_TEXTS; k++) {
        tern_seq_keep(t.ctx, 0, 0);
        for (size_t at = 0; at < LENGTH; at++) { /* one at a time: a long text has other frequencies */
            ck_assert(!tern_batch_add(t.ctx, 0, t.text[k][at], TERN_ROW_LOGITS, NULL));
            ck_assert(!tern_forward(t.ctx));
            t.rows[k][at] = hash(t.ctx, 0);
        }
    }
    tern_context_close(t.ctx);
}

static void close_model(void)
{
    tern_model_close(t.model);
    unlink(t.path);
}

/* ---- what must be found ---- */

static size_t common(size_t a, size_t b)
{
    size_t n = 0;
    while (n < N_CTX && t.text[a][n] == t.text[b][n])
        n++;
    return n;
}

static struct { /* what was kept, of each text and as ends of texts that went on no further */
    size_t length[N_TEXTS];
    size_t ends[1000][2], n_ends;
    size_t last[N_SEQS][2]; /* the end that the sequence may go on from; 0: none */
} kept;

static void note_kept(size_t seq, size_t text, size_t n)
{
    kept.length[text] = max_size(kept.length[text], n);
    kept.last[seq][0] = text, kept.last[seq][1] = n;
}

static void note_end(size_t seq)
{
    if (kept.last[seq][1] && kept.n_ends < 1000)
        memcpy(kept.ends[kept.n_ends++], kept.last[seq], sizeof kept.ends[0]);
    kept.last[seq][1] = 0;
}

/* The longest that the first n tokens of a text can find, and the least where there are states */
static size_t longest(size_t text, size_t n)
{
    size_t most = 0;
    for (size_t k = 0; k < N_TEXTS; k++)
        most = max_size(most, min_size(kept.length[k], common(k, text)));
    return min_size(most, n - 1);
}

static size_t least(size_t text, size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < kept.n_ends + N_SEQS; i++) {
        const size_t *end = i < kept.n_ends ? kept.ends[i] : kept.last[i - kept.n_ends];
        if (end[1] <= common(end[0], text) && end[1] < n)
            most = max_size(most, end[1]);
    }
    return most;
}

static size_t find(uint32_t seq, size_t text, size_t n)
{
    size_t reach = tern_prefix_reach(t.ctx, t.text[text], n);
    size_t found = tern_prefix_find(t.ctx, seq, t.text[text], n);
    ck_assert_uint_eq(found, reach);
    ck_assert_uint_lt(found, n);
    ck_assert_uint_eq(tern_seq_length(t.ctx, seq), found);
    ck_assert(!memcmp(tern_seq_tokens(t.ctx, seq), t.text[text], found * sizeof(tern_token)));
    return found;
}

/* A store with room for all: nothing that can be found is missed, and the rest is right. */
START_TEST(all_that_was_kept_is_found)
{
    open_model(_i % N_MODELS, (enum tern_cache_type)(_i / N_MODELS));
    t.ctx = open_context(64 << 20, (enum tern_cache_type)(_i / N_MODELS));
    bool states = t.ctx->cache.recurrent.state_floats, far = t.ctx->model->model->rope_limit;
    memset(&kept, 0, sizeof kept);
    state = 7 + (uint32_t)_i;
    for (int round = 0; round < golden_few(30); round++) {
        uint32_t seq = (uint32_t)random_below(N_SEQS);
        size_t text = random_below(N_TEXTS), n = 2 + random_below(LENGTH - 2), chunk;
        size_t want = longest(text, n);
        note_end(seq);
        size_t low = states ? least(text, n) : want, found = find(seq, text, n);
        if (!far)
            ck_assert_msg(found >= low && found <= want, "%zu: found %zu of %zu, want %zu to %zu",
                          text, found, n, low, want);
        for (size_t at = found; at < n; at += chunk) {
            chunk = min_size(1 + random_below(N_BATCH), n - at);
            feed(seq, text, at, at + chunk, chunk);
            tern_prefix_keep(t.ctx, seq);
            note_kept(seq, text, at + chunk);
            prefix_check(t.ctx);
        }
    }
    struct tern_prefix_info info;
    tern_prefix_info(t.ctx, &info);
    ck_assert(info.hits && info.misses && !info.evicted);
    tern_prefix_clear(t.ctx);
    prefix_check(t.ctx);
    ck_assert_uint_eq(tern_prefix_reach(t.ctx, t.text[0], LENGTH), 0);
    tern_context_close(t.ctx);
    close_model();
}
END_TEST

SUITE("prefix", LOOP(all_that_was_kept_is_found, 0, 3 * N_MODELS))
