/* Parameters of the sampler: the limits that tern.h states, and the order of its stages. */
#include "sample/penalties.h"
#include "sample/sampler.h"
#include "suite.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

START_TEST(parameters_are_checked)
{
    struct tern_error e = {0};
    struct tern_sampler_params p = sampler_defaults();
    ck_assert_int_eq(sampler_check(&p, 10, &e), TERN_OK);
    p.temperature = -1;
    ck_assert_int_eq(sampler_check(&p, 10, &e), TERN_USAGE);
    ck_assert_str_eq(e.text, "sampler: temperature is -1, want 0 to 1000");
    p = sampler_defaults(), p.top_p = 1.5f;
    ck_assert_int_eq(sampler_check(&p, 10, &e), TERN_USAGE);
    p = sampler_defaults(), p.min_p = NAN;
    ck_assert_int_eq(sampler_check(&p, 10, &e), TERN_USAGE);
    p = sampler_defaults(), p.repeat_penalty = INFINITY;
    ck_assert_int_eq(sampler_check(&p, 10, &e), TERN_USAGE);
}
END_TEST

/* Every parameter from its least to its largest value, and no further: those that tern.h states. */
START_TEST(limits_of_parameters)
{
#define LIMIT(name, min, max)                                           \
    {                                                                   \
#name, offsetof(struct tern_sampler_params, name), (min), (max) \
    }
    static const struct {
        const char *name;
        size_t offset;
        float min, max;
    } limits[] = {LIMIT(temperature, 0, 1000),
                  LIMIT(top_p, 0, 1),
                  LIMIT(min_p, 0, 1),
                  LIMIT(repeat_penalty, 0, 1000),
                  LIMIT(frequency_penalty, -1000, 1000),
                  LIMIT(presence_penalty, -1000, 1000),
                  LIMIT(typical_p, 0, 1),
                  LIMIT(top_n_sigma, -1, 1000),
                  LIMIT(xtc_probability, 0, 1),
                  LIMIT(xtc_threshold, 0, 1),
                  LIMIT(dry_multiplier, 0, 1000),
                  LIMIT(dry_base, 0, 1000),
                  LIMIT(mirostat_tau, 0, 1000),
                  LIMIT(mirostat_eta, 0, 1)};
#undef LIMIT
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        float min = limits[i].min, max = limits[i].max;
        const float good[] = {min, max};
        const float bad[] = {min - 0x1p-10f, max + 0x1p-10f, NAN, INFINITY, -INFINITY};
        for (size_t k = 0; k < 7; k++) {
            struct tern_error e = {0};
            struct tern_sampler_params p = sampler_defaults();
            memcpy((char *)&p + limits[i].offset, k < 2 ? &good[k] : &bad[k - 2], sizeof(float));
            ck_assert_int_eq(sampler_check(&p, 10, &e), k < 2 ? TERN_OK : TERN_USAGE);
            ck_assert(k < 2 || (e.code == TERN_USAGE && strstr(e.text, limits[i].name)));
        }
    }
}
END_TEST

START_TEST(other_parameters_are_checked)
{
    struct tern_error e = {0};
    struct tern_sampler_params p = sampler_defaults();
    for (unsigned mirostat = 0; mirostat < 5; mirostat++) {
        p.mirostat = mirostat;
        ck_assert_int_eq(sampler_check(&p, 10, &e), mirostat & ~2u ? TERN_USAGE : TERN_OK);
    }
    char text[DRY_BREAKER_MAX + 2] = "";
    const char *breakers[] = {"x", text};
    p = sampler_defaults(), p.n_dry_breakers = 2;
    ck_assert_int_eq(sampler_check(&p, 10, &e), TERN_OK); /* the usual ones */
    p.dry_breakers = breakers;
    memset(text, 'x', DRY_BREAKER_MAX);
    ck_assert_int_eq(sampler_check(&p, 10, &e), TERN_OK);
    text[DRY_BREAKER_MAX] = 'x';
    ck_assert_int_eq(sampler_check(&p, 10, &e), TERN_USAGE);
    p.n_dry_breakers = 1;
    ck_assert_int_eq(sampler_check(&p, 10, &e), TERN_OK);
    p.n_dry_breakers = 0;
    static const struct tern_bias bias[] = {{0, -INFINITY}, {9, 1}, {-1, 1}, {10, 1}, {0, NAN}};
    for (size_t i = 0; i < 5; i++) {
        struct tern_bias two[] = {{5, 1}, bias[i]};
        p.bias = two, p.n_bias = 2;
        ck_assert_int_eq(sampler_check(&p, 10, &e), i < 2 ? TERN_OK : TERN_USAGE);
    }
}
END_TEST

START_TEST(orders_of_stages)
{
    static const char *const names[] = {"penalties", "dry",   "top_n_sigma", "top_k",      "typ_p",
                                        "top_p",     "min_p", "xtc",         "temperature"};
    struct tern_error e = {0};
    struct tern_sampler_params p = sampler_defaults();
    for (size_t i = 0; i < 9; i++) {
        char text[80];
        ck_assert_int_eq(sampler_order(&p, names[i], &e), TERN_OK);
        ck_assert(p.order[0] == i + 1 && !p.order[1]);
        snprintf(text, sizeof text, "%s;%s;", names[8 - i], names[(9 - i) % 9]);
        ck_assert_int_eq(sampler_order(&p, text, &e), TERN_OK);
        ck_assert(p.order[0] == 9 - i && p.order[1] == (9 - i) % 9 + 1 && !p.order[2]);
        snprintf(text, sizeof text, "%s;%s", names[i], names[i]);
        ck_assert_int_eq(sampler_order(&p, text, &e), TERN_USAGE);
        snprintf(text, sizeof text, "'%s' is unknown or comes twice", names[i]);
        ck_assert(e.code == TERN_USAGE && strstr(e.text, text));
        snprintf(text, sizeof text, "%.*s", (int)strlen(names[i]) - 1, names[i]);
        ck_assert_int_eq(sampler_order(&p, text, &e), TERN_USAGE);
    }
    static const char *const bad[] = {"",
                                      ";",
                                      ";dry",
                                      "dry;;xtc",
                                      "top",
                                      "k",
                                      "penalties;dr",
                                      "temperatures",
                                      "Dry",
                                      "dry ",
                                      "a-name-of-more-than-forty-letters-that-is-cut-here"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(sampler_order(&p, bad[i], &e), TERN_USAGE);
    ck_assert(strstr(e.text, "'a-name-of-more-than-forty-letters-that-i' is unknown"));
}
END_TEST

SUITE("sampler parameters", TEST(parameters_are_checked), TEST(limits_of_parameters),
      TEST(other_parameters_are_checked), TEST(orders_of_stages))
