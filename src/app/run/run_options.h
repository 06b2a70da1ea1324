/* The options of `run`: one table, from which parsing, ranges and --help follow.
 * tests/cli/test_cli.py holds the man page to it.
 * ADDING AN OPTION: a name in enum run_option, a row in option_rows.c, a paragraph in tern.1. */
#ifndef RUN_RUN_OPTIONS_H
#define RUN_RUN_OPTIONS_H

#include "app/cli/parser.h"

enum run_option { /* in the order of --help */
                  OPT_MODEL,
                  OPT_PROMPT,
                  OPT_FILE,
                  OPT_CHAT,
                  OPT_N_PREDICT,
                  OPT_TEMP,
                  OPT_SEED,
                  OPT_STOP,
                  OPT_CTX_SIZE,
                  OPT_THREADS,
                  OPT_VERBOSE,
                  OPT_QUIET,
                  OPT_HELP,
                  OPT_NO_ECHO,
                  OPT_IGNORE_EOS,
                  OPT_PARSE_SPECIAL,
                  OPT_RAW,
                  OPT_PROMPT_IDS,
                  OPT_SESSION,
                  OPT_SESSION_NEW,
                  OPT_CONTEXT_SHIFT,
                  OPT_KEEP,
                  OPT_SYSTEM,
                  OPT_SYSTEM_FILE,
                  OPT_THINK,
                  OPT_TEMPLATE,
                  OPT_TOOLS,
                  OPT_TOOL_CHOICE,
                  OPT_PARALLEL_TOOLS,
                  OPT_GREEDY,
                  OPT_TOP_K,
                  OPT_TOP_P,
                  OPT_MIN_P,
                  OPT_REPEAT_PENALTY,
                  OPT_REPEAT_LAST_N,
                  OPT_PRESENCE_PENALTY,
                  OPT_FREQUENCY_PENALTY,
                  OPT_LOGIT_BIAS,
                  OPT_JSON,
                  OPT_JSON_SCHEMA,
                  OPT_JSON_SCHEMA_FILE,
                  OPT_REGEX,
                  OPT_GRAMMAR,
                  OPT_CHOICE,
                  OPT_COMPACT,
                  OPT_FORMAT,
                  OPT_JSON_SCHEMA_LAX,
                  OPT_NO_FORCE,
                  OPT_CONSTRAINT_BUDGET,
                  OPT_INFO,
                  OPT_CHECK,
                  OPT_SELFTEST,
                  OPT_DOCTOR,
                  OPT_TOKENIZE,
                  OPT_PERPLEXITY,
                  OPT_STRIDE,
                  OPT_PERPLEXITY_LINES,
                  OPT_PERPLEXITY_LLAMACPP,
                  OPT_SEAL_VALUE,
                  OPT_VERIFY_RECEIPT,
                  OPT_JSONL,
                  OPT_LOGPROBS,
                  OPT_FINGERPRINT,
                  OPT_RECEIPT,
                  OPT_CACHE_TYPE,
                  OPT_BATCH_SIZE,
                  OPT_LOAD,
                  OPT_MLOCK,
                  OPT_CPU,
#ifdef TERN_MPI
                  OPT_SHARE,
#endif
                  OPT_LOOKUP,
                  OPT_MTP,
                  OPT_DRAFT,
                  OPT_TOP_N_SIGMA,
                  OPT_TYPICAL,
                  OPT_XTC_PROBABILITY,
                  OPT_XTC_THRESHOLD,
                  OPT_MIROSTAT,
                  OPT_MIROSTAT_TAU,
                  OPT_MIROSTAT_ETA,
                  OPT_DRY_MULTIPLIER,
                  OPT_DRY_BASE,
                  OPT_DRY_ALLOWED_LENGTH,
                  OPT_DRY_LAST_N,
                  OPT_DRY_BREAKER,
                  OPT_SAMPLERS,
                  OPT_HELP_LLAMA2C,
                  OPT_VERSION,
                  N_RUN_OPTIONS
};

struct run_options {
    struct option_value value[N_RUN_OPTIONS];
    enum run_option job;           /* OPT_PERPLEXITY ... OPT_VERSION, or N_RUN_OPTIONS: generate */
    const char *model;             /* NULL: none was named */
    const char **stop, **breakers; /* [n_stop], [n_breakers] of one array; owned */
    size_t n_stop, n_breakers;
    struct tern_bias *bias; /* [n_bias], owned */
    size_t n_bias;
    struct tern_sampler_params order; /* of --samplers; nothing else of it */
};

/* Reads argv. TERN_USAGE with one sentence that names the option. */
enum tern_status run_options_open(struct run_options *o, int argc, char **argv,
                                  struct tern_error *e);
void run_options_close(struct run_options *o);

bool run_options_have_prompt(const struct run_options *o); /* standard input aside */

/* Changes one option of a chat, *id: "--NAME=VALUE", which must live as long as o. A flag that is on
 * goes off. TERN_USAGE when the value is wrong, or the option not one that can change. */
enum tern_status run_options_set(struct run_options *o, char *word, enum run_option *id,
                                 struct tern_error *e);

/* --help, to standard output. */
void run_options_help(void);

#endif
