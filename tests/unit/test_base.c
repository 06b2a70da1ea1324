/* The base floor without the pool: thread count and memory from trees of fake /proc and /sys files,
 * processor targets, floating-point state, arena. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "base/arena.h"
#include "base/cpu.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/procfs.h"
#include "base/thread_count.h"
#include "suite.h"

#include <float.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- fake trees ---------------------------------------------------------------------------- */

static char root[64];

static void make_root(void)
{
    strncpy(root, "/tmp/tern-test-XXXXXX", sizeof root - 1);
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void remove_root(void)
{
    ck_assert_int_eq(nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Writes `text` to root/path, making the folders on the way. */
static void put(const char *path, const char *text)
{
    char full[512];
    const int n = snprintf(full, sizeof full, "%s%s", root, path);
    ck_assert(n > 0 && (size_t)n < sizeof full);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void put_cpu(int cpu, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, name);
    put(path, text);
}

/* Process in group `path` of the one v2 hierarchy, whose part `top` is mounted. */
static void put_v2(const char *path, const char *top)
{
    char text[256];
    snprintf(text, sizeof text, "0::%s\n", path);
    put("/proc/self/cgroup", text);
    snprintf(text, sizeof text,
             "25 30 0:23 / /sys rw - sysfs sysfs rw\n"
             "30 25 0:26 %s /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
             top);
    put("/proc/self/mountinfo", text);
}

static void put_v1(const char *path, const char *top)
{
    char text[512];
    snprintf(text, sizeof text,
             "5:cpuset:/\n4:cpu,cpuacct:%s\n3:memory:%s\n1:name=systemd:/\n0::/\n", path, path);
    put("/proc/self/cgroup", text);
    snprintf(text, sizeof text,
             "31 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
             "32 25 0:29 %s /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
             "33 25 0:30 %s /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
             top, top);
    put("/proc/self/mountinfo", text);
}

/* ---- thread count -------------------------------------------------------------------------- */

static int threads(const char *cpus)
{
    return thread_count_at(root, cpus, NULL, 0);
}

#define ck_assert_why(cpus, want)                      \
    do {                                               \
        char why[160];                                 \
        thread_count_at(root, cpus, why, sizeof why); \
        ck_assert_str_eq(why, want);                   \
    } while (0)

START_TEST(no_files_count_the_mask)
{
    ck_assert_int_eq(threads("0-3"), 4);
    ck_assert_int_eq(threads("0-1,5,7-8"), 5);
    ck_assert_int_eq(threads("7"), 1);
    ck_assert_int_eq(threads(""), 1);
    ck_assert_int_eq(threads("99999999"), 1);
    ck_assert_int_eq(threads("0-18446744073709551615"), 4096);
    ck_assert_int_eq(thread_count_most_at(root, "0-3"), 4);
    ck_assert_why("0-3", "4 threads: 4 physical cores of 4 processors, quota none");
    ck_assert_why("2", "1 thread: 1 physical core of 1 processor, quota none");
}
END_TEST

START_TEST(siblings_share_a_core)
{
    /* 0,2 and 1,3 are the two cores; a sibling outside the mask does not count. */
    for (int cpu = 0; cpu < 4; cpu++)
        put_cpu(cpu, "topology/thread_siblings_list", cpu % 2 ? "1,3\n" : "0,2\n");
    ck_assert_why("0-3", "2 threads: 2 physical cores of 4 processors, quota none");
    ck_assert_int_eq(threads("0-2"), 2);
    ck_assert_int_eq(threads("2-3"), 2);
    ck_assert_int_eq(threads("0,2"), 1);
    ck_assert_int_eq(threads("3"), 1);
    ck_assert_int_eq(thread_count_most_at(root, "0-3"), 4);
}
END_TEST

START_TEST(hybrid_intel_counts_performance_cores)
{
    for (int cpu = 0; cpu < 4; cpu++)
        put_cpu(cpu, "topology/thread_siblings_list", cpu < 2 ? "0-1\n" : "2-3\n");
    put("/sys/devices/cpu_core/cpus", "0-3\n");
    put("/sys/devices/cpu_atom/cpus", "4-11\n");
    ck_assert_why("0-11", "2 threads: 2 performance cores of 12 processors, quota none");
    ck_assert_why("0-3", "2 threads: 2 physical cores of 4 processors, quota none");
    ck_assert_int_eq(threads("4-7"), 4); /* no fast one allowed */
}
END_TEST

START_TEST(hybrid_arm_counts_big_cores)
{
    static const char *const capacity[8] = {"250\n", "250\n", "250\n", "250\n",
                                            "900\n", "900\n", "900\n", "1024\n"};
    for (int cpu = 0; cpu < 8; cpu++)
        put_cpu(cpu, "cpu_capacity", capacity[cpu]);
    ck_assert_why("0-7", "4 threads: 4 performance cores of 8 processors, quota none");
    ck_assert_int_eq(threads("0-3"), 4);
}
END_TEST

START_TEST(v2_quota)
{
    put_v2("/", "/");
    ck_assert_int_eq(threads("0-7"), 8); /* no cpu.max: the root group has none */
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    ck_assert_int_eq(threads("0-7"), 8);
    put("/sys/fs/cgroup/cpu.max", "300000 100000\n");
    ck_assert_why("0-7", "3 threads: 8 physical cores of 8 processors, quota 3.00");
    ck_assert_int_eq(threads("0-1"), 2);
    ck_assert_int_eq(thread_count_most_at(root, "0-7"), 3);
    put("/sys/fs/cgroup/cpu.max", "175000 50000\n");
    ck_assert_why("0-7", "3 threads: 8 physical cores of 8 processors, quota 3.50");
    put("/sys/fs/cgroup/cpu.max", "5000 100000\n");
    ck_assert_why("0-7", "1 thread: 8 physical cores of 8 processors, quota 0.05");
    put("/sys/fs/cgroup/cpu.max", "10 100000\n");
    ck_assert_int_eq(threads("0-7"), 1);
}
END_TEST

START_TEST(v2_quota_of_an_outer_group)
{
    put_v2("/a/b/c", "/");
    put("/sys/fs/cgroup/a/b/c/cpu.max", "600000 100000\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    ck_assert_int_eq(threads("0-7"), 2);
    put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    ck_assert_int_eq(threads("0-7"), 6);
}
END_TEST

START_TEST(container_sees_a_part_of_the_tree)
{
    /* The host's path, of which only /docker/x is mounted. */
    put_v2("/docker/x/sub", "/docker/x");
    put("/sys/fs/cgroup/cpu.max", "500000 100000\n");
    put("/sys/fs/cgroup/sub/cpu.max", "400000 100000\n");
    ck_assert_int_eq(threads("0-7"), 4);
    /* A group outside what is mounted: the mount point is all there is to see. */
    put_v2("/docker/xyz", "/docker/x");
    ck_assert_int_eq(threads("0-7"), 5);
    put_v2("/../../elsewhere", "/");
    ck_assert_int_eq(threads("0-7"), 5);
}
END_TEST

START_TEST(v1_quota)
{
    put_v1("/user/job", "/");
    put("/sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_period_us", "100000\n");
    ck_assert_int_eq(threads("0-7"), 8);
    put("/sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_quota_us", "250000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_period_us", "100000\n");
    ck_assert_why("0-7", "2 threads: 8 physical cores of 8 processors, quota 2.50");
    put_v1("/docker/1", "/docker/1");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    ck_assert_int_eq(threads("0-7"), 4);
}
END_TEST

START_TEST(nonsense_in_files_is_no_limit)
{
    static const char *const bad[] = {"",
                                      "\n",
                                      "x",
                                      "-1 100000",
                                      "100000",
                                      "200000 0",
                                      "99999999999999999999999 100000",
                                      "18446744073709551615 1"};
    put_v2("/", "/");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("/sys/fs/cgroup/cpu.max", bad[i]);
        ck_assert_int_eq(threads("0-7"), 8);
    }
    put("/sys/fs/cgroup/cpu.max", "100000 100000");
    put("/proc/self/mountinfo", "\n - \n1 2 3\n - cgroup2 x y\n1 2 3 / - cgroup2 cgroup2 rw\n");
    ck_assert_int_eq(threads("0-7"), 8);
    put("/proc/self/cgroup", "\n:\n0:\n0\n::\n");
    ck_assert_int_eq(threads("0-7"), 8);
}
END_TEST

START_TEST(this_machine_has_a_thread)
{
    char why[160];
    const int n = thread_count_best(why, sizeof why);
    ck_assert_int_ge(n, 1);
    ck_assert_int_ge(thread_count_most(), n);
    ck_assert_ptr_nonnull(strstr(why, "processor"));
    thread_count_best(why, 5);
    ck_assert_uint_eq(strlen(why), 4);
}
END_TEST

/* ---- memory -------------------------------------------------------------------------------- */

START_TEST(memory_of_the_machine)
{
    ck_assert(memory_available_at(root) == UINT64_MAX);
    put("/proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:    4000 kB\nSwapFree: 1 kB\n");
    ck_assert_uint_eq(memory_available_at(root), 4000 * 1024);
    ck_assert_uint_gt(memory_available(), 0);
}
END_TEST

START_TEST(memory_of_v2_groups)
{
    put("/proc/meminfo", "MemAvailable: 4000 kB\n");
    put_v2("/a/b", "/");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "1000000\n");
    put("/sys/fs/cgroup/a/memory.max", "3000000\n");
    put("/sys/fs/cgroup/a/memory.current", "2500000\n");
    ck_assert_uint_eq(memory_available_at(root), 500000);
    put("/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file_x 9\ninactive_file 400000\n");
    ck_assert_uint_eq(memory_available_at(root), 900000);
    put("/sys/fs/cgroup/a/memory.current", "9000000\n");
    ck_assert_uint_eq(memory_available_at(root), 0);
}
END_TEST

START_TEST(memory_of_v1_groups)
{
    put("/proc/meminfo", "MemAvailable: 4000 kB\n");
    put_v1("/job", "/");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000000\n");
    ck_assert_uint_eq(memory_available_at(root), 4000 * 1024);
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3000000\n");
    put("/sys/fs/cgroup/memory/job/memory.stat", "inactive_file 7\ntotal_inactive_file 100000\n");
    ck_assert_uint_eq(memory_available_at(root), 2100000);
}
END_TEST

START_TEST(reserved_memory_is_zero)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 8 * page;
    unsigned char *p = memory_reserve(n);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % page, 0);
    for (size_t i = 0; i < n; i++)
        ck_assert(!p[i]);
    memory_release(p, n);
    memory_release(NULL, 0);
    /* Far more than the machine has can be reserved, but not more than can be addressed. */
    ck_assert_ptr_null(memory_reserve((size_t)1 << 62));
}
END_TEST

