/* What unicode_tables.c holds; unicode_data.c reads it. */
#ifndef TEXT_UNICODE_TABLES_H
#define TEXT_UNICODE_TABLES_H

#include <stdint.h>

/* Code points from UNICODE_FOLD on are without a class, but for those of U+E0000 to U+E0FFF, whose
 * place in the table of classes is UNICODE_FOLD on. */
enum { UNICODE_FOLD = 0x33400, UNICODE_FOLDED = UNICODE_FOLD + 0x1000 };
extern const uint16_t UNICODE_KINDS[]; /* classes (UNICODE_LETTER ... bits) that there are */
extern const unsigned char UNICODE_PACKED_CLASSES[], UNICODE_PACKED_FORMS[];

#endif
