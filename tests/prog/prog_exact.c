/* Exactness: the golden models give the same bits however they are run. A plain program, so that it
 * also runs cross-compiled under an emulator; `make test` and tests/exact-matrix run it.
 *
 *   prog_exact               every model with each cache type and one weight type each, against
 *                            their constants in tests/golden/fingerprints.txt, then in other ways;
 *                            each pair of types, and of thread count and chunk, comes up with some
 *                            model, each cut with each pair
 *   prog_exact --full MODEL  every way with one model, or with all: many minutes; a line for each
 *                            property of each subject as it is done
 *   prog_exact --quick       constants and targets, fewer positions
 *   prog_exact --few         so of each model one pair of types; each comes up with some model; the
 *                            default if QUICK is set
 *   prog_exact --print       prints the constants instead of checking them
 *
 * The truth inside one build is the hash of each position's logits, from a run in small chunks by
 * one thread; that run as a whole is held to the constant. Exit code 1: something differed. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/xxh64.h"
#include "golden.h"
#include "kernels/targets.h"

enum {
    LENGTH = 540, /* positions: three blocks, and more than the longest chunk */
    QUICK = 272,  /* of which an emulator, and ref.c, get so many: two blocks */
    STEP = 16,    /* rows a batch of the plain run */
    MATES = 5,
    TAIL = 4 /* positions evaluated after a cut */
};

static const int thread_counts[] = {1, 2, 3, 4, 7};
static const size_t chunks[] = {1, 2, 3, 7, 16, 64, 512};
#define NAME(file, name, needs) #name,
static const char *const targets[] = {TARGETS(NAME)};

#define COUNT(a) (sizeof(a) / sizeof *(a))

struct subject { /* a model in a type, and what its logits must be */
    struct golden g;
    enum tern_type type;
    enum tern_cache_type cache;
    char path[256];
    size_t length; /* positions used: QUICK or LENGTH */
    tern_token ids[LENGTH];
    uint64_t rows[LENGTH];   /* XXH64 of the logits at each position */
    uint64_t fingerprint[2]; /* of the first QUICK rows, and of all */
};

struct run {
    const struct subject *s;
    const char *what; /* for messages */
    unsigned before;  /* differences when it began */
    tern_model *model;
    tern_context *ctx;
};

static unsigned runs, bad_runs, differences; /* what the last line says */
static uint64_t rows_checked;

static void differ(const struct run *r, const char *how, size_t position)
{
    struct tern_model_info info;
    tern_model_info(r->model, &info);
    if (differences++ < 20)
        printf("DIFFERS: %s %s, %s cache, %s, %d threads, %s: %s %zu\n", r->s->g.name,
               tern_type_name(r->s->type), tern_cache_type_name(r->s->cache), info.cpu,
               info.n_threads, r->what, how, position);
}

static void die(const struct subject *s, const char *what, const struct tern_error *e)
{
    fprintf(stderr, "%s %s: %s: %s\n", s->g.name, tern_type_name(s->type), what, e->text);
    exit(1);
}

/* False when this machine lacks the target. */
static bool run_open(struct run *r, const struct subject *s, const char *what, const char *cpu,
                     int n_threads, uint32_t n_seqs)
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = n_threads, .cpu = cpu};
    struct tern_context_params cp = {.n_ctx = LENGTH,
                                     .n_batch = 512,
                                     .n_seqs = n_seqs,
                                     .cache_type = s->cache,
                                     .fingerprint = 1};
    *r = (struct run){.s = s, .what = what, .before = differences};
    enum tern_status status = tern_model_open(&r->model, s->path, &mp, &e);
    if (status == TERN_USAGE && cpu != NULL)
        return false;
    if (status || tern_context_open(&r->ctx, r->model, &cp, &e))
        die(s, "open", &e);
    return true;
}

static void run_close(struct run *r)
{
    runs++;
    bad_runs += differences > r->before;
    tern_context_close(r->ctx);
    tern_model_close(r->model);
}

