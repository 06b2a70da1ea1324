/* The observer: it sees every step of every golden model in the documented order, the same values
 * whatever the batch and the threads, and nothing changes because it looks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh64.h"
#include "golden.h"
#include "tern_lab.h"
#include "suite.h"

enum { N_ROWS = 20, MAX_SEEN = 8192 };

/* In the order of tern_lab.h */
static const char *const order[] = {
    "embed",   "attn_norm",     "q",    "k",          "v",     "attend", "o",      "attn_post_norm",
    "middle",  "ffn_norm",      "gate", "up",         "act",   "down",   "router", "expert",
    "experts", "ffn_post_norm", "ple",  "out",        "final_norm", "logits"};

struct seen {
    uint64_t layer, columns, expert;
    size_t operation; /* of order */
    uint32_t position;
    uint64_t hash;
    float first; /* value */
};

struct watcher {
    struct seen seen[MAX_SEEN];
    size_t n;
    const tern_context *ctx;
};

static size_t place_of(const char *operation)
{
    size_t i = 0;
    while (strcmp(order[i], operation))
        ck_assert_msg(++i < sizeof order / sizeof *order, "%s is not documented", operation);
    return i;
}

static void watch(void *arg, const struct tern_observation *o)
{
    struct watcher *w = arg;
    size_t at = place_of(o->operation);
    if (w->n) { /* a batch begins anew at the embedding */
        const struct seen *last = &w->seen[w->n - 1];
        ck_assert_msg(
            at == 0 || o->layer > last->layer ||
                (o->layer == last->layer && at > last->operation) ||
                (o->layer == last->layer && at == last->operation && o->expert > last->expert),
            "%s comes after %s", o->operation, order[last->operation]);
    }
    ck_assert_uint_ge(o->stride, o->columns);
    for (size_t i = 0; i < o->rows; i++) {
        const float *row = o->values + i * o->stride;
        ck_assert_uint_lt(w->n, MAX_SEEN);
        w->seen[w->n++] =
            (struct seen){o->layer, o->columns,        o->expert,
                          at,       o->at[i].position, xxh64(row, o->columns * sizeof *row),
                          row[0]};
        if (!strcmp(o->operation, "logits"))
            ck_assert(!memcmp(row, tern_logits(w->ctx, i), o->columns * sizeof *row));
    }
}

static int by_place(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (x->operation != y->operation)
        return x->operation < y->operation ? -1 : 1;
    if (x->expert != y->expert)
        return x->expert < y->expert ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

/* Evaluates the prompt in batches of n_batch rows, all of which want logits. */
static uint64_t evaluate(const char *path, const struct golden *g, int threads, uint32_t n_batch,
                         struct watcher *w)
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = threads};
    struct tern_context_params cp = {.n_ctx = N_ROWS, .n_batch = n_batch, .fingerprint = 1};
    tern_token ids[N_ROWS];
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    ck_assert_msg(!tern_model_open(&model, path, &mp, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&ctx, model, &cp, &e), "%s", e.text);
    if (w) {
        w->n = 0, w->ctx = ctx;
        ck_assert_msg(!tern_observe(ctx, watch, w, &e), "%s", e.text);
    }
    golden_prompt(ids, N_ROWS, g->prompt_seed, g->vocab);
    for (size_t i = 0; i < N_ROWS;) {
        for (size_t n = 0; n < n_batch && i < N_ROWS; n++)
            ck_assert(!tern_batch_add(ctx, 0, ids[i++], TERN_ROW_LOGITS, &e));
        ck_assert(!tern_forward(ctx));
    }
    uint64_t fingerprint = tern_fingerprint(ctx, NULL);
    tern_context_close(ctx);
    tern_model_close(model);
    return fingerprint;
}

static const struct seen *find(const struct watcher *w, uint64_t layer, const char *operation)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->seen[i].layer == layer && !strcmp(order[w->seen[i].operation], operation))
            return &w->seen[i];
    return NULL;
}

/* The stream is the sum of what was added to it, where each addition was seen by itself. */
static void check_stream(const struct watcher *w, bool scaled, bool streams,
                         bool latent)
{
    const struct seen *x = find(w, 0, "embed");
    ck_assert_ptr_nonnull(x);
    for (uint64_t l = 0; find(w, l, "out"); l++) {
        const struct seen *o = find(w, l, "attn_post_norm"), *down = find(w, l, "ffn_post_norm");
        const struct seen *middle = find(w, l, "middle"), *out = find(w, l, "out");
        o = o ? o : find(w, l, "o");
        down = down ? down : find(w, l, "down");
        down = down ? down : find(w, l, "experts");
        const struct seen *q = find(w, l, "q"), *k = find(w, l, "k"), *v = find(w, l, "v");
        /* a layer may lack a mixer, a feed-forward step, or both, or keys of its own */
        ck_assert(!k == !v && (q || !k) && (!q || k || scaled));
        ck_assert(!k || (k->hash == v->hash) == latent); /* whose keys are the values */
        float sum = o ? x->first + o->first : x->first;
        if (middle && !streams) /* a learned residual joins there, too */
            ck_assert(middle->first == sum);
        ck_assert(scaled || out->first == (down ? sum + down->first : sum));
        x = out;
    }
    ck_assert(find(w, x->layer + 1, "final_norm") && find(w, x->layer + 1, "logits"));
}

