/* How the memory for prefixes is divided: places of the store (prefix_store.h), each with a page of
 * every window class, and states of recurrent layers. */
#ifndef MODEL_PREFIX_SHARE_H
#define MODEL_PREFIX_SHARE_H

#include <stddef.h>
#include <stdint.h>

enum {
    PREFIX_NODE_BYTES = 1152, /* of a place itself, beside its pages: tokens, links; at most */
    PREFIX_STATE_BYTES = 64   /* of the place of a state */
};

struct prefix_share {
    size_t n_pages;  /* in every window class; 0: there is no store */
    size_t n_states; /* snapshots */
    uint64_t bytes;  /* of both: at most the budget */
};

/* pages: bytes of a page of every class; state: of all recurrent layers, 0 without any. A state goes
 * with as many pages as take its memory, within [1, 16]: a state that is small comes with every page,
 * and large ones take half of the memory. Of its own `bytes` as a budget the share is the same. */
struct prefix_share prefix_share_of(uint64_t budget, uint64_t pages, size_t n_classes,
                                    uint64_t state);

#endif
