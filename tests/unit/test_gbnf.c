/* ldflags: -Wl,@tests/support/allocs.ld */
/* Grammars: what they accept and refuse, what is wrong with them, and large ones. */
#include "each_allocation.h"
#include "sample/recognize/gbnf.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4 << 20, STEPS = 1000000 };

/* Texts are separated by TAB. */
struct grammar_case {
    const char *grammar, *good, *bad;
};

static const struct grammar_case cases[] = {
    {"root ::= sum\nsum ::= term (\"+\" term)*\nterm ::= number\nnumber ::= [0-9]+",
     "42\t1+2+3+4+5\t123+456", "\t+\t/ 3\t1+2+\t12a45"},
    {"root ::= expression\n"
     "expression ::= term ws ((\"+\"|\"-\") ws term)*\n"
     "term ::= factor ws ((\"*\"|\"/\") ws factor)*\n"
     "factor ::= number | variable | \"(\" expression \")\" | call\n"
     "number ::= [0-9]+\n"
     "variable ::= [a-zA-Z_][a-zA-Z0-9_]*\n"
     "call ::= variable ws \"(\" (expression (\",\" ws expression)*)? \")\"\n"
     "ws ::= [ \\t\\n\\r]?",
     "42\t1*2*3\tx\tx+10\t(a+b)*(c-d)\tf()\tf(x,y+2)\tf(g(x), h(y, z))\tx1 + y2\t((((1))))",
     "\t+\t/ 3x\tx + + y\ta * / b\tf(,)\tf(x y)\t(a + b\tx + y)\t42 +\tf(g(x), h(y, z)"},
    {"root ::= ... \"abc\" ...",
     "abcabcabc\taaaabcccc\t"
     "\xF0\x9F\x94\xB5\xF0\x9F\x9F\xA0\xE2\x9C\x85"
     "abc\xE2\x9D\x8C\xF0\x9F\x9F\xA0\xF0\x9F\x94\xB5",
     "aaabcccc\taaaaabcccc\taaaabccc\t\xF0\x9F\x94\xB5\xF0\x9F\x9F\xA0"
     "abcabc"},
    {"root ::= cons+ vowel* cons? (vowel cons)*\nvowel ::= [aeiouy]\n"
     "cons ::= [bcdfghjklmnpqrstvwxyz]\n",
     "yes\tno\tnoyes\tcrwth\tfour\tbryyyy", "yess\tyesno\tforty\tcatyyy"},
    {"root ::= [ab]{4}", "aaaa\tabab", "\ta\taaaaa"},
    {"root ::= [ab]{ 4 , }", "aaaa\tbbbbbbb", "\taba"},
    {"root ::= [ab]{0,4}", "\ta\taaab", "aaaaa\tc"},
    {"root ::= (\"0x\" [A-F0-9]{2} \" \"?){3,5}", "0xFF 0x12 0xAB\t0xFF0x120xAB 0x00 0x00",
     "\t0xFF\t0xFF 0x12\t0xFF 0x12 0xAB 0x00 0x00 0x00"},
    {"root ::= ( [x]* )*", "\tx\txx", "y\txy"},
    {"root ::= \"a\" | root \"a\"", "a\taaaa", "\tb\tab"},
    {"root ::= root | \"a\" root | [bc] \"d\" root | \"e\" |", "\tae\taabdcdae\te", "ea\tb\tee"},
    {"root ::= root \"a\" | root | [bc] | root \"d\" \"e\"", "b\tba\tcadeade", "\ta\tcd\tbb"},
    {"root ::= asdf\nasdf ::= \"a\" | foo \"b\"\nfoo ::= \"c\" | empty asdf \"d\" | \"e\"\n"
     "empty ::= \"blah\" | ",
     "a\tcb\teb\tadb\tblahadb\tblahebdb", "\tb\tblahcd\tab"},
    {"root ::= \"[\" (root (\",\" root)*)? \"]\"", "[]\t[[],[[]]]", "\t[\t[,]\t[[]"},
    {"root ::= root root | \"a\" |", "\ta\taaaaaaaa", "b"},
    {"root ::= root \"+\" root | root root | root \"!\" | [ab] | root", "a\ta+b\tab+b!\ta!!+ab",
     "\t+\ta+\ta++b\t!a"},
    {"root ::= \"a\" root \"a\" | \"b\" root \"b\" | [ab]?", "\ta\tabba\tababa", "ab\tabb"},
    /* a repeat of what is not regular is counted, not spelled out */
    {"root ::= x{2,3}\nx ::= \"(\" x? \")\"", "()()\t(())()((()))", "\t()\t()()()()\t(("},
    {"root ::= x{2,} y\nx ::= | \"(\" x? \")\"\ny ::= \"!\"", "!\t()!\t()()(())!", "()\t!!"},
    {"root ::= x{3,1000000000} \".\"\nx ::= \"a\" | \"(\" x \")\"", "aaa.\taa(a)a.",
     ".\taa.\t(aa)a."},
    /* spelling */
    {"# comment\nroot ::= # here\n  \"x\" | # there\n\n  (\n \"y\" # inside\n \"z\"\n)\n\n# end",
     "x\tyz", "\ty\txyz"},
    {"root ::= [^\\n\\x41-C\\]]\r\nother_rule-1 ::= \"\"", "a\tD\t\xC3\xA9\t[", "\n\tA\tC\t]\t"},
    {"root ::= [a-]\"\\x41\\u00e9\\U0001F600\\\"\\\\\"",
     "aA\xC3\xA9\xF0\x9F\x98\x80\"\\\t-A\xC3\xA9"
     "\xF0\x9F\x98\x80\"\\",
     "bA"},
    {"root ::= [c-zb-dx]{2} [^b-zdx]", "bza\tcdA", "aza\tzzz"},
    {"root ::= <think> !</think>* </think> \"a\"",
     "\xFF<think>\xFF</think>a\t\xFF<think>b c\xFF</think>a",
     "<think></think>a\t\xFF<think>\xFF<think>\xFF</think>a"},
    {"root ::= ((!<x>))+ <x>", "ab\xFF<x>", "\xFF<x>"},
    /* rules without an end go, and so does what needs them */
    {"root ::= \"a\" (endless | \"b\") | endless\nendless ::= \"c\" endless", "ab", "\ta\tc\tac"},
    {"root ::= \"a\" endless? endless{0,9} \"b\"\nendless ::= \"(\" endless \")\"", "ab", "a(\ta"},
    {"root ::= x \"!\"\nx ::= y \"1\" | \"x\"\ny ::= x \"2\" | \"y\"", "x!\ty1!\tx21!\ty121!",
     "y!\tx2!"},
};