static void add(const struct run *r, uint32_t seq, tern_token token, bool logits)
{
    struct tern_error e = {0};
    if (tern_batch_add(r->ctx, seq, token, logits ? TERN_ROW_LOGITS : 0, &e))
        die(r->s, r->what, &e);
}

static uint64_t row_hash(const struct run *r, size_t i)
{
    const float *logits = tern_logits(r->ctx, i);
    return logits ? xxh64(logits, r->s->g.vocab * sizeof *logits) : 0;
}

static void check_row(const struct run *r, size_t i, size_t position)
{
    rows_checked++;
    if (row_hash(r, i) != r->s->rows[position])
        differ(r, "position", position);
}

/* A long chunk asks for the logits of some rows only, TERN_DEFAULT_LOGITS at most: the first ones,
 * which follow a cut, the last, and some between. */
static bool wants_logits(size_t at, size_t from, size_t to)
{
    return to - from <= TERN_DEFAULT_LOGITS || at < from + TAIL || at % 20 == 19 || at == to - 1;
}

/* Evaluates positions from .. to - 1 of the sequence in one batch, and checks what it gives. */
static void feed_chunk(const struct run *r, uint32_t seq, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t at = from; at < to; at++)
        add(r, seq, r->s->ids[at], wants_logits(at, from, to));
    if (tern_forward(r->ctx) != TERN_OK)
        differ(r, "forward failed at", from);
    for (size_t at = from; at < to; at++)
        if (wants_logits(at, from, to))
            check_row(r, n++, at);
}

static void feed(const struct run *r, uint32_t seq, size_t from, size_t to, size_t chunk)
{
    for (size_t at = from; at < to; at += chunk)
        feed_chunk(r, seq, at, at + chunk < to ? at + chunk : to);
}

/* ---- the constants ------------------------------------------------------------------------- */

/* Fills rows and fingerprints from one plain run, all logits of every position. */
static void measure(struct subject *s)
{
    struct tern_error e = {0};
    struct run r;
    run_open(&r, s, "plain run", NULL, 1, 1);
    for (size_t at = 0; at < s->length; at += STEP) {
        size_t to = at + STEP < s->length ? at + STEP : s->length;
        for (size_t i = at; i < to; i++)
            add(&r, 0, s->ids[i], true);
        tern_forward(r.ctx);
        for (size_t i = at; i < to; i++)
            s->rows[i] = row_hash(&r, i - at);
        if (to == QUICK)
            s->fingerprint[0] = tern_fingerprint(r.ctx, NULL);
    }
    s->fingerprint[1] = tern_fingerprint(r.ctx, NULL);
    if (tern_numeric_status(r.ctx, &e))
        die(s, "not finite", &e);
    run_close(&r);
}

static void print_constants(const struct subject *s)
{
    printf("%s %s %s %016" PRIx64 " %016" PRIx64 "\n", s->g.name, tern_type_name(s->type),
           tern_cache_type_name(s->cache), s->fingerprint[0], s->fingerprint[1]);
}

/* The constants of the subject; zeros when the file has none. */
static void find_constants(const struct subject *s, uint64_t wanted[2])
{
    char line[128], start[96];
    snprintf(start, sizeof start, "%s %s %s ", s->g.name, tern_type_name(s->type),
             tern_cache_type_name(s->cache));
    FILE *f = fopen("tests/golden/fingerprints.txt", "r");
    wanted[0] = wanted[1] = 0;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        char *at = line + strlen(start);
        if (strncmp(line, start, strlen(start)) != 0)
            continue;
        wanted[0] = strtoull(at, &at, 16);
        wanted[1] = strtoull(at, &at, 16);
    }
    if (f != NULL)
        fclose(f);
}

