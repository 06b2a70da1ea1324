/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* Command lines against a small table that has every kind of option. */
#include "allocs.h"
#include "app/cli/out.h"
#include "app/cli/parser.h"
#include "suite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HELP, INFO, COUNT, TEMP, START, NAME, STOP, TYPE, LOOK, MARK, LOUD, N_OPTIONS };

static const char *types(void)
{
    return "f16|q8";
}

static const struct option_row rows[N_OPTIONS] = {
    {'h', "help", JOB, 0, 0, NULL, NULL, "show this text", NULL},
    {0, "info", JOB, 0, 0, NULL, NULL, "what the file says of itself", NULL},
    {'n', "count number-of-tokens -cnt", INTEGER, -5, 9, "N", NULL, "how many", "How much:"},
    {0, "temp temperature", REAL, -1, 2, "X", NULL, "how wild", NULL},
    {'s', "start", SEED, 0, 0, "N", NULL, "first number", NULL},
    {'p', "name", TEXT, 0, 0, "TEXT", NULL,
     "a name that is long enough for its help to be wrapped, once", NULL},
    {'r', "stop", LIST, 0, 0, "TEXT", NULL, "ends the text", NULL},
    {'k', "type", CHOICE, 0, 0, NULL, types, "of what the library knows", NULL},
    {0, "look", OPTIONAL_INTEGER, 1, 3, "N", NULL, "guess", NULL},
    {0, "mark", OPTIONAL_CHOICE, 0, 0, "rows|all", NULL, "print a mark", NULL},
    {'v', "loud verbose", FLAG, 0, 0, NULL, NULL, "say more", NULL},
};

static const char *find_hint(const char *argument)
{
    return strcmp(argument, "--gpu") ? NULL : "there is none";
}

static const char *value_hint(const char *spelled, const char *value)
{
    (void)spelled;
    return value && !strcmp(value, "hinted") ? "a hint" : NULL;
}

static const struct option_table table = {
    "  prog x", "usage: prog\n", rows, N_OPTIONS, "--help lists all; or ask",
    find_hint,  value_hint};

static struct option_value value[N_OPTIONS];
static struct parser p;
static struct tern_error e;

static void forget(void)
{
    parser_close(&p);
    p = (struct parser){0};
}

/* Parses the arguments up to the one that is NULL. */
static enum tern_status parse(const struct option_table *t, const char *const *words)
{
    char *argv[16] = {(char *)"prog"};
    int argc = 1;
    for (; *words; words++)
        argv[argc++] = (char *)*words;
    forget();
    memset(value, 0, sizeof value);
    e = (struct tern_error){0};
    return parser_open(&p, t, value, argc, argv, &e);
}

#define PARSE(...) parse(&table, (const char *const[]){__VA_ARGS__, NULL})
#define GOOD(...) ck_assert_msg(PARSE(__VA_ARGS__) == TERN_OK, "%s", e.text)
#define BAD(want, ...)                                    \
    do {                                                  \
        ck_assert_int_eq(PARSE(__VA_ARGS__), TERN_USAGE); \
        ck_assert_int_eq(e.code, TERN_USAGE);             \
        ck_assert_str_eq(e.text, want);                   \
    } while (0)

