/* Rules of chat templates, and the well-known ones. See chat.h. */
#ifndef TEXT_CHAT_RULES_H
#define TEXT_CHAT_RULES_H

#include "text/chat.h"

struct chat_rule {
    uint16_t mask, value; /* of enum chat_when */
    uint32_t n;
    const char *p; /* [n] */
};

struct chat_known {
    const char *name;
    const struct chat_rule *rules; /* [n] */
    unsigned char n, thinking;
};

extern const struct chat_known chat_known[]; /* ends with a name of NULL */

#endif