static void check_constants(const struct subject *s)
{
    static const size_t lengths[2] = {QUICK, LENGTH};
    uint64_t wanted[2];
    find_constants(s, wanted);
    for (size_t i = 0; i < 2 && lengths[i] <= s->length; i++) {
        runs++;
        if (wanted[i] == s->fingerprint[i])
            continue;
        bad_runs++;
        printf("DIFFERS: %s %s, %s cache: fingerprint of %zu rows is %016" PRIx64
               ", the constant %016" PRIx64 "\n",
               s->g.name, tern_type_name(s->type), tern_cache_type_name(s->cache), lengths[i],
               s->fingerprint[i], wanted[i]);
    }
}

/* ---- ways to run ---------------------------------------------------------------------------- */

static void check_plain(const struct subject *s, const char *cpu, int n_threads, size_t chunk,
                        size_t length)
{
    struct run r;
    char what[32];
    snprintf(what, sizeof what, "chunks of %zu", chunk);
    if (!run_open(&r, s, what, cpu, n_threads, 1)) /* not on this machine */
        return;
    feed(&r, 0, 0, length, chunk);
    run_close(&r);
}

/* The cache is cut at every position: [0, n) and [n, length). */
static void check_splits(const struct subject *s, size_t step)
{
    struct run r;
    run_open(&r, s, "split", NULL, 1, 1);
    for (size_t n = 1; n < s->length; n += step) {
        tern_seq_keep(r.ctx, 0, 0);
        feed(&r, 0, 0, n, 512);
        feed(&r, 0, n, s->length, 512);
    }
    run_close(&r);
}

/* What keep and fork may answer: n, 0 where a window has let go of the past, or less where a state is
 * kept at some positions only. */
static size_t kept(const struct run *r, size_t answer, size_t n)
{
    if (r->s->g.recurrent && answer <= n)
        return answer;
    if (answer != n && (answer != 0 || !r->s->g.windowed))
        differ(r, "kept too little of", n);
    return answer;
}

/* Truncated at every n, one after the other, and continued. */
static void check_keeps(const struct subject *s)
{
    struct run r;
    run_open(&r, s, "keep", NULL, 1, 1);
    feed(&r, 0, 0, s->length, 512);
    for (size_t n = s->length; n-- > 0;) {
        size_t to = n + TAIL < s->length ? n + TAIL : s->length;
        feed(&r, 0, kept(&r, tern_seq_keep(r.ctx, 0, (uint32_t)n), n), to, 512);
    }
    run_close(&r);
}

/* Truncated at n from the full length: what a window still holds differs from the above. */
static void check_far_keeps(const struct subject *s, size_t step)
{
    struct run r;
    run_open(&r, s, "keep of all", NULL, 1, 1);
    for (size_t n = 0; n < s->length; n += step) {
        size_t at = tern_seq_length(r.ctx, 0);
        feed(&r, 0, at, s->length, 512);
        feed(&r, 0, kept(&r, tern_seq_keep(r.ctx, 0, (uint32_t)n), n), s->length, 512);
    }
    run_close(&r);
}

/* A few other tokens at the end of the sequence. */
static void stray(const struct run *r, uint32_t seq)
{
    size_t room = r->s->length - tern_seq_length(r->ctx, seq);
    for (size_t i = 0; i < TAIL && i < room; i++)
        add(r, seq, (r->s->ids[i] + 1) % (tern_token)r->s->g.vocab, false);
    tern_forward(r->ctx);
}

/* Sequence 1 forks off at every n, while the origin grows on: what one writes then, right tokens or
 * strays, the other must not notice. */
static void check_forks(const struct subject *s)
{
    struct run r;
    run_open(&r, s, "fork", NULL, 1, 2);
    for (size_t n = 0; n < s->length; n++) {
        size_t to = n + TAIL < s->length ? n + TAIL : s->length;
        size_t from = kept(&r, tern_seq_fork(r.ctx, 0, 1, (uint32_t)n), n);
        feed(&r, 0, n, n + 1, 1);
        if (n % 3)
            stray(&r, 1);
        else
            feed(&r, 1, from, to, 512);
    }
    for (size_t n = 0; n < s->length; n += 7) { /* from the full length */
        size_t to = n + TAIL < s->length ? n + TAIL : s->length;
        feed(&r, 1, kept(&r, tern_seq_fork(r.ctx, 0, 1, (uint32_t)n), n), to, 512);
    }
    run_close(&r);
}

