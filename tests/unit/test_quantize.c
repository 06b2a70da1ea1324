/* ldflags: -Wl,@tests/support/allocs.ld */
/* The writer of weights files, and quantize on top of it. */
#include "allocs.h"
#include "golden.h"
#include "image.h"

#include "base/bytes.h"
#include "kernels/formats.h"
#include "quantize/quantize.h"
#include "weights/checksums.h"
#include "weights/weights.h"
#include "weights/writer.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 64 };

static const double Q8_BOUND = 0.35; /* random experts are chosen by narrow margins */

static char from[256], to[256];
static struct tern_error e;
static const struct quantize_params q8 = {.type = TERN_Q8};

static void setup(void)
{
    toy_path(from, sizeof from, "from.bin");
    toy_path(to, sizeof to, "to.bin");
    e = (struct tern_error){TERN_OK, ""};
}

static void teardown(void)
{
    unlink(from);
    unlink(to);
}

static void expect(enum tern_status got, enum tern_status status, const char *text)
{
    ck_assert_msg(got == status && e.code == status, "status %d: %s", got, e.text);
    ck_assert_msg(strstr(e.text, text), "'%s' lacks '%s'", e.text, text);
}

/* Rows, k and heads that fill neither tiles nor groups. */
static struct toy odd_shape(enum tern_type type)
{
    struct toy t = toy_default();
    t.dim = 40, t.head_dim = 10, t.hidden = 72, t.vocab = 259, t.untied = 1;
    t.attn_bias = 7, t.ffn_bias = 7, t.type = type;
    return t;
}

static void write_toy(const struct toy *t)
{
    ck_assert_msg(!toy_write(from, t, &e), "%s", e.text);
}

static enum tern_status quantize(enum tern_type type, int n_threads)
{
    struct pool *pool;
    ck_assert_int_eq(pool_open(&pool, n_threads, &e), TERN_OK);
    enum tern_status s =
        quantize_file(from, to, &(struct quantize_params){.type = type}, pool, NULL, NULL, &e);
    pool_close(pool);
    return s;
}

static struct image file_image(const char *path)
{
    struct image i = {malloc(1 << 20), 0};
    FILE *f = fopen(path, "rb");
    ck_assert(f && i.p);
    i.n = fread(i.p, 1, 1 << 20, f);
    fclose(f);
    ck_assert_uint_lt(i.n, 1 << 20);
    return i;
}

static void expect_same(const struct image *a, const struct image *b)
{
    ck_assert_uint_eq(a->n, b->n);
    ck_assert_int_eq(memcmp(a->p, b->p, a->n), 0);
}

/* ---- quantize ---- */

START_TEST(same_bytes_as_encoded_at_once)
{
    struct toy t = odd_shape(TERN_F32), direct = odd_shape(TERN_Q8);
    struct image want = image_of(&direct);
    write_toy(&t);
    for (int n_threads = 1; n_threads <= 7; n_threads += golden_is_threaded() ? 3 : 1) {
        ck_assert_int_eq(quantize(TERN_Q8, n_threads), TERN_OK);
        struct image got = file_image(to);
        expect_same(&got, &want);
        image_close(&got);
    }
    image_close(&want);
}
END_TEST

/* A toy as q4 or q4c, with codes fitted to the tokens where there are any. */
static struct image quantized(enum tern_type type, const char *keep, const tern_token *tokens,
                              size_t n, int n_threads)
{
    struct quantize_params o = {.type = type, .keep_q8 = keep};
    struct calibration_text text = {.tokens = tokens, .n = n, .bos = 1};
    struct kernels kernels;
    struct pool *pool;
    struct model *m;
    ck_assert(!pool_open(&pool, n_threads, &e) && !kernels_init(&kernels, NULL, &e));
    ck_assert_msg(!model_open(&m, from, &e), "%s", e.text);
    if (tokens)
        ck_assert(!calibrate_open(&o.calibration, m, &kernels, pool, &text, &e));
    ck_assert_msg(!quantize_file(from, to, &o, pool, NULL, NULL, &e), "%s", e.text);
    calibrate_close(o.calibration);
    model_close(m);
    pool_close(pool);
    return file_image(to);
}

