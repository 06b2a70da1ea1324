/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* The messages of a chat, and the files that they are saved to and loaded from. */
#include "allocs.h"
#include "app/run/conversation.h"
#include "suite.h"
#include "toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct conversation c;
static struct tern_error e;
static char file[256];

static void begin(void)
{
    toy_path(file, sizeof file, "talk.jsonl");
    ck_assert_int_eq(conversation_open(&c, &e), TERN_OK);
}

static void end(void)
{
    conversation_close(&c);
    unlink(file);
}

/* n messages "0", "1", ... in turns; each with a block of tokens, as chosen ones have. */
static void talk(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[8];
        int bytes = snprintf(text, sizeof text, "%zu", i);
        const char *role = i % 2 ? "assistant" : "user";
        ck_assert_int_eq(conversation_add(&c, role, text, (size_t)bytes, &e), TERN_OK);
        struct tern_chat_message *m = &c.list[c.n - 1];
        m->tokens = malloc(sizeof *m->tokens), m->n_tokens = 1;
    }
}

static bool is_text(size_t i, const char *text)
{
    return c.list[i].bytes == strlen(text) && !memcmp(c.list[i].text, text, c.list[i].bytes);
}

START_TEST(messages)
{
    ck_assert(c.n == 1 && !c.list->text && !strcmp(c.list->role, "system"));
    talk(40); /* more than there is room for at first */
    ck_assert_uint_eq(c.n, 41);
    for (size_t i = 0; i < 40; i++) {
        char text[8];
        snprintf(text, sizeof text, "%zu", i);
        ck_assert(is_text(i + 1, text) && c.list[i + 1].tokens);
        ck_assert_str_eq(c.list[i + 1].role, i % 2 ? "assistant" : "user");
    }
    ck_assert_int_eq(conversation_add(&c, "system", "old", 3, &e), TERN_OK);
    ck_assert_int_eq(conversation_add(&c, "system", "new one", 7, &e), TERN_OK);
    ck_assert(c.n == 41 && is_text(0, "new one") && is_text(1, "0") && is_text(40, "39"));
    conversation_drop(&c);
    ck_assert(c.n == 39 && is_text(0, "new one") && is_text(1, "2") && is_text(38, "39"));
    conversation_cut(&c, 2);
    ck_assert(c.n == 2 && is_text(0, "new one") && is_text(1, "2"));
    conversation_cut(&c, 5);
    ck_assert_uint_eq(c.n, 2);
}
END_TEST

/* Opens, fills and closes a conversation; false: its length is wrong. */
static bool grows(enum tern_status *s)
{
    if ((*s = conversation_open(&c, &e)))
        return true;
    bool good = true;
    for (size_t i = 0; !*s && i < 24; i++) {
        *s = conversation_add(&c, i % 2 ? "assistant" : "user", "x", 1, &e);
        good &= c.n == i + 1 + !*s;
        if (!*s)
            c.list[c.n - 1].tokens = malloc(4);
    }
    for (int i = 0; !*s && i < 2; i++)
        *s = conversation_add(&c, "system", "s", 1, &e);
    if (!*s)
        conversation_drop(&c), conversation_cut(&c, 3);
    conversation_close(&c);
    return good;
}

