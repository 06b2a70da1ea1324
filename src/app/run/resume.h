/* The file of --session: what the cache held when the last run ended. */
#ifndef RUN_RESUME_H
#define RUN_RESUME_H

#include <stdbool.h>

#include "app/run/run_options.h"

/* Restores it, if it was asked for and the file is there. */
enum tern_status resume_open(tern_context *ctx, const struct run_options *o, struct tern_error *e);

/* Before tokens[0..n) are evaluated in a restored context, whose text they would replace. TERN_OK
 * where they begin like that text, as far as both go, or with --session-new; else a person at a
 * terminal is asked, and TERN_USAGE is the answer anywhere else. `chat`: they only have to share
 * more than the first token, for templates take back what they wrote. */
enum tern_status resume_check(const tern_context *ctx, const struct run_options *o,
                              const tern_token *tokens, size_t n, bool chat, struct tern_error *e);

/* Writes it, if it was asked for: with `last`, the token that was chosen last and is not evaluated
 * yet (-1: none), unless that ends a text. `keep`: first tokens that a shift keeps. `unread`: the
 * context holds a part of the prompt alone, which is not worth the file that is there. */
enum tern_status resume_save(tern_context *ctx, const struct run_options *o, tern_token last,
                             size_t keep, bool unread, struct tern_error *e);

#endif