/* Plain and calibrated, on matrices that fill neither tiles nor groups, tied and not. */
START_TEST(threads_change_no_byte)
{
    enum { TEXT = 150 };
    const enum tern_type type = _i & 4 ? TERN_Q4C : TERN_Q4;
    struct toy t = odd_shape(_i & 2 ? TERN_Q8 : TERN_F32);
    tern_token tokens[TEXT];
    for (int i = 0; i < TEXT; i++)
        tokens[i] = i * i * 31 % 259;
    t.untied = _i & 1;
    if (golden_is_threaded() && _i % 3)
        return;
    write_toy(&t);
    struct image plain = quantized(type, NULL, NULL, 0, 1),
                 fitted = quantized(type, NULL, tokens, TEXT, 1);
    ck_assert_uint_eq(plain.n, fitted.n);
    ck_assert(memcmp(plain.p, fitted.p, plain.n) != 0);
    for (int n_threads = 2; n_threads <= 5; n_threads += golden_is_quick() ? 3 : 1) {
        struct image a = quantized(type, NULL, NULL, 0, n_threads);
        struct image b = quantized(type, NULL, tokens, TEXT, n_threads);
        expect_same(&a, &plain);
        expect_same(&b, &fitted);
        image_close(&a), image_close(&b);
    }
    image_close(&plain), image_close(&fitted);
}
END_TEST

/* Matrices whose inputs are watched are calibrated. Those of heads with a space each, and what is only
 * looked up, are not. */
static const struct {
    const char *model, *fitted[7], *plain[2];
} readers[] = {
    {"deepseek-v3", {"layer.1.q", "layer.1.q_down", "layer.1.v_up"}, {"layer.1.k_up"}},
    {"gemma4-e4b", {"layer.1.ple_gate", "layer.1.ple_out", "ple_in"}, {"ple_embed"}},
    {"gemma3n",
     {"layer.1.ple_gate", "layer.1.ple_out", "layer.1.laurel_left", "layer.1.laurel_right", "ple_in",
      "altup_in", "altup_out"},
     {"ple_embed"}},
    {"falcon-h1", {"layer.0.o", "layer.0.mix_out"}, {NULL}},
    {"qwen3-next", {"layer.0.mix_in", "layer.0.mix_out"}, {"embed"}}};

static uint64_t sum_of(const struct image *i, const char *name)
{
    struct weights *w;
    image_save(i, to);
    ck_assert_msg(!weights_open(&w, to, &e), "%s", e.text);
    const struct tensor *x = weights_find(w, name);
    ck_assert_msg(x && x->type == TERN_Q4, "%s", name);
    uint64_t sum = x->checksum;
    weights_close(w);
    return sum;
}

START_TEST(known_inputs_count)
{
    static struct golden g;
    tern_token tokens[150];
    golden_read(&g, readers[_i].model);
    golden_prompt(tokens, 150, g.prompt_seed, g.vocab);
    golden_write(from, sizeof from, &g, TERN_F32);
    golden_close(&g);
    struct image plain = quantized(TERN_Q4, NULL, NULL, 0, 1),
                 fitted = quantized(TERN_Q4, NULL, tokens, 150, 2);
    for (int t = 0; t < 7 && readers[_i].fitted[t]; t++) {
        const char *name = readers[_i].fitted[t];
        ck_assert_msg(sum_of(&plain, name) != sum_of(&fitted, name), "%s", name);
    }
    for (int t = 0; t < 2 && readers[_i].plain[t]; t++) {
        const char *name = readers[_i].plain[t];
        ck_assert_msg(sum_of(&plain, name) == sum_of(&fitted, name), "%s", name);
    }
    image_close(&plain), image_close(&fitted);
}
END_TEST

/* The largest distance of the reference's rows [to `end`] from the file's */
static double distance(const char *path, const struct golden *g, size_t end)
{
    struct tern_context_params p = {.n_ctx = (uint32_t)end, .n_batch = (uint32_t)end};
    tern_token ids[ROWS];
    double worst = 0;
    tern_model *m;
    tern_context *c;
    size_t row = 0;
    golden_prompt(ids, end, g->prompt_seed, g->vocab);
    ck_assert_msg(!tern_model_open(&m, path, NULL, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&c, m, &p, &e), "%s", e.text);
    for (size_t i = 0; i < end; i++) {
        bool wanted = row < g->n_rows && g->at[row] == i;
        ck_assert(!tern_batch_add(c, 0, ids[i], wanted ? TERN_ROW_LOGITS : 0, &e));
        row += wanted;
    }
    ck_assert(!tern_forward(c));
    for (size_t i = 0; i < row; i++)
        worst = fmax(worst, golden_distance(tern_logits(c, i), g->row[i], g->vocab));
    tern_context_close(c);
    tern_model_close(m);
    ck_assert_uint_gt(row, 0);
    return worst;
}

