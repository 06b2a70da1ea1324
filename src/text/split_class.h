/* Classes of characters that few Split patterns ask for. Those of most are in unicode.h. */
#ifndef TEXT_SPLIT_CLASS_H
#define TEXT_SPLIT_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool split_class_han(uint32_t c);   /* \p{Han} */
bool split_class_digit(uint32_t c); /* \d */
bool split_class_word(uint32_t c);  /* \w */

/* The character before text[at]; at > 0. */
uint32_t split_class_before(const char *text, size_t at);

#endif