static struct budget purse(void)
{
    return (struct budget){.bytes = BYTES, .steps = STEPS};
}

static bool matches(const struct recognizer *r, struct track *t, const char *text, size_t n)
{
    struct place p;
    enum step s = r->begin(r->self, t, &p);
    for (size_t i = 0; i < n && s == STEP_ALIVE; i++)
        s = r->step(r->self, t, &p, (unsigned char)text[i]);
    ck_assert(s != STEP_NO_ROOM);
    return s == STEP_ALIVE && r->accepts(r->self, t, &p);
}

/* Behind p a text can end, or go on; so it can behind what goes on, for `depth` bytes. */
static void check_ends(const struct recognizer *r, struct track *t, const struct place *p,
                       int depth)
{
    uint64_t set[4];
    unsigned n = 0;
    r->first(r->self, t, p, set);
    for (unsigned byte = 0; byte < 256; byte++) {
        struct place next = *p;
        if (!(set[byte >> 6] >> (byte & 63) & 1) || (n > 3 && byte % 16))
            continue;
        ck_assert_int_eq(r->step(r->self, t, &next, (unsigned char)byte), STEP_ALIVE);
        if (depth && n < 4)
            check_ends(r, t, &next, depth - 1);
        n++;
    }
    ck_assert(n || r->accepts(r->self, t, p));
}

