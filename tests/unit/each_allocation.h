/* A work whose allocations fail in turn. */
#ifndef UNIT_EACH_ALLOCATION_H
#define UNIT_EACH_ALLOCATION_H

#include "allocs.h"

#include <check.h>

/* Each allocation of use() fails, alone and with all behind it; nothing may be left. Returns how many there are. */
static inline size_t each_allocation(void (*use)(void))
{
    allocs_start(0, 0);
    use();
    const size_t n = allocs_count();
    allocs_stop();
    for (size_t i = 1; i <= n; i++)
        for (int rest = 0; rest < 2; rest++) {
            allocs_start(i, rest);
            use();
            const size_t left = allocs_live();
            allocs_stop(); /* Check allocates, too */
            ck_assert_uint_eq(left, 0);
        }
    return n;
}

#endif
