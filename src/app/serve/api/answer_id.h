/* Names of answers and of their parts. */
#ifndef SERVE_ANSWER_ID_H
#define SERVE_ANSWER_ID_H

enum { ANSWER_ID_BYTES = 48 };

/* prefix, at most 20 bytes, and 24 random hexadecimal digits: "resp_5d0c...". */
void answer_id(char id[ANSWER_ID_BYTES], const char *prefix);

#endif
