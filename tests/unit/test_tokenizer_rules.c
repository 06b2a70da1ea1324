/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* Rules that tokenizers commonly get wrong, each a row or a test. The rows' ids are the
 * reference's; tools/tern/testing/vocabularies.py has them, with merges that reach over the ends
 * of words, so that a cut in the wrong place shows. */
#include "allocs.h"
#include "text/vocab.h"
#include "weights/keywriter.h"
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

/* ---- what is refused, and ids with equal bytes --------------------------------------------- */

/* Byte-level BPE of the tokens a, b, ab and again ab, the last one found by nothing. */
static void four_tokens(struct keywriter *k)
{
    static const uint32_t lengths[] = {1, 1, 2, 2}, merges[] = {0, 1, 2};
    keywriter_init(k);
    keywriter_text(k, "kind", "bpe");
    keywriter_text(k, "tokens.bytes", "ababab");
    keywriter_add(k, "tokens.lengths", true, KEY_U32, lengths, 4);
    keywriter_add(k, "tokens.types", true, KEY_TEXT, "\1\1\1\0", 4);
    keywriter_add(k, "merges", true, KEY_U32, merges, 3);
    keywriter_u64(k, "byte_level", 1);
    keywriter_text(k, "decoder.0", "byte_level");
}

static void check_refused(struct keywriter *k, const char *word)
{
    struct tokenizer *t;
    struct tern_error e = {0};
    ck_assert_int_eq(tokenizer_open_bytes(&t, k->data, k->bytes, 100, &e), TERN_BAD_FILE);
    ck_assert_msg(strstr(e.text, word) != NULL, "'%s' does not name '%s'", e.text, word);
    keywriter_close(k);
}

START_TEST(rules_6_11_refused_by_name)
{
    struct keywriter k;
    four_tokens(&k);
    keywriter_text(&k, "pre.0", "split");
    keywriter_text(&k, "pre.0.pattern",
                   "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*");
    keywriter_text(&k, "pre.0.behavior", "isolated");
    keywriter_u64(&k, "pre.0.invert", 0);
    check_refused(&k, "p{Lu}");
    four_tokens(&k);
    keywriter_text(&k, "normalizer.0", "precompiled");
    check_refused(&k, "precompiled");
    four_tokens(&k);
    keywriter_text(&k, "charsmap", "x");
    check_refused(&k, "charsmap");
}
END_TEST

START_TEST(rule_19_equal_bytes)
{
    struct keywriter k;
    struct tokenizer *t;
    struct decoder *d;
    int32_t id;
    size_t n;
    four_tokens(&k);
    ck_assert_int_eq(tokenizer_open_bytes(&t, k.data, k.bytes, 100, NULL), TERN_OK);
    ck_assert_int_eq(tokenizer_encode(t, "ab", 2, 0, &id, 1, &n, NULL), TERN_OK);
    ck_assert(n == 1 && id == 2);
    ck_assert_int_eq(decoder_open(&d, t, 0, NULL), TERN_OK);
    for (id = 2; id < 4; id++) {
        const char *p = decoder_push(d, id, &n);
        ck_assert(n == 2 && memcmp(p, "ab", 2) == 0);
    }
    decoder_close(d);
    tokenizer_close(t);
    keywriter_close(&k);
}
END_TEST

/* ---- vocabularies of a few tokens ---------------------------------------------------------- */

/* A section with the tokens that `list` joins by |, of the types `types`, a digit each. */
static void small(struct keywriter *k, const char *kind, const char *list, const char *types)
{
    char bytes[256], kinds[32];
    uint32_t lengths[32] = {0}, n = 0;
    size_t n_bytes = 0, n_types = strlen(types);
    for (; *list; list++) {
        if (*list == '|')
            n++;
        else
            bytes[n_bytes++] = *list, lengths[n]++;
    }
    for (size_t i = 0; i < n_types; i++)
        kinds[i] = (char)(types[i] - '0');
    keywriter_init(k);
    keywriter_text(k, "kind", kind);
    keywriter_add(k, "tokens.bytes", true, KEY_TEXT, bytes, n_bytes);
    keywriter_add(k, "tokens.lengths", true, KEY_U32, lengths, n + 1);
    keywriter_add(k, "tokens.types", true, KEY_TEXT, kinds, n_types);
}

