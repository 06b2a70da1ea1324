/* Loading: see load.h. */
#include "weights/load.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <string.h>

enum { PAGE = 4096, MIB = 1 << 20, PART = 32 * MIB }; /* PART: bytes between two questions to stop */

struct copy_job {
    const struct weights *w;
    struct pool *pool;
    char *to;
    int fd, n_shares;
    atomic_int failed; /* the first to set it owns *e */
    struct tern_error *e;
    enum tern_status status;
};

/* Where share t of bytes from .. to begins: on a page, except for the first. */
static uint64_t cut(uint64_t from, uint64_t to, uint64_t t, uint64_t n)
{
    uint64_t at = from + (to - from) / n * t;
    return t == 0 ? from : t == n ? to : at / PAGE * PAGE < from ? from : at / PAGE * PAGE;
}

static void read_part(struct copy_job *j, uint64_t from, uint64_t to, int thread)
{
    struct tern_error e;
    enum tern_status s = TERN_OK;
    for (uint64_t n; from < to && !s && !pool_stopped(j->pool, thread); from += n) {
        n = to - from < PART ? to - from : PART;
        s = file_read_at(j->fd, j->to + from, (size_t)n, weights_place(j->w, from),
                         weights_path(j->w), &e);
    }
    if (s && !atomic_exchange(&j->failed, 1))
        *j->e = e, j->status = s;
}

/* Shares begin .. end - 1 of every tensor with the gap behind it; of what is before the tensors. */
static void read_shares(void *arg, size_t begin, size_t end, int thread)
{
    struct copy_job *j = arg;
    size_t n = weights_count(j->w);
    uint64_t from = 0;
#ifdef TERN_MPI
    const struct slices *own = weights_slices(j->w);
    for (size_t i = 0; i < own->n && !j->failed; i++) {
        struct slice s = own->list[i];
        read_part(j, cut(s.begin, s.end, begin, (uint64_t)j->n_shares),
                  cut(s.begin, s.end, end, (uint64_t)j->n_shares), thread);
    }
    if (own->n)
        return;
#endif
    for (size_t i = 0; i <= n && !j->failed; i++) {
        uint64_t to = i < n ? weights_at(j->w, i)->offset : weights_file_bytes(j->w);
        uint64_t a = cut(from, to, begin, (uint64_t)j->n_shares);
        uint64_t b = cut(from, to, end, (uint64_t)j->n_shares);
        if (a < b)
            read_part(j, a, b, thread);
        from = to;
    }
}

static enum tern_status stopped(const struct weights *w, struct tern_error *e)
{
    return error_set(e, TERN_CANCELLED, "%s: loading was stopped", weights_path(w));
}

static enum tern_status check_room(uint64_t bytes, const char *path, struct tern_error *e)
{
    uint64_t available = memory_available();
    if (bytes <= available)
        return TERN_OK;
    return error_set(e, TERN_NO_MEMORY,
                     "%s: a copy takes %llu MiB of memory and %llu MiB are available; mapped, it "
                     "needs none to start with",
                     path, (unsigned long long)(bytes / MIB),
                     (unsigned long long)(available / MIB));
}

