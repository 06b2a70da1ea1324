/* The properties of every code point, against checksums of what the reference package answered.
 * tools/unicode_tables.py asks it. */
#include "base/xxh64.h"
#include "text/nfc.h"
#include "text/unicode.h"
#include "suite.h"

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
            ck_assert(nfc_append(&out, text, n, true));
            xxh64_update(&h, out.p, out.n);
        }
    }
    buffer_close(&out);
    ck_assert_uint_eq(xxh64_digest(&h), 1549894126344896846u);
}
END_TEST

SUITE("unicode", TEST(classes), TEST(normal_forms))
