/* The layer that guesses: its logits against the published definition, which tools/golden.py recorded
 * from torch; the same bits from plain.c, from every chunk, cut and fork; and text that stays the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/context.h"
#include "golden.h"
#include "model/mtp.h"
#include "suite.h"

enum { MAX_PROMPT = 600, BATCH = 100, N_DRAFTS = 4 };

static const char *const drafts[N_DRAFTS] = {"mtp/glm4-moe", "mtp/qwen3-next", "mtp/deepseek-v3", "mtp/qwen35"};
static const double bound = 1e-4;

struct subject {
    struct golden golden;
    char path[256];
    tern_model *model;
    tern_context *ctx;
    tern_token ids[MAX_PROMPT];
};

static void subject_write(struct subject *s, const char *name, enum tern_type type)
{
    golden_read(&s->golden, name);
    golden_write(s->path, sizeof s->path, &s->golden, type);
    golden_prompt(s->ids, MAX_PROMPT, s->golden.prompt_seed, s->golden.vocab);
}

static void subject_start(struct subject *s, const char *cpu, int n_threads,
                          enum tern_cache_type type)
{
    struct tern_error e = {0};
    struct tern_model_params how = {.cpu = cpu, .n_threads = n_threads, .load = TERN_LOAD_MTP};
    struct tern_context_params params = {
        .cache_type = type, .n_ctx = MAX_PROMPT + 8, .n_batch = BATCH, .n_seqs = 2, .fingerprint = 1};
    ck_assert_msg(!tern_model_open(&s->model, s->path, &how, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&s->ctx, s->model, &params, &e), "%s", e.text);
}

static void subject_stop(struct subject *s)
{
    struct tern_error e = {0};
    ck_assert_int_eq(tern_numeric_status(s->ctx, &e), TERN_OK);
    tern_context_close(s->ctx);
    tern_model_close(s->model);
}

static void subject_remove(struct subject *s)
{
    golden_close(&s->golden);
    remove(s->path);
}

/* Evaluates ids[length ..  to) in batches of at most `chunk`. */
static void feed(struct subject *s, uint32_t seq, size_t to, size_t chunk)
{
    for (size_t i = tern_seq_length(s->ctx, seq), end; i < to; i = end) {
        end = to - i < chunk ? to : i + chunk;
        for (; i < end; i++)
            ck_assert_int_eq(tern_batch_add(s->ctx, seq, s->ids[i], 0, NULL), TERN_OK);
        ck_assert_int_eq(tern_forward(s->ctx), TERN_OK);
    }
}

/* The logits of the layer's row for `token`, after the sequence and `ahead` guesses */
static const float *row(struct subject *s, uint32_t seq, tern_token token, size_t ahead)
{
    struct forward *f = &s->ctx->forward;
    cache_extend(f->cache, seq, ahead + 1);
    ck_assert(mtp_row(f, seq, token, ahead));
    if (!ahead)
        cache_commit(f->cache, seq, 0);
    return f->logits;
}

