/* cflags: -O2 */
/* XXH64: see xxh64.h. Four lanes eat 8 bytes each of every 32-byte stripe, are merged at the end,
 * and the tail is stirred in by words of 8, 4 and 1 bytes. */
#include "base/xxh64.h"

#include "base/bytes.h"

static const uint64_t P1 = 0x9E3779B185EBCA87, P2 = 0xC2B2AE3D27D4EB4F, P3 = 0x165667B19E3779F9,
                      P4 = 0x85EBCA77C2B2AE63, P5 = 0x27D4EB2F165667C5;

static uint64_t rotl(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static uint64_t round64(uint64_t lane, uint64_t input)
{
    return rotl(lane + input * P2, 31) * P1;
}

static uint64_t merge(uint64_t h, uint64_t lane)
{
    return (h ^ round64(0, lane)) * P1 + P4;
}

/* Whole stripes of p. */
static void eat(struct xxh64 *h, const unsigned char *p, size_t stripes)
{
    uint64_t a = h->lane[0], b = h->lane[1], c = h->lane[2], d = h->lane[3];
    for (; stripes; stripes--, p += 32) {
        a = round64(a, load_u64(p));
        b = round64(b, load_u64(p + 8));
        c = round64(c, load_u64(p + 16));
        d = round64(d, load_u64(p + 24));
    }
    h->lane[0] = a, h->lane[1] = b, h->lane[2] = c, h->lane[3] = d;
}

void xxh64_init(struct xxh64 *h, uint64_t seed)
{
    *h = (struct xxh64){.lane = {seed + P1 + P2, seed + P2, seed, seed - P1}, .seed = seed};
}

void xxh64_update(struct xxh64 *h, const void *p, size_t n)
{
    const unsigned char *at = p;
    if (!n) /* then p may be NULL, which memcpy does not take */
        return;
    h->total += n;
    if (h->n_rest) {
        size_t fill = sizeof h->rest - h->n_rest;
        fill = fill < n ? fill : n;
        memcpy(h->rest + h->n_rest, at, fill);
        h->n_rest += fill, at += fill, n -= fill;
        if (h->n_rest < sizeof h->rest)
            return;
        eat(h, h->rest, 1);
        h->n_rest = 0;
    }
    eat(h, at, n / 32);
    if (n % 32)
        memcpy(h->rest, at + n / 32 * 32, n % 32);
    h->n_rest = n % 32;
}

static uint64_t tail(uint64_t x, const unsigned char *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8)
        x = rotl(x ^ round64(0, load_u64(p)), 27) * P1 + P4;
    for (; n >= 4; n -= 4, p += 4)
        x = rotl(x ^ load_u32(p) * P1, 23) * P2 + P3;
    for (; n; n--, p++)
        x = rotl(x ^ *p * P5, 11) * P1;
    return x;
}

uint64_t xxh64_digest(const struct xxh64 *h)
{
    uint64_t x = h->seed + P5;
    if (h->total >= 32) {
        x = rotl(h->lane[0], 1) + rotl(h->lane[1], 7) + rotl(h->lane[2], 12) + rotl(h->lane[3], 18);
        for (int i = 0; i < 4; i++)
            x = merge(x, h->lane[i]);
    }
    x = tail(x + h->total, h->rest, h->n_rest);
    x = (x ^ x >> 33) * P2;
    x = (x ^ x >> 29) * P3;
    return x ^ x >> 32;
}

uint64_t xxh64(const void *p, size_t n)
{
    struct xxh64 h;
    xxh64_init(&h, 0);
    xxh64_update(&h, p, n);
    return xxh64_digest(&h);
}