#define NUMBERS(k, name, type, of, ...)                           \
    keywriter_add(k, name, true, of, (const type[]){__VA_ARGS__}, \
                  sizeof((const type[]){__VA_ARGS__}) / sizeof(type))

static struct tokenizer *open_small(struct keywriter *k)
{
    struct tokenizer *t = NULL;
    struct tern_error e = {0};
    ck_assert(!k->failed);
    ck_assert_msg(tokenizer_open_bytes(&t, k->data, k->bytes, 100, &e) == TERN_OK, "%s", e.text);
    return t;
}

/* `want`: the ids of the text, each with a space behind it. */
static void check_ids(const struct tokenizer *t, const char *text, const char *want)
{
    int32_t ids[64];
    char got[256] = "";
    size_t n;
    ck_assert_int_eq(tokenizer_encode(t, text, strlen(text), PARSE, ids, 64, &n, NULL), TERN_OK);
    for (size_t i = 0; i < n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%d ", (int)ids[i]);
    ck_assert_msg(strcmp(got, want) == 0, "'%s' gives %s, want %s", text, got, want);
}

/* Opens what k holds, checks one text and closes both. */
static void check_small(struct keywriter *k, const char *text, const char *want)
{
    struct tokenizer *t = open_small(k);
    check_ids(t, text, want);
    tokenizer_close(t);
    keywriter_close(k);
}

/* The token with id 0 is found, made and given as any other is, in every kind. */
START_TEST(token_0_is_a_token)
{
    struct keywriter k;
    small(&k, "bpe", "ab|a|b", "111");
    keywriter_u64(&k, "byte_level", 1), keywriter_u64(&k, "ignore_merges", 1);
    check_small(&k, "ab", "0 ");
    small(&k, "bpe", "a|b", "11");
    keywriter_u64(&k, "byte_level", 1);
    check_small(&k, "ba", "1 0 ");
    small(&k, "bpe", "<0x61>|<0x62>|<unk>", "662");
    keywriter_u64(&k, "byte_fallback", 1), keywriter_u64(&k, "unk", 2);
    check_small(&k, "ba", "1 0 ");
    small(&k, "spm", "ab|a|b", "111");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0);
    check_small(&k, "bab", "2 0 ");
    small(&k, "spm", "<0x61>|b|<unk>", "612");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0);
    keywriter_u64(&k, "byte_fallback", 1), keywriter_u64(&k, "unk", 2);
    check_small(&k, "ab", "0 1 ");
    small(&k, "spm", "abc|a|b|c", "4111"); /* which no merge makes */
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0, 0);
    check_small(&k, "abcb", "0 2 ");
    small(&k, "unigram", "a|b|<unk>", "112");
    NUMBERS(&k, "log_probs", double, KEY_U64, -1, -1, 0, -10);
    keywriter_u64(&k, "unk", 2);
    check_small(&k, "abc", "0 1 2 ");
    small(&k, "word_level", "a|<unk>", "12");
    keywriter_u64(&k, "unk", 1), keywriter_u64(&k, "bos", 0), keywriter_u64(&k, "eos", 0);
    struct tokenizer *t = open_small(&k);
    ck_assert(tokenizer_bos(t) == 0 && tokenizer_eos(t) == 0);
    check_ids(t, "a", "0 ");
    check_ids(t, "b", "1 ");
    tokenizer_close(t);
    keywriter_close(&k);
}
END_TEST

