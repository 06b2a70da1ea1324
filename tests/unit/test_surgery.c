/* The editor: one that changes nothing changes no bit; one that writes the same values neither; what
 * it changes counts from there on, in every batch and with any threads; and an altered context says
 * so. Held on every golden model with f32 and q8 matrices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "suite.h"
#include "tern_lab.h"

enum { N_ROWS = 20 };

static const char *const editable[] = {
    "embed",  "q",     "k",    "v",      "attend", "o",       "attn_post_norm",
    "middle", "act",   "down", "router", "expert", "experts", "ffn_post_norm",
    "out",    "logits"};
enum { N_EDITABLE = sizeof editable / sizeof *editable };

typedef float logits_table[N_ROWS][GOLDEN_VOCAB];

enum what { NOTHING, SAME, BEND };

struct editor {
    enum what what;
    const char *operation; /* that is changed */
    size_t calls;
    uint64_t seen; /* bit i: editable[i] was offered */
};

/* A change that depends on where the value is, and not on the batch */
static void bend(const struct tern_observation *o, float *values)
{
    bool is_router = !strcmp(o->operation, "router");
    for (size_t i = 0; i < o->rows; i++) {
        float *row = values + i * o->stride, first = row[0];
        for (size_t c = 0; c < o->columns; c++)
            if (is_router) /* other experts */
                row[c] = c + 1 < o->columns ? row[c + 1] : first;
            else
                row[c] = row[c] * 1.25f +
                         0.01f * ((int)(o->layer + o->expert + o->at[i].position + c) % 5 - 2);
    }
}

static int edit(void *arg, const struct tern_observation *o, float *values)
{
    struct editor *ed = arg;
    size_t i = 0;
    while (strcmp(editable[i], o->operation))
        ck_assert_msg(++i < N_EDITABLE, "%s is not documented as editable", o->operation);
    ed->seen |= 1u << i;
    ed->calls++;
    ck_assert_ptr_eq(values, o->values);
    bool is_it = ed->what != NOTHING && !strcmp(ed->operation, o->operation);
    if (is_it && ed->what == BEND)
        bend(o, values);
    return is_it;
}

struct opened {
    tern_model *model;
    tern_context *ctx;
};

static struct opened open_model(const char *path, int threads, enum tern_cache_type cache)
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = threads};
    struct tern_context_params cp = {
        .n_ctx = 2 * N_ROWS, .n_batch = N_ROWS, .fingerprint = 1, .cache_type = cache};
    struct opened m = {0};
    ck_assert_msg(!tern_model_open(&m.model, path, &mp, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&m.ctx, m.model, &cp, &e), "%s", e.text);
    return m;
}

static void close_model(struct opened m)
{
    tern_context_close(m.ctx);
    tern_model_close(m.model);
}

/* Logits of every row of the prompt, in batches of n_batch rows */
static void evaluate(tern_context *ctx, const struct golden *g, size_t n_batch, logits_table out)
{
    struct tern_error e = {0};
    tern_token ids[N_ROWS];
    golden_prompt(ids, N_ROWS, g->prompt_seed, g->vocab);
    for (size_t i = 0, first = 0; i < N_ROWS; first = i) {
        for (size_t n = 0; n < n_batch && i < N_ROWS; n++)
            ck_assert_msg(!tern_batch_add(ctx, 0, ids[i++], TERN_ROW_LOGITS, &e), "%s", e.text);
        ck_assert(!tern_forward(ctx));
        for (size_t r = 0; first + r < i; r++)
            memcpy(out[first + r], tern_logits(ctx, r), g->vocab * sizeof(float));
    }
}

/* Evaluates afresh under the editor (NULL: none). */
static void edited(tern_context *ctx, const struct golden *g, size_t n_batch, struct editor *ed,
                   logits_table out)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_edit(ctx, ed ? edit : NULL, ed, &e), "%s", e.text);
    tern_seq_keep(ctx, 0, 0);
    evaluate(ctx, g, n_batch, out);
}

static bool is_same(logits_table a, logits_table b, const struct golden *g)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (memcmp(a[i], b[i], g->vocab * sizeof(float)))
            return false;
    return true;
}

/* To write the same changes nothing. What is changed counts, and the same in one batch as row by
 * row. */
static void check_edits(tern_context *ctx, const struct golden *g, uint64_t offered,
                        logits_table blind)
{
    static logits_table whole, single;
    for (size_t i = 0; i < N_EDITABLE; i++) {
        struct editor same = {.what = SAME, .operation = editable[i]};
        struct editor ed = {.what = BEND, .operation = editable[i]};
        if (!(offered >> i & 1))
            continue;
        edited(ctx, g, 7, &same, whole);
        ck_assert(tern_altered(ctx));
        ck_assert_msg(is_same(whole, blind, g), "%s: the same %s changes bits", g->name,
                      editable[i]);
        edited(ctx, g, N_ROWS, &ed, whole);
        edited(ctx, g, 1, &ed, single);
        ck_assert_msg(!is_same(whole, blind, g), "%s: %s changes nothing", g->name, editable[i]);
        ck_assert_msg(is_same(whole, single, g), "%s: %s depends on the batch", g->name,
                      editable[i]);
    }
}

