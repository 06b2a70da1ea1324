/* What the programs say of the cache: fable's numbers as the documents state them, and a toy with a
 * window in one of its layers. */
#include <string.h>
#include <unistd.h>

#include "app/cli/cache_size.h"
#include "app/cli/number.h"
#include "suite.h"
#include "toy.h"

static tern_model *open_model(const char *path)
{
    struct tern_error e;
    tern_model *m = NULL;
    ck_assert_msg(!tern_model_open(&m, path, NULL, &e), "%s", e.text);
    return m;
}

START_TEST(fable)
{
    struct cache_size s[CACHE_SIZES];
    char text[160];
    tern_model *m = open_model("models/fable.bin");
    cache_sizes(m, s);
    ck_assert_uint_eq(s[0].position, 5120);
    ck_assert_uint_eq(s[1].position, 10240);
    ck_assert_uint_eq(s[2].position, 1280);
    for (size_t i = 0; i < CACHE_LENGTHS; i++) {
        ck_assert_uint_eq(s[0].at[i], (uint64_t)cache_lengths[i] * 5124);
        ck_assert_uint_eq(s[1].at[i], (uint64_t)cache_lengths[i] * 10244);
        ck_assert_uint_eq(s[3].at[i], 512 * 5120 + (uint64_t)cache_lengths[i] * 4);
    }
    ck_assert_str_eq(s[1].name, "MHA, 8 KV heads");
    ck_assert_str_eq(
        cache_sum(m, text, sizeof text),
        "5 layers x 4 KV heads x 64 x 2 x 2 bytes = 5,120 a position, plus 4 for its token");
    tern_model_close(m);
}
END_TEST

START_TEST(a_window_in_one_layer)
{
    struct tern_error e;
    struct cache_size s[CACHE_SIZES];
    struct toy toy = toy_default(); /* 2 layers, 4 heads over 2 of 16 */
    char path[256];
    toy.window[1] = 100;
    toy_path(path, sizeof path, "cache_size");
    ck_assert_msg(!toy_write(path, &toy, &e), "%s", e.text);
    tern_model *m = open_model(path);
    cache_sizes(m, s);
    ck_assert_uint_eq(s[0].at[1], 4096 * 128 + 100 * 128 + 4096 * 4);
    ck_assert_uint_eq(s[1].at[1], 4096 * 256 + 100 * 256 + 4096 * 4);
    ck_assert_uint_eq(s[3].at[1], 2 * 100 * 128 + 4096 * 4);
    ck_assert_str_eq(s[3].name, "window 100");
    tern_model_close(m);
    unlink(path);
}
END_TEST

START_TEST(groups_of_digits)
{
    char b[40];
    ck_assert_str_eq(number_grouped(0, b, sizeof b), "0");
    ck_assert_str_eq(number_grouped(999, b, sizeof b), "999");
    ck_assert_str_eq(number_grouped(1000, b, sizeof b), "1,000");
    ck_assert_str_eq(number_grouped(UINT64_MAX, b, sizeof b), "18,446,744,073,709,551,615");
}
END_TEST

SUITE("cache_size", TEST(fable), TEST(a_window_in_one_layer), TEST(groups_of_digits))