START_TEST(test_published_definition)
{
    static struct subject s;
    double worst = 0;
    subject_write(&s, drafts[_i], TERN_F32);
    subject_start(&s, NULL, 2, TERN_CACHE_F32);
    const struct golden *g = &s.golden;
    size_t last = g->n_prompt - 1;
    for (size_t r = 0; r < g->n_rows; r++) {
        size_t at = g->at[r], ahead = at > last ? at - last : 0;
        const float *logits = NULL;
        feed(&s, 0, ahead ? last : at, 5);
        for (size_t i = 0; i <= ahead; i++)
            logits = row(&s, 0, i ? (tern_token)g->greedy[i - 1] : s.ids[ahead ? last : at], i);
        double d = golden_distance(logits, g->row[r], g->vocab);
        ck_assert_msg(d <= bound, "%s: position %zu is off by %g", g->name, at, d);
        worst = d > worst ? d : worst;
    }
    printf("%-16s guesses within %.2g of the published definition\n", g->name, worst);
    tern_token guess[3];
    size_t made;
    ck_assert_uint_eq(context_guess(s.ctx, 0, s.ids[last], 3, 0, guess, &made), 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(guess[i], (int)g->greedy[i]);
    subject_stop(&s);
    subject_remove(&s);
}
END_TEST

static uint64_t hash_row(struct subject *s, uint32_t seq, size_t at)
{
    struct xxh64 hash;
    xxh64_init(&hash, 0);
    for (size_t i = 0; i < 3; i++)
        xxh64_update(&hash, row(s, seq, s->ids[at + i], i), s->golden.vocab * sizeof(float));
    cache_commit(&s->ctx->cache, seq, 0);
    return xxh64_digest(&hash);
}

START_TEST(test_plain_defines_it)
{
    static struct subject s;
    static const enum tern_type types[] = {TERN_F32, TERN_Q8};
    uint64_t hash[2];
    for (int i = 0; i < golden_few(6); i++) {
        subject_write(&s, drafts[_i], types[i % 2]);
        for (int plain = 0; plain < 2; plain++) {
            subject_start(&s, plain ? "plain" : NULL, plain ? 1 : 2, (enum tern_cache_type)(i % 3));
            feed(&s, 0, 280, BATCH);
            feed(&s, 0, 290, 1);
            hash[plain] = hash_row(&s, 0, 290);
            subject_stop(&s);
        }
        ck_assert_msg(hash[0] == hash[1], "%s %d", drafts[_i], i);
        subject_remove(&s);
    }
}
END_TEST

/* Chunks, rows taken back, forks and pages do not show, while the newest states are at hand. */
START_TEST(test_ways_to_a_text)
{
    static struct subject s;
    static const size_t chunks[] = {BATCH, 1, 7, 33, 40};
    enum { N = 530 };
    uint64_t want = 0;
    subject_write(&s, drafts[_i], TERN_Q8);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        subject_start(&s, NULL, 1 + i % 2, TERN_CACHE_F16);
        feed(&s, 0, N, chunks[i]);
        want = i ? want : hash_row(&s, 0, N);
        ck_assert_uint_eq(hash_row(&s, 0, N), want);
        tern_token other = s.ids[N];
        s.ids[N] = (tern_token)((s.ids[N] + 1) % s.golden.vocab);
        feed(&s, 0, N + 30, chunks[i]);
        s.ids[N] = other;
        ck_assert_uint_eq(tern_seq_fork(s.ctx, 0, 1, N), N);
        ck_assert_uint_eq(tern_seq_keep(s.ctx, 0, N), N);
        ck_assert_uint_eq(hash_row(&s, 0, N), want);
        ck_assert_uint_eq(hash_row(&s, 1, N), want);
        feed(&s, 1, N + 40, chunks[i]);
        ck_assert_uint_eq(tern_seq_keep(s.ctx, 1, N), N);
        ck_assert_uint_eq(hash_row(&s, 1, N), want);
        subject_stop(&s);
    }
    subject_remove(&s);
}
END_TEST

/* A cut further back costs one weak row, and leaves a context that still guesses. */
START_TEST(test_far_cut)
{
    static struct subject s;
    tern_token guess[4];
    size_t made;
    subject_write(&s, drafts[_i], TERN_Q8);
    subject_start(&s, NULL, 2, TERN_CACHE_F16);
    ck_assert_uint_eq(context_guess(s.ctx, 0, s.ids[0], 4, 0, guess, &made), 0);
    feed(&s, 0, 1, 1);
    ck_assert_uint_eq(context_guess(s.ctx, 0, s.ids[1], 4, 0, guess, &made), 4);
    feed(&s, 0, 500, BATCH);
    uint32_t left = tern_seq_keep(s.ctx, 0, 200);
    ck_assert_uint_le(left, 200);
    ck_assert_uint_eq(context_guess(s.ctx, 0, s.ids[left], 4, 0, guess, &made), 0);
    feed(&s, 0, left + 1, 1);
    ck_assert_uint_eq(context_guess(s.ctx, 0, s.ids[left + 1], 4, 0, guess, &made), 4);
    ck_assert_uint_eq(tern_seq_length(s.ctx, 0), left + 1);
    subject_stop(&s);
    subject_remove(&s);
}
END_TEST

