/* Attention as a matrix: for every golden model, cache type and batch size, the rows that
 * tern_attention computes are those of the engine. Their weighted sum of V, gated or normed where the
 * layer does that, is what `attend` gives. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/context.h"
#include "golden.h"
#include "model/linear.h"
#include "suite.h"
#include "tern_lab.h"

enum { N_ROWS = 300, MAX_LAYERS = 8, MAX_WIDTH = 512 };

struct looker {
    tern_attention *a;
    float attend[MAX_LAYERS][N_ROWS * MAX_WIDTH]; /* [N_ROWS, columns] */
    size_t columns[MAX_LAYERS];
    float h[MAX_LAYERS][N_ROWS * MAX_WIDTH]; /* [N_ROWS, dim] norm(x), which a gate reads */
    double mixed[N_ROWS * MAX_WIDTH]; /* [N_ROWS, n_heads * head_dim] of one layer: weights times V, */
    double bound[MAX_WIDTH];          /* and how near f32 comes to it */
};

static void look(void *arg, const struct tern_observation *o)
{
    struct looker *w = arg;
    bool is_attend = !strcmp(o->operation, "attend");
    tern_attention_feed(w->a, o);
    if (!is_attend && strcmp(o->operation, "attn_norm"))
        return;
    ck_assert(o->layer < MAX_LAYERS && o->columns <= MAX_WIDTH);
    if (is_attend)
        w->columns[o->layer] = o->columns;
    float *to = is_attend ? w->attend[o->layer] : w->h[o->layer];
    for (size_t i = 0; i < o->rows; i++)
        memcpy(to + o->at[i].position * o->columns, o->values + i * o->stride,
               o->columns * sizeof *o->values);
}

static void evaluate(tern_context *ctx, const struct golden *g, size_t n, size_t n_batch)
{
    tern_token ids[N_ROWS];
    struct tern_error e = {0};
    golden_prompt(ids, n, g->prompt_seed, g->vocab);
    for (size_t i = 0; i < n;) {
        for (size_t b = 0; b < n_batch && i < n; b++)
            ck_assert(!tern_batch_add(ctx, 0, ids[i++], 0, &e));
        ck_assert(!tern_forward(ctx));
    }
}

/* One head: the stages agree with one another; into w->mixed what their weights make of V. */
static void check_head(struct looker *w, const struct tern_layer_info *info, uint64_t layer,
                       uint64_t head, size_t n)
{
    static float raw[N_ROWS], scaled[N_ROWS], masked[N_ROWS], weights[N_ROWS], free_of[N_ROWS];
    static float v[N_ROWS * MAX_WIDTH];
    float *const rows[] = {raw, scaled, masked, weights, free_of};
    struct tern_error e = {0};
    size_t d = info->head_dim, width = info->n_heads * d;
    ck_assert(width <= MAX_WIDTH);
    ck_assert(!tern_attention_vectors(w->a, layer, head, TERN_ATTENTION_V, 0, (uint32_t)n, v, &e));
    for (size_t i = 0; i < n; i += 1 + i / 2) {
        for (int s = 0; s < TERN_N_ATTENTION_STAGES; s++)
            ck_assert_msg(!tern_attention_rows(w->a, layer, head, (enum tern_attention_stage)s,
                                               (uint32_t)i, 1, rows[s], N_ROWS, &e),
                          "%s", e.text);
        double sum = 0, sum_free = 0;
        for (size_t j = 0; j < n; j++) {
            bool near = !info->window || (info->chunked ? j / info->window == i / info->window : j + info->window > i);
            bool sees = j <= i && near;
            float slope = info->alibi ? fabsf(info->alibi[head]) : 0; /* rounded to 8 bits */
            float bias = slope * ((float)j - (float)i);
            float s = (raw[j] + bias) * info->attn_scale;
            if (info->attn_cap > 0)
                s = info->attn_cap * tanhf(s / info->attn_cap);
            ck_assert_float_eq_tol(s, scaled[j],
                                   1e-5f * (1 + fabsf(s)) + slope * N_ROWS * info->attn_scale / 64);
            ck_assert(sees ? masked[j] == scaled[j] : masked[j] == -INFINITY);
            ck_assert(sees ? weights[j] >= 0 : weights[j] == 0);
            sum += weights[j], sum_free += free_of[j];
        }
        ck_assert(info->sinks ? sum < 1 : fabs(sum - 1) < 1e-5);
        ck_assert(info->sinks ? sum_free < 1 : fabs(sum_free - 1) < 1e-5);
        for (size_t c = 0; c < d; c++) {
            double *mixed = &w->mixed[i * width + head * d + c], largest = 0;
            *mixed = 0;
            for (size_t j = 0; j < n; j++) {
                *mixed += (double)weights[j] * v[j * d + c];
                largest = fmax(largest, fabs(v[j * d + c]));
            }
            w->bound[head * d + c] = 1e-5 * largest;
        }
    }
}

