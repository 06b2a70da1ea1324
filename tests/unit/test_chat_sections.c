/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* Sections of chat templates: what is refused, marks of thoughts, limits, the built-in templates.
 * ADDING A MALFORMED SECTION: a row of `cases`. */
#include "allocs.h"
#include "chat_rules.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    struct rule rules[2]; /* the second is empty */
    uint64_t thinking;
    const char *word;
} cases[] = {
    {{{3, 0, "\1<|im_start|>"}}, 0, "rule 0 is malformed"},
    {{{3, 0, "\1<|im_\2|>\1"}}, 0, "malformed"},
    {{{3, 0, "\1nothing\1"}}, 0, "names a special token"},
    {{{3, 0, "\6"}}, 0, "malformed"},
    {{{3, 0, "\6\007"}}, 0, "malformed"},
    {{{3, 0, "\6\0079"}}, 0, "malformed"},
    {{{3, 0, "\6\007/"}}, 0, "malformed"},
    {{{3, 0, "\0078"}}, 0, "malformed"},
    {{{3, 0, "\6\6\6\6\6\0070\0070\0070\0070\0070"}}, 0, "malformed"},
    {{{3, 0, "\6" START "\0070"}}, 0, "malformed"},
    {{{3, 0, "\6\10\0070"}}, 0, "malformed"},
    {{{3, 2, "\2"}}, 0, "malformed"},
    {{{3, 3, ""}}, 0, "malformed"},
    {{{1, 0, ""}}, 0, "malformed"},
    {{{3, 4, ""}}, 0, "malformed"},
    {{{0x20003, 0x20000, ""}}, 0, "malformed"},
    {{{3, 0, ""}}, 3, "out of range"},
    {{{3, 0, "\2\2\2\2\2\2\2\2\2"}}, 0, "32 special tokens or 8 texts"},
};

/* An answer with marks <a> and </a>, by the form of thoughts: its answer, its thought, and which of the
 * conditions THOUGHT, ANSWER_BLANK, THINKS_EMPTY, THINKS_BLANK and MARK hold: letters t a e b m */
static const struct {
    const char *text, *want[5]; /* of forms 0 to 4 */
} parted[] = {
    {"x", {"[x|]eb", "[x|]eb", "[x|]eb", "[x|]eb", "[x|]eb"}},
    {" ", {"[ |]aeb", "[ |]aeb", "[ |]aeb", "[ |]aeb", "[ |]aeb"}},
    {"j<a>t</a>x", {"[x|t]tm", "[x|t]tm", "[x|t]tm", "[x|t]tm", "[jx|t]tm"}},
    {"t</a>x", {"[x|t]tm", "[t</a>x|]ebm", "[x|t]tm", "[t</a>x|]ebm", "[tx|t]tm"}},
    {"x<a>t", {"[x<a>t|]ebm", "[x<a>t|]ebm", "[x<a>t|]ebm", "[x<a>t|]ebm", "[x|t]tm"}},
    {"<a>\n</a>\n",
     {"[\n|\n]taebm", "[\n|\n]taebm", "[\n|\n]taebm", "[\n|\n]taebm", "[\n|\n]taebm"}},
    {"<a> </a>x", {"[x| ]tbm", "[x| ]tbm", "[x| ]tbm", "[x| ]tbm", "[x| ]tbm"}},
    {"<a>1<a>2</a>3</a>4", {"[4|2]tm", "[4|2]tm", "[3</a>4|2]tm", "[3</a>4|2]tm", "[34|2]tm"}},
    {"a</a>b<a>c</a>", {"[|a]tam", "[|a]tam", "[b<a>c</a>|a]tm", "[b<a>c</a>|a]tm", "[ab|a]tm"}},
};

