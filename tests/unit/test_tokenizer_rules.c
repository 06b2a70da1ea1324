/* Rules that tokenizers commonly get wrong, each a row or a test. The rows' ids are the
 * reference's; tools/tern/testing/vocabularies.py has them, with merges that reach over the ends
 * of words, so that a cut in the wrong place shows. Vocabularies of a few tokens are in
 * test_tokenizer_small.c. */
#include "vocabulary.h"
#include "suite.h"

#include <stdio.h>

enum { ADD = TERN_ADD_SPECIAL, PARSE = TERN_PARSE_SPECIAL };

/*  1 order: raw added tokens, normalizer, normalized ones; longest; plain mode skips special ones
 *  2 lstrip and rstrip swallow all whitespace; single_word looks at word characters
 *  3 Prepend before every piece, Metaspace unless one is there; first, never, always
 *  4 empty text gives no prefix; one space gives two
 *  5 score or rank, then leftmost; user-defined pieces first; byte fallback whole or not; fuse_unk
 *  6 remove_extra_whitespaces, precompiled_charsmap
 *  7 ignore_merges: a whole word that is a token wins
 *  8 contractions fold U+017F with (?i:), and only then
 *  9 \s+(?!\S) gives one back; line breaks; what \s is
 * 10 groups of digits: three from the left, single, all; Digits knows superscripts
 * 11 o200k and Tekken: letters without case and marks are capital and small; / after punctuation
 * 12 Gemma: no split ever fires, merging runs over the whole text
 * 13 behaviors of Split, invert; use_regex off; add_prefix_space
 * 14 form C, or not
 * 15 the post-processor decides on BOS and EOS, a literal BOS stays
 * 16 UnicodeScripts: Hiragana, Katakana and Han are one; a space has none, and is lost at the start
 * 18 add_dummy_prefix off
 * 20 the piece behind a special token
 *
 * Octal are the bytes of characters that tokens cut, and U+0085, which \u cannot name. */
