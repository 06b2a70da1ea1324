/* A hash of 64 bits: every bit of x changes about half of the result's. No two values share
 * a result (degski's mixer, in the list of C. Wellons, "hash-prospector"). */
#ifndef BASE_HASH_MIX_H
#define BASE_HASH_MIX_H

#include <stdint.h>

static inline uint64_t hash_mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

#endif
