/* Thread count: see thread_count.h. A hardware thread beside another on the same core gains nothing
 * for kernels that fill the core, and above the quota the system stops all threads at once: so both
 * are upper limits. Files: sysfs-devices-system-cpu, cgroups(7). */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/thread_count.h"

#include "base/procfs.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CPUS = 4096 };

struct mask {
    uint64_t bits[MAX_CPUS / 64];
};

static bool mask_has(const struct mask *m, uint64_t cpu)
{
    return cpu < MAX_CPUS && m->bits[cpu / 64] >> cpu % 64 & 1;
}

static int mask_count(const struct mask *m)
{
    int n = 0;
    for (size_t i = 0; i < MAX_CPUS / 64; i++)
        n += __builtin_popcountll(m->bits[i]);
    return n;
}

static void mask_and(struct mask *m, const struct mask *other)
{
    for (size_t i = 0; i < MAX_CPUS / 64; i++)
        m->bits[i] &= other->bits[i];
}

/* Reads "0-3,8"; what cannot be read ends the list. */
static struct mask mask_parse(const char *list)
{
    struct mask m = {{0}};
    uint64_t first, last;
    while (procfs_u64(&list, &first)) {
        last = first;
        if (*list == '-' && (list++, !procfs_u64(&list, &last)))
            break;
        for (uint64_t cpu = first; cpu <= last && cpu < MAX_CPUS; cpu++)
            m.bits[cpu / 64] |= (uint64_t)1 << cpu % 64;
        if (*list++ != ',')
            break;
    }
    return m;
}

/* Processors that this process may use. */
static struct mask mask_of_process(void)
{
    struct mask m = {{0}};
#ifdef __linux__
    if (!sched_getaffinity(0, sizeof m, (cpu_set_t *)&m) && mask_count(&m))
        return m;
#endif
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    for (long cpu = 0; cpu < (n > 0 ? n : 1) && cpu < MAX_CPUS; cpu++)
        m.bits[cpu / 64] |= (uint64_t)1 << cpu % 64;
    return m;
}

/* A file of one processor, /sys/devices/system/cpu/cpuN/name. */
static bool read_cpu_file(const char *root, uint64_t cpu, const char *name, char *text, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/%s", (unsigned)cpu, name);
    return procfs_read(root, path, text, n);
}

/* Relative speed of a processor, as Arm systems state it; 0 when not stated. */
static uint64_t capacity(const char *root, uint64_t cpu)
{
    char text[64];
    const char *at = text;
    uint64_t v;
    return read_cpu_file(root, cpu, "cpu_capacity", text, sizeof text) && procfs_u64(&at, &v) ? v
                                                                                              : 0;
}

/* Takes the slow cores of a hybrid processor out of the mask: work is split in equal parts, so the
 * slowest core sets the pace. Intel lists the fast ones; Arm states a capacity per core, of which
 * at least three quarters of the best one are asked for. True when something was taken out. */
static bool keep_fast_cores(const char *root, struct mask *m)
{
    const int before = mask_count(m);
    char text[4096];

    if (procfs_read(root, "/sys/devices/cpu_core/cpus", text, sizeof text)) {
        const struct mask fast = mask_parse(text);
        struct mask kept = *m;
        mask_and(&kept, &fast);
        if (mask_count(&kept))
            *m = kept;
        return mask_count(m) < before;
    }
    uint64_t best = 0;
    for (uint64_t cpu = 0; cpu < MAX_CPUS; cpu++)
        if (mask_has(m, cpu) && capacity(root, cpu) > best)
            best = capacity(root, cpu);
    for (uint64_t cpu = 0; best && cpu < MAX_CPUS; cpu++)
        if (mask_has(m, cpu) && capacity(root, cpu) < best - best / 4)
            m->bits[cpu / 64] &= ~((uint64_t)1 << cpu % 64);
    return mask_count(m) < before;
}

/* Cores behind the processors of a mask: a processor counts unless a lower one of the mask shares
 * its core. */
