/* The mask of a sampler: a choice under a mask is the choice from a vocabulary that has no other
 * tokens, and no parameter makes a token outside the mask come out. */
#include "kernels/kernels.h"
#include "sample/sampler.h"
#include "suite.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_VOCAB = 400, MAX_HISTORY = 60, WORDS = (MAX_VOCAB + 31) / 32 };

static struct kernels kernels;
static uint64_t state;

static unsigned next(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static float part(void)
{
    return (float)next(1000) / 1000;
}

static tern_token choose(const struct tern_sampler_params *p, const float *logits, size_t vocab,
                         const tern_token *history, size_t n, uint64_t index, const uint32_t *mask)
{
    static struct sampler_item scratch[2 * MAX_VOCAB];
    struct sampler s = {.vocab = vocab, .log_sum_exp = kernels.log_sum_exp, .scratch = scratch};
    return sampler_pick(&s, p, logits, history, n, index, mask);
}

static bool is_in(const uint32_t *mask, tern_token token)
{
    return mask[token / 32] >> token % 32 & 1;
}

static struct tern_sampler_params random_params(struct tern_bias *bias, size_t vocab)
{
    struct tern_sampler_params p = sampler_defaults();
    p.temperature = next(6) ? 0.3f + 2 * part() : 0;
    p.top_k = next(2) * next((unsigned)vocab + 10);
    p.top_p = next(2) ? part() : 1;
    p.min_p = next(2) ? part() * part() : 0;
    p.typical_p = next(3) ? 1 : part();
    p.top_n_sigma = next(3) ? 0 : 3 * part();
    p.xtc_probability = next(3) ? 0 : 0.5f, p.xtc_threshold = next(2) ? 0 : 0.3f * part();
    p.repeat_penalty = next(3) ? 1 : 1 + part();
    p.frequency_penalty = next(3) ? 0 : part(), p.presence_penalty = next(3) ? 0 : part();
    p.dry_multiplier = next(3) ? 0 : 5 * part(), p.dry_base = next(2) ? 1.75f : 1000;
    p.mirostat = next(5) ? 0 : 2;
    p.seed = next(1000);
    p.bias = bias, p.n_bias = next(3);
    for (size_t i = 0; i < p.n_bias; i++)
        bias[i] = (struct tern_bias){(tern_token)next((unsigned)vocab), 4 * part() - 2};
    return p;
}

/* The same case in a vocabulary of the mask's tokens alone; the others of the history become ids that
 * it does not have. */
struct small {
    float logits[MAX_VOCAB];
    tern_token history[MAX_HISTORY], token[MAX_VOCAB], place[MAX_VOCAB];
    struct tern_bias bias[2];
    size_t vocab;
    struct tern_sampler_params p;
};

static void shrink(struct small *s, const struct tern_sampler_params *p, const float *logits,
                   size_t vocab, const tern_token *history, size_t n, const uint32_t *mask)
{
    size_t outside = 0;
    s->vocab = 0;
    for (size_t i = 0; i < vocab; i++)
        if (is_in(mask, (tern_token)i)) {
            s->place[i] = (tern_token)s->vocab;
            s->token[s->vocab] = (tern_token)i;
            s->logits[s->vocab++] = logits[i];
        } else {
            s->place[i] = (tern_token)(vocab + outside++);
        }
    for (size_t i = 0; i < n; i++)
        s->history[i] = s->place[history[i]];
    s->p = *p, s->p.bias = s->bias;
    for (size_t i = 0; i < p->n_bias; i++) /* those outside are ignored */
        s->bias[i] = (struct tern_bias){s->place[p->bias[i].token], p->bias[i].value};
}

START_TEST(a_mask_is_a_smaller_vocabulary)
{
    float logits[MAX_VOCAB];
    tern_token history[MAX_HISTORY];
    struct tern_bias bias[2];
    static struct small small;
    size_t rounds = 0;
    for (state = 1; rounds < 20000; rounds++) {
        uint32_t mask[WORDS] = {0};
        size_t vocab = 1 + next(next(2) ? MAX_VOCAB : 40), n = next(MAX_HISTORY);
        unsigned rare = 1 + next(8);
        for (size_t i = 0; i < vocab; i++) {
            logits[i] = (float)next(next(2) ? 30 : 100000) / 3000.0f - (float)next(20);
            mask[i / 32] |= (uint32_t)!next(rare) << i % 32;
        }
        tern_token one = (tern_token)next((unsigned)vocab);
        mask[one / 32] |= (uint32_t)1 << one % 32;
        for (size_t i = 0; i < n; i++)
            history[i] = (tern_token)next(next(2) && vocab > 4 ? 4 : (unsigned)vocab);
        struct tern_sampler_params p = random_params(bias, vocab);
        float mu = 3, small_mu = 3;
        shrink(&small, &p, logits, vocab, history, n, mask);
        p.mu = &mu, small.p.mu = &small_mu;
        for (uint64_t i = 0; i < 3; i++) {
            tern_token token = choose(&p, logits, vocab, history, n, i, mask);
            tern_token want =
                choose(&small.p, small.logits, small.vocab, small.history, n, i, NULL);
            ck_assert_msg(token == small.token[want], "round %zu: %d, want %d", rounds, (int)token,
                          (int)small.token[want]);
            ck_assert_msg(fabsf(mu - small_mu) < 1e-4f, "%g %g", (double)mu, (double)small_mu);
        }
    }
}
END_TEST

/* Whatever the values are: infinite, no numbers, or made so by a bias or by DRY. */
START_TEST(nothing_outside_the_mask_is_chosen)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0};
    float logits[70];
    struct tern_bias bias[3];
    tern_token history[40];
    state = 7;
    for (int round = 0; round < 20000; round++) {
        uint32_t mask[3] = {0};
        size_t vocab = 1 + next(70);
        for (size_t i = 0; i < vocab; i++) {
            logits[i] = odd[next(6)];
            mask[i / 32] |= (uint32_t)!next(4) << i % 32;
        }
        for (size_t i = 0; i < 40; i++)
            history[i] = (tern_token)(i % (1 + next(2)));
        struct tern_sampler_params p = random_params(bias, vocab);
        p.dry_multiplier = 1000, p.n_bias = 3;
        for (size_t i = 0; i < 3; i++)
            bias[i] = (struct tern_bias){(tern_token)next((unsigned)vocab), odd[next(2)]};
        bool empty = !mask[0] && !mask[1] && !mask[2];
        mask[2] |= ~(uint32_t)0 << 6; /* bits behind the vocabulary mean nothing */
        tern_token token = choose(&p, logits, vocab, history, 40, next(9), mask);
        ck_assert(empty ? token == -1 : token >= 0 && (size_t)token < vocab && is_in(mask, token));
    }
}
END_TEST