/* Of every family: each matrix becomes q8, and nothing that the format wants in f32, nor the decay of a
 * state. The file is as large as one that was written so, and its logits are near the reference's. */
START_TEST(large_matrices_are_quantized)
{
    static struct golden g;
    char direct[256];
    struct weights *a, *b;
    bool with_decay = false;
    if (!golden_is_due(_i))
        return;
    golden_read(&g, golden_names[_i]);
    unlink(from);
    golden_write(from, sizeof from, &g, TERN_F32);
    golden_write(direct, sizeof direct, &g, TERN_Q8);
    ck_assert_msg(!quantize(TERN_Q8, 1), "%s", e.text);
    ck_assert(!weights_open(&a, to, &e) && !weights_open(&b, direct, &e));
    ck_assert_uint_eq(weights_count(a), weights_count(b));
    for (size_t i = 0; i < weights_count(a); i++) {
        const struct tensor *x = weights_at(a, i), *y = weights_at(b, i);
        bool decay = strstr(x->name, ".mix_decay") != NULL;
        with_decay |= decay && y->type == TERN_Q8;
        ck_assert_msg(x->type == (decay ? TERN_F32 : y->type), "%s: %s", g.name, x->name);
    }
    ck_assert(with_decay || weights_file_bytes(a) == weights_file_bytes(b));
    weights_close(a), weights_close(b);
    double d = distance(to, &g, g.n_prompt < ROWS ? g.n_prompt : ROWS);
    printf("%s: q8 within %.2g of transformers\n", g.name, d);
    ck_assert_msg(d <= Q8_BOUND, "%s is off by %g", g.name, d);
    unlink(direct);
    golden_close(&g);
}
END_TEST

/* Types of embed, head, layer.0.v, layer.1.v, layer.1.q for a list. */
static const struct kept {
    int untied;
    const char *list;
    enum tern_type types[5];
} kept[] = {{1, "head", {TERN_Q4, TERN_Q8, TERN_Q4, TERN_Q4, TERN_Q4}},
            {0, "head", {TERN_Q8, 0, TERN_Q4, TERN_Q4, TERN_Q4}},
            {1, "v,embed", {TERN_Q8, TERN_Q4, TERN_Q8, TERN_Q8, TERN_Q4}},
            {1, "layer.1", {TERN_Q4, TERN_Q4, TERN_Q4, TERN_Q8, TERN_Q8}},
            {1, "layer.1.v", {TERN_Q4, TERN_Q4, TERN_Q4, TERN_Q8, TERN_Q4}}};

START_TEST(tensors_are_kept_at_q8)
{
    static const char *const names[] = {"embed", "head", "layer.0.v", "layer.1.v", "layer.1.q"};
    struct toy t = odd_shape(TERN_F32);
    struct weights *w;
    t.untied = kept[_i].untied;
    write_toy(&t);
    struct image i = quantized(TERN_Q4, kept[_i].list, NULL, 0, 2);
    image_close(&i);
    ck_assert(!weights_open(&w, to, &e));
    for (int n = 0; n < 5; n++) {
        const struct tensor *x = weights_find(w, names[n]);
        ck_assert_msg(!x || x->type == kept[_i].types[n], "%s", names[n]);
    }
    weights_close(w);
}
END_TEST

START_TEST(lists_that_name_nothing)
{
    static const char *const lists[] = {"x", "v,x", "v,,q", "layer.2", "layer.1.", "hea", ",v"};
    struct toy t = odd_shape(TERN_F32);
    write_toy(&t);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct tern_quantize_params p = {.type = TERN_Q4, .n_threads = 1, .keep_q8 = lists[i]};
        expect(tern_quantize(from, to, &p, &e), TERN_USAGE,
               "no tensor or part of a layer is named");
    }
    struct tern_quantize_params eight = {.type = TERN_Q8, .n_threads = 1, .keep_q8 = "v"};
    expect(tern_quantize(from, to, &eight, &e), TERN_USAGE,
           "of no use for q8: all matrices become q8");
    eight = (struct tern_quantize_params){.type = TERN_Q8, .n_threads = 1, .text = "a"};
    expect(tern_quantize(from, to, &eight, &e), TERN_USAGE, "calibration text is of no use for q8");
}
END_TEST

