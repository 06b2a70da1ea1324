/* Names of answers and of their parts. */
#ifndef SERVE_ANSWER_ID_H
#define SERVE_ANSWER_ID_H

#include <stddef.h>

enum { ANSWER_ID_BYTES = 48 };

/* prefix, at most 20 bytes, and 24 random hexadecimal digits: "resp_5d0c...". */
void answer_id(char id[ANSWER_ID_BYTES], const char *prefix);

/* The number of an answer's first call, at random, for models that write no ids: numbers from 0 on would
 * come again where a client drops the beginning of a conversation. Nine digits hold it and those after it. */
size_t answer_first_call(void);

#endif
