/* A long chat with a hybrid model whose thoughts are dropped from the history: what is evaluated again
 * in each turn, and that the logits stay those of a fresh run. The ids of a real vocabulary are
 * folded into the golden model's small one. */
#include "engine/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xxh64.h"
#include "golden.h"
#include "suite.h"
#include "text/chat.h"
#include "vocabulary.h"

enum { TURNS = 20, N_CTX = 4096, AGAIN = 256, MODELS = 2, TEXT = 4096 };

static const char *const names[MODELS] = {"qwen3-next", "nemotron-h"}; /* 5 and 4 snapshots */

/* What asks for an answer either stays in the history ("<|im_start|>assistant\n") or does not: an
 * empty thought behind it, as some templates begin one. */
static const unsigned asks[] = {TERN_CHAT_GENERATE | TERN_CHAT_THINK,
                                TERN_CHAT_GENERATE | TERN_CHAT_NO_THINK};

static struct {
    struct vocabulary v;
    struct chat *chat;
    struct tern_chat_message said[2 * TURNS];
    char texts[2 * TURNS][TEXT];
    size_t n;
    char path[256];
    size_t vocab;
    tern_model *model;
    tern_token ids[N_CTX];
} t;

static tern_context *context(void)
{
    struct tern_context_params p = {.n_ctx = N_CTX, .n_batch = 128};
    struct tern_error e = {0};
    tern_context *c;
    ck_assert_msg(!tern_context_open(&c, t.model, &p, &e), "%s", e.text);
    return c;
}

static void setup(void)
{
    struct tern_error e = {0};
    vocabulary_open(&t.v, "smollm2");
    ck_assert_msg(!chat_open_builtin(&t.chat, t.v.t, "qwen3", &e), "%s", e.text);
}

static void teardown(void)
{
    chat_close(t.chat);
    vocabulary_close(&t.v);
}

static void open_model(int i)
{
    static struct golden g;
    struct tern_error e = {0};
    struct tern_model_params p = {.n_threads = 1};
    golden_read(&g, names[i]);
    golden_write(t.path, sizeof t.path, &g, TERN_Q8);
    t.vocab = g.vocab, t.n = 0;
    golden_close(&g);
    ck_assert_msg(!tern_model_open(&t.model, t.path, &p, &e), "%s", e.text);
}

static void close_model(void)
{
    tern_model_close(t.model);
    unlink(t.path);
}

/* Words that a turn begins with its number, behind what the text holds */
static void add_words(char *text, size_t turn, size_t words)
{
    for (size_t i = 0, n = strlen(text); i < words && n + 16 < TEXT; i++, n = strlen(text))
        snprintf(text + n, TEXT - n, "%zu word ", turn * 7 + i);
}

static struct tern_chat_message *say(const char *role)
{
    char *text = t.texts[t.n];
    t.said[t.n] = (struct tern_chat_message){.role = role, .text = text};
    *text = 0;
    return &t.said[t.n++];
}

/* The conversation's ids, with the question for an answer */
static size_t render(unsigned flags)
{
    struct chat_text out = {0};
    struct tern_error e = {0};
    size_t n;
    ck_assert_msg(!chat_render(t.chat, t.said, t.n, flags, &out, &e), "%s", e.text);
    ck_assert_msg(!chat_encode(t.chat, &out, t.ids, N_CTX, &n, &e), "%s", e.text);
    ck_assert_uint_le(n, N_CTX);
    for (size_t i = 0; i < n; i++)
        t.ids[i] = (tern_token)((size_t)t.ids[i] % t.vocab);
    chat_text_close(&out);
    return n;
}

/* The prompt as tern_generate evaluates it, and an answer of these ids, token by token */
static void generate(tern_context *c, const tern_token *prompt, size_t n, const char *answer)
{
    struct tern_generate_params g = tern_generate_defaults();
    struct tern_generate_result r;
    struct tern_error e = {0};
    int32_t *ids;
    size_t n_ids = vocabulary_encode(&t.v, answer, strlen(answer), 0, &ids);
    g.tokens = prompt, g.n_tokens = n, g.n_predict = 0;
    ck_assert_msg(!tern_generate(c, &g, &r, &e), "%s", e.text);
    for (size_t i = 0; i < n_ids; i++) {
        tern_token id = (tern_token)((size_t)ids[i] % t.vocab);
        ck_assert(!tern_batch_add(c, 0, id, TERN_ROW_LOGITS, NULL) && !tern_forward(c));
    }
    free(ids);
}

/* A turn; returns how many tokens of the text before are evaluated again. */
static size_t take_turn(tern_context *c, size_t turn, unsigned flags)
{
    struct tern_chat_message *m = say("user");
    add_words(t.texts[t.n - 1], turn, turn % 5 ? 3 + 11 * turn % 40 : 1);
    m->bytes = strlen(m->text);
    size_t n = render(flags), common = 0, length = tern_seq_length(c, 0);
    const tern_token *held = tern_seq_tokens(c, 0);
    while (common < length && common + 1 < n && held[common] == t.ids[common])
        common++;
    size_t kept = tern_seq_reuse(c, 0, t.ids, n);
    m = say("assistant");
    strcpy(t.texts[t.n - 1], "<think>\n");
    add_words(t.texts[t.n - 1], turn, 30 + 97 * turn % 130);
    strcat(t.texts[t.n - 1], "\n</think>\n\n");
    add_words(t.texts[t.n - 1], turn, 5 + turn % 4);
    m->bytes = strlen(m->text);
    generate(c, t.ids + kept, n - kept, m->text);
    return common - kept;
}

static uint64_t hash(tern_context *c)
{
    return xxh64(tern_logits(c, 0), t.vocab * sizeof(float));
}

/* The last turn's logits, behind all that was reused, are those of its text alone. */
START_TEST(a_turn_evaluates_little_again)
{
    open_model(_i % MODELS);
    tern_context *c = context(), *fresh = context();
    for (size_t turn = 0; turn < (golden_is_quick() ? 5 : TURNS); turn++) {
        size_t again = take_turn(c, turn, asks[_i / MODELS]);
        ck_assert_msg(again <= AGAIN, "turn %zu evaluates %zu tokens again", turn, again);
    }
    memcpy(t.ids, tern_seq_tokens(c, 0), tern_seq_length(c, 0) * sizeof *t.ids);
    generate(fresh, t.ids, tern_seq_length(c, 0), "");
    ck_assert_uint_eq(hash(c), hash(fresh));
    tern_context_close(fresh);
    tern_context_close(c);
    close_model();
}
END_TEST

SUITE("chat turns", AROUND_ALL(setup, teardown), LOOP(a_turn_evaluates_little_again, 0, golden_few(2 * MODELS)))
