/* The memory for prefixes: see prefix_share.h. */
#include "model/prefix_share.h"

enum { MOST_PLACES = 1 << 30, MOST_TOGETHER = 16 };

struct prefix_share prefix_share_of(uint64_t budget, uint64_t pages, size_t n_classes,
                                    uint64_t state)
{
    uint64_t page = pages + PREFIX_NODE_BYTES + n_classes * sizeof(int32_t), together, n_states = 0;
    if (state) {
        state += PREFIX_STATE_BYTES;
        together = state / page < 1 ? 1 : state / page;
        together = together > MOST_TOGETHER ? MOST_TOGETHER : together;
        n_states = budget / (state + together * page);
        n_states = n_states > MOST_PLACES / MOST_TOGETHER ? MOST_PLACES / MOST_TOGETHER : n_states;
    }
    uint64_t n_pages = (budget - n_states * state) / page;
    n_pages = n_pages > MOST_PLACES ? MOST_PLACES : n_pages;
    if (!n_pages || (state && !n_states))
        return (struct prefix_share){0};
    return (struct prefix_share){(size_t)n_pages, (size_t)n_states,
                                 n_pages * page + n_states * state};
}
