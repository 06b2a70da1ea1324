/* States of recurrent layers: whatever was taken back, forked, cancelled, guessed or saved, the logits
 * are those of single steps. The golden models with a state, of each kind of mixer. */
/* run-tests: long */
#include "model/recurrent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/xxh64.h"
#include "engine/context.h"
#include "golden.h"
#include "image.h"
#include "suite.h"
#include "weights/file_layout.h"

enum {
    LENGTH = 420,
    N_CTX = 1024,
    MODELS = 4,
    VALUES = 40 /* of a key of a session, behind the fields and the name */
};

static const char *const names[MODELS] = {"lfm2", "qwen3-next", "nemotron-h", "kimi-linear"};

static struct {
    char path[256];
    tern_token ids[N_CTX];
    uint64_t rows[LENGTH]; /* hash of the logits at each position, by single steps */
    size_t vocab;
    tern_model *model;
    tern_context *ctx;
} t;

static tern_context *context(uint32_t n_seqs)
{
    struct tern_context_params p = {.n_ctx = N_CTX, .n_batch = 128, .n_seqs = n_seqs};
    struct tern_error e = {0};
    tern_context *c;
    ck_assert_msg(!tern_context_open(&c, t.model, &p, &e), "%s", e.text);
    return c;
}

static uint64_t hash(tern_context *c, size_t i)
{
    return xxh64(tern_logits(c, i), t.vocab * sizeof(float));
}

/* Positions from .. to - 1 in batches of `chunk`; the last row of each must be right. */
static void feed(tern_context *c, uint32_t seq, size_t from, size_t to, size_t chunk)
{
    for (size_t at = from, end; at < to; at = end) {
        end = at + chunk < to ? at + chunk : to;
        for (size_t i = at; i < end; i++)
            ck_assert(!tern_batch_add(c, seq, t.ids[i], i + 1 == end ? TERN_ROW_LOGITS : 0, NULL));
        ck_assert(!tern_forward(c));
        ck_assert_msg(hash(c, 0) == t.rows[end - 1], "position %zu after %zu in chunks of %zu",
                      end - 1, from, chunk);
    }
}

static void open_model(int i)
{
    static struct golden g;
    struct tern_error e = {0};
    struct tern_model_params p = {.n_threads = 2};
    golden_read(&g, names[i]);
    golden_write(t.path, sizeof t.path, &g, TERN_F32);
    golden_prompt(t.ids, N_CTX, g.prompt_seed, g.vocab);
    t.vocab = g.vocab;
    golden_close(&g);
    ck_assert_msg(!tern_model_open(&t.model, t.path, &p, &e), "%s", e.text);
    t.ctx = context(2);
    for (size_t at = 0; at < LENGTH; at++) {
        ck_assert(!tern_batch_add(t.ctx, 0, t.ids[at], TERN_ROW_LOGITS, NULL));
        ck_assert(!tern_forward(t.ctx));
        t.rows[at] = hash(t.ctx, 0);
    }
    tern_seq_keep(t.ctx, 0, 0);
}

static void close_model(void)
{
    tern_context_close(t.ctx);
    tern_model_close(t.model);
    unlink(t.path);
}

START_TEST(newest_rows_can_be_taken_back)
{
    static const size_t chunks[] = {1, 3, 63, 64, 65, 128}, back[] = {1, 2, 40, 63, 64};
    open_model(_i);
    for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++)
        for (size_t b = 0; b < sizeof back / sizeof *back; b++) {
            if (golden_is_quick() && (k + b) % 3) /* each of both comes up */
                continue;
            size_t n = 260 + 13 * b;
            tern_seq_keep(t.ctx, 0, 0);
            feed(t.ctx, 0, 0, n, chunks[k]);
            ck_assert_uint_eq(tern_seq_keep(t.ctx, 0, (uint32_t)(n - back[b])), n - back[b]);
            feed(t.ctx, 0, n - back[b], n + 30, chunks[b]);
            /* and once more: the log goes on from there */
            ck_assert_uint_eq(tern_seq_keep(t.ctx, 0, (uint32_t)(n + 30 - 20)), n + 10);
            feed(t.ctx, 0, n + 10, LENGTH, 7);
        }
    close_model();
}
END_TEST

