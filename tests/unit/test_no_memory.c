/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* Every allocation fails in turn, alone and with all after it, in what a program does with a model:
 * TERN_NO_MEMORY or success, no block is left, and what was open is as it was. Files, tokenizers
 * and the quantizer's parts have such tests in test_weights.c, test_tokenizer.c and test_quantize.c.
 * ADDING A SCENARIO: a function, and a row of `scenarios`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocs.h"
#include "app/run/conversation.h"
#include "suite.h"
#include "tern_lab.h"
#include "toy.h"

static const char model_path[] = "models/fable.bin", text[] = "The cat sat on the mat. The cat";
static const struct tern_model_params one_thread = {.n_threads = 1};
static const struct tern_context_params small = {.n_ctx = 96, .n_batch = 8};

static tern_model *model;
static tern_context *context, *draft;
static struct conversation talk;
static char session[256], messages[256], toy_model[256], made[256];
static tern_token held[64];
static size_t n_held;
static bool kept = true; /* what a refused file must leave; Check itself takes memory */

/* ---- scenarios ---- */

static enum tern_status open_model(struct tern_error *e)
{
    tern_model *m = NULL;
    tern_context *c = NULL;
    enum tern_status s = tern_model_open(&m, model_path, &one_thread, e);
    if (!s)
        s = tern_context_open(&c, m, &small, e);
    tern_context_close(c);
    tern_model_close(m);
    return s;
}

static enum tern_status write_tokens(struct tern_error *e)
{
    tern_decoder *d = NULL;
    tern_token ids[64];
    size_t n = 0, len;
    enum tern_status s = tern_tokenize(model, text, strlen(text), 0, ids, 64, &n, e);
    if (!s)
        s = tern_decoder_open(&d, model, 1, e);
    for (size_t i = 0; !s && i < n; i++)
        tern_decoder_push(d, ids[i], &len);
    tern_decoder_close(d);
    return s;
}

static enum tern_status render_chat(struct tern_error *e)
{
    tern_token ids[64];
    char written[256];
    size_t n;
    enum tern_status s = tern_chat_use(model, tern_chat_builtin(0), e);
    if (!s)
        s = tern_chat_tokens(model, talk.list + 1, talk.n - 1, 0, ids, 64, &n, e);
    if (!s)
        s = tern_chat_text(model, talk.list + 1, talk.n - 1, 0, written, sizeof written, &n, e);
    return s;
}

static enum tern_status save_session(struct tern_error *e)
{
    return tern_session_save(context, 0, session, e);
}

static enum tern_status load_session(struct tern_error *e)
{
    return tern_session_load(context, 0, session, e);
}

static enum tern_status save_conversation(struct tern_error *e)
{
    return conversation_save(&talk, messages, e);
}

static enum tern_status load_conversation(struct tern_error *e)
{
    struct conversation c;
    enum tern_status s = conversation_open(&c, e);
    if (s)
        return s;
    s = conversation_load(&c, messages, e);
    kept = c.n == (s ? 1 : talk.n);
    conversation_close(&c);
    return s;
}

static enum tern_status generate(struct tern_generate_params p, struct tern_error *e)
{
    static const char *const stop[] = {"never written"};
    struct tern_sampler_params sampler = tern_sampler_defaults(model);
    struct tern_generate_result result;
    sampler.repeat_penalty = 1.1f, sampler.dry_multiplier = 0.8f, sampler.typical_p = 0.9f;
    p.sampler = &sampler;
    p.prompt = text, p.prompt_bytes = strlen(text);
    p.n_predict = 4, p.stop = stop, p.n_stop = 1, p.seq = 1;
    enum tern_status s = tern_generate(context, &p, &result, e);
    tern_seq_keep(context, 1, 0);
    return s;
}

static enum tern_status generate_alone(struct tern_error *e)
{
    return generate(tern_generate_defaults(), e);
}

static enum tern_status generate_with_lookup(struct tern_error *e)
{
    struct tern_generate_params p = tern_generate_defaults();
    p.lookup = 4;
    return generate(p, e);
}

static enum tern_status generate_with_draft(struct tern_error *e)
{
    struct tern_generate_params p = tern_generate_defaults();
    p.draft = draft;
    return generate(p, e);
}