struct pieces {
    unsigned char *a, *none;
    double *b;
};

static void lay_out(struct pieces *p, struct arena *a)
{
    p->a = arena_take(a, 3, 1);
    p->b = arena_take(a, 100, sizeof(double));
    p->none = arena_take(a, 0, 8);
}

START_TEST(arena_measures_then_cuts)
{
    struct arena a = {0};
    struct pieces p;
    struct tern_error e = {0};
    lay_out(&p, &a);
    ck_assert_ptr_null(p.b);
    ck_assert_int_eq(arena_open(&a, "the pieces", &e), TERN_OK);
    lay_out(&p, &a);
    ck_assert_uint_eq((uintptr_t)p.a % 64, 0);
    ck_assert_ptr_eq((void *)p.b, p.a + 64);
    ck_assert_uint_eq(a.used, a.size);
    ck_assert_uint_eq(a.size, 64 + 832);
    ck_assert(p.b[99] == 0);
    p.b[99] = 1;
    arena_close(&a);
    arena_close(&a);
}
END_TEST

START_TEST(arena_refuses_what_cannot_be)
{
    struct tern_error e = {0};
    struct arena a = {0};
    arena_take(&a, UINT64_MAX / 2, 3);
    ck_assert_int_eq(arena_open(&a, "the batch", &e), TERN_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(e.text, "the batch"));
    a = (struct arena){0};
    arena_take(&a, (uint64_t)1 << 61, 1);
    arena_take(&a, (uint64_t)1 << 61, 1);
    ck_assert_int_eq(arena_open(&a, "the cache", &e), TERN_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(e.text, "the cache"));
    arena_close(&a);
    a = (struct arena){0};
    for (int i = 0; i < 4; i++)
        arena_take(&a, (uint64_t)1 << 62, 1);
    ck_assert(a.bad);
}
END_TEST