static uint64_t hash_file(const char *path)
{
    static char bytes[8 << 20];
    FILE *f = fopen(path, "rb");
    ck_assert(f != NULL);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    ck_assert_uint_lt(n, sizeof bytes);
    return xxh64(bytes, n);
}

/* A session holds the rows, whoever reads it; one saved without them gives none. */
START_TEST(test_sessions)
{
    static struct subject s;
    struct tern_error e = {0};
    char with[256], without[256], again[256];
    enum { N = 300 };
    uint64_t want;
    toy_path(with, sizeof with, "with.session");
    toy_path(without, sizeof without, "without.session");
    toy_path(again, sizeof again, "again.session");
    subject_write(&s, drafts[_i], TERN_Q8);
    for (int late = 0; late < 2; late++) {
        subject_start(&s, NULL, 1, TERN_CACHE_F16);
        feed(&s, 0, N, late ? 7 : BATCH);
        ck_assert_msg(!tern_session_save(s.ctx, 0, with, &e), "%s", e.text);
        hidden_refill(&s.ctx->cache.hidden, 0, N, 1); /* as after loading */
        feed(&s, 0, N + 3, 1);
        want = hash_row(&s, 0, N + 3);
        subject_stop(&s);

        subject_start(&s, NULL, 1, TERN_CACHE_F16);
        feed(&s, 1, 100, BATCH); /* pages that were another's */
        tern_seq_keep(s.ctx, 1, 0);
        ck_assert_msg(!tern_session_load(s.ctx, 0, with, &e), "%s", e.text);
        ck_assert_int_eq(tern_session_save(s.ctx, 0, again, &e), TERN_OK);
        ck_assert_uint_eq(hash_file(again), hash_file(with));
        feed(&s, 0, N + 3, 1);
        ck_assert_uint_eq(hash_row(&s, 0, N + 3), want);
        subject_stop(&s);
    }
    s.model = NULL;
    ck_assert_int_eq(tern_model_open(&s.model, s.path, NULL, &e), TERN_OK);
    ck_assert_int_eq(tern_context_open(&s.ctx, s.model, NULL, &e), TERN_OK);
    ck_assert_msg(!tern_session_load(s.ctx, 0, with, &e), "%s", e.text);
    ck_assert_uint_eq(tern_seq_length(s.ctx, 0), N);
    ck_assert_int_eq(tern_session_save(s.ctx, 0, without, &e), TERN_OK);
    subject_stop(&s);

    tern_token guess[4];
    size_t made;
    subject_start(&s, NULL, 1, TERN_CACHE_F16);
    ck_assert_msg(!tern_session_load(s.ctx, 0, without, &e), "%s", e.text);
    feed(&s, 0, N + 1, 1);
    ck_assert_uint_eq(context_guess(s.ctx, 0, s.ids[N + 1], 4, 0, guess, &made), 4);
    subject_stop(&s);
    subject_remove(&s);
    remove(with), remove(without), remove(again);
}
END_TEST

static uint64_t text_of(struct subject *s, uint32_t mtp, float temperature, size_t *steps)
{
    struct tern_error e = {0};
    struct tern_sampler_params sampler = tern_sampler_defaults(s->model);
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_generate_result result;
    sampler.temperature = temperature, sampler.seed = 7;
    p.tokens = s->ids, p.n_tokens = 60, p.n_predict = 150, p.ignore_end = 1;
    p.sampler = &sampler, p.mtp = mtp;
    ck_assert_msg(!tern_generate(s->ctx, &p, &result, &e), "%s", e.text);
    ck_assert_uint_eq(result.n_generated, 150);
    *steps = result.n_drafted;
    return tern_fingerprint(s->ctx, NULL);
}

