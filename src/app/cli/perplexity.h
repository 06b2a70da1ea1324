/* How well a model predicts a text: mean negative log-likelihood of its tokens, by three ways of
 * cutting the text into sequences. */
#ifndef CLI_PERPLEXITY_H
#define CLI_PERPLEXITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern.h"

struct perplexity {
    uint64_t tokens;      /* scored */
    uint64_t bytes;       /* of the text that they stand for */
    double nll, nll2;     /* sum of the natural log-likelihoods, negated; sum of their squares */
    uint64_t done, total; /* tokens of the text, for progress */
};

/* Called after each sequence; may be NULL. */
typedef void (*perplexity_progress_fn)(const struct perplexity *p);

struct perplexity_job {
    tern_context *ctx;
    const char *text;
    size_t n;
    uint32_t window; /* positions of a sequence, at least 4; at most the context's */
    uint32_t stride; /* of perplexity_windows: 1 to window - 1 */
    perplexity_progress_fn progress;
    /* Called with every token that is scored and the logits that it is scored by; may be NULL. */
    void (*on_token)(void *arg, tern_token token, const float *logits);
    void *arg;
};

/* Each fills *p, also with what it has when TERN_CANCELLED ends it. TERN_LIMIT: a value was not
 * finite, or the text is too short.
 *
 * windows   sequences of BOS and up to window - 1 tokens, each beginning `stride` tokens after the
 *           one before; a token is scored in the first window that holds it, so each once
 * lines     each line that is not empty, cut to the window, is a sequence of its own
 * llamacpp  BOS and text cut into floor(tokens / window) pieces of `window` tokens, whose first
 *           token is replaced by BOS; only tokens after the middle one of each are scored
 *
 * A model that puts no BOS in front of text gets none; the first token is then not scored. */
enum tern_status perplexity_windows(const struct perplexity_job *job, struct perplexity *p,
                                    struct tern_error *e);
enum tern_status perplexity_lines(const struct perplexity_job *job, struct perplexity *p,
                                  struct tern_error *e);
enum tern_status perplexity_llamacpp(const struct perplexity_job *job, struct perplexity *p,
                                     struct tern_error *e);

/* Writes the result to standard output; what is not of the whole text says so. */
void perplexity_print(const struct perplexity *p, bool whole);

#endif
