/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* Key blocks: what was written is read, and each limit holds to the last byte. test_malformed.c
 * damages a whole file's keys. */
#include "allocs.h"
#include "suite.h"
#include "weights/keywriter.h"

#include <stdio.h>

static struct keywriter block;
static struct keys keys;
static struct tern_error e;

static void setup(void)
{
    allocs_start(0, 0);
    keywriter_init(&block);
    e = (struct tern_error){TERN_OK, ""};
}

static void teardown(void)
{
    for (int twice = 0; twice < 2; twice++) {
        keywriter_close(&block);
        keys_close(&keys);
    }
    ck_assert_uint_eq(allocs_live(), 0);
}

static enum tern_status parse(void)
{
    keys_close(&keys);
    enum tern_status s = keys_parse(&keys, "part", block.data, block.bytes, &e);
    ck_assert(!s || (!keys.list && !keys.n)); /* what is refused leaves nothing */
    return s;
}

static void good(void)
{
    ck_assert_msg(!parse(), "%s", e.text);
}

static void expect(enum tern_status got, const char *text)
{
    ck_assert_msg(got == TERN_BAD_FILE && e.code == got, "status %d: %s", got, e.text);
    ck_assert_msg(strstr(e.text, text) && strstr(e.text, "'part'"), "'%s' lacks '%s'", e.text,
                  text);
}

/* One key of `name_bytes` letters; a value of every type, of 0 .. 9 elements, in turn. */
static const enum key_type types[] = {KEY_U64, KEY_F32, KEY_TEXT, KEY_U32};
static const size_t width[] = {8, 4, 1, 4};
static unsigned char values[80];

static void name_of(char *name, size_t bytes)
{
    memset(name, 'a' + (int)(bytes % 26), bytes);
    name[bytes] = 0;
}

START_TEST(what_is_written_is_read)
{
    enum { LONGEST = 256 };
    char name[LONGEST + 2];
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (unsigned char)(i + 1); /* no zero, which is padding */
    for (size_t n = 1; n <= LONGEST; n++) {
        name_of(name, n);
        keywriter_add(&block, name, n % 2, types[n % 4], values, n % 10);
    }
    ck_assert(!block.failed);
    good();
    ck_assert_uint_eq(keys.n, LONGEST);
    for (size_t n = 1; n <= LONGEST; n++) {
        name_of(name, n);
        const struct key *k = keys_find(&keys, name);
        ck_assert_msg(k != NULL, "a name of %zu bytes", n);
        ck_assert(k->type == types[n % 4] && k->critical == n % 2 && k->used);
        ck_assert(k->count == n % 10 && !memcmp(k->values, values, n % 10 * width[n % 4]));
        name[n] = name[n - 1], name[n + 1] = 0; /* another name that begins like it */
        if (n == LONGEST)
            ck_assert_ptr_null(keys_find(&keys, name));
    }
    name_of(name, LONGEST + 1);
    keywriter_u64(&block, name, 1);
    expect(parse(), "key 256: its name is longer than 256 bytes");
}
END_TEST

START_TEST(getters_check_type_and_count)
{
    float f = 2.5f, fs = 0;
    uint64_t u = 7, n = 0, count = 99;
    const float *floats = NULL;
    const uint64_t *numbers = NULL;
    const uint32_t *smalls = NULL;
    const char *text = NULL;
    keywriter_u64(&block, "number", 5);
    keywriter_f32(&block, "float", f);
    keywriter_text(&block, "text", "abc");
    keywriter_add(&block, "small", true, KEY_U32, &f, 1);
    keywriter_add(&block, "none", true, KEY_U64, &u, 0);
    keywriter_add(&block, "two", true, KEY_F32, &u, 2);
    good();
    expect(keys_unknown(&keys, &e), "key 'number' is needed and unknown");
    ck_assert(!keys_u64(&keys, "number", &n, &e) && n == 5);
    ck_assert(!keys_f32(&keys, "float", &fs, &e) && !memcmp(&fs, &f, sizeof f));
    ck_assert(!keys_text(&keys, "text", &text, &count, &e) && text_is(text, count, "abc"));
    ck_assert(!text_is(text, count, "ab") && !text_is(text, count, "abd"));
    ck_assert(!keys_u32s(&keys, "small", &smalls, &count, &e) && count == 1);
    ck_assert(!memcmp(smalls, &f, sizeof f));
    expect(keys_unknown(&keys, &e), "key 'none' is needed and unknown");
    ck_assert(!keys_u64s(&keys, "none", &numbers, &count, &e) && count == 0);
    ck_assert(!keys_f32s(&keys, "two", &floats, &count, &e) && count == 2);
    ck_assert_int_eq(keys_unknown(&keys, &e), TERN_OK);
    expect(keys_u64(&keys, "none", &n, &e), "key 'none': 0 values, want one");
    expect(keys_f32(&keys, "two", &fs, &e), "key 'two': 2 values, want one");
    expect(keys_f32(&keys, "number", &fs, &e), "key 'number': it is u64, want f32");
    expect(keys_u64(&keys, "float", &n, &e), "key 'float': it is f32, want u64");
    expect(keys_text(&keys, "small", &text, &count, &e), "key 'small': it is u32, want text");
    expect(keys_u32s(&keys, "text", &smalls, &count, &e), "key 'text': it is text, want u32");
    expect(keys_u64s(&keys, "two", &numbers, &count, &e), "key 'two': it is f32, want u64");
    expect(keys_f32s(&keys, "none", &floats, &count, &e), "key 'none': it is u64, want f32");
    ck_assert(!keys_u64(&keys, "absent", &n, &e) && n == 5); /* stays as it was */
    ck_assert(!keys_f32(&keys, "absent", &fs, &e) && !memcmp(&fs, &f, sizeof f));
    count = 99;
    ck_assert(!keys_u32s(&keys, "absent", &smalls, &count, &e) && smalls && count == 99);
}
END_TEST

