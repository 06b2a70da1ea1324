/* Rows of activations: see act_buffer.h. */
#include "model/act_buffer.h"

#include "base/sizes.h"

void act_buffer_take(struct arena *a, struct act_buffer *b, size_t n, size_t k)
{
    size_t groups = round_up(k, GROUP) / GROUP;
    b->stride = round_up(k, 64);
    b->x = arena_take(a, n * b->stride, sizeof *b->x);
    b->q = arena_take(a, b->stride, sizeof *b->q);
    b->scale = arena_take(a, round_up(groups, 16), sizeof *b->scale);
    b->sum = arena_take(a, round_up(groups, 16), sizeof *b->sum);
    if (n > 1)
        b->octets = arena_take(a, round_up(n, OCTET) / OCTET * groups, sizeof *b->octets);
}

struct activations act_buffer_view(const struct act_buffer *b, size_t n, size_t k, bool quantized)
{
    return (struct activations){n,    k,        b->stride, b->x,
                                b->q, b->scale, b->sum,    quantized ? b->octets : NULL, NULL};
}
