/* Classes of characters in regular expressions: what an escape or [...] stands for. */
#ifndef LANGUAGE_REGEX_CLASS_H
#define LANGUAGE_REGEX_CLASS_H

#include "sample/language/language.h"

struct regex_text {
    struct languages *ls;
    const char *start, *at, *end;
    struct tern_error *e;
};

/* Fills e: "regular expression: byte 7: WHY"; returns false. */
bool regex_refuse(struct regex_text *t, const char *at, const char *why);

/* Code points. Ranges below `from` stay as they are while a part of a class is added behind them. */
struct regex_ranges {
    uint32_t (*p)[2];
    uint32_t n, capacity, from;
};
bool ranges_add(struct regex_text *t, struct regex_ranges *r, uint32_t first, uint32_t last);

/* Adds the code points of a general category, or another property, by its name between the braces of
 * \p{...}; false: unknown, or refused. */
bool regex_property(struct regex_text *t, const char *name, size_t n, struct regex_ranges *r);

/* The class that begins at t->at: an escape (at '\\'), '[', '.' or one character. */
lang regex_class(struct regex_text *t);

#endif
