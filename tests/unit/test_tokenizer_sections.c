/* Malformed tokenizer sections: each row changes or adds a key of a small valid section and names a
 * word of the sentence that must refuse it. ADDING A CASE: a row of `cases`. */
#include "weights/keywriter.h"
#include "text/tokenizer.h"
#include "suite.h"

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

/* Tokens 0 to 4: a, b, ab, <unk> and U+2581. */
static const uint64_t log_probs[] = {0xBFF0000000000000, 0, 0xC000000000000000, 0, 0, 0};
static const uint64_t not_a_number[] = {0, 0, 0x7FF8000000000000, 0, 0, 0};
static const uint64_t infinite[] = {0x7FF0000000000000, 0, 0, 0, 0, 0};
static const uint64_t too_large[] = {0, 0, 0x47E0000000000000, 0, 0, 0}; /* 2^127 */
static const uint64_t too_small[] = {0, 0, 0xC7E0000000000000, 0, 0, 0};
static const struct entry unigram[] = {
    TEXT("kind", "unigram"),
    TEXT("tokens.bytes", "abab<unk>\xE2\x96\x81"),
    U32("tokens.lengths", 1, 1, 2, 5, 3),
    TEXT("tokens.types", "\1\1\1\2\1"),
    {"log_probs", KEY_U64, log_probs, 6},
    U64("unk", 3),
    TEXT("normalizer.0", "charsmap"),
    U64("normalizer.0.graphemes", 1),
    TEXT("normalizer.0.from.bytes", "abc"),
    U32("normalizer.0.from.lengths", 1, 2),
    TEXT("normalizer.0.to.bytes", "xy"),
    U32("normalizer.0.to.lengths", 0, 2),
};

/* A parameter of every step, and keys that the others lack. */
static const struct entry steps[] = {
    TEXT("kind", "bpe"),
    TEXT("tokens.bytes", "abab<0x0A><s>"),
    U32("tokens.lengths", 1, 1, 2, 6, 3),
    TEXT("tokens.types", "\1\1\1\6\3"),
    U64("byte_level", 0),
    U64("fuse_unk", 0),
    U64("ignore_merges", 0),
    U64("f32_sums", 0),
    U64("unk", 0),
    U64("eos", 4),
    U32("add.after", 4),
    TEXT("normalizer.0", "prepend"),
    TEXT("normalizer.0.text", "b"),
    U64("normalizer.0.scheme", 1),
    TEXT("normalizer.1", "strip"),
    U64("normalizer.1.sides", 3),
    TEXT("normalizer.2", "replace_runs"),
    TEXT("normalizer.2.from", "a"),
    TEXT("normalizer.2.to", "b"),
    TEXT("pre.0", "split"),
    TEXT("pre.0.pattern", "\\s+$"),
    TEXT("pre.0.behavior", "removed"),
    U64("pre.0.invert", 0),
    TEXT("pre.1", "digits"),
    U64("pre.1.individual", 1),
    U64("pre.1.bytes", 0),
    TEXT("pre.2", "punctuation"),
    TEXT("pre.2.behavior", "isolated"),
    TEXT("pre.3", "metaspace"),
    TEXT("pre.3.text", "\xE2\x96\x81"),
    U64("pre.3.scheme", 1),
    U64("pre.3.split", 1),
    TEXT("pre.4", "scripts"),
    TEXT("decoder.0", "metaspace"),
    TEXT("decoder.0.text", "\xE2\x96\x81"),
    U64("decoder.0.scheme", 1),
    TEXT("decoder.1", "strip"),
    TEXT("decoder.1.text", "a"),
    U64("decoder.1.count", 1),
};

static const char long_text[5000] = {0};

enum base { BPE, SPM, UNIGRAM, STEPS };
static const struct {
    const struct entry *list;
    size_t n;
} bases[] = {
    [BPE] = {bpe, sizeof bpe / sizeof *bpe},
    [SPM] = {spm, sizeof spm / sizeof *spm},
    [UNIGRAM] = {unigram, sizeof unigram / sizeof *unigram},
    [STEPS] = {steps, sizeof steps / sizeof *steps},
};