static enum tern_status quantize(struct tern_error *e)
{
    struct tern_quantize_params p = {.type = TERN_Q4, .n_threads = 1};
    return tern_quantize(toy_model, made, &p, e);
}

static const struct {
    const char *name;
    enum tern_status (*run)(struct tern_error *e);
} scenarios[] = {
    {"open a model", open_model},
    {"tokenize", write_tokens},
    {"render a chat", render_chat},
    {"save a session", save_session},
    {"load a session", load_session},
    {"save a conversation", save_conversation},
    {"load a conversation", load_conversation},
    {"generate", generate_alone},
    {"generate with lookup", generate_with_lookup},
    {"generate with a draft", generate_with_draft},
    {"quantize", quantize},
};
enum { N_SCENARIOS = sizeof scenarios / sizeof *scenarios };

/* ---- the loop ---- */

static void must(enum tern_status s, const struct tern_error *e)
{
    ck_assert_msg(!s, "%s", e->text);
}

static void setup(void)
{
    struct tern_error e;
    struct tern_context_params p = small;
    struct toy toy = toy_default();
    p.n_seqs = 2;
    must(tern_model_open(&model, model_path, &one_thread, &e), &e);
    must(tern_context_open(&context, model, &p, &e), &e);
    must(tern_context_open(&draft, model, &small, &e), &e);
    must(tern_tokenize(model, text, 12, 0, held, 8, &n_held, &e), &e);
    for (size_t i = 0; i < n_held; i++)
        must(tern_batch_add(context, 0, held[i], 0, &e), &e);
    must(tern_forward(context), &e);
    must(conversation_open(&talk, &e), &e);
    must(conversation_add(&talk, "user", "Hi \xFF \"you\"", 10, &e), &e);
    must(conversation_add(&talk, "assistant", "Hello.", 6, &e), &e);
    toy_path(session, sizeof session, "session");
    toy_path(messages, sizeof messages, "talk.jsonl");
    toy_path(toy_model, sizeof toy_model, "toy.bin");
    toy_path(made, sizeof made, "made.bin");
    must(toy_write(toy_model, &toy, &e), &e);
    must(tern_session_save(context, 0, session, &e), &e);
    must(conversation_save(&talk, messages, &e), &e);
}

static void teardown(void)
{
    conversation_close(&talk);
    tern_context_close(draft);
    tern_context_close(context);
    tern_model_close(model);
    unlink(session);
    unlink(messages);
    unlink(toy_model);
    unlink(made);
}

static void must_be_as_before(const char *name)
{
    ck_assert_msg(tern_seq_length(context, 0) == n_held &&
                      !memcmp(tern_seq_tokens(context, 0), held, n_held * sizeof *held),
                  "%s: the sequence changed", name);
    ck_assert_msg(kept && talk.n == 3, "%s: the conversation changed", name);
}

/* In the process of the test: what a scenario keeps for the next call is made before. */
START_TEST(every_allocation_fails_in_turn)
{
    const char *name = scenarios[_i].name;
    struct tern_error e = {0};
    must(scenarios[_i].run(&e), &e);
    allocs_start(0, 0);
    must(scenarios[_i].run(&e), &e);
    size_t all = allocs_count(), refused = 0;
    allocs_stop();
    for (int rest = 0; rest < 2; rest++)
        for (size_t at = 1; at <= all; at++) {
            memset(&e, 0, sizeof e);
            allocs_start(at, rest);
            enum tern_status s = scenarios[_i].run(&e);
            size_t live = allocs_live();
            allocs_stop();
            ck_assert_msg(live == 0 || scenarios[_i].run == render_chat, /* keeps the template */
                          "%s, allocation %zu: %zu blocks are left", name, at, live);
            ck_assert_msg(!s || (s == TERN_NO_MEMORY && e.code == s && *e.text),
                          "%s, allocation %zu: status %d, %s", name, at, (int)s, e.text);
            refused += s != 0;
            must_be_as_before(name);
        }
    ck_assert_msg(refused > 0, "%s: nothing failed", name);
    must(scenarios[_i].run(&e), &e);
    printf("%s: %zu allocations\n", name, all);
}
END_TEST

SUITE("no memory", AROUND_EACH(setup, teardown),
      LOOP(every_allocation_fails_in_turn, 0, N_SCENARIOS))
