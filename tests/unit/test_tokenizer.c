/* ldflags: -Wl,@tests/support/allocs.ld */
/* The tokenizer against the reference's answers for every kind and pattern
 * (tests/golden/tokenizers): whole examples, then 10,000 hard strings each by hash; broken
 * sections; failing memory. The rules that tokenizers commonly get wrong are in
 * test_tokenizer_rules.c. */
#include "allocs.h"
#include "base/xxh64.h"
#include "golden.h"
#include "text/unicode.h"
#include "vocabulary.h"
#include "suite.h"

#include <stdio.h>

static const char *const names[] = {
    "gpt2",      "gpt2-prefix",  "llama3",     "qwen2",          "smollm2",      "added",
    "splits",    "hf-llama",     "hf-partial", "hf-gemma",       "hf-metaspace", "hf-first",
    "hf-never",  "spm",          "spm-trim",   "spm-plain",      "spm-unused",   "o200k",
    "tekken",    "deepseek2",    "deepseek3",  "deepseek-coder", "falcon",       "llamacpp",
    "command-r", "uni",          "uni-user",   "uni-coarse",     "uni-map",      "spm-map",
    "hf-uni",    "hf-uni-bytes", "hf-words",   "hf-word-bpe",    "hf-bert",      "hf-scripts",
    "qwen35",    "kimi",         "exaone-moe", "seed",           "jais2",        "youtu",
    "trinity",   "bloom",        "ufakzeka",   "ling",           "minicpm5",     "laguna",
    "cohere-moe"};
enum { N_NAMES = sizeof names / sizeof *names, CHUNK = 100, N_CHUNKS = 100, N_LISTS = 20 };

static void hash_list(struct xxh64 *h, const void *p, size_t n, size_t size)
{
    uint32_t count = (uint32_t)n;
    xxh64_update(h, &count, sizeof count);
    if (n)
        xxh64_update(h, p, n * size);
}

static void hash_text(struct xxh64 *h, const struct vocabulary *v, const int32_t *ids, size_t n,
                      int32_t skip)
{
    struct buffer text = {0};
    int32_t *kept = malloc((n + 1) * sizeof *kept);
    size_t n_kept = 0;
    ck_assert_ptr_nonnull(kept);
    for (size_t i = 0; i < n; i++)
        if (ids[i] != skip)
            kept[n_kept++] = ids[i];
    vocabulary_decode(v, kept, n_kept, false, &text);
    hash_list(h, text.p, text.n, 1);
    buffer_close(&text);
    free(kept);
}

/* The unknown token of a SentencePiece vocabulary, which the reference writes as a symbol of its
 * own. */
static int32_t unknown_of(struct vocabulary *v)
{
    const char *kind = "";
    uint64_t n = 0, unk = UINT64_MAX, f32_sums = 0;
    keys_text(&v->section_keys, "kind", &kind, &n, NULL);
    keys_u64(&v->section_keys, "unk", &unk, NULL);
    keys_u64(&v->section_keys, "f32_sums", &f32_sums, NULL);
    return f32_sums || text_is(kind, n, "spm") ? (int32_t)unk : -1;
}

static uint64_t expected(struct vocabulary *v, const char *key, size_t i, size_t want_n)
{
    const uint64_t *list = NULL;
    uint64_t n = 0;
    ck_assert_int_eq(keys_u64s(&v->keys, key, &list, &n, NULL), TERN_OK);
    ck_assert_uint_eq(n, want_n);
    return list[i];
}

/* ---- whole examples ----------------------------------------------------------------------- */