/* Where every token that may come is at -inf, and where a bias takes one always. */
START_TEST(the_lowest_of_equal_ones)
{
    struct tern_bias bias[] = {{1, INFINITY}, {3, INFINITY}, {4, INFINITY}};
    const float low[] = {0, 0, -INFINITY, -INFINITY, NAN};
    const uint32_t mask[] = {1 << 2 | 1 << 3 | 1 << 4};
    for (int greedy = 0; greedy < 2; greedy++) {
        struct tern_sampler_params p = sampler_defaults();
        p.temperature = greedy ? 0 : 1;
        ck_assert_int_eq(choose(&p, low, 5, NULL, 0, 0, mask), 2);
        p.bias = bias, p.n_bias = 3; /* 1 is outside, -inf + inf and NaN are no numbers */
        const float logits[] = {9, 9, 9, 0, 0};
        ck_assert_int_eq(choose(&p, logits, 5, NULL, 0, 0, mask), 3);
    }
}
END_TEST

static void choose_kernels(void)
{
    kernels_init(&kernels, NULL, NULL);
}

SUITE("sampler_mask", AROUND_ALL(choose_kernels, NULL), TEST(a_mask_is_a_smaller_vocabulary),
      TEST(nothing_outside_the_mask_is_chosen), TEST(the_lowest_of_equal_ones))
