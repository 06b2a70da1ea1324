/* Formats of strings: texts that each allows and refuses, and the rules that count. */
#include "sample/language/leaf.h"
#include "sample/language/string_formats.h"
#include "suite.h"

#include <stdio.h>
#include <string.h>

static struct budget budget;
static struct languages *ls;

static void open_languages(void)
{
    budget = (struct budget){.bytes = (size_t)64 << 20, .steps = 1 << 26};
    ls = languages_open(&budget);
    ck_assert(ls);
}

static void close_languages(void)
{
    languages_close(ls);
    ck_assert_uint_eq(budget.bytes, (size_t)64 << 20);
}

static lang format(const char *name)
{
    bool known;
    const lang x = format_lang(ls, name, strlen(name), &known);
    ck_assert(known && x != LANG_FAIL);
    return x;
}

static bool matches(lang x, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x = lang_step(ls, x, (unsigned char)text[i]);
    ck_assert(x != LANG_FAIL);
    return lang_accepts(ls, x);
}

static bool is_text(lang x, const char *text)
{
    return matches(x, text, strlen(text));
}

/* Texts are separated by TAB. */
static const struct {
    const char *name, *good, *bad;
} formats[] = {
    {"date", "2024-02-29\t2000-02-29\t0001-01-01\t9999-12-31",
     "2023-02-29\t1900-02-29\t0000-01-01\t2024-04-31\t2024-13-01\t2024-1-01\t2024-00-10\t2024-01-"
     "00"},
    {"time", "00:00:00Z\t23:59:59.999z\t12:30:00+05:30\t12:30:00-00:00\t23:59:60Z\t01:29:60+01:30",
     "24:00:00Z\t12:60:00Z\t12:00:61Z\t12:00:00\t12:00:00.Z\t12:00:00+24:00\t12:00:60Z\t1:00:00Z"},
    {"date-time", "2024-02-29T12:00:00Z\t1998-12-31t15:59:60.123-08:00",
     "2023-02-29T12:00:00Z\t2024-02-29 12:00:00Z\t2024-02-29\t1998-12-31T15:58:60-08:00"},
    {"duration", "P1Y2M3DT4H5M6S\tP2W\tPT0S\tP0D\tP1YT1M\tPT1H30M",
     "P\tPT\tP1\tP1H\tP1Y2W\tPT1D\t1Y\tP1DT\tPT1H5S\tP-1D"},
    {"email",
     "a@b\tjoe.bloggs+x@example.co.uk\t\"a b\\\"@\"@b.c\tx@[127.0.0.1]\tx@[IPv6:::1]\t{}@x",
     "a\t@b\ta@\t.a@b\ta.@b\ta..b@c\ta@b..c\ta@-b\ta@b_\ta@[1.2.3.256]\ta b@c\ta@b."},
    {"hostname", "a\texample.com\txn--4gbwdl.xn--wgbh1c\t1host\ta-b-c.d9",
     "\t.\ta.\t.a\ta..b\t-a\ta-\ta_b\ta b"},
    {"ipv4", "0.0.0.0\t255.255.255.255\t192.168.10.1",
     "256.0.0.1\t1.2.3\t1.2.3.4.5\t01.2.3.4\t1.2.3.4 "},
    {"ipv6",
     "::\t::1\t1::\t1:2:3:4:5:6:7:8\t1:2:3:4:5:6:7::\t::ffff:1.2.3.4\tfe80::1:2\t1:2:3:4:5:6:1.2.3."
     "4",
     ":\t:::\t1:2:3:4:5:6:7\t1::2::3\t12345::\t1:2:3:4:5:6:7:1.2.3.4\t1:2:3:4:5:6:7:8:9\tfe80::1%"
     "eth0\tg::"},
    {"uri",
     "a:\thttp://a\tmailto:x@y\turn:a:b\thttp://u:p@[::1]:80/p//q?r=/?#f?\tfile:///x%20y\thttp://"
     "[v1.a:b]",
     "\ta\t//a\t:a\t1a:b\thttp://a b\thttp://[::1\thttp://1::2\ta:%2\ta:#b#c\thttp://a/\xC3\xA9"},
    {"uri-reference", "\ta\t/a//b\t//a:1/b\t?q\t#f\ta/b:c\thttp://a", "a b\t\\\t1:b\t#a#b\t//[x]"},
    {"iri", "http://\xC6\x92.\xC3\xA9/\xE2\x88\x82?\xCF\x80\xEE\x80\x80#\xF0\x9F\x98\x80",
     "\xC3\xA9\ta:\xEE\x80\x80\ta: b"},
    {"iri-reference", "\xC3\xA9\t//\xC3\xA9/\t?\xEE\x80\x80", "\xEE\x80\x80\t\\"},
    {"uri-template", "\ta/{b}\t{+x,y*,z:12}\t{?a.b}\t%20\xC3\xA9",
     "{\t{}\t{a\t}\t{a:0}\t{a:12345}\t{a b}\t%2\t{.a..b}"},
    {"uuid", "2EB8AA08-aa98-11ea-b4aa-73b441d16380",
     "2eb8aa08aa9811eab4aa73b441d16380\t2eb8aa08-aa98-11ea-b4aa-73b441d1638g"},
    {"json-pointer", "\t/\t/a~0~1/\xC3\xA9\"\t//", "a\t/~\t/~2\t#/a"},
    {"relative-json-pointer", "0\t12/a\t0#\t1/", "\t01\t-1\t#\t0##\t0a"},
};

