/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* Chat templates: what rules make of a conversation, and answers that stay as they were sampled.
 * tests/convert/test_chat.py holds the rules of real templates to the templates themselves. */
#include "allocs.h"
#include "chat_rules.h"
#include "suite.h"
#include "text/unicode.h"

#include <stdio.h>
#include <stdlib.h>

START_TEST(renders_rules)
{
    struct keywriter k;
    struct chat *c = rules_open(rules_plain, 6, 0, &k);
    const struct tern_chat_message talk[] = {SYSTEM("Be."), USER(" hi "), ASSISTANT("yo"),
                                             USER(" \n\xE3\x80\x80?\x1C\xC2\xA0")};
    rules_write(c, talk, 4, TERN_CHAT_GENERATE,
                "S:Be.\nU: hi <|im_end|>\n<|im_start|>A:yo<|im_end|>\n<|im_start|>U:?<|im_end|>\n"
                "<|im_start|>A:");
    rules_write(c, talk + 1, 1, 0, "<|im_start|>U:hi<|im_end|>\n");
    rules_write(c, talk + 1, 2, 0, "<|im_start|>U:hi<|im_end|>\n<|im_start|>A:yo<|im_end|>\n");
    ck_assert_str_eq(chat_info(c)->name, "test");
    ck_assert(chat_info(c)->takes_system);
    size_t n;
    const char *end = tokenizer_text(rules_vocabulary.t, chat_info(c)->end, &n);
    ck_assert(n == 10 && memcmp(end, "<|im_end|>", n) == 0 && !chat_info(c)->stop);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

START_TEST(takes_a_text_that_is_null_as_empty)
{
    static const struct tern_chat_message talk[] = {
        {.role = "system"}, {.role = "user"}, {.role = "assistant"}};
    struct keywriter k;
    struct chat *c = rules_open(rules_plain, 6, 0, &k);
    rules_write(c, talk, 3, 0, "S:\nU:<|im_end|>\n<|im_start|>A:<|im_end|>\n");
    rules_write(c, talk + 1, 1, 0, "<|im_start|>U:<|im_end|>\n");
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* Which messages of six, and their end, meet a condition: users, assistants and the end. */
START_TEST(knows_conditions)
{
    static const struct {
        unsigned bit, flags;
        const char *want[2]; /* without and with a system text */
    } rows[] = {
        {CHAT_FIRST, 0, {"UAuauae", "UAuauae"}},
        {CHAT_LAST, 0, {"uauauAE", "uauauAE"}},
        {CHAT_FINAL, 0, {"uauaUAe", "uauaUAe"}},
        {CHAT_EMPTY, 0, {"uaUauae", "uaUauae"}},
        {CHAT_BLANK, 0, {"uaUAuae", "uaUAuae"}},
        {CHAT_THOUGHT, 0, {"uauauAe", "uauauAe"}},
        {CHAT_SYSTEM, 0, {"uauauae", "UAUAUAE"}},
        {CHAT_SYSTEM_BLANK, 0, {"uauauae", "UAUAUAE"}},
        {CHAT_SYSTEM_EMPTY, 0, {"uauauae", "uauauae"}},
        {CHAT_GENERATE, 0, {"uauauae", "uauauae"}},
        {CHAT_GENERATE, TERN_CHAT_GENERATE, {"UAUAUAE", "UAUAUAE"}},
        {CHAT_THINK, TERN_CHAT_THINK, {"UAUAUAE", "UAUAUAE"}},
    };
    static const struct tern_chat_message talk[] = {
        SYSTEM(" \n"),   USER("x"), ASSISTANT("x"),       USER(""),
        ASSISTANT("\t"), USER("x"), ASSISTANT("</think>")};
    const unsigned bit = rows[_i].bit;
    const struct rule rules[] = {{3 | bit, bit, "U"},     {3, 0, "u"},
                                 {3 | bit, 1 | bit, "A"}, {3, 1, "a"},
                                 {3 | bit, 2 | bit, "E"}, {3, 2, "e"}};
    struct keywriter k;
    struct chat *c = rules_open(rules, 6, 0, &k);
    rules_write(c, talk + 1, 6, rows[_i].flags, rows[_i].want[0]);
    rules_write(c, talk, 7, rows[_i].flags, rows[_i].want[1]);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

START_TEST(drops_thoughts)
{
    struct keywriter k;
    struct chat *c = rules_open(rules_plain, 6, 0, &k);
    const struct tern_chat_message talk[] = {
        USER("a</think>b"), ASSISTANT("<think>x</think>y</think>\n\n z\n"), USER("")};
    rules_write(c, talk, 3, 0,
                "<|im_start|>U:a</think>b<|im_end|>\n<|im_start|>A: z\n<|im_end|>\n"
                "<|im_start|>U:<|im_end|>\n");
    chat_close(c);
    keywriter_close(&k);
    static const struct rule thinks[] = {{3, 0, "\2"}, {3, 1, "[\4|\3]"}, {3, 2, ""}};
    c = rules_open(thinks, 3, 0, &k);
    rules_write(c, talk, 2, 0, "a</think>b[x|\n\n z\n]");
    const struct tern_chat_message none[] = {USER(""), ASSISTANT("<think> x")};
    rules_write(c, none, 2, 0, "[|<think> x]");
    const struct tern_chat_message twice[] = {USER(""), ASSISTANT("a<think>b<think>c</think>d")};
    rules_write(c, twice, 2, 0, "[c|d]");
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* Text before and after trimming by code 0 to 8. */
START_TEST(trims)
{
    static const char text[] = "\n \tx\xE2\x80\xA8\n";
    static const char *const want[] = {"\n \tx\xE2\x80\xA8\n",
                                       " \tx\xE2\x80\xA8\n",
                                       "x\xE2\x80\xA8\n",
                                       "\n \tx\xE2\x80\xA8",
                                       " \tx\xE2\x80\xA8",
                                       "x\xE2\x80\xA8",
                                       "\n \tx",
                                       " \tx",
                                       "x"};
    char rule[] = "\6\2\0070";
    struct rule rules[] = {{3, 0, rule}, {3, 1, ""}, {3, 2, ""}};
    const struct tern_chat_message m = USER(text);
    struct keywriter k;
    rule[3] = (char)('0' + _i);
    struct chat *c = rules_open(rules, 3, 0, &k);
    rules_write(c, &m, 1, 0, want[_i]);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* What Python's str.strip takes, and what looks like it. */
START_TEST(trims_all_whitespace)
{
    static const uint32_t space[] = {
        0x9,    0xA,    0xB,    0xC,    0xD,    0x1C,   0x1D,   0x1E,   0x1F,   0x20,
        0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
        0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000,
    };
    static const uint32_t other[] = {0, 0x1B, 0x21, 0x180E, 0x200B, 0x2060, 0xFEFF, 0xE020};
    static const struct rule rules[] = {{3, 0, "\6\2\0078"}, {3, 1, ""}, {3, 2, ""}};
    struct keywriter k;
    struct chat *c = rules_open(rules, 3, 0, &k);
    for (size_t i = 0; i < sizeof space / sizeof *space + sizeof other / sizeof *other; i++) {
        bool goes = i < sizeof space / sizeof *space;
        char text[16];
        struct chat_text out = {0};
        size_t n = unicode_encode(goes ? space[i] : other[i - sizeof space / sizeof *space], text);
        text[n] = 'x';
        memcpy(text + n + 1, text, n);
        const struct tern_chat_message m = {.role = "user", .text = text, .bytes = 2 * n + 1};
        ck_assert_int_eq(chat_render(c, &m, 1, 0, &out, NULL), TERN_OK);
        ck_assert_uint_eq(out.text.n, goes ? 1 : 2 * n + 1);
        chat_text_close(&out);
    }
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

START_TEST(trims_together)
{
    static const struct rule rules[] = {{3, 0, "[\6a \6\2\0072\5\0076]"}, {3, 1, ""}, {3, 2, ""}};
    const struct tern_chat_message talk[] = {SYSTEM(" \n"), USER(" "), SYSTEM(" s "), USER(" u ")};
    struct keywriter k;
    struct chat *c = rules_open(rules, 3, 0, &k);
    rules_write(c, talk, 2, 0, "[a]");
    rules_write(c, talk + 2, 2, 0, "[a u  s]");
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

START_TEST(knows_thinking)
{
    static const struct rule rules[] = {{3, 0, ""}, {3, 1, ""}, {0x1003, 0x1002, "T"}, {3, 2, "N"}};
    const struct tern_chat_message m = USER("x");
    struct keywriter k;
    struct chat *c = rules_open(rules, 4, (uint64_t)_i, &k);
    ck_assert_int_eq(chat_info(c)->thinking, _i);
    rules_write(c, &m, 1, 0, _i == 1 ? "T" : "N");
    rules_write(c, &m, 1, TERN_CHAT_THINK, "T");
    rules_write(c, &m, 1, TERN_CHAT_NO_THINK, "N");
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

START_TEST(refuses_what_has_no_form)
{
    static const struct rule rules[] = {{3, 0, "\2"}, {0x103, 1, "\2"}, {0x103, 2, ""}};
    static const struct {
        struct tern_chat_message m[3];
        size_t n;
        const char *word;
    } talks[] = {
        {{USER("")}, 0, "no message"},
        {{SYSTEM("x")}, 1, "no message"},
        {{ASSISTANT("x")}, 1, "message 0"},
        {{USER("x"), USER("x")}, 2, "message 1"},
        {{USER("x"), ASSISTANT("x"), SYSTEM("x")}, 3, "by 'system'"},
        {{SYSTEM("x"), USER("x")},
         2,
         "'test' has no form for a conversation that begins with a system"},
        {{{.text = "x", .bytes = 1}}, 1, "message 0 of the conversation has no role"},
        {{USER("x"), {.role = "assistant", .bytes = 1}},
         2,
         "message 1 of the conversation has no t"},
    };
    struct keywriter k;
    struct chat_text out = {0};
    struct tern_error e = {0};
    struct chat *c = rules_open(rules, 3, 0, &k);
    ck_assert(!chat_info(c)->takes_system);
    ck_assert_int_eq(chat_render(c, talks[_i].m, talks[_i].n, 0, &out, &e), TERN_USAGE);
    ck_assert_msg(strstr(e.text, talks[_i].word) != NULL, "%s", e.text);
    chat_text_close(&out);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* ---- ids ---------------------------------------------------------------------------------- */

START_TEST(encodes_joined_runs)
{
    static const struct rule rules[] = {{3, 0, START "hel\2wor" STOP}, {3, 1, "\2"}, {3, 2, ""}};
    const struct tern_chat_message talk[] = {USER("lo<|im_end|> "), ASSISTANT("x")};
    struct keywriter k;
    struct chat *c = rules_open(rules, 3, 0, &k);
    int32_t ids[64], want[64], part[64];
    uint32_t flags;
    size_t n = rules_ids(c, talk, 2, 0, ids, 64), n_part, n_want = 0;
    want[n_want++] = tokenizer_find(rules_vocabulary.t, "<|im_start|>", 12, &flags);
    tokenizer_encode(rules_vocabulary.t, "hello<|im_end|> wor", 19, 0, want + 1, 63, &n_part, NULL);
    n_want += n_part;
    want[n_want++] = tokenizer_find(rules_vocabulary.t, "<|im_end|>", 10, &flags);
    tokenizer_encode(rules_vocabulary.t, "\nx", 2, 0, want + n_want, 20, &n_part, NULL);
    n_want += n_part;
    ck_assert_uint_eq(n, n_want);
    ck_assert_mem_eq(ids, want, n * sizeof *ids);
    for (size_t max = 0; max <= n; max++) { /* no more is written than there is room for */
        memset(part, 0x55, sizeof part);
        ck_assert_uint_eq(rules_ids(c, talk, 2, 0, part, max), n);
        ck_assert(memcmp(part, ids, max * sizeof *ids) == 0 && part[max] == 0x55555555);
    }
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* What the last of two conversations shares with the first and the answer that followed it. */
static void continues(const struct chat *c, const char *answer, const int32_t *sampled, size_t n,
                      bool kept)
{
    const struct tern_chat_message talk[] = {USER("Hi"),
                                             {.role = "assistant",
                                              .text = answer,
                                              .bytes = strlen(answer),
                                              .tokens = sampled,
                                              .n_tokens = n},
                                             USER("So?")};
    int32_t asked[64], next[128], text[128];
    uint32_t flags;
    int32_t stop = tokenizer_find(rules_vocabulary.t, "<|im_end|>", 10, &flags);
    size_t n_asked = rules_ids(c, talk, 1, TERN_CHAT_GENERATE, asked, 64);
    size_t n_next = rules_ids(c, talk, 3, TERN_CHAT_GENERATE, next, 128);
    const struct tern_chat_message as_text[] = {
        talk[0], {.role = "assistant", .text = answer, .bytes = strlen(answer)}, talk[2]};
    size_t n_text = rules_ids(c, as_text, 3, TERN_CHAT_GENERATE, text, 128);
    if (!kept) {
        ck_assert(n_text == n_next && memcmp(next, text, n_next * sizeof *next) == 0);
        return;
    }
    size_t whole = tokenizer_is_special(rules_vocabulary.t, sampled[n - 1]) ? n - 1 : n;
    ck_assert_mem_eq(next, asked, n_asked * sizeof *next);
    ck_assert_mem_eq(next + n_asked, sampled, whole * sizeof *next);
    ck_assert_int_eq(next[n_asked + whole], stop);
    for (size_t max = n_asked; max < n_next; max++) {
        int32_t part[128];
        memset(part, 0x55, sizeof part);
        ck_assert_uint_eq(rules_ids(c, talk, 3, TERN_CHAT_GENERATE, part, max), n_next);
        ck_assert(memcmp(part, next, max * sizeof *next) == 0 && part[max] == 0x55555555);
    }
    ck_assert(n_next != n_text || memcmp(next, text, n_next * sizeof *next) != 0);
}

START_TEST(keeps_sampled_ids)
{
    static const struct rule spaced[] = {{3, 0, START "U:\2" STOP},
                                         {3, 1, START "A: \2 " STOP},
                                         {0x803, 0x802, START "A:"},
                                         {3, 2, ""}};
    struct keywriter k, k2;
    uint32_t flags;
    int32_t stop = tokenizer_find(rules_vocabulary.t, "<|im_end|>", 10, &flags);
    int32_t other = tokenizer_find(rules_vocabulary.t, "<|endoftext|>", 13, &flags), one[2],
            ended[4], replaced[4];
    size_t n;
    tokenizer_encode(rules_vocabulary.t, "t", 1, 0, &ended[0], 1, &n,
                     NULL); /* as no encoder has it */
    tokenizer_encode(rules_vocabulary.t, "h", 1, 0, &ended[1], 1, &n, NULL);
    tokenizer_encode(rules_vocabulary.t, "e", 1, 0, &ended[2], 1, &n, NULL);
    tokenizer_encode(rules_vocabulary.t, "the", 3, 0, one, 2, &n, NULL);
    ck_assert_uint_eq(n, 1);
    memcpy(replaced, ended, sizeof ended);
    ended[3] = stop, replaced[3] = other;
    struct chat *c = rules_open(rules_plain, 6, 0, &k), *s = rules_open(spaced, 4, 0, &k2);
    ck_assert(stop >= 0 && other >= 0);
    continues(c, "the", ended, 4, true);
    continues(c, "the", ended, 0, false);
    continues(c, "the", ended, 3, true);    /* cut by a limit */
    continues(c, "the", replaced, 4, true); /* ended by another token */
    continues(c, "t</think>he", ended, 4, false);
    continues(s, "the", ended, 4, true); /* spaces that only the template writes */
    chat_close(c);
    chat_close(s);
    keywriter_close(&k);
    keywriter_close(&k2);
}
END_TEST

/* An answer that the template begins in another way than it asks for is encoded afresh. */
START_TEST(drops_sampled_ids)
{
    static const struct rule rules[] = {{3, 0, START "U:\2" STOP},
                                        {3, 1, START "A:\2" STOP},
                                        {0x803, 0x802, START "A:<think>\n\n</think>\n\n"},
                                        {3, 2, ""}};
    struct keywriter k;
    int32_t one[1];
    size_t n;
    tokenizer_encode(rules_vocabulary.t, "e", 1, 0, one, 1, &n, NULL);
    const int32_t ids[] = {one[0], one[0]};
    struct chat *c = rules_open(rules, 4, 0, &k);
    continues(c, "ee", ids, 2, false);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* A rule may write a part of the answer before all of it. */
START_TEST(drops_sampled_ids_behind_a_part_of_their_text)
{
    static const char *const begins[] = {START "A:\3\2" STOP, START "A:\4\2" STOP};
    int32_t ids[3]; /* as no encoder has it */
    size_t n;
    for (size_t i = 0; i < 3; i++)
        tokenizer_encode(rules_vocabulary.t, &"the"[i], 1, 0, &ids[i], 1, &n, NULL);
    for (size_t i = 0; i < 2; i++) {
        const struct rule rules[] = {
            {3, 0, START "U:\2" STOP}, {3, 1, begins[i]}, {0x803, 0x802, START "A:"}, {3, 2, ""}};
        struct keywriter k;
        struct chat *c = rules_open(rules, 4, 0, &k);
        continues(c, "the", ids, 3, i == 1); /* nothing was thought: it begins as asked */
        chat_close(c);
        keywriter_close(&k);
    }
}
END_TEST

/* Opens, renders and encodes with a system text and a sampled answer. */
static enum tern_status use_all(const struct keywriter *k, const int32_t *ids)
{
    const struct tern_chat_message talk[] = {
        SYSTEM("Be."),
        USER("Hi"),
        {.role = "assistant", .text = "the", .bytes = 3, .tokens = ids, .n_tokens = 3},
        USER("So?")};
    struct chat_text out = {0};
    struct chat *c;
    int32_t tokens[128];
    size_t n;
    enum tern_status s = chat_open(&c, rules_vocabulary.t, k->data, k->bytes, NULL);
    if (!s)
        s = chat_render(c, talk, 4, TERN_CHAT_GENERATE, &out, NULL);
    if (!s)
        s = chat_encode(c, &out, tokens, 128, &n, NULL);
    chat_text_close(&out);
    chat_close(c);
    return s;
}

START_TEST(every_allocation_fails_in_turn)
{
    static const struct rule rules[] = {{0x107, 0x104, "\5\nU:\6\2\0078\1\1" STOP},
                                        {3, 0, START "U:\2" STOP},
                                        {3, 1, START "A:\2" STOP},
                                        {0x803, 0x802, START "A:"},
                                        {3, 2, ""}};
    struct keywriter k = rules_section(rules, 5, 0);
    int32_t ids[3];
    size_t n;
    for (size_t i = 0; i < 3; i++)
        tokenizer_encode(rules_vocabulary.t, &"the"[i], 1, 0, &ids[i], 1, &n, NULL);
    ck_assert_int_eq(use_all(&k, ids), TERN_OK);
    for (int rest = 0; rest < 2; rest++) {
        enum tern_status s = TERN_NO_MEMORY;
        for (size_t at = 1; s; at++) {
            allocs_start(at, rest);
            s = use_all(&k, ids);
            size_t live = allocs_live(), count = allocs_count();
            allocs_stop();
            ck_assert_uint_eq(live, 0);
            ck_assert(s || count < at); /* none was refused */
            ck_assert(s == TERN_OK || s == TERN_NO_MEMORY);
            ck_assert_uint_lt(at, 1000);
        }
    }
    keywriter_close(&k);
}
END_TEST

/* The template alone says where the token stands that begins a text. */
START_TEST(adds_no_token_of_its_own)
{
    static const struct rule rules[] = {{3, 0, "U:\2"}, {3, 1, "A:\2"}, {3, 2, ""}};
    const struct tern_chat_message talk[] = {USER("a")};
    struct keywriter k = rules_section(rules, 3, 0);
    struct vocabulary w;
    struct chat *c;
    int32_t ids[16], want[16];
    size_t n_want;
    vocabulary_open(&w, "llama3");
    ck_assert_int_eq(chat_open(&c, w.t, k.data, k.bytes, NULL), TERN_OK);
    size_t n = rules_ids(c, talk, 1, 0, ids, 16);
    ck_assert_int_eq(tokenizer_encode(w.t, "U:a", 3, 0, want, 16, &n_want, NULL), TERN_OK);
    ck_assert(n == n_want && !memcmp(ids, want, n * sizeof *ids));
    chat_close(c);
    vocabulary_close(&w);
    keywriter_close(&k);
}
END_TEST

SUITE("chat", AROUND_ALL(rules_setup, rules_teardown), TEST(renders_rules),
      TEST(takes_a_text_that_is_null_as_empty), LOOP(knows_conditions, 0, 12), TEST(drops_thoughts),
      LOOP(trims, 0, 9), TEST(trims_all_whitespace), TEST(trims_together),
      LOOP(knows_thinking, 0, 3), LOOP(refuses_what_has_no_form, 0, 8), TEST(encodes_joined_runs),
      TEST(keeps_sampled_ids), TEST(drops_sampled_ids),
      TEST(drops_sampled_ids_behind_a_part_of_their_text), TEST(every_allocation_fails_in_turn),
      TEST(adds_no_token_of_its_own))
