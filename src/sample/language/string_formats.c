/* Formats as expressions, and two that count: see string_formats.h. */
#include "sample/language/string_formats.h"

#include "sample/language/leaf.h"
#include "sample/language/regex.h"

#include <string.h>

/* ---- time: hh:mm:ss[.f]offset, where 60 seconds are allowed in the last minute of a day in UTC ---- */

enum { DAY = 24 * 60 };

/* What is read next. The low 5 bits of a state; above them whether the second is a leap second, and a
 * value: what the digits before make of hour and minute, then the offset that a leap second needs. */
enum place {
    HOUR = 1,
    HOUR_2,
    COLON,
    MINUTE,
    MINUTE_2,
    COLON_2,
    SECOND,
    SECOND_2,
    ZONE, /* or a point */
    FRACTION,
    FRACTION_MORE, /* or a zone */
    OFFSET,
    OFFSET_2,
    OFFSET_COLON,
    OFFSET_MINUTE,
    OFFSET_MINUTE_2,
    END
};

static uint32_t time_at(enum place place, uint32_t leap, uint32_t value)
{
    return (uint32_t)place | leap << 5 | value << 6;
}

static uint32_t zone_step(enum place place, uint32_t leap, uint32_t minute, unsigned char byte)
{
    if (byte == '.' && place == ZONE)
        return time_at(FRACTION, leap, minute);
    if (byte == 'Z' || byte == 'z')
        return !leap || minute == DAY - 1 ? time_at(END, 0, 0) : 0;
    if (byte != '+' && byte != '-')
        return 0;
    /* local - offset = 23:59, or local + offset */
    uint32_t offset = byte == '+' ? (minute + 1) % DAY : DAY - 1 - minute;
    return time_at(OFFSET, leap, leap ? offset : 0);
}

/* A digit of the offset; a leap second allows one. */
static uint32_t offset_step(enum place place, uint32_t leap, uint32_t value, uint32_t digit)
{
    uint32_t hour = value / 60, minute = value % 60, only = 0, most = 9, next = 0;
    switch (place) {
    case OFFSET:
        only = hour / 10, most = 2, next = digit == 2;
        break;
    case OFFSET_2:
        only = hour % 10, most = value && !leap ? 3 : 9;
        break;
    case OFFSET_MINUTE:
        only = minute / 10, most = 5;
        break;
    default:
        only = minute % 10;
        break;
    }
    if (leap ? digit != only : digit > most)
        return 0;
    return place == OFFSET_MINUTE_2 ? time_at(END, 0, 0)
                                    : time_at(place + 1, leap, leap ? value : next);
}

uint32_t time_step(uint32_t state, unsigned char byte)
{
    enum place place = (enum place)(state & 31);
    uint32_t leap = state >> 5 & 1, value = state >> 6, digit = byte - (uint32_t)'0';
    if (place == COLON || place == COLON_2 || place == OFFSET_COLON)
        return byte == ':' ? time_at(place + 1, leap, value) : 0;
    if (place == ZONE || (place == FRACTION_MORE && digit > 9))
        return zone_step(place, leap, value, byte);
    if (digit > 9)
        return 0;
    switch (place) {
    case HOUR:
        return digit <= 2 ? time_at(HOUR_2, 0, digit) : 0;
    case HOUR_2:
        return value * 10 + digit < 24 ? time_at(COLON, 0, value * 10 + digit) : 0;
    case MINUTE:
        return digit < 6 ? time_at(MINUTE_2, 0, value * 6 + digit) : 0;
    case MINUTE_2:
        return time_at(COLON_2, 0, value * 10 + digit);
    case SECOND:
        return digit <= 6 ? time_at(SECOND_2, digit == 6, digit == 6 ? value : 0) : 0;
    case SECOND_2:
        return leap && digit ? 0 : time_at(ZONE, leap, value);
    case FRACTION:
    case FRACTION_MORE:
        return time_at(FRACTION_MORE, leap, value);
    case END:
        return 0;
    default:
        return offset_step(place, leap, value, digit);
    }
}

bool time_accepts(uint32_t state)
{
    return (state & 31) == END;
}

/* Behind the second come Z or six bytes; a point and digits before them may have any number but one. */
struct leaf_lengths time_lengths(uint32_t state)
{
    enum place place = (enum place)(state & 31);
    uint32_t zone = state >> 5 & 1 && state >> 6 != DAY - 1 ? 6 : 1, shortest = END - place;
    if (place < ZONE)
        shortest = ZONE - place + (place == SECOND_2 ? zone : 1);
    else if (place <= FRACTION_MORE)
        shortest = zone + (place == FRACTION);
    return (struct leaf_lengths){shortest, place <= FRACTION_MORE ? LANG_MANY : shortest, 9, 2};
}

/* ---- host names: labels of 1 to 63 letters, digits and hyphens inside, at most 253 in all ---- */

enum { LABEL_MOST = 63, HOST_MOST = 253 };

/* 1 + the bytes before, above them the bytes of the label, above them whether the last is a hyphen */
static uint32_t host_at(uint32_t all, uint32_t label, bool hyphen)
{
    return (all + 1) | label << 8 | (uint32_t)hyphen << 14;
}