/* mixed *= sigmoid(Wgate h), or softplus of it, by values or by heads   [columns] */
static void gate(const tern_model *m, const struct layer *l, const float *h, double *mixed)
{
    static float row[MAX_WIDTH];
    size_t width = layer_out_dim(l) / l->attn_gate.rows;
    for (size_t r = 0; r < l->attn_gate.rows; r++) {
        double z = l->attn_gate.bias ? l->attn_gate.bias[r] : 0;
        m->kernels.get_row[l->attn_gate.type](row, l->attn_gate.data, m->model->dim, r);
        for (size_t c = 0; c < m->model->dim; c++)
            z += (double)row[c] * h[c];
        for (size_t c = r * width; c < (r + 1) * width; c++)
            mixed[c] *= l->soft_gate ? log1p(exp(z)) : 1 / (1 + exp(-z));
    }
}

/* mixed = RMSNorm of it; bounds likewise   [n] */
static void norm(const struct layer *l, double eps, double *mixed, double *bound, size_t n)
{
    double squares = 0;
    for (size_t c = 0; c < n; c++)
        squares += mixed[c] * mixed[c] / (double)n;
    for (size_t c = 0; c < n; c++) {
        double by = l->out_norm.weight[c] / sqrt(squares + eps);
        mixed[c] *= by;
        bound[c] = 2 * bound[c] * fabs(by);
    }
}

/* mixed = Wv_up[h] mixed of each head: latent attention; bounds likewise */
static void lift(const tern_model *m, const struct layer *l, double *mixed, double *bound)
{
    static float row[MAX_WIDTH];
    double sums[MAX_WIDTH] = {0}, bounds[MAX_WIDTH] = {0};
    size_t value = l->latent.value;
    ck_assert(l->n_heads * value <= MAX_WIDTH);
    for (size_t h = 0; h < l->n_heads; h++) {
        struct matrix up = matrix_rows(&l->latent.v_up, h, 0, value);
        for (size_t r = 0; r < value; r++) {
            m->kernels.get_row[up.type](row, up.data, up.k, r);
            for (size_t c = 0; c < l->latent.rank; c++) {
                sums[h * value + r] += row[c] * mixed[h * l->head_dim + c];
                bounds[h * value + r] += fabsf(row[c]) * bound[h * l->head_dim + c];
            }
        }
    }
    memcpy(mixed, sums, sizeof sums);
    memcpy(bound, bounds, sizeof bounds);
}

/* What `attend` gave of one row is `mixed`, lifted, gated, normed and rounded as the layer does. */
static void check_attend(const struct looker *w, const tern_model *m, const struct layer *l, size_t i)
{
    size_t n = w->columns[l->index], width = l->n_heads * l->head_dim;
    double mixed[MAX_WIDTH], bound[MAX_WIDTH], half = 0;
    memcpy(mixed, w->mixed + i * width, width * sizeof *mixed);
    memcpy(bound, w->bound, width * sizeof *bound);
    if (l->latent.rank)
        lift(m, l, mixed, bound);
    if (l->attn_gate.data)
        gate(m, l, w->h[l->index] + i * m->model->dim, mixed);
    if (l->out_norm.weight)
        norm(l, m->model->norm_eps, mixed, bound, n);
    for (size_t c = 0; c < n && l->round_inputs; c++)
        half = fmax(half, fabs(mixed[c]) / 127 / 2); /* of a step of round_row */
    for (size_t c = 0; c < n; c++)
        ck_assert_double_eq_tol(mixed[c], w->attend[l->index][i * n + c], bound[c] + 1.01 * half);
}

