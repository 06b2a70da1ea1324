/* Tables of tokens: see table.h. */
#include "app/look/table.h"

#include "app/cli/columns.h"
#include "app/cli/out.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

size_t table_width(void)
{
    size_t n = columns_of_terminal(STDOUT_FILENO);
    return n ? n : 80;
}

const char *table_label(const struct subject *s, tern_token token, size_t columns,
                        bool to_the_right, char *text, size_t room)
{
    char label[128];
    size_t wide = 0;
    subject_label(s, token, columns, label, sizeof label);
    for (size_t c = 0, one; label[c]; c += one)
        wide += columns_of(label + c, strlen(label + c), &one);
    int gap = (int)(columns - wide);
    snprintf(text, room, "%*s%s%*s", to_the_right ? gap : 0, "", label, to_the_right ? 0 : gap, "");
    return text;
}

const char *table_probability(double p, char text[8])
{
    char digits[8];
    snprintf(digits, sizeof digits, "%.2f", p);
    snprintf(text, 8, "%.3s", p < 0.995 ? digits + 1 : digits);
    return text;
}

void table_choice(const struct subject *s, enum paint paint, tern_token token, double p,
                  size_t columns)
{
    char label[160], number[8], text[176];
    table_label(s, token, columns - 4, false, label, sizeof label);
    int n = snprintf(text, sizeof text, "%s %s", label, table_probability(p, number));
    paint_text(paint, p, text, (size_t)n);
}