/* From types that have rounded already: the same as decoding and encoding each tensor. */
static const enum tern_type rounded[] = {TERN_F16, TERN_BF16};

static void compare_tensor(const struct tensor *a, const struct tensor *b)
{
    ck_assert(!strcmp(a->name, b->name) && a->rows == b->rows && a->k == b->k);
    if (a->type == b->type) {
        ck_assert(a->bytes == b->bytes && !memcmp(a->data, b->data, (size_t)a->bytes));
        return;
    }
    float *w = malloc((size_t)(a->rows * a->k) * sizeof *w);
    unsigned char *data = malloc((size_t)b->bytes);
    for (uint64_t r = 0; r < a->rows; r++)
        format_decode_row(format_find(a->type), w + r * a->k, a->data, r, a->k);
    format_encode_matrix(format_find(b->type), data, w, a->rows, a->k);
    ck_assert_int_eq(memcmp(data, b->data, (size_t)b->bytes), 0);
    free(w);
    free(data);
}

START_TEST(rounded_sources)
{
    struct toy t = odd_shape(rounded[_i]);
    struct weights *a, *b;
    write_toy(&t);
    ck_assert_int_eq(quantize(TERN_Q8, 2), TERN_OK);
    ck_assert(!weights_open(&a, from, &e) && !weights_open(&b, to, &e));
    ck_assert_int_eq(checksums_verify(b, NULL, NULL, &e), TERN_OK);
    ck_assert_uint_eq(weights_count(a), weights_count(b));
    for (size_t i = 0; i < weights_count(a); i++) {
        const struct tensor *x = weights_at(b, i);
        ck_assert_int_eq(x->type, x->k == 1 ? TERN_F32 : TERN_Q8);
        compare_tensor(weights_at(a, i), x);
    }
    weights_close(a);
    weights_close(b);
}
END_TEST

static double square_error(const struct format *f, const void *data, const float *w,
                           const struct tensor *t)
{
    float row[128];
    double sum = 0;
    ck_assert_uint_le(t->k, 128);
    for (uint64_t r = 0; r < t->rows; r++) {
        format_decode_row(f, row, data, r, t->k);
        for (uint64_t c = 0; c < t->k; c++)
            sum += pow((double)row[c] - (double)w[r * t->k + c], 2);
    }
    return sum;
}

/* Each matrix is closer to the source than rounding to nearest makes it, and not much farther. */
START_TEST(searched_types_are_closer_than_nearest)
{
    struct toy t = odd_shape(TERN_F32);
    struct weights *a, *b;
    const struct format *f = format_find(_i);
    write_toy(&t);
    ck_assert_int_eq(quantize((enum tern_type)_i, 2), TERN_OK);
    ck_assert(!weights_open(&a, from, &e) && !weights_open(&b, to, &e));
    for (size_t i = 0; i < weights_count(a); i++) {
        const struct tensor *x = weights_at(a, i), *y = weights_at(b, i);
        if (y->type == TERN_F32)
            continue;
        ck_assert_uint_eq(y->type, _i);
        float *w = malloc((size_t)(x->rows * x->k) * sizeof *w);
        unsigned char *data = malloc((size_t)y->bytes);
        for (uint64_t r = 0; r < x->rows; r++)
            format_decode_row(format_find(x->type), w + r * x->k, x->data, r, x->k);
        format_encode_matrix(f, data, w, x->rows, x->k);
        double ours = square_error(f, y->data, w, x), nearest = square_error(f, data, w, x);
        ck_assert_msg(ours < nearest && ours > nearest / 2, "%s: %g, nearest %g", x->name, ours,
                      nearest);
        free(w), free(data);
    }
    weights_close(a), weights_close(b);
}
END_TEST

struct seen {
    size_t n, stop_after; /* 0: never */
    uint64_t done;
};

