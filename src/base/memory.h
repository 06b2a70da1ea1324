/* Memory in bulk: how much there is, and ranges reserved first and touched later. memory.c alone
 * knows mmap's flags and where the system states its limits. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that this process can still take without swapping: the machine's MemAvailable and what its
 * cgroups (v1 and v2) leave, whichever is less. UINT64_MAX when nothing states it. */
uint64_t memory_available(void);
uint64_t memory_available_at(const char *root); /* files under `root` in place of /: for tests */
#ifdef TERN_MPI
uint64_t memory_for_files(void); /* the same, with all pages of files: what mapped weights can have */
#endif

/* A page-aligned range that reads as zeros and takes memory only where it is touched; NULL when
 * the system refuses. n > 0. */
void *memory_reserve(size_t n);
/* Asks for large pages under a reserved range or a file's mapping, before it is touched. */
void memory_advise_huge(void *p, size_t n);
/* Asks for small ones, where only parts of the range will be touched. */
void memory_advise_small(void *p, size_t n);
void memory_release(void *p, size_t n); /* the whole range; NULL is fine */

/* Makes the whole pages that hold p .. p + n, a file's mapping, private memory that reads as zeros,
 * on huge pages where the system has them. False when it refuses; then the range is gone. */
bool memory_replace(void *p, size_t n);

/* p .. p + n, a file's mapping, will be read soon: a hint. */
void memory_expect(const void *p, size_t n);

/* Keeps p .. p + n in memory; false with errno and the bytes that this process may lock. */
bool memory_lock(const void *p, size_t n, uint64_t *limit);

#endif
