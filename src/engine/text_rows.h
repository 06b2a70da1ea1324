/* The rows of a text: which of its tokens a batch evaluates, and what follows when it has. */
#ifndef ENGINE_TEXT_ROWS_H
#define ENGINE_TEXT_ROWS_H

#include "engine/text.h"

/* Before a step: a full context begins to shift. */
void text_prepare(struct tern_text *t);

/* Tokens that the text's phase has still to evaluate. */
size_t text_wanted(const struct tern_text *t);

/* Whether every prompt row asks for logits. */
bool text_wants_all(const struct tern_text *t);

/* What is to be evaluated whole or not at all, so that a cancel waits. */
bool text_is_held(const struct tern_text *t);

/* Adds tokens from .. to - 1 to the batch, and the guesses behind them. */
void text_add_rows(struct tern_text *t);

/* They were evaluated: calls on_prompt, and sets t->logits if a token is to be chosen. */
void text_evaluated(struct tern_text *t);

#endif