/* Without the rows before it, the last row finds their keys in the cache. */
static void check_last(tern_context *ctx, const tern_attention *all, const struct tern_model_info *m,
                       size_t n)
{
    static float row[N_ROWS], whole[N_ROWS];
    static struct looker w;
    struct tern_error e = {0};
    struct tern_attention_params p = {.n_positions = (uint32_t)n, .last = 1};
    uint32_t at = (uint32_t)n - 1;
    tern_token again = tern_seq_tokens(ctx, 0)[at];
    ck_assert(!tern_attention_open(&w.a, ctx, &p, &e) && !tern_observe(ctx, look, &w, &e));
    ck_assert_uint_eq(tern_seq_keep(ctx, 0, at), at);
    ck_assert(!tern_batch_add(ctx, 0, again, 0, &e) && !tern_forward(ctx));
    for (uint64_t l = 0; l < m->n_layers; l++) {
        struct tern_layer_info layer;
        tern_model_layer(ctx->model, l, &layer);
        for (uint64_t h = 0; h < layer.n_heads; h++) {
            ck_assert(!tern_attention_rows(all, l, h, TERN_ATTENTION_WEIGHTS, at, 1, whole, n, &e));
            ck_assert(!tern_attention_rows(w.a, l, h, TERN_ATTENTION_WEIGHTS, at, 1, row, n, &e));
            ck_assert(!memcmp(row, whole, n * sizeof *row));
        }
    }
    tern_attention_close(w.a);
}

static void check_model(tern_model *model, const struct golden *g, enum tern_cache_type type,
                        size_t n, size_t n_batch)
{
    static struct looker w;
    struct tern_error e = {0};
    struct tern_model_info info;
    tern_context *ctx = NULL;
    tern_model_info(model, &info);
    n = n < info.max_seq ? n : info.max_seq;
    struct tern_attention_params p = {.n_positions = (uint32_t)n};
    struct tern_context_params cp = {
        .n_ctx = (uint32_t)n, .n_batch = (uint32_t)n_batch, .cache_type = type};
    ck_assert_msg(!tern_context_open(&ctx, model, &cp, &e), "%s", e.text);
    ck_assert(!tern_attention_open(&w.a, ctx, &p, &e) && !tern_observe(ctx, look, &w, &e));
    evaluate(ctx, g, n, n_batch);
    ck_assert_uint_eq(tern_attention_length(w.a), n);
    for (uint64_t l = 0; l < info.n_layers; l++) {
        struct tern_layer_info layer;
        tern_model_layer(model, l, &layer);
        for (uint64_t h = 0; h < layer.n_heads; h++)
            check_head(&w, &layer, l, h, n);
        for (size_t i = 0; i < n && layer.n_heads; i += 1 + i / 2)
            check_attend(&w, model, &model->model->layers[l], i);
    }
    check_last(ctx, w.a, &info, n);
    tern_attention_close(w.a);
    tern_context_close(ctx);
}

START_TEST(rows_are_those_of_the_engine)
{
    static const enum tern_cache_type types[] = {TERN_CACHE_F16, TERN_CACHE_F32, TERN_CACHE_Q8};
    static struct golden g;
    struct tern_error e = {0};
    tern_model *model = NULL;
    char path[256];
    if (!golden_is_due(_i))
        return;
    golden_read(&g, golden_names[_i]);
    golden_write(path, sizeof path, &g, TERN_F32);
    ck_assert(!tern_model_open(&model, path, NULL, &e));
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        check_model(model, &g, types[t], _i % 9 == (int)t ? N_ROWS : 20, _i % 2 ? 7 : 64);
    tern_model_close(model);
    remove(path);
    golden_close(&g);
}
END_TEST

/* What is kept is what it says, and a position that comes again replaces what came after it. */
START_TEST(positions_can_be_evaluated_again)
{
    static float row[64], again[64];
    struct tern_error e = {0};
    struct toy toy = toy_default();
    struct tern_attention_params p = {.n_positions = 20};
    static struct looker w;
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    char path[256];
    toy_path(path, sizeof path, "rows");
    ck_assert(!toy_write(path, &toy, &e) && !tern_model_open(&model, path, NULL, &e) &&
              !tern_context_open(&ctx, model, NULL, &e));
    ck_assert(!tern_attention_open(&w.a, ctx, &p, &e) && !tern_observe(ctx, look, &w, &e));
    for (tern_token i = 0; i < 30; i++)
        ck_assert(!tern_batch_add(ctx, 0, i, 0, &e) && !tern_forward(ctx));
    ck_assert_uint_eq(tern_attention_length(w.a), 20); /* no more than it has room for */
    ck_assert(!tern_attention_rows(w.a, 1, 0, TERN_ATTENTION_WEIGHTS, 9, 1, row, 64, &e));
    ck_assert_uint_eq(tern_seq_keep(ctx, 0, 5), 5);
    for (tern_token i = 5; i < 12; i++)
        ck_assert(!tern_batch_add(ctx, 0, i, 0, &e) && !tern_forward(ctx));
    ck_assert_uint_eq(tern_attention_length(w.a), 12);
    ck_assert(!tern_attention_rows(w.a, 1, 0, TERN_ATTENTION_WEIGHTS, 9, 1, again, 64, &e));
    ck_assert(!memcmp(row, again, 12 * sizeof *row));
    tern_attention_close(w.a);

    /* opened too late, it has nothing */
    ck_assert(!tern_attention_open(&w.a, ctx, &p, &e));
    ck_assert(!tern_batch_add(ctx, 0, 1, 0, &e) && !tern_forward(ctx));
    ck_assert_uint_eq(tern_attention_length(w.a), 0);
    tern_attention_close(w.a);
    tern_context_close(ctx);
    tern_model_close(model);
    remove(path);
}
END_TEST

