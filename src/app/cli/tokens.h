/* Text to tokens, in memory of the right size. */
#ifndef CLI_TOKENS_H
#define CLI_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "tern.h"

/* The ids of text[0..n) into *tokens, which the caller frees. `flags` as for tern_tokenize; with
 * TERN_MUST_FIT, only `most` of them are wanted, and *tokens has room for one at least. */
enum tern_status tokens_take(const tern_model *model, const char *text, size_t n, unsigned flags,
                             size_t most, tern_token **tokens, size_t *n_tokens,
                             struct tern_error *e);

/* --prompt-ids: numbers separated by spaces, commas or line feeds, into *tokens, which the caller
 * frees, also after an error. */
enum tern_status tokens_take_ids(const tern_model *model, const char *text, tern_token **tokens,
                                 size_t *n_tokens, struct tern_error *e);

bool tokens_have_text(const tern_model *model); /* the model has a tokenizer */

/* The token that the model's tokenizer puts before a text, or -1. */
tern_token tokens_prefix(const tern_model *model);

#endif
