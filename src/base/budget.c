/* The budget of a constraint: see budget.h. */
#include "base/budget.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void *budget_resize(struct budget *b, void *p, size_t old, size_t size)
{
    if (size > old && size - old > b->bytes)
        return b->is_empty = true, NULL;
    if (size > old && !quota_take(b->quota, size - old))
        return b->no_memory = true, NULL;
    void *bigger = realloc(p, size ? size : 1);
    if (!bigger) {
        if (size > old)
            quota_give(b->quota, size - old);
        return b->no_memory = true, NULL;
    }
    if (size < old)
        quota_give(b->quota, old - size);
    b->bytes = b->bytes + old - size;
    return bigger;
}

void budget_free(struct budget *b, void *p, size_t size)
{
    free(p);
    if (p) {
        b->bytes += size;
        quota_give(b->quota, size);
    }
}

/* By half again, or, where the budget does not allow that, by what is needed. */
bool budget_grow(struct budget *b, void *array, uint32_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    if (need > UINT32_MAX / 2 || need > SIZE_MAX / 4 / size)
        return false;
    void *p, *bigger;
    memcpy(&p, array, sizeof p);
    size_t more = need + *capacity / 2 + 4;
    if ((more - *capacity) * size > b->bytes)
        more = need;
    bigger = budget_resize(b, p, *capacity * size, more * size);
    if (!bigger)
        return false;
    memcpy(array, &bigger, sizeof bigger);
    *capacity = (uint32_t)more;
    return true;
}

enum tern_status budget_refuse(const struct budget *b, struct tern_error *e, const char *what)
{
    if (b->stop && b->stop->stopped)
        return error_set(e, TERN_CANCELLED, "%s: compiling it was stopped", what);
    if (b->no_memory)
        return error_set(e, TERN_NO_MEMORY, "%s: not enough memory", what);
    const char *unit = b->steps ? "bytes" : "steps";
    uint64_t all = b->steps ? b->all_bytes : b->all_steps;
    if (!all)
        return error_set(e, TERN_LIMIT, "%s: too large for the budget (%s are used up)", what,
                         unit);
    return error_set(e, TERN_LIMIT,
                     "%s: too large for the budget (it needs more than the %" PRIu64
                     " %s that one may take)",
                     what, all, unit);
}
