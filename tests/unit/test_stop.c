/* Work that is given up when somebody says so: long texts, conversations and constraints. Short work asks
 * nobody. */
#include "suite.h"
#include "tern.h"
#include "text/chat.h"
#include "toy.h"
#include "vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned asked, until; /* the until-th question is answered with yes; 0: none is */

static int ask(void *arg)
{
    ck_assert_ptr_eq(arg, &asked);
    return ++asked == until;
}

/* Words of letters, one long word, marks that are to be sorted, digits. */
static void fill(char *text, size_t n, int kind)
{
    static const char *const pieces[] = {"the cat sat ", "abcdefgh",
                                         "e\xCC\x95\xCC\xA1\xE3\x80\xAA", "0123456789"};
    size_t len = strlen(pieces[kind]);
    for (size_t at = 0; at < n; at++)
        text[at] = pieces[kind][at % len];
}

/* Every question may be the last one: whichever is answered with yes ends the work. */
START_TEST(tokenizing)
{
    static const char *const names[] = {"spm", "gpt2", "uni", "qwen35", "hf-words", "hf-scripts"};
    const size_t size = (size_t)40 << 10;
    char *text = malloc(size);
    struct vocabulary v;
    struct tern_error e;
    size_t n;
    vocabulary_open(&v, names[_i]);
    tokenizer_stop_when(v.t, ask, &asked);
    for (int kind = 0; kind < 4; kind++) {
        fill(text, size, kind);
        asked = until = 0;
        ck_assert(!tokenizer_encode(v.t, text, 1200, 0, NULL, 0, &n, &e) && (!asked || kind == 2));
        asked = 0;
        ck_assert(!tokenizer_encode(v.t, text, size, 0, NULL, 0, &n, &e) && asked > 3);
        for (unsigned all = asked, k = 1; k <= all; k++) {
            asked = 0, until = k;
            enum tern_status s = tokenizer_encode(v.t, text, size, 0, NULL, 0, &n, &e);
            ck_assert_msg(s == TERN_CANCELLED, "%s %d: %u of %u: %d, %u", names[_i], kind, k, all,
                          s, asked);
            ck_assert_uint_eq(asked, k);
        }
    }
    vocabulary_close(&v);
    free(text);
}
END_TEST

START_TEST(conversations)
{
    enum { N = 2001 };
    struct tern_chat_message *talk = calloc(N, sizeof *talk);
    struct vocabulary v;
    struct chat *chat;
    struct chat_text text = {0};
    struct tern_error e;
    size_t n;
    for (size_t i = 0; i < N; i++)
        talk[i] = (struct tern_chat_message){
            .role = i % 2 ? "assistant" : "user", .text = "x", .bytes = 1};
    vocabulary_open(&v, "gpt2");
    tokenizer_stop_when(v.t, ask, &asked);
    ck_assert_msg(!chat_open_builtin(&chat, v.t, "vicuna", &e), "%s", e.text);
    ck_assert(!chat_render(chat, talk, N, 0, &text, &e));
    asked = until = 0;
    ck_assert(!chat_encode(chat, &text, NULL, 0, &n, &e));
    ck_assert_uint_ge(asked, 1);
    asked = 0, until = 1;
    ck_assert_int_eq(chat_encode(chat, &text, NULL, 0, &n, &e), TERN_CANCELLED);
    chat_text_close(&text);
    chat_close(chat);
    vocabulary_close(&v);
    free(talk);
}
END_TEST

/* Of a whole model: what tern_model_params.stop says. */
START_TEST(constraints)
{
    static const char hard[] =
        "{\"allOf\":[{\"pattern\":\"^(a|b){0,300}$\"},{\"pattern\":\"(ab){3,70}\"},"
        "{\"pattern\":\"^.{10,90}$\"}],\"type\":\"string\"}";
    static const struct tern_constraint_params easy = {.kind = TERN_CONSTRAINT_JSON},
                                               params = {.kind = TERN_CONSTRAINT_SCHEMA,
                                                         .text = hard,
                                                         .bytes = sizeof hard - 1};
    struct toy toy = toy_default();
    struct vocabulary v;
    struct tern_error e;
    tern_model *model;
    tern_constraint *c;
    char path[200], *text = malloc(1 << 20);
    size_t n;
    vocabulary_open(&v, "llama3");
    toy.n_layers = 1, toy.tokenizer = v.section, toy.tokenizer_bytes = v.section_bytes,
    toy.vocab = v.tokens.n;
    toy_path(path, sizeof path, "stop");
    ck_assert_msg(!toy_write(path, &toy, &e), "%s", e.text);
    const struct tern_model_params p = {.n_threads = 1, .stop = ask, .arg = &asked};
    asked = until = 0;
    ck_assert_msg(!tern_model_open(&model, path, &p, &e), "%s", e.text);
    unlink(path);
    ck_assert(!tern_constraint_open(&c, model, &easy, &e) && !asked);
    tern_constraint_close(c);
    ck_assert_msg(!tern_constraint_open(&c, model, &params, &e), "%s", e.text);
    tern_constraint_close(c);
    ck_assert_uint_gt(asked, 3);
    for (unsigned all = asked, k = 1; k <= all; k += 1 + all / 20) {
        asked = 0, until = k;
        ck_assert_int_eq(tern_constraint_open(&c, model, &params, &e), TERN_CANCELLED);
        ck_assert(asked == k && !c);
    }
    fill(text, 1 << 20, 0);
    asked = 0, until = 2;
    ck_assert_int_eq(tern_tokenize(model, text, 1 << 20, 0, NULL, 0, &n, &e), TERN_CANCELLED);
    free(text);
    tern_model_close(model);
    vocabulary_close(&v);
}
END_TEST

SUITE("stop", LOOP(tokenizing, 0, 6), TEST(conversations), TEST(constraints))
