/* Rules on numbers, for tests/cli/test_number_rules.py.
 *   prog_numbers          walks a few rules to their ends; fails where one gets stuck
 *   prog_numbers --obey   reads commands, prints a line for each:
 *     rule [lo|xlo|hi|xhi|unit|not X]...   the rule of the commands behind it: live, empty, refused
 *     text T       for each prefix: '#' accepted, '.' alive, 'x' dead (the last)
 *     walk SEED    a random text of the rule, and what `text` says of it
 *     all N        every text of at most N bytes
 *     holds X      0 or 1: is X in the rule; and in what number_not makes of it */
#include "sample/language/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct budget budget = {.bytes = (size_t)1 << 30, .steps = (uint64_t)1 << 60};
static struct numbers *numbers;
static struct number_rule rule;
static uint64_t seed;

static uint32_t next_random(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % below);
}

static struct decimal decimal_of(const char *text)
{
    struct decimal d;
    if (!decimal_read(text, strlen(text), &d))
        fprintf(stderr, "%s: too long\n", text), exit(2);
    return d;
}

/* rule = rule and "WHAT X"; false: refused */
static bool demand(const char *what, const char *x)
{
    struct number_rule r = {0};
    struct decimal d = decimal_of(x);
    const char *name = what + (*what == 'x');
    if (!strcmp(name, "lo"))
        r.has_lo = true, r.lo = d, r.open_lo = name != what;
    else if (!strcmp(name, "hi"))
        r.has_hi = true, r.hi = d, r.open_hi = name != what;
    else if (!strcmp(name, "unit") ? !unit_read(&d, &r.multiple_of) : !unit_read(&d, r.nots))
        return false;
    r.n_nots = !strcmp(name, "not");
    return number_and(&rule, &r, &rule);
}

static const char *set_rule(char *words)
{
    const char *what;
    memset(&rule, 0, sizeof rule);
    for (what = strtok(words, " \n"); what; what = strtok(NULL, " \n"))
        if (!demand(what, strtok(NULL, " \n")))
            return "refused";
    return number_is_empty(&rule) ? "empty" : "live";
}

static bool holds(const struct number_rule *r, const char *x)
{
    struct number_rule point;
    struct decimal d = decimal_of(x);
    number_point(&point, &d);
    return number_and(&point, r, &point) && !number_is_empty(&point);
}

static void print_holds(const char *x)
{
    struct number_rule not [NUMBER_NOT_MOST];
    uint32_t n = number_not(&rule, not );
    bool in_not = false;
    for (uint32_t i = 0; i < n; i++)
        in_not |= holds(&not [i], x);
    printf("%d %d\n", holds(&rule, x), in_not);
}

static void print_text(const char *text)
{
    uint32_t s = numbers_start(numbers, &rule);
    for (; *text && s; text++) {
        s = numbers_step(numbers, s, (unsigned char)*text);
        putchar(!s ? 'x' : numbers_accepts(numbers, s) ? '#' : '.');
    }
    putchar('\n');
}

static const char bytes[] = "-.0123456789eE+ ";

/* False: a state that no text ends. */
static bool walk(char *out)
{
    uint32_t s = numbers_start(numbers, &rule), n = 0;
    while (s) {
        uint32_t can[16], n_can = 0, to[16];
        for (uint32_t i = 0; bytes[i]; i++)
            if ((to[n_can] = numbers_step(numbers, s, (unsigned char)bytes[i])))
                can[n_can++] = i;
        bool end = numbers_accepts(numbers, s);
        out[n] = 0;
        if (!n_can || (end && next_random(8) == 0))
            return end;
        uint32_t i = next_random(n_can);
        out[n++] = bytes[can[i]], s = to[i];
    }
    out[n] = 0;
    return false;
}

static void print_all(uint32_t s, char *text, size_t n, size_t most)
{
    if (numbers_accepts(numbers, s))
        printf("%.*s ", (int)n, text);
    for (const char *b = bytes; *b && n < most; b++) {
        uint32_t to = numbers_step(numbers, s, (unsigned char)*b);
        text[n] = *b;
        if (to)
            print_all(to, text, n + 1, most);
    }
}

static void obey(char *line)
{
    char text[300];
    char *rest = strchr(line, ' ');
    line[strcspn(line, "\n")] = 0;
    rest = rest ? rest + 1 : line + strlen(line);
    if (!strncmp(line, "rule", 4))
        puts(set_rule(rest));
    else if (!strncmp(line, "text ", 5))
        print_text(rest);
    else if (!strncmp(line, "holds ", 6))
        print_holds(rest);
    else if (!strncmp(line, "walk ", 5)) {
        seed = strtoull(rest, NULL, 10);
        bool ended = walk(text);
        printf("%s ", ended ? text : "stuck");
        print_text(text);
    } else if (!strncmp(line, "all ", 4)) {
        uint32_t s = numbers_start(numbers, &rule);
        if (s)
            print_all(s, text, 0, strtoul(rest, NULL, 10));
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    static const char *const rules[] = {"", "lo 0", "unit 0.01 not 0.03", "xlo -1 xhi 1e-9 not 2"};
    char line[1000], text[300];
    int failed = 0;
    numbers = numbers_open(&budget);
    if (argc > 1 && !strcmp(argv[1], "--obey"))
        while (fgets(line, sizeof line, stdin))
            obey(line);
    else
        for (seed = 0; seed < 4; seed++) {
            strcpy(line, rules[seed]);
            set_rule(line);
            failed += !walk(text);
        }
    numbers_close(numbers);
    return failed != 0;
}