START_TEST(every_way_to_write_a_value)
{
    static const char *const ways[][2] = {{"-n7", NULL},       {"-n", "7"},
                                          {"--count=7", NULL}, {"--count", "7"},
                                          {"-cnt", "7"},       {"--number-of-tokens", "7"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        GOOD(ways[i][0], ways[i][1]);
        ck_assert(value[COUNT].given && value[COUNT].integer == 7 && p.n_words == 0);
        ck_assert_str_eq(value[COUNT].text, "7");
    }
    GOOD("-n", "1", "-n-5");
    ck_assert_int_eq(value[COUNT].integer, -5);
    GOOD("--temp=.5", "-s18446744073709551615", "-pone two", "--name=", "-kq8", "-v");
    ck_assert(value[TEMP].real == 0.5 && value[START].seed == UINT64_MAX);
    ck_assert(!value[NAME].text[0] && !strcmp(value[TYPE].text, "q8") && value[LOUD].given);
    ck_assert(!value[LOUD].text && !value[HELP].given && p.job == N_OPTIONS);
}
END_TEST

START_TEST(values_out_of_range)
{
    GOOD("-n-5"), GOOD("-n9"), GOOD("--temp=-1"), GOOD("--temp=2"), GOOD("--look=1"),
        GOOD("--look=3");
    BAD("-n: '-6' is not an integer from -5 to 9", "-n-6");
    BAD("--count: '10' is not an integer from -5 to 9", "--count", "10");
    BAD("-cnt: '1.5' is not an integer from -5 to 9", "-cnt", "1.5");
    BAD("--temp: '2.1' is not a number from -1 to 2", "--temp", "2.1");
    BAD("--temp: '-1.1' is not a number from -1 to 2", "--temp=-1.1");
    BAD("--temperature: 'x' is not a number from -1 to 2", "--temperature", "x");
    BAD("--look: '0' is not an integer from 1 to 3", "--look=0");
    BAD("--look: '4' is not an integer from 1 to 3", "--look=4");
    BAD("-s: '-1' is not an integer from 0 to 18446744073709551615 (without the option, every run "
        "uses another seed)",
        "-s", "-1");
    BAD("--type: 'f32' is not one of f16|q8", "--type", "f32");
    BAD("--type: 'f1' is not one of f16|q8", "--type", "f1");
    BAD("--mark: '' is not one of rows|all", "--mark=");
    BAD("--name hinted: a hint", "--name", "hinted");
    BAD("-r hinted: a hint", "-rhinted");
    BAD("-n hinted: a hint", "-n", "hinted");
    static const struct option_table bare = {"", "", rows, N_OPTIONS, "", NULL, NULL};
    ck_assert_int_eq(parse(&bare, (const char *const[]){"-r", "hinted", "--stop=", NULL}), TERN_OK);
}
END_TEST

/* A value follows them after = alone. */
START_TEST(values_that_may_be_missing)
{
    GOOD("--look", "2", "--mark", "all");
    ck_assert(value[LOOK].given && !value[LOOK].text && value[MARK].given && !value[MARK].text);
    ck_assert(p.n_words == 2 && !strcmp(p.words[0], "2") && !strcmp(p.words[1], "all"));
    GOOD("--look=2", "--mark=all");
    ck_assert(value[LOOK].integer == 2 && !strcmp(value[MARK].text, "all") && p.n_words == 0);
    BAD("-n needs a value: N", "-n");
    BAD("--type needs a value: f16|q8", "x", "--type");
    BAD("--loud takes no value", "--loud=1");
    BAD("--info takes no value", "--info=");
    BAD("unknown option '-vv'; --help lists all; or ask", "-vv");
}
END_TEST

START_TEST(words_and_lists)
{
    GOOD("one", "-", "-rx", "", "--stop", "y", "--", "-n", "--", "--what");
    static const char *const words[] = {"one", "-", "", "-n", "--", "--what"};
    ck_assert_uint_eq(p.n_words, 6);
    for (size_t i = 0; i < 6; i++)
        ck_assert_str_eq(p.words[i], words[i]);
    ck_assert(p.n_texts == 2 && p.texts[0].option == STOP && p.texts[1].option == STOP);
    ck_assert(!strcmp(p.texts[0].text, "x") && !strcmp(p.texts[1].text, "y"));
    ck_assert(!value[COUNT].given && !value[NAME].given);
}
END_TEST

START_TEST(one_job)
{
    GOOD("--info", "--info");
    ck_assert_int_eq(p.job, INFO);
    GOOD("-h");
    ck_assert_int_eq(p.job, HELP);
    BAD("--info and --help cannot go together", "--info", "--help");
}
END_TEST

/* Wrong names, and what they may have meant: at most one edit of a short one, two of others, where
 * neighbours that changed places are one; or a beginning. */
START_TEST(nearest_names)
{
    static const char *const near[][2] = {{"--tmep", "--temp"},
                                          {"--cuont", "--count"},
                                          {"--conut=5", "--count"},
                                          {"--ount", "--count"},
                                          {"--counts", "--count"},
                                          {"--caunt", "--count"},
                                          {"--xcont", "--count"},
                                          {"--inof", "--info"},
                                          {"--nzmx", "--name"},
                                          {"--nam", "--name"},
                                          {"--tpye", "--type"},
                                          {"--stp", "--stop"},
                                          {"--he", "--help"},
                                          {"--tempe", "--temperature"},
                                          {"--number", "--number-of-tokens"},
                                          {"--ct", "-cnt"},
                                          {"-count", "--count"},
                                          {"-name=x", "--name"},
                                          {"-verbose", "--verbose"},
                                          {"--verboes", "--verbose"},
                                          {"--number-of-tokensxy", "--number-of-tokens"},
                                          {"--temper", "--temperature"},
                                          {"--cuonts", "--count"},
                                          {"--ocuntz", "--count"}};
    char text[200];
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        ck_assert_int_eq(PARSE(near[i][0]), TERN_USAGE);
        snprintf(text, sizeof text, "unknown option '%s'; did you mean %s?", near[i][0],
                 near[i][1]);
        ck_assert_str_eq(e.text, text);
    }
    static const char *const far[] = {"--",
                                      "--x",
                                      "--t",
                                      "--zz",
                                      "--xnx",
                                      "--nxy",
                                      "--cuxyz",
                                      "--unrelated",
                                      "--zonxt",
                                      "--rzzzzz",
                                      "--zoxut",
                                      "---",
                                      "--cntxyz",
                                      "-z",
                                      "--number-of-tokens-and-31-characters",
                                      "--number-of-tokens-and-more-of-them",
                                      "--number-of-tokens-with-32-letters"};
    for (size_t i = 1; i < sizeof far / sizeof *far; i++) {
        ck_assert_int_eq(PARSE(far[i]), TERN_USAGE);
        snprintf(text, sizeof text, "unknown option '%s'; --help lists all; or ask", far[i]);
        ck_assert_str_eq(e.text, text);
    }
    BAD("--gpu: there is none", "--gpu");
}
END_TEST

