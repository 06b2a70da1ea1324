/* The pre-tokenizer: cuts a normalized text into the words that the model sees one by one. */
#ifndef TEXT_PRETOKENIZE_H
#define TEXT_PRETOKENIZE_H

#include "text/growth.h"

struct pretokenize {
    const struct steps *steps;
    struct buffer scratch[STEPS_MAX];                 /* owned; [i] holds what step i rewrote */
    struct growth growth;                             /* of all texts of a call */
    bool (*word)(void *arg, const char *p, size_t n); /* false stops */
    void *arg;
};

/* Gives the words of p[0..n) to `word`, in order; empty ones are left out. `first`: the text
 * begins where the whole input begins. False: no memory, growth.over,
 * stopped, or `word` said so. */
bool pretokenize_run(struct pretokenize *r, const char *p, size_t n, bool first);

#endif
