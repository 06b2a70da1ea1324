/* The tokenizer: text in, token ids out, and back. It is a list of steps read from the section
 * `tokenizer` of the weights file (TOKENIZER.md): added tokens, normalizer, pre-tokenizer, model
 * (SentencePiece BPE by scores, BPE by ranks of merges, unigram, or whole words), ids added around the text,
 * decoder.
 *
 * The whole section is validated by tokenizer_open; afterwards only memory can fail. A tokenizer
 * never changes once it is used: any number of threads may use one. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "base/stop.h"
#include "weights/keys.h"

struct tokenizer;

/* Reads the section from its parsed keys, or from its raw bytes (8-byte aligned). Their memory
 * must outlive the tokenizer. `vocab` is the number of rows of the model's embedding: more tokens
 * than that are refused; with fewer, the ids above have no text. */
enum tern_status tokenizer_open(struct tokenizer **out, struct keys *keys, uint64_t vocab,
                                struct tern_error *e);
enum tern_status tokenizer_open_bytes(struct tokenizer **out, const void *section, size_t n,
                                      uint64_t vocab, struct tern_error *e);
void tokenizer_close(struct tokenizer *t);

/* From now on whoever encodes a long text asks `stop`, in its thread; non-zero ends that with TERN_CANCELLED.
 * Before the tokenizer is used by several threads. */
void tokenizer_stop_when(struct tokenizer *t, int (*stop)(void *arg), void *arg);
/* For work that takes many short calls: whom to ask meanwhile. */
struct stop tokenizer_stop(const struct tokenizer *t);

/* Ids of text[0..n). `flags` are TERN_ADD_SPECIAL, TERN_PARSE_SPECIAL and TERN_MUST_FIT of tern.h:
 * without the second (plain mode) special tokens written in the text stay text. At most `max` ids
 * are written; *n_out is the full count. With the third, a word whose length alone makes more than
 * `max` certain is TERN_LIMIT before its model sees it. Fails with TERN_NO_MEMORY (a text takes up to about 50 bytes of
 * working memory per byte), or TERN_LIMIT: above 1 GiB, or where its steps make the text too long
 * (text/growth.h). */
enum {                               /* flags beside them */
       TOKENIZER_CONTINUES = 1 << 8, /* the text does not begin a text */
       TOKENIZER_FIRST = 1 << 9, /* the first `max` ids are enough: the words after are not read */
};
enum tern_status tokenizer_encode(const struct tokenizer *t, const char *text, size_t n,
                                  unsigned flags, int32_t *out, size_t max, size_t *n_out,
                                  struct tern_error *e);

/* Bytes of a token as they stand in the vocabulary (SentencePiece's U+2581 for a space and names
 * such as <0x0A> are kept; the alphabet of byte-level BPE is undone); borrowed from the section.
 * "" of length 0 for an id without text or out of range. */
const char *tokenizer_text(const struct tokenizer *t, int32_t id, size_t *n);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);

/* Id of the added token with exactly this content, or -1; *flags are those of text/added.h. */
int32_t tokenizer_find(const struct tokenizer *t, const char *content, size_t n, uint32_t *flags);

uint64_t tokenizer_n_tokens(const struct tokenizer *t); /* tokens stored; at most vocab */
int32_t tokenizer_bos(const struct tokenizer *t);       /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t);       /* -1: none */

#endif