START_TEST(older_rows_go_back_to_snapshots)
{
    open_model(_i);
    feed(t.ctx, 0, 0, 128, 128);
    feed(t.ctx, 0, 128, LENGTH, 1);
    ck_assert_uint_eq(tern_seq_keep(t.ctx, 0, 300), 256); /* a page's end */
    feed(t.ctx, 0, 256, LENGTH, 50);
    size_t kept = tern_seq_keep(t.ctx, 0, 200); /* the end of a prompt, or else its tail */
    ck_assert(kept == 128 || kept == 128 - RECURRENT_TAIL);
    feed(t.ctx, 0, kept, 300, 5);
    ck_assert_uint_eq(tern_seq_keep(t.ctx, 0, 100), 0);
    feed(t.ctx, 0, 0, 300, 100);
    close_model();
}
END_TEST

START_TEST(forks_share_what_came_before)
{
    open_model(_i);
    feed(t.ctx, 0, 0, 128, 128);
    feed(t.ctx, 0, 128, 300, 9);
    ck_assert_uint_eq(tern_seq_fork(t.ctx, 0, 1, 280), 280);
    feed(t.ctx, 1, 280, 310, 4);
    feed(t.ctx, 0, 300, 340, 1);
    feed(t.ctx, 1, 310, LENGTH, 128);
    size_t kept = tern_seq_fork(t.ctx, 1, 0, 140); /* by a snapshot */
    ck_assert_uint_le(kept, 140);
    feed(t.ctx, 0, kept, 200, 11);
    kept = tern_seq_keep(t.ctx, 1, 270); /* snapshots are few, so some were given up */
    ck_assert_uint_le(kept, 270);
    feed(t.ctx, 1, kept, LENGTH, 30);
    close_model();
}
END_TEST

START_TEST(others_do_not_take_the_state_that_is_needed_next)
{
    open_model(_i);
    feed(t.ctx, 0, 0, 300, 30);
    size_t forked = tern_seq_fork(t.ctx, 0, 1, 220); /* by a snapshot */
    ck_assert(forked && forked < 220);
    feed(t.ctx, 0, 300, LENGTH, 1);
    for (size_t n = 70; n < 128; n += 19) { /* wants many other snapshots */
        tern_seq_keep(t.ctx, 0, 0);
        feed(t.ctx, 0, 0, LENGTH, n);
    }
    feed(t.ctx, 1, forked, 300, 50);
    size_t kept = tern_seq_keep(t.ctx, 1, 230);
    for (size_t n = 70; n < 128; n += 19) {
        tern_seq_keep(t.ctx, 0, 0);
        feed(t.ctx, 0, 0, LENGTH, n);
    }
    feed(t.ctx, 1, kept, 300, 50);
    close_model();
}
END_TEST

static void cancel_late(void *arg, struct forward *f, size_t layer, enum watch_point at)
{
    (void)arg;
    if (layer + 1 == f->model->n_layers && at == WATCH_ATTENTION)
        atomic_fetch_or(&f->cancel, FORWARD_CANCEL);
}

START_TEST(a_cancelled_batch_changes_nothing)
{
    static const size_t rows[] = {1, 20, 64, 128};
    open_model(_i);
    feed(t.ctx, 0, 0, 100, 100);
    feed(t.ctx, 0, 100, 150, 1);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        size_t n = tern_seq_length(t.ctx, 0);
        for (size_t i = 0; i < rows[k]; i++)
            ck_assert(!tern_batch_add(t.ctx, 0, t.ids[(n + i * 7) % N_CTX], 0, NULL));
        t.ctx->forward.watch = cancel_late;
        ck_assert_int_eq(tern_forward(t.ctx), TERN_CANCELLED);
        t.ctx->forward.watch = NULL;
        ck_assert_uint_eq(tern_seq_length(t.ctx, 0), n);
        feed(t.ctx, 0, n, n + 10, k + 1);
    }
    close_model();
}
END_TEST

START_TEST(rows_on_trial_leave_no_trace)
{
    open_model(_i);
    feed(t.ctx, 0, 0, 120, 120);
    for (size_t n = 120, round = 0; n + 40 < LENGTH; round++) {
        size_t right = round % 9, rows = 1 + right + round % 3;
        for (size_t i = 0; i < rows; i++) /* guesses: some right, then wrong ones */
            ck_assert(!context_add(t.ctx,
                                   (struct row){.token = t.ids[i < 1 + right ? n + i : i],
                                                .flags = TERN_ROW_LOGITS,
                                                .within = true,
                                                .trial = i > 0},
                                   NULL));
        ck_assert(!context_run(t.ctx, true));
        context_see(t.ctx, 0, 1);
        for (size_t i = 0; i < 1 + right; i++, n++) {
            if (i)
                context_show(t.ctx, 0, i, true);
            ck_assert(hash(t.ctx, 0) == t.rows[n]);
        }
        context_drop(t.ctx);
        ck_assert_uint_eq(tern_seq_length(t.ctx, 0), n);
        if (round % 4 == 0)
            feed(t.ctx, 0, n, n + 2, 1), n += 2;
    }
    close_model();
}
END_TEST

