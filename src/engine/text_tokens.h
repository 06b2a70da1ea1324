/* The tokens of a text: in: the logits behind its last one; out: the next ones, passed to the callbacks,
 * until it ends. */
#ifndef ENGINE_TEXT_TOKENS_H
#define ENGINE_TEXT_TOKENS_H

#include "engine/text.h"

/* The prompt is read: the text may be over already, or have tokens that must come first. */
void text_begin(struct tern_text *t);

/* Chooses from t->logits, by the sampler's scratch, into the text. Calls nothing of the caller's, and may
 * run for several texts at the same time. */
void text_choose(struct tern_text *t, const struct sampler *sampler);

/* What was chosen is the text's next token, and those follow that must come then. */
void text_take(struct tern_text *t);

/* Tokens that must come and were not taken for want of room. */
void text_take_forced(struct tern_text *t);

/* Nothing more is chosen: the text ends once all tokens but the last one are evaluated. */
void text_end(struct tern_text *t);
void text_cancel(struct tern_text *t);
void text_finish(struct tern_text *t); /* they are */
void text_fail(struct tern_text *t, enum tern_status s);

#endif
