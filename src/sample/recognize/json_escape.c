/* Escapes: \" \\ \/ \b \f \n \r \t, \uXXXX, and two of those for a character beyond U+FFFF. Each stands
 * for one character of the word's language, and no prefix is taken that no character can end. All other
 * characters of ASCII are written plainly, so that a key has one spelling, which can be forced. */
#include "sample/recognize/json_escape.h"

#include "base/hex.h"
#include "sample/recognize/json_level.h"
#include "sample/recognize/json_unique.h"
#include "text/unicode.h"

enum { PAIRS = 0x10000, HIGH = 0xd800, LOW = 0xdc00, LAST = 0x10ffff };
static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";

static uint32_t next_word(struct json_recognizer *j, bool set, uint32_t word, unsigned char byte)
{
    uint32_t next = set ? words_step(&j->values, word, byte) : lang_step(j->languages, word, byte);
    j->failed |= next == UINT32_MAX;
    return next == UINT32_MAX ? 0 : next;
}

/* Whether a character of from .. to can follow, all of the same length in UTF-8: `bits` of each lie behind
 * the byte that comes now, of which `lead` is what is fixed. */
static bool some_of(struct json_recognizer *j, bool set, uint32_t word, uint32_t from, uint32_t to,
                    unsigned bits, unsigned lead)
{
    for (uint32_t v = from >> bits; v <= to >> bits; v++) {
        unsigned char byte = (unsigned char)(lead | (lead == 0x80 ? v & 63 : v));
        uint32_t next = next_word(j, set, word, byte);
        if (!next)
            continue;
        if (!bits)
            return true;
        uint32_t first = v << bits, last = first | ((1u << bits) - 1);
        if (some_of(j, set, next, from > first ? from : first, to < last ? to : last, bits - 6,
                    0x80))
            return true;
    }
    return false;
}

static bool may_follow(struct json_recognizer *j, const struct place *p, uint32_t from, uint32_t to)
{
    static const struct {
        uint32_t last;
        unsigned bits, lead;
    } lengths[] = {{0x7f, 0, 0}, {0x7ff, 6, 0xc0}, {0xffff, 12, 0xe0}, {LAST, 18, 0xf0}};
    for (unsigned i = 0; i < 4 && from <= to; i++) {
        uint32_t last = to < lengths[i].last ? to : lengths[i].last;
        if (from > last)
            continue;
        if (some_of(j, p->more & MORE_SET, p->lexeme, from, last, lengths[i].bits, lengths[i].lead))
            return true;
        from = last + 1;
    }
    return false;
}

/* The same of characters that may be written as an escape. */
static bool escaped_may_follow(struct json_recognizer *j, const struct place *p, uint32_t from,
                               uint32_t to)
{
    static const uint32_t ranges[][2] = {
        {0, 0x1f}, {'"', '"'}, {'/', '/'}, {'\\', '\\'}, {0x7f, LAST}};
    for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        uint32_t first = from > ranges[i][0] ? from : ranges[i][0];
        uint32_t last = to < ranges[i][1] ? to : ranges[i][1];
        if (first <= last && may_follow(j, p, first, last))
            return true;
    }
    return false;
}

static enum step take(struct json_recognizer *j, struct track *t, struct place *p, uint32_t c)
{
    char bytes[4];
    size_t n = unicode_encode(c, bytes);
    go_to(p, AT_STRING, 0);
    return word_take(j, t, p, (const unsigned char *)bytes, n);
}

static bool python(const struct track *t, const struct place *p)
{
    return level_at(t, level_of(t, p))->flags & LEVEL_PYTHON;
}

enum step escape_begin(struct json_recognizer *j, struct track *t, struct place *p)
{
    /* A search escapes where it must, so that it meets few texts twice. */
    if (j->searching ? !may_follow(j, p, 0, 31) && !may_follow(j, p, '"', '"') &&
                           !may_follow(j, p, '\\', '\\')
                     : !escaped_may_follow(j, p, 0, python(t, p) ? 0xffff : LAST))
        return STEP_DEAD;
    go_to(p, AT_ESCAPE, 0);
    return STEP_ALIVE;
}