static const struct {
    int rule;
    const char *vocabulary;
    unsigned flags;
    const char *text, *tokens; /* tokens: joined by | */
} rows[] = {
    {1, "added", PARSE, u8"e\u0301! a<<<b<s><s>", "\351!| a|<<<|b|<s><s>"},
    {1, "added", 0, "<s><s> <<s>", "<s><s>| |<<|s|>"},
    {1, "qwen2", PARSE, u8"e\u0301nd énd", "\351nd| |\351nd"},
    {2, "added", PARSE, "a \n<left> b", "a|<left>| b"},
    {2, "added", PARSE, "a <right>\t b", "a| |<right>|b"},
    {2, "added", PARSE, u8"a \u3000<both>\u00A0\nb", "a|<both>|b"},
    {2, "added", PARSE, u8"word words sword wörd word.",
     "word| w|or|d|s| s|w|or|d| w|\303|\266|r|d| |word|."},
    {3, "hf-llama", 0, " the the", u8"▁|▁the|▁the"},
    {3, "hf-llama", PARSE, "<s> the</s>the", u8"<s>|▁|▁the|</s>|▁the"},
    {3, "hf-metaspace", 0, " the", u8"▁the"},
    {3, "hf-metaspace", 0, u8"▁the", u8"▁the"},
    {3, "hf-first", PARSE, "the<s>the", u8"▁the|<s>|the"},
    {3, "hf-never", 0, "the the", u8"the|▁the"},
    {4, "spm", 0, "", ""},
    {4, "spm", 0, " ", u8"▁▁"},
    {4, "hf-llama", 0, "", ""},
    {4, "hf-llama", 0, " ", u8"▁▁"},
    {4, "hf-metaspace", 0, "", ""},
    {4, "gpt2-prefix", 0, "", ""},
    {5, "spm", 0, "antidisestablish", u8"▁an|t|id|i|se|st|a|b|l|is|h"},
    {5, "hf-llama", 0, "antidisestablish", u8"▁an|t|id|i|se|st|a|b|l|is|h"},
    {5, "spm-trim", 0, "inging xing", u8"▁|ing|ing|▁|<unk>|ing"},
    {5, "spm", 0, u8"€", u8"▁|<0xE2>|<0x82>|<0xAC>"},
    {5, "hf-partial", 0, u8"\n\tä\302\204", u8"▁\n|\t|<0xC3>|<0xA4>|<0xC2>|<0x84>"},
    {5, "hf-metaspace", 0, u8"€€ a", u8"▁|<unk>|▁a"},
    {5, "hf-first", 0, u8"€€ a", u8"▁|<unk>|<unk>|▁a"},
    {6, "spm-trim", 0, "  the   the  ", u8"▁the|▁the"},
    {6, "spm", 0, "  the   the  ",
     u8"▁▁|▁the|▁▁|▁the|"
     u8"▁▁"},
    {5, "uni", 0, u8"mother €", u8"▁|m|o|t|h|e|r|▁|<0xE2>|<0x82>|<0xAC>"},
    {5, "uni-user", 0, "xing ingin", u8"▁|<unk>|ing|▁|ing|in"},
    {5, "hf-uni", 0, u8"a€€b", u8"▁a|<unk>|b"},
    {6, "uni-map", 0, u8" \uFB01n  \uFF21e\u0301\u3000x\u200By", u8"▁|f|in|▁|<unk>|é|▁|<unk>|y"},
    {6, "spm-map", 0, u8"½ \uFF2D\t!", u8"▁1|<0xE2>|<0x81>|<0x84>|2|▁|<0x4D>|▁!"},
    {6, "hf-uni", 0, u8"\uFF34he e\u0301 \u2122\u0301 a", u8"▁|<unk>|h|e|▁|é|▁|<unk>|▁a"},
    {6, "hf-uni-bytes", 0, "the   end  ", u8"the|▁|e|n|d"},
    {7, "llama3", 0, "little when together looked xlittle tokenizer merging made people",
     "little| when| together| looked| |x|l|i|t|t|le| tokenizer| merging| made| people"},
    {7, "llama3", 0, " little when littles", " little| when| l|i|t|t|le|s"},
    {8, "llama3", 0, u8"it's IT'S it'\u017F it’s",
     "it|'s| I|T|'|S| it|'|\305|\277| it|\342\200|\231|s"},
    {8, "gpt2", 0, u8"it's IT'S it'\u017F", "it|'s| I|T|'|S| it|'|\305|\277"},
    {9, "llama3", 0, "a   b", "a|  | b"},
    {9, "llama3", 0, "a  \n  b", "a|  |\n| | b"},
    {9, "gpt2", 0, "a  \n  b", "a|  |\n | b"},
    {9, "gpt2", 0, u8"a\302\205\u00A0\u3000b", "a|\302|\205|\302|\240|\343|\200|\200|b"},
    {9, "gpt2", 0, u8"a\u200B\u200B b", "a|\342\200|\213|\342\200|\213| b"},
    {10, "llama3", 0, "1234567", "1|23|4|56|7"},
    {10, "qwen2", 0, "123", "1|2|3"},
    {10, "smollm2", 0, u8"12²½", "1|2|\302|\262|\302|\275"},
    {10, "gpt2", 0, u8"12345²", "1|23|4|5|\302|\262"},
    {10, "falcon", 0, u8" 1111 s² м!$A", " |11|1|1| s|\302|\262| |\320|\274|!$|A"},
    {10, "deepseek3", 0, "11111!A", "11|1|11|!A"},
    {9, "deepseek2", 0, u8"A \n b\u3000中A   ", u8"A| |\n| b|\u3000|中|A|  | "},
    {11, "o200k", 0, u8"AAbb AbA's \u02B0A'sA!/\n/A", u8"AA|bb| |Ab|A'|s| \u02B0|A'|s|A|!/|\n/|A"},
    {11, "o200k", 0, u8"A\u0301\u0301b !\u0301A 1111", u8"A\u0301|\u0301b| !|\u0301|A| |11|1|1"},
    {11, "tekken", 0, u8"Ab's 11 \u02B0AA/\n/", u8"Ab|'s| |1|1| \u02B0|AA|/|\n/"},
    {12, "hf-gemma", 0, "the little  girl", u8"the|▁little|▁▁|g|irl"},
    {12, "hf-gemma", 0, "a    \n\n\n", u8"a|   |▁|\n\n|\n"},
    {13, "splits", 0, "axxa!x..e..e12e", " a|x| |x| a| |x| |..| e| |..| e| 1|2| e"},
    {13, "gpt2-prefix", 0, "the the", " the| the"},
    {14, "qwen2", 0, u8"e\u0301 \u212B s\u0307\u0323", u8"é| \303|\205| |\341|\271|\251"},
    {14, "gpt2", 0, u8"e\u0301", u8"e|\u0301"},
    {14, "llama3", 0, u8"\u212B", "\342|\204|\253"},
    {15, "llama3", ADD | PARSE, "<|begin_of_text|>a", "<|begin_of_text|>|<|begin_of_text|>|a"},
    {15, "added", ADD, "a", "<s>|a|</s>"},
    {15, "gpt2-prefix", ADD, "a", "<s>| a|</s>"},
    {15, "spm", ADD, "a", u8"<s>|▁a"},
    {16, "hf-scripts", 0, u8"aあカー漢々 \u3000あ", u8"▁a|あカ|ー漢|々▁|\u3000|あ"},
    {16, "hf-scripts", 0, u8"a\u0301éя 1a", u8"▁a|\u0301|é|я▁|1|a"},
    {16, "hf-scripts", 0, u8"a א\u0378\u0378 אa a", u8"▁|a▁|א\u0378|\u0378▁|א|a▁|a"},
    {16, "hf-scripts", 0, u8" \u0378 aя", u8"a|я"},
    {16, "hf-scripts", 0, u8" \u0378  ", ""},
    {16, "hf-scripts", 0, u8"a <x> я", u8"▁|a▁|<x>|я"},
    {18, "spm-plain", 0, " the", u8"▁the"},
    {18, "spm", 0, " the", u8"▁▁|the"},
    {20, "hf-llama", PARSE, "<s>the", u8"<s>|▁the"},
    {20, "hf-first", PARSE, "<s>the", "<s>|the"},
};