START_TEST(a_change_counts_and_no_change_changes_nothing)
{
    static const enum tern_type types[] = {TERN_F32, TERN_Q8};
    static struct golden g;
    static logits_table blind, seen;
    char path[256];
    if (!golden_is_due(_i))
        return;
    golden_read(&g, golden_names[_i]);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct editor nothing = {.what = NOTHING};
        golden_write(path, sizeof path, &g, types[t]);
        struct opened m = open_model(path, 2, (enum tern_cache_type)(_i % 3));
        edited(m.ctx, &g, N_ROWS, NULL, blind);
        uint64_t rows, hash = tern_fingerprint(m.ctx, &rows);
        tern_fingerprint_begin(m.ctx);
        edited(m.ctx, &g, N_ROWS, &nothing, seen);
        ck_assert(tern_fingerprint(m.ctx, &rows) == hash && rows == N_ROWS && nothing.calls);
        ck_assert(!tern_altered(m.ctx));
        check_edits(m.ctx, &g, nothing.seen, blind);
        edited(m.ctx, &g, N_ROWS, NULL, seen);
        ck_assert_msg(is_same(blind, seen, &g), "%s: an edit outlives its editor", g.name);
        close_model(m);
        remove(path);
    }
    golden_close(&g);
}
END_TEST

/* ---- what an edit means ---------------------------------------------------------------------- */

struct probe { /* an editor and an observer in one: a step is set, another is copied */
    const char *set;
    float value[8]; /* of columns 0 .. 7 of it; the rest becomes 0 */
    const char *copy;
    size_t layer, columns;
    float copied[GOLDEN_VOCAB * 4]; /* the first row of layer `layer` */
    float first[GOLDEN_VOCAB * 4];  /* the first row of layer 0's embed */
};

static int set(void *arg, const struct tern_observation *o, float *values)
{
    const struct probe *p = arg;
    if (!p->set || strcmp(o->operation, p->set))
        return 0;
    for (size_t i = 0; i < o->rows; i++)
        for (size_t c = 0; c < o->columns; c++)
            values[i * o->stride + c] = c < 8 ? p->value[c] : 0;
    return 1;
}

static void copy(void *arg, const struct tern_observation *o)
{
    struct probe *p = arg;
    ck_assert_uint_le(o->columns, sizeof p->copied / sizeof *p->copied);
    if (!strcmp(o->operation, "embed"))
        memcpy(p->first, o->values, o->columns * sizeof *o->values);
    if (strcmp(o->operation, p->copy) || o->layer != p->layer)
        return;
    p->columns = o->columns;
    memcpy(p->copied, o->values, o->columns * sizeof *o->values);
}

static void probe(tern_context *ctx, struct probe *p)
{
    struct tern_error e = {0};
    ck_assert(!tern_edit(ctx, set, p, &e) && !tern_observe(ctx, copy, p, &e));
    tern_seq_keep(ctx, 0, 0);
    for (tern_token i = 1; i < 4; i++)
        ck_assert(!tern_batch_add(ctx, 0, i, 0, &e));
    ck_assert(!tern_forward(ctx));
    ck_assert_uint_gt(p->columns, 0);
}

static struct opened open_golden(const char *name, char *path, size_t size, enum tern_type type)
{
    static struct golden g;
    golden_read(&g, name);
    golden_write(path, size, &g, type);
    golden_close(&g);
    return open_model(path, 2, TERN_CACHE_F16);
}

/* The stream is the sum of what the editor left: with 0 from one half of a layer, it is what came in
 * and the other half. */
START_TEST(the_stream_is_summed_again)
{
    static const char *const cases[][3] = {{"llama-gqa", "o", "down"},
                                           {"cohere", "o", "down"},
                                           {"phi", "o", "down"},
                                           {"granite", "o", "down"},
                                           {"gemma2", "attn_post_norm", "ffn_post_norm"},
                                           {"mixtral", "o", "experts"}};
    char path[256];
    struct opened m = open_golden(cases[_i][0], path, sizeof path, TERN_Q8);
    for (int half = 1; half < 3; half++) {
        const char *zero = cases[_i][half], *left = cases[_i][3 - half];
        static struct probe out, rest;
        out = (struct probe){.set = zero, .copy = "out"};
        rest = (struct probe){.set = zero, .copy = left};
        probe(m.ctx, &out);
        probe(m.ctx, &rest);
        for (size_t c = 0; c < out.columns; c++)
            ck_assert(rest.copied[c] != 0 && out.copied[c] == out.first[c] + rest.copied[c]);
    }
    close_model(m);
    remove(path);
}
END_TEST

