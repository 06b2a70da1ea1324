/* How many characters may follow in a language, whatever they are. */
#ifndef CONSTRAINT_MASK_REACH_H
#define CONSTRAINT_MASK_REACH_H

#include "sample/language/language.h"

enum { REACH_SLOTS = 1024, REACH_STATES = 32 };

/* What was found out, the newest in its place; zeroed is empty. */
struct reaches {
    struct reach {
        lang a; /* LANG_NONE: a free place */
        uint16_t characters;
    } slots[REACH_SLOTS];
    lang reached[REACH_STATES][2]; /* scratch */
};

/* Every text of so many characters can go on. UINT16_MAX: of any number. At most REACH_STATES states are
 * looked at, and none where that costs more than it saves: the answer is 0. */
unsigned reaches_find(struct reaches *r, struct languages *ls, lang a);

#endif
