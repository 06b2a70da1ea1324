/* Escapes in strings and keys. */
#ifndef RECOGNIZE_JSON_ESCAPE_H
#define RECOGNIZE_JSON_ESCAPE_H

#include "sample/recognize/json_state.h"

enum step escape_begin(struct json_recognizer *j, struct track *t,
                       struct place *p); /* the backslash */
enum step escape_step(struct json_recognizer *j, struct track *t, struct place *p,
                      unsigned char byte);
void escape_first(const struct place *p, uint64_t set[4]);

/* The word goes on with these bytes of its text (json_word.c). */
enum step word_take(struct json_recognizer *j, struct track *t, struct place *p,
                    const unsigned char *bytes, size_t n);

#endif