static int count_cores(const char *root, const struct mask *m)
{
    int n = 0;
    for (uint64_t cpu = 0; cpu < MAX_CPUS; cpu++) {
        char text[4096];
        if (!mask_has(m, cpu))
            continue;
        struct mask siblings = {{0}};
        if (read_cpu_file(root, cpu, "topology/thread_siblings_list", text, sizeof text))
            siblings = mask_parse(text);
        uint64_t lowest = 0;
        while (lowest < cpu && !(mask_has(&siblings, lowest) && mask_has(m, lowest)))
            lowest++;
        n += lowest == cpu;
    }
    return n;
}

/* Hundredths of a processor that one cgroup grants: "quota period" or "max period" in one file
 * (v2), or one file each, where a quota of -1 is none (v1). */
static bool cgroup_quota(const struct procfs_cgroup *g, uint64_t *hundredths)
{
    char text[128];
    const char *at = text;
    uint64_t quota, period;

    if (g->v2) {
        if (!procfs_cgroup_read(g, "cpu.max", text, sizeof text) || !procfs_u64(&at, &quota) ||
            *at++ != ' ' || !procfs_u64(&at, &period))
            return false;
    } else if (!procfs_cgroup_u64(g, "cpu.cfs_quota_us", &quota) ||
               !procfs_cgroup_u64(g, "cpu.cfs_period_us", &period)) {
        return false;
    }
    if (!period || quota > UINT64_MAX / 100)
        return false;
    *hundredths = quota * 100 / period;
    return true;
}

/* The least quota from the process's cgroup outwards, in hundredths; 0: none. */
static uint64_t least_quota(const char *root)
{
    struct procfs_cgroup g;
    uint64_t least = 0, here;
    for (bool more = procfs_cgroup_find(&g, root, "cpu"); more; more = procfs_cgroup_up(&g))
        if (cgroup_quota(&g, &here) && (!least || here < least))
            least = here ? here : 1;
    return least;
}

/* min(n, quota rounded down), at least 1. */
static int apply_quota(int n, uint64_t hundredths)
{
    const uint64_t whole = hundredths / 100;
    if (hundredths && whole < (uint64_t)n)
        n = (int)whole;
    return n < 1 ? 1 : n;
}

static int choose(const char *root, struct mask m, char *why, size_t n)
{
    const int processors = mask_count(&m);
    const bool hybrid = keep_fast_cores(root, &m);
    const int cores = count_cores(root, &m);
    const uint64_t quota = least_quota(root);
    const int threads = apply_quota(cores, quota);
    char limit[32] = "quota none";

    if (quota)
        snprintf(limit, sizeof limit, "quota %llu.%02llu", (unsigned long long)(quota / 100),
                 (unsigned long long)(quota % 100));
    if (why)
        snprintf(why, n, "%d thread%s: %d %s core%s of %d processor%s, %s", threads,
                 threads == 1 ? "" : "s", cores, hybrid ? "performance" : "physical",
                 cores == 1 ? "" : "s", processors, processors == 1 ? "" : "s", limit);
    return threads;
}

int thread_count_best(char *why, size_t n)
{
    return choose("", mask_of_process(), why, n);
}

int thread_count_at(const char *root, const char *cpus, char *why, size_t n)
{
    return choose(root, mask_parse(cpus), why, n);
}

int thread_count_most(void)
{
    const struct mask m = mask_of_process();
    return apply_quota(mask_count(&m), least_quota(""));
}

int thread_count_most_at(const char *root, const char *cpus)
{
    const struct mask m = mask_parse(cpus);
    return apply_quota(mask_count(&m), least_quota(root));
}

#ifdef TERN_MPI

int thread_count_socket(void)
{
    const struct mask m = mask_of_process();
    char text[64];
    const char *at = text;
    uint64_t cpu = 0, socket;
    while (cpu < MAX_CPUS && !mask_has(&m, cpu))
        cpu++;
    return read_cpu_file("", cpu, "topology/physical_package_id", text, sizeof text) &&
                   procfs_u64(&at, &socket)
               ? (int)socket
               : -1;
}

#endif
