/* Malformed tokenizer sections: each row changes or adds a key of a small valid section and names a
 * word of the sentence that must refuse it. ADDING A CASE: a row of `cases`. */
#include "base/keywriter.h"
#include "text/tokenizer.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

struct entry {
    const char *name;
    enum key_type type;
    const void *values;
    uint64_t count;
};

#define U32(name, ...)                                  \
    {                                                   \
        name, KEY_U32, (const uint32_t[]){__VA_ARGS__}, \
            sizeof((const uint32_t[]){__VA_ARGS__}) / 4 \
    }
#define F32(name, ...)                                                                        \
    {                                                                                         \
        name, KEY_F32, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / 4 \
    }
#define U64(name, value)                            \
    {                                               \
        name, KEY_U64, (const uint64_t[]){value}, 1 \
    }
#define TEXT(name, text)                      \
    {                                         \
        name, KEY_TEXT, text, sizeof text - 1 \
    }

/* Tokens 0 to 4: a, b, ab, <0x0A> and <s>, the last an added token. */
static const struct entry bpe[] = {
    TEXT("kind", "bpe"),
    TEXT("tokens.bytes", "abab<0x0A><s>"),
    U32("tokens.lengths", 1, 1, 2, 6, 3),
    TEXT("tokens.types", "\1\1\1\6\0"),
    U32("merges", 0, 1, 2),
    U64("byte_fallback", 1),
    U64("bos", 4),
    U32("add.before", 4),
    U32("added.ids", 4),
    TEXT("added.bytes", "<s>"),
    U32("added.lengths", 3),
    U32("added.flags", 1),
    TEXT("normalizer.0", "replace"),
    TEXT("normalizer.0.from", " "),
    TEXT("normalizer.0.to", "a"),
    TEXT("pre.0", "split"),
    TEXT("pre.0.text", "b"),
    TEXT("pre.0.behavior", "isolated"),
    U64("pre.0.invert", 0),
    TEXT("decoder.0", "byte_fallback"),
};
static const struct entry spm[] = {
    TEXT("kind", "spm"),
    TEXT("tokens.bytes", "abab<0x0A><s>"),
    U32("tokens.lengths", 1, 1, 2, 6, 3),
    TEXT("tokens.types", "\1\1\1\6\3"),
    F32("scores", 0, 0, -1, 0, 0),
    TEXT("decoder.0", "byte_fallback"),
};

