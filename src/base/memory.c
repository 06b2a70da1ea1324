/* Memory: see memory.h. The limit that counts is the least along the way from the process's own
 * cgroup up to the root, less what is used there; clean file pages count as free. */
#include "base/memory.h"

#include "base/procfs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

/* The number in the line "NAME number" of a text; false when it is not there. */
static bool line_number(const char *text, const char *name, uint64_t *out)
{
    const size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, name, n) && (line[n] == ' ' || line[n] == ':')) {
            const char *at = line + n + 1;
            at += strspn(at, " \t");
            return procfs_u64(&at, out);
        }
    }
    return false;
}

/* What one cgroup leaves; UINT64_MAX when it has no limit. all: file pages in use count as free, too. */
static uint64_t cgroup_available(const struct procfs_cgroup *g, bool all)
{
    char text[8192];
    uint64_t limit, used, file = 0, active = 0;

    if (!procfs_cgroup_u64(g, g->v2 ? "memory.max" : "memory.limit_in_bytes", &limit) ||
        !procfs_cgroup_u64(g, g->v2 ? "memory.current" : "memory.usage_in_bytes", &used))
        return UINT64_MAX;
    if (procfs_cgroup_read(g, "memory.stat", text, sizeof text)) {
        (void)line_number(text, g->v2 ? "inactive_file" : "total_inactive_file", &file);
        if (all && line_number(text, g->v2 ? "active_file" : "total_active_file", &active))
            file += active;
    }
    used -= file < used ? file : used;
    return limit > used ? limit - used : 0;
}

static uint64_t available(const char *root, bool all)
{
    char text[8192];
    struct procfs_cgroup g;
    uint64_t kib, least = UINT64_MAX;

    if (procfs_read(root, "/proc/meminfo", text, sizeof text) &&
        line_number(text, "MemAvailable", &kib) && kib <= UINT64_MAX / 1024)
        least = kib * 1024;
    for (bool more = procfs_cgroup_find(&g, root, "memory"); more; more = procfs_cgroup_up(&g)) {
        const uint64_t here = cgroup_available(&g, all);
        if (here < least)
            least = here;
    }
    return least;
}

uint64_t memory_available_at(const char *root)
{
    return available(root, false);
}

#ifdef TERN_MPI

/* MiB of a smaller machine: for tests on one */
static uint64_t played(uint64_t bytes)
{
    uint64_t mib;
    const char *text = getenv("TERN_MEMORY");
    return text && procfs_u64(&text, &mib) && mib < bytes >> 20 ? mib << 20 : bytes;
}

uint64_t memory_available(void)
{
    return played(memory_available_at(""));
}

uint64_t memory_for_files(void)
{
    return played(available("", true));
}

#else

uint64_t memory_available(void)
{
    return memory_available_at("");
}

#endif

void *memory_reserve(size_t n)
{
    void *p =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void memory_advise_huge(void *p, size_t n)
{
#ifdef MADV_HUGEPAGE
    (void)madvise(p, n, MADV_HUGEPAGE); /* without them it is slower, and right */
#else
    (void)p, (void)n;
#endif
}

void memory_advise_small(void *p, size_t n)
{
#ifdef MADV_NOHUGEPAGE
    (void)madvise(p, n, MADV_NOHUGEPAGE);
#else
    (void)p, (void)n;
#endif
}

void memory_release(void *p, size_t n)
{
    if (p)
        munmap(p, n);
}

bool memory_replace(void *p, size_t n)
{
    if (mmap(p, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        return false;
#ifdef MADV_HUGEPAGE
    madvise(p, n, MADV_HUGEPAGE); /* where it is refused, small pages do */
#endif
    return true;
}

void memory_expect(const void *p, size_t n)
{
#ifdef MADV_WILLNEED
    madvise((void *)p, n, MADV_WILLNEED);
#else
    (void)p, (void)n;
#endif
}

bool memory_lock(const void *p, size_t n, uint64_t *limit)
{
    struct rlimit r;
    *limit = getrlimit(RLIMIT_MEMLOCK, &r) || r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur;
    return !mlock(p, n);
}
