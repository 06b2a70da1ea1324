/* The seeded generator of awkward strings that tools/tern/testing/hard_strings.py defines: the same
 * bytes here as there. */
#ifndef TESTS_HARD_STRINGS_H
#define TESTS_HARD_STRINGS_H

#include "text/buffer.h"

#include <stdint.h>

struct strings { /* texts lying one after another */
    const char *bytes;
    const uint32_t *start; /* [n + 1] */
    uint32_t n;
};

/* Replaces the contents of `out` with hard string `index`. */
void hard_string(struct buffer *out, uint64_t seed, uint64_t index, const struct strings *fragments,
                 const struct strings *tokens, const struct strings *added);

/* Writes up to 20 ids below n_tokens and returns their number. */
size_t hard_ids(int32_t ids[20], uint64_t seed, uint64_t index, uint32_t n_tokens);

#endif