/* Huge pages, but only inside of what this machine needs. */
static void advise_slices(const struct weights *w, char *map)
{
#ifdef TERN_MPI
    enum { HUGE_PAGE = 2 * MIB, LEAST = 4 * HUGE_PAGE };
    const struct slices *own = weights_slices(w);
    if (own->n)
        memory_advise_small(map, (size_t)weights_file_bytes(w));
    for (size_t i = 0; i < own->n; i++) {
        uintptr_t begin = (uintptr_t)map + own->list[i].begin, end = (uintptr_t)map + own->list[i].end;
        begin = (begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, end = end / HUGE_PAGE * HUGE_PAGE;
        if (begin + LEAST <= end)
            memory_advise_huge((void *)begin, end - begin);
    }
#else
    (void)w, (void)map;
#endif
}

static enum tern_status copy_open(struct copy_job *j, struct pool *pool, struct tern_error *e)
{
    const char *path = weights_path(j->w);
    const uint64_t bytes = weights_own_bytes(j->w);
    enum tern_status s = weights_unchanged(j->w, j->fd, e);
    if (s)
        return s;
    if (!memory_replace(j->to, (size_t)weights_file_bytes(j->w)))
        return error_set(e, TERN_NO_MEMORY, "%s: not enough memory for a copy of %llu MiB", path,
                         (unsigned long long)(bytes / MIB));
    advise_slices(j->w, j->to);
    pool_run(pool, (size_t)j->n_shares, read_shares, j);
    if (j->status)
        return j->status;
    if (pool_stopped(pool, 0))
        return stopped(j->w, e);
    return weights_unchanged(j->w, j->fd, e); /* nor while it was read */
}

enum tern_status load_copy(struct weights *w, struct pool *pool, struct tern_error *e)
{
    struct tern_error mine;
    struct copy_job j = {.w = w, .pool = pool, .n_shares = pool_threads(pool), .e = e ? e : &mine};
    const void *map;
    size_t n;
    uint64_t bytes;
    weights_mapping(w, &map, &n);
    j.to = (char *)map;
    enum tern_status s = check_room(weights_own_bytes(w), weights_path(w), j.e);
    if (s || (s = file_open(&j.fd, &bytes, weights_path(w), j.e)))
        return s;
    s = copy_open(&j, pool, j.e);
    file_close(j.fd);
    return s;
}

void load_ahead(const struct weights *w)
{
    const void *map;
    size_t bytes;
    weights_mapping(w, &map, &bytes);
#ifdef TERN_MPI
    const struct slices *own = weights_slices(w);
    for (size_t i = 0; i < own->n; i++) {
        uint64_t begin = own->list[i].begin / PAGE * PAGE;
        if (!own->list[i].rare)
            memory_expect((const char *)map + begin, (size_t)(own->list[i].end - begin));
    }
    if (own->n)
        return;
#endif
    memory_advise_huge((void *)map, bytes);
    memory_expect(map, bytes);
}

/* Bytes at .. end - 1 of the mapping; false when it was stopped, or refused, with errno */
static bool lock_range(const char *map, size_t at, size_t end, struct pool *pool, uint64_t *limit)
{
    for (; at < end && !pool_stopped(pool, 0); at += PART)
        if (!memory_lock(map + at, end - at < PART ? end - at : PART, limit))
            break;
    return at >= end;
}

static bool lock_all(const struct weights *w, struct pool *pool, uint64_t *limit)
{
    const void *map;
    size_t bytes;
    weights_mapping(w, &map, &bytes);
#ifdef TERN_MPI
    const struct slices *own = weights_slices(w);
    bool locked = true;
    for (size_t i = 0; i < own->n && locked; i++) {
        size_t begin = (size_t)(own->list[i].begin / PAGE * PAGE);
        locked = lock_range(map, begin, (size_t)own->list[i].end, pool, limit);
    }
    if (own->n)
        return locked;
#endif
    return lock_range(map, 0, bytes, pool, limit);
}

enum tern_status load_lock(const struct weights *w, struct pool *pool, struct tern_error *e)
{
    const uint64_t bytes = weights_own_bytes(w);
    uint64_t limit = UINT64_MAX;
    if (lock_all(w, pool, &limit))
        return TERN_OK;
    if (pool_stopped(pool, 0))
        return stopped(w, e);
    if (limit < bytes)
        return error_set(e, TERN_NO_MEMORY,
                         "%s: cannot lock its %llu MiB in memory, because this user may lock %llu "
                         "MiB; raise that (ulimit -l, in KiB) or leave the weights unlocked",
                         weights_path(w), (unsigned long long)(bytes / MIB),
                         (unsigned long long)(limit / MIB));
    return error_io(e, weights_path(w), "cannot lock it in memory");
}
