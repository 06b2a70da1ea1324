/* The options of `look`: one table, from which parsing, ranges and --help follow.
 * tests/cli/test_cli.py holds the man page to it.
 * ADDING AN OPTION: a name in enum look_option, a row in the table of look_options.c, a paragraph in
 * tern-look.1. */
#ifndef LOOK_LOOK_OPTIONS_H
#define LOOK_LOOK_OPTIONS_H

#include "app/cli/parser.h"

enum look_option { /* in the order of --help */
                   LOOK_MODEL,
                   LOOK_PROMPT,
                   LOOK_FILE,
                   LOOK_CHAT,
                   LOOK_TEMPLATE,
                   LOOK_PROMPT_IDS,
                   LOOK_N_PREDICT,
                   LOOK_OUTPUT,
                   LOOK_HEAD,
                   LOOK_LAYERS,
                   LOOK_STAGE,
                   LOOK_SURPRISE,
                   LOOK_TIMELINE,
                   LOOK_LENS,
                   LOOK_WHY,
                   LOOK_COMPARE,
                   LOOK_BOUND,
                   LOOK_TOUR,
                   LOOK_ABLATE,
                   LOOK_MEAN_OVER,
                   LOOK_PATCH,
                   LOOK_FROM,
                   LOOK_STEER,
                   LOOK_STEER_FROM,
                   LOOK_STEER_TO,
                   LOOK_STEER_LAYER,
                   LOOK_STEER_BY,
                   LOOK_CAPTURE,
                   LOOK_HOOKS,
                   LOOK_POSITIONS,
                   LOOK_LINES,
                   LOOK_ATTN,
                   LOOK_TEMP,
                   LOOK_SEED,
                   LOOK_CTX_SIZE,
                   LOOK_BATCH_SIZE,
                   LOOK_CACHE_TYPE,
                   LOOK_CPU,
                   LOOK_THREADS,
                   LOOK_COLOR,
                   LOOK_QUIET,
                   LOOK_HELP,
                   LOOK_VERSION,
                   N_LOOK_OPTIONS
};

struct look_options {
    struct option_value value[N_LOOK_OPTIONS];
    enum look_option job; /* a JOB, or N_LOOK_OPTIONS: attention */
    const char *model, *prompt;
};

/* Reads argv. TERN_USAGE with one sentence that names the option. */
enum tern_status look_options_open(struct look_options *o, int argc, char **argv,
                                   struct tern_error *e);

/* --help, to standard output. */
void look_options_help(void);

#endif
