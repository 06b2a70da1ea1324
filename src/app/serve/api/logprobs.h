/* Log probabilities of tokens, in the form of OpenAI's chat API and in that of its completions. */
#ifndef SERVE_LOGPROBS_H
#define SERVE_LOGPROBS_H

#include <jansson.h>
#include <stddef.h>

#include "app/serve/api/answer_stream.h"
#include "app/serve/server.h"

/* Appends {"token", "id", "bytes", "logprob", "top_logprobs": [{"token", "id", "bytes", "logprob"}]} for
 * each token. `bytes` are empty for special tokens, and `token` is then the name. A forced token, which the
 * constraint left no choice of, has logprob 0 and "forced": true. */
void logprobs_add(json_t *array, const struct server *s, const struct answer_token *tokens,
                  size_t n);

/* The old form: adds to the arrays tokens, token_logprobs, top_logprobs and text_offset of `object`, which
 * must be there. offset: characters of the text before them; it is moved on. */
void logprobs_add_old(json_t *object, const struct server *s, const struct answer_token *tokens,
                      size_t n, size_t *offset);

/* A token's text as a JSON string; what is not UTF-8 becomes U+FFFD. */
json_t *logprobs_text(const tern_model *model, tern_decoder *d, tern_token token);

#endif
