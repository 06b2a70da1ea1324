/* Numbers that a Split pattern cuts in threes from their end: 1234567 is 1, 234, 567. A number is looked
 * at once: behind one of its digits, the rest is threes. */
#ifndef TEXT_SPLIT_NUMBER_H
#define TEXT_SPLIT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* End of the part that begins at text[at], or `at`. Numbers are of \p{N}, or `decimal`: of \d, and must
 * end a word. Where a number did not match at its first digit, do not ask behind that one. */
size_t split_number_end(const char *text, size_t at, size_t n, bool decimal);

/* Whether text[at - 1] and text[at] are of one number of \d; 0 < at < n. */
bool split_number_within(const char *text, size_t at, size_t n);

#endif