/* Several sequences in one batch, each at its own place and pace, in changing order. */
static void check_mates(const struct subject *s, int n_threads)
{
    static const size_t pace[MATES] = {1, 2, 5, 64, 19};
    size_t at[MATES] = {0}, from[MATES], order[MATES];
    struct run r;
    run_open(&r, s, "batch mates", NULL, n_threads, MATES);
    for (size_t step = 0; step < s->length; step++) {
        size_t n = 0;
        for (size_t q = 2; q < MATES; q++) /* the fast ones start again */
            if (at[q] == s->length)
                at[q] = tern_seq_keep(r.ctx, (uint32_t)q, 0);
        for (size_t i = 0; i < MATES; i++) {
            size_t q = (i + step) % MATES;
            if (at[q] == s->length || step % (q + 1))
                continue;
            from[q] = at[q];
            at[q] = at[q] + pace[q] < s->length ? at[q] + pace[q] : s->length;
            for (size_t p = from[q]; p < at[q]; p++)
                add(&r, (uint32_t)q, s->ids[p], p == at[q] - 1);
            order[n++] = q;
        }
        tern_forward(r.ctx);
        for (size_t i = 0; i < n; i++)
            check_row(&r, i, at[order[i]] - 1);
    }
    run_close(&r);
}

/* ---- what is run ---------------------------------------------------------------------------- */

enum mode { SHARE, FULL, FAST, PRINT, FEW };

/* What one property of a subject took: the line of --full. Called before each with NULL. */
static void tell(const struct subject *s, const char *property)
{
    static unsigned runs_then, differences_then;
    static uint64_t rows_then;
    static clock_t then; /* CPU time of all threads: other programs do not count */
    if (property != NULL) {
        printf("%-12s %-4s %-4s %-24s %4u runs %8" PRIu64 " rows %6.1f s CPU, %u differ\n",
               s->g.name, tern_type_name(s->type), tern_cache_type_name(s->cache), property,
               runs - runs_then, rows_checked - rows_then,
               (double)(clock() - then) / CLOCKS_PER_SEC, differences - differences_then);
        fflush(stdout);
    }
    runs_then = runs;
    rows_then = rows_checked;
    differences_then = differences;
    then = clock();
}

/* Every target by every thread count by every chunk. */
static void check_every_plain(const struct subject *s)
{
    char property[32];
    for (size_t c = 0; c < COUNT(targets); c++) {
        unsigned before = runs;
        for (size_t t = 0; t < COUNT(thread_counts); t++)
            for (size_t k = 0; k < COUNT(chunks); k++)
                check_plain(s, targets[c], thread_counts[t], chunks[k], s->length);
        snprintf(property, sizeof property, "threads x chunks, %s", targets[c]);
        if (runs > before) /* this machine has the target */
            tell(s, property);
    }
}

static void check_product(const struct subject *s)
{
    tell(s, NULL);
    check_every_plain(s);
    check_splits(s, 1);
    tell(s, "split at each");
    check_keeps(s);
    tell(s, "keep of each, downwards");
    check_far_keeps(s, 1);
    tell(s, "keep of each, from all");
    check_forks(s);
    tell(s, "fork at each");
    for (size_t t = 0; t < COUNT(thread_counts); t++)
        check_mates(s, thread_counts[t]);
    tell(s, "mates x threads");
}

/* Tiny chunks cross the first block's end, and that is enough of them. */
static size_t enough(const struct subject *s, size_t chunk)
{
    return chunk < 7 ? QUICK : s->length;
}

/* Each target, with the threads and chunk that are subject i's turn; ref.c, which is slow, with one
 * of the cache types. */
