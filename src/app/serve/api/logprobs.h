/* Log probabilities of tokens, in the form of OpenAI's chat API and in that of its completions. */
#ifndef SERVE_LOGPROBS_H
#define SERVE_LOGPROBS_H

#include <jansson.h>
#include <stddef.h>

#include "app/cli/growing_text.h"
#include "app/serve/api/answer_stream.h"
#include "app/serve/server.h"

/* Appends {"token", "id", "bytes", "logprob", "top_logprobs": [{"token", "id", "bytes", "logprob"}]} for
 * each token. `bytes` are empty for special tokens, and `token` is then the name. A forced token, which the
 * constraint left no choice of, has logprob 0 and "forced": true. */
void logprobs_add(json_t *array, const struct server *s, const struct answer_token *tokens,
                  size_t n);

/* The old form, an object with the arrays tokens, token_logprobs, top_logprobs and text_offset. NULL: no
 * memory. */
json_t *logprobs_old(void);
/* Adds to them. offset: characters of the text before the tokens; it is moved on. `text` has been given the
 * tokens before these and is given these. The token itself is one of top_logprobs, too, as OpenAI has it. */
void logprobs_add_old(json_t *object, const struct server *s, const struct answer_token *tokens,
                      size_t n, tern_decoder *text, size_t *offset);

/* Those of a prompt wait as they are until the answer is written: as JSON they take ten times the room. */
struct prompt_logprobs {             /* zeroed: none */
    struct growing_text tokens, top; /* answer_token [n], whose `top` are in tern_choice [] */
};
void prompt_logprobs_add(struct prompt_logprobs *p, const struct answer_token *t);
bool prompt_logprobs_failed(const struct prompt_logprobs *p); /* memory ran out */
/* In the old form. offset: as above, from the beginning of the prompt. */
void prompt_logprobs_put(const struct prompt_logprobs *p, json_t *object, const struct server *s,
                         size_t *offset);
void prompt_logprobs_close(struct prompt_logprobs *p);

/* A token's text as a JSON string; what is not UTF-8 becomes U+FFFD. */
json_t *logprobs_text(const tern_model *model, tern_decoder *d, tern_token token);

#endif
