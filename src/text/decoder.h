/* The way back: token ids in, text out. */
#ifndef TEXT_DECODER_H
#define TEXT_DECODER_H

#include "text/tokenizer.h"

struct decoder;
struct steps; /* tokenizer_steps.h */

/* Checks that the decoder's steps stand in an order that decoder.c can stream. */
enum tern_status decoder_check(const struct steps *steps, struct tern_error *e);

/* Streaming decoder: ids in, whole UTF-8 characters out. Pushing cannot fail: all memory is taken
 * by open. To continue a text, push its ids first and drop what comes out, because the space that
 * a tokenizer puts before the text is removed from the very first token only. An id out of range
 * gives no text. Special tokens give their text if `show_special` or shown by decoder_show, else nothing.
 * The text returned is borrowed until the next call. */
enum tern_status decoder_open(struct decoder **out, const struct tokenizer *t, bool show_special,
                              struct tern_error *e);
void decoder_close(struct decoder *d);
/* Up to two special tokens give their text whatever show_special is; below 0: none. */
void decoder_show(struct decoder *d, const int32_t ids[2]);
const char *decoder_push(struct decoder *d, int32_t id, size_t *n);
const char *decoder_finish(struct decoder *d, size_t *n); /* the rest; then as after open */
/* A token's own bytes within a text; the state stays. Borrowed until the next call. */
const char *decoder_bytes(struct decoder *d, int32_t id, size_t *n);

#endif