START_TEST(lists_of_words)
{
    ck_assert(parser_in_list("a|bc|", '|', "a", 1) && parser_in_list("a|bc", '|', "bcd", 2));
    ck_assert(parser_in_list("a||b", '|', "", 0) && !parser_in_list("a|b", '|', "", 0));
    ck_assert(!parser_in_list("", '|', "", 0) && !parser_in_list("ab", '|', "a", 1));
    ck_assert(!parser_in_list("a|b", '|', "a|", 2) && !parser_in_list("a|b", ' ', "a", 1));
}
END_TEST

START_TEST(memory_that_runs_out)
{
    for (size_t at = 1; at < 3; at++) {
        char *argv[] = {(char *)"prog"};
        allocs_start(at, 0);
        ck_assert_int_eq(parser_open(&p, &table, value, 1, argv, &e), TERN_NO_MEMORY);
        parser_close(&p);
        ck_assert_uint_eq(allocs_live(), 0);
        allocs_stop();
        ck_assert(e.code == TERN_NO_MEMORY && strstr(e.text, "memory"));
    }
    ck_assert_int_eq(parser_open(&p, &table, value, 0, NULL, &e), TERN_OK);
    ck_assert(p.n_words == 0 && p.n_texts == 0);
}
END_TEST

/* What --help prints of `t`. */
static const char *help_of(const struct option_table *t)
{
    static char text[8192];
    int ends[2], saved = dup(STDOUT_FILENO);
    ck_assert(!pipe(ends) && dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
    parser_help(t);
    ck_assert(out_write("", 0));
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    ck_assert_int_ge(n, 0);
    text[n] = 0;
    return text;
}

START_TEST(the_help_page)
{
    ck_assert_str_eq(help_of(&table),
                     "Examples:\n  prog x\nusage: prog\n"
                     "  -h, --help                show this text\n"
                     "      --info                what the file says of itself\n"
                     "\nHow much:\n"
                     "  -n, --count N             how many; also --number-of-tokens, -cnt\n"
                     "      --temp X              how wild; also --temperature\n"
                     "  -s, --start N             first number\n"
                     "  -p, --name TEXT           a name that is long enough for its help to be\n"
                     "                            wrapped, once\n"
                     "  -r, --stop TEXT           ends the text\n"
                     "  -k, --type f16|q8         of what the library knows\n"
                     "      --look[=N]            guess\n"
                     "      --mark[=rows|all]     print a mark\n"
                     "  -v, --loud                say more; also --verbose\n");
}
END_TEST

/* Help begins in column 28, on a line of its own after a name that leaves no gap, and ends in column
 * 79 at most. */
START_TEST(the_edges_of_the_help_page)
{
#define MARGIN "                            "
#define LINE "a line beside its margin of 28 columns ab"
    static const struct option_row wide[] = {
        {0, "a-name-of-letters19", FLAG, 0, 0, NULL, NULL, LINE " fits here", NULL},
        {0, "a-name-of-letters-20", FLAG, 0, 0, NULL, NULL, LINE " fits never", NULL},
        {0, "a-name-of-more-letters", FLAG, 0, 0, NULL, NULL, "below", NULL}};
    static const struct option_table t = {"", "", wide, 3, "", NULL, NULL};
    ck_assert_str_eq(help_of(&t),
                     "Examples:\n\n"
                     "      --a-name-of-letters19 " LINE " fits here\n"
                     "      --a-name-of-letters-20\n" MARGIN LINE " fits\n" MARGIN "never\n"
                     "      --a-name-of-more-letters\n" MARGIN "below\n");
#undef MARGIN
#undef LINE
}
END_TEST

SUITE("parser", AROUND_EACH(NULL, forget), TEST(every_way_to_write_a_value),
      TEST(values_out_of_range), TEST(values_that_may_be_missing), TEST(words_and_lists),
      TEST(one_job), TEST(nearest_names), TEST(lists_of_words), TEST(memory_that_runs_out),
      TEST(the_help_page), TEST(the_edges_of_the_help_page))
