/* Sampler against a plain reference: full sort, double precision, one array of probabilities. */
#include "kernels/kernels.h"
#include "sample/penalties.h"
#include "sample/sampler.h"
#include "text/decoder.h"
#include "weights/keywriter.h"
#include "golden.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VOCAB = 400 };

struct reference {
    struct sampler_item item[MAX_VOCAB]; /* sorted, best first */
    double p[MAX_VOCAB];                 /* of item[i]; 0 from `n` on */
    size_t n;
};

static struct sampler_item scratch[2 * MAX_VOCAB];
static struct kernels kernels;

static tern_token choose(const struct tern_sampler_params *p, const float *logits, size_t vocab,
                         const tern_token *history, size_t n_history, uint64_t index)
{
    struct sampler s = {.vocab = vocab, .log_sum_exp = kernels.log_sum_exp, .scratch = scratch};
    return sampler_pick(&s, p, logits, history, n_history, index, NULL);
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static int by_order(const void *pa, const void *pb)
{
    const struct sampler_item *a = pa, *b = pb;
    if (a->value != b->value)
        return a->value > b->value ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static void normalise(struct reference *r, double temperature)
{
    double total = 0;
    for (size_t i = 0; i < r->n; i++)
        total += r->p[i] = exp(((double)r->item[i].value - (double)r->item[0].value) / temperature);
    for (size_t i = 0; i < r->n; i++)
        r->p[i] /= total;
}

static void reference_make(struct reference *r, const struct tern_sampler_params *p,
                           const float *logits, size_t vocab)
{
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < vocab; i++)
        r->item[i] = (struct sampler_item){logits[i], (tern_token)i};
    qsort(r->item, vocab, sizeof r->item[0], by_order);
    r->n = p->top_k && p->top_k < vocab ? p->top_k : vocab;
    normalise(r, 1);
    double sum = 0;
    size_t n = 0;
    while (n < r->n && (p->top_p >= 1 || n == 0 || sum < (double)p->top_p))
        sum += r->p[n++];
    while (n > 1 && r->p[n - 1] < (double)p->min_p * r->p[0])
        n--;
    r->n = n;
    normalise(r, (double)p->temperature);
}

static struct tern_sampler_params plain(void)
{
    return (struct tern_sampler_params){
        .temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64};
}

static tern_token pick(const struct tern_sampler_params *p, const float *logits, size_t vocab,
                       uint64_t index)
{
    return choose(p, logits, vocab, NULL, 0, index);
}

/* ---- random numbers ---------------------------------------------------------------------- */

START_TEST(uniform_is_fixed_and_uniform)
{
    /* Computed by hand from the formula in sampler.h (Python integers). */
    ck_assert(sampler_uniform(0, 0, 0) == 2327157.0f * 0x1p-24f);
    ck_assert(sampler_uniform(42, 7, 1) == 9134624.0f * 0x1p-24f);
    ck_assert(sampler_uniform(UINT64_MAX, UINT64_MAX, 3) == 3146344.0f * 0x1p-24f);

    enum { BINS = 64, N = 64000 };
    for (int axis = 0; axis < 3; axis++) { /* along the seed, the index, the draw */
        int bin[BINS] = {0};
        for (uint64_t i = 0; i < N; i++) {
            float u = sampler_uniform(axis == 0 ? i : 5, axis == 1 ? i : 9, axis == 2 ? i : 0);
            ck_assert(u >= 0 && u < 1);
            bin[(int)(u * BINS)]++;
        }
        double chi2 = 0;
        for (int b = 0; b < BINS; b++)
            chi2 += (bin[b] - 1000.0) * (bin[b] - 1000.0) / 1000.0;
        ck_assert_double_lt(chi2, 120.0); /* 63 degrees of freedom: 1 in 20,000 */
    }
}
END_TEST

/* ---- greedy ------------------------------------------------------------------------------ */

START_TEST(greedy_takes_the_lowest_of_the_largest)
{
    struct tern_sampler_params p = plain();
    p.temperature = 0;
    float logits[] = {-1, 3, 3, 2, 3};
    ck_assert_int_eq(pick(&p, logits, 5, 0), 1);
    ck_assert_int_eq(pick(&p, logits + 4, 1, 0), 0);
}
END_TEST

START_TEST(values_that_are_not_numbers)
{
    for (int greedy = 0; greedy < 2; greedy++) {
        struct tern_sampler_params p = plain();
        p.temperature = greedy ? 0 : 1;
        float nans[] = {NAN, NAN, NAN};
        ck_assert_int_eq(pick(&p, nans, 3, 0), 0);
        float low[] = {NAN, -INFINITY, -5, NAN};
        ck_assert_int_eq(pick(&p, low, 4, 0), 2);
        float high[] = {1, INFINITY, NAN, INFINITY};
        ck_assert_int_eq(pick(&p, high, 4, 0), 1);
        p.top_k = 2, p.top_p = 0.9f, p.min_p = 0.1f;
        ck_assert_int_eq(pick(&p, low, 4, 0), 2);
    }
}
END_TEST

/* ---- repeat penalty ---------------------------------------------------------------------- */

START_TEST(penalty_divides_or_multiplies_once)
{
    struct tern_sampler_params p = plain();
    p.temperature = 0, p.repeat_penalty = 2;
    float logits[] = {3.9f, 8, -4, -3};
    tern_token twice[] = {1, 1, 1};
    ck_assert_int_eq(choose(&p, logits, 4, twice, 3, 0), 1); /* 4 > 3.9 */
    logits[0] = 4.1f;
    ck_assert_int_eq(choose(&p, logits, 4, twice, 3, 0), 0);
    float negative[] = {-4, -3};
    tern_token one[] = {1};
    ck_assert_int_eq(choose(&p, negative, 2, one, 1, 0), 0); /* -6 < -4 */
}
END_TEST

START_TEST(penalty_looks_back_on_last_n)
{
    struct tern_sampler_params p = plain();
    p.temperature = 0, p.repeat_penalty = 2, p.repeat_last_n = 2;
    float logits[] = {5, 9, 6, 8};
    tern_token history[] = {1, 3, 2};
    ck_assert_int_eq(choose(&p, logits, 4, history, 3, 0), 1); /* out of reach */
    tern_token edge[] = {3, 1, 2};
    ck_assert_int_eq(choose(&p, logits, 4, edge, 3, 0), 3);
    p.repeat_last_n = 3;
    ck_assert_int_eq(choose(&p, logits, 4, history, 3, 0), 0);
    p.repeat_last_n = 0;
    ck_assert_int_eq(choose(&p, logits, 4, history, 3, 0), 1);
    p.repeat_last_n = 1000;
    tern_token strange[] = {-1, 4, INT32_MAX, INT32_MIN};
    ck_assert_int_eq(choose(&p, logits, 4, strange, 4, 0), 1);
    p.repeat_penalty = 0;
    ck_assert_int_eq(choose(&p, logits, 4, history, 3, 0), 1);
}
END_TEST

/* Repeat penalties of 0 and 1 are off, also where another penalty is on. */
START_TEST(no_repeat_penalty)
{
    struct tern_sampler_params p = plain();
    p.temperature = 0;
    float logits[] = {5, 4};
    tern_token history[] = {0};
    for (int repeat = 0; repeat < 2; repeat++) {
        p.repeat_penalty = (float)repeat;
        p.presence_penalty = 0.9f;
        ck_assert_int_eq(choose(&p, logits, 2, history, 1, 0), 0);
        p.presence_penalty = 1.1f;
        ck_assert_int_eq(choose(&p, logits, 2, history, 1, 0), 1);
    }
}
END_TEST

START_TEST(penalty_comes_before_the_cuts)
{
    struct tern_sampler_params p = plain();
    p.repeat_penalty = 10, p.top_k = 1;
    float logits[] = {5, 4, 1};
    tern_token history[] = {0};
    for (uint64_t i = 0; i < 50; i++)
        ck_assert_int_eq(choose(&p, logits, 3, history, 1, i), 1);
}
END_TEST

/* ---- frequencies ------------------------------------------------------------------------- */

/* Pearson's chi-square of 40,000 draws against the reference, or of 4,000; rare tokens share one bin. */
static void check_frequencies(const struct tern_sampler_params *p, const float *logits,
                              size_t vocab)
{
    const int n = golden_is_quick() ? 4000 : 40000;
    struct reference r;
    int seen[MAX_VOCAB] = {0};
    reference_make(&r, p, logits, vocab);
    for (int i = 0; i < n; i++)
        seen[pick(p, logits, vocab, (uint64_t)i)]++;
    double chi2 = 0, rest = 0, rest_seen = n;
    int freedom = -1;
    for (size_t i = 0; i < r.n; i++) {
        double expected = r.p[i] * n, got = seen[r.item[i].id];
        if (expected < 10) {
            rest += expected;
            continue;
        }
        rest_seen -= got;
        chi2 += (got - expected) * (got - expected) / expected;
        freedom++;
    }
    for (size_t i = r.n; i < vocab; i++)
        ck_assert_msg(seen[r.item[i].id] == 0, "token %d was cut", r.item[i].id);
    if (rest >= 10) {
        chi2 += (rest_seen - rest) * (rest_seen - rest) / rest;
        freedom++;
    }
    ck_assert_msg(chi2 <= freedom + 4 * sqrt(2.0 * freedom) + 8, "chi2 %g with %d degrees", chi2,
                  freedom);
}

START_TEST(every_stage_has_the_frequencies_of_the_reference)
{
    float logits[50];
    uint64_t state = 1;
    for (size_t i = 0; i < 50; i++)
        logits[i] = (float)(next(&state) % 1000) / 250.0f;
    struct tern_sampler_params stages[8];
    for (size_t i = 0; i < 8; i++) {
        stages[i] = plain();
        stages[i].seed = i;
    }
    stages[1].temperature = 0.5f;
    stages[2].temperature = 1.7f;
    stages[3].top_k = 7;
    stages[4].top_p = 0.6f;
    stages[5].min_p = 0.2f;
    stages[6].top_k = 30, stages[6].top_p = 0.8f, stages[6].min_p = 0.1f;
    stages[6].temperature = 0.8f;
    stages[7].top_k = 1;
    for (size_t i = 0; i < 8; i++)
        check_frequencies(&stages[i], logits, 50);
}
END_TEST

/* The token picked must be the one whose interval of the reference's sum holds u. */
static void check_one(uint64_t *state)
{
    float logits[MAX_VOCAB];
    size_t vocab = 1 + next(state) % MAX_VOCAB;
    uint64_t ties = next(state) % 2 ? 1000000 : 5;
    for (size_t i = 0; i < vocab; i++)
        logits[i] = (float)(next(state) % ties) * (8.0f / (float)ties);
    struct tern_sampler_params p = plain();
    p.temperature = 0.1f + (float)(next(state) % 100) / 40.0f;
    if (next(state) % 2)
        p.top_k = (uint32_t)(1 + next(state) % 450);
    if (next(state) % 2)
        p.top_p = (float)(next(state) % 1001) / 1000.0f;
    if (next(state) % 2)
        p.min_p = (float)(next(state) % 1001) / 1000.0f;
    p.seed = next(state);
    uint64_t index = next(state);

    struct reference r;
    reference_make(&r, &p, logits, vocab);
    tern_token got = pick(&p, logits, vocab, index);
    double u = (double)sampler_uniform(p.seed, index, 0), sum = 0;
    for (size_t i = 0; i <= r.n && i < vocab; i++) {
        if (r.item[i].id == got) {
            ck_assert_msg(u >= sum - 1e-5 && u <= sum + r.p[i] + 1e-5,
                          "vocab %zu, token %d: u %g not in [%g, %g]", vocab, got, u, sum,
                          sum + r.p[i]);
            return;
        }
        sum += r.p[i];
    }
    ck_abort_msg("vocab %zu: token %d was cut", vocab, got);
}

START_TEST(random_cases_agree_with_the_reference)
{
    uint64_t state = 7;
    for (int i = 0; i < (golden_is_quick() ? 2000 : 20000); i++)
        check_one(&state);
}
END_TEST

START_TEST(extreme_parameters)
{
    struct tern_sampler_params p = plain();
    float logits[] = {0, 1, 3.0e38f, -3.0e38f};
    p.temperature = 1e-40f;
    ck_assert_int_eq(pick(&p, logits, 4, 0), 2);
    p.temperature = 1000;
    ck_assert_int_eq(pick(&p, logits, 4, 0), 2);
    p.top_p = 0;
    float close[] = {1, 1.5f, 1.4f};
    for (uint64_t i = 0; i < 100; i++)
        ck_assert_int_eq(pick(&p, close, 3, i), 1); /* the best alone stays */
    p.top_p = 1, p.min_p = 1;
    for (uint64_t i = 0; i < 100; i++)
        ck_assert_int_eq(pick(&p, close, 3, i), 1);
}
END_TEST

/* Of more tokens than are listed at once, all but a few are -inf. */
START_TEST(few_values_among_many)
{
    enum { MANY = 3000, FEW = 70 };
    static float logits[MANY];
    static struct sampler_item room[2 * MANY];
    struct sampler s = {.vocab = MANY, .log_sum_exp = kernels.log_sum_exp, .scratch = room};
    struct tern_sampler_params p = plain();
    for (size_t i = 0; i < MANY; i++)
        logits[i] = i % (MANY / FEW) ? -INFINITY : 1;
    p.min_p = 0.5f; /* looks at each until one is too small */
    for (uint64_t i = 0; i < 100; i++)
        ck_assert_int_eq(sampler_pick(&s, &p, logits, NULL, 0, i, NULL) % (MANY / FEW), 0);
}
END_TEST

START_TEST(same_arguments_same_token)
{
    struct tern_sampler_params p = sampler_defaults();
    float logits[300];
    uint64_t state = 3;
    for (size_t i = 0; i < 300; i++)
        logits[i] = (float)(next(&state) % 1000) / 200.0f;
    int differs = 0;
    for (uint64_t i = 0; i < 200; i++) {
        tern_token a = pick(&p, logits, 300, i);
        memset(scratch, (int)i, sizeof scratch);
        ck_assert_int_eq(pick(&p, logits, 300, i), a);
        p.seed++;
        differs += pick(&p, logits, 300, i) != a;
        p.seed--;
    }
    ck_assert_int_gt(differs, 100);
}
END_TEST

/* ---- ties -------------------------------------------------------------------------------- */

/* Of n equal logits, exactly the tokens lo .. hi - 1 can be drawn. */
static void check_kept(const struct tern_sampler_params *p, size_t n, tern_token lo, tern_token hi)
{
    static const float equal[8];
    bool seen[8] = {false};
    for (uint64_t i = 0; i < 300; i++)
        seen[pick(p, equal, n, i)] = true;
    for (tern_token t = 0; t < (tern_token)n; t++)
        ck_assert_msg(seen[t] == (t >= lo && t < hi), "token %d of %zu", (int)t, n);
}

/* Whether token 1 is ever drawn. */
static bool draws_second(const struct tern_sampler_params *p, const float *logits, size_t n)
{
    for (uint64_t i = 0; i < 300; i++)
        if (pick(p, logits, n, i) == 1)
            return true;
    return false;
}

/* Equal logits have weights of 1, whose sums meet a limit exactly. */
START_TEST(sums_that_meet_a_limit)
{
    struct tern_sampler_params p = plain();
    check_kept(&p, 4, 0, 4);
    p.top_p = 0.5f, check_kept(&p, 4, 0, 2);
    p = plain(), p.typical_p = 0.5f, check_kept(&p, 4, 0, 2);
    p = plain(), p.min_p = 1, check_kept(&p, 4, 0, 4);
    p = plain(), p.xtc_probability = 1;
    p.xtc_threshold = 0.25f, check_kept(&p, 4, 3, 4);
    p.xtc_threshold = 0.26f, check_kept(&p, 4, 0, 4);

    p = plain(), p.top_n_sigma = 2;
    float two[] = {0, -2}; /* their deviation is 1 */
    ck_assert(draws_second(&p, two, 2));
    p.top_n_sigma = 1.99f;
    ck_assert(!draws_second(&p, two, 2));
}
END_TEST

/* A deviation is that of the tokens which are left, and which can come at all. */
START_TEST(what_counts_in_a_deviation)
{
    struct tern_sampler_params p = plain();
    float never[] = {0, -2, -INFINITY, NAN}, four[] = {0, -2, -4, -6};
    p.top_n_sigma = 2;
    ck_assert(draws_second(&p, never, 4));
    p.top_n_sigma = 1.5f, p.typical_p = 0.99999f, p.top_k = 2;
    const enum tern_stage order[] = {TERN_STAGE_TYPICAL, TERN_STAGE_TOP_K, TERN_STAGE_TOP_N_SIGMA};
    for (size_t i = 0; i < 3; i++)
        p.order[i] = (unsigned char)order[i];
    ck_assert(!draws_second(&p, four, 4));
    p.top_n_sigma = 2;
    ck_assert(draws_second(&p, four, 4));
}
END_TEST

/* The first token whose sum exceeds u * total, where u is 55/64 and all weights are 1. */
START_TEST(a_draw_that_meets_a_sum)
{
    struct tern_sampler_params p = plain();
    static const float equal[64];
    enum { INDEX = 61227 };
    ck_assert(sampler_uniform(0, INDEX, 0) == 55.0f / 64);
    ck_assert_int_eq(pick(&p, equal, 64, INDEX), 55);
}
END_TEST

/* ---- DRY --------------------------------------------------------------------------------- */

enum { Q, B, LONG, JUST, DRY_VOCAB, LONG_BYTES = 4000, JUST_BYTES = DRY_BREAKER_MAX - 1 };

/* Q reads "q", B "b", LONG "byy...", JUST "zz...". */
static struct tokenizer *open_dry(struct keywriter *k)
{
    static char bytes[2 + LONG_BYTES + JUST_BYTES];
    const uint32_t lengths[] = {1, 1, LONG_BYTES, JUST_BYTES};
    const float scores[DRY_VOCAB] = {0};
    struct tern_error e = {0};
    struct tokenizer *t = NULL;
    memset(bytes, 'y', sizeof bytes);
    memcpy(bytes, "qbb", 3);
    memset(bytes + 2 + LONG_BYTES, 'z', JUST_BYTES);
    keywriter_init(k);
    keywriter_text(k, "kind", "spm");
    keywriter_add(k, "tokens.bytes", true, KEY_TEXT, bytes, sizeof bytes);
    keywriter_add(k, "tokens.lengths", true, KEY_U32, lengths, DRY_VOCAB);
    keywriter_add(k, "tokens.types", true, KEY_TEXT, "\1\1\1\1", DRY_VOCAB);
    keywriter_add(k, "scores", true, KEY_F32, scores, DRY_VOCAB);
    ck_assert(!k->failed);
    ck_assert_msg(!tokenizer_open_bytes(&t, k->data, k->bytes, DRY_VOCAB, &e), "%s", e.text);
    return t;
}

/* Whether q, of the logit `q`, is taken after "q x x x q x x x", x being `token`; its penalty is
 * 10 * base^(tokens that repeat behind `breaker` - allowed). */
static bool takes_q(struct decoder *d, tern_token token, const char *breaker, uint32_t allowed,
                    float base, float q)
{
    struct sampler s = {
        .vocab = DRY_VOCAB, .log_sum_exp = kernels.log_sum_exp, .scratch = scratch, .decoder = d};
    struct tern_sampler_params p = plain();
    const tern_token text[] = {Q, token, token, token, Q, token, token, token};
    const float logits[DRY_VOCAB] = {[Q] = q};
    p.temperature = 0, p.dry_multiplier = 10, p.dry_base = base, p.dry_allowed_length = allowed;
    p.dry_last_n = UINT32_MAX, p.dry_breakers = &breaker, p.n_dry_breakers = 1;
    return sampler_pick(&s, &p, logits, text, 8, 0, NULL) == Q;
}

/* True when less than `allowed` tokens are repeated. */
static bool cuts_to(struct decoder *d, tern_token token, const char *breaker, uint32_t allowed)
{
    return takes_q(d, token, breaker, allowed, 1, 1);
}

static bool cuts(struct decoder *d, tern_token token, const char *breaker)
{
    return cuts_to(d, token, breaker, 4);
}

/* What follows a token is kept as far as a breaker reaches, however long the tokens are. */
START_TEST(breakers_reach_into_long_tokens)
{
    struct keywriter k;
    struct decoder *d = NULL;
    char longest[DRY_BREAKER_MAX + 1] = "qb";
    static const char *const endings[] = {"q", "qb", "qbb", "qbbb"};
    struct tokenizer *t = open_dry(&k);
    ck_assert(!decoder_open(&d, t, true, NULL));
    ck_assert(cuts(d, B, "qb") && cuts(d, B, "qbbb") && !cuts(d, B, "qbbbb"));
    for (uint32_t n = 1; n <= 4; n++) /* a repetition begins behind the token in which they end */
        for (uint32_t allowed = 1; allowed <= 4; allowed++)
            ck_assert(cuts_to(d, B, endings[n - 1], allowed) == (4 - n < allowed));
    ck_assert(takes_q(d, B, "q", 3, 100, 11) && !takes_q(d, B, "q", 3, 100, 9)); /* 3, not 4 */
    memset(longest + 2, 'y', DRY_BREAKER_MAX - 2);
    ck_assert(cuts(d, LONG, "qbyy") && !cuts(d, LONG, "qbb") && cuts(d, LONG, longest));
    memset(longest + 1, 'z', DRY_BREAKER_MAX - 1);
    ck_assert(cuts(d, JUST, "qz") && !cuts(d, JUST, "qy") && cuts(d, JUST, longest));
    decoder_close(d);
    tokenizer_close(t);
    keywriter_close(&k);
}
END_TEST

static void choose_kernels(void)
{
    kernels_init(&kernels, NULL, NULL);
}

SUITE("sampler", AROUND_ALL(choose_kernels, NULL), TEST(uniform_is_fixed_and_uniform),
      TEST(greedy_takes_the_lowest_of_the_largest), TEST(values_that_are_not_numbers),
      TEST(penalty_divides_or_multiplies_once), TEST(penalty_looks_back_on_last_n),
      TEST(no_repeat_penalty), TEST(penalty_comes_before_the_cuts),
      TEST(every_stage_has_the_frequencies_of_the_reference),
      TEST(random_cases_agree_with_the_reference), TEST(extreme_parameters),
      TEST(few_values_among_many), TEST(same_arguments_same_token), TEST(sums_that_meet_a_limit),
      TEST(a_draw_that_meets_a_sum), TEST(breakers_reach_into_long_tokens),
      TEST(what_counts_in_a_deviation))