/* All pieces may be user-defined; a positive score is better than a lower one, whatever its bits. */
START_TEST(sentencepiece_pieces)
{
    struct keywriter k;
    small(&k, "spm", "a|ab|c", "444");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0);
    check_small(&k, "aabcc", "0 1 2 2 ");
    small(&k, "spm", "a|b|c|ab|bc", "11111");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0, 2, 0x1.000002p0f);
    check_small(&k, "abc", "3 2 ");
    small(&k, "spm", "a|b|c|ab|bc", "11111");
    NUMBERS(&k, "scores", float, KEY_F32, -3.4e38f, 3.4e38f, 0, -0.5f, 0);
    check_small(&k, "abc", "0 4 ");
}
END_TEST

/* A user-defined piece has up to 1024 bytes of UTF-8. */
START_TEST(user_defined_pieces)
{
    static char bytes[1026] = "a";
    struct keywriter k;
    struct tokenizer *t;
    memset(bytes + 1, 'x', 1025);
    for (uint32_t n = 1024; n <= 1025; n++) {
        keywriter_init(&k);
        keywriter_text(&k, "kind", "spm");
        keywriter_add(&k, "tokens.bytes", true, KEY_TEXT, bytes, n + 1);
        NUMBERS(&k, "tokens.lengths", uint32_t, KEY_U32, 1, n);
        keywriter_add(&k, "tokens.types", true, KEY_TEXT, "\1\4", 2);
        NUMBERS(&k, "scores", float, KEY_F32, 0, 0);
        if (n > 1024) {
            check_refused(&k, "user-defined token 1");
            break;
        }
        t = open_small(&k);
        tokenizer_close(t);
        keywriter_close(&k);
    }
    small(&k, "spm", "a|\xFF", "14");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0);
    check_refused(&k, "user-defined token 1");
}
END_TEST

/* A character that is a token is never unknown, however cheap unknown ones are. */
START_TEST(unigram_characters)
{
    struct keywriter k;
    small(&k, "unigram", u8"x|é|<unk>", "112");
    NUMBERS(&k, "log_probs", double, KEY_U64, -5, -5, 0, -1);
    keywriter_u64(&k, "unk", 2);
    check_small(&k, u8"éxy", "1 0 2 ");
    small(&k, "unigram", "a|ab|b", "111");
    NUMBERS(&k, "log_probs", double, KEY_U64, -1e30, 1e30, 0, 0);
    check_small(&k, "ab", "1 ");
    /* the first of 2, 3 and 4 bytes; what is a token is never unknown */
    small(&k, "unigram", u8"x|\u00A0|\u0800|\U00010000|<unk>", "11112");
    NUMBERS(&k, "log_probs", double, KEY_U64, -9, -9, -9, -9, 0, -1);
    keywriter_u64(&k, "unk", 4);
    check_small(&k, u8"\u00A0x\u0800x\U00010000", "1 0 2 0 3 ");
}
END_TEST

/* Added tokens, each of which begins the one before it; the first of equal ones counts. */
START_TEST(added_tokens_in_any_order)
{
    struct keywriter k;
    small(&k, "bpe", "x|c2|c1|b|a|a1|a2|z", "10000001");
    NUMBERS(&k, "added.ids", uint32_t, KEY_U32, 1, 2, 3, 4, 5, 6);
    keywriter_text(&k, "added.bytes", "abcabcabaaa");
    NUMBERS(&k, "added.lengths", uint32_t, KEY_U32, 3, 3, 2, 1, 1, 1);
    NUMBERS(&k, "added.flags", uint32_t, KEY_U32, 0, 0, 0, 0, 0, 0);
    keywriter_u64(&k, "byte_level", 1);
    struct tokenizer *t = open_small(&k);
    check_ids(t, "abcabaxzab", "1 3 4 0 7 3 ");
    uint32_t flags;
    ck_assert(tokenizer_find(t, "abc", 3, &flags) == 1 && tokenizer_find(t, "ab", 2, &flags) == 3);
    ck_assert(tokenizer_find(t, "aba", 3, &flags) == -1 && tokenizer_find(t, "", 0, &flags) == -1);
    tokenizer_close(t);
    keywriter_close(&k);
}
END_TEST