static int see(void *arg, const struct tern_quantize_report *r)
{
    struct seen *seen = arg;
    seen->n++;
    seen->done += r->bytes_in;
    ck_assert_uint_eq(r->done, seen->done);
    ck_assert_uint_le(r->done, r->total);
    if (r->from == r->to) {
        ck_assert(r->rmse == 0 && r->max_error == 0 && r->bytes_in == r->bytes_out);
        return seen->n == seen->stop_after;
    }
    ck_assert(r->from == TERN_F32 && r->to == TERN_Q8);
    ck_assert(r->rmse > 0 && r->rmse < r->max_error);
    if (!strcmp(r->name, "embed")) /* uniform in [-1, 1): steps of 1 / 127, errors uniform in one */
        ck_assert(fabs(r->rmse - 1 / 127.0 / sqrt(12)) < 2e-4 && r->max_error < 0.51 / 127);
    return seen->n == seen->stop_after;
}

START_TEST(reports_every_tensor)
{
    struct toy t = odd_shape(TERN_F32);
    struct seen seen = {0};
    struct pool *pool;
    write_toy(&t);
    ck_assert_int_eq(pool_open(&pool, 2, &e), TERN_OK);
    ck_assert_int_eq(quantize_file(from, to, &q8, pool, see, &seen, &e), TERN_OK);
    pool_close(pool);
    ck_assert_uint_eq(seen.n, 2 * (2 + 7 + 6) + 3);
}
END_TEST

START_TEST(stops_when_the_report_says_so)
{
    struct toy t = odd_shape(TERN_F32);
    struct seen seen = {.stop_after = 3};
    write_toy(&t);
    struct tern_quantize_params p = {.type = TERN_Q8, .n_threads = 1, .report = see, .arg = &seen};
    ck_assert_int_eq(tern_quantize(from, to, &p, &e), TERN_CANCELLED);
    ck_assert_uint_eq(seen.n, 3);
    ck_assert_int_ne(access(to, F_OK), 0);
}
END_TEST

static int ask(void *arg)
{
    size_t *left = arg;
    return *left == 0 || --*left == 0;
}

/* Wherever it is asked; later questions find the same answer. */
START_TEST(stops_when_asked)
{
    struct toy t = odd_shape(TERN_F32);
    write_toy(&t);
    for (size_t at = 1, left = 1; left == 0 || at == 1; at += 1 + at / 8) {
        struct tern_quantize_params p = {
            .type = TERN_Q4C, .n_threads = 2, .stop = ask, .arg = &left};
        left = at;
        enum tern_status s = tern_quantize(from, to, &p, &e);
        ck_assert_int_eq(s, left ? TERN_OK : TERN_CANCELLED);
        ck_assert_int_eq(access(to, F_OK), left ? 0 : -1);
        ck_assert(!s || !strcmp(e.text, "stopped; no file was written"));
        ck_assert_uint_lt(at, 1 << 20);
    }
}
END_TEST

START_TEST(nothing_to_make_smaller)
{
    struct toy t = odd_shape(TERN_Q4);
    write_toy(&t);
    expect(quantize(TERN_Q4, 1), TERN_USAGE, "no matrix of it has more bits than q4");
    expect(quantize(TERN_Q8, 1), TERN_USAGE, "no matrix of it has more bits than q8");
    expect(quantize(TERN_F16, 1), TERN_USAGE, "to f16; the types are q8|q4|q4c");
}
END_TEST

/* One value of layer.1.up set to something that no scale can hold. */
static const uint32_t hostile[] = {0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 0x4d000000};

START_TEST(values_that_do_not_fit_are_named)
{
    struct toy t = odd_shape(TERN_F32);
    struct image i = image_of(&t);
    const size_t up = 1 + 15 + 7; /* embed, layer 0, and the same place in layer 1 */
    ck_assert_int_eq(memcmp(i.p + image_tensor(&i, up) + 8, "layer.1.up", 10), 0);
    memcpy(i.p + load_u64(i.p + image_fields(&i, up) + 40) + 64 * 33, &hostile[_i], 4);
    image_repair_tensor(&i, up);
    image_save(&i, from);
    image_close(&i);
    expect(quantize(TERN_Q8, 1), TERN_LIMIT,
           "tensor 'layer.1.up' holds a value that is not finite");
    for (enum tern_type type = TERN_Q4; type <= TERN_Q4C; type++)
        expect(quantize(type, 3), TERN_LIMIT,
               "tensor 'layer.1.up' holds a value that is not finite");
}
END_TEST