static const struct {
    enum base base;
    struct entry change;
    const char *word;
} cases[] = {
    {BPE, TEXT("kind", "wordpiece"), "wordpiece"},
    {BPE, TEXT("kind", "word_level"), "needs unk"},
    {BPE, U64("kind", 1), "kind"},
    {BPE, TEXT("tokens.bytes", "abab<0x0A><s"), "add up"},
    {BPE, TEXT("tokens.bytes", "abab<0x0A><s>x"), "add up"},
    {BPE, U32("tokens.lengths", 1, 1, 2, 6), "types"},
    {BPE, U32("tokens.lengths", 1, 1, 2, 6, 0xFFFFFFFF), "add up"},
    {BPE, TEXT("tokens.types", "\1\1\1\7\0"), "type"},
    {BPE, TEXT("tokens.types", "\1\1\6\6\0"), "byte token"},
    {BPE, TEXT("tokens.bytes", "abaa<0x0A><s>"), "merge 0"},
    {BPE, TEXT("tokens.bytes", "aaab<0x0A><s>"), "repeats"},
    {BPE, U32("merges", 0, 1), "merges"},
    {BPE, U32("merges", 0, 1, 5), "merge 0"},
    {BPE, U32("merges", 0, 5, 2), "merge 0"},
    {BPE, U32("merges", 5, 1, 2), "merge 0"},
    {BPE, U32("merges", 0x80000000, 1, 2), "merge 0"},
    {BPE, U32("merges", 0, 1, 2, 0, 1, 2), "merge 1"},
    {BPE, U64("byte_fallback", 2), "byte_fallback"},
    {BPE, U64("bos", 5), "bos"},
    {BPE, U64("unk", 0xFFFFFFFFFFFFFFFF), "unk"},
    {BPE, U32("add.before", 5), "add.before"},
    {BPE, U32("add.after", 0x80000000), "add.after"},
    {BPE, U32("added.ids", 5), "added.ids"},
    {BPE, U32("added.ids", 4, 4), "differ"},
    {BPE, U32("added.lengths", 4), "past"},
    {BPE, U32("added.lengths", 0), "empty"},
    {BPE, TEXT("added.bytes", "<s>x"), "follows"},
    {BPE, TEXT("added.bytes", "<s\xFF"), "UTF-8"},
    {BPE, U32("added.flags", 32), "flags"},
    {BPE, TEXT("normalizer.0", "lowercase"), "lowercase"},
    {BPE, TEXT("normalizer.0", "split"), "split"},
    {BPE, TEXT("normalizer.0.from", ""), "normalizer.0.from"},
    {BPE, TEXT("normalizer.0.what", "x"), "normalizer.0.what"},
    {BPE, TEXT("normalizer.1", "prepend"), "normalizer.1.text"},
    {BPE, TEXT("normalizer.2", "nfc"), "normalizer.2"},
    {BPE, TEXT("pre.0.behavior", "cut"), "cut"},
    {BPE, U64("pre.0.invert", 2), "pre.0.invert"},
    {BPE, TEXT("pre.0.pattern", "[a-z]+"), "[a-z]+"},
    {BPE, TEXT("decoder.0", "wordpiece"), "wordpiece"},
    {BPE, TEXT("decoder.1", "byte_fallback"), "decoder.1"},
    {BPE, TEXT("decoder.1", "byte_level"), "decoder.1"},
    {BPE, TEXT("decoder.1", "join"), "decoder.1"},
    {BPE, TEXT("secret", "x"), "secret"},
    {SPM, F32("scores", 0, 0, -1, 0), "scores"},
    {SPM, F32("scores", 0, 0, NAN, 0, 0), "score of token 2"},
    {SPM, F32("scores", 0, 0, INFINITY, 0, 0), "score of token 2"},
    {SPM, F32("scores", -INFINITY, 0, 0, 0, 0), "score of token 0"},
    {SPM, U32("merges", 0, 1, 2), "merges"},
    {BPE, TEXT("pre.0", "punctuation"), "pre.0.text"},
    {BPE, TEXT("pre.1", "digits"), "pre.1.individual"},
    {BPE, TEXT("normalizer.1", "strip"), "normalizer.1.sides"},
    {BPE, TEXT("normalizer.1", "replace_runs"), "normalizer.1.from"},
    {UNIGRAM, {"log_probs", KEY_U64, log_probs, 5}, "5 log_probs"},
    {UNIGRAM, {"log_probs", KEY_U64, not_a_number, 6}, "log_probs 2"},
    {UNIGRAM, {"log_probs", KEY_U64, infinite, 6}, "log_probs 0"},
    {UNIGRAM, TEXT("tokens.bytes", "abab<unk>\xE2\x96\xFF"), "UTF-8"},
    {UNIGRAM, U64("f32_sums", 2), "f32_sums"},
    {UNIGRAM, U64("normalizer.0.graphemes", 2), "graphemes"},
    {UNIGRAM, TEXT("normalizer.0.from.bytes", "ab"), "from.lengths"},
    {UNIGRAM, TEXT("normalizer.0.from.bytes", "ab\xFF"), "from.lengths"},
    {UNIGRAM, U32("normalizer.0.from.lengths", 0, 3), "empty text"},
    {UNIGRAM, U32("normalizer.0.to.lengths", 0xFFFFFFFF, 3), "to.lengths"},
    {UNIGRAM, U32("normalizer.0.to.lengths", 1, 1, 0), "3 texts for 2"},
    {UNIGRAM, {"normalizer.0.from.lengths", KEY_U32, long_text, 0}, "from.lengths"},
    {BPE, U32("tokens.lengths", 0, 2, 2, 6, 3), "token 0 is empty"},
    {BPE, {"tokens.lengths", KEY_U32, long_text, 0}, "0 token lengths"},
    {BPE, {"normalizer.0.from", KEY_TEXT, long_text, 257}, "normalizer.0.from"},
    {BPE, {"normalizer.0", KEY_TEXT, long_text, 0}, "normalizer.0"},
    {BPE, TEXT("normalizer.3", "nfc"), "normalizer.3"},
    {BPE, {"kind", KEY_TEXT, long_text, 101}, "kind"},
    {UNIGRAM, {"log_probs", KEY_U64, too_large, 6}, "log_probs 2"},
    {UNIGRAM, {"log_probs", KEY_U64, too_small, 6}, "log_probs 2"},
    {STEPS, U64("normalizer.0.scheme", 2), "normalizer.0.scheme"},
    {STEPS, U64("normalizer.1.sides", 4), "normalizer.1.sides"},
    {STEPS, U64("pre.1.individual", 2), "pre.1.individual"},
    {STEPS, U64("pre.1.bytes", 2), "pre.1.bytes"},
    {STEPS, TEXT("pre.2.behavior", "none"), "pre.2.behavior"},
    {STEPS, U64("pre.3.scheme", 3), "pre.3.scheme"},
    {STEPS, U64("pre.3.split", 2), "pre.3.split"},
    {STEPS, TEXT("pre.4.behavior", "isolated"), "pre.4.behavior"},
    {STEPS, TEXT("pre.4", "unicode_scripts"), "pre.4 is 'unicode_scripts'"},
    {STEPS, TEXT("pre.4", "scripts\0"), "pre.4"},
    {STEPS, TEXT("pre.6", "scripts"), "pre.6"},
    {BPE, TEXT("normalizer.1", "scripts"), "normalizer.1 is 'scripts'"},
    {BPE, TEXT("decoder.0", "scripts"), "decoder.0 is 'scripts'"},
    {STEPS, U64("decoder.0.scheme", 3), "decoder.0.scheme"},
    {STEPS, U64("decoder.1.count", 65536), "decoder.1.count"},
    {BPE, TEXT("tokens.bytes", "abab<0x0z><s>"), "is a byte token"},
    {BPE, TEXT("tokens.bytes", "abab<0xz0><s>"), "is a byte token"},
    {BPE, TEXT("tokens.bytes", "abab<0x0G><s>"), "is a byte token"},
    {BPE, TEXT("tokens.bytes", "abab<0x0A)<s>"), "is a byte token"},
    {BPE, TEXT("tokens.bytes", "abab<0y0A><s>"), "is a byte token"},
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

static enum tern_status open(enum base base, const struct entry *change, uint64_t rows,
                             struct tern_error *e)
{
    struct keywriter k;
    struct tokenizer *t;
    build(&k, bases[base].list, bases[base].n, change);
    enum tern_status s = tokenizer_open_bytes(&t, k.data, k.bytes, rows, e);
    ck_assert((s == TERN_OK) == (t != NULL));
    tokenizer_close(t);
    keywriter_close(&k);
    return s;
}

START_TEST(test_refused)
{
    struct tern_error e = {0};
    ck_assert_int_eq(open(cases[_i].base, &cases[_i].change, 100, &e), TERN_BAD_FILE);
    ck_assert_int_eq(e.code, TERN_BAD_FILE);
    ck_assert_msg(strstr(e.text, cases[_i].word) != NULL, "'%s' does not say '%s'", e.text,
                  cases[_i].word);
}
END_TEST

/* Each key with each type that it cannot have. */
START_TEST(test_types)
{
    static const uint64_t zeros[8];
    for (size_t i = 0; i < bases[_i].n; i++)
        for (int type = KEY_U64; type <= KEY_U32; type++) {
            const struct entry *was = &bases[_i].list[i];
            const struct entry odd = {was->name, (enum key_type)type, zeros, 1};
            struct tern_error e = {0};
            if (type == (int)was->type)
                continue;
            ck_assert_int_eq(open((enum base)_i, &odd, 100, &e), TERN_BAD_FILE);
            ck_assert_msg(strstr(e.text, was->name) && strstr(e.text, "want"), "%s: %s", was->name,
                          e.text);
        }
}
END_TEST

START_TEST(test_added_that_are_too_long)
{
    struct tern_error e = {0};
    for (uint32_t n = 1024; n <= 1025; n++) {
        struct keywriter k;
        struct tokenizer *t;
        keywriter_init(&k);
        for (size_t i = 0; i < sizeof bpe / sizeof *bpe; i++) {
            const struct entry *from = &bpe[i];
            if (!strcmp(from->name, "added.bytes"))
                keywriter_add(&k, from->name, true, KEY_TEXT, long_text, n);
            else if (!strcmp(from->name, "added.lengths"))
                keywriter_add(&k, from->name, true, KEY_U32, &n, 1);
            else
                keywriter_add(&k, from->name, true, from->type, from->values, from->count);
        }
        enum tern_status s = tokenizer_open_bytes(&t, k.data, k.bytes, 100, &e);
        ck_assert_msg((int)s == (n == 1024 ? TERN_OK : TERN_BAD_FILE), "%s", e.text);
        ck_assert(n == 1024 || strstr(e.text, "added token 0 is empty, longer than 1024"));
        tokenizer_close(t);
        keywriter_close(&k);
    }
}
END_TEST

START_TEST(test_valid)
{
    struct tern_error e = {0};
    ck_assert_msg(open(STEPS, NULL, 100, &e) == TERN_OK, "%s", e.text);
    const struct entry to_nothing = TEXT("normalizer.0.to", "");
    ck_assert_msg(open(BPE, &to_nothing, 100, &e) == TERN_OK, "%s", e.text);
    ck_assert_msg(open(BPE, NULL, 100, &e) == TERN_OK, "%s", e.text);
    ck_assert_msg(open(UNIGRAM, NULL, 100, &e) == TERN_OK, "%s", e.text);
    ck_assert_msg(open(SPM, NULL, 5, &e) == TERN_OK, "%s", e.text);
    ck_assert_int_eq(open(SPM, NULL, 4, &e), TERN_BAD_FILE);
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

SUITE("tokenizer sections", TEST(test_valid), LOOP(test_refused, 0, N_CASES),
      LOOP(test_types, 0, sizeof bases / sizeof *bases), TEST(test_added_that_are_too_long),
      TEST(test_too_many_steps))
