/* What unicode_tables.c holds, each table as narrow as it can be. */
#ifndef TEXT_UNICODE_TABLES_H
#define TEXT_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Classes (UNICODE_LETTER ... bits): ranges of a kind, the low byte of the first code point << 8 |
 * kind. KINDS has the classes of its even and of its odd code points, so that letters which are
 * capital and small in turns are one range. INDEX has for every 256 code points the last range that
 * begins before them, and one more. Code points from UNICODE_FOLD on are without a class, but for
 * those of U+E0000 to U+E0FFF, whose place in the tables is UNICODE_FOLD on. */
enum { UNICODE_FOLD = 0x33400 };
extern const uint16_t UNICODE_CLASSES[], UNICODE_INDEX[];
extern const uint16_t UNICODE_KINDS[][2];
extern const uint16_t UNICODE_ASCII[]; /* [128] classes of ASCII */

/* Order of the combining class (0: none): ranges, first code point << 8 | value. */
extern const uint32_t UNICODE_RANKS[];
extern const size_t UNICODE_RANKS_N;

/* Rows of code points without their planes, in sections of c's plane and the plane of the rest, in
 * each by c. PLANES has for each section plane << 4 | plane, and the row behind its last. */
extern const uint16_t UNICODE_PAIRS[][3]; /* c, first, second: canonical decomposition */
extern const uint16_t UNICODE_PAIR_PLANES[][2];
extern const size_t UNICODE_PAIR_PLANES_N;
extern const uint16_t UNICODE_SINGLES[][2]; /* c, what it always becomes */
extern const uint16_t UNICODE_SINGLE_PLANES[][2];
extern const size_t UNICODE_SINGLE_PLANES_N;
extern const uint16_t UNICODE_COMPOSED[]; /* rows of PAIRS that are composed; by first, second */
extern const size_t UNICODE_COMPOSED_N;

#endif