/* Forced tokens are evaluated together, but a place among them is no end of a prompt to go back to. */
START_TEST(runs_within_a_text_are_no_prompts)
{
    open_model(_i);
    feed(t.ctx, 0, 0, 128, 128);
    for (size_t i = 128; i < 250; i++) {
        struct row row = {.token = t.ids[i], .flags = TERN_ROW_LOGITS, .within = true};
        ck_assert(!context_add(t.ctx, row, NULL));
        if ((i - 128) % 7 == 6 || i == 249)
            ck_assert(!tern_forward(t.ctx));
    }
    ck_assert_uint_eq(tern_seq_keep(t.ctx, 0, 160), 128);
    feed(t.ctx, 0, 128, 250, 7);
    ck_assert_uint_ne(tern_seq_keep(t.ctx, 0, 160), 128); /* as prompts they would be */
    close_model();
}
END_TEST

START_TEST(sessions_hold_the_state)
{
    char path[256];
    struct tern_error e = {0};
    open_model(_i);
    toy_path(path, sizeof path, "session");
    feed(t.ctx, 0, 0, 200, 100);
    ck_assert_uint_eq(tern_seq_keep(t.ctx, 0, 190), 190); /* a state that no record holds */
    ck_assert_msg(!tern_session_save(t.ctx, 0, path, &e), "%s", e.text);
    feed(t.ctx, 0, 190, 200, 3);
    tern_context *other = context(1);
    ck_assert_msg(!tern_session_load(other, 0, path, &e), "%s", e.text);
    feed(other, 0, 190, LENGTH, 17);
    tern_context_close(other);
    unlink(path);
    close_model();
}
END_TEST

/* After a load the sequence goes back where it could before, and to its end. */
START_TEST(sessions_hold_snapshots)
{
    char path[256];
    struct tern_error e = {0};
    open_model(_i);
    toy_path(path, sizeof path, "session");
    feed(t.ctx, 0, 0, 128, 128);
    feed(t.ctx, 0, 128, 330, 1);
    ck_assert_msg(!tern_session_save(t.ctx, 0, path, &e), "%s", e.text);
    for (uint32_t seq = 0; seq < 2; seq++) {
        tern_context *other = context(2);
        feed(other, seq, 0, 90, 30); /* of which nothing stays */
        ck_assert_msg(!tern_session_load(other, seq, path, &e), "%s", e.text);
        feed(other, seq, 330, LENGTH, 1);
        ck_assert_uint_eq(tern_seq_keep(other, seq, 331), 330);
        feed(other, seq, 330, 340, 10);
        ck_assert_msg(!tern_session_load(other, seq, path, &e), "%s", e.text);
        ck_assert_uint_eq(tern_seq_keep(other, seq, 330 - RECURRENT_KEEP - 1), 256);
        feed(other, seq, 256, 290, 20);
        ck_assert_msg(!tern_session_load(other, seq, path, &e), "%s", e.text);
        ck_assert_uint_eq(tern_seq_keep(other, seq, 200), 128);
        feed(other, seq, 128, 200, 1);
        tern_context_close(other);
    }
    unlink(path);
    close_model();
}
END_TEST

/* After a load the newest rows can be taken back as before, also those of a sequence that was loaded; and
 * the file is the same. */