START_TEST(texts)
{
    const lang x = format(formats[_i].name);
    for (int good = 0; good < 2; good++)
        for (const char *c = good ? formats[_i].good : formats[_i].bad; c;
             c = strchr(c, '\t') ? strchr(c, '\t') + 1 : NULL) {
            const size_t n = strcspn(c, "\t");
            ck_assert_msg(matches(x, c, n) == good, "%s: %.*s", formats[_i].name, (int)n, c);
        }
}
END_TEST

START_TEST(unknown_names)
{
    static const char *const names[] = {"",      "regex", "idn-email", "idn-hostname", "Date",
                                        "date ", "octet", "country",   "dat"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool known = true;
        ck_assert_uint_eq(format_lang(ls, names[i], strlen(names[i]), &known), LANG_CHARS);
        ck_assert_msg(!known, "%s", names[i]);
    }
}
END_TEST

START_TEST(every_day)
{
    const lang x = format("date");
    char text[64];
    for (int year = 1; year < 10000; year += year % 100 < 5 || year % 100 > 95 ? 1 : 13)
        for (int month = 0; month < 14; month++) {
            static const int days[] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0};
            const bool leap = (year % 4 == 0 && year % 100) || year % 400 == 0;
            const int last = days[month] + (month == 2 && leap);
            for (int day = 0; day<33; day += day> 0 && day < 27 ? 13 : 1) {
                snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
                ck_assert_msg(is_text(x, text) == (day && day <= last), "%s", text);
            }
        }
}
END_TEST

/* A leap second is the last of a day in UTC. */
START_TEST(every_leap_second)
{
    char text[64];
    for (int local = 0; local < 24 * 60; local += 7)
        for (int offset = 0; offset < 24 * 60; offset += offset % 60 == 59 ? 1 : 3)
            for (int sign = -1; sign < 2; sign += 2) {
                const bool last = (local - sign * offset + 2 * 24 * 60) % (24 * 60) == 24 * 60 - 1;
                snprintf(text, sizeof text, "%02d:%02d:60%s%c%02d:%02d", local / 60, local % 60,
                         offset % 2 ? ".5" : "", sign < 0 ? '-' : '+', offset / 60, offset % 60);
                uint32_t s = TIME_START;
                for (const char *c = text; *c && s; c++)
                    s = time_step(s, (unsigned char)*c);
                ck_assert_msg((s && time_accepts(s)) == last, "%s", text);
            }
}
END_TEST

/* Every live state of the counting formats goes on or ends. */
START_TEST(no_dead_ends)
{
    static const char bytes[] = "0123456789:.+-zZab";
    uint64_t seed = 7;
    for (int walk = 0; walk < 2000; walk++) {
        uint32_t time = TIME_START, host = HOST_START, n = 0;
        for (int tries = 0; tries < 2000; tries++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const unsigned char byte = (unsigned char)bytes[(seed >> 33) % (sizeof bytes - 1)];
            const uint32_t next = time_step(time, byte), later = host_step(host, byte);
            time = next ? next : time;
            n += later != 0, host = later ? later : host;
        }
        ck_assert(time_accepts(time));
        ck_assert(host_accepts(host) && n <= 253);
    }
}
END_TEST