static void check_texts(const struct recognizer *r, const char *grammar, const char *texts,
                        bool good)
{
    struct track t = {.limit = 1 << 20};
    struct place p;
    ck_assert_int_eq(r->begin(r->self, &t, &p), STEP_ALIVE);
    check_ends(r, &t, &p, good ? 6 : 0);
    for (const char *c = texts; c; c = strchr(c, '\t') ? strchr(c, '\t') + 1 : NULL) {
        const size_t n = strcspn(c, "\t");
        ck_assert_msg(matches(r, &t, c, n) == good, "%s: %.*s", grammar, (int)n, c);
    }
    free(t.bytes);
}

START_TEST(texts)
{
    const struct grammar_case *c = &cases[_i];
    struct budget b = purse();
    struct tern_error e;
    struct recognizer r;
    ck_assert_msg(!gbnf_open(&r, c->grammar, strlen(c->grammar), NULL, &b, &e), "%s: %s",
                  c->grammar, e.text);
    check_texts(&r, c->grammar, c->good, true);
    check_texts(&r, c->grammar, c->bad, false);
    r.close(r.self);
    ck_assert_uint_eq(b.bytes, BYTES);
}
END_TEST

/* A rule that calls itself at one end is regular: the places of a long text are alike. */
START_TEST(calls_at_one_end)
{
    static const char *const grammars[] = {"root ::= [ab] root | \"b\"",
                                           "root ::= root [ab] | \"b\"",
                                           "root ::= x \".\"\nx ::= \"a\" x | \"bb\" x | [b]",
                                           "root ::= x \".\"\nx ::= x \"a\" | x \"b\" | [b]"};
    struct track t = {.limit = 1 << 20};
    struct budget b = purse();
    struct recognizer r;
    struct place p;
    ck_assert(!gbnf_open(&r, grammars[_i], strlen(grammars[_i]), NULL, &b, NULL));
    ck_assert_int_eq(r.begin(r.self, &t, &p), STEP_ALIVE);
    uint64_t signature = 0;
    for (int i = 0; i < 2000; i++) {
        if (i == 1000)
            signature = r.signature(r.self, &t, &p);
        ck_assert_int_eq(r.step(r.self, &t, &p, 'b'), STEP_ALIVE);
    }
    ck_assert_uint_eq(r.signature(r.self, &t, &p), signature);
    ck_assert_uint_le(p.used, 2002 * 80);
    free(t.bytes);
    r.close(r.self);
}
END_TEST

/* Rules that call themselves at both ends can be read in many ways, which are one: a byte behind many costs what the
 * others cost, and so does its set. */
START_TEST(calls_at_both_ends)
{
    static const char *const rules[][2] = {
        {"root ::= [a-z ]* | root root", "ab c"},
        {"root ::= [0-9] | root [+*] root | root \"-\" root", "1+2*3-"},
        {"root ::= x \".\"\nx ::= \"a\" | \"(\" x \")\" | x x | x \"-\" x", "a(a)(a-a)"},
        {"root ::= x\nx ::= y | x x\ny ::= \"(\" x? \")\"", "()(()())"},
    };
    enum { MANY = 4000, FEW = 400 };
    struct track t = {.limit = 4 << 20};
    struct budget b = purse();
    struct recognizer r;
    struct place p;
    uint64_t few = 0;
    ck_assert(!gbnf_open(&r, rules[_i][0], strlen(rules[_i][0]), NULL, &b, NULL));
    b.steps = UINT64_MAX;
    ck_assert_int_eq(r.begin(r.self, &t, &p), STEP_ALIVE);
    for (int i = 0; i < MANY; i++) {
        char byte = rules[_i][1][(size_t)i % strlen(rules[_i][1])];
        ck_assert_msg(r.step(r.self, &t, &p, (unsigned char)byte) == STEP_ALIVE, "byte %d", i);
        if (i == FEW)
            few = UINT64_MAX - b.steps;
    }
    uint64_t many = UINT64_MAX - b.steps;
    ck_assert_msg(many < 2 * MANY / FEW * few, "%d bytes: %llu steps, %d: %llu", FEW,
                  (unsigned long long)few, MANY, (unsigned long long)many);
    ck_assert_uint_le(p.used, MANY * 400);
    free(t.bytes);
    r.close(r.self);
}
END_TEST

