/* Constraints through tern.h, on the vocabularies of the tokenizer tests: the mask is what trying every token
 * finds, and what was done can be undone. */
#include "engine/model_handle.h"
#include "sample/constraint/constraint.h"
#include "golden.h"
#include "suite.h"
#include "tern.h"
#include "toy.h"
#include "vocabulary.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* SentencePiece with a token for each byte, byte-level BPE */
static const char *const vocabularies[] = {"spm", "llama3", "hf-llama"};
enum { N_VOCABULARIES = sizeof vocabularies / sizeof *vocabularies };

static const struct {
    enum tern_constraint_kind kind;
    const char *text;
    unsigned flags;
    const char *trigger;
} cases[] = {
    {TERN_CONSTRAINT_CHOICE, "yes|no|the thing|then||\xC3\xA9t\xC3\xA9", 0, NULL},
    {TERN_CONSTRAINT_REGEX, "[0-9]{4}-[01][0-9]( \\w+)*", 0, NULL},
    {TERN_CONSTRAINT_REGEX, "(the |a |\xE6\x97\xA5+){2,5}[^x]*x?", 0, NULL},
    {TERN_CONSTRAINT_REGEX, "[^]{3}", 0, NULL},
    {TERN_CONSTRAINT_CHOICE, "{the|[a", TERN_CONSTRAINT_MUST_TRIGGER, "the"},
    {TERN_CONSTRAINT_CHOICE, "the cat|them", TERN_CONSTRAINT_FROM_TRIGGER, "the"},
    {TERN_CONSTRAINT_JSON, "", 0, NULL},
    {TERN_CONSTRAINT_JSON, "", TERN_CONSTRAINT_COMPACT, NULL},
    {TERN_CONSTRAINT_SCHEMA,
     "{\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},\"age\":{\"type\":"
     "\"integer\"},"
     "\"list\":{\"items\":{\"enum\":[\"a\",\"the\",null,1.5]},\"uniqueItems\":true}},"
     "\"type\":\"object\",\"required\":[\"name\"],\"additionalProperties\":{\"type\":\"boolean\"}}",
     0, NULL},
    {TERN_CONSTRAINT_SCHEMA, "{\"type\":\"string\",\"minLength\":2,\"maxLength\":20}", 0, NULL},
    {TERN_CONSTRAINT_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[a-z\\\"\\\\\\\\ ]*$\"}", 0,
     NULL},
    {TERN_CONSTRAINT_GRAMMAR, "root ::= \"(\" root \")\" | [a-z]+ \" \"? root?", 0, NULL},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static tern_model *model;
static struct tern_model_info info;
static uint64_t seed;

static uint32_t next_random(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static void open_model(const char *name)
{
    struct vocabulary v;
    struct toy toy = toy_default();
    struct tern_error e;
    char path[200];
    vocabulary_open(&v, name);
    toy.n_layers = 1, toy.tokenizer = v.section, toy.tokenizer_bytes = v.section_bytes;
    toy.vocab = v.tokens.n;
    toy_path(path, sizeof path, "constraint");
    ck_assert_msg(!toy_write(path, &toy, &e), "%s", e.text);
    vocabulary_close(&v);
    ck_assert_msg(!tern_model_open(&model, path, &(struct tern_model_params){.n_threads = 1}, &e),
                  "%s", e.text);
    unlink(path);
    tern_model_info(model, &info);
}

static void close_model(void)
{
    tern_model_close(model);
    model = NULL;
}

static struct tern_constraint_params params_of_case(int i)
{
    const char *trigger = cases[i].trigger;
    return (struct tern_constraint_params){.kind = cases[i].kind,
                                           .text = cases[i].text,
                                           .bytes = strlen(cases[i].text),
                                           .flags = cases[i].flags,
                                           .trigger = trigger,
                                           .trigger_bytes = trigger ? strlen(trigger) : 0};
}

static tern_constraint *open_case(int i)
{
    struct tern_error e;
    tern_constraint *c;
    struct tern_constraint_params p = params_of_case(i);
    ck_assert_msg(!tern_constraint_open(&c, model, &p, &e), "%s: %s", cases[i].text, e.text);
    return c;
}

static tern_constraint_state *start(const tern_constraint *c)
{
    struct tern_error e;
    tern_constraint_state *s;
    ck_assert_msg(!tern_constraint_state_open(&s, c, &e), "%s", e.text);
    return s;
}

static const uint32_t *mask_of(tern_constraint_state *s)
{
    struct tern_error e;
    const uint32_t *mask;
    ck_assert_msg(!tern_constraint_mask(s, &mask, &e), "%s", e.text);
    return mask;
}

static bool has(const uint32_t *mask, tern_token t)
{
    return mask[t / 32] >> t % 32 & 1;
}

static void take(tern_constraint_state *s, tern_token t)
{
    struct tern_error e;
    ck_assert_msg(!tern_constraint_accept(s, t, &e), "%s", e.text);
}

/* A token of the mask, rather an end token; -1: there is none */
static tern_token pick(const uint32_t *mask)
{
    uint32_t n = 0;
    tern_token found = -1;
    for (tern_token t = 0; t < (tern_token)info.vocab; t++)
        if (has(mask, t)) {
            if (tern_token_is_end(model, t) && next_random(4) == 0)
                return t;
            if (next_random(++n) == 0)
                found = t;
        }
    return found;
}

/* Every token is tried at the state's place, and taken back. */
static void compare(tern_constraint_state *s, const char *what)
{
    const size_t bytes = (info.vocab + 31) / 32 * sizeof(uint32_t);
    uint32_t *mask = malloc(bytes);
    ck_assert_ptr_nonnull(mask);
    memcpy(mask, mask_of(s), bytes);
    for (tern_token t = 0; t < (tern_token)info.vocab; t++) {
        enum tern_status status = tern_constraint_accept(s, t, NULL);
        if (!status)
            ck_assert_uint_eq(tern_constraint_rollback(s, 1), 1);
        ck_assert_msg(status == (has(mask, t) ? TERN_OK : TERN_USAGE), "%s: token %d: %d", what,
                      (int)t, (int)status);
        if (tern_token_is_end(model, t))
            ck_assert_int_eq(has(mask, t), tern_constraint_can_end(s));
    }
    ck_assert_int_eq(memcmp(mask, mask_of(s), bytes), 0);
    free(mask);
}

/* A walk of up to n tokens; returns how many. */
static size_t wander(tern_constraint_state *s, size_t n, tern_token *walked, const char *what)
{
    size_t i = 0;
    for (; i < n; i++) {
        if (what)
            compare(s, what);
        tern_token t = pick(mask_of(s));
        if (t < 0)
            break;
        take(s, t);
        if (walked)
            walked[i] = t;
        if (tern_token_is_end(model, t)) {
            ck_assert_int_eq(pick(mask_of(s)), -1);
            return i + 1;
        }
    }
    if (i < n)
        ck_assert_msg(tern_constraint_can_end(s) || tern_constraint_is_over(s),
                      "a dead end after %zu tokens", i);
    return i;
}

START_TEST(masks_are_what_trying_every_token_finds)
{
    open_model(vocabularies[_i % N_VOCABULARIES]);
    const int at = _i / N_VOCABULARIES;
    tern_constraint *c = open_case(at);
    for (seed = 1; seed <= 3; seed++) {
        tern_constraint_state *s = start(c);
        uint64_t kept = seed;
        wander(s, 12, NULL, cases[at].text);
        seed = kept;
        tern_constraint_state_close(s);
    }
    tern_constraint_close(c);
    close_model();
}
END_TEST

/* Characters without a token are left out of what a text may be, or the constraint is refused. */
START_TEST(a_vocabulary_without_bytes_has_no_dead_end)
{
    static const char *const partial[] = {"uni", "hf-uni-bytes", "hf-words"};
    struct tern_error e;
    open_model(partial[_i]);
    for (int at = 0; at < N_CASES; at++) {
        const char *trigger = cases[at].trigger;
        struct tern_constraint_params p = {.kind = cases[at].kind,
                                           .text = cases[at].text,
                                           .bytes = strlen(cases[at].text),
                                           .trigger = trigger,
                                           .trigger_bytes = trigger ? strlen(trigger) : 0};
        tern_constraint *c;
        enum tern_status status = tern_constraint_open(&c, model, &p, &e);
        ck_assert_msg(!status || (status == TERN_USAGE && *e.text), "%s: %d", p.text, (int)status);
        for (seed = 1; !status && seed < 9; seed++) {
            tern_constraint_state *s = start(c);
            uint64_t kept = seed;
            wander(s, 20, NULL, seed < 3 ? cases[at].text : NULL);
            seed = kept;
            tern_constraint_state_close(s);
        }
        if (!status)
            tern_constraint_close(c);
    }
    close_model();
}
END_TEST

START_TEST(tokens_are_taken_back_and_states_copied)
{
    open_model("llama3");
    tern_constraint *c = open_case(_i);
    tern_token walked[40], again[40];
    tern_constraint_state *s = start(c), *other = start(c);
    const size_t words = (info.vocab + 31) / 32;
    uint32_t *first = malloc(words * 4);
    ck_assert_ptr_nonnull(first);
    memcpy(first, mask_of(s), words * 4);
    seed = 5;
    size_t n = wander(s, 40, walked, NULL), half = n / 2;
    ck_assert_uint_eq(tern_constraint_rollback(s, n - half), n - half);
    ck_assert_int_eq(tern_constraint_state_copy(other, s, NULL), TERN_OK);
    for (size_t i = half; i < n; i++) {
        ck_assert_int_eq(memcmp(mask_of(s), mask_of(other), words * 4), 0);
        take(s, walked[i]);
        take(other, walked[i]);
    }
    seed = 9;
    ck_assert_uint_eq(tern_constraint_rollback(other, n + 9), n);
    ck_assert_int_eq(memcmp(mask_of(other), first, words * 4), 0);
    wander(other, 40, again, NULL);
    ck_assert_uint_eq(tern_constraint_rollback(s, 1), n > 0);
    if (n)
        take(s, walked[n - 1]);
    free(first);
    tern_constraint_state_close(other);
    tern_constraint_state_close(s);
    tern_constraint_close(c);
    close_model();
}
END_TEST

static void text_of(const tern_token *tokens, size_t n, char *out, size_t size)
{
    tern_decoder *d;
    ck_assert_int_eq(tern_decoder_open(&d, model, 0, NULL), TERN_OK);
    out[0] = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        const char *p = tern_decoder_bytes(d, tokens[i], &bytes);
        size_t at = strlen(out);
        ck_assert_uint_lt(at + bytes, size);
        memcpy(out + at, p, bytes);
        out[at + bytes] = 0;
    }
    tern_decoder_close(d);
}

START_TEST(forced_tokens_are_the_only_text)
{
    open_model(vocabularies[_i]);
    tern_token tokens[1025];
    char text[400];
    size_t n;
    struct tern_error e;
    struct tern_constraint_params p = {.kind = TERN_CONSTRAINT_REGEX,
                                       .text = "the little girl loved( her mother| the park).",
                                       .bytes = 45};
    tern_constraint *c;
    ck_assert_msg(!tern_constraint_open(&c, model, &p, &e), "%s", e.text);
    tern_constraint_state *s = start(c);
    ck_assert_int_eq(tern_constraint_forced(s, tokens, 1025, &n, &e), TERN_OK);
    ck_assert_uint_gt(n, 0);
    text_of(tokens, n, text, sizeof text);
    ck_assert_msg(!strncmp(text, "the little girl loved ", strlen(text)), "%s", text);
    for (size_t i = 0; i < n; i++) {
        ck_assert(has(mask_of(s), tokens[i]));
        take(s, tokens[i]);
    }
    /* the last token is not among them: " her" is allowed, and so is any beginning of it */
    while (!tern_constraint_is_over(s)) {
        size_t more;
        take(s, pick(mask_of(s)));
        ck_assert_int_eq(tern_constraint_forced(s, tokens, 1025, &more, &e), TERN_OK);
        for (size_t i = 0; i < more; i++)
            take(s, tokens[i]);
    }
    ck_assert_int_eq(tern_constraint_forced(s, tokens, 1025, &n, &e), TERN_OK);
    ck_assert_uint_eq(n, 0);
    tern_constraint_state_close(s);
    tern_constraint_close(c);
    close_model();
}
END_TEST

START_TEST(what_does_not_fit_or_exist_is_refused)
{
    struct tern_error e;
    tern_constraint *c;
    open_model("llama3");
    struct tern_constraint_params p = {.kind = TERN_CONSTRAINT_REGEX, .text = "(", .bytes = 1};
    ck_assert_int_eq(tern_constraint_open(&c, model, &p, &e), TERN_USAGE);
    ck_assert_ptr_null(c);
    p.text = "[^a]{5}(b|c){7}", p.bytes = 15, p.max_bytes = 1000;
    ck_assert_int_eq(tern_constraint_open(&c, model, &p, &e), TERN_LIMIT);
    p.text = "[]", p.bytes = 2, p.max_bytes = 0;
    ck_assert_int_eq(tern_constraint_open(&c, model, &p, &e), TERN_USAGE);
    p.text = "a", p.bytes = 1, p.trigger = "x", p.trigger_bytes = 1;
    p.flags = TERN_CONSTRAINT_FROM_TRIGGER;
    ck_assert_int_eq(tern_constraint_open(&c, model, &p, &e), TERN_USAGE);
    p.trigger_bytes = 0, p.flags = 2 * TERN_CONSTRAINT_PARALLEL;
    ck_assert_int_eq(tern_constraint_open(&c, model, &p, &e), TERN_USAGE);
    ck_assert_msg(strstr(e.text, "0x80"), "%s", e.text);
    p.flags = 0, p.chat_flags = 8;
    ck_assert_int_eq(tern_constraint_open(&c, model, &p, &e), TERN_USAGE);
    close_model();
}
END_TEST

START_TEST(files_begin_with_a_mark_or_without)
{
    static const struct tern_constraint_params marked[] = {
        {.kind = TERN_CONSTRAINT_SCHEMA, .text = "\xEF\xBB\xBF{\"type\":\"null\"}"},
        {.kind = TERN_CONSTRAINT_GRAMMAR, .text = "\xEF\xBB\xBFroot ::= \"a\""},
    };
    open_model("llama3");
    for (int i = 0; i < 2; i++) {
        struct tern_constraint_params p = marked[i];
        struct tern_error e;
        tern_constraint *c;
        p.bytes = strlen(p.text);
        ck_assert_msg(!tern_constraint_open(&c, model, &p, &e), "%s", e.text);
        tern_constraint_close(c);
    }
    close_model();
}
END_TEST

/* ---- the memory of all of them ---- */

/* A text of some tokens, in a state and its copy. Nothing but memory may be missing. */
static enum tern_status write_text(const struct tern_constraint_params *p)
{
    struct tern_error e;
    tern_constraint *c;
    tern_constraint_state *s = NULL, *twin = NULL;
    const uint32_t *mask;
    enum tern_status status = tern_constraint_open(&c, model, p, &e);
    status = status ? status : tern_constraint_state_open(&s, c, &e);
    status = status ? status : tern_constraint_state_open(&twin, c, &e);
    seed = 7;
    for (int i = 0; i < 60 && !status && !(status = tern_constraint_mask(s, &mask, &e)); i++) {
        tern_token t = pick(mask);
        if (t < 0)
            break;
        status = tern_constraint_accept(s, t, &e);
        status = status ? status : tern_constraint_state_copy(twin, s, &e);
    }
    tern_constraint_state_close(twin);
    tern_constraint_state_close(s);
    tern_constraint_close(c);
    ck_assert_msg(!status || status == TERN_NO_MEMORY || strstr(e.text, "all constraints together"),
                  "%d: %s", (int)status, e.text);
    return status;
}

/* In no more than so many bytes; all of them are given back. */
static enum tern_status write_within(size_t limit, const struct tern_constraint_params *p)
{
    struct quota *q = &model->spelling->quota;
    size_t most;
    q->limit = limit, q->most = 0;
    enum tern_status status = write_text(p);
    ck_assert_uint_eq(tern_constraint_bytes(model, &most), 0);
    ck_assert_uint_le(most, limit);
    return status;
}

START_TEST(all_memory_is_counted)
{
    const struct tern_constraint_params p = params_of_case(_i);
    open_model("spm");
    ck_assert_int_eq(write_within(SIZE_MAX, &p), TERN_OK);
    size_t low = 0, high = model->spelling->quota.most;
    ck_assert_int_eq(write_within(high, &p), TERN_OK);
    for (int i = 0; i < 16; i++)
        (void)write_within(high * (size_t)i / 16, &p);
    while (high - low >
           1) { /* the least that it needs: kept masks leave where there is less than the most */
        size_t limit = low + (high - low) / 2;
        if (write_within(limit, &p))
            low = limit;
        else
            high = limit;
    }
    ck_assert_int_ne(write_within(high - 1, &p), TERN_OK);
    ck_assert_int_eq(write_within(high, &p), TERN_OK);
    ck_assert_int_eq(write_within(high + 1, &p), TERN_OK);
    close_model();
}
END_TEST

static int n_asked;
static tern_constraint *kept;

static int close_kept(void *arg)
{
    int closed = kept != NULL;
    (void)arg;
    n_asked++;
    tern_constraint_close(kept);
    kept = NULL;
    return closed;
}

START_TEST(room_is_made)
{
    struct tern_error e;
    tern_constraint *c;
    open_model("spm");
    struct quota *q = &model->spelling->quota;
    kept = open_case(1);
    q->limit = q->most, q->make_room = close_kept;
    c = open_case(1);
    ck_assert(n_asked == 1 && !kept);
    const struct tern_constraint_params *p = tern_constraint_made_of(c);
    ck_assert(p->bytes == strlen(cases[1].text) && !memcmp(p->text, cases[1].text, p->bytes));
    ck_assert_int_eq(tern_constraint_open(&kept, model, p, &e), TERN_NO_MEMORY);
    ck_assert(n_asked == 2 && !kept);
    tern_constraint_close(c);
    const struct tern_constraint_params alone = params_of_case(1);
    char sentence[120];
    sprintf(sentence,
            "constraint: it takes %zu bytes or more, and all constraints together may take %zu",
            (size_t)q->most, (size_t)q->most - 1);
    q->limit = q->most - 1;
    ck_assert_int_eq(tern_constraint_open(&kept, model, &alone, &e), TERN_LIMIT);
    ck_assert_str_eq(e.text, sentence);
    close_model();
}
END_TEST

/* ---- budgets that automata fill ---- */

static tern_constraint *open_regex(const char *text, size_t max_bytes)
{
    struct tern_error e;
    tern_constraint *c;
    const struct tern_constraint_params p = {
        .kind = TERN_CONSTRAINT_REGEX, .text = text, .bytes = strlen(text), .max_bytes = max_bytes};
    ck_assert_msg(!tern_constraint_open(&c, model, &p, &e), "%s", e.text);
    return c;
}

static void same_mask(tern_constraint_state *s, tern_constraint_state *twin)
{
    const size_t bytes = (info.vocab + 31) / 32 * sizeof(uint32_t);
    uint32_t *mask = malloc(bytes);
    ck_assert_ptr_nonnull(mask);
    memcpy(mask, mask_of(s), bytes);
    ck_assert(!memcmp(mask, mask_of(twin), bytes));
    ck_assert_int_eq(tern_constraint_can_end(s), tern_constraint_can_end(twin));
    free(mask);
}

static void walk_together(tern_constraint_state *s, tern_constraint_state *twin, int n)
{
    for (int i = 0; i < n; i++) {
        same_mask(s, twin);
        const uint32_t *mask = mask_of(s);
        tern_token t = -1, n_vocab = (tern_token)info.vocab;
        for (uint32_t skip = next_random(8); t < 0 || skip--;)
            do
                t = (t + 1) % n_vocab;
            while (!has(mask, t) || tern_token_is_end(model, t));
        take(s, t);
        take(twin, t);
    }
}

/* A place in this expression is one of 2^14. Many texts fill a small budget, and each goes on as in a large
 * one. So does a text that began before. */
START_TEST(what_fills_the_budget_is_dropped)
{
    static const char text[] = "[ab]*a[ab]{14}";
    open_model("llama3");
    tern_constraint *c = open_regex(text, 2 << 20), *large = open_regex(text, (size_t)1 << 30);
    const struct constraint_form *form = c->form;
    tern_constraint_state *s[2], *twin[2];
    unsigned n_forms = 1;
    for (int i = 0; i < 2; i++)
        s[i] = start(c), twin[i] = start(large);
    walk_together(s[1], twin[1], 1200); /* more than can be taken back */
    for (int i = 0; i < 200; i++) {
        walk_together(s[0], twin[0], 100);
        n_forms += c->form != form;
        form = c->form;
        tern_constraint_state_close(s[0]), tern_constraint_state_close(twin[0]);
        s[0] = start(c), twin[0] = start(large);
    }
    ck_assert_uint_gt(n_forms, 2);
    ck_assert_uint_eq(large->form->n_users, 3);
    walk_together(s[1], twin[1], 100);
    ck_assert_uint_eq(tern_constraint_rollback(s[1], 1024),
                      tern_constraint_rollback(twin[1], 1024));
    walk_together(s[1], twin[1], 10);
    ck_assert(!tern_constraint_state_copy(s[0], s[1], NULL));
    same_mask(s[0], twin[1]);
    for (int i = 0; i < 2; i++)
        tern_constraint_state_close(s[i]), tern_constraint_state_close(twin[i]);
    ck_assert_uint_eq(c->form->n_users, 1);
    tern_constraint_close(c);
    tern_constraint_close(large);
    close_model();
}
END_TEST

static void *walk_alone(void *arg)
{
    for (int i = 0; i < 20; i++) {
        tern_constraint_state *s = start(arg);
        for (int k = 0; k < 30; k++) {
            const uint32_t *mask = mask_of(s);
            tern_token t = 0;
            while (t < (tern_token)info.vocab && (!has(mask, t) || tern_token_is_end(model, t)))
                t++;
            if (t == (tern_token)info.vocab)
                break;
            take(s, t);
        }
        tern_constraint_state_close(s);
    }
    return NULL;
}

START_TEST(threads_share_a_constraint)
{
    pthread_t threads[3];
    open_model("llama3");
    tern_constraint *c = open_case(8);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, walk_alone, c), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    tern_constraint_close(c);
    close_model();
}
END_TEST

SUITE("constraint",
      LOOP(masks_are_what_trying_every_token_finds, 0, golden_alone(N_CASES *N_VOCABULARIES)),
      LOOP(a_vocabulary_without_bytes_has_no_dead_end, 0, golden_alone(3)),
      LOOP(tokens_are_taken_back_and_states_copied, 0, golden_alone(N_CASES)),
      LOOP(forced_tokens_are_the_only_text, 0, golden_alone(N_VOCABULARIES)),
      TEST(what_does_not_fit_or_exist_is_refused), TEST(threads_share_a_constraint),
      LOOP(all_memory_is_counted, 0, golden_alone(N_CASES)), TEST(room_is_made),
      TEST(files_begin_with_a_mark_or_without),
      LOOP(what_fills_the_budget_is_dropped, 0, golden_alone(1)))