/* The experts that a row gets are those with a weight, chosen by the router or not; their outputs
 * are added with these weights. */
START_TEST(the_router_can_be_overruled)
{
    char path[256];
    struct opened m = open_golden("mixtral", path, sizeof path, TERN_F32);
    static struct probe one, other, both, none, many;
    size_t a = 0, b = 0;
    one = (struct probe){.copy = "router"};
    probe(m.ctx, &one); /* two that the router does not choose, if there are as many */
    while (one.copied[a] != 0 && a + 1 < one.columns)
        a++;
    b = (a + 1) % one.columns;
    one = other = both = none = many = (struct probe){.set = "router", .copy = "experts"};
    one.value[a] = other.value[b] = both.value[a] = both.value[b] = 1;
    for (int i = 0; i < 8; i++)
        many.value[i] = 1;
    probe(m.ctx, &one);
    probe(m.ctx, &other);
    probe(m.ctx, &both);
    probe(m.ctx, &none);
    for (size_t c = 0; c < one.columns; c++) {
        ck_assert(both.copied[c] == one.copied[c] + other.copied[c]);
        ck_assert(none.copied[c] == 0);
    }
    ck_assert(memcmp(one.copied, other.copied, one.columns * sizeof(float)));
    many.copy = "router"; /* no more than the router chooses */
    probe(m.ctx, &many);
    for (size_t c = 0; c < many.columns; c++)
        ck_assert(many.copied[c] == (c < 2));
    close_model(m);
    remove(path);
}
END_TEST

/* Each row multiplies what an expert gives by its own weight of the expert; the weights of a row add
 * up to 1 here. */
START_TEST(an_expert_can_be_replaced)
{
    char path[256];
    struct opened m = open_golden("mixtral", path, sizeof path, TERN_Q8);
    static struct probe all;
    all = (struct probe){.set = "expert", .value = {1, -2, 3, -4, 5, -6, 7, -8}, .copy = "experts"};
    probe(m.ctx, &all);
    for (size_t c = 0; c < all.columns; c++)
        ck_assert_float_eq_tol(all.copied[c], c < 8 ? all.value[c] : 0, 1e-5f);
    close_model(m);
    remove(path);
}
END_TEST

/* ---- altered contexts ------------------------------------------------------------------------ */

static enum tern_status save(tern_context *ctx, const char *path, struct tern_error *e)
{
    *e = (struct tern_error){0};
    return tern_session_save(ctx, 0, path, e);
}

START_TEST(an_altered_context_says_so)
{
    static struct golden g;
    static logits_table clean, after;
    struct tern_error e = {0};
    struct editor ed = {.what = BEND, .operation = "v"};
    char path[256], session[256];
    uint64_t rows;
    golden_read(&g, "llama-gqa");
    golden_write(path, sizeof path, &g, TERN_Q8);
    struct opened m = open_model(path, 2, TERN_CACHE_F16);
    toy_path(session, sizeof session, "surgery.session");
    evaluate(m.ctx, &g, N_ROWS, clean);
    ck_assert(!save(m.ctx, session, &e) && !tern_altered(m.ctx));
    ck_assert(tern_fingerprint(m.ctx, &rows) && rows == N_ROWS);
    ck_assert(!tern_edit(m.ctx, edit, &ed, &e) && !tern_altered(m.ctx));
    tern_seq_keep(m.ctx, 0, 0);
    evaluate(m.ctx, &g, N_ROWS, after);
    ck_assert(tern_altered(m.ctx) && !is_same(clean, after, &g));
    ck_assert_int_eq(save(m.ctx, session, &e), TERN_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "editor"));
    /* it stays altered, but what is loaded, or evaluated without the editor, is clean */
    ck_assert(!tern_edit(m.ctx, NULL, NULL, &e) && tern_altered(m.ctx));
    ck_assert(!tern_session_load(m.ctx, 0, session, &e));
    ck_assert_uint_eq(tern_seq_length(m.ctx, 0), N_ROWS);
    size_t calls = ed.calls;
    tern_seq_keep(m.ctx, 0, 0);
    evaluate(m.ctx, &g, N_ROWS, after);
    ck_assert(is_same(clean, after, &g) && ed.calls == calls);
    ck_assert_int_eq(save(m.ctx, session, &e), TERN_USAGE);
    tern_fingerprint_begin(m.ctx);
    tern_fingerprint_add(m.ctx);
    ck_assert(!tern_fingerprint(m.ctx, &rows) && !rows);
    close_model(m);
    golden_close(&g);
    remove(session);
    remove(path);
}
END_TEST

SUITE("surgery", LOOP(a_change_counts_and_no_change_changes_nothing, 0, golden_count()),
      LOOP(the_stream_is_summed_again, 0, 6), TEST(the_router_can_be_overruled),
      TEST(an_expert_can_be_replaced), TEST(an_altered_context_says_so))
