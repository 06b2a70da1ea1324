/* What a cache is asked to hold. */
#ifndef MODEL_CACHE_REQUEST_H
#define MODEL_CACHE_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "tern.h"

struct cache_request {
    enum tern_cache_type type;
    size_t n_ctx, n_batch, n_seqs;
    uint64_t prefix_bytes; /* for the store of prefixes, at most; 0: none */
};

#endif