START_TEST(sessions_take_back_newest_rows)
{
    static const size_t lengths[] = {40, 230, 320}, back[] = {39, 63, 64};
    char path[256];
    struct tern_error e = {0};
    open_model(_i);
    toy_path(path, sizeof path, "session");
    for (size_t k = 0; k < sizeof back / sizeof *back; k++) {
        size_t n = lengths[k], kept = n - back[k];
        tern_seq_keep(t.ctx, 0, 0);
        feed(t.ctx, 0, 0, n, 33);
        ck_assert_msg(!tern_session_save(t.ctx, 0, path, &e), "%s", e.text);
        tern_context *other = context(1);
        ck_assert_msg(!tern_session_load(other, 0, path, &e), "%s", e.text);
        ck_assert_uint_eq(tern_seq_reuse(other, 0, t.ids, n), n - 1); /* a text that goes on */
        ck_assert_uint_eq(tern_seq_keep(other, 0, (uint32_t)kept), kept);
        feed(other, 0, kept, n + 30, 9);
        ck_assert_msg(!tern_session_load(other, 0, path, &e), "%s", e.text);
        ck_assert_msg(!tern_session_save(other, 0, path, &e), "%s", e.text);
        ck_assert_msg(!tern_session_load(t.ctx, 1, path, &e), "%s", e.text);
        tern_context_close(other);
        ck_assert_uint_eq(tern_seq_fork(t.ctx, 1, 0, (uint32_t)kept), kept);
        feed(t.ctx, 0, kept, n + 90, 40);
    }
    unlink(path);
    close_model();
}
END_TEST

static struct image image_at(const char *path)
{
    struct image i = {0};
    FILE *f = fopen(path, "rb");
    ck_assert(f && !fseek(f, 0, SEEK_END));
    i.n = (size_t)ftell(f);
    rewind(f);
    i.p = malloc(i.n);
    ck_assert(i.p && fread(i.p, 1, i.n, f) == i.n);
    fclose(f);
    return i;
}

/* The session with another number of a key; words: of the refusal, or NULL */
static void load_with(const struct image *session, const char *path, const char *key, size_t i,
                      uint64_t value, const char *words)
{
    struct tern_error e = {0};
    struct image copy = image_copy(session);
    memcpy(copy.p + image_key(&copy, "config", key) + VALUES + 8 * i, &value, sizeof value);
    image_repair(copy.p, copy.n);
    image_save(&copy, path);
    ck_assert_int_eq(tern_session_load(t.ctx, 0, path, &e), words ? TERN_BAD_FILE : TERN_OK);
    ck_assert_msg(!words || strstr(e.text, words), "%s", e.text);
    image_close(&copy);
}

static void put_u64(unsigned char *p, uint64_t value)
{
    memcpy(p, &value, sizeof value);
}

/* Makes a file of it as they were before they had the key `log`, which is their last. */
static void drop_log(struct image *i)
{
    enum { KEY = VALUES + 2 * 8, OFFSET = 24, BYTES = 32 };
    unsigned char *config = i->p + image_section(i, "config"), *keys = i->p + image_body(i, "config");
    unsigned char *directory = i->p + image_section(i, "tensors");
    size_t at = image_key(i, "config", "log"), header = (size_t)load_u64(i->p + LAYOUT_HEADER_BYTES);
    memmove(i->p + at, i->p + at + KEY, header - at - KEY);
    memset(i->p + header - KEY, 0, KEY);
    put_u64(i->p + LAYOUT_HEADER_BYTES, header - KEY);
    put_u64(config + BYTES, load_u64(config + BYTES) - KEY);
    put_u64(directory + OFFSET, load_u64(directory + OFFSET) - KEY);
    put_u64(keys, load_u64(keys) - 1);
    image_repair(i->p, i->n);
}

/* It holds the record of its end. */
START_TEST(sessions_without_a_log_are_read)
{
    char path[256];
    struct tern_error e = {0};
    open_model(_i);
    toy_path(path, sizeof path, "session");
    feed(t.ctx, 0, 0, 400, 100);
    ck_assert_uint_eq(tern_seq_keep(t.ctx, 0, 270), 256);
    ck_assert_msg(!tern_session_save(t.ctx, 0, path, &e), "%s", e.text);
    struct image session = image_at(path);
    drop_log(&session);
    image_save(&session, path);
    image_close(&session);
    ck_assert_msg(!tern_session_load(t.ctx, 1, path, &e), "%s", e.text);
    feed(t.ctx, 1, 256, LENGTH, 1);
    ck_assert_uint_eq(tern_seq_keep(t.ctx, 1, 300), 256);
    ck_assert_msg(!tern_session_load(t.ctx, 1, path, &e), "%s", e.text);
    ck_assert_uint_lt(tern_seq_keep(t.ctx, 1, 255), 255);
    unlink(path);
    close_model();
}
END_TEST