/* Whatever is done, all memory comes back; where it runs out, what was there stays. */
START_TEST(memory)
{
    conversation_close(&c);
    for (size_t at = 1;; at++) {
        enum tern_status s;
        allocs_start(at, 0);
        bool good = grows(&s);
        size_t live = allocs_live(), count = allocs_count();
        allocs_stop();
        ck_assert(good);
        ck_assert_uint_eq(live, 0);
        if (count < at)
            break;
        ck_assert(!s || (s == TERN_NO_MEMORY && e.code == s && strstr(e.text, "memory")));
    }
    ck_assert_int_eq(conversation_open(&c, &e), TERN_OK);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

static void write_file(const char *text, size_t n)
{
    FILE *f = fopen(file, "wb");
    ck_assert(f && fwrite(text, 1, n, f) == n && !fclose(f));
}

static const char *read_file(void)
{
    static char text[4096];
    FILE *f = fopen(file, "rb");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

START_TEST(saved_files)
{
    ck_assert_int_eq(conversation_save(&c, file, &e), TERN_OK);
    ck_assert_str_eq(read_file(), "");
    talk(2);
    ck_assert_int_eq(conversation_save(&c, file, &e), TERN_OK);
    ck_assert_str_eq(read_file(), "{\"role\": \"user\", \"content\": \"0\"}\n"
                                  "{\"role\": \"assistant\", \"content\": \"1\"}\n");
    ck_assert_int_eq(conversation_add(&c, "system", "\"\n", 2, &e), TERN_OK);
    ck_assert_int_eq(conversation_save(&c, file, &e), TERN_OK);
    ck_assert_int_eq(
        strncmp(read_file(), "{\"role\": \"system\", \"content\": \"\\u0022\\u000a\"}\n{", 47), 0);
    for (size_t at = 1; at < 4; at++) {
        allocs_start(at, 1);
        enum tern_status s = conversation_save(&c, file, &e);
        size_t live = allocs_live();
        allocs_stop();
        ck_assert_uint_eq(live, 0);
        ck_assert(s == TERN_OK || (s == e.code && (s == TERN_NO_MEMORY || s == TERN_IO)));
    }
    ck_assert_int_eq(conversation_save(&c, "/nowhere/x", &e), TERN_IO);
    ck_assert(e.code == TERN_IO && strstr(e.text, "/nowhere/x: cannot write: "));
    ck_assert_int_eq(conversation_save(&c, "/", &e), TERN_USAGE);
    ck_assert(e.code == TERN_USAGE && strstr(e.text, "regular"));
}
END_TEST

static unsigned mode_of_file(void)
{
    struct stat there;
    ck_assert(!stat(file, &there));
    return there.st_mode & 07777u;
}

/* A new file is its owner's alone; another keeps its mode. */
START_TEST(modes_of_files)
{
    umask(0);
    ck_assert_int_eq(conversation_save(&c, file, &e), TERN_OK);
    ck_assert_uint_eq(mode_of_file(), 0600);
    ck_assert(!chmod(file, 0777));
    ck_assert_int_eq(conversation_save(&c, file, &e), TERN_OK);
    ck_assert_uint_eq(mode_of_file(), 0777);
    ck_assert(!chmod(file, 04604));
    ck_assert_int_eq(conversation_save(&c, file, &e), TERN_OK);
    ck_assert_uint_eq(mode_of_file(), 0604);
}
END_TEST

#define USER "{\"role\": \"user\", \"content\": \""
#define ANSWER "{\"role\": \"assistant\", \"content\": \"y\"}"

/* The text of the first question, written so in a file. */
static const struct {
    const char *written, *text;
} contents[] = {
    {"", ""},
    {"plain", "plain"},
    {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
    {"\\u0041\\u007f\\u0080\\u07ff\\u0800\\uffff", "A\x7f\302\200\u07ff\u0800\uffff"},
    {"\\uabCD\\uEf09", "\uabcd\uef09"},
    {"\\ud7ff\\ue000", "\ud7ff\ue000"},
    {"\\ud800\\udc00 \\uD83D\\uDE42 \\udbff\\udfff", u8"\U00010000 \U0001F642 \U0010FFFF"},
    {"\\ud800", "\ufffd"},
    {"\\udfff\\ud800", "\ufffd\ufffd"},
    {"\\ud800\\ud800\\udc00", u8"\ufffd\U00010000"},
    {"\\ud83dx", "\ufffdx"},
    {"\\ud83d\\n", "\ufffd\n"},
    {"\\ud83d\\u0041", "\ufffdA"},
    {"\\ud83d\\ue000", "\ufffd\ue000"},
};

START_TEST(texts_in_files)
{
    char text[300];
    int n = snprintf(text, sizeof text, USER "%s\"}\n" ANSWER, contents[_i].written);
    write_file(text, (size_t)n);
    ck_assert_msg(conversation_load(&c, file, &e) == TERN_OK, "%s", e.text);
    ck_assert(c.n == 3 && !c.list->text && is_text(2, "y"));
    ck_assert_msg(is_text(1, contents[_i].text), "%s became %s", contents[_i].written,
                  c.list[1].text);
}
END_TEST

#define LOADS(lines)                                                   \
    do {                                                               \
        write_file(lines, sizeof lines - 1);                           \
        ck_assert_msg(!conversation_load(&c, file, &e), "%s", e.text); \
    } while (0)

/* Blank lines, spaces, other keys and any order are read; a system text comes first. */
START_TEST(good_files)
{
    LOADS(" \n\r\n" USER "x\"}\n\n \t\r\n" ANSWER "\r\n\n");
    ck_assert(c.n == 3 && is_text(1, "x"));
    LOADS("\t{ \"name\" : \"z\" ,\t\"content\"\r:\"q\", "
          "\"role\":\"user\",\"rol\":\"\",\"roles\":\"\","
          "\"contents\":\"\" } \n" ANSWER);
    ck_assert(c.n == 3 && is_text(1, "q"));
    LOADS("{\"role\":\"system\",\"content\":\"s\"}\n" USER "x\"}\n" ANSWER "\n" USER
          "z\"}\n" ANSWER);
    ck_assert(c.n == 5 && is_text(0, "s") && is_text(3, "z"));
    LOADS("{\"role\":\"user\",\"content\":\"a\",\"content\":\"b\"}\n" ANSWER);
    ck_assert(c.n == 3 && is_text(1, "b") && !c.list->text);
    LOADS(USER "a\\u0000\"}\n" ANSWER);
    ck_assert(c.n == 3 && c.list[1].text[0] == 'a' && is_text(2, "y"));
}
END_TEST

#define LINE " is not the next message"
static const struct {
    const char *text, *words;
} bad[] = {
    {"x", "line 1" LINE},
    {"{", "line 1" LINE},
    {"{}", "line 1" LINE},
    {"{\"role\"", "line 1" LINE},
    {"{\"role\":", "line 1" LINE},
    {"{\"role\":\"user\"}", "line 1" LINE},
    {"{\"content\":\"user\"}", "line 1" LINE},
    {"{\"role\":'user\",\"content\":\"x\"}", "line 1" LINE},
    {"{.role\":\"user\",\"content\":\"x\"}", "line 1" LINE},
    {"{\"role\",\"user\",\"content\":\"x\"}", "line 1" LINE},
    {"{\"role\":\"user\":\"content\":\"x\"}", "line 1" LINE},
    {"{\"role\":\"user\",\"content\":\"x\",}", "line 1" LINE},
    {"{\"role\":\"user\",\"content\":\"x\"", "line 1" LINE},
    {"{\"role\":\"user\",\"content\":\"x", "line 1" LINE},
    {"{\"role\":\"user\",\"content\":\"x\"} .", "line 1" LINE},
    {"\n{\"role\":\"user\",\"content\":5}", "line 2" LINE},
    {"{\"role\":\"users\",\"content\":\"x\"}", "line 1" LINE},
    {"{\"role\":\"use\",\"content\":\"x\"}", "line 1" LINE},
    {"{\"role\":\"uses\",\"content\":\"x\"}", "line 1" LINE},
    {"{\"role\":\"\",\"content\":\"x\"}", "line 1" LINE},
    {"{\"rolf\":\"user\",\"content\":\"x\"}", "line 1" LINE},
    {"{\"role\":\"user\",\"contend\":\"x\"}", "line 1" LINE},
    {USER "\\x\"}", "line 1" LINE},
    {USER "\\", "line 1" LINE},
    {USER "\\u004\"}", "line 1" LINE},
    {USER "\\u00g1\"}", "line 1" LINE},
    {USER "\\u004`\"}", "line 1" LINE},
    {USER "\\u004\x10\"}", "line 1" LINE},
    {USER "\\u00", "line 1" LINE},
    {USER "\\ud83d\\u00", "line 1" LINE},
    {USER "\\ud83d\\u", "line 1" LINE},
    {USER "\\ud83d\\", "line 1" LINE},
    {ANSWER, "line 1" LINE},
    {USER "x\"}\n" USER "x\"}", "line 2" LINE},
    {USER "x\"}\n{\"role\":\"system\",\"content\":\"s\"}", "line 2" LINE},
    {"{\"role\":\"system\",\"content\":\"\"}\n{\"role\":\"system\",\"content\":\"s\"}",
     "line 2" LINE},
    {USER "x\"}\n" ANSWER "\n" ANSWER, "line 3" LINE},
    {"", ": it holds no answered message"},
    {"\n", ": it holds no answered message"},
    {USER "x\"}", ": it holds no answered message"},
    {"{\"role\":\"system\",\"content\":\"s\"}", ": it holds no answered message"},
    {"{\"role\":\"system\",\"content\":\"s\"}\n" USER "x\"}", ": it holds no answered message"},
    {USER "x\"}\n" ANSWER "\n" USER "x\"}", ": its last message has no answer"},
};

/* They are refused, and the conversation stays as it was. */
START_TEST(bad_files)
{
    talk(2);
    write_file(bad[_i].text, strlen(bad[_i].text));
    ck_assert_int_eq(conversation_load(&c, file, &e), TERN_BAD_FILE);
    ck_assert_int_eq(e.code, TERN_BAD_FILE);
    ck_assert_msg(strstr(e.text, bad[_i].words) && strstr(e.text, "talk.jsonl"), "%s", e.text);
    ck_assert(c.n == 3 && is_text(1, "0") && is_text(2, "1"));
}
END_TEST

/* A byte of 0 is no mark, no digit and no escape. */
START_TEST(files_with_zeros)
{
    static const char *const texts[] = {"{\"role\"#\"user\",\"content\":\"x\"}\n" ANSWER,
                                        "{\"role\":\"user\",\"content\":\"x\"#\n" ANSWER,
                                        USER "\\#\"}\n" ANSWER, USER "\\u004#\"}\n" ANSWER};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[200];
        size_t n = strlen(texts[i]);
        memcpy(text, texts[i], n);
        *(char *)memchr(text, '#', n) = 0;
        write_file(text, n);
        ck_assert_int_eq(conversation_load(&c, file, &e), TERN_BAD_FILE);
    }
    write_file(USER "a\0b\"}\n" ANSWER, sizeof USER "a\0b\"}\n" ANSWER - 1);
    ck_assert_int_eq(conversation_load(&c, file, &e), TERN_OK);
    ck_assert(c.list[1].bytes == 3 && !memcmp(c.list[1].text, "a\0b", 3));
}
END_TEST

START_TEST(what_cannot_be_loaded)
{
    talk(2);
    ck_assert_int_eq(conversation_load(&c, "/nowhere/x", &e), TERN_IO);
    ck_assert_int_eq(conversation_load(&c, "/dev/zero", &e), TERN_USAGE);
    ck_assert(e.code == TERN_USAGE && strstr(e.text, "/dev/zero is not a regular file"));
    static const char text[] = USER "x\"}\n" ANSWER;
    write_file(text, sizeof text - 1);
    size_t refused = 0;
    for (size_t at = 1;; at++, refused++) {
        e = (struct tern_error){0};
        allocs_start(at, 0);
        enum tern_status s = conversation_load(&c, file, &e);
        size_t live = allocs_live(), count = allocs_count();
        allocs_stop();
        if (count < at)
            break;
        ck_assert_int_eq(s, TERN_NO_MEMORY);
        ck_assert_int_eq(e.code, TERN_NO_MEMORY);
        ck_assert_str_ne(e.text, "");
        ck_assert_uint_eq(live, 0);
        ck_assert(c.n == 3 && is_text(1, "0") && is_text(2, "1"));
    }
    ck_assert_uint_gt(refused, 5);
    ck_assert(c.n == 3 && is_text(1, "x"));
}
END_TEST

SUITE("conversation", AROUND_EACH(begin, end), TEST(messages), TEST(memory), TEST(saved_files),
      TEST(modes_of_files), LOOP(texts_in_files, 0, sizeof contents / sizeof *contents),
      TEST(good_files), LOOP(bad_files, 0, sizeof bad / sizeof *bad), TEST(files_with_zeros),
      TEST(what_cannot_be_loaded))
