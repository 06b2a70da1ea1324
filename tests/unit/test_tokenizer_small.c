/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* Tokenizers of a few tokens, each made for one case: what is refused, ids with equal bytes, pieces,
 * added tokens, steps of normalizers and decoders, and failing memory in long words. */
#include "allocs.h"
#include "text/vocab.h"
#include "weights/keywriter.h"
#include "vocabulary.h"
#include "suite.h"

#include <stdio.h>

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
    ck_assert_int_eq(tokenizer_encode(t, text, strlen(text), TERN_PARSE_SPECIAL, ids, 64, &n, NULL),
                     TERN_OK);
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

SUITE("small tokenizers", TEST(rules_6_11_refused_by_name), TEST(rule_19_equal_bytes),
      TEST(token_0_is_a_token), TEST(sentencepiece_pieces), TEST(user_defined_pieces),
      TEST(unigram_characters), TEST(added_tokens_in_any_order), TEST(special_types),
      TEST(swallowed_whitespace_is_gone), TEST(equal_texts_of_a_map), TEST(graphemes_of_a_map),
      TEST(texts_that_are_almost_replaced), TEST(two_metaspace_steps), TEST(names_of_bytes),
      TEST(stripped_sides), TEST(replacing_decoders), TEST(long_words_without_memory))
