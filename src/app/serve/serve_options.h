/* The options of `serve`: one table, from which parsing, ranges and --help follow.
 * tests/cli/test_serve_http.py holds the man page to it.
 * ADDING AN OPTION: a name in enum serve_option, a row (and its default) in serve_rows.c, a paragraph
 * in tern-serve.1. */
#ifndef SERVE_SERVE_OPTIONS_H
#define SERVE_SERVE_OPTIONS_H

#include "app/cli/parser.h"

enum serve_option { /* in the order of --help */
                    SERVE_MODEL,
                    SERVE_HOST,
                    SERVE_PORT,
                    SERVE_ALIAS,
                    SERVE_CTX_SIZE,
                    SERVE_PARALLEL,
                    SERVE_THREADS,
                    SERVE_QUIET,
                    SERVE_HELP,
                    SERVE_API_KEY,
                    SERVE_API_KEY_FILE,
                    SERVE_ALLOW_HOST,
                    SERVE_CORS,
                    SERVE_NO_SANDBOX,
                    SERVE_TEMPLATE,
                    SERVE_N_PREDICT,
                    SERVE_SEED,
                    SERVE_BATCH_SIZE,
                    SERVE_CACHE_TYPE,
                    SERVE_CACHE_RAM, /* MiB */
                    SERVE_CACHE_DIR,
                    SERVE_LOOKUP,
                    SERVE_MTP,
                    SERVE_DRAFT,
                    SERVE_DRAFT_MAX,
                    SERVE_LOAD,
                    SERVE_MLOCK,
                    SERVE_CPU,
#ifdef TERN_MPI
                    SERVE_SHARE,
#endif
                    SERVE_LOG_FILE,
                    SERVE_LOG_PROMPTS,
                    SERVE_PING, /* seconds, as all times are */
                    SERVE_DRAIN,
                    SERVE_QUEUE, /* answers that wait for a sequence */
                    SERVE_MAX_CONNECTIONS,
                    SERVE_MAX_PER_ADDRESS,
                    SERVE_MAX_LINE,
                    SERVE_MAX_HEADERS,
                    SERVE_MAX_FIELDS,
                    SERVE_MAX_BODY,
                    SERVE_MAX_MEMORY, /* bytes, of all requests together */
                    SERVE_MAX_CONSTRAINTS, /* bytes, of all together */
                    SERVE_MAX_DEPTH,
                    SERVE_MAX_OUTPUT,
                    SERVE_HEADER_TIME,
                    SERVE_BODY_TIME,
                    SERVE_BODY_RATE, /* bytes per second */
                    SERVE_IDLE_TIME,
                    SERVE_STALL_TIME,
                    SERVE_READER_TIME,
                    SERVE_MAX_CHOICES, /* answers to a request: `n` of each text */
                    SERVE_MAX_MESSAGES,
                    SERVE_MAX_TOOLS,
                    SERVE_MAX_GRAMMAR, /* bytes of a schema, grammar or expression */
                    SERVE_MAX_EMBEDDINGS,
                    SERVE_MAX_ATTENTION, /* weights: heads times tokens */
                    SERVE_MAX_LOGPROBS,  /* of prompts: tokens times alternatives + 1 */
                    SERVE_MAX_TEXT,      /* bytes of a text whose tokens are asked for */
                    SERVE_VERSION,
                    N_SERVE_OPTIONS
};

struct serve_options {
    /* Integers that were not given have their defaults, but `given` stays false. */
    struct option_value value[N_SERVE_OPTIONS];
    enum serve_option job; /* SERVE_HELP, SERVE_VERSION, or N_SERVE_OPTIONS: serve */
    const char *model;     /* NULL: none was named */
    const char **keys;     /* [n_keys] of --api-key, in their order; owned */
    size_t n_keys;
    const char **hosts; /* [n_hosts] of --allow-host; owned, in one piece with keys */
    size_t n_hosts;
};

/* Reads argv. TERN_USAGE with one sentence that names the option. */
enum tern_status serve_options_open(struct serve_options *o, int argc, char **argv,
                                    struct tern_error *e);
void serve_options_close(struct serve_options *o);

/* The value of an option that is a number. */
static inline int64_t serve_number(const struct serve_options *o, enum serve_option id)
{
    return o->value[id].integer;
}

/* --help, to standard output. */
void serve_options_help(void);

#endif
