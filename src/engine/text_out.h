/* The text of tern_generate, on its way to on_text: tokens in; whole characters out, without what may
 * become a stop string. */
#ifndef ENGINE_TEXT_OUT_H
#define ENGINE_TEXT_OUT_H

#include <stdbool.h>
#include <stddef.h>

#include "tern.h"

struct text_out {
    const struct tern_generate_params *p;
    struct tern_generate_result *result; /* gets the reason of an end */
    struct tern_error *error;
    tern_decoder *decoder; /* owned; NULL: a model without tokenizer */
    char *held;            /* [n] of [capacity] text that may be the beginning of a stop string */
    size_t n, capacity;    /* owned */
    bool stopped;          /* by a stop string or a callback */
};

/* Zeroed is closed. The prompt passes through the decoder unseen, so that the continuation is spaced
 * as its rest. */
enum tern_status text_out_open(struct text_out *t, const tern_model *model,
                               const tern_token *prompt, size_t n);
void text_out_close(struct text_out *t);

void text_out_stop(struct text_out *t, enum tern_stop_reason reason);
enum tern_status text_out_put(struct text_out *t, tern_token token);
/* What the decoder and the stop strings still hold back when the text has ended. */
enum tern_status text_out_finish(struct text_out *t);

#endif