/* Unknown and control tokens are special, whether or not they are added ones. */
START_TEST(special_types)
{
    struct keywriter k;
    small(&k, "spm", "a|b|<0x41>|d|e", "23645");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0, 0, 0);
    struct tokenizer *t = open_small(&k);
    for (int32_t id = -1; id < 6; id++)
        ck_assert_int_eq(tokenizer_is_special(t, id), id == 0 || id == 1);
    tokenizer_close(t);
    keywriter_close(&k);
}
END_TEST

/* What an added token swallowed is not there for the next, as in the reference. */
START_TEST(swallowed_whitespace_is_gone)
{
    struct keywriter k;
    small(&k, "bpe", "x|<r>| ", "100");
    NUMBERS(&k, "added.ids", uint32_t, KEY_U32, 1, 2);
    keywriter_text(&k, "added.bytes", "<r> ");
    NUMBERS(&k, "added.lengths", uint32_t, KEY_U32, 3, 1);
    NUMBERS(&k, "added.flags", uint32_t, KEY_U32, 4, 2);
    keywriter_u64(&k, "byte_level", 1);
    struct tokenizer *t = open_small(&k);
    check_ids(t, "x <r>", "0 2 1 ");
    check_ids(t, "<r> ", "1 ");
    check_ids(t, "<r>   x", "1 0 ");
    tokenizer_close(t);
    keywriter_close(&k);
}
END_TEST

/* Of a character map's equal texts the last one counts. */
START_TEST(equal_texts_of_a_map)
{
    struct keywriter k;
    small(&k, "spm", "a|x|y|z", "1111");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0, 0);
    keywriter_text(&k, "normalizer.0", "charsmap");
    keywriter_u64(&k, "normalizer.0.graphemes", 0);
    keywriter_text(&k, "normalizer.0.from.bytes", "aabaa");
    NUMBERS(&k, "normalizer.0.from.lengths", uint32_t, KEY_U32, 1, 2, 1, 1);
    keywriter_text(&k, "normalizer.0.to.bytes", "zxzy");
    NUMBERS(&k, "normalizer.0.to.lengths", uint32_t, KEY_U32, 1, 1, 1, 1);
    check_small(&k, "aab", "2 1 ");
    small(&k, "spm", "a|x|b", "111");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0);
    keywriter_text(&k, "normalizer.0", "charsmap");
    keywriter_u64(&k, "normalizer.0.graphemes", 0);
    keywriter_text(&k, "normalizer.0.from.bytes", "ab");
    NUMBERS(&k, "normalizer.0.from.lengths", uint32_t, KEY_U32, 2);
    keywriter_text(&k, "normalizer.0.to.bytes", "x");
    NUMBERS(&k, "normalizer.0.to.lengths", uint32_t, KEY_U32, 1);
    check_small(&k, "abaab", "1 0 1 ");
}
END_TEST

/* A text is replaced where all of it stands, also at the very end. */
START_TEST(texts_that_are_almost_replaced)
{
    struct keywriter k;
    small(&k, "spm", "a|b|c|x", "1111");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0, 0);
    keywriter_text(&k, "normalizer.0", "replace");
    keywriter_text(&k, "normalizer.0.from", "ab");
    keywriter_text(&k, "normalizer.0.to", "x");
    check_small(&k, "aabaccbab", "0 3 0 2 2 1 3 ");
}
END_TEST

/* By graphemes: the shortest text that one begins with counts, for the whole of it, up to 5 bytes;
 * of a longer one each character is looked at. */