uint32_t host_step(uint32_t state, unsigned char byte)
{
    uint32_t all = (state & 255) - 1, label = state >> 8 & 63;
    bool hyphen = state >> 14, word = (byte | 32) >= 'a' && (byte | 32) <= 'z';
    if (byte >= '0' && byte <= '9')
        word = true;
    if (byte == '.')
        return label && !hyphen && all + 1 < HOST_MOST ? host_at(all + 1, 0, false) : 0;
    if (byte == '-') /* a letter must follow */
        return label && label + 1 < LABEL_MOST && all + 1 < HOST_MOST
                   ? host_at(all + 1, label + 1, true)
                   : 0;
    return word && label < LABEL_MOST && all < HOST_MOST ? host_at(all + 1, label + 1, false) : 0;
}

bool host_accepts(uint32_t state)
{
    return (state >> 8 & 63) && !(state >> 14);
}

/* One byte cannot follow a full label; two and more can. */
struct leaf_lengths host_lengths(uint32_t state)
{
    uint32_t left = HOST_MOST + 1 - (state & 255), label = state >> 8 & 63;
    uint32_t forced = state >> 14; /* bytes of this label that must come */
    if (label + forced == LABEL_MOST && left == forced + 1)
        left = forced;
    return (struct leaf_lengths){!host_accepts(state), left, 1, 2};
}

uint32_t host_near(uint32_t state, uint32_t n)
{
    uint32_t all = (state & 255) - 1, label = state >> 8 & 63;
    if (n < HOST_MOST && all + n < HOST_MOST)
        all = 0;
    if (n < LABEL_MOST && label && label + n < LABEL_MOST)
        label = 1;
    return host_at(all, label, state >> 14);
}

/* ---- expressions; <name> is a part ---- */

struct expression {
    const char *name, *text, *wide; /* wide: of a part, where the format is one for IRIs */
};

#define HEX "[0-9A-Fa-f]"
#define UCS                                                                                \
    "\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF\U00010000-\U0001FFFD\U00020000-\U0002FFFD"    \
    "\U00030000-\U0003FFFD\U00040000-\U0004FFFD\U00050000-\U0005FFFD\U00060000-\U0006FFFD" \
    "\U00070000-\U0007FFFD\U00080000-\U0008FFFD\U00090000-\U0009FFFD\U000A0000-\U000AFFFD" \
    "\U000B0000-\U000BFFFD\U000C0000-\U000CFFFD\U000D0000-\U000DFFFD\U000E1000-\U000EFFFD"
#define PRIVATE "\uE000-\uF8FF\U000F0000-\U000FFFFD\U00100000-\U0010FFFD"

