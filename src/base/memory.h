/* Memory in bulk: how much there is, and ranges reserved first and touched later. memory.c alone
 * knows mmap's flags and where the system states its limits. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that this process can still take without swapping: the machine's MemAvailable and what its
 * cgroups (v1 and v2) leave, whichever is less. UINT64_MAX when nothing states it. */
uint64_t memory_available(void);
uint64_t memory_available_at(const char *root); /* files under `root` in place of /: for tests */

/* A page-aligned range that reads as zeros and takes memory only where it is touched; NULL when
 * the system refuses. n > 0. */
void *memory_reserve(size_t n);
void memory_release(void *p, size_t n); /* the whole range; NULL is fine */

/* Gives back the memory of the whole pages inside p .. p + n, which then read as zeros. */
void memory_discard(void *p, size_t n);

#endif
