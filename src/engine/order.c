/* The orders of rank 0: see order.h. */
#include "engine/order.h"

#ifdef TERN_MPI

#include <stdlib.h>

#include "base/machines.h"
#include "base/sizes.h"

/* MPI belongs to the process, and so does this. */
tern_context *order_contexts[MOST_CONTEXTS];

static struct {
    void *more; /* [bytes] */
    size_t bytes;
} room;

void order_give(struct order order, const void *more, size_t bytes)
{
    void *copy = (void *)(uintptr_t)more; /* which a broadcast of rank 0 only reads */
    machines_broadcast(&order, sizeof order);
    machines_broadcast(copy, bytes);
}

void order_take(struct order *order)
{
    machines_broadcast(order, sizeof *order);
}

void order_more(void *more, size_t bytes)
{
    machines_broadcast(more, bytes);
}

void order_end(void)
{
    order_give((struct order){.kind = ORDER_END}, NULL, 0);
}

uint32_t order_number(void)
{
    uint32_t n = 0;
    while (n < MOST_CONTEXTS && order_contexts[n])
        n++;
    return n;
}

void *order_room(size_t bytes)
{
    if (bytes > room.bytes) {
        void *more = realloc(room.more, bytes);
        room.more = more ? more : room.more, room.bytes = more ? bytes : room.bytes;
    }
    return bytes <= room.bytes ? room.more : NULL;
}

size_t order_bytes(const struct tern_memory *plan)
{
    return max_size(plan->n_batch * sizeof(struct order_row), plan->n_ctx * sizeof(tern_token));
}

#endif
