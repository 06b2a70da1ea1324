/* What surgery does to the next token, and to the text that follows. */
#ifndef LOOK_BEFORE_AFTER_H
#define LOOK_BEFORE_AFTER_H

#include "app/look/edits.h"

enum { BEFORE_AFTER_TOP = 10 }; /* most probable tokens that are shown of each run */

struct outcome { /* of one run */
    const struct subject *s;
    float *logits;      /* [vocab] of the token after the text; owned */
    tern_token *tokens; /* [n] what follows the text; owned */
    size_t n;
};

enum tern_status before_after_show(struct subject *s, struct tern_error *e);

/* KL of the next token: sum over tokens of p (log p - log q), in nats */
double before_after_divergence(const struct outcome *p, const struct outcome *q);

#endif
