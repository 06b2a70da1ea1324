/* Steps of the JSON recognizer. */
#ifndef CONSTRAINT_JSON_STEP_H
#define CONSTRAINT_JSON_STEP_H

#include "sample/constraint/json_state.h"

/* From p by one byte, without asking whether more than repeats can follow. */
enum step json_advance(struct json_recognizer *j, struct track *t, struct place *p,
                       unsigned char byte);
/* A set that holds every byte that may follow, and few others. */
void json_first(struct json_recognizer *j, struct track *t, const struct place *p, uint64_t set[4]);

#endif