/* What a byte costs where the ways are not seen to be one is taken from the budget, and ends with it. */
START_TEST(ambiguity_is_paid_for)
{
    static const char grammar[] = "root ::= x | \"a\"\nx ::= root root | \"b\"";
    struct track t = {.limit = 16 << 20};
    struct budget b = purse();
    struct recognizer r;
    struct place p;
    ck_assert(!gbnf_open(&r, grammar, strlen(grammar), NULL, &b, NULL));
    b.steps = 20000;
    enum step s = r.begin(r.self, &t, &p);
    int n = 0;
    for (; s == STEP_ALIVE && n < 1000; n++)
        s = r.step(r.self, &t, &p, 'a');
    ck_assert_int_eq(s, STEP_NO_ROOM);
    ck_assert(b.is_empty && !b.steps && n > 10);
    free(t.bytes);
    r.close(r.self);
}
END_TEST

static const struct {
    const char *grammar, *wrong;
} mistakes[] = {
    {"", "line 1: there is no rule root"},
    {"rot ::= \"a\"", "line 1: there is no rule root"},
    {"root ::= a\n\na ::= numero", "line 3: there is no rule numero"},
    {"root ::= \"a\"\nroot ::= \"b\"", "line 2: this rule is already defined in line 1"},
    {"root ::= root", "line 1: no text matches the grammar"},
    {"\nroot ::= \"a\" x\nx ::= \"(\" x", "line 2: no text matches the grammar"},
    {"root ::= [^\\x00-\\U0010FFFF]", "line 1: no text matches the grammar"},
    {"root ::= \"a", "line 1: the text ends in a literal or class"},
    {"root ::= [a", "line 1: the text ends in a literal or class"},
    {"root ::= []", "line 1: an empty class"},
    {"root ::= [z-a]", "line 1: a range of a class is empty: its ends are the wrong way round"},
    {"root ::=\n(\n\"a\"", "line 2: a group is not closed"},
    {"root ::= \"a\")", "line 1: unexpected ')'"},
    {"root ::= \"a\" $", "line 1: unexpected '$'"},
    {"root ::= \"a\" \x01", "line 1: unexpected byte 0x01"},
    {"root ::= \"\xFF\"", "line 1: invalid UTF-8"},
    {"root ::= \"\\q\"",
     "line 1: unknown escape; \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\] \\- are known"},
    {"root ::= \"\\u12\"", "line 1: an escape has too few hexadecimal digits"},
    {"root ::= \"\\uD800\"", "line 1: an escape is no character: U+D800"},
    {"root = \"a\"", "line 1: '::=' is expected behind the name of a rule"},
    {"::= \"a\"", "line 1: the name of a rule is expected"},
    {"root ::= *", "line 1: nothing stands before '*'"},
    {"root ::= (\"a\" | +)", "line 1: nothing stands before '+'"},
    {"root ::= \"a\"{,3}", "line 1: a number is expected in {}"},
    {"root ::= \"a\"{3,1}", "line 1: {3,1}: the most is below the least"},
    {"root ::= \"a\"{3", "line 1: '}' is expected"},
    {"root ::= \"a\"{99999999999}", "line 1: a number of repeats is too large"},
    {"root ::= <[10]>", "line 1: tokens by number are not supported: write <name>"},
    {"root ::= <x", "line 1: a token is written <name>"},
    {"root ::= !\"a\"", "line 1: a token must follow '!'"},
    {"root ::= !<x>", "line 1: !<name> is supported only as !<name>* or !<name>+"},
    {"root ::= (!<x> \"a\")*", "line 1: !<name> is supported only as !<name>* or !<name>+"},
    {"root ::= !<x>{2,}", "line 1: !<name> is supported only as !<name>* or !<name>+"},
};