static void check_examples(struct vocabulary *v, const char *mode, unsigned flags)
{
    char key[32];
    const uint32_t *ids = NULL, *lengths = NULL;
    uint64_t n_ids = 0, n = 0;
    snprintf(key, sizeof key, "%s.ids", mode);
    keys_u32s(&v->keys, key, &ids, &n_ids, NULL);
    snprintf(key, sizeof key, "%s.lengths", mode);
    keys_u32s(&v->keys, key, &lengths, &n, NULL);
    ck_assert_uint_eq(n, v->fragments.n);
    for (uint32_t i = 0; i < n; ids += lengths[i++]) {
        const char *text = v->fragments.bytes + v->fragments.start[i];
        size_t bytes = v->fragments.start[i + 1] - v->fragments.start[i];
        int32_t *got;
        size_t n_got = vocabulary_encode(v, text, bytes, flags, &got);
        ck_assert_msg(n_got == lengths[i] && (!n_got || !memcmp(got, ids, n_got * sizeof *got)),
                      "%s mode, string %u: '%.*s'", mode, i, (int)bytes, text);
        free(got);
    }
}

START_TEST(test_examples)
{
    struct vocabulary v;
    vocabulary_open(&v, names[_i]);
    if (!v.lean) {
        check_examples(&v, "plain", 0);
        check_examples(&v, "parse", TERN_PARSE_SPECIAL);
    }
    vocabulary_close(&v);
}
END_TEST

/* ---- hard strings ------------------------------------------------------------------------- */

static void check_chunk(struct vocabulary *v, size_t chunk, int32_t unknown)
{
    struct xxh64 plain, parse, text;
    struct buffer s = {0};
    xxh64_init(&plain, 0);
    xxh64_init(&parse, 0);
    xxh64_init(&text, 0);
    for (size_t i = 0; i < CHUNK; i++) {
        int32_t *a, *b;
        hard_string(&s, v->seed, chunk * CHUNK + i, &v->fragments, &v->tokens, &v->added);
        size_t n_a = vocabulary_encode(v, s.p, s.n, 0, &a);
        size_t n_b = vocabulary_encode(v, s.p, s.n, TERN_PARSE_SPECIAL, &b);
        hash_list(&plain, a, n_a, sizeof *a);
        hash_list(&parse, b, n_b, sizeof *b);
        hash_text(&text, v, a, n_a, unknown);
        hash_text(&text, v, b, n_b, unknown);
        free(a);
        free(b);
    }
    buffer_close(&s);
    ck_assert_msg(xxh64_digest(&plain) == expected(v, "hash.plain", chunk, N_CHUNKS),
                  "plain ids of strings %zu to %zu", chunk * CHUNK, chunk * CHUNK + CHUNK - 1);
    ck_assert_msg(xxh64_digest(&parse) == expected(v, "hash.parse", chunk, N_CHUNKS),
                  "parse ids of strings %zu to %zu", chunk * CHUNK, chunk * CHUNK + CHUNK - 1);
    ck_assert_msg(xxh64_digest(&text) == expected(v, "hash.text", chunk, N_CHUNKS),
                  "texts of strings %zu to %zu", chunk * CHUNK, chunk * CHUNK + CHUNK - 1);
}

START_TEST(test_hard_strings)
{
    struct vocabulary v;
    vocabulary_open(&v, names[_i]);
    for (size_t chunk = 0; chunk < N_CHUNKS; chunk += golden_is_quick() ? 5 : 1)
        check_chunk(&v, chunk, unknown_of(&v));
    vocabulary_close(&v);
}
END_TEST

/* A text that fits is never refused, and its first ids are those of the whole: hard strings, and
 * every token 20 times in a row. */
static void check_fit(struct vocabulary *v, const struct buffer *s)
{
    int32_t *ids;
    struct tern_error e = {0};
    size_t got, n = vocabulary_encode(v, s->p, s->n, 0, &ids);
    ck_assert_msg(!tokenizer_encode(v->t, s->p, s->n, TERN_MUST_FIT, ids, n, &got, &e),
                  "%s: '%.*s'", e.text, (int)s->n, s->p);
    ck_assert_uint_eq(got, n);
    int32_t *first = malloc((n / 2 + 1) * sizeof *first);
    ck_assert(!tokenizer_encode(v->t, s->p, s->n, TOKENIZER_FIRST, first, n / 2, &got, &e));
    ck_assert(got >= n / 2 && got <= n && (n < 2 || !memcmp(first, ids, n / 2 * sizeof *ids)));
    free(first);
    free(ids);
}

