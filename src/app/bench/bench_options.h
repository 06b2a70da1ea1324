/* The options of `bench`, in llama-bench's spelling where it has them: lists 1,2, ranges 1-4, 1-8*2
 * and 1-9+2, and options that add when repeated.
 * ADDING AN OPTION: a name in enum bench_option, a row in bench_options.c, a paragraph in
 * tern-bench.1. */
#ifndef BENCH_BENCH_OPTIONS_H
#define BENCH_BENCH_OPTIONS_H

#include "app/cli/parser.h"

enum bench_option { /* in the order of --help */
                    BENCH_MODEL,
                    BENCH_SHAPE,
                    BENCH_TYPE,
                    BENCH_PROMPT,
                    BENCH_GEN,
                    BENCH_THREADS,
                    BENCH_DEPTH,
                    BENCH_PG,
                    BENCH_PARALLEL,
                    BENCH_MTP,
                    BENCH_FILE,
                    BENCH_BATCH,
                    BENCH_CACHE,
                    BENCH_CACHE_K,
                    BENCH_CACHE_V,
                    BENCH_LOAD,
                    BENCH_CPU,
#ifdef TERN_MPI
                    BENCH_SHARE,
#endif
                    BENCH_KV_HEADS,
                    BENCH_WINDOW,
                    BENCH_REPETITIONS,
                    BENCH_DELAY,
                    BENCH_OPS,
                    BENCH_NO_WARMUP,
                    BENCH_NO_LIMITS,
                    BENCH_OUTPUT,
                    BENCH_OUTPUT_ERR,
                    BENCH_PROGRESS,
                    BENCH_HELP,
                    BENCH_VERSION,
                    N_BENCH_OPTIONS
};

enum { BENCH_VALUES = 256 }; /* of one option */

struct bench_list {
    uint32_t value[BENCH_VALUES];
    size_t n;
};

struct bench_options {
    struct option_value value[N_BENCH_OPTIONS];
    enum bench_option job; /* BENCH_HELP, BENCH_VERSION, or N_BENCH_OPTIONS: measure */
    struct bench_list prompt, gen, pg_prompt, pg_gen, depth, threads, batch;
    struct bench_list parallel; /* sequences side by side */
    struct bench_list mtp; /* guesses at a time; empty: none */
    struct bench_list kv_heads, window; /* of attention */
    bool attention;                     /* `bench attention` */
    struct bench_list types, caches;    /* of enum tern_type and enum tern_cache_type */
    struct bench_list cpus;             /* offsets in tern_cpu_names(); empty: the best */
    const char **models;                /* [n_models] paths, borrowed from argv; owned */
    const char **shapes;                /* [n_shapes] as written; owned */
    size_t n_models, n_shapes;
};

/* Reads argv. TERN_USAGE with one sentence that names the option. */
enum tern_status bench_options_open(struct bench_options *o, int argc, char **argv,
                                    struct tern_error *e);
void bench_options_close(struct bench_options *o);

void bench_options_help(void); /* to standard output */

#endif
