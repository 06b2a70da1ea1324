/* What the suites of chat templates share: see chat_rules.h. */
#include "chat_rules.h"

#include "suite.h"

struct vocabulary rules_vocabulary;

void rules_setup(void)
{
    vocabulary_open(&rules_vocabulary, "smollm2");
}

void rules_teardown(void)
{
    vocabulary_close(&rules_vocabulary);
}

const struct rule rules_plain[RULES_PLAIN] = {
    {0x107, 0x104, "S:\5\nU:\2" STOP},
    {3, 0, START "U:\6\2\0078" STOP},
    {0x83, 0x81, START "A:\6\3\0071" STOP},
    {3, 1, START "A:\2" STOP},
    {0x803, 0x802, START "A:"},
    {3, 2, ""},
};

struct keywriter rules_section(const struct rule *rules, size_t n, uint64_t thinking)
{
    struct keywriter k;
    struct buffer text = {0};
    uint32_t when[32], lengths[16];
    for (size_t i = 0; i < n; i++) {
        when[2 * i] = rules[i].mask;
        when[2 * i + 1] = rules[i].value;
        lengths[i] = (uint32_t)strlen(rules[i].text);
        ck_assert(buffer_add(&text, rules[i].text, lengths[i]));
    }
    keywriter_init(&k);
    keywriter_text(&k, "name", "test");
    keywriter_u64(&k, "thinking", thinking);
    keywriter_add(&k, "rules.when", true, KEY_U32, when, 2 * n);
    keywriter_add(&k, "rules.lengths", true, KEY_U32, lengths, n);
    keywriter_add(&k, "rules.text", true, KEY_TEXT, text.p, text.n);
    ck_assert(!k.failed);
    buffer_close(&text);
    return k;
}

struct chat *rules_open(const struct rule *rules, size_t n, uint64_t thinking, struct keywriter *k)
{
    struct chat *c;
    struct tern_error e = {0};
    *k = rules_section(rules, n, thinking);
    ck_assert_msg(chat_open(&c, rules_vocabulary.t, k->data, k->bytes, &e) == TERN_OK, "%s",
                  e.text);
    return c;
}

void rules_write(const struct chat *c, const struct tern_chat_message *m, size_t n, unsigned flags,
                 const char *want)
{
    struct chat_text out = {0};
    struct tern_error e = {0};
    ck_assert_msg(chat_render(c, m, n, flags, &out, &e) == TERN_OK, "%s", e.text);
    ck_assert_msg(out.text.n == strlen(want) && memcmp(out.text.p, want, out.text.n) == 0,
                  "got '%.*s', want '%s'", (int)out.text.n, out.text.p, want);
    chat_text_close(&out);
}

size_t rules_ids(const struct chat *c, const struct tern_chat_message *m, size_t n, unsigned flags,
                 int32_t *ids, size_t max)
{
    struct chat_text out = {0};
    size_t n_ids;
    ck_assert_int_eq(chat_render(c, m, n, flags, &out, NULL), TERN_OK);
    ck_assert_int_eq(chat_encode(c, &out, ids, max, &n_ids, NULL), TERN_OK);
    chat_text_close(&out);
    return n_ids;
}
