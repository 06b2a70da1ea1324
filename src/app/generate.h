/* The main job: a prompt in; it and its continuation streamed to standard output; statistics,
 * fingerprint and the reason of an early end to standard error. */
#ifndef APP_GENERATE_H
#define APP_GENERATE_H

#include "app/options.h"

/* `load_seconds`: what opening the model took, for the statistics. TERN_CANCELLED when a signal or
 * a failing standard output ended the text. */
enum tern_status generate_run(tern_model *model, const struct options *o, double load_seconds,
                              struct tern_error *e);

/* Prints the token ids of the prompt on one line. */
enum tern_status generate_tokenize(const tern_model *model, const struct options *o,
                                   struct tern_error *e);

#endif
