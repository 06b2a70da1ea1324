/* What the reader says of files of other programs: which formats it knows, and the words of the
 * command that converts them. tests/cli/test_cli.py gives the words to a shell. */
#include "base/bytes.h"
#include "suite.h"
#include "weights/foreign.h"

#include <stdio.h>

static struct tern_error e;

/* As the first n bytes of a file of 1000. */
static const char *said(const char *path, const void *bytes, size_t n)
{
    ck_assert_int_eq(foreign_refuse(path, bytes, n, 1000, &e), TERN_BAD_FILE);
    return e.text;
}

static const char *folder(const char *path)
{
    ck_assert_int_eq(foreign_folder(path, &e), TERN_BAD_FILE);
    ck_assert(strstr(e.text, "it is a folder, not a tern weights file; convert it first with "));
    return e.text;
}

static void ends(const char *text, const char *words)
{
    size_t n = strlen(text), m = strlen(words);
    ck_assert_msg(n > m && !strcmp(text + n - m, words), "'%s' does not end in '%s'", text, words);
}

/* ---- formats ---- */

static const char *const unknown = "it is not a tern weights file: its first bytes are not TERN";

START_TEST(formats_are_known_by_their_first_bytes)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *what;
    } files[] = {
        {"GGUF", 4, "it is a GGUF file,"},
        {"GGU", 3, NULL},
        {"GGUE", 4, NULL},
        {"24ka", 4, "it is a llama2.c checkpoint,"},
        {"PK\3\4", 4, "it is a zip archive (a PyTorch checkpoint?),"},
        {"PK\3\5", 4, NULL},
        {"version https://git-lfs", 23, "it is a Git LFS pointer,"},
        {"version https://git-lf", 22, NULL},
        {"\xe7\3\0\0\0\0\0\0{", 9, "it is a safetensors file,"}, /* a header of 999 bytes */
        {"\xe7\3\0\0\0\0\0\0{", 8, NULL},
        {"\xe7\3\0\0\0\0\0\0[", 9, NULL},
        {"\xe8\3\0\0\0\0\0\0{", 9, NULL}, /* of 1000: not in a file of 1000 */
        {"\xe7\3\0\0\0\0\0\1{", 9, NULL},
        {"x", 1, NULL},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *text = said("x", files[i].bytes, files[i].n);
        if (files[i].what)
            ck_assert_msg(strstr(text, files[i].what) == text, "%zu: %s", i, text);
        else
            ck_assert_str_eq(text, unknown);
    }
}
END_TEST

static bool is_llama2c(const uint32_t *numbers, size_t bytes)
{
    return strstr(said("x", numbers, bytes), "llama2.c");
}

/* dim, hidden, layers, heads, KV heads, vocabulary (negative: a head of its own), positions: each
 * from 1 to 2^24; the heads divide dim. */
START_TEST(llama2c_is_seven_small_numbers)
{
    const uint32_t good[7] = {64, 172, 5, 8, 4, 512, 512}, most = 1 << 24;
    ck_assert(is_llama2c(good, sizeof good) && !is_llama2c(good, sizeof good - 1));
    for (size_t i = 0; i < 7; i++) {
        const struct {
            uint32_t value;
            bool fits;
        } others[] = {{0, false},      {most, true},           {most + 1, false},
                      {8, true},       {0 - most, i == 5},     {0 - most - 1, false},
                      {0 - 8, i == 5}, {UINT32_MAX / 2, false}};
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            uint32_t n[7];
            memcpy(n, good, sizeof n);
            n[i] = others[k].value;
            bool divides = n[3] && n[0] % n[3] == 0;
            ck_assert_msg(is_llama2c(n, sizeof n) == (others[k].fits && divides), "%zu: %u", i,
                          n[i]);
        }
    }
    const uint32_t odd[7] = {65, 172, 5, 8, 4, 512, 512};
    ck_assert(!is_llama2c(odd, sizeof odd));
}
END_TEST

/* ---- the command ---- */