START_TEST(test_what_fits)
{
    struct vocabulary v;
    struct buffer s = {0};
    vocabulary_open(&v, names[_i]);
    for (size_t i = 0; i < (golden_is_quick() ? 400 : 2000); i++) {
        hard_string(&s, v.seed, i, &v.fragments, &v.tokens, &v.added);
        check_fit(&v, &s);
    }
    for (uint32_t i = 0; i < v.tokens.n; i++) {
        s.n = 0;
        for (int k = 0; k < 20; k++)
            buffer_add(&s, v.tokens.bytes + v.tokens.start[i],
                       v.tokens.start[i + 1] - v.tokens.start[i]);
        check_fit(&v, &s);
    }
    buffer_close(&s);
    vocabulary_close(&v);
}
END_TEST

/* Random ids, without special ones, and (HF) without a byte token behind another. */
static size_t decodable(struct vocabulary *v, int32_t *ids, size_t n)
{
    const char *types = NULL;
    uint64_t n_types = 0;
    size_t kept = 0;
    bool package = unknown_of(v) < 0;
    uint64_t unk = UINT64_MAX;
    keys_text(&v->section_keys, "tokens.types", &types, &n_types, NULL);
    keys_u64(&v->section_keys, "unk", &unk, NULL);
    for (size_t i = 0; i < n; i++) {
        bool byte = types[ids[i]] == 6;
        if (!tokenizer_is_special(v->t, ids[i]) && (uint64_t)ids[i] != unk &&
            !(package && byte && kept && types[ids[kept - 1]] == 6))
            ids[kept++] = ids[i];
    }
    return kept;
}

START_TEST(test_random_ids)
{
    struct vocabulary v;
    vocabulary_open(&v, names[_i]);
    for (size_t chunk = 0; chunk < N_LISTS; chunk++) {
        struct xxh64 h;
        xxh64_init(&h, 0);
        for (size_t i = 0; i < CHUNK; i++) {
            int32_t ids[20];
            size_t n = hard_ids(ids, ~v.seed, chunk * CHUNK + i, v.tokens.n);
            hash_text(&h, &v, ids, decodable(&v, ids, n), -1);
        }
        ck_assert_msg(xxh64_digest(&h) == expected(&v, "hash.random", chunk, N_LISTS),
                      "texts of lists %zu on", chunk * CHUNK);
    }
    vocabulary_close(&v);
}
END_TEST

/* Whatever the pieces, every piece that the decoder gives is whole UTF-8. */
START_TEST(test_stream_is_utf8)
{
    struct vocabulary v;
    struct decoder *d;
    vocabulary_open(&v, names[_i]);
    ck_assert_int_eq(decoder_open(&d, v.t, true, NULL), TERN_OK);
    for (uint64_t i = 0; i < 500; i++) {
        int32_t ids[20];
        size_t n = hard_ids(ids, 99, i, v.tokens.n + 2), len;
        for (size_t k = 0; k <= n; k++) {
            const char *p = k < n ? decoder_push(d, ids[k], &len) : decoder_finish(d, &len);
            for (size_t at = 0, one; at < len; at += one)
                ck_assert_uint_ne(unicode_decode(p + at, len - at, &one), UNICODE_BAD);
        }
    }
    decoder_close(d);
    vocabulary_close(&v);
}
END_TEST

/* ---- broken sections, failing memory ------------------------------------------------------- */

/* A section cut anywhere, or with any byte of its head changed, is refused or works. */
static void survive(const char *p, size_t n)
{
    struct tokenizer *t;
    struct tern_error e = {0};
    int32_t ids[64];
    size_t got;
    if (tokenizer_open_bytes(&t, p, n, 1 << 20, &e)) {
        ck_assert(e.code == TERN_BAD_FILE && e.text[0]);
        ck_assert_ptr_null(t);
        return;
    }
    ck_assert_int_eq(tokenizer_encode(t, "<s> a\xE4\xBD\xA0\xFF 12", 12, 3, ids, 64, &got, &e), 0);
    tokenizer_close(t);
}

