/* How many threads are worth starting. In: affinity mask (the cpuset is in it), the cgroup's CPU
 * quota (v1 and v2), the topology of the processors. Out: a number and one line that explains it.
 */
#ifndef BASE_QUOTA_H
#define BASE_QUOTA_H

#include <stddef.h>

/* The least of: physical cores within the affinity mask (performance cores on hybrid parts) and
 * the cgroup's quota rounded down, but at least 1. `why` [n] (may be NULL) gets one line:
 * "2 threads: 2 physical cores of 4 processors, no quota". */
int quota_threads(char *why, size_t n);

/* Processors that could run threads of this process at the same time: the affinity mask and the
 * quota. More threads than this should not spin. */
int quota_processors(void);

/* The processor that the calling thread is on; -1 where the system does not tell. */
int quota_here(void);

/* Moves the calling thread off that processor to another that it may use, if there is one. It is
 * not kept from coming back. */
void quota_leave(int cpu);

/* quota_threads and quota_processors with the files under `root` in place of / and the affinity
 * mask `cpus` ("0-3,6") in place of the process's: for tests. */
int quota_threads_at(const char *root, const char *cpus, char *why, size_t n);
int quota_processors_at(const char *root, const char *cpus);

#endif