START_TEST(the_command_names_source_and_target)
{
    static const struct {
        const char *path, *words;
    } files[] = {
        {"x.gguf", "x.gguf x.bin"},
        {"x", "x x.bin"},
        {"x.", "x. x.bin"},
        {".x", ".x model.bin"}, /* as short as .. */
        {".xy", ".xy .xy.bin"},
        {"...", "... ...bin"},
        {"a.b.c", "a.b.c a.b.bin"},
        {"some.folder/x", "some.folder/x x.bin"},
        {"/abs/ab.c", "/abs/ab.c ab.bin"},
        {"-m.gguf", "./-m.gguf ./-m.bin"},
        {"a-b+c_D/Z09.q", "a-b+c_D/Z09.q Z09.bin"},
        {"a b.c", "'a b.c' 'a b.bin'"},
        {"it's", "'it'\\''s' 'it'\\''s.bin'"},
        {"'", "''\\''' ''\\''.bin'"},
        {"- x", "'./- x' './- x.bin'"},
        {"\xc3\xa9", "'\xc3\xa9' '\xc3\xa9.bin'"},
        {" ", "' ' ' .bin'"},
        {"x\x1fy", "FILE OUT.bin"}, /* nobody can read these */
        {"x/\n.y", "FILE OUT.bin"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char words[100];
        snprintf(words, sizeof words, " tools/convert.py %s", files[i].words);
        ends(said(files[i].path, "GGUF", 4), words);
    }
    ends(said("x.bin", "24ka", 4), "convert.py x.bin x-tern.bin"); /* not over the source */
}
END_TEST

START_TEST(folders_are_converted_whole)
{
    static const char tensors[] = "\1\0\0\0\0\0\0\0{";
    ends(said("a/b/model.safetensors", tensors, 9), "convert.py a/b/ model.bin");
    ends(said("model.safetensors", tensors, 9), "convert.py . model.bin");
    ends(folder("a/b"), "convert.py a/b b.bin");
    ends(folder("a/b//"), "convert.py a/b b.bin");
    ends(folder("b.c"), "convert.py b.c b.c.bin"); /* a version, not an ending */
    ends(folder("/"), "convert.py / model.bin");
    ends(folder("//"), "convert.py / model.bin");
    ends(folder("."), "convert.py . model.bin");
    ends(folder("x/.."), "convert.py x/.. model.bin");
}
END_TEST

/* A sentence has room for 120 bytes of a name, and for 140 of a word in quotes. */
START_TEST(long_names_are_left_out)
{
    char path[200], words[500];
    memset(path, 'x', sizeof path);
    path[120] = 0;
    snprintf(words, sizeof words, "convert.py %s %s.bin", path, path);
    ends(said(path, "GGUF", 4), words);
    path[120] = 'x', path[121] = 0;
    ends(said(path, "GGUF", 4), "convert.py FILE OUT.bin");
    path[120] = '/', path[121] = 'y', path[122] = 0; /* the target would fit */
    ends(said(path, "GGUF", 4), "convert.py FILE OUT.bin");
    memset(path, '\'', 34); /* 4 bytes each */
    strcpy(path + 34, "abcd");
    ck_assert(strstr(said(path, "24ka", 4), "abcd' ") && strstr(e.text, "abcd-tern.bin'"));
    strcpy(path + 34, "abcde");
    ends(said(path, "24ka", 4), "convert.py FILE OUT.bin");
}
END_TEST

START_TEST(a_name_of_hugging_face_is_no_path)
{
    static const char *const names[] = {"qwen/Qwen3-0.6B", "a/b", "a/x.y", "x.bin/y", "a/.bin.x"};
    static const char *const paths[] = {"model", "/model",  "a/",      "a/b/c", "./a",
                                        "../a",  "~/model", "a/b.bin", "a//b",  "a/.bin",
                                        "a/b/",  "",        "x.bin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ck_assert_msg(foreign_missing(names[i], &e) == TERN_IO, "%s", names[i]);
        ck_assert(strstr(e.text, names[i]) == e.text && strstr(e.text, "no such file"));
    }
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        ck_assert_msg(foreign_missing(paths[i], &e) == TERN_OK, "%s", paths[i]);
}
END_TEST

SUITE("foreign", TEST(formats_are_known_by_their_first_bytes), TEST(llama2c_is_seven_small_numbers),
      TEST(the_command_names_source_and_target), TEST(folders_are_converted_whole),
      TEST(long_names_are_left_out), TEST(a_name_of_hugging_face_is_no_path))