/* \u and n digits that make v. */
static enum step hex_step(struct json_recognizer *j, struct track *t, struct place *p, uint32_t v,
                          unsigned n)
{
    unsigned left = 4 * (4 - n);
    uint32_t from = v << left, to = from | ((1u << left) - 1);
    uint32_t high = from > HIGH ? from : HIGH, low = to < LOW - 1 ? to : LOW - 1;
    bool pair =
        high <= low && !python(t, p) &&
        may_follow(j, p, PAIRS + ((high - HIGH) << 10), PAIRS + ((low - HIGH) << 10) + 0x3ff);
    if (!pair && !escaped_may_follow(j, p, from, to))
        return STEP_DEAD;
    if (n < 4) {
        go_to(p, (enum phase)(AT_HEX_0 + n), v);
        return STEP_ALIVE;
    }
    if (pair) {
        go_to(p, AT_LOW, v - HIGH);
        return STEP_ALIVE;
    }
    return take(j, t, p, v);
}

/* The other half, of which n digits make v with the first half's ten bits before them: D, then two
 * bits, four, four. */
static enum step low_step(struct json_recognizer *j, struct track *t, struct place *p, int digit,
                          unsigned n)
{
    uint32_t v = scratch_of(p);
    unsigned left = n == 0 ? 10 : n == 1 ? 8 : n == 2 ? 4 : 0;
    if (n == 0 ? digit != 13 : digit < (n == 1 ? 12 : 0))
        return STEP_DEAD;
    if (n == 1)
        v = v << 2 | ((uint32_t)digit - 12);
    else if (n > 1)
        v = v << 4 | (uint32_t)digit;
    if (n == 3)
        return take(j, t, p, PAIRS + v);
    uint32_t from = PAIRS + (v << left);
    if (!escaped_may_follow(j, p, from, from | ((1u << left) - 1)))
        return STEP_DEAD;
    go_to(p, (enum phase)(AT_LOW_1 + n), v);
    return STEP_ALIVE;
}

static enum step letter_step(struct json_recognizer *j, struct track *t, struct place *p,
                             unsigned char byte)
{
    if (byte == 'u')
        return hex_step(j, t, p, 0, 0);
    for (unsigned i = 0; i < sizeof letters - 1; i++)
        if (letters[i] == (char)byte) {
            return byte == '/' && python(t, p) ? STEP_DEAD
                                               : take(j, t, p, (unsigned char)values[i]);
        }
    return STEP_DEAD;
}

enum step escape_step(struct json_recognizer *j, struct track *t, struct place *p,
                      unsigned char byte)
{
    enum phase phase = phase_of(p);
    int digit = hex_digit((char)byte);
    switch (phase) {
    case AT_ESCAPE:
        return letter_step(j, t, p, byte);
    case AT_LOW:
    case AT_LOW_U:
        go_to(p, phase + 1, scratch_of(p));
        return byte == (phase == AT_LOW ? '\\' : 'u') ? STEP_ALIVE : STEP_DEAD;
    default:
        if (digit < 0)
            return STEP_DEAD;
        return phase >= AT_LOW_0 ? low_step(j, t, p, digit, (unsigned)(phase - AT_LOW_0))
                                 : hex_step(j, t, p, scratch_of(p) << 4 | (uint32_t)digit,
                                            (unsigned)(phase - AT_HEX_0) + 1);
    }
}

void escape_first(const struct place *p, uint64_t set[4])
{
    const char *bytes = phase_of(p) == AT_ESCAPE  ? "\"\\/bfnrtu"
                        : phase_of(p) == AT_LOW   ? "\\"
                        : phase_of(p) == AT_LOW_U ? "u"
                                                  : "0123456789abcdefABCDEF";
    for (; *bytes; bytes++)
        set[*bytes / 64] |= 1ull << *bytes % 64;
}
