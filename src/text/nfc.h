/* Unicode normalization form C, with the reference's tables. */
#ifndef TEXT_NFC_H
#define TEXT_NFC_H

#include "text/buffer.h"

/* Appends the form C of p[0..n), which is UTF-8. False: no memory. */
bool nfc_append(struct buffer *out, const char *p, size_t n);

#endif
