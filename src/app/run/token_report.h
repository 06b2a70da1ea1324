/* What is told of every token: --logprobs as lines on standard error, --jsonl as one JSON object a
 * line on standard output, in the place of the text. */
#ifndef RUN_TOKEN_REPORT_H
#define RUN_TOKEN_REPORT_H

#include "app/run/run_options.h"
#include "app/run/stats.h"

struct report {
    const struct options *o;
    tern_context *ctx;
    tern_decoder *decoder;   /* NULL: a model without tokenizer */
    struct tern_choice *top; /* [--logprobs], owned */
    size_t index;            /* of the next token */
    bool is_json;
};

/* To be closed also after an error. */
enum tern_status report_open(struct report *r, tern_context *ctx, const struct options *o,
                             struct tern_error *e);
void report_close(struct report *r);

bool report_wants_tokens(const struct report *r);
/* A token, and the logits that it was chosen from. False: standard output failed. */
bool report_token(struct report *r, tern_token token, const float *logits);
/* Text that the last token gave, with --jsonl. */
bool report_text(struct report *r, const char *text, size_t n);
/* All tokens are told: the object of the whole, with --jsonl. `stats` NULL: it failed. */
void report_end(struct report *r, const struct stats *stats);

#endif
