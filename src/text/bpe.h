/* BPE: a word becomes ids by the ranks of merges. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "text/tokenizer_parts.h"

/* Reads and checks the keys. */
enum tern_status bpe_open(struct tokenizer *t, struct keys *keys, struct tern_error *e);
void bpe_close(struct tokenizer *t);

/* Appends the ids of the word p[0..n), n > 0. False: no memory. */
bool bpe_word(struct encoding *c, const char *p, size_t n);

#endif
