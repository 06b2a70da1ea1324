/* SentencePiece BPE: a word becomes ids by joining the neighbours of the best score. */
#ifndef TEXT_SPM_H
#define TEXT_SPM_H

#include "text/tokenizer_parts.h"

/* Reads and checks the keys. */
enum tern_status spm_open(struct tokenizer *t, struct keys *keys, struct tern_error *e);
void spm_close(struct tokenizer *t);

/* Appends the ids of the word p[0..n), n > 0. False: no memory. */
bool spm_word(struct encoding *c, const char *p, size_t n);

/* Appends what stands for the unknown p[0..n): byte tokens if all exist, else `unk`, but not after
 * another one where they are fused. */
void spm_put_unknown(struct encoding *c, const char *p, size_t n, bool *after_unk);

#endif
