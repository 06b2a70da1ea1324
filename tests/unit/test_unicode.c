/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* The properties of every code point, against checksums of what the reference package answered.
 * tools/unicode_tables.py asks it. */
#include "allocs.h"
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

/* Surrogates, which no text has, are left out. */
START_TEST(scripts)
{
    struct xxh64 h;
    xxh64_init(&h, 0);
    for (uint32_t c = 0; c < END; c++) {
        uint8_t script = (uint8_t)unicode_script(c);
        if (c < 0xD800 || c >= 0xE000)
            xxh64_update(&h, &script, 1);
    }
    ck_assert_uint_eq(xxh64_digest(&h), 2366114927861960100u);
    ck_assert_uint_eq(unicode_script(UNICODE_BAD), 0);
    ck_assert_uint_eq(unicode_script(UINT32_MAX), 0);
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
            ck_assert(nfc_append(&out, text, n, true, NULL));
            xxh64_update(&h, out.p, out.n);
        }
    }
    buffer_close(&out);
    ck_assert_uint_eq(xxh64_digest(&h), 1549894126344896846u);
}
END_TEST

/* Code points, their form C and their form D (Python's unicodedata), up to a 0: the ends of the ranges
 * of Hangul; marks that are sorted, that stay in their order, and that reach their letter or do not. */
static const uint32_t forms[][3][6] = {
    {{0x1100, 0x1161}, {0xAC00}, {0x1100, 0x1161}},
    {{0x1112, 0x1175}, {0xD788}, {0x1112, 0x1175}},
    {{0x1112, 0x1175, 0x11C2}, {0xD7A3}, {0x1112, 0x1175, 0x11C2}},
    {{0x10FF, 0x1161}, {0x10FF, 0x1161}, {0x10FF, 0x1161}},
    {{0x1113, 0x1161}, {0x1113, 0x1161}, {0x1113, 0x1161}},
    {{0x1100, 0x1160}, {0x1100, 0x1160}, {0x1100, 0x1160}},
    {{0x1100, 0x1176}, {0x1100, 0x1176}, {0x1100, 0x1176}},
    {{0xAC00, 0x11A7}, {0xAC00, 0x11A7}, {0x1100, 0x1161, 0x11A7}},
    {{0xAC00, 0x11A8}, {0xAC01}, {0x1100, 0x1161, 0x11A8}},
    {{0xAC00, 0x11C2}, {0xAC1B}, {0x1100, 0x1161, 0x11C2}},
    {{0xAC00, 0x11C3}, {0xAC00, 0x11C3}, {0x1100, 0x1161, 0x11C3}},
    {{0xAC01, 0x11A8}, {0xAC01, 0x11A8}, {0x1100, 0x1161, 0x11A8, 0x11A8}},
    {{0xD788, 0x11C2}, {0xD7A3}, {0x1112, 0x1175, 0x11C2}},
    {{0xD789, 0x11A8}, {0xD789, 0x11A8}, {0x1112, 0x1175, 0x11A8, 0x11A8}},
    {{0xABFF, 0x11A8}, {0xABFF, 0x11A8}, {0xABFF, 0x11A8}},
    {{0xD7A4, 0x11A8}, {0xD7A4, 0x11A8}, {0xD7A4, 0x11A8}},
    {{0xAC00}, {0xAC00}, {0x1100, 0x1161}},
    {{0xD7A3}, {0xD7A3}, {0x1112, 0x1175, 0x11C2}},
    {{0x1161, 0x11A8}, {0x1161, 0x11A8}, {0x1161, 0x11A8}},
    {{0x301, 0x323}, {0x323, 0x301}, {0x323, 0x301}},
    {{0x73, 0x307, 0x323}, {0x1E69}, {0x73, 0x323, 0x307}},
    {{0x61, 0x301, 0x334}, {0xE1, 0x334}, {0x61, 0x334, 0x301}},
    {{0x61, 0x301, 0x300, 0x301}, {0xE1, 0x300, 0x301}, {0x61, 0x301, 0x300, 0x301}},
    {{0x61, 0x323, 0x301, 0x323}, {0x1EA1, 0x323, 0x301}, {0x61, 0x323, 0x323, 0x301}},
    {{0x61, 0x301, 0x301}, {0xE1, 0x301}, {0x61, 0x301, 0x301}},
    {{0x61, 0x31B, 0x323, 0x302, 0x301},
     {0x1EAD, 0x31B, 0x301},
     {0x61, 0x31B, 0x323, 0x302, 0x301}},
    {{0x41, 0x301, 0x62, 0x323, 0x307}, {0xC1, 0x1E05, 0x307}, {0x41, 0x301, 0x62, 0x323, 0x307}},
    {{0x344, 0x334}, {0x334, 0x308, 0x301}, {0x334, 0x308, 0x301}},
    {{0x80, 0x301}, {0x80, 0x301}, {0x80, 0x301}},
};

static void append(struct buffer *out, const uint32_t *c)
{
    char text[4];
    for (out->n = 0; *c; c++)
        ck_assert(buffer_add(out, text, unicode_encode(*c, text)));
}

START_TEST(both_forms)
{
    struct buffer text = {0}, want = {0}, got = {0};
    append(&text, forms[_i][0]);
    for (int form = 1; form < 3; form++) {
        append(&want, forms[_i][form]);
        got.n = 0;
        ck_assert(nfc_append(&got, text.p, text.n, form == 1, NULL));
        ck_assert(got.n == want.n && !memcmp(got.p, want.p, got.n));
        got.n = 0; /* and before a letter */
        ck_assert(buffer_add(&text, "z", 1) && buffer_add(&want, "z", 1));
        ck_assert(nfc_append(&got, text.p, text.n, form == 1, NULL));
        ck_assert(got.n == want.n && !memcmp(got.p, want.p, got.n));
        text.n--;
    }
    buffer_close(&text);
    buffer_close(&want);
    buffer_close(&got);
}
END_TEST

/* Many marks in the wrong order, each allocation failing in turn. */
START_TEST(without_memory)
{
    struct buffer text = {0}, out = {0};
    for (int i = 0; i < 300; i++)
        ck_assert(buffer_add(&text, i % 2 ? "\xCC\xA3" : "\xCC\x81", 2));
    for (size_t at = 1;; at++) {
        allocs_start(at, 0);
        bool ok = nfc_append(&out, text.p, text.n, true, NULL);
        buffer_close(&out);
        size_t live = allocs_live(), count = allocs_count();
        allocs_stop();
        out = (struct buffer){0};
        ck_assert_uint_eq(live, 0);
        ck_assert(ok == (count < at));
        if (ok)
            break;
    }
    buffer_close(&text);
}
END_TEST

SUITE("unicode", TEST(classes), TEST(scripts), TEST(normal_forms),
      LOOP(both_forms, 0, sizeof forms / sizeof *forms), TEST(without_memory))
