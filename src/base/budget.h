/* What compiling a constraint may cost. Every layer takes from the same purse; when it is empty, the
 * constraint is refused. Steps are counted, not timed, so that the answer does not depend on the
 * machine. */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H

#include "base/error.h"
#include "base/quota.h"
#include "base/stop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget {
    size_t bytes;   /* left */
    uint64_t steps; /* left; a step is about a derivative, or 100 instructions */
    uint64_t all_bytes,
        all_steps;  /* what it began with, for the sentence that refuses; 0: not said */
    bool no_memory; /* malloc failed, or quota has no room: TERN_NO_MEMORY instead of TERN_LIMIT */
    bool is_empty;  /* something was asked for that it does not hold */
    struct stop *stop;   /* asked as steps are taken; NULL: nobody is */
    struct quota *quota; /* of which the bytes are, too; NULL: of none */
};

static inline bool budget_step(struct budget *b, uint64_t steps)
{
    if (b->steps < steps)
        return b->is_empty = true, b->steps = 0, false;
    b->steps -= steps;
    return !stop_asked(b->stop, steps);
}

/* realloc of p from `old` to `size` bytes, counted. NULL: no budget or no memory; p is as it was. */
void *budget_resize(struct budget *b, void *p, size_t old, size_t size);
/* free of p, and its bytes go back. */
void budget_free(struct budget *b, void *p, size_t size);

/* Makes room for `need` elements of `size` bytes in an array of *capacity; `array` is the address of
 * the pointer to it. False: no budget or no memory; nothing changed. */
bool budget_grow(struct budget *b, void *array, uint32_t *capacity, size_t need, size_t size);

/* Fills e for a budget that is gone: "WHAT: too large for the budget", no memory, or stopped. */
enum tern_status budget_refuse(const struct budget *b, struct tern_error *e, const char *what);

#endif
