/* The processor of a thread: see affinity.h. */
#define _GNU_SOURCE /* sched_getcpu */
#include "base/affinity.h"

#ifdef __linux__
#include <sched.h>

enum { MAX_CPUS = 4096 };

int affinity_here(void)
{
    return sched_getcpu();
}

void affinity_leave(int cpu)
{
    cpu_set_t all[MAX_CPUS / CPU_SETSIZE], others[MAX_CPUS / CPU_SETSIZE];
    CPU_ZERO_S(sizeof all, all);
    if (cpu < 0 || sched_getaffinity(0, sizeof all, all))
        return;
    CPU_ZERO_S(sizeof others, others);
    CPU_OR_S(sizeof others, others, others, all);
    CPU_CLR_S((size_t)cpu, sizeof others, others);
    if (!sched_setaffinity(0, sizeof others, others)) /* refuses an empty set */
        (void)!sched_setaffinity(0, sizeof all, all);
}

#else

int affinity_here(void)
{
    return -1;
}

void affinity_leave(int cpu)
{
    (void)cpu;
}

#endif
