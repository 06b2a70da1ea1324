/* Forced runs: text that has one continuation is not sampled but put in.
 *
 * The run of a place is the longest row of bytes of which each is the only one that can follow, at places where
 * the text cannot end; at most FORCED_BYTES, and then the text is not over. Its tokens are
 *   1. the ids by which the model's tokenizer encodes the last token's bytes and the run, as the middle of a
 *      text (behind a line break, where the tokenizer writes something before each text), without the first id if that is the last token itself; where it is another one (the last
 *      token and the run would have become one token), the ids of the run alone. A special token in the run
 *      is its id, and what stands before and behind it is encoded by itself;
 *   2. of these the longest beginning whose bytes are the run's (a tokenizer may change a text);
 *   3. without the last one, because free text may extend it into a longer token, unless the text is over
 *      behind the run.
 * All of them are allowed by the masks, because their bytes are the run's.
 *
 * Asked once before the first token and once after each token that was sampled, and put in whole, they are a
 * function of the tokens accepted, and so is the text: batches and guesses cannot change it. */
#ifndef CONSTRAINT_FORCED_H
#define CONSTRAINT_FORCED_H

#include "sample/constraint/constraint_state.h"

enum { FORCED_BYTES = 1024 };

/* What can follow a place: nothing, one byte (*byte), or several. FORCED_NO_ROOM: the budget is gone */
enum forced { FORCED_NONE, FORCED_ONE, FORCED_SEVERAL, FORCED_NO_ROOM };
enum forced forced_next(const struct recognizer *r, struct track *t, const struct place *p,
                        unsigned char *byte);

/* The tokens of the state's run, at most max; none where the budget is gone. */
enum tern_status forced_tokens(tern_constraint_state *s, tern_token *tokens, size_t max, size_t *n,
                               struct tern_error *e);

#endif
