/* One test of `bench`: a prompt, or tokens one by one, or both, from some depth of the cache on,
 * repeated and timed. The token at position i of sequence s is always ((i + s) * 7919 + 13) mod vocab,
 * so that a test has one fingerprint on every machine. Only evaluation is timed: no sampling, no text.
 *
 * A test of guesses continues a text with the model's own sampling and seed 1, and times the whole
 * of it: without guesses and with them, in turns, and both must have the same fingerprint. */
#ifndef BENCH_BENCH_TEST_H
#define BENCH_BENCH_TEST_H

#include "tern_lab.h"

#include <stdbool.h>

enum { BENCH_MAX_REPETITIONS = 1000, BENCH_MAX_OPS = 16 };

struct bench_plan {
    uint32_t n_prompt, n_gen, depth;
    uint32_t n_batch;
    uint32_t n_parallel;    /* sequences that each get n_gen tokens, a token of each at a time */
    uint32_t mtp;           /* guesses at a time; 0: no test of guesses */
    const tern_token *text; /* [n_text] what they continue; borrowed */
    size_t n_text;
    enum tern_cache_type cache;
    size_t repetitions;
    bool warmup, ops, copy; /* copy: of the weights, not mapped */
};

struct bench_guesses {                      /* of all repetitions */
    size_t n_tried, n_right, n_steps;       /* n_steps: batches evaluated for the text */
    double plain_ns[BENCH_MAX_REPETITIONS]; /* [repetitions] of the text without guesses */
};

struct bench_result {
    struct bench_plan plan;
    char model_file[256], model_type[96], cpu_info[128];
    struct tern_model_info info; /* borrowed texts: until the model is closed */
    char time[24];               /* when it began, UTC, ISO 8601 */
    double ns[BENCH_MAX_REPETITIONS], ts[BENCH_MAX_REPETITIONS]; /* [repetitions] */
    double avg_ns, stddev_ns, median_ns, avg_ts, stddev_ts, median_ts;
    struct tern_cost cost;      /* of one repetition */
    uint64_t fingerprint, rows; /* of one repetition's logits; equal in all */
    struct bench_guesses guesses;
    double read_gbs, peak_gmacs; /* the machine's, with the same threads */
    const char *peak_name;
    struct tern_op ops[BENCH_MAX_OPS]; /* [n_ops] */
    size_t n_ops;
    double ops_seconds; /* the whole repetition that ops are of */
#ifdef TERN_MPI
    uint32_t machines;
    struct tern_network network; /* of all repetitions */
#endif
};

/* Brings the sequences of a plan to its depth. */
enum tern_status bench_fill(tern_context *ctx, const struct bench_plan *plan, struct tern_error *e);

/* Runs r->plan on a context whose sequences have plan.depth tokens, and leaves it so; fills r from
 * `ns` to `rows`, and the operations. TERN_INTERNAL when two repetitions differ by a bit. */
enum tern_status bench_run(tern_context *ctx, struct bench_result *r, struct tern_error *e);

/* Of a test of guesses: tokens a second without them, the median; what they change it by, in percent;
 * and the tokens of a step with them. 0 in other tests. */
double bench_plain_ts(const struct bench_result *r);
double bench_gain(const struct bench_result *r);
double bench_tokens_per_step(const struct bench_result *r);

/* Tokens a second, and how much of the limits that is. */
double bench_gbs(const struct bench_result *r);   /* bytes read of weights and cache */
double bench_gmacs(const struct bench_result *r); /* multiply-adds, attention included */
double bench_percent(double value, double limit); /* 0 without a limit */

#ifdef TERN_MPI
/* What n of all repetitions is for one token, and for one token and layer */
double bench_a_token(const struct bench_result *r, uint64_t n);
double bench_a_layer(const struct bench_result *r, uint64_t n);
double bench_waits(const struct bench_result *r); /* percent of the time, for other machines */
#endif

#endif