START_TEST(test_text_stays)
{
    static struct subject s;
    size_t tried = 0, none = 0;
    subject_write(&s, drafts[_i], TERN_Q8);
    for (int hot = 0; hot < 2; hot++) {
        subject_start(&s, NULL, 2, TERN_CACHE_F16);
        uint64_t want = text_of(&s, 0, hot, &none);
        subject_stop(&s);
        subject_start(&s, NULL, 1, TERN_CACHE_F16);
        ck_assert_uint_eq(text_of(&s, 8, hot, &tried), want);
        ck_assert_uint_eq(none, 0);
        subject_stop(&s);
    }
    subject_remove(&s);
}
END_TEST

/* The plan counts the layer's part of the cache, and the hidden states. */
START_TEST(test_plan)
{
    static struct subject s;
    struct tern_error e = {0};
    struct tern_memory plan[2];
    const struct tern_context_params params = {.n_ctx = 1024, .n_batch = 16, .n_seqs = 2};
    subject_write(&s, drafts[0], TERN_F32);
    for (unsigned mtp = 0; mtp < 2; mtp++) {
        struct tern_model_params how = {.load = mtp ? TERN_LOAD_MTP : 0};
        ck_assert_msg(!tern_model_open(&s.model, s.path, &how, &e), "%s", e.text);
        ck_assert_msg(!tern_context_plan(s.model, &params, &plan[mtp], &e), "%s", e.text);
        if (!mtp)
            tern_model_close(s.model);
    }
    const struct model *m = s.model->model;
    const struct layer *w = &m->layers[m->n_layers];
    uint64_t states = 2 * HIDDEN_RING * m->dim * sizeof(float);
    uint64_t keys = 2 * 1024 * 2 * w->n_kv_heads * w->head_dim * 2; /* f16 */
    uint64_t more = plan[1].cache - plan[0].cache;
    ck_assert_uint_ge(more, states + keys);
    ck_assert_uint_le(more, states + 2 * keys); /* whole pages, and those of a batch */
    ck_assert_uint_gt(plan[1].batch, plan[0].batch);
    tern_model_close(s.model);
    subject_remove(&s);
}
END_TEST

START_TEST(test_without)
{
    static struct subject s;
    struct tern_error e = {0};
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_model_params how = {.load = TERN_LOAD_MTP};
    char path[256];
    subject_write(&s, drafts[0], TERN_F32);
    ck_assert_int_eq(tern_model_open(&s.model, s.path, NULL, &e), TERN_OK);
    ck_assert_int_eq(tern_context_open(&s.ctx, s.model, NULL, &e), TERN_OK);
    p.tokens = s.ids, p.n_tokens = 4, p.mtp = 1;
    ck_assert_int_eq(tern_generate(s.ctx, &p, NULL, &e), TERN_USAGE);
    subject_stop(&s);
    subject_remove(&s);
    toy_path(path, sizeof path, "toy.bin");
    struct toy toy = toy_default();
    ck_assert_int_eq(toy_write(path, &toy, &e), TERN_OK);
    ck_assert_int_eq(tern_model_open(&s.model, path, &how, &e), TERN_USAGE);
    remove(path);
}
END_TEST

SUITE("mtp", LOOP(test_published_definition, 0, golden_few(N_DRAFTS)), LOOP(test_plain_defines_it, 0, golden_few(N_DRAFTS)),
      LOOP(test_ways_to_a_text, 0, golden_few(N_DRAFTS)), LOOP(test_far_cut, 0, golden_few(N_DRAFTS)),
      LOOP(test_sessions, 0, golden_few(N_DRAFTS)), LOOP(test_text_stays, 0, golden_few(N_DRAFTS)), TEST(test_without),
      TEST(test_plan))
