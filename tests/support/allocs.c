/* Watches and fails allocations: see allocs.h. A table holds the blocks made since allocs_start, so
 * that older ones, and those of libc's own, may be freed at any time. */
#include "allocs.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *__real_malloc(size_t n);
void __real_free(void *p);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void *__real_mmap(void *p, size_t n, int protection, int flags, int fd, off_t at);
void *__wrap_mmap(void *p, size_t n, int protection, int flags, int fd, off_t at);
void *__wrap_mmap64(void *p, size_t n, int protection, int flags, int fd, off_t at);
int __real_munmap(void *p, size_t n);
int __wrap_munmap(void *p, size_t n);

enum { SLOTS = 1 << 14 };

static struct block {
    void *p; /* NULL: never used; GONE: freed */
    size_t bytes;
} table[SLOTS];
static char gone_mark;
#define GONE ((void *)&gone_mark)

static size_t used[SLOTS / 2], n_used; /* slots of the table that are not empty */
static size_t count, fail_at, live, live_bytes, peak;
static int fail_rest, active;
bool (*allocs_file_map_fails)(void);

static size_t slot_of(const void *p)
{
    return (size_t)(((uintptr_t)p >> 4) * 0x9E3779B1u) % SLOTS;
}

static void insert(struct block b)
{
    size_t i = slot_of(b.p);
    while (table[i].p)
        i = (i + 1) % SLOTS;
    used[n_used++] = i;
    table[i] = b;
}

/* Drops what was freed from the table. */
static void compact(void)
{
    static struct block kept[SLOTS / 2];
    size_t n = 0;
    for (size_t i = 0; i < n_used; i++) {
        if (table[used[i]].p != GONE)
            kept[n++] = table[used[i]];
        table[used[i]].p = NULL;
    }
    n_used = 0;
    while (n)
        insert(kept[--n]);
}

static void put(void *p, size_t n)
{
    if (!active)
        return;
    if (n_used == SLOTS / 2)
        compact();
    if (n_used == SLOTS / 2)
        abort(); /* a test with more live blocks needs a larger table */
    insert((struct block){p, n});
    live++;
    live_bytes += n;
    peak = live_bytes > peak ? live_bytes : peak;
}

static void take(const void *p)
{
    size_t i = slot_of(p);
    if (!active || !p)
        return;
    while (table[i].p && table[i].p != p)
        i = (i + 1) % SLOTS;
    if (!table[i].p)
        return;
    table[i].p = GONE;
    live--;
    live_bytes -= table[i].bytes;
}

void allocs_start(size_t at, int rest)
{
    while (n_used)
        table[used[--n_used]].p = NULL;
    active = 1;
    fail_at = at, fail_rest = rest;
    count = live = live_bytes = peak = 0;
}

void allocs_stop(void)
{
    fail_at = 0;
}

size_t allocs_count(void)
{
    return count;
}

size_t allocs_peak(void)
{
    return peak;
}

size_t allocs_live(void)
{
    return live;
}

void allocs_judge(size_t bytes, int accepted)
{
    const size_t most = (accepted ? 8 : 4) * bytes + (1 << 20);
    if (peak <= most)
        return;
    fprintf(stderr, "%zu bytes of memory for an input of %zu bytes that is %s; at most %zu\n", peak,
            bytes, accepted ? "accepted" : "refused", most);
    abort();
}

static int fails(void)
{
    if (!active)
        return 0;
    count++;
    if (!fail_at || (count != fail_at && !(fail_rest && count > fail_at)))
        return 0;
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t n)
{
    void *p = fails() ? NULL : __real_malloc(n);
    if (p)
        put(p, n);
    return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size)
        return NULL;
    void *p = __wrap_malloc(n * size);
    return p ? memset(p, 0, n * size) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
    if (fails())
        return NULL;
    take(p);
    void *grown = __real_realloc(p, n);
    if (grown)
        put(grown, n);
    return grown;
}

void __wrap_free(void *p)
{
    take(p);
    __real_free(p);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    void *p = fails() ? NULL : __real_aligned_alloc(alignment, n);
    if (p)
        put(p, n);
    return p;
}

void *__wrap_mmap(void *p, size_t n, int protection, int flags, int fd, off_t at)
{
    const bool is_memory = fd < 0;
    if (is_memory ? fails() : allocs_file_map_fails && allocs_file_map_fails())
        return MAP_FAILED;
    void *made = __real_mmap(p, n, protection, flags, fd, at);
    if (is_memory && made != MAP_FAILED && !(flags & MAP_FIXED))
        put(made, 0);
    return made;
}

/* The name that _FILE_OFFSET_BITS gives to mmap. */
void *__wrap_mmap64(void *p, size_t n, int protection, int flags, int fd, off_t at)
{
    return __wrap_mmap(p, n, protection, flags, fd, at);
}

int __wrap_munmap(void *p, size_t n)
{
    take(p);
    return __real_munmap(p, n);
}
