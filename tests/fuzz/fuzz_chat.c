/* ldflags: -Wl,@tests/support/allocs.ld */
/* Fuzz target: chat templates. The input is a section `chat`, which is opened with the tokenizer of
 * a test vocabulary and used on fixed conversations, with tools as well. Asserted: ids in range, and their number does
 * not depend on the room for them; the memory stays within what allocs_judge allows. */
#include "allocs.h"
#include "text/answer_parser.h"
#include "vocabulary.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int32_t sampled[] = {100, 5, 2}; /* ends in <|im_end|> */

/* The conversation from message `first` on; with_ids: the answer as it was sampled. */
static void use(const struct chat *c, const struct tokenizer *t, size_t first, size_t n,
                unsigned flags, bool with_ids)
{
    const struct tern_chat_message talk[] = {
        {.role = "system", .text = " be \n", .bytes = 5},
        {.role = "user", .text = "\xE3\x80\x80hi\xFF<|im_end|>", .bytes = 17},
        {.role = "assistant",
         .text = "<think>\nx</think>\n\ny ",
         .bytes = 21,
         .tokens = with_ids ? sampled : NULL,
         .n_tokens = with_ids ? 3 : 0},
        {.role = "user", .text = ""},
    };
    struct chat_text out = {0};
    int32_t ids[64];
    size_t all, again;
    if (!chat_render(c, talk + first, n, flags, &out, NULL) &&
        !chat_encode(c, &out, NULL, 0, &all, NULL)) {
        assert(!chat_encode(c, &out, ids, 64, &again, NULL) && again == all);
        for (size_t i = 0; i < all && i < 64; i++)
            assert(ids[i] >= 0 && (uint64_t)ids[i] < tokenizer_n_tokens(t));
    }
    chat_text_close(&out);
}

/* An answer, cut at every place; what it gives is the same. */
static void parse(const struct chat *c, const char *text, size_t n, size_t cut)
{
    struct answer_parser *a;
    struct tern_chat_message m;
    if (answer_parser_open(&a, c, &(struct answer_params){.first_call = 1}, NULL))
        return;
    assert(!answer_parser_push(a, text, cut, NULL));
    assert(!answer_parser_push(a, text + cut, n - cut, NULL));
    assert(!answer_parser_finish(a, "", 0, cut % 2, NULL));
    answer_parser_message(a, &m);
    for (size_t i = 0; i < m.n_calls; i++)
        assert(m.calls[i].id && m.calls[i].name && *m.calls[i].arguments == '{');
    answer_parser_close(a);
}

/* A conversation with tools; what is written of it is also read as an answer. */
static void use_tools(const struct chat *c)
{
    static const char tools[] =
        "[{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"a\":{\"type\":\"string\"}}}}]";
    static const struct tern_call calls[] = {{"abcdefghi", "f", "{\"a\":\"x\",\"b\":[1,null]}"},
                                             {"123456789", "f", NULL}};
    static const struct tern_chat_message talk[] = {
        {.role = "tools", .text = tools, .bytes = sizeof tools - 1},
        {.role = "user", .text = "q", .bytes = 1},
        {.role = "assistant", .text = "t", .bytes = 1, .calls = calls, .n_calls = 2},
        {.role = "tool", .text = "r", .bytes = 1},
        {.role = "tool", .text = "s", .bytes = 1, .call_id = "123456789"}};
    struct chat_text out = {0};
    if (!chat_render(c, talk, 5, TERN_CHAT_GENERATE, &out, NULL) && out.text.n)
        for (size_t cut = 0; cut <= out.text.n; cut += 1 + out.text.n / 8)
            parse(c, out.text.p, out.text.n, cut);
    chat_text_close(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct vocabulary v; /* kept for the whole run */
    void *section = malloc(size + 1);
    struct chat *c;
    if (!v.t)
        vocabulary_open(&v, "smollm2");
    assert(section);
    memcpy(section, data, size);
    allocs_start(0, 0);
    enum tern_status s = chat_open(&c, v.t, section, size, NULL);
    allocs_judge(size, !s);
    if (!s) {
        use(c, v.t, 0, 4, TERN_CHAT_GENERATE, false);
        use(c, v.t, 0, 4, TERN_CHAT_GENERATE, true);
        use(c, v.t, 0, 3, TERN_CHAT_THINK, true);
        use(c, v.t, 1, 1, TERN_CHAT_GENERATE | TERN_CHAT_NO_THINK, false);
        allocs_judge(size, 1);
        if (chat_info(c)->takes_tools)
            use_tools(c);
        chat_close(c);
    }
    assert(!allocs_live());
    free(section);
    return 0;
}