static const struct {
    bool spm;
    struct entry change;
    const char *word;
} cases[] = {
    {0, TEXT("kind", "unigram"), "unigram"},
    {0, U64("kind", 1), "kind"},
    {0, TEXT("tokens.bytes", "abab<0x0A><s"), "add up"},
    {0, TEXT("tokens.bytes", "abab<0x0A><s>x"), "add up"},
    {0, U32("tokens.lengths", 1, 1, 2, 6), "types"},
    {0, U32("tokens.lengths", 1, 1, 2, 6, 0xFFFFFFFF), "add up"},
    {0, TEXT("tokens.types", "\1\1\1\7\0"), "type"},
    {0, TEXT("tokens.types", "\1\1\6\6\0"), "byte token"},
    {0, TEXT("tokens.bytes", "abaa<0x0A><s>"), "merge 0"},
    {0, TEXT("tokens.bytes", "aaab<0x0A><s>"), "repeats"},
    {0, U32("merges", 0, 1), "merges"},
    {0, U32("merges", 0, 1, 5), "merge 0"},
    {0, U32("merges", 0x80000000, 1, 2), "merge 0"},
    {0, U32("merges", 0, 1, 2, 0, 1, 2), "merge 1"},
    {0, U64("byte_fallback", 2), "byte_fallback"},
    {0, U64("bos", 5), "bos"},
    {0, U64("unk", 0xFFFFFFFFFFFFFFFF), "unk"},
    {0, U32("add.before", 5), "add.before"},
    {0, U32("add.after", 0x80000000), "add.after"},
    {0, U32("added.ids", 5), "added.ids"},
    {0, U32("added.ids", 4, 4), "differ"},
    {0, U32("added.lengths", 4), "past"},
    {0, U32("added.lengths", 0), "empty"},
    {0, TEXT("added.bytes", "<s>x"), "follows"},
    {0, TEXT("added.bytes", "<s\xFF"), "UTF-8"},
    {0, U32("added.flags", 32), "flags"},
    {0, TEXT("normalizer.0", "lowercase"), "lowercase"},
    {0, TEXT("normalizer.0", "split"), "split"},
    {0, TEXT("normalizer.0.from", ""), "normalizer.0.from"},
    {0, TEXT("normalizer.0.what", "x"), "normalizer.0.what"},
    {0, TEXT("normalizer.1", "prepend"), "normalizer.1.text"},
    {0, TEXT("normalizer.2", "nfc"), "normalizer.2"},
    {0, TEXT("pre.0.behavior", "cut"), "cut"},
    {0, U64("pre.0.invert", 2), "pre.0.invert"},
    {0, TEXT("pre.0.pattern", "[a-z]+"), "[a-z]+"},
    {0, TEXT("decoder.0", "wordpiece"), "wordpiece"},
    {0, TEXT("decoder.1", "byte_fallback"), "decoder.1"},
    {0, TEXT("decoder.1", "byte_level"), "decoder.1"},
    {0, TEXT("secret", "x"), "secret"},
    {1, F32("scores", 0, 0, -1, 0), "scores"},
    {1, F32("scores", 0, 0, NAN, 0, 0), "score of token 2"},
    {1, F32("scores", 0, 0, INFINITY, 0, 0), "score of token 2"},
    {1, U32("merges", 0, 1, 2), "merges"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* The section with one key changed or added; values stay where keys_parse will want them. */
static void build(struct keywriter *k, const struct entry *base, size_t n,
                  const struct entry *change)
{
    bool added = change != NULL;
    keywriter_init(k);
    for (size_t i = 0; i < n; i++) {
        bool same = change && strcmp(base[i].name, change->name) == 0;
        const struct entry *from = same ? change : &base[i];
        added &= !same;
        keywriter_add(k, from->name, true, from->type, from->values, from->count);
    }
    if (added)
        keywriter_add(k, change->name, true, change->type, change->values, change->count);
    ck_assert(!k->failed);
}

static enum tern_status open(bool is_spm, const struct entry *change, uint64_t rows,
                             struct tern_error *e)
{
    struct keywriter k;
    struct tokenizer *t;
    build(&k, is_spm ? spm : bpe, is_spm ? sizeof spm / sizeof *spm : sizeof bpe / sizeof *bpe,
          change);
    enum tern_status s = tokenizer_open_bytes(&t, k.data, k.bytes, rows, e);
    ck_assert((s == TERN_OK) == (t != NULL));
    tokenizer_close(t);
    keywriter_close(&k);
    return s;
}

START_TEST(test_refused)
{
    struct tern_error e = {0};
    ck_assert_int_eq(open(cases[_i].spm, &cases[_i].change, 100, &e), TERN_BAD_FILE);
    ck_assert_int_eq(e.code, TERN_BAD_FILE);
    ck_assert_msg(strstr(e.text, cases[_i].word) != NULL, "'%s' does not say '%s'", e.text,
                  cases[_i].word);
}
END_TEST

START_TEST(test_valid)
{
    struct tern_error e = {0};
    ck_assert_msg(open(false, NULL, 100, &e) == TERN_OK, "%s", e.text);
    ck_assert_msg(open(true, NULL, 5, &e) == TERN_OK, "%s", e.text);
    ck_assert_int_eq(open(true, NULL, 4, &e), TERN_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(e.text, "4 rows"));
}
END_TEST

/* Seventeen steps are one too many. */
START_TEST(test_too_many_steps)
{
    struct keywriter k;
    struct tokenizer *t;
    struct tern_error e = {0};
    char name[] = "normalizer.00";
    build(&k, spm, sizeof spm / sizeof *spm, NULL);
    for (int i = 0; i < 17; i++) {
        name[11] = (char)('0' + (i < 10 ? i : i / 10));
        name[12] = (char)(i < 10 ? 0 : '0' + i % 10);
        keywriter_text(&k, name, "nfc");
    }
    ck_assert_int_eq(tokenizer_open_bytes(&t, k.data, k.bytes, 100, &e), TERN_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(e.text, "16 steps"));
    keywriter_close(&k);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokenizer sections");
    TCase *c = tcase_create("all");
    tcase_add_test(c, test_valid);
    tcase_add_loop_test(c, test_refused, 0, N_CASES);
    tcase_add_test(c, test_too_many_steps);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
