/* Prompts of models that fill in the middle: text before and behind the gap, between marks that the model
 * learned. */
#ifndef SERVE_FILL_IN_H
#define SERVE_FILL_IN_H

#include "app/serve/api/prompts.h"

/* Finds the marks by their names in the vocabulary, which is long: once, when the model is there. */
struct fill_in_marks fill_in_find(const tern_model *model);
/* Makes p, a prompt, the one that asks for what stands between p and suffix[n]. 400 where the model knows no
 * marks. */
bool fill_in_make(struct prompt *p, const struct server *s, const char *suffix, size_t n,
                  struct fault *f);

#endif
