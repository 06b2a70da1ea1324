/* A report of every token: --logprobs writes lines to standard error; --jsonl writes a line of JSON
 * to standard output instead of the text. */
#ifndef RUN_TOKEN_REPORT_H
#define RUN_TOKEN_REPORT_H

#include "app/cli/growing_text.h"
#include "app/run/run_options.h"
#include "app/run/stats.h"

struct token_report {
    const struct run_options *o;
    tern_context *ctx;
    tern_decoder *decoder;    /* NULL: a model without tokenizer */
    struct tern_choice *top;  /* [--logprobs], owned */
    struct growing_text late; /* lines of --logprobs that wait for the end of the text, because text
                               * and lines would meet on a terminal */
    bool is_late;
    size_t index; /* of the next token */
    bool is_json;
};

/* To be closed also after an error. */
enum tern_status token_report_open(struct token_report *r, tern_context *ctx,
                                   const struct run_options *o, struct tern_error *e);
void token_report_close(struct token_report *r);

bool token_report_wants_tokens(const struct token_report *r);
/* A token, and the logits that it was chosen from; NULL: it was forced. False: standard output failed. */
bool token_report_add(struct token_report *r, tern_token token, const float *logits);
/* Text that the last token gave, with --jsonl. */
bool token_report_text(struct token_report *r, const char *text, size_t n);
/* After the last token and its text: ends its line. */
void token_report_end_text(struct token_report *r);
/* Then the object of the whole, with --jsonl. `why`: the text failed; NULL: it did not.
 * Without both there is no such object. */
void token_report_end(struct token_report *r, const struct run_stats *stats,
                      const struct tern_error *why);

#endif