START_TEST(test_broken_sections)
{
    struct vocabulary v;
    vocabulary_open(&v, names[_i]);
    char *copy = malloc(v.section_bytes);
    ck_assert_ptr_nonnull(copy);
    for (uint64_t n = 0; n < v.section_bytes; n += n < 600 ? 1 : 397) {
        char *cut = malloc(n + 1); /* exact, so that a read beyond is seen */
        memcpy(cut, v.section, n);
        survive(cut, n);
        free(cut);
    }
    for (uint64_t at = 0; at < v.section_bytes; at += at < 300 ? 1 : 211)
        for (int k = 0; k < 4; k++) {
            memcpy(copy, v.section, v.section_bytes);
            copy[at] = k == 0 ? 0 : k == 1 ? (char)0xFF : (char)(copy[at] ^ 1 << (at + k) % 8);
            survive(copy, v.section_bytes);
        }
    free(copy);
    vocabulary_close(&v);
}
END_TEST

START_TEST(test_fewer_rows)
{
    struct vocabulary v;
    struct tokenizer *t;
    struct tern_error e = {0};
    size_t n;
    vocabulary_open(&v, names[_i]);
    ck_assert_int_eq(tokenizer_open_bytes(&t, v.section, v.section_bytes, v.tokens.n - 1, &e),
                     TERN_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(e.text, "rows"));
    ck_assert_int_eq(tokenizer_open_bytes(&t, v.section, v.section_bytes, v.tokens.n, &e), 0);
    ck_assert_uint_eq(tokenizer_n_tokens(t), v.tokens.n);
    tokenizer_text(t, (int32_t)v.tokens.n, &n);
    ck_assert_uint_eq(n, 0);
    tokenizer_text(t, -1, &n);
    ck_assert_uint_eq(n, 0);
    tokenizer_close(t);
    vocabulary_close(&v);
}
END_TEST

/* Open, encode and decode, each allocation failing in turn: a status, nothing lost. */
static enum tern_status use(const struct vocabulary *v, struct tern_error *e)
{
    static const char text[] = "a  e\xCC\x81\xFF <both> \xE4\xBD\xA0 the end 12";
    struct tokenizer *t;
    struct decoder *d;
    int32_t ids[256];
    size_t n = 0, len;
    enum tern_status s = tokenizer_open_bytes(&t, v->section, v->section_bytes, 1 << 20, e);
    if (s)
        return s;
    s = tokenizer_encode(t, text, sizeof text, 3, ids, 256, &n, e);
    if (!s)
        s = decoder_open(&d, t, true, e);
    for (size_t i = 0; !s && i < n; i++)
        decoder_push(d, ids[i], &len);
    if (!s)
        decoder_close(d);
    tokenizer_close(t);
    return s;
}

START_TEST(test_failing_memory)
{
    struct vocabulary v;
    struct tern_error e = {0};
    vocabulary_open(&v, names[_i]);
    for (int rest = 0; rest < 2; rest++)
        for (size_t at = 1;; at++) {
            allocs_start(at, rest);
            enum tern_status s = use(&v, &e);
            size_t live = allocs_live(), count = allocs_count();
            allocs_stop();
            ck_assert_uint_eq(live, 0);
            if (count < at)
                break;
            ck_assert_int_eq(s, TERN_NO_MEMORY);
            ck_assert_int_eq(e.code, TERN_NO_MEMORY);
        }
    vocabulary_close(&v);
}
END_TEST

SUITE("tokenizer", LOOP(test_examples, 0, N_NAMES), LOOP(test_hard_strings, 0, N_NAMES),
      LOOP(test_what_fits, 0, N_NAMES), LOOP(test_random_ids, 0, N_NAMES),
      LOOP(test_stream_is_utf8, 0, N_NAMES), LOOP(test_broken_sections, 0, N_NAMES),
      LOOP(test_fewer_rows, 0, N_NAMES), LOOP(test_failing_memory, 0, N_NAMES))
