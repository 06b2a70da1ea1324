/* Options of sampling and generation that all APIs have in common: from the fields of a request to a
 * job_request. */
#ifndef SERVE_REQUEST_PARAMS_H
#define SERVE_REQUEST_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/serve/api/fields.h"
#include "app/serve/model/job.h"
#include "tern.h"

struct exchange;
struct server;

enum {
    REQUEST_STOPS_OPENAI = 4, /* as its API states; Anthropic's states none */
    REQUEST_STOPS_MAX = 64,
    REQUEST_STOP_BYTES = 256,
    REQUEST_BIAS_MAX = 1024,
    REQUEST_TOP_MAX = 20
};

struct request_params {
    struct tern_sampler_params sampler; /* bias: owned */
    char *stop[REQUEST_STOPS_MAX + 1];  /* [n_stop] owned; room for the template's own */
    size_t n_stop;
    int64_t n_predict; /* -1: what the context has room for */
    bool ignore_end, no_force, cache_prompt, receipt;
    const char *end_field; /* which of the two names ignore_end has in the request */
    bool timings;          /* wanted in every piece of a stream, too */
    bool return_tokens;    /* ids beside the text */
    bool logprobs;
    unsigned n_top;
};

/* Reads temperature, top_p, top_k, min_p, typical_p, top_n_sigma, the penalties, repeat_penalty
 * (repetition_penalty), repeat_last_n, dry_*, xtc_*, mirostat*, samplers, seed, logit_bias, cache_prompt,
 * ignore_end (ignore_eos), no_force, receipt (or the header x-tern-receipt: 1), return_tokens,
 * timings_per_token. Also sets what stays default. The caller closes p, also after a fault.
 * Defaults are OpenAI's where the model file states none: temperature 1, top_p 1, others off. */
bool request_params_read(struct request_params *p, const struct server *s, struct exchange *x,
                         struct fields *f);
/* What holds where a request says nothing, except the seed: that is --seed, or drawn, and is reported. */
struct tern_sampler_params request_params_defaults(const tern_model *model);
void request_params_close(struct request_params *p);
/* A float of them as people write it, the shortest decimal that is read as the same one: 0.9, not
 * 0.8999999761581421 */
json_t *request_params_real(float value);

/* The most tokens to answer with, from field `name`, at least `min`; absent: as it was. */
bool request_params_length(struct request_params *p, struct fields *f, const char *name,
                           int64_t min);
/* Stop strings from field `name`: a text or an array of at most `max`, which is at most REQUEST_STOPS_MAX,
 * each of at most 256 bytes; empty ones stop nothing. */
bool request_params_stop(struct request_params *p, struct fields *f, const char *name, size_t max);
/* The text with which the model's chat template ends an answer, where it has no token for that. */
bool request_params_chat_stop(struct request_params *p, const tern_model *model);

/* Not where a format or a tool is enforced: that says where the answer ends. */
bool request_params_may_ignore_end(const struct request_params *p, bool constrained,
                                   struct fault *f);

/* The i-th choice of a request: seed + i. Fills r, except kind, prompt and constraint, with copies. After
 * an error r is freed by job_request_free, too. */
bool request_params_job(const struct request_params *p, uint64_t i, uint64_t client,
                        struct job_request *r, struct fault *f);

#endif
