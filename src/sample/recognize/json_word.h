/* Values and keys of JSON that are words: strings with escapes, numbers, literals. */
#ifndef RECOGNIZE_JSON_WORD_H
#define RECOGNIZE_JSON_WORD_H

#include "sample/recognize/json_state.h"

#define VALUE_BYTES "\"[{-0123456789tfnTFN\xFF"

/* The first byte of a value for which the innermost level waits; of any kind. */
enum step value_begin(struct json_recognizer *j, struct track *t, struct place *p,
                      unsigned char byte);
void value_first(struct json_recognizer *j, const struct level *l, uint64_t set[4]);
enum step key_begin(struct json_recognizer *j, struct track *t, struct place *p); /* its quote */

enum step literal_step(struct json_recognizer *j, struct track *t, struct place *p,
                       unsigned char byte);
enum step string_step(struct json_recognizer *j, struct track *t, struct place *p,
                      unsigned char byte);
/* STEP_DEAD: no number goes on so; if number_end then answers alive, the byte belongs behind it. */
enum step number_step(struct json_recognizer *j, struct track *t, struct place *p,
                      unsigned char byte);
enum step number_end(struct json_recognizer *j, struct track *t, struct place *p);
void word_first(struct json_recognizer *j, struct track *t, const struct place *p, uint64_t set[4]);

/* The rest of the word, of any kind. LANG_NONE: p is in no word. */
lang word_rest(struct json_recognizer *j, const struct place *p);

#endif
