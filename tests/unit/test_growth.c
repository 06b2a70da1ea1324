/* ldflags: -Wl,@tests/support/allocs.ld */
/* Steps and rules that multiply: 16 steps that each write 256 bytes for one would make 2^128 of a
 * byte. Every list is refused with its own sentence, in little memory; what real tokenizers write
 * stays allowed. ADDING A STEP that makes texts longer: a row of `steps`. */
#include "allocs.h"
#include "suite.h"
#include "text/chat.h"
#include "text/growth.h"
#include "weights/keywriter.h"

#include <stdio.h>

enum { LONG = 256 }; /* bytes of a replacement */

static const struct {
    const char *list, *name;
    bool from, map, scheme;
} steps[] = {
    {"normalizer", "replace", true, false, false},
    {"normalizer", "replace_runs", true, false, false},
    {"normalizer", "charsmap", false, true, false},
    {"normalizer", "prepend", false, false, false},
    {"pre", "metaspace", false, false, true},
};
enum { REPLACE, RUNS, CHARSMAP, PREPEND, METASPACE, N_STEPS };

static void add(struct keywriter *k, const char *step, const char *parameter, enum key_type type,
                const void *values, uint64_t count)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", step, parameter);
    keywriter_add(k, name, true, type, values, count);
}

/* Step `number` of the kind: every space becomes `to` [n] */
static void add_step(struct keywriter *k, int kind, int number, const char *to, uint32_t n)
{
    const uint64_t zero = 0, always = 2;
    const uint32_t one = 1;
    char name[32];
    snprintf(name, sizeof name, "%s.%d", steps[kind].list, number);
    keywriter_text(k, name, steps[kind].name);
    if (steps[kind].from)
        add(k, name, "from", KEY_TEXT, " ", 1), add(k, name, "to", KEY_TEXT, to, n);
    if (!steps[kind].from && !steps[kind].map)
        add(k, name, "text", KEY_TEXT, to, n);
    if (steps[kind].scheme)
        add(k, name, "scheme", KEY_U64, &always, 1), add(k, name, "split", KEY_U64, &zero, 1);
    if (!steps[kind].map)
        return;
    add(k, name, "graphemes", KEY_U64, &zero, 1);
    add(k, name, "from.bytes", KEY_TEXT, " ", 1), add(k, name, "from.lengths", KEY_U32, &one, 1);
    add(k, name, "to.bytes", KEY_TEXT, to, n), add(k, name, "to.lengths", KEY_U32, &n, 1);
}

/* Tokens: a space, <s>, which stands for the added token `text` [2], and one of 4096 bytes. */
static void begin(struct keywriter *k, const char *text, uint32_t flags)
{
    static const uint32_t lengths[] = {1, 3, 4096}, added[] = {1}, two[] = {2};
    static char tokens[1 + 3 + 4096] = " <s>";
    memset(tokens + 4, 'e', 4096);
    keywriter_init(k);
    keywriter_text(k, "kind", "bpe");
    keywriter_add(k, "tokens.bytes", true, KEY_TEXT, tokens, sizeof tokens);
    keywriter_add(k, "tokens.lengths", true, KEY_U32, lengths, 3);
    keywriter_add(k, "tokens.types", true, KEY_TEXT, "\1\0\3", 3);
    keywriter_u64(k, "unk", 0);
    keywriter_u64(k, "bos", 2);
    keywriter_u64(k, "eos", 2);
    keywriter_add(k, "added.ids", true, KEY_U32, added, 1);
    keywriter_add(k, "added.bytes", true, KEY_TEXT, text, 2);
    keywriter_add(k, "added.lengths", true, KEY_U32, two, 1);
    keywriter_add(k, "added.flags", true, KEY_U32, &flags, 1);
}

static enum tern_status open(struct tokenizer **t, const struct keywriter *k, struct tern_error *e)
{
    ck_assert(!k->failed);
    allocs_start(0, 0);
    return tokenizer_open_bytes(t, k->data, k->bytes, 100, e);
}

static void ck_refused(enum tern_status got, enum tern_status want, const struct tern_error *e,
                       const char *word, size_t bytes)
{
    ck_assert_int_eq(got, want);
    ck_assert_int_eq(e->code, want);
    ck_assert_msg(strstr(e->text, word) != NULL, "'%s' does not say '%s'", e->text, word);
    ck_assert_uint_le(allocs_peak(), 4 * bytes + (1 << 20));
}

/* At run time: 16 steps, each the space of the one before into 256. */
START_TEST(test_text)
{
    char to[LONG], text[2000];
    struct keywriter k;
    struct tokenizer *t;
    struct tern_error e = {0};
    size_t n;
    memset(to, ' ', sizeof to);
    memset(text, ' ', sizeof text);
    begin(&k, "ab", 0);
    for (int i = 0; i < STEPS_MAX; i++)
        add_step(&k, _i, i, to, LONG);
    ck_assert_msg(open(&t, &k, &e) == TERN_OK, "%s", e.text);
    /* these write 256 bytes for a text between added tokens, and for a run of spaces */
    for (size_t i = 0; i < sizeof text && (_i == PREPEND || _i == RUNS); i += 4)
        memcpy(text + i, "ab  ", 4);
    ck_refused(tokenizer_encode(t, text, sizeof text, 0, NULL, 0, &n, &e), TERN_LIMIT, &e,
               "of a text of 2000 bytes", k.bytes);
    ck_assert(allocs_live() > 0);
    tokenizer_close(t);
    ck_assert_uint_eq(allocs_live(), 0);
    keywriter_close(&k);
}
END_TEST

