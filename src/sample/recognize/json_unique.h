/* What must not come twice: keys of an object, items of an array of unique items. Both are remembered by
 * the hash of their value, so that a repeat is always found. */
#ifndef RECOGNIZE_JSON_UNIQUE_H
#define RECOGNIZE_JSON_UNIQUE_H

#include "base/hash_mix.h"
#include "sample/recognize/json_seen.h"
#include "sample/recognize/json_state.h"

/* Remembers it in the draft; false: no room. */
bool unique_remember(struct json_recognizer *j, struct track *t, struct place *p,
                     const struct seen_key *key);
/* The draft's value has this hash: an array's item, or the member of draft.key. */
bool unique_value(struct json_recognizer *j, struct track *t, struct place *p,
                  const struct seen_key *key);

/* After a step to p: whether more than repeats can follow. */
enum step unique_check(struct json_recognizer *j, struct track *t, const struct place *p);

/* Whether repeats cannot end the word within `reach` bytes that is being read, of which `rest` is to
 * come. `reach` is always the same. */
bool unique_free(struct json_recognizer *j, const struct track *t, const struct place *p, lang rest,
                 uint32_t reach);
void unique_close(struct json_recognizer *j);

/* `numbers` in the one spelling of each value. */
lang unique_numbers(struct json_recognizer *j, lang numbers);
#endif
