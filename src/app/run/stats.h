/* The statistics of a run, for people: one line, or with --verbose a table in ollama's words. */
#ifndef RUN_STATS_H
#define RUN_STATS_H

#include "tern.h"

struct run_stats {
    struct tern_generate_result result;
    double start, load_seconds, total_seconds; /* start: of the clock */
    size_t n_held; /* tokens of the prompt that the context held already */
    uint64_t seed;
    uint64_t draft_bytes; /* of memory, beside the model's own */
    int guesses;          /* speculation was asked for */
    int is_random;        /* the seed had a part in the text */
};

void stats_print(const struct run_stats *s, const tern_context *ctx, int verbose); /* to stderr */

#endif