/* Of tensors that are only copied; and a whole check of the file names them, too. */
START_TEST(small_tensors_are_finite)
{
    struct toy t = odd_shape(TERN_F32);
    struct image i = image_of(&t);
    tern_model *m;
    const size_t norm = 1; /* layer.0.attn_norm [40] */
    size_t at = (size_t)load_u64(i.p + image_fields(&i, norm) + 40);
    memcpy(i.p + at + 4 * 39, &hostile[_i], 4);
    image_repair_tensor(&i, norm);
    image_save(&i, from);
    static const char words[] = "tensor 'layer.0.attn_norm' holds a value that is not finite";
    expect(quantize(TERN_Q8, 1), TERN_BAD_FILE, words);
    ck_assert(!tern_model_open(&m, from, NULL, &e));
    expect(tern_model_check(m, &e), TERN_BAD_FILE, words);
    tern_model_close(m);
    memcpy(i.p + at + 4 * 39, (const float[]){1}, 4);
    memcpy(i.p + at + 4 * 40, &hostile[_i], 4); /* padding, of nobody */
    image_repair_tensor(&i, norm);
    image_save(&i, from);
    image_close(&i);
    ck_assert(!tern_model_open(&m, from, NULL, &e) && !tern_model_check(m, &e));
    tern_model_close(m);
    ck_assert_int_eq(quantize(TERN_Q8, 1), TERN_OK);
}
END_TEST

START_TEST(damage_is_not_sealed_in)
{
    struct toy t = odd_shape(TERN_F32);
    struct image i = image_of(&t);
    i.p[load_u64(i.p + image_fields(&i, 1) + 40)] ^= 1; /* a norm, which is only copied */
    image_save(&i, from);
    expect(quantize(TERN_Q8, 1), TERN_BAD_FILE,
           "tensor 'layer.0.attn_norm' do not have the checksum");
    image_close(&i);
}
END_TEST

/* A file whose padding is not zero (only a hostile one): the padding of the result is. */
START_TEST(padding_is_cleared)
{
    struct toy t = odd_shape(TERN_F32), direct = odd_shape(TERN_Q8);
    struct image i = image_of(&t), want = image_of(&direct), got;
    const float nan = NAN;
    size_t offset = (size_t)load_u64(i.p + image_fields(&i, 0) + 40);
    memcpy(i.p + offset + 64 * 40 * 16 + 15 * 4, &nan, sizeof nan); /* row 271 of 259 */
    image_repair_tensor(&i, 0);
    image_save(&i, from);
    ck_assert_int_eq(quantize(TERN_Q8, 1), TERN_OK);
    got = file_image(to);
    expect_same(&got, &want);
    image_close(&got), image_close(&want), image_close(&i);
}
END_TEST

/* ---- writer ---- */

START_TEST(sections_are_copied)
{
    struct toy t = odd_shape(TERN_F32);
    struct weights *w;
    size_t n = 0;
    t.tokenizer = "0123456789", t.tokenizer_bytes = 10;
    write_toy(&t);
    ck_assert_int_eq(writer_patch_seal(from, 1, 0x1122334455667788, &e), TERN_OK);
    ck_assert_int_eq(quantize(TERN_Q8, 1), TERN_OK);
    ck_assert_int_eq(weights_open(&w, to, &e), TERN_OK);
    const void *body = weights_section(w, "tokenizer", &n);
    ck_assert(n == 10 && !memcmp(body, "0123456789", 10));
    struct keys keys;
    uint64_t arith = 9, fingerprint = 9;
    body = weights_section(w, "seal", &n);
    ck_assert(body && !keys_parse(&keys, "seal", body, n, &e));
    ck_assert(!keys_u64(&keys, "arith", &arith, &e) && arith == 0);
    ck_assert(!keys_u64(&keys, "fingerprint", &fingerprint, &e) && fingerprint == 0);
    keys_close(&keys);
    weights_close(w);
}
END_TEST

