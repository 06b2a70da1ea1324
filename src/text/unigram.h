/* Unigram: a word becomes the ids of its most probable split. */
#ifndef TEXT_UNIGRAM_H
#define TEXT_UNIGRAM_H

#include "text/tokenizer_parts.h"

/* Reads and checks the keys. */
enum tern_status unigram_open(struct tokenizer *t, struct keys *keys, struct tern_error *e);
void unigram_close(struct tokenizer *t);

/* Appends the ids of the word p[0..n), n > 0. False: no memory. */
bool unigram_word(struct encoding *c, const char *p, size_t n);

#endif
