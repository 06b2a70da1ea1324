/* The attention zoo: the ways to compute attention that papers have found, each one function over
 * plain f32 arrays, for teaching and as a cross-check of attention.c. In: struct tern_zoo of one
 * sequence, every field set. Out: z->out, and z->weights where they are wanted. */
#ifndef MODEL_ZOO_H
#define MODEL_ZOO_H

#include <stdbool.h>

#include "tern_lab.h"

/* What a kind computes, which settles its cost */
enum zoo_form { ZOO_PAIRS, ZOO_BAND, ZOO_LATENT, ZOO_STATE };

struct zoo_kind {
    const char *name, *paper;
    enum zoo_form form;
    void (*run)(const struct tern_zoo *z, float *scratch);
    size_t (*scratch)(const struct tern_zoo *z); /* floats that run needs */
};

/* NULL: there is no such kind */
const struct zoo_kind *zoo_find(const char *name);
const struct zoo_kind *zoo_at(size_t i);

/* Whether row i sees key j. */
bool zoo_sees(const struct tern_zoo *z, size_t i, size_t j);

#endif