START_TEST(lengths_of_host_names)
{
    const lang x = format("hostname");
    char label[80], name[400];
    for (int n = 1; n < 70; n++) {
        snprintf(
            label, sizeof label, "%.*s", n,
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
        ck_assert(is_text(x, label) == (n < 64 && n != 31));
        snprintf(name, sizeof name, "%s.%s", label, "com");
        ck_assert(is_text(x, name) == (n < 64 && n != 31));
    }
    for (int n = 0; n < 260; n++) {
        for (int i = 0; i < n; i++)
            name[i] = i % 50 == 49 && i + 1 < n ? '.' : 'a';
        name[n] = 0;
        ck_assert(is_text(x, name) == (n > 0 && n < 254));
    }
}
END_TEST

/* What a mask looks at has the same short texts. */
START_TEST(near)
{
    uint32_t a = HOST_START, b;
    for (int i = 0; i < 200; i++)
        a = host_step(a, i % 20 ? 'x' : '.') ? host_step(a, i % 20 ? 'x' : '.') : host_step(a, 'y');
    for (uint32_t n = 1; n < 60; n++) {
        b = host_near(a, n);
        uint32_t x = a, y = b;
        for (uint32_t i = 0; i < n; i++) {
            const unsigned char byte = i % 7 ? 'a' : '-';
            x = x ? host_step(x, byte) : 0, y = y ? host_step(y, byte) : 0;
            ck_assert((x != 0) == (y != 0));
        }
    }
    ck_assert_uint_ne(host_near(a, 10), a);
}
END_TEST

/* ---- the lengths of rests, against all that can be read ---- */

enum { STATES = 40000, MOST = 300 };
static uint32_t states[STATES], rows[1 << 19];
static uint64_t ends[STATES][MOST / 64 + 1]; /* bit n: a rest of n bytes */

static uint32_t find_states(uint32_t start, uint32_t (*step)(uint32_t, unsigned char))
{
    uint32_t n = 1;
    memset(rows, 0, sizeof rows);
    rows[states[0] = start] = 1;
    for (uint32_t i = 0; i < n; i++)
        for (const char *c = "0123456789+-.:Zaz"; *c; c++) {
            uint32_t to = step(states[i], (unsigned char)*c);
            ck_assert_uint_lt(to, sizeof rows / sizeof *rows);
            if (!to || rows[to])
                continue;
            ck_assert_uint_lt(n, STATES);
            states[n++] = to;
            rows[to] = n;
        }
    return n;
}

static void find_ends(uint32_t n, uint32_t (*step)(uint32_t, unsigned char),
                      bool (*accepts)(uint32_t))
{
    bool more = true;
    memset(ends, 0, sizeof ends);
    for (uint32_t i = 0; i < n; i++)
        ends[i][0] = accepts(states[i]);
    for (int round = 0; more && round < 30; round++) {
        more = false;
        for (uint32_t i = n; i-- > 0;)
            for (const char *c = "0123456789+-.:Zaz"; *c; c++) {
                uint32_t to = step(states[i], (unsigned char)*c);
                for (int k = 0; to && k <= MOST / 64; k++) {
                    const uint64_t *e = ends[rows[to] - 1];
                    uint64_t new = e[k] << 1 | (k ? e[k - 1] >> 63 : 0);
                    more |= (new & ~ends[i][k]) != 0;
                    ends[i][k] |= new;
                }
            }
    }
}

static bool has_end(uint32_t i, uint32_t n)
{
    return ends[i][n / 64] >> n % 64 & 1;
}

/* Up to `most` bytes. */
static void check_lengths(uint32_t n, uint32_t most, struct leaf_lengths (*lengths)(uint32_t))
{
    for (uint32_t i = 0; i < n; i++) {
        struct leaf_lengths l = lengths(states[i]);
        uint32_t last = l.shortest;
        ck_assert_uint_le(l.shortest, lengths(states[0]).worst);
        for (uint32_t k = 0; k <= most; k++) {
            ck_assert(!has_end(i, k) || (k >= l.shortest && k <= l.longest));
            if (has_end(i, k)) {
                ck_assert_uint_le(k - last, l.gap);
                last = k;
            }
        }
        ck_assert(has_end(i, l.shortest));
        ck_assert_uint_le((l.longest < most ? l.longest : most) - last, l.longest < most ? 0 : 1);
    }
}

START_TEST(lengths_of_rests)
{
    uint32_t n = find_states(HOST_START, host_step);
    find_ends(n, host_step, host_accepts);
    check_lengths(n, 260, host_lengths);
    n = find_states(TIME_START, time_step);
    find_ends(n, time_step, time_accepts);
    check_lengths(n, 25, time_lengths);
}
END_TEST

SUITE("string_formats", AROUND_EACH(open_languages, close_languages),
      LOOP(texts, 0, sizeof formats / sizeof *formats), TEST(unknown_names), TEST(every_day),
      TEST(every_leap_second), TEST(no_dead_ends), TEST(lengths_of_host_names), TEST(near),
      TEST(lengths_of_rests))
