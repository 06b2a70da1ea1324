/* What stands between the values and keys of a JSON text: brackets, commas, colons, blanks. */
#ifndef RECOGNIZE_JSON_GAP_H
#define RECOGNIZE_JSON_GAP_H

#include "sample/recognize/json_state.h"

/* A step from a phase AT_ITEM to AT_AFTER. */
enum step gap_step(struct json_recognizer *j, struct track *t, struct place *p, unsigned char byte);
void gap_first(struct json_recognizer *j, const struct level *l, const struct place *p,
               uint64_t set[4]);

#endif
