/* What decides about speculation: the index of repetitions against a search, and the choice of how
 * many guesses to try against machines whose every step is known. */
#include <stdlib.h>

#include "engine/guess/lookup.h"
#include "engine/guess/pace.h"
#include "suite.h"

static uint64_t dice_state;

static unsigned dice(unsigned n)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(dice_state >> 33) % n;
}

/* ---- lookup ------------------------------------------------------------------------------------
 */

enum { TEXT = 5000 };
static tern_token text[TEXT];

START_TEST(a_text_without_repetitions_gives_no_guess)
{
    struct lookup l;
    tern_token guess[31];
    float chance[31];
    ck_assert(lookup_open(&l, text, TEXT));
    for (int i = 0; i < TEXT; i++) {
        text[i] = i * 7;
        lookup_push(&l);
        ck_assert_uint_eq(lookup_guess(&l, guess, chance, 31), 0);
    }
    lookup_close(&l);
}
END_TEST

START_TEST(every_match_is_one)
{
    struct lookup l;
    size_t right = 0, guesses = 0;
    for (int i = 0; i < TEXT; i++) /* pieces that come again, and noise */
        text[i] =
            i > 400 && i % 100 < 60 ? text[i - 100 * (1 + i / 100 % 3)] : (tern_token)dice(500);
    ck_assert(lookup_open(&l, text, 100)); /* more text than it was made for */
    for (int i = 0; i < TEXT; i++) {
        lookup_push(&l);
        if (!l.at)
            continue;
        ck_assert_uint_lt(l.at, l.n);
        ck_assert_uint_ge(l.length, 2);
        for (size_t k = 1; k <= l.length; k++)
            ck_assert_int_eq(text[l.at - k], text[l.n - k]);
        guesses++;
        right += i + 1 < TEXT && text[l.at] == text[i + 1];
    }
    ck_assert_msg(right > TEXT / 2 && right * 10 > guesses * 9, "%zu of %zu", right, guesses);
    lookup_close(&l);
}
END_TEST

START_TEST(a_loop_is_guessed_beyond_its_end)
{
    struct lookup l;
    tern_token guess[31];
    float chance[31];
    ck_assert(lookup_open(&l, text, TEXT));
    for (int i = 0; i < 60; i++) {
        text[i] = i % 3;
        lookup_push(&l);
    }
    ck_assert_uint_eq(lookup_guess(&l, guess, chance, 31), 31);
    for (int i = 0; i < 31; i++) {
        ck_assert_int_eq(guess[i], (60 + i) % 3);
        ck_assert(chance[i] > 0.9f && chance[i] <= 1);
    }
    lookup_doubt(&l);
    ck_assert(lookup_guess(&l, guess, chance, 31) < 10);
    lookup_close(&l);
}
END_TEST

/* ---- pace --------------------------------------------------------------------------------------
 */

struct machine {
    double per_row; /* a step of n rows takes 1 + per_row * (n - 1), with noise */
    float chance;   /* that a guess is right ... */
    float believed; /* ... and what is thought about it */
};

struct score {
    double time, trials;
    size_t tokens;
};

/* Generates for `tokens` tokens; one step of 20 is interrupted. */
static struct score simulate(struct machine m, size_t tokens)
{
    struct pace p;
    struct score s = {0};
    float chance[31], gain;
    for (int i = 0; i < 31; i++)
        chance[i] = m.believed;
    pace_init(&p, 1);
    while (s.tokens < tokens) {
        pace_begin(&p);
        size_t n = pace_choose(&p, chance, 31, 0, &gain), right = 0;
        pace_add(&p, chance, n, 0);
        double time = (1 + m.per_row * (double)n) * (0.97 + dice(60) * 1e-3);
        s.time += time;
        if (!dice(20))
            time *= 3;
        while (right < n && dice(1000) < (unsigned)(1000 * m.chance))
            right++;
        if (n) {
            s.trials++;
            pace_trial(&p, time * 1e-3);
            pace_settle(&p, right + 1);
        } else {
            pace_plain(&p, time * 1e-3);
            pace_pass(&p);
        }
        s.tokens += right + 1;
    }
    return s;
}

static double speedup(double per_row, float chance, float believed, size_t tokens)
{
    struct score s = simulate((struct machine){per_row, chance, believed}, tokens);
    return (double)s.tokens / s.time;
}

START_TEST(it_gains_where_guesses_are_right)
{
    double x = speedup(0.05, 0.9f, 0.9f, 2000), y = speedup(0.05, 0.5f, 0.5f, 2000),
           z = speedup(0.3, 0.9f, 0.9f, 2000);
    ck_assert_msg(x > 3 && y > 1.4 && z > 1.5, "%g %g %g", x, y, z);
}
END_TEST

START_TEST(it_does_not_lose_where_guesses_are_wrong)
{
    for (size_t tokens = 100; tokens <= 10000; tokens *= 10) /* even when it is told otherwise */
        for (double per_row = 0.05; per_row < 3; per_row *= 1.5) {
            double x = speedup(per_row, 0, 0.9f, tokens);
            double least = 1 - 0.012 - 2.5 / (double)tokens;
            ck_assert_msg(x > least, "%g a row, %zu tokens: %g", per_row, tokens, x);
            ck_assert(simulate((struct machine){per_row, 0, 0.02f}, tokens).trials <= 0);
        }
}
END_TEST

START_TEST(it_does_not_lose_where_rows_are_dear)
{
    for (float chance = 0.1f; chance < 1; chance += 0.2f)
        for (double per_row = 0.5; per_row < 4; per_row *= 1.5) {
            double x = speedup(per_row, chance, chance, 3000);
            ck_assert_msg(x > 0.985, "%g a row, %g right: %g", per_row, (double)chance, x);
        }
}
END_TEST

START_TEST(a_draft_that_costs_more_than_it_gives_is_left_alone)
{
    struct pace p;
    float chance[31], gain;
    for (int i = 0; i < 31; i++)
        chance[i] = 0.8f;
    pace_init(&p, 1);
    pace_begin(&p);
    ck_assert_uint_eq(pace_choose(&p, chance, 31, 0, &gain), 0); /* nothing is known yet */
    for (int i = 0; i < 10; i++)
        pace_plain(&p, 0.01);
    ck_assert_uint_gt(pace_choose(&p, chance, 31, 0.05f, &gain), 0);
    ck_assert(gain > 1.2f);
    ck_assert_uint_eq(pace_choose(&p, chance, 31, 1.0f, &gain), 0);
    ck_assert_uint_eq(pace_choose(&p, chance, 0, 0, &gain), 0);
}
END_TEST

SUITE("pace", TEST(a_text_without_repetitions_gives_no_guess), TEST(every_match_is_one),
      TEST(a_loop_is_guessed_beyond_its_end), TEST(it_gains_where_guesses_are_right),
      TEST(it_does_not_lose_where_guesses_are_wrong), TEST(it_does_not_lose_where_rows_are_dear),
      TEST(a_draft_that_costs_more_than_it_gives_is_left_alone))
