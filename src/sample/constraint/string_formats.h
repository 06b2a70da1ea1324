/* JSON Schema's formats as languages: which texts (unescaped UTF-8) a format allows. */
#ifndef CONSTRAINT_STRING_FORMATS_H
#define CONSTRAINT_STRING_FORMATS_H

#include "sample/constraint/language.h"

/* *known is false, and the answer LANG_ALL, for a name that has no exact language here: the caller
 * ignores it where the standard says so, or refuses. LANG_FAIL: no budget or no memory. */
lang format_lang(struct languages *ls, const char *name, size_t n, bool *known);

#endif