static bool is_x(const void *self, const char *name, size_t n)
{
    return self == mistakes && n == 3 && !memcmp(name, "<x>", 3);
}

/* A text could not go on where its token does not exist. */
START_TEST(tokens_that_do_not_exist)
{
    static const struct {
        const char *grammar, *wrong;
    } list[] = {
        {"root ::= \"a\" | <x> !<y>*", NULL},
        {"root ::= <x> (<xy> | \"b\")",
         "grammar: line 1: rule root names <xy>, and the model has no such special token"},
        {"root ::= \"a\" | long\nlong ::=\n  <\xC3\xA9>",
         "grammar: line 3: rule long names <\xC3\xA9>, and the model has no such special token"},
        {"root ::= <x>\nnever ::= <012345678901234567890123456789012345678901234567890123456789>",
         "grammar: line 2: rule never names "
         "<01234567890123456789012345678901234567890123456789012345678, and the model has no such "
         "special token"},
    };
    const struct gbnf_tokens tokens = {is_x, mistakes};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct budget b = purse();
        struct tern_error e = {0};
        struct recognizer r;
        const char *grammar = list[i].grammar;
        enum tern_status s = gbnf_open(&r, grammar, strlen(grammar), &tokens, &b, &e);
        ck_assert_int_eq(s, list[i].wrong ? TERN_USAGE : TERN_OK);
        if (s)
            ck_assert_str_eq(e.text, list[i].wrong);
        else
            r.close(r.self);
        ck_assert_uint_eq(b.bytes, BYTES);
    }
}
END_TEST

START_TEST(says_what_is_wrong)
{
    struct budget b = purse();
    struct tern_error e = {0};
    struct recognizer r;
    char wanted[200];
    const char *grammar = mistakes[_i].grammar;
    snprintf(wanted, sizeof wanted, "grammar: %s", mistakes[_i].wrong);
    ck_assert_int_eq(gbnf_open(&r, grammar, strlen(grammar), NULL, &b, &e), TERN_USAGE);
    ck_assert_str_eq(e.text, wanted);
    ck_assert_uint_eq(b.bytes, BYTES);
}
END_TEST

/* text = n times `piece`, in which '%' stands for the number and '@' for the next one */
static size_t repeat(char *text, const char *piece, unsigned n)
{
    char *to = text;
    for (unsigned i = 0; i < n; i++)
        for (const char *c = piece; *c; c++)
            if (*c == '%' || *c == '@')
                to += sprintf(to, "%u", i + (*c == '@'));
            else
                *to++ = *c;
    *to = 0;
    return (size_t)(to - text);
}

static enum tern_status open_bomb(struct recognizer *r, const char *head, const char *piece,
                                  unsigned n, const char *tail, struct budget *b)
{
    static char text[GBNF_MOST + 1000];
    size_t at = (size_t)sprintf(text, "%s", head);
    at += repeat(text + at, piece, n);
    at += (size_t)sprintf(text + at, "%s", tail);
    *b = purse();
    return gbnf_open(r, text, at, NULL, b, NULL);
}

