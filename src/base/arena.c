/* Arena: see arena.h. Pieces come from fresh pages, which are zero and take memory when touched. */
#include "base/arena.h"

#include "base/bytes.h"
#include "base/memory.h"

#include <assert.h>

enum { HUGE_FROM = 8 << 20 }; /* bytes of an arena that large pages make faster to read and write */

void *arena_take(struct arena *a, uint64_t count, uint64_t size)
{
    uint64_t bytes, end;
    if (!size_mul(count, size, &bytes) || !size_round_up(bytes, 64, &bytes) ||
        !size_add(a->used, bytes, &end)) {
        a->bad = true;
        return NULL;
    }
    unsigned char *p = a->base ? a->base + a->used : NULL;
    a->used = end;
    assert(!a->base || a->used <= a->size);
    return p;
}

enum tern_status arena_open(struct arena *a, const char *what, struct tern_error *e)
{
    if (a->bad || a->used > SIZE_MAX)
        return error_set(e, TERN_NO_MEMORY, "%s needs more memory than can be addressed", what);
    a->size = a->used ? a->used : 64;
    a->base = memory_reserve((size_t)a->size);
    a->used = 0;
    if (a->base && a->size >= HUGE_FROM)
        memory_advise_huge(a->base, (size_t)a->size);
    return a->base ? TERN_OK : error_memory(e, what, (size_t)a->size);
}

void arena_close(struct arena *a)
{
    memory_release(a->base, (size_t)a->size);
    *a = (struct arena){0};
}
