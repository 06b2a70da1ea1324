/* Watches and fails allocations, for a test whose first line is
 *   ldflags: -Wl,@tests/support/allocs.ld
 * in a comment. A mapping without a file is an allocation, too, of 0 bytes: its pages come when they
 * are used. Not for several threads. */
#ifndef TESTS_ALLOCS_H
#define TESTS_ALLOCS_H

#include <stdbool.h>
#include <stddef.h>

/* Forgets all counts; then the fail_at-th allocation from now fails (0: none), and with
 * fail_rest also every one after it. */
void allocs_start(size_t fail_at, int fail_rest);
void allocs_stop(void); /* nothing fails any more (Check's own calls must not) */

size_t allocs_count(void); /* allocations since allocs_start, failed ones included */
size_t allocs_peak(void);  /* most bytes that lived at the same time since allocs_start */
size_t allocs_live(void);  /* blocks made since allocs_start and not yet freed */

/* NULL, or asked before a file is mapped: whether that fails, with errno. */
extern bool (*allocs_file_map_fails)(void);

/* Ends a fuzzer whose target took more since allocs_start than an input of `bytes` bytes may: 4
 * times that and 1 MiB to be refused, 8 times and 1 MiB to be accepted. */
void allocs_judge(size_t bytes, int accepted);

#endif