static void check_row(const struct vocabulary *v, const char *text, size_t n, unsigned flags,
                      const char *want)
{
    int32_t *ids;
    struct buffer got = {0};
    size_t len, n_ids = vocabulary_encode(v, text, n, flags, &ids);
    for (size_t i = 0; i < n_ids; i++) {
        const char *p = tokenizer_text(v->t, ids[i], &len);
        ck_assert(buffer_add(&got, "|", i > 0) && buffer_add(&got, p, len));
    }
    ck_assert_msg(got.n == strlen(want) && (!got.n || memcmp(got.p, want, got.n) == 0),
                  "'%s' gives '%.*s', want '%s'", text, (int)got.n, got.p ? got.p : "", want);
    buffer_close(&got);
    free(ids);
}

START_TEST(test_rows)
{
    struct vocabulary v;
    vocabulary_open(&v, rows[_i].vocabulary);
    check_row(&v, rows[_i].text, strlen(rows[_i].text), rows[_i].flags, rows[_i].tokens);
    vocabulary_close(&v);
}
END_TEST

/* ---- decoding ----------------------------------------------------------------------------- */

static int32_t id_of(const struct vocabulary *v, const char *token)
{
    size_t n;
    for (int32_t id = 0; (uint64_t)id < tokenizer_n_tokens(v->t); id++) {
        const char *p = tokenizer_text(v->t, id, &n);
        if (n == strlen(token) && memcmp(p, token, n) == 0)
            return id;
    }
    ck_abort_msg("no token '%s'", token);
    return -1;
}

