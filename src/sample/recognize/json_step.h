/* Steps of the JSON recognizer. */
#ifndef RECOGNIZE_JSON_STEP_H
#define RECOGNIZE_JSON_STEP_H

#include "sample/recognize/json_state.h"

/* From p by one byte, without asking whether more than repeats can follow. */
enum step json_advance(struct json_recognizer *j, struct track *t, struct place *p,
                       unsigned char byte);
/* A set that holds every byte that may follow, and few others. */
void json_first(struct json_recognizer *j, struct track *t, const struct place *p, uint64_t set[4]);

#endif