static void check_targets(const struct subject *s, size_t i)
{
    for (size_t c = (i / 3 + i) % 3 ? 2 : 0; c < COUNT(targets); c++) {
        size_t chunk = chunks[(i + 3 * c) % COUNT(chunks)];
        check_plain(s, targets[c], thread_counts[(i + c) % COUNT(thread_counts)], chunk,
                    c < 2 ? QUICK : enough(s, chunk));
    }
}

/* Subject number i gets its share of the product; every fifth model the next cut. */
static void check_share(const struct subject *s, size_t m, size_t i)
{
    check_targets(s, i);
    check_plain(s, NULL, thread_counts[i % COUNT(thread_counts)], chunks[i % COUNT(chunks)],
                enough(s, chunks[i % COUNT(chunks)]));
    switch (((size_t)s->type + m / 5) % 5) {
    case 0:
        check_splits(s, 13);
        break;
    case 1:
        check_keeps(s);
        break;
    case 2:
        check_far_keeps(s, 17);
        break;
    case 3:
        check_forks(s);
        break;
    default:
        check_mates(s, thread_counts[i / 2 % COUNT(thread_counts)]);
    }
}

/* Subject i of 15 a model, of model m */
static void check_subject(struct subject *s, enum mode mode, size_t m, size_t i)
{
    s->length = mode == FAST || mode == FEW ? QUICK : LENGTH;
    measure(s);
    if (mode == PRINT)
        print_constants(s);
    else
        check_constants(s);
    if (mode == FULL)
        check_product(s);
    if (mode == FAST || mode == FEW)
        check_targets(s, i);
    if (mode == SHARE)
        check_share(s, m, i);
}

/* Three pairs of types with each model, and each pair with a fifth of the models; or one of 15. */
static bool is_due(enum mode mode, size_t m, size_t type, size_t cache)
{
    return mode == SHARE ? (m + cache) % 5 == type
           : mode == FEW ? m % 15 == 3 * type + cache
                         : true;
}

static void check_type(struct subject *s, enum mode mode, size_t m)
{
    size_t type = (size_t)s->type;
    s->path[0] = 0;
    for (size_t cache = 0; tern_cache_type_name((int)cache); cache++) {
        if (!is_due(mode, m, type, cache))
            continue;
        if (!s->path[0])
            golden_write(s->path, sizeof s->path, &s->g, s->type);
        s->cache = (enum tern_cache_type)cache;
        check_subject(s, mode, m, 15 * m + 3 * type + cache);
    }
    if (s->path[0])
        remove(s->path);
}

/* All models, or the one named. */
static void check_all(enum mode mode, const char *only)
{
    static struct subject s;
    for (size_t m = 0; m < GOLDEN_EXACT; m++) {
        if (only && strcmp(only, golden_names[m]) != 0)
            continue;
        golden_read(&s.g, golden_names[m]);
        golden_prompt(s.ids, LENGTH, s.g.prompt_seed + 1, s.g.vocab);
        for (int type = 0; type < 5; type++) {
            s.type = (enum tern_type)type;
            check_type(&s, mode, m);
        }
        golden_close(&s.g);
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"", "--full", "--quick", "--print", "--few"};
    enum mode mode = SHARE;
    if (argc == 1 && getenv("QUICK") &&
        *getenv("QUICK")) /* run-tests says that the build is slow */
        mode = FEW;
    for (size_t i = 0; argc > 1 && i < COUNT(names); i++)
        if (strcmp(argv[1], names[i]) == 0)
            mode = (enum mode)i;
    if (mode == PRINT)
        printf("# Fingerprints of the golden models (tests/prog_exact --print), arith %d.\n"
               "# model, weights, cache, fingerprint of the first %d rows, of %d rows\n",
               TERN_ARITH, QUICK, LENGTH);
    check_all(mode, argc > 2 ? argv[2] : NULL);
    if (mode != PRINT)
        printf("%u passed, %u failed\n", runs - bad_runs, bad_runs);
    if (mode == FULL)
        printf("%" PRIu64 " rows checked, %.0f s CPU\n", rows_checked,
               (double)clock() / CLOCKS_PER_SEC);
    return bad_runs != 0;
}