/* Pushes the tokens and compares the pieces, joined by |, and the rest after the last |. */
static void check_stream(const char *name, bool show, const char *const *tokens, const char *want)
{
    struct vocabulary v;
    struct decoder *d;
    struct buffer got = {0};
    size_t n;
    vocabulary_open(&v, name);
    ck_assert_int_eq(decoder_open(&d, v.t, show, NULL), TERN_OK);
    for (; *tokens; tokens++) {
        const char *p = decoder_push(d, id_of(&v, *tokens), &n);
        ck_assert(buffer_add(&got, p, n) && buffer_add(&got, "|", 1));
    }
    const char *p = decoder_finish(d, &n);
    ck_assert(buffer_add(&got, p, n) && buffer_add(&got, "", 1));
    ck_assert_str_eq(got.p, want);
    buffer_close(&got);
    decoder_close(d);
    vocabulary_close(&v);
}

#define STREAM(name, show, want, ...) \
    check_stream(name, show, (const char *const[]){__VA_ARGS__, NULL}, want)

START_TEST(rule_16_broken_bytes)
{
    /* byte tokens: one U+FFFD for each byte; byte-level: one for each maximal subpart */
    STREAM("hf-llama", 0,
           "||\xEF\xBF\xBD\xEF\xBF\xBD"
           "a||\xEF\xBF\xBD",
           "<0xE4>", "<0xBD>", "a", "<0xE4>");
    STREAM("gpt2", 0,
           "||\xEF\xBF\xBD"
           "a||\xEF\xBF\xBD",
           "\xE4", "\xBD", "a", "\xE4");
    STREAM("hf-llama", 0, "\xEF\xBF\xBD|", "<0xFF>");
    /* one space off the start of the text, and of nothing else */
    STREAM("hf-llama", 0, "| the|", "\xE2\x96\x81", "\xE2\x96\x81the");
    STREAM("hf-llama", 0, "|the| the|", "<s>", "\xE2\x96\x81the", "\xE2\x96\x81the");
    STREAM("hf-llama", 1, "<s>| the|", "<s>", "\xE2\x96\x81the");
    STREAM("hf-gemma", 0, " the|", "\xE2\x96\x81the");
}
END_TEST

START_TEST(rule_17_streaming)
{
    STREAM("gpt2", 0, "|||\xF0\x9F\x99\x82|", "\xF0", "\x9F", "\x99", "\x82");
    STREAM("hf-llama", 0, "|||\xF0\x9F\x99\x82|", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>");
    STREAM("gpt2", 0, "||\xEF\xBF\xBD", "\xF0", "\x9F");
    STREAM("hf-llama", 0, "||\xEF\xBF\xBD\xEF\xBF\xBD", "<0xF0>", "<0x9F>");
}
END_TEST

/* Plain text never becomes a special token, whatever it says. */
START_TEST(test_plain_is_plain)
{
    static const char *const names[] = {"gpt2", "llama3",   "qwen2",    "smollm2", "added",
                                        "spm",  "hf-llama", "hf-first", "spm-trim"};
    struct vocabulary v;
    vocabulary_open(&v, names[_i]);
    for (uint32_t i = 0; i < v.added.n; i++) {
        int32_t *ids;
        size_t n = vocabulary_encode(&v, v.added.bytes + v.added.start[i],
                                     v.added.start[i + 1] - v.added.start[i], 0, &ids);
        for (size_t k = 0; k < n; k++) /* two of these have unknown characters */
            ck_assert(!tokenizer_is_special(v.t, ids[k]) || ids[k] == id_of(&v, "<unk>"));
        free(ids);
    }
    vocabulary_close(&v);
}
END_TEST

SUITE("tokenizer rules", LOOP(test_rows, 0, sizeof rows / sizeof *rows), TEST(rule_16_broken_bytes),
      TEST(rule_17_streaming), LOOP(test_plain_is_plain, 0, 9))
