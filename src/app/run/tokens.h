/* Text to tokens, in memory of the right size. */
#ifndef RUN_TOKENS_H
#define RUN_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "tern.h"

/* The ids of text[0..n) into *tokens, which the caller frees. `flags` as for tern_tokenize. */
enum tern_status tokens_take(const tern_model *model, const char *text, size_t n, unsigned flags,
                             tern_token **tokens, size_t *n_tokens, struct tern_error *e);

bool tokens_have_text(const tern_model *model); /* the model has a tokenizer */

/* The token that the model's tokenizer puts before a text, or -1. */
tern_token tokens_prefix(const tern_model *model);

#endif
