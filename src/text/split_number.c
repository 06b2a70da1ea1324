/* Numbers in threes: see split_number.h. */
#include "text/split_number.h"

#include "text/split_class.h"
#include "text/unicode.h"

static bool is_digit(uint32_t c, bool decimal)
{
    return decimal ? split_class_digit(c) : (unicode_class(c) & UNICODE_NUMBER) != 0;
}

size_t split_number_end(const char *text, size_t at, size_t n, bool decimal)
{
    size_t len, count = 0, end = at, most = 3;
    uint32_t c = 0;
    if (!at || !is_digit(split_class_before(text, at), decimal)) {
        for (; end < n && is_digit(c = unicode_decode(text + end, n - end, &len), decimal);
             end += len)
            count++;
        if (decimal && end < n && split_class_word(c))
            return at;
        most = count % 3 ? count % 3 : 3;
    }
    for (end = at;
         most-- && end < n && is_digit(unicode_decode(text + end, n - end, &len), decimal);)
        end += len;
    return end;
}

bool split_number_within(const char *text, size_t at, size_t n)
{
    size_t len;
    return split_class_digit(split_class_before(text, at)) &&
           split_class_digit(unicode_decode(text + at, n - at, &len));
}
