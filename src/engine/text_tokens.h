/* The tokens of a text: in: the logits behind its last one; out: the next ones, passed to the callbacks,
 * until it ends. */
#ifndef ENGINE_TEXT_TOKENS_H
#define ENGINE_TEXT_TOKENS_H

#include "engine/text.h"

/* Of a text that has just been opened: what its constraint says of the beginning. */
enum tern_status text_look_first(struct tern_text *t, struct tern_error *e);

/* The prompt is read: the text may be over already, or have tokens that must come first. */
void text_begin(struct tern_text *t);

/* Chooses from t->logits, by the sampler's scratch, into the text, unless it is late. Calls nothing of the
 * caller's, and may run for several texts at the same time. */
void text_choose(struct tern_text *t, const struct sampler *sampler);

/* What was chosen is the text's next token, and those follow that must come then. */
void text_take(struct tern_text *t);
/* The same for what tern_text_catch_up has chosen. */
void text_take_late(struct tern_text *t);
/* The state goes back to where the text is. */
void text_drop_ahead(struct tern_text *t);

/* Tokens that must come and were not taken for want of room. */
void text_take_forced(struct tern_text *t);

/* Nothing more is chosen: the text ends once all tokens but the last one are evaluated. */
void text_end(struct tern_text *t);
void text_cancel(struct tern_text *t);
void text_finish(struct tern_text *t); /* they are */
void text_fail(struct tern_text *t, enum tern_status s);

#endif
