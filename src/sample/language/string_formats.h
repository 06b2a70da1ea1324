/* JSON Schema's formats as languages: which texts (unescaped UTF-8) a format allows.
 *
 * Exact by the standards that JSON Schema names (RFC 3339, 5321, 1123, 2673, 4291, 3986, 3987, 6570,
 * 9562, 6901), with these choices. There is no year 0000. Of an email's address literals there are IPv4
 * and IPv6. Not known, because they are not regular or need IDNA's tables: regex, idn-email,
 * idn-hostname. */
#ifndef LANGUAGE_STRING_FORMATS_H
#define LANGUAGE_STRING_FORMATS_H

#include "sample/language/language.h"

/* *known is false, and the answer LANG_CHARS, for a name that has no exact language here. LANG_FAIL: no
 * budget or no memory. */
lang format_lang(struct languages *ls, const char *name, size_t n, bool *known);

/* ---- for leaf.c. States are below 2^29; 0 is dead, a live state has an end ---- */
enum { TIME_START = 1, HOST_START = 1 };
uint32_t time_step(uint32_t state, unsigned char byte);
bool time_accepts(uint32_t state);
struct leaf_lengths time_lengths(uint32_t state);
uint32_t host_step(uint32_t state, unsigned char byte);
bool host_accepts(uint32_t state);
struct leaf_lengths host_lengths(uint32_t state);
uint32_t host_near(uint32_t state, uint32_t n); /* as lang_near */

#endif
