/* XXH64: 64-bit checksum of bytes, at once or piece by piece (Y. Collet, "xxHash fast digest
 * algorithm", version 0.1.1). Guards against accident, not against an attacker. */
#ifndef BASE_XXH64_H
#define BASE_XXH64_H

#include <stddef.h>
#include <stdint.h>

struct xxh64 {
    uint64_t lane[4], seed, total;
    unsigned char rest[32]; /* bytes that do not yet fill a stripe */
    size_t n_rest;
};

void xxh64_init(struct xxh64 *h, uint64_t seed);
void xxh64_update(struct xxh64 *h, const void *p, size_t n);
uint64_t xxh64_digest(const struct xxh64 *h); /* of all bytes so far; h may be continued */

uint64_t xxh64(const void *p, size_t n); /* seed 0 */

#endif