START_TEST(graphemes_of_a_map)
{
    struct keywriter k;
    small(&k, "spm", u8"a|x|y|\u0301|\u20D0", "11111");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0, 0, 0);
    keywriter_text(&k, "normalizer.0", "charsmap");
    keywriter_u64(&k, "normalizer.0.graphemes", 1);
    keywriter_text(&k, "normalizer.0.from.bytes", u8"aa\u0301");
    NUMBERS(&k, "normalizer.0.from.lengths", uint32_t, KEY_U32, 1, 3);
    keywriter_text(&k, "normalizer.0.to.bytes", "xy");
    NUMBERS(&k, "normalizer.0.to.lengths", uint32_t, KEY_U32, 1, 1);
    struct tokenizer *t = open_small(&k);
    check_ids(t, "aa", "1 1 ");
    check_ids(t, u8"a\u0301", "1 ");
    check_ids(t, u8"a\u0301\u0301", "1 ");
    check_ids(t, u8"a\u0301\u20D0", "1 3 4 ");
    tokenizer_close(t);
    keywriter_close(&k);
}
END_TEST

/* What one step cuts off is not the beginning of the input for the next. */
START_TEST(two_metaspace_steps)
{
    struct keywriter k;
    small(&k, "bpe", "a|b|_|#", "1111");
    keywriter_u64(&k, "byte_level", 0);
    keywriter_text(&k, "pre.0", "metaspace");
    keywriter_text(&k, "pre.0.text", "_");
    keywriter_u64(&k, "pre.0.scheme", 0);
    keywriter_u64(&k, "pre.0.split", 1);
    keywriter_text(&k, "pre.1", "metaspace");
    keywriter_text(&k, "pre.1.text", "#");
    keywriter_u64(&k, "pre.1.scheme", 1);
    keywriter_u64(&k, "pre.1.split", 1);
    check_small(&k, "a b a", "3 0 2 1 2 0 ");
}
END_TEST

