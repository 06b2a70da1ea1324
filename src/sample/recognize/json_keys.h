/* Keys of the JSON recognizer: which may come, and which member each is. */
#ifndef RECOGNIZE_JSON_KEYS_H
#define RECOGNIZE_JSON_KEYS_H

#include "sample/recognize/json_state.h"

bool json_keys_open(struct json_recognizer *j); /* false: no room */
void json_keys_close(struct json_recognizer *j);

/* The keys that may come next in the innermost level, an object; LANG_NONE: none. Keys that came before
 * may be in it: json_key_end refuses them. */
lang json_keys_next(struct json_recognizer *j, const struct level *l);
/* The recorded key is over: the level waits for its value. */
enum step json_key_end(struct json_recognizer *j, struct track *t, struct place *p);

#endif
