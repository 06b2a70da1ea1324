/* One block of memory for one owner, cut into 64-byte aligned pieces. The owner's layout function
 * runs twice over the same arena: first it measures (arena_take returns NULL), then arena_open
 * allocates, then it runs again and the pieces are real.
 *
 *   struct arena a = {0};
 *   layout(s, &a);                                       // measures
 *   if (arena_open(&a, "the batch", e)) return e->code;
 *   layout(s, &a);                                       // sets the pointers */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena {
    unsigned char *base; /* NULL while measuring */
    uint64_t size, used; /* bytes */
    bool bad;            /* a size overflowed */
};

/* count * size bytes, zeroed, 64-byte aligned; NULL while measuring. Borrowed from the arena. */
void *arena_take(struct arena *a, uint64_t count, uint64_t size);

/* Allocates what was measured. TERN_NO_MEMORY, naming `what`, when it is too much. */
enum tern_status arena_open(struct arena *a, const char *what, struct tern_error *e);
void arena_close(struct arena *a);

#endif
