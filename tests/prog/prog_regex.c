/* Regular expressions for tests/cli/test_regex.py. In, a line each: an expression and texts, in
 * hexadecimal, each with '-' behind it and blanks between. Out: a digit for each text (1: the expression matches in it), or why
 * the expression was refused. Without an argument it answers one line of its own. */
#include "sample/language/regex.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hexadecimal digits at *p to bytes; their number. */
static size_t from_hex(char **p, char *out)
{
    size_t n = 0;
    unsigned byte;
    for (; isxdigit((unsigned char)**p) && sscanf(*p, "%2x", &byte) == 1; *p += 2)
        out[n++] = (char)byte;
    *p += **p == '-';
    *p += **p == ' ';
    return n;
}

static bool matches(struct languages *ls, lang a, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a = lang_step(ls, a, (unsigned char)p[i]);
    if (a == LANG_FAIL)
        puts("the budget is gone");
    return lang_accepts(ls, a);
}

static void answer(char *line)
{
    struct budget b = {.bytes = (size_t)16 << 20, .steps = 10000000};
    struct languages *ls = languages_open(&b);
    struct tern_error e = {0};
    char *bytes = malloc(strlen(line) + 1);
    size_t n = from_hex(&line, bytes);
    lang a = regex_compile(ls, bytes, n, false, &e);
    if (a == LANG_FAIL)
        puts(e.text);
    while (a != LANG_FAIL && *line && *line != '\n') {
        n = from_hex(&line, bytes);
        putchar(matches(ls, a, bytes, n) ? '1' : '0');
    }
    if (a != LANG_FAIL)
        puts("");
    free(bytes);
    languages_close(ls);
}

int main(int argc, char **argv)
{
    static char line[1 << 20], own[] = "61- 61- 62-"; /* a: "a", "b" */
    (void)argv;
    if (argc < 2)
        answer(own);
    while (argc > 1 && fgets(line, sizeof line, stdin))
        answer(line);
    return 0;
}