#define REFUSED(reason, ...)                                                     \
    ck_assert(tern_attention_rows(w.a, __VA_ARGS__, row, 64, &e) == TERN_USAGE); \
    ck_assert_msg(strstr(e.text, reason), "%s", e.text)

START_TEST(the_last_row_is_all_that_it_has)
{
    float row[8];
    struct tern_error e = {0};
    struct toy toy = toy_default();
    struct tern_attention_params p = {.n_positions = 8, .last = 1};
    static struct looker w;
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    char path[256];
    toy_path(path, sizeof path, "rows");
    ck_assert(!toy_write(path, &toy, &e) && !tern_model_open(&model, path, NULL, &e) &&
              !tern_context_open(&ctx, model, NULL, &e));
    ck_assert(!tern_attention_open(&w.a, ctx, &p, &e) && !tern_observe(ctx, look, &w, &e));
    for (tern_token i = 0; i < 8; i++)
        ck_assert(!tern_batch_add(ctx, 0, i, 0, &e) && !tern_forward(ctx));
    ck_assert(!tern_attention_rows(w.a, 0, 0, TERN_ATTENTION_WEIGHTS, 7, 1, row, 8, &e));
    REFUSED("only the weights of row 7", 0, 0, TERN_ATTENTION_WEIGHTS, 6, 1);
    REFUSED("only the weights of row 7", 0, 0, TERN_ATTENTION_SCALED, 7, 1);
    ck_assert(tern_attention_vectors(w.a, 0, 0, TERN_ATTENTION_K, 7, 1, row, &e) == TERN_USAGE);
    ck_assert_uint_eq(tern_seq_keep(ctx, 0, 4), 4); /* the cache has lost it */
    REFUSED("0 positions are kept", 0, 0, TERN_ATTENTION_WEIGHTS, 7, 1);
    tern_attention_close(w.a);
    tern_context_close(ctx);
    tern_model_close(model);
    remove(path);
}
END_TEST

START_TEST(what_is_not_there_is_named)
{
    float row[64];
    struct tern_error e = {0};
    struct toy toy = toy_default();
    unsigned char layers[] = {1, 0};
    struct tern_attention_params p = {.n_positions = 8, .layers = layers};
    static struct looker w;
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    char path[256];
    toy_path(path, sizeof path, "rows");
    ck_assert(!toy_write(path, &toy, &e) && !tern_model_open(&model, path, NULL, &e) &&
              !tern_context_open(&ctx, model, NULL, &e));
    ck_assert(!tern_attention_open(&w.a, ctx, &p, &e) && !tern_observe(ctx, look, &w, &e));
    ck_assert(!tern_batch_add(ctx, 0, 1, 0, &e) && !tern_forward(ctx));
    REFUSED("layers 0 to 1", 2, 0, TERN_ATTENTION_RAW, 0, 1);
    REFUSED("not among those", 1, 0, TERN_ATTENTION_RAW, 0, 1);
    REFUSED("heads 0 to", 0, 4, TERN_ATTENTION_RAW, 0, 1);
    REFUSED("rows 1 to 1", 0, 0, TERN_ATTENTION_RAW, 1, 1);
    REFUSED("rows 0 to 1", 0, 0, TERN_ATTENTION_RAW, 0, 2);
    REFUSED("stage 5", 0, 0, TERN_N_ATTENTION_STAGES, 0, 1);
    ck_assert(tern_attention_bytes(ctx, &p) < 1 << 20);
    ck_assert(tern_attention_vectors(w.a, 0, 0, TERN_ATTENTION_K, 0, 2, row, &e) == TERN_USAGE);
    p.n_positions = UINT32_MAX;
    ck_assert(tern_attention_bytes(ctx, &p) > 1ull << 32);
    tern_attention_close(w.a);
    tern_context_close(ctx);
    tern_model_close(model);
    remove(path);
}
END_TEST

SUITE("attention rows", LOOP(rows_are_those_of_the_engine, 0, golden_count()),
      TEST(positions_can_be_evaluated_again), TEST(the_last_row_is_all_that_it_has),
      TEST(what_is_not_there_is_named))