START_TEST(knows_forms_of_thoughts)
{
    static const unsigned bits[] = {CHAT_THOUGHT, CHAT_ANSWER_BLANK, CHAT_THINKS_EMPTY,
                                    CHAT_THINKS_BLANK, CHAT_MARK};
    for (size_t form = 0; form < 5; form++) {
        struct tern_chat_message talk[] = {USER("u"),
                                           {.role = "assistant", .text = parted[_i].text}};
        char got[64] = "";
        talk[1].bytes = strlen(parted[_i].text);
        for (size_t b = 0; b <= 5; b++) {
            const struct rule rules[] = {
                {3, 0, ""},
                {b ? 3 | bits[b - 1] : 3, b ? 1 | bits[b - 1] : 1, b ? "y" : "[\3|\4]"},
                {3, 1, ""},
                {3, 2, ""}};
            struct keywriter k = rules_section(rules, 4, 0);
            struct chat *c;
            struct chat_text out = {0};
            struct tern_error e = {0};
            keywriter_text(&k, "thought.begin", "<a>");
            keywriter_text(&k, "thought.end", "</a>");
            keywriter_u64(&k, "thought.form", form);
            ck_assert_msg(!chat_open(&c, rules_vocabulary.t, k.data, k.bytes, &e), "%s", e.text);
            ck_assert(!chat_render(c, talk, 2, 0, &out, &e));
            strncat(got, b ? &"taebm"[b - 1] : out.text.p, b ? out.text.n : out.text.n);
            chat_text_close(&out);
            chat_close(c);
            keywriter_close(&k);
        }
        ck_assert_msg(!strcmp(got, parted[_i].want[form]), "form %zu of '%s': %s", form,
                      parted[_i].text, got);
    }
}
END_TEST

START_TEST(refuses_marks_that_are_none)
{
    static const char *const begins[] = {"", "\n", "<a>", NULL};
    char wide[65] = "";
    memset(wide, 'x', 64);
    for (size_t i = 0; i < 4; i++) {
        struct keywriter k = rules_section(rules_plain, 6, 0);
        struct chat *c;
        struct tern_error e = {0};
        keywriter_text(&k, "thought.begin", begins[i] ? begins[i] : wide);
        keywriter_u64(&k, "thought.form", i == 2 ? 5 : 0);
        ck_assert_int_eq(chat_open(&c, rules_vocabulary.t, k.data, k.bytes, &e), TERN_BAD_FILE);
        ck_assert_msg(strstr(e.text, "marks of thoughts want 1 to 63 bytes"), "%s", e.text);
        keywriter_close(&k);
    }
}
END_TEST

START_TEST(refuses_malformed_rules)
{
    struct keywriter k = rules_section(cases[_i].rules, 1, cases[_i].thinking);
    struct chat *c;
    struct tern_error e = {0};
    ck_assert_int_eq(chat_open(&c, rules_vocabulary.t, k.data, k.bytes, &e), TERN_BAD_FILE);
    ck_assert_ptr_null(c);
    ck_assert_msg(strstr(e.text, cases[_i].word) != NULL, "%s", e.text);
    keywriter_close(&k);
}
END_TEST

/* Opens what may be anything; if it is a chat, uses it. */
static void try_section(const unsigned char *p, size_t n)
{
    static const struct tern_chat_message talk[] = {SYSTEM(" a "), USER("b"),
                                                    ASSISTANT("<think>c</think>d"), USER(" ")};
    struct chat *c;
    struct tern_error e = {0};
    unsigned char *copy = malloc(n + 1); /* malloc's memory is aligned as sections are */
    memcpy(copy, p, n);
    enum tern_status s = chat_open(&c, rules_vocabulary.t, copy, n, &e);
    ck_assert(s == TERN_OK || (s == TERN_BAD_FILE && *e.text && !c));
    for (unsigned i = 0; !s && i < 4; i++) {
        struct chat_text out = {0};
        int32_t ids[256];
        size_t n_ids;
        enum tern_status r = chat_render(c, talk + (i & 1), 3 + !(i & 1), i >> 1, &out, &e);
        ck_assert(r == TERN_OK || r == TERN_USAGE);
        if (!r)
            ck_assert_int_eq(chat_encode(c, &out, ids, 256, &n_ids, &e), TERN_OK);
        chat_text_close(&out);
    }
    chat_close(c);
    free(copy);
}

START_TEST(survives_any_byte)
{
    static const unsigned char values[] = {0, 1, 2, 5, 6, 7, 8, 0x7F, 0x80, 0xFF};
    struct keywriter k = rules_section(rules_plain, 6, 1);
    for (size_t at = 0; at < k.bytes; at++) {
        unsigned char old = k.data[at];
        try_section(k.data, at);
        for (size_t i = 0; i < sizeof values; i++) {
            k.data[at] = values[i];
            try_section(k.data, k.bytes);
        }
        k.data[at] = old;
    }
    keywriter_close(&k);
}
END_TEST