/* ---- processor ----------------------------------------------------------------------------- */

START_TEST(cpu_bits_imply_each_other)
{
    const unsigned have = cpu_detect();
    if (have & (CPU_AVX512 | CPU_AVX_VNNI))
        ck_assert(have & CPU_AVX2);
    if (have & CPU_AVX512_VNNI)
        ck_assert(have & CPU_AVX512);
    if (have & CPU_DOTPROD)
        ck_assert(have & CPU_NEON);
    if (have & CPU_I8MM)
        ck_assert(have & CPU_DOTPROD);
#if defined(__GNUC__) && defined(__x86_64__)
    ck_assert_int_eq(!!(have & CPU_AVX2),
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    ck_assert_int_eq(!!(have & CPU_AVX512_VNNI), !!__builtin_cpu_supports("avx512vnni"));
#endif
}
END_TEST

/* Not inlined: a compiler may move arithmetic across a change of the float state. */
__attribute__((noinline)) static float third(void)
{
    volatile float one = 1, three = 3;
    return one / three;
}

/* A denormal result that is also read as an argument. */
__attribute__((noinline)) static float half_of_least(void)
{
    volatile float least = FLT_MIN, one = 1;
    volatile float half = least / 2;
    return half * one;
}

START_TEST(fpenv_sets_and_restores)
{
#if defined(__x86_64__) && !defined(FPENV_PORTABLE)
    const unsigned outside = __builtin_ia32_stmxcsr();
    const unsigned strange = outside | 0x8040 | 0x2000; /* FTZ, DAZ, downwards */
    const float nearest = third();
    __builtin_ia32_ldmxcsr(strange);
    ck_assert(third() < nearest && half_of_least() == 0);
    __builtin_ia32_ldmxcsr(strange);
    const struct fpenv saved = fpenv_enter();
    const float inside = third(), kept = half_of_least();
    fpenv_leave(saved);
    const unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(outside);
    ck_assert(inside == nearest);
    ck_assert(kept > 0);
    ck_assert_uint_eq(after, strange);
#else
    const struct fpenv saved = fpenv_enter();
    ck_assert(third() == 0x1.555556p-2f && half_of_least() > 0);
    fpenv_leave(saved);
#endif
}
END_TEST

SUITE("base", TEST(this_machine_has_a_thread), TEST(reserved_memory_is_zero),
      TEST(arena_measures_then_cuts), TEST(arena_refuses_what_cannot_be),
      TEST(cpu_bits_imply_each_other), TEST(fpenv_sets_and_restores),
      AROUND_EACH(make_root, remove_root), TEST(no_files_count_the_mask),
      TEST(siblings_share_a_core), TEST(hybrid_intel_counts_performance_cores),
      TEST(hybrid_arm_counts_big_cores), TEST(v2_quota), TEST(v2_quota_of_an_outer_group),
      TEST(container_sees_a_part_of_the_tree), TEST(v1_quota), TEST(nonsense_in_files_is_no_limit),
      TEST(memory_of_the_machine), TEST(memory_of_v2_groups), TEST(memory_of_v1_groups))
