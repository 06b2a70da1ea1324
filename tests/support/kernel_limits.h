/* What the machine can do at best, for the bench, all threads together (kernels/peak/peak.h). */
#ifndef TESTS_KERNEL_LIMITS_H
#define TESTS_KERNEL_LIMITS_H

#include "base/pool.h"
#include "tern.h"

double limit_seconds(void); /* of a clock that never goes back */

double limit_macs(struct pool *pool, unsigned cpu, enum tern_type type); /* GMAC/s */

/* GB/s over the `bytes` at data, rounded down */
double limit_read(struct pool *pool, unsigned cpu, const void *data, size_t bytes);

#endif
