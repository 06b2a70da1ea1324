/* What unicode_tables.c holds. Ranges: start << 8 | value, ascending, from code point 0. */
#ifndef TEXT_UNICODE_TABLES_H
#define TEXT_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

extern const uint32_t UNICODE_CLASSES[]; /* ranges of UNICODE_LETTER ... bits */
extern const size_t UNICODE_CLASSES_N;
extern const unsigned char UNICODE_ASCII[]; /* [128] the same of ASCII */
extern const uint16_t UNICODE_INDEX[]; /* [0x1101] range that the first of 256 code points is in */
extern const uint32_t UNICODE_RANKS[]; /* ranges: order of the combining class; 0: none */
extern const size_t UNICODE_RANKS_N;
extern const uint32_t UNICODE_PAIRS[][3]; /* c, first, second: canonical decomposition; by c */
extern const size_t UNICODE_PAIRS_N;
extern const uint32_t UNICODE_SINGLES[][2]; /* c, what it always becomes; by c */
extern const size_t UNICODE_SINGLES_N;
extern const uint16_t UNICODE_COMPOSED[]; /* rows of PAIRS that are composed; by first, second */
extern const size_t UNICODE_COMPOSED_N;

#endif