START_TEST(damaged_snapshots_are_refused)
{
    char path[256];
    struct tern_error e = {0};
    static const char states[] = "no place for a state", log[] = "its log is not one of a text of 140";
    uint64_t at[2];
    open_model(0);
    toy_path(path, sizeof path, "session");
    feed(t.ctx, 0, 0, 128, 128);
    feed(t.ctx, 0, 128, 140, 1);
    ck_assert_msg(!tern_session_save(t.ctx, 0, path, &e), "%s", e.text);
    struct image session = image_at(path);
    memcpy(at, session.p + image_key(&session, "config", "states") + VALUES, sizeof at);
    ck_assert(at[0] == 112 && at[1] == 128);
    memcpy(at, session.p + image_key(&session, "config", "log") + VALUES, sizeof at);
    ck_assert(at[0] == 140 - RECURRENT_KEEP && at[1] == 112);
    load_with(&session, path, "states", 0, 0, states);
    load_with(&session, path, "states", 0, 1, NULL);
    load_with(&session, path, "states", 0, 128, states);
    load_with(&session, path, "states", 1, 112, states);
    load_with(&session, path, "states", 1, 139, NULL);
    load_with(&session, path, "states", 1, 140, states);
    load_with(&session, path, "states", 1, UINT64_MAX, states);
    load_with(&session, path, "log", 0, 140 - RECURRENT_LOG - 1, log);
    load_with(&session, path, "log", 0, 140 - RECURRENT_LOG, "tensor 'cache' is");
    load_with(&session, path, "log", 0, 140, "tensor 'cache' is");
    load_with(&session, path, "log", 0, 141, log);
    load_with(&session, path, "log", 0, UINT64_MAX, log);
    load_with(&session, path, "log", 1, 0, NULL);
    load_with(&session, path, "log", 1, 140, NULL);
    load_with(&session, path, "log", 1, 141, log);
    for (size_t i = 0; i < session.n; i += 97) { /* bytes that checksums hold */
        struct image copy = image_copy(&session);
        copy.p[i] ^= 1;
        image_save(&copy, path);
        ck_assert(tern_session_load(t.ctx, 0, path, &e));
        image_close(&copy);
    }
    ck_assert_uint_eq(tern_seq_length(t.ctx, 0), 140);
    image_close(&session);
    unlink(path);
    close_model();
}
END_TEST

/* Greedy tokens with a context that shifts, and guesses from repetitions */
static void generate(uint32_t lookup, tern_token *out, size_t n)
{
    struct tern_context_params p = {.n_ctx = 96, .n_batch = 32};
    struct tern_generate_params g = tern_generate_defaults();
    struct tern_generate_result r;
    struct tern_error e = {0};
    tern_context *c;
    ck_assert(!tern_context_open(&c, t.model, &p, &e));
    g.tokens = t.ids, g.n_tokens = 60, g.n_predict = (int64_t)n, g.shift = 1, g.keep = 5;
    g.ignore_end = 1, g.lookup = lookup;
    ck_assert_msg(!tern_generate(c, &g, &r, &e), "%s", e.text);
    ck_assert_uint_gt(r.n_shifts, 0);
    memcpy(out, tern_seq_tokens(c, 0), tern_seq_length(c, 0) * sizeof *out);
    tern_context_close(c);
}

START_TEST(shifts_and_guesses_give_the_same_text)
{
    tern_token plain[96] = {0}, guessed[96] = {0};
    open_model(_i);
    generate(0, plain, 150);
    generate(8, guessed, 150);
    ck_assert_mem_eq(plain, guessed, sizeof plain);
    close_model();
}
END_TEST

SUITE("recurrent", LOOP(newest_rows_can_be_taken_back, 0, golden_few(MODELS)),
      LOOP(older_rows_go_back_to_snapshots, 0, golden_few(MODELS)),
      LOOP(forks_share_what_came_before, 0, golden_few(MODELS)),
      LOOP(others_do_not_take_the_state_that_is_needed_next, 0, golden_few(MODELS)),
      LOOP(a_cancelled_batch_changes_nothing, 0, golden_few(MODELS)),
      LOOP(rows_on_trial_leave_no_trace, 0, golden_few(MODELS)),
      LOOP(runs_within_a_text_are_no_prompts, 0, golden_few(MODELS)),
      LOOP(sessions_hold_the_state, 0, golden_few(MODELS)),
      LOOP(sessions_take_back_newest_rows, 0, golden_few(MODELS)),
      LOOP(sessions_without_a_log_are_read, 0, golden_few(MODELS)),
      LOOP(sessions_hold_snapshots, 0, golden_few(MODELS)), TEST(damaged_snapshots_are_refused),
      LOOP(shifts_and_guesses_give_the_same_text, 0, golden_few(MODELS)))
