/* Tools in conversations: what the rules of six families of templates write, and what an answer's calls
 * are read back as, wherever the answer is cut. */
#include "suite.h"
#include "text/answer_parser.h"
#include "tool_families.h"

#include <stdio.h>

START_TEST(writes_tools_calls_and_results)
{
    const struct tool_family *f = &tool_families[_i];
    struct keywriter k;
    struct chat *c = tool_family_open(f, &k);
    rules_write(c, tool_family_talk, FAMILY_TALK, 0, f->written);
    ck_assert_int_eq(chat_info(c)->takes_tools, f->flags & 2 ? 1 : 2);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* ---- answers ------------------------------------------------------------------------------ */

/* Events as a text; neighbours of one kind are joined. */
struct heard {
    char text[1024];
    size_t n;
    enum tern_answer_kind open; /* a bracket is not yet closed */
};

static void hear(struct heard *h, const char *p, size_t n)
{
    ck_assert_uint_lt(h->n + n, sizeof h->text);
    memcpy(h->text + h->n, p, n);
    h->text[h->n += n] = 0;
}

static void take_events(struct heard *h, struct answer_parser *a)
{
    struct tern_answer_event x;
    while (answer_parser_next(a, &x) != TERN_ANSWER_NONE) {
        if (h->open && h->open != x.kind)
            hear(h, "]", 1), h->open = TERN_ANSWER_NONE;
        if (x.kind == TERN_ANSWER_CALL) {
            hear(h, "C[", 2);
            hear(h, x.call.id, strlen(x.call.id)), hear(h, "|", 1);
            hear(h, x.call.name, strlen(x.call.name)), hear(h, "|", 1);
            hear(h, x.call.arguments, strlen(x.call.arguments)), hear(h, "]", 1);
            continue;
        }
        if (!h->open)
            hear(h, x.kind == TERN_ANSWER_TEXT ? "T[" : "H[", 2);
        hear(h, x.text, x.bytes);
        h->open = x.kind;
    }
}

static struct answer_parser *open_answer(const struct chat *c, bool marked)
{
    struct answer_params p = {
        .tools = {tool_family_tools, strlen(tool_family_tools)}, .marked = marked, .first_call = 7};
    struct answer_parser *a;
    struct tern_error e = {0};
    ck_assert_msg(answer_parser_open(&a, c, &p, &e) == TERN_OK, "%s", e.text);
    return a;
}

static void finish(struct answer_parser *a, struct heard *h, const char *want, const char *how)
{
    ck_assert_int_eq(answer_parser_finish(a, "", 0, NULL), TERN_OK);
    take_events(h, a);
    if (h->open)
        hear(h, "]", 1);
    ck_assert_msg(strcmp(h->text, want) == 0, "%s: got '%s', want '%s'", how, h->text, want);
    answer_parser_close(a);
}

/* Cut in three, at `one` and `two` */
static void read_cut(const struct chat *c, const char *answer, size_t one, size_t two,
                     const char *want)
{
    struct answer_parser *a = open_answer(c, false);
    struct heard h = {0};
    size_t n = strlen(answer), cuts[] = {0, one, two, n};
    char how[60];
    snprintf(how, sizeof how, "cut at %zu and %zu", one, two);
    for (size_t i = 0; i < 3; i++) {
        ck_assert(!answer_parser_push(a, answer + cuts[i], cuts[i + 1] - cuts[i], NULL));
        take_events(&h, a);
    }
    finish(a, &h, want, how);
}

START_TEST(reads_calls_however_the_answer_is_cut)
{
    const struct tool_family *f = &tool_families[_i];
    struct keywriter k;
    struct chat *c = tool_family_open(f, &k);
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(f->answers[i]);
        struct answer_parser *a = open_answer(c, false);
        struct heard h = {0};
        for (size_t one = 0; one <= n; one++)
            read_cut(c, f->answers[i], one, one + (n - one) / 2, f->events[i]);
        for (size_t j = 0; j < n; j++) {
            ck_assert(!answer_parser_push(a, f->answers[i] + j, 1, NULL));
            take_events(&h, a);
        }
        finish(a, &h, f->events[i], "byte by byte");
    }
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* As the engine does it: special tokens are pushed as such, and the text between them in pieces. */
START_TEST(reads_calls_of_tokens)
{
    const struct tool_family *f = &tool_families[_i];
    struct keywriter k;
    struct chat *c = tool_family_open(f, &k);
    for (size_t i = 0; i < 3; i++) {
        struct answer_parser *a = open_answer(c, true);
        struct heard h = {0};
        int32_t *ids;
        size_t n = vocabulary_encode(&rules_vocabulary, f->answers[i], strlen(f->answers[i]),
                                     TERN_PARSE_SPECIAL, &ids);
        struct decoder *d;
        ck_assert(!decoder_open(&d, rules_vocabulary.t, false, NULL));
        for (size_t j = 0; j < n; j++) {
            size_t len;
            const char *text = decoder_push(d, ids[j], &len);
            if (tokenizer_is_special(rules_vocabulary.t, ids[j])) {
                text = tokenizer_text(rules_vocabulary.t, ids[j], &len);
                ck_assert(!answer_parser_special(a, text, len, NULL));
            } else {
                ck_assert(!answer_parser_push(a, text, len, NULL));
            }
            take_events(&h, a);
        }
        finish(a, &h, f->events[i], f->answers[i]);
        decoder_close(d);
        free(ids);
    }
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

SUITE("tools", AROUND_ALL(rules_setup, rules_teardown),
      LOOP(writes_tools_calls_and_results, 0, TOOL_FAMILIES),
      LOOP(reads_calls_however_the_answer_is_cut, 0, TOOL_FAMILIES),
      LOOP(reads_calls_of_tokens, 0, TOOL_FAMILIES))
