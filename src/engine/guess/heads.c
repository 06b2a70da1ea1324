/* Guesses of the model's own layer: see heads.h. */
#include "engine/guess/heads.h"

#include "base/clock.h"

enum {
    MEMORY = 32,
    COLD = 2 /* calls that touch memory for the first time */
};

static const float CHANCE = 0.7f; /* before anything is known */

void heads_init(struct heads *h, size_t max)
{
    *h = (struct heads){.max = max < HEADS_MOST ? max : HEADS_MOST};
    for (size_t i = 0; i < HEADS_MOST; i++)
        h->chance[i] = CHANCE;
}

void heads_guess(struct heads *h, struct tern_context *ctx, uint32_t seq, tern_token token,
                 size_t max, float least)
{
    uint64_t begin = clock_ns();
    size_t made;
    h->n_guess = context_guess(ctx, seq, token, max, least, h->guess, &made);
    if (!made || h->n_calls++ < COLD)
        return;
    double each = (double)(clock_ns() - begin) * 1e-9 / (double)made;
    if (h->each <= 0)
        h->each = each;
    else /* interrupts, and rows that lag behind, hardly count */
        h->each += ((each < 1.5 * h->each ? each : 1.5 * h->each) - h->each) / 8;
}

void heads_learn(struct heads *h, size_t right)
{
    for (size_t i = 0; i <= right && i < h->n_guess; i++) {
        if (h->seen[i] < MEMORY)
            h->seen[i]++;
        h->chance[i] += ((float)(i < right) - h->chance[i]) / (float)(h->seen[i] + 1);
    }
}

void heads_pass(struct heads *h)
{
    for (size_t i = 0; i < HEADS_MOST; i++)
        h->chance[i] += (CHANCE - h->chance[i]) / 512;
    h->each -= h->each / 512;
}
