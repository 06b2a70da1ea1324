/* Words: a word is one id. */
#ifndef TEXT_WORD_LEVEL_H
#define TEXT_WORD_LEVEL_H

#include "text/tokenizer_parts.h"

/* Checks that there is an unknown token. */
enum tern_status word_level_open(struct tokenizer *t, struct keys *keys, struct tern_error *e);

/* Appends the id of the word p[0..n), n > 0, or `unk`. */
bool word_level_word(struct encoding *c, const char *p, size_t n);

#endif
