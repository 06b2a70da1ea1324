/* \p{...}: general categories of Unicode, and three sets beside them. */
#include "sample/language/regex_categories.h"
#include "sample/language/regex_class.h"

#include <stdio.h>
#include <string.h>

/* A line for each category in the order of REGEX_CATEGORIES: the names that ECMA-262 takes from
 * PropertyValueAliases.txt. Behind them lines for unions of categories. */
static const char NAMES[] = " Cn Unassigned \n Lu Uppercase_Letter \n Ll Lowercase_Letter \n"
                            " Lt Titlecase_Letter \n Lm Modifier_Letter \n Lo Other_Letter \n"
                            " Mn Nonspacing_Mark \n Mc Spacing_Mark \n Me Enclosing_Mark \n"
                            " Nd Decimal_Number digit \n Nl Letter_Number \n No Other_Number \n"
                            " Pc Connector_Punctuation \n Pd Dash_Punctuation \n"
                            " Ps Open_Punctuation \n Pe Close_Punctuation \n"
                            " Pi Initial_Punctuation \n Pf Final_Punctuation \n"
                            " Po Other_Punctuation \n Sm Math_Symbol \n Sc Currency_Symbol \n"
                            " Sk Modifier_Symbol \n So Other_Symbol \n Zs Space_Separator \n"
                            " Zl Line_Separator \n Zp Paragraph_Separator \n Cc Control cntrl \n"
                            " Cf Format \n Co Private_Use \n Cs Surrogate \n"
                            " L Letter \n LC Cased_Letter \n M Mark Combining_Mark \n N Number \n"
                            " P Punctuation punct \n S Symbol \n Z Separator \n C Other \n Any \n"
                            " Assigned ";
#define RANGE(first, last) ((2u << (last)) - (1u << (first)))
static const uint32_t UNIONS[] = {
    RANGE(1, 5),   RANGE(1, 3),   RANGE(6, 8),        RANGE(9, 11), RANGE(12, 18),
    RANGE(19, 22), RANGE(23, 25), RANGE(26, 29) | 1u, RANGE(0, 29), RANGE(1, 29),
};
enum { N_CATEGORIES = 30 };

/* Bits of the categories that a name stands for; 0: none. */
static uint32_t categories_of(const char *name, size_t n)
{
    char word[40];
    if (n > 30 || memchr(name, ' ', n) || memchr(name, 0, n) || memchr(name, '\n', n))
        return 0;
    snprintf(word, sizeof word, " %.*s ", (int)n, name);
    const char *found = strstr(NAMES, word);
    unsigned line = 0;
    for (const char *p = NAMES; found && p < found; p++)
        line += *p == '\n';
    return !found || !n ? 0 : line < N_CATEGORIES ? 1u << line : UNIONS[line - N_CATEGORIES];
}

static bool add_categories(struct regex_text *t, uint32_t bits, struct regex_ranges *r)
{
    const uint8_t *p = REGEX_CATEGORIES;
    for (uint32_t c = 0, n; c < 0x110000; c += n) {
        uint32_t run = 0;
        for (unsigned shift = 0;; shift += 7) {
            run |= (uint32_t)(*p & 127) << shift;
            if (*p++ < 128)
                break;
        }
        n = run >> 5;
        if (bits >> (run & 31) & 1 && !ranges_add(t, r, c, c + n - 1))
            return false;
    }
    return true;
}

bool regex_property(struct regex_text *t, const char *name, size_t n, struct regex_ranges *r)
{
    static const char *const prefixes[] = {"gc=", "General_Category="};
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(prefixes[i]);
        if (n > length && !memcmp(name, prefixes[i], length))
            name += length, n -= length, i = 2;
    }
    if (n == 5 && !memcmp(name, "ASCII", 5))
        return ranges_add(t, r, 0, 0x7F);
    uint32_t bits = categories_of(name, n);
    if (!bits)
        return regex_refuse(t, name, "this property of characters is not supported");
    return add_categories(t, bits, r);
}
