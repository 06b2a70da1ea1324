/* How wide text is on a terminal. */
#ifndef CLI_COLUMNS_H
#define CLI_COLUMNS_H

#include <stddef.h>

/* Columns of the character that text[0..n) begins with, n > 0, and in *bytes its length: 0 of one
 * that combines, 2 of a wide one, else 1. A byte that is not UTF-8 counts as one character. */
size_t columns_of(const char *text, size_t n, size_t *bytes);

/* Columns of the terminal behind fd; 0: it does not say, or there is none. */
size_t columns_of_terminal(int fd);

#endif
