/* What the suites of receipts share: an answer of the model that ships or of another, its options and
 * its receipt. */
#ifndef TESTS_RECEIPT_STORY_H
#define TESTS_RECEIPT_STORY_H

#include <stdbool.h>

#include "tern_lab.h"

enum { STORY_MOST = 400 }; /* tokens */

extern const char story_fable[];
extern const char *const story_stops[3];
extern tern_model *story_model; /* of all functions here */

struct story {
    tern_token prompt[STORY_MOST], answer[STORY_MOST];
    size_t n_prompt, n_answer;
    struct tern_sampler_params sampler;
    struct tern_generate_params p;
    struct tern_constraint_params constraint;
    bool is_bound;
    struct tern_generate_result result;
    enum tern_cache_type cache_type;
    uint32_t n_batch, n_ctx;
    size_t cancel_at; /* token that ends it; 0: none */
    char text[20000];
    size_t n;
};

tern_model *story_open_model(const char *path, const char *cpu, int n_threads);
void story_open_fable(void);
void story_close_model(void);

void story_begin(struct story *s, const char *prompt); /* or none; the options are few */
void story_draw(struct story *s, uint64_t seed);       /* every option, on with some chance */
void story_bind(struct story *s, size_t i); /* to one of six constraints, again and again */
int story_on_token(void *arg, tern_token token, const float *logits);
void story_generate(struct story *s);
enum tern_status story_receipt(struct story *s, struct tern_error *e);
void story_make(struct story *s); /* both */
void story_long(struct story *s); /* an answer with many options that holds */

struct tern_receipt_verdict story_proven_by(tern_model *m, const char *text, size_t n);
void story_must_hold(const struct story *s);

#endif
