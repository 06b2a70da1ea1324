/* What unicode_data.c unpacks, for every code point, against checksums taken when the properties
 * were plain tables, as the reference package answered. tools/unicode_tables.py asks it. */
#include "base/xxh64.h"
#include "text/nfc.h"
#include "text/unicode.h"

#include <check.h>
#include <pthread.h>

enum { END = 0x110000 };

START_TEST(classes)
{
    struct xxh64 h;
    xxh64_init(&h, 0);
    for (uint32_t c = 0; c <= END; c++) { /* UNICODE_BAD too */
        uint16_t class = (uint16_t)unicode_class(c);
        xxh64_update(&h, &class, sizeof class);
    }
    ck_assert_uint_eq(xxh64_digest(&h), 6648203449553638511u);
    ck_assert_uint_eq(unicode_class(UINT32_MAX), 0);
}
END_TEST

/* Form C of every code point alone, and where some are not stable: behind a letter, before a mark
 * and before one of another rank. */
START_TEST(normal_forms)
{
    static const uint32_t other[][2] = {{0, 0}, {'a', 0}, {0, 0x301}, {0x4E, 0x5B0}};
    struct buffer out = {0};
    struct xxh64 h;
    xxh64_init(&h, 0);
    for (uint32_t c = 1; c < END; c++) {
        size_t ways = c >= 0xD800 && c < 0xE000 ? 0 : c < 0x3400 || c >> 12 == 0x11 ? 4 : 1;
        for (size_t i = 0; i < ways; i++) {
            char text[12];
            size_t n = 0;
            if (other[i][0])
                n += unicode_encode(other[i][0], text);
            n += unicode_encode(c, text + n);
            if (other[i][1])
                n += unicode_encode(other[i][1], text + n);
            out.n = 0;
            ck_assert(nfc_append(&out, text, n));
            xxh64_update(&h, out.p, out.n);
        }
    }
    buffer_close(&out);
    ck_assert_uint_eq(xxh64_digest(&h), 1549894126344896846u);
}
END_TEST

static void *ask(void *arg)
{
    *(bool *)arg = unicode_class('a') & UNICODE_LETTER && unicode_class(0x10FFFE) == 0 &&
                   unicode_class(0x2FA1D) & UNICODE_LETTER &&
                   unicode_form(0x2FA1D) == (uint64_t)0x2A600 << 32;
    return NULL;
}

START_TEST(first_asked_by_many)
{
    pthread_t threads[8];
    bool right[8];
    for (int i = 0; i < 8; i++)
        ck_assert(!pthread_create(&threads[i], NULL, ask, &right[i]));
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(right[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unicode");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, first_asked_by_many); /* first, for where tests are not processes */
    tcase_add_test(tc, classes);
    tcase_add_test(tc, normal_forms);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