/* Only what is critical must be asked for. */
START_TEST(a_key_that_is_not_critical_may_be_unknown)
{
    keywriter_add(&block, "any", false, KEY_TEXT, "x", 1);
    good();
    ck_assert_int_eq(keys_unknown(&keys, &e), TERN_OK);
}
END_TEST

START_TEST(names_are_printable_and_differ)
{
    char name[2] = "";
    for (int c = 0; c < 256; c++) {
        keywriter_close(&block);
        keywriter_init(&block);
        name[0] = (char)c;
        keywriter_u64(&block, name, 1);
        if (c > ' ' && c < 127)
            good();
        else
            expect(parse(), "key 0: its name is cut or not plain text");
    }
    keywriter_close(&block);
    keywriter_init(&block);
    keywriter_u64(&block, "abc", 1);
    keywriter_u64(&block, "abd", 1);
    keywriter_u64(&block, "ab", 1);
    keywriter_u64(&block, "bbc", 1);
    good();
    keywriter_u64(&block, "abd", 1);
    expect(parse(), "key 4: a key of this name came before");
}
END_TEST

START_TEST(a_block_has_at_most_1024_keys)
{
    char name[16];
    for (size_t i = 0; i < 1025; i++) {
        snprintf(name, sizeof name, "%zu", i);
        keywriter_add(&block, name, true, KEY_U64, NULL, 0); /* the smallest there is */
        if (i == 1023)
            good();
    }
    expect(parse(), "its key count does not fit its 41008 bytes");
    static const uint64_t none;
    allocs_start(1, 0);
    enum tern_status s = keys_parse(&keys, "part", &none, sizeof none, &e);
    allocs_stop();
    ck_assert_int_eq(s, TERN_NO_MEMORY);
    ck_assert(!keys_parse(&keys, "part", &none, sizeof none, &e) && keys.n == 0);
    keys_close(&keys);
    expect(keys_parse(&keys, "part", &none, 7, &e), "its key count does not fit its 7 bytes");
}
END_TEST

/* As in a list of strings; and a key that could not be added leaves the ones before it. */
START_TEST(a_failed_block_stays_failed)
{
    keywriter_u64(&block, "first", 1);
    size_t bytes = block.bytes;
    allocs_start(1, 1);
    while (!block.failed) {
        bytes = block.bytes;
        keywriter_add(&block, "more", true, KEY_U64, values, 10);
    }
    allocs_stop();
    ck_assert_uint_lt(block.bytes - bytes, 32 + 8 + 80);
    bytes = block.bytes;
    keywriter_u64(&block, "x", 1);
    ck_assert(block.failed && block.bytes == bytes);
    keywriter_close(&block);
    allocs_start(1, 0);
    keywriter_init(&block);
    keywriter_u64(&block, "x", 1);
    allocs_stop();
    ck_assert(block.failed && !block.bytes);
}
END_TEST

SUITE("keys", AROUND_EACH(setup, teardown), TEST(what_is_written_is_read),
      TEST(getters_check_type_and_count), TEST(a_key_that_is_not_critical_may_be_unknown),
      TEST(names_are_printable_and_differ), TEST(a_block_has_at_most_1024_keys),
      TEST(a_failed_block_stays_failed))
