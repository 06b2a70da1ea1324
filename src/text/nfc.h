/* Unicode normalization forms C and D, with the reference's tables. */
#ifndef TEXT_NFC_H
#define TEXT_NFC_H

#include "base/stop.h"
#include "text/buffer.h"

/* Appends the form C of p[0..n), which is UTF-8; without `compose` the form D. `stop` may be NULL. False: no
 * memory, or stopped. */
bool nfc_append(struct buffer *out, const char *p, size_t n, bool compose, struct stop *stop);

#endif