static const struct expression parts[] = {
    {"pct", "%" HEX "{2}", NULL},
    /* RFC 3339: years of four digits, of which those divisible by 4 but not by 100, or by 400, leap */
    {"year", "(?:[1-9]\\d{3}|0[1-9]\\d{2}|00[1-9]\\d|000[1-9])", NULL},
    {"leap", "(?:\\d{2}<four>|<four>00)", NULL},
    {"four", "(?:0[48]|[2468][048]|[13579][26])", NULL},
    {"date",
     "(?:<year>-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"
     "02-(?:0[1-9]|1\\d|2[0-8]))|<leap>-02-29)",
     NULL},
    /* RFC 2673 and 4291, as RFC 3986 writes them */
    {"octet", "(?:25[0-5]|2[0-4]\\d|1\\d{2}|[1-9]?\\d)", NULL},
    {"ipv4", "(?:<octet>\\.){3}<octet>", NULL},
    {"h16", HEX "{1,4}", NULL},
    {"ls32", "(?:<h16>:<h16>|<ipv4>)", NULL},
    {"ipv6",
     "(?:(?:<h16>:){6}<ls32>|::(?:<h16>:){5}<ls32>|<h16>?::(?:<h16>:){4}<ls32>|"
     "(?:(?:<h16>:){0,1}<h16>)?::(?:<h16>:){3}<ls32>|(?:(?:<h16>:){0,2}<h16>)?::(?:<h16>:){2}<ls32>"
     "|"
     "(?:(?:<h16>:){0,3}<h16>)?::<h16>:<ls32>|(?:(?:<h16>:){0,4}<h16>)?::<ls32>|"
     "(?:(?:<h16>:){0,5}<h16>)?::<h16>|(?:(?:<h16>:){0,6}<h16>)?::)",
     NULL},
    /* RFC 3986 and 3987 */
    {"c", "A-Za-z0-9._~\\-", "A-Za-z0-9._~\\-" UCS},
    {"p", "(?:[<c>!$&'()*+,;=:@]|<pct>)", NULL},
    {"path", "(?:/<p>*)*", NULL},
    {"user", "(?:[<c>!$&'()*+,;=:]|<pct>)*@", NULL},
    {"host",
     "(?:\\[(?:<ipv6>|[vV]" HEX
     "+\\.[A-Za-z0-9._~\\-!$&'()*+,;=:]+)\\]|(?:[<c>!$&'()*+,;=]|<pct>)*)",
     NULL},
    {"authority", "//(?:<user>)?<host>(?::\\d*)?<path>", NULL},
    {"query", "(?:\\?(?:<p>|[/?])*)?", "(?:\\?(?:<p>|[/?" PRIVATE "])*)?"},
    {"tail", "<query>(?:#(?:<p>|[/?])*)?", NULL},
    {"absolute", "[A-Za-z][A-Za-z0-9+.\\-]*:(?:<authority>|/?(?:<p>+<path>)?)<tail>", NULL},
    {"relative", "(?:<authority>|(?:/(?:<p>+<path>)?|(?:[<c>!$&'()*+,;=@]|<pct>)+<path>)?)<tail>",
     NULL},
    /* RFC 5321 */
    {"atom", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+", NULL},
    {"label", "[A-Za-z0-9](?:[A-Za-z0-9\\-]*[A-Za-z0-9])?", NULL},
    /* RFC 6570 and 6901 */
    {"var", "(?:[A-Za-z0-9_]|<pct>)", NULL},
    {"varspec", "<var>(?:\\.?<var>)*(?::[1-9]\\d{0,3}|\\*)?", NULL},
    {"pointer", "(?:/(?:[^~/]|~[01])*)*", NULL},
};

static const struct expression formats[] = {
    {"date", "<date>", NULL},
    {"date-time", "<date>[Tt]", NULL}, /* and a time */
    {"time", "", NULL},                /* and a time */
    {"duration",
     "P(?:\\d+W|(?:\\d+D|\\d+M(?:\\d+D)?|\\d+Y(?:\\d+M(?:\\d+D)?)?)?"
     "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)|"
     "\\d+D|\\d+M(?:\\d+D)?|\\d+Y(?:\\d+M(?:\\d+D)?)?)",
     NULL},
    {"email",
     "(?:<atom>(?:\\.<atom>)*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")@"
     "(?:<label>(?:\\.<label>)*|\\[(?:<ipv4>|[Ii][Pp][Vv]6:<ipv6>)\\])",
     NULL},
    {"ipv4", "<ipv4>", NULL},
    {"ipv6", "<ipv6>", NULL},
    {"uri", "<absolute>", NULL},
    {"uri-reference", "(?:<absolute>|<relative>)", NULL},
    {"iri", "<absolute>", ""},
    {"iri-reference", "(?:<absolute>|<relative>)", ""},
    {"uri-template",
     "(?:[!#$&(-;=?-\\[\\]_a-z~" UCS PRIVATE
     "]|<pct>|\\{[+#./;?&=,!@|]?<varspec>(?:,<varspec>)*\\})*",
     NULL},
    {"uuid", HEX "{8}-(?:" HEX "{4}-){3}" HEX "{12}", NULL},
    {"json-pointer", "<pointer>", NULL},
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|<pointer>)", NULL},
};

enum { TEXT_MOST = 8192, DEPTH_MOST = 8 };

static const char *part_text(const char *name, size_t n, bool wide)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strlen(parts[i].name) == n && !memcmp(parts[i].name, name, n))
            return wide && parts[i].wide ? parts[i].wide : parts[i].text;
    return NULL;
}

/* Writes f's expression with its parts in place; returns its length. The table is ours: it fits. */
static size_t expand(const struct expression *f, char out[TEXT_MOST])
{
    const char *at[DEPTH_MOST] = {f->text};
    size_t depth = 0, n = 0;
    while (depth || *at[0]) {
        const char *c = at[depth], *end = *c == '<' ? strchr(c, '>') : NULL;
        const char *part = end ? part_text(c + 1, (size_t)(end - c - 1), f->wide) : NULL;
        if (!*c)
            depth--;
        else if (part) {
            at[depth] = end + 1;
            at[++depth] = part;
        } else {
            at[depth]++;
            out[n++] = *c;
        }
    }
    return n;
}

_Static_assert(sizeof formats / sizeof *formats <= LEAF_FORMATS, "room for every format");

lang format_lang(struct languages *ls, const char *name, size_t n, bool *known)
{
    char text[TEXT_MOST];
    const struct expression *f = formats, *end = f + sizeof formats / sizeof *formats;
    *known = true;
    if (n == 8 && !memcmp(name, "hostname", 8))
        return leaf_lang(ls, LEAF_HOST, HOST_START);
    while (f < end && (strlen(f->name) != n || memcmp(f->name, name, n) != 0))
        f++;
    *known = f < end;
    if (f == end)
        return LANG_CHARS;
    lang *made = leaf_formats(ls);
    if (!made)
        return LANG_FAIL;
    if (made[f - formats] != LANG_NONE)
        return made[f - formats];
    lang x = regex_compile(ls, text, expand(f, text), true, NULL);
    if (n >= 4 && !memcmp(name + n - 4, "time", 4))
        x = lang_concat(ls, x, leaf_lang(ls, LEAF_TIME, TIME_START));
    return x == LANG_FAIL ? x : (made[f - formats] = x);
}
