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
        s = file_read_at(j->fd, j->to + from, (size_t)n, from, weights_path(j->w), &e);
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

static enum tern_status copy_open(struct copy_job *j, struct pool *pool, struct tern_error *e)
{
    const char *path = weights_path(j->w);
    const uint64_t bytes = weights_file_bytes(j->w);
    enum tern_status s = weights_unchanged(j->w, j->fd, e);
    if (s)
        return s;
    if (!memory_replace(j->to, (size_t)bytes))
        return error_set(e, TERN_NO_MEMORY, "%s: not enough memory for a copy of %llu MiB", path,
                         (unsigned long long)(bytes / MIB));
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
    enum tern_status s = check_room(weights_file_bytes(w), weights_path(w), j.e);
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
    memory_advise_huge((void *)map, bytes);
    memory_expect(map, bytes);
}

enum tern_status load_lock(const struct weights *w, struct pool *pool, struct tern_error *e)
{
    const void *map;
    size_t bytes, at = 0;
    uint64_t limit;
    weights_mapping(w, &map, &bytes);
    for (; at < bytes && !pool_stopped(pool, 0); at += PART)
        if (!memory_lock((const char *)map + at, bytes - at < PART ? bytes - at : PART, &limit))
            break;
    if (at >= bytes)
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
