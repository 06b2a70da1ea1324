/* Keywords of strings, as languages of their content. */
#ifndef SCHEMA_SCHEMA_STRING_H
#define SCHEMA_SCHEMA_STRING_H

#include "sample/schema/schema_parts.h"

lang string_check(struct schema *s, lang x); /* x; LANG_FAIL sets `status` */
bool string_is_empty(struct schema *s, lang x);
bool string_matches(struct schema *s, lang x, const char *p, size_t n);
/* A regular expression of `keyword`, a member of a schema. LANG_CHARS where lax leaves it out. */
lang string_pattern(struct schema *s, uint32_t keyword, const char *p, size_t n);
lang string_keyword(struct schema *s, uint32_t sub, const struct keyword *k);

#endif
