/* How many threads are worth starting. In: affinity mask (the cpuset is in it), the cgroup's CPU
 * quota (v1 and v2), the topology of the processors. Out: a number and one line that explains it.
 */
#ifndef BASE_THREAD_COUNT_H
#define BASE_THREAD_COUNT_H

#include <stddef.h>

/* The least of: physical cores within the affinity mask (performance cores on hybrid parts) and
 * the cgroup's quota rounded down, but at least 1. `why` [n] (may be NULL) gets one line:
 * "2 threads: 2 physical cores of 4 processors, no quota". */
int thread_count_best(char *why, size_t n);

/* Processors that could run threads of this process at the same time: the affinity mask and the
 * quota. More threads than this should not spin. */
int thread_count_most(void);

#ifdef TERN_MPI
/* The socket of the first processor that this process may use; -1 where the system does not tell */
int thread_count_socket(void);
#endif

/* thread_count_best and thread_count_most with the files under `root` in place of / and the affinity
 * mask `cpus` ("0-3,6") in place of the process's: for tests. */
int thread_count_at(const char *root, const char *cpus, char *why, size_t n);
int thread_count_most_at(const char *root, const char *cpus);

#endif
