/* The main job: streams a prompt and its continuation to standard output. Statistics, fingerprint
 * and the reason of an early end go to standard error. */
#ifndef RUN_COMPLETE_H
#define RUN_COMPLETE_H

#include "app/cli/wrap.h"
#include "app/run/constrain.h"
#include "app/run/run_options.h"
#include "app/run/token_report.h"
#include "app/run/stats.h"

/* A context, and how texts are generated with it: for one text, and for the answers of a chat. */
struct completion {
    const struct run_options *o;
    tern_model *model, *draft_model; /* borrowed; owned */
    tern_context *ctx;
    struct tern_sampler_params sampler;
    struct tern_generate_params p;
    struct constrain constrain;
    size_t thought; /* bytes of what ends the thought before the constraint, or 0 */
    struct run_stats stats;
    struct token_report report;
    struct wrap wrap; /* of answers; without wrap_open nothing is wrapped */
    bool is_ids;      /* the model has no tokenizer: token ids are written instead of text */
    bool unread;      /* the one text was cancelled within its prompt */
    tern_token last;  /* the token chosen last */
    bool (*end_text)(
        void *arg);     /* if set, called at the end of a text with p.arg: shows the rest of
                                    it; whether a line ends there */
    double waits_since; /* a prompt that takes its time says how far it is; 0: it does not */
};

/* Opens the draft and the planned context, and restores the session. To be closed also after an
 * error. */
enum tern_status complete_open(struct completion *g, tern_model *model, const struct run_options *o,
                               const struct tern_memory *plan, double load_seconds,
                               struct tern_error *e);
void complete_close(struct completion *g);
void complete_set(struct completion *g); /* after options were changed */

/* The constraint of the options, begun anew with each text. thought [n]: see constrain_open; the same
 * in every call that has one. */
enum tern_status complete_constrain(struct completion *g, const char *thought, size_t n,
                                    struct tern_error *e);

/* Streams what follows the tokens. Only tokens that the context does not hold are evaluated. */
enum tern_status complete_run(struct completion *g, const tern_token *tokens, size_t n,
                              struct tern_error *e);
void complete_print(const struct completion *g); /* statistics, unless --quiet */

/* At the end of all texts: fingerprint and session. `s`: how they ended. */
enum tern_status complete_end(struct completion *g, enum tern_status s, struct tern_error *e);

/* `load_seconds`: what opening the model took, for the statistics. TERN_CANCELLED when a signal or
 * a failing standard output ended the text. */
enum tern_status complete_prompt(tern_model *model, struct run_options *o, double load_seconds,
                                 struct tern_error *e);

/* Prints the token ids of the prompt on one line; with --verbose each on its own, with its text. */
enum tern_status complete_tokenize(const tern_model *model, const struct run_options *o,
                                   struct tern_error *e);

#endif
