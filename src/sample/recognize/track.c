/* The track of a recognizer: see recognizer.h. */
#include "sample/recognize/recognizer.h"

#include <stdlib.h>

bool track_room(struct track *t, uint64_t need)
{
    if (need <= t->capacity)
        return true;
    if (need > t->limit)
        return false;
    uint64_t size = t->capacity < 512 ? 1024 : (uint64_t)t->capacity * 2;
    if (size < need)
        size = need;
    if (size > t->limit)
        size = t->limit;
    if (!quota_take(t->quota, size - t->capacity))
        return t->no_memory = true, false;
    void *p = realloc(t->bytes, size);
    if (!p) {
        quota_give(t->quota, size - t->capacity);
        return t->no_memory = true, false;
    }
    t->bytes = p;
    t->capacity = (uint32_t)size;
    return true;
}

void track_free(struct track *t)
{
    free(t->bytes);
    quota_give(t->quota, t->capacity);
    t->bytes = NULL;
    t->capacity = 0;
}