/* At load: through an added token that is looked for in its normalized form. A run does not
 * multiply: it stays one. */
START_TEST(test_added)
{
    static const int multiply[] = {REPLACE, CHARSMAP, PREPEND};
    char to[LONG];
    struct keywriter k;
    struct tokenizer *t;
    struct tern_error e = {0};
    memset(to, ' ', sizeof to);
    begin(&k, "  ", 16);
    for (int i = 0; i < STEPS_MAX; i++)
        add_step(&k, multiply[_i], i, to, LONG);
    enum tern_status s = open(&t, &k, &e);
    ck_refused(s, TERN_BAD_FILE, &e, "added tokens too long", k.bytes);
    ck_assert_uint_eq(allocs_live(), 0);
    keywriter_close(&k);
}
END_TEST

/* A text may become GROWTH times as long, and GROWTH_MORE, not a byte more. */
START_TEST(test_exact)
{
    char to[GROWTH + 1], text[GROWTH_MORE + 1];
    struct keywriter k;
    struct tokenizer *t;
    struct tern_error e = {0};
    size_t n;
    memset(to, ' ', sizeof to);
    memset(text, ' ', sizeof text);
    begin(&k, "ab", 0);
    add_step(&k, REPLACE, 0, to, GROWTH + 1);
    ck_assert_msg(open(&t, &k, &e) == TERN_OK, "%s", e.text);
    ck_assert_int_eq(tokenizer_encode(t, text, GROWTH_MORE, 0, NULL, 0, &n, &e), TERN_OK);
    ck_assert_int_eq(tokenizer_encode(t, text, GROWTH_MORE + 1, 0, NULL, 0, &n, &e), TERN_LIMIT);
    tokenizer_close(t);
    keywriter_close(&k);
    ck_assert_uint_eq(growth_of((size_t)1 << 30).limit, INT32_MAX);
}
END_TEST

/* A word that surely has too many tokens is refused before it takes 40 bytes for each of its own. */
START_TEST(test_must_fit)
{
    enum { BYTES = 4 << 20, LONGEST = 4 * 4096 }; /* unknown characters may have 4 bytes */
    char *text = malloc(BYTES);
    struct keywriter k;
    struct tokenizer *t;
    struct tern_error e = {0};
    int32_t ids[BYTES / LONGEST];
    size_t n;
    ck_assert_ptr_nonnull(text);
    memset(text, 'e', BYTES);
    begin(&k, "ab", 0);
    ck_assert_msg(open(&t, &k, &e) == TERN_OK, "%s", e.text);
    enum tern_status s =
        tokenizer_encode(t, text, BYTES, TERN_MUST_FIT, ids, BYTES / LONGEST - 1, &n, &e);
    ck_refused(s, TERN_LIMIT, &e, "at least 256 tokens, and there is room for 255", k.bytes);
    s = tokenizer_encode(t, text, BYTES, TERN_MUST_FIT, ids, BYTES / LONGEST, &n, &e);
    ck_assert_int_eq(s, TERN_OK);
    ck_assert_uint_eq(n, BYTES);
    tokenizer_close(t);
    keywriter_close(&k);
    free(text);
}
END_TEST

/* Chat rules: each byte may stand for a token of 4096 bytes, or for the whole message. */
START_TEST(test_chat)
{
    enum { N = 100000 };
    static const struct {
        char byte;
        unsigned most;
    } rows[] = {{CHAT_BOS, 32}, {CHAT_WHOLE, 8}, {CHAT_INSTRUCT, 8}};
    static char rule[N];
    static const uint32_t when[] = {3, 0, 3, 1, 3, 2};
    struct keywriter k, section;
    struct tokenizer *t;
    struct chat *c;
    struct tern_error e = {0};
    begin(&k, "ab", 0);
    ck_assert_msg(open(&t, &k, &e) == TERN_OK, "%s", e.text);
    for (uint32_t n = rows[_i].most; n <= N; n = n == rows[_i].most ? n + 1 : n == N ? n + 1 : N) {
        uint32_t lengths[] = {n, 0, 0};
        memset(rule, rows[_i].byte, n);
        keywriter_init(&section);
        keywriter_add(&section, "rules.when", true, KEY_U32, when, 6);
        keywriter_add(&section, "rules.lengths", true, KEY_U32, lengths, 3);
        keywriter_add(&section, "rules.text", true, KEY_TEXT, rule, n);
        allocs_start(0, 0);
        enum tern_status s = chat_open(&c, t, section.data, section.bytes, &e);
        if (n == rows[_i].most)
            ck_assert_msg(s == TERN_OK, "%s", e.text), chat_close(c);
        else
            ck_refused(s, TERN_BAD_FILE, &e, "more than 32 special tokens", section.bytes);
        ck_assert_uint_le(allocs_peak(), 4 * section.bytes + (1 << 20));
        keywriter_close(&section);
    }
    tokenizer_close(t);
    keywriter_close(&k);
}
END_TEST

SUITE("growth", LOOP(test_text, 0, N_STEPS), LOOP(test_added, 0, 3), TEST(test_exact),
      TEST(test_must_fit), LOOP(test_chat, 0, 3))