START_TEST(names_of_bytes)
{
    static const struct {
        const char *name;
        int byte;
    } names[] = {{"<0x00>", 0},   {"<0x0A>", 10},  {"<0xA0>", 160}, {"<0x9f>", 159},
                 {"<0xFF>", 255}, {"<0x41>z", -1}, {"<0x41", -1},   {"abc41>", -1},
                 {"<0x41x", -1},  {"<0xg0>", -1},  {"<0x0g>", -1},  {"<0xG0>", -1},
                 {"<0x`0>", -1},  {"<0x@0>", -1},  {"<0x:0>", -1},  {"<0x/0>", -1},
                 {"<0x041>", -1}, {"", -1},        {"<0X41>", -1}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(vocab_byte(names[i].name, strlen(names[i].name)) == names[i].byte, "%s",
                      names[i].name);
}
END_TEST

/* Whitespace of any length is stripped off the sides that a step names. */
START_TEST(stripped_sides)
{
    static const char *const want[] = {"1 0 1 ", "0 1 ", "1 0 ", "0 "};
    for (uint64_t sides = 0; sides < 4; sides++) {
        struct keywriter k;
        small(&k, "spm", u8"a|\u3000", "11");
        NUMBERS(&k, "scores", float, KEY_F32, 0, 0);
        keywriter_text(&k, "normalizer.0", "strip");
        keywriter_u64(&k, "normalizer.0.sides", sides);
        struct tokenizer *t = open_small(&k);
        check_ids(t, u8"\u3000a\u3000", want[sides]);
        check_ids(t, u8" \u3000\u3000\t", sides ? "" : "1 1 ");
        tokenizer_close(t);
        keywriter_close(&k);
    }
}
END_TEST

/* A decoder may replace what it finds by as much, and not by more. */
START_TEST(replacing_decoders)
{
    struct keywriter k;
    struct decoder *d;
    size_t n;
    for (int more = 0; more < 2; more++) {
        small(&k, "bpe", "aba|<0x41>|<0x00>", "166");
        keywriter_text(&k, "decoder.0", "replace");
        keywriter_text(&k, "decoder.0.from", "ab");
        keywriter_text(&k, "decoder.0.to", more ? "xyz" : "xy");
        keywriter_text(&k, "decoder.1", "byte_fallback");
        if (more) {
            check_refused(&k, "longer");
            break;
        }
        struct tokenizer *t = open_small(&k);
        ck_assert_int_eq(decoder_open(&d, t, false, NULL), TERN_OK);
        const char *p = decoder_push(d, 0, &n);
        ck_assert(n == 3 && !memcmp(p, "xya", 3));
        p = decoder_bytes(d, 0, &n);
        ck_assert(n == 3 && !memcmp(p, "xya", 3));
        p = decoder_bytes(d, 1, &n);
        ck_assert(n == 1 && *p == 'A');
        p = decoder_bytes(d, 2, &n);
        ck_assert(n == 1 && !*p);
        decoder_close(d);
        tokenizer_close(t);
        keywriter_close(&k);
    }
}
END_TEST

/* ---- failing memory in long words ---------------------------------------------------------- */

/* Each allocation fails in turn while words of 200 units are cut. */
static void check_long_words(struct keywriter *k, const char *unit)
{
    struct tokenizer *t = open_small(k);
    struct buffer text = {0};
    size_t n, failed = 0;
    for (int i = 0; i < 200; i++)
        ck_assert(buffer_add(&text, unit, strlen(unit)));
    for (size_t at = 1;; at++, failed++) {
        allocs_start(at, 0);
        enum tern_status s = tokenizer_encode(t, text.p, text.n, 0, NULL, 0, &n, NULL);
        size_t live = allocs_live(), count = allocs_count();
        allocs_stop();
        ck_assert_uint_eq(live, 0);
        if (count < at)
            break;
        ck_assert_int_eq(s, TERN_NO_MEMORY);
    }
    ck_assert_uint_gt(failed, 2);
    buffer_close(&text);
    tokenizer_close(t);
    keywriter_close(k);
}

START_TEST(long_words_without_memory)
{
    struct keywriter k;
    small(&k, "bpe", "a|b|x|y|ab|xab|aby", "1111111"); /* two new pairs for each that is joined */
    NUMBERS(&k, "merges", uint32_t, KEY_U32, 0, 1, 4, 2, 4, 5, 4, 3, 6);
    keywriter_u64(&k, "byte_level", 1);
    check_long_words(&k, "xaby");
    small(&k, "bpe", "<0x61>|<unk>", "62");
    keywriter_u64(&k, "byte_fallback", 1), keywriter_u64(&k, "unk", 1);
    check_long_words(&k, "a");
    small(&k, "bpe", "a|<unk>", "12");
    keywriter_u64(&k, "unk", 1);
    check_long_words(&k, "b");
    small(&k, "bpe", "a|<unk>", "12");
    keywriter_u64(&k, "unk", 1);
    check_long_words(&k, "ab");
    small(&k, "spm", "a|b|<unk>", "142");
    NUMBERS(&k, "scores", float, KEY_F32, 0, 0, 0);
    check_long_words(&k, "ab");
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
      TEST(rule_17_streaming), TEST(rules_6_11_refused_by_name), TEST(rule_19_equal_bytes),
      TEST(token_0_is_a_token), TEST(sentencepiece_pieces), TEST(user_defined_pieces),
      TEST(unigram_characters), TEST(added_tokens_in_any_order), TEST(special_types),
      TEST(swallowed_whitespace_is_gone), TEST(equal_texts_of_a_map), TEST(graphemes_of_a_map),
      TEST(texts_that_are_almost_replaced), TEST(two_metaspace_steps), TEST(names_of_bytes),
      TEST(stripped_sides), TEST(replacing_decoders), TEST(long_words_without_memory),
      LOOP(test_plain_is_plain, 0, 9))