START_TEST(refuses_other_keys)
{
    struct keywriter k = rules_section(rules_plain, 6, 1);
    struct chat *c;
    struct tern_error e = {0};
    keywriter_close(&k);
    keywriter_init(&k);
    keywriter_text(&k, "name", "nobody's");
    keywriter_u64(&k, "builtin", 1);
    ck_assert_int_eq(chat_open(&c, rules_vocabulary.t, k.data, k.bytes, &e), TERN_BAD_FILE);
    ck_assert_msg(strstr(e.text, "no built-in chat template 'nobody's'") != NULL, "%s", e.text);
    keywriter_text(&k, "later", "x");
    ck_assert_int_eq(chat_open(&c, rules_vocabulary.t, k.data, k.bytes, &e), TERN_BAD_FILE);
    ck_assert_msg(strstr(e.text, "later") != NULL, "%s", e.text);
    keywriter_close(&k);
}
END_TEST

/* The status of a section of that name with n rules that write nothing, and `more` numbers too many. */
static enum tern_status open_keys(const char *name, size_t n, size_t more, uint64_t builtin)
{
    static uint32_t when[600], lengths[300];
    struct keywriter k;
    struct chat *c;
    struct tern_error e = {0};
    keywriter_init(&k);
    keywriter_text(&k, "name", name);
    if (builtin)
        keywriter_u64(&k, "builtin", builtin);
    for (size_t i = 0; i < n; i++)
        when[2 * i] = 3, when[2 * i + 1] = (uint32_t)(i % 3);
    keywriter_add(&k, "rules.when", true, KEY_U32, when, 2 * n + more);
    keywriter_add(&k, "rules.lengths", true, KEY_U32, lengths, n);
    keywriter_add(&k, "rules.text", true, KEY_TEXT, "", 0);
    enum tern_status s = chat_open(&c, rules_vocabulary.t, k.data, k.bytes, &e);
    ck_assert((s == TERN_OK) == (c != NULL));
    if (!s)
        ck_assert(chat_info(c)->thinking == 0 && !strcmp(chat_info(c)->name, name));
    chat_close(c);
    keywriter_close(&k);
    return s;
}

START_TEST(names_the_builtin_templates)
{
    static const char name[] = "a name that is longer than forty bytes, and so cut";
    struct chat *c;
    struct tern_error e = {0};
    ck_assert_int_eq(chat_open_builtin(&c, rules_vocabulary.t, name, &e), TERN_USAGE);
    ck_assert_msg(strstr(e.text, "'a name that is longer than forty bytes, '; there are: chatml"),
                  "%s", e.text);
    for (size_t at = 1; at < 9; at++) { /* the list may be cut */
        allocs_start(at, 1);
        enum tern_status s = chat_open_builtin(&c, rules_vocabulary.t, "nobody", &e);
        size_t live = allocs_live();
        allocs_stop();
        ck_assert_uint_eq(live, 0);
        ck_assert_int_eq(s, at == 1 ? TERN_NO_MEMORY : TERN_USAGE);
    }
    ck_assert(!tokenizer_is_special(rules_vocabulary.t, -1) &&
              !tokenizer_is_special(rules_vocabulary.t, INT32_MAX));
}
END_TEST

START_TEST(limits_of_sections)
{
    char name[65] = "";
    memset(name, 'x', 64);
    ck_assert_int_eq(open_keys(name, 3, 0, 0), TERN_BAD_FILE);
    name[63] = 0;
    ck_assert_int_eq(open_keys(name, 3, 0, 0), TERN_OK);
    ck_assert_int_eq(open_keys(u8"a b ~é", 3, 0, 0), TERN_OK);
    ck_assert_int_eq(open_keys("a\x1f", 3, 0, 0), TERN_BAD_FILE);
    ck_assert_int_eq(open_keys("\x7f", 3, 0, 0), TERN_BAD_FILE);
    ck_assert_int_eq(open_keys("x", 3, 0, 2), TERN_BAD_FILE);
    ck_assert_int_eq(open_keys("x", 3, 1, 0), TERN_BAD_FILE);
    ck_assert_int_eq(open_keys("x", 0, 0, 0), TERN_BAD_FILE);
    ck_assert_int_eq(open_keys("x", 256, 0, 0), TERN_OK);
    ck_assert_int_eq(open_keys("x", 257, 0, 0), TERN_BAD_FILE);
}
END_TEST