START_TEST(looking_changes_nothing)
{
    static const enum tern_type types[] = {TERN_F32, TERN_Q8};
    static struct golden g;
    static struct watcher whole, single;
    char path[256];
    if (!golden_is_due(_i))
        return;
    golden_read(&g, golden_names[_i]);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        golden_write(path, sizeof path, &g, types[t]);
        uint64_t blind = evaluate(path, &g, 1, N_ROWS, NULL);
        ck_assert(evaluate(path, &g, 1, N_ROWS, &whole) == blind);
        ck_assert(evaluate(path, &g, 2, 1, &single) == blind);
        qsort(single.seen, single.n, sizeof *single.seen, by_place);
        ck_assert_uint_eq(whole.n, single.n);
        for (size_t i = 0; i < whole.n; i++) {
            const struct seen *a = &whole.seen[i], *b = &single.seen[i];
            ck_assert_msg(!by_place(a, b) && a->hash == b->hash && a->columns == b->columns,
                          "%s: layer %d, %s, position %u", g.name, (int)a->layer,
                          order[a->operation], a->position);
        }
        bool latent = false;
        for (size_t i = 0; i < g.n_tensors; i++)
            latent |= strstr(g.tensors[i].name, ".v_up") != NULL;
        bool streams = !strcmp(g.name, "gemma3n");
        check_stream(&whole, !strncmp(g.name, "gemma4", 6) || streams, streams, latent);
        remove(path);
    }
    golden_close(&g);
}
END_TEST

static void count(void *arg, const struct tern_observation *o)
{
    (void)o;
    ++*(int *)arg;
}

START_TEST(who_stops_looking_sees_no_more)
{
    struct tern_error e = {0};
    struct toy toy = toy_default();
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    char path[256];
    int first = 0, second = 0;
    toy_path(path, sizeof path, "observe");
    ck_assert(!toy_write(path, &toy, &e) && !tern_model_open(&model, path, NULL, &e) &&
              !tern_context_open(&ctx, model, NULL, &e));
    for (int i = 0; i < 4; i++) {
        if (i == 1)
            ck_assert(!tern_observe(ctx, count, &first, &e));
        if (i == 2)
            ck_assert(!tern_observe(ctx, count, &second, &e));
        if (i == 3)
            ck_assert(!tern_observe(ctx, NULL, NULL, &e));
        ck_assert(!tern_batch_add(ctx, 0, 5, 0, &e) && !tern_forward(ctx));
        ck_assert(i || !first);
    }
    /* embed, two layers of 13 operations; no row wants logits */
    ck_assert_int_eq(first, 1 + 2 * 13);
    ck_assert_int_eq(second, first);
    tern_context_close(ctx);
    tern_model_close(model);
    remove(path);
}
END_TEST

static void cancel_at_q(void *arg, const struct tern_observation *o)
{
    if (o->layer == 1 && !strcmp(o->operation, "q"))
        tern_cancel(arg);
    ck_assert(o->layer < 2 || !o->rows);
}

START_TEST(who_looks_may_cancel)
{
    struct tern_error e = {0};
    struct toy toy = toy_default();
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    char path[256];
    toy_path(path, sizeof path, "observe");
    toy.n_layers = 3;
    ck_assert(!toy_write(path, &toy, &e) && !tern_model_open(&model, path, NULL, &e) &&
              !tern_context_open(&ctx, model, NULL, &e));
    ck_assert(!tern_batch_add(ctx, 0, 5, 0, &e) && !tern_forward(ctx));
    ck_assert(!tern_observe(ctx, cancel_at_q, ctx, &e));
    ck_assert(!tern_batch_add(ctx, 0, 6, TERN_ROW_LOGITS, &e));
    ck_assert_int_eq(tern_forward(ctx), TERN_CANCELLED);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 1);
    ck_assert(!tern_observe(ctx, NULL, NULL, &e));
    ck_assert(!tern_batch_add(ctx, 0, 6, 0, &e) && !tern_forward(ctx));
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 2);
    tern_context_close(ctx);
    tern_model_close(model);
    remove(path);
}
END_TEST

SUITE("observe", LOOP(looking_changes_nothing, 0, golden_count()),
      TEST(who_stops_looking_sees_no_more), TEST(who_looks_may_cancel))
