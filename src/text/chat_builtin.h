/* The built-in chat templates, as sections `chat` of a weights file (src/weights/FORMAT.md). */
#ifndef TEXT_CHAT_BUILTIN_H
#define TEXT_CHAT_BUILTIN_H

#include <stddef.h>

struct chat_builtin {
    const char *name;
    const char *section; /* [n], 8-byte aligned */
    size_t n;
};

extern const struct chat_builtin chat_builtins[]; /* in order of names; ends with a name of NULL */

#endif
