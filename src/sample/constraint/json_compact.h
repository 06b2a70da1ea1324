/* Shorter tracks for the JSON recognizer. */
#ifndef CONSTRAINT_JSON_COMPACT_H
#define CONSTRAINT_JSON_COMPACT_H

#include "sample/constraint/recognizer.h"

/* recognizer.compact */
enum step json_compact(void *self, const struct track *from, struct track *to, struct place *p,
                       size_t n);

#endif
