/* Shorter tracks for the JSON recognizer. */
#ifndef RECOGNIZE_JSON_COMPACT_H
#define RECOGNIZE_JSON_COMPACT_H

#include "sample/recognize/recognizer.h"

/* recognizer.compact */
enum step json_compact(void *self, const struct track *from, struct track *to, struct place *p,
                       size_t n);

#endif