START_TEST(seal_is_patched)
{
    struct toy t = toy_default();
    struct weights *w;
    struct keys keys;
    size_t n = 0;
    uint64_t arith = 0, fingerprint = 0;
    write_toy(&t);
    struct image before = file_image(from);
    ck_assert_int_eq(writer_patch_seal(from, 1, 0x1122334455667788, &e), TERN_OK);
    struct image after = file_image(from);
    ck_assert_uint_eq(before.n, after.n);
    ck_assert_int_eq(memcmp(before.p + 4096, after.p + 4096, after.n - 4096), 0);
    ck_assert_msg(!weights_open(&w, from, &e), "%s", e.text);
    const void *body = weights_section(w, "seal", &n);
    ck_assert(!keys_parse(&keys, "seal", body, n, &e));
    ck_assert(!keys_u64(&keys, "arith", &arith, &e) && arith == 1);
    ck_assert(!keys_u64(&keys, "fingerprint", &fingerprint, &e));
    ck_assert_uint_eq(fingerprint, 0x1122334455667788);
    keys_close(&keys);
    weights_close(w);
    expect(writer_patch_bound(from, 1, &e), TERN_BAD_FILE, "it has no section 'vectors'");
    ck_assert_int_eq(writer_patch_seal(from, 0, 0, &e), TERN_OK);
    image_close(&after);
    after = file_image(from);
    expect_same(&before, &after);
    image_close(&before), image_close(&after);
}
END_TEST

START_TEST(a_full_disk_is_an_error)
{
    struct toy t = toy_default();
    expect(toy_write("/dev/full", &t, &e), TERN_IO, "/dev/full: cannot write: No space left");
    expect(toy_write("/nowhere/x.bin", &t, &e), TERN_IO, "/nowhere/x.bin: cannot create");
}
END_TEST

/* ---- no memory ---- */

static enum tern_status calibrated_job(void)
{
    static const tern_token tokens[] = {3, 1, 4, 1, 5};
    struct quantize_params o = {.type = TERN_Q4};
    struct calibration_text text = {.tokens = tokens, .n = 5, .bos = 1};
    struct kernels kernels;
    struct pool *pool;
    struct model *m = NULL;
    enum tern_status s = pool_open(&pool, 1, &e);
    if (!s)
        s = kernels_init(&kernels, NULL, &e);
    if (!s)
        s = model_open(&m, from, &e);
    if (!s)
        s = calibrate_open(&o.calibration, m, &kernels, pool, &text, &e);
    if (!s)
        s = quantize_file(from, to, &o, pool, NULL, NULL, &e);
    calibrate_close(o.calibration);
    model_close(m);
    pool_close(pool);
    return s;
}

static enum tern_status job(int number)
{
    static struct pool *pool;
    struct toy t = toy_default();
    t.n_layers = 1;
    if (number == 0)
        return toy_write(from, &t, &e);
    if (number == 1)
        return writer_patch_seal(from, 1, 2, &e);
    if (number == 3)
        return calibrated_job();
    enum tern_status s = pool_open(&pool, 1, &e);
    if (!s)
        s = quantize_file(from, to, &q8, pool, NULL, NULL, &e);
    pool_close(pool);
    return s;
}

START_TEST(every_allocation_fails_in_turn)
{
    for (int number = 0; number < 4; number++)
        for (int rest = 0; rest < 2; rest++) {
            ck_assert_int_eq(job(0), TERN_OK);
            enum tern_status s = TERN_NO_MEMORY;
            for (size_t n = 1; s; n++) {
                allocs_start(n, rest);
                s = job(number);
                size_t live = allocs_live();
                allocs_stop();
                ck_assert_msg(live == 0, "job %d, allocation %zu: %zu left", number, n, live);
                ck_assert_uint_lt(n, 1000);
                if (s)
                    expect(s, TERN_NO_MEMORY, "not enough memory");
            }
        }
}
END_TEST

SUITE("quantize", AROUND_EACH(setup, teardown), TEST(same_bytes_as_encoded_at_once),
      LOOP(threads_change_no_byte, 0, 8),
      LOOP(searched_types_are_closer_than_nearest, TERN_Q4, TERN_Q4C + 1),
      LOOP(known_inputs_count, 0,
           golden_is_threaded() ? 1 : sizeof readers / sizeof *readers),
      LOOP(large_matrices_are_quantized, 0, golden_alone(golden_count())),
      LOOP(tensors_are_kept_at_q8, 0, 5),
      TEST(lists_that_name_nothing), LOOP(rounded_sources, 0, 2), TEST(reports_every_tensor),
      TEST(stops_when_the_report_says_so), TEST(stops_when_asked), TEST(nothing_to_make_smaller),
      LOOP(values_that_do_not_fit_are_named, 0, 5), LOOP(small_tensors_are_finite, 0, 3), TEST(damage_is_not_sealed_in),
      TEST(padding_is_cleared), TEST(sections_are_copied), TEST(seal_is_patched),
      TEST(a_full_disk_is_an_error),
      LOOP(every_allocation_fails_in_turn, 0, golden_alone(1)))