/* An answer or a refusal within 4 MiB and the steps, and texts of it are read. */
START_TEST(large_grammars)
{
    static const struct {
        const char *head, *piece;
        unsigned n;
        const char *tail, *text;
        enum tern_status status;
    } bombs[] = {
        {"root ::= ", "(", 60000, "", "", TERN_USAGE},
        {"root ::= r0\n", "r% ::= r@\n", 10000, "r10000 ::= \"a\"\n", "a", TERN_OK},
        {"root ::= r0\n", "r% ::= \"x\" r@|\"y\"\n", 8000, "r8000 ::= \"a\"\n", "xxxxy", TERN_OK},
        {"root ::= r0\n", "r% ::= \"(\" r@|r0 \")\"\n", 8000, "r8000 ::= \"a\"\n", "(", TERN_OK},
        {"root ::= (\"a\" | \"aa\"){0,1000000000}", "", 1, "", "aaaaaaaaaaaaaaaaaaaa", TERN_OK},
        {"root ::= (\"(\" root \")\"){0,1000000000} \"x\"", "", 1, "", "(x)x", TERN_OK},
        {"root ::= ", "(\"a\" root|", 9000, "", "", TERN_USAGE},
        {"root ::= r0\n", "r% ::= r@ r@\n", 9000, "r9000 ::= \"a\"\n", "aaaaa", TERN_OK},
        {"root ::= root root | \"a\"\n", "", 1, "", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", TERN_OK},
        {"root ::= ", "\"a\"? ", 20000, "", "aa", TERN_OK},
        {"", "[", 1000000 / 4, "", "", TERN_USAGE},
        {"root ::= \"", "a", 262140, "\"", "", TERN_LIMIT},
    };
    struct budget b;
    struct recognizer r;
    const enum tern_status s =
        open_bomb(&r, bombs[_i].head, bombs[_i].piece, bombs[_i].n, bombs[_i].tail, &b);
    ck_assert_int_eq(s, bombs[_i].status);
    if (!s) {
        struct track t = {.limit = 8 << 20};
        struct place p;
        ck_assert_int_eq(r.begin(r.self, &t, &p), STEP_ALIVE);
        for (const char *c = bombs[_i].text; *c; c++)
            ck_assert_int_eq(r.step(r.self, &t, &p, (unsigned char)*c), STEP_ALIVE);
        free(t.bytes);
        r.close(r.self);
    }
    ck_assert_uint_eq(b.bytes, BYTES);
}
END_TEST

static void use(void)
{
    static const char grammar[] =
        "root ::= \"(\" root \")\" root | [a-c]{2,3} | x*\nx ::= \"x\" root? \"y\"";
    struct track t = {.limit = 1 << 20};
    struct budget b = purse();
    struct recognizer r;
    struct place p;
    if (gbnf_open(&r, grammar, strlen(grammar), NULL, &b, NULL)) {
        ck_assert(b.no_memory && b.bytes == BYTES);
        return;
    }
    enum step s = r.begin(r.self, &t, &p);
    for (const char *c = "((ab)xyx(aa)bcay)ab"; *c && s == STEP_ALIVE; c++) {
        struct track to = {.limit = 1 << 20};
        s = r.step(r.self, &t, &p, (unsigned char)*c);
        if (s == STEP_ALIVE && r.compact(r.self, &t, &to, &p, 1) == STEP_ALIVE) {
            free(t.bytes);
            t = to;
        } else
            free(to.bytes);
        ck_assert(s != STEP_DEAD);
    }
    ck_assert(s == STEP_NO_ROOM || r.accepts(r.self, &t, &p));
    free(t.bytes);
    r.close(r.self);
    ck_assert_uint_eq(b.bytes, BYTES);
}

START_TEST(every_allocation_fails)
{
    ck_assert_uint_gt(each_allocation(use), 10);
}
END_TEST

/* Every budget is enough or refused, and everything comes back. */
START_TEST(every_budget)
{
    const char *grammar = cases[1].grammar;
    for (size_t bytes = 0; bytes < 40000; bytes += 97) {
        struct budget b = {.bytes = bytes, .steps = STEPS};
        struct recognizer r;
        enum tern_status s = gbnf_open(&r, grammar, strlen(grammar), NULL, &b, NULL);
        ck_assert(s == TERN_OK || s == TERN_LIMIT);
        if (!s)
            r.close(r.self);
        ck_assert_uint_eq(b.bytes, bytes);
    }
}
END_TEST

SUITE("gbnf", LOOP(texts, 0, sizeof cases / sizeof *cases), LOOP(calls_at_one_end, 0, 4),
      LOOP(calls_at_both_ends, 0, 4), TEST(ambiguity_is_paid_for),
      LOOP(says_what_is_wrong, 0, sizeof mistakes / sizeof *mistakes), LOOP(large_grammars, 0, 12),
      TEST(tokens_that_do_not_exist), TEST(every_allocation_fails), TEST(every_budget))