/* The status of a rule that writes `text` n times. */
static enum tern_status repeat(const char *text, size_t n)
{
    struct buffer all = {0};
    struct chat *c;
    struct tern_error e = {0};
    for (size_t i = 0; i < n; i++)
        ck_assert(buffer_add(&all, text, strlen(text)));
    ck_assert(buffer_add(&all, "", 1));
    struct keywriter k = rules_section(&(struct rule){3, 0, all.p}, 1, 0);
    enum tern_status s = chat_open(&c, rules_vocabulary.t, k.data, k.bytes, &e);
    ck_assert(!s || strstr(e.text, "rule 0 "));
    chat_close(c);
    keywriter_close(&k);
    buffer_close(&all);
    return s;
}

START_TEST(limits_of_rules)
{
    static const struct {
        const char *text;
        size_t most;
    } limits[] = {
        {"\1<|im_end|>\1", 32}, {"\10", 32}, {"\2", 8}, {"\1\1\10", 16}, {"\6x\0070", 9999}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        ck_assert_int_eq(repeat(limits[i].text, limits[i].most), TERN_OK);
        if (limits[i].most < 9999)
            ck_assert_int_eq(repeat(limits[i].text, limits[i].most + 1), TERN_BAD_FILE);
    }
    ck_assert_int_eq(repeat("\6\6\6\6\0070\0070\0070\0070", 1), TERN_OK);
}
END_TEST

/* A text that ends answers is looked for up to 47 bytes, in its first line. */
START_TEST(ends_that_are_text)
{
    static const char long_end[] = "0123456789012345678901234567890123456789012345678901234567890";
    const char *texts[] = {"\2END\n", "\2 \n", "\2", ("\2" STOP)};
    const char *stops[] = {"END", NULL, NULL, NULL};
    char text[80];
    for (size_t i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "\2%s", long_end);
        const struct rule rules[] = {{3, 0, ""}, {3, 1, i < 4 ? texts[i] : text}, {3, 2, ""}};
        struct keywriter k;
        struct chat *c = rules_open(rules, 3, 0, &k);
        const char *stop = chat_info(c)->stop;
        if (i == 4)
            ck_assert(stop && strlen(stop) == 47 && !memcmp(stop, long_end, 47));
        else
            ck_assert(stops[i] ? stop && !strcmp(stop, stops[i]) : !stop);
        ck_assert((chat_info(c)->end >= 0) == (i == 3));
        chat_close(c);
        keywriter_close(&k);
    }
}
END_TEST

START_TEST(knows_builtin_templates)
{
    static const struct tern_chat_message talk[] = {SYSTEM("a"), USER("b"), ASSISTANT("c"),
                                                    USER("d")};
    const char *name;
    size_t n = 0;
    for (; (name = chat_builtin(n)); n++) {
        struct chat *c;
        struct chat_text out = {0};
        ck_assert_int_eq(chat_open_builtin(&c, rules_vocabulary.t, name, NULL), TERN_OK);
        ck_assert_str_eq(chat_info(c)->name, name);
        ck_assert(chat_info(c)->takes_system && (chat_info(c)->end >= 0 || chat_info(c)->stop));
        ck_assert_int_eq(chat_render(c, talk, 4, TERN_CHAT_GENERATE, &out, NULL), TERN_OK);
        chat_text_close(&out);
        chat_close(c);
    }
    ck_assert_uint_eq(n, 10);
}
END_TEST

SUITE("chat sections", AROUND_ALL(rules_setup, rules_teardown),
      LOOP(refuses_malformed_rules, 0, sizeof cases / sizeof *cases), TEST(survives_any_byte),
      LOOP(knows_forms_of_thoughts, 0, sizeof parted / sizeof *parted),
      TEST(refuses_marks_that_are_none), TEST(refuses_other_keys), TEST(limits_of_sections),
      TEST(names_the_builtin_templates), TEST(limits_of_rules), TEST(ends_that_are_text),
      TEST(knows_builtin_templates))
