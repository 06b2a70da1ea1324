/* What programs that measure use of tern_lab.h: random models, costs, profiles, fingerprints of single
 * batches, limits of the machine. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel_levels.h"
#include "kernels/peak/peak.h"
#include "tern_lab.h"
#include "toy.h"
#include "golden.h"
#include "suite.h"

static const struct tern_shape odd = {/* padding in rows and in k */
                                      .dim = 72,    .hidden = 90,    .n_layers = 2,
                                      .n_heads = 6, .n_kv_heads = 2, .head_dim = 12,
                                      .vocab = 130, .max_seq = 64};

static char path[256], other[256];

static void setup(void)
{
    toy_path(path, sizeof path, "measure");
    toy_path(other, sizeof other, "measure2");
}

static void teardown(void)
{
    unlink(path);
    unlink(other);
}

static tern_model *open_random(const struct tern_shape *shape, enum tern_type type, int n_threads)
{
    struct tern_error e = {0};
    struct tern_model_params p = {.n_threads = n_threads};
    tern_model *m = NULL;
    ck_assert_msg(!tern_random_model(path, shape, type, 7, n_threads, &e), "%s", e.text);
    ck_assert_msg(!tern_model_open(&m, path, &p, &e), "%s", e.text);
    return m;
}

static tern_context *open_context(tern_model *m, int fingerprint)
{
    struct tern_error e = {0};
    struct tern_context_params p = {.n_batch = 16, .fingerprint = fingerprint};
    tern_context *ctx = NULL;
    ck_assert_msg(!tern_context_open(&ctx, m, &p, &e), "%s", e.text);
    return ctx;
}

/* Evaluates tokens 1, 2 .. n as one batch, whose last row asks for logits. */
static void add_rows(tern_context *ctx, int n)
{
    for (int i = 1; i <= n; i++)
        ck_assert(!tern_batch_add(ctx, 0, i, i == n ? TERN_ROW_LOGITS : 0, NULL));
}

/* ---- random models ------------------------------------------------------------------------ */

START_TEST(random_models_are_sound)
{
    struct tern_error e = {0};
    struct tern_model_info info;
    uint64_t bytes;
    tern_model *m = open_random(&odd, (enum tern_type)_i, 2);
    ck_assert_msg(!tern_model_check(m, &e), "%s", e.text);
    tern_model_info(m, &info);
    ck_assert_int_eq(info.type, _i);
    ck_assert(!tern_shape_bytes(&odd, (enum tern_type)_i, &bytes, &e));
    ck_assert(info.file_bytes <= bytes + 8192 && bytes <= info.file_bytes + (1 << 16));
    tern_context *ctx = open_context(m, 0);
    add_rows(ctx, 16);
    ck_assert(!tern_forward(ctx));
    ck_assert_msg(!tern_numeric_status(ctx, &e), "%s", e.text);
    double square = 0;
    for (uint64_t i = 0; i < odd.vocab; i++)
        square += (double)tern_logits(ctx, 0)[i] * (double)tern_logits(ctx, 0)[i];
    square /= (double)odd.vocab;
    ck_assert_msg(square > 0.2 && square < 5, "mean square of the logits: %g", square);
    tern_context_close(ctx);
    tern_model_close(m);
}
END_TEST

/* Experts with a shared one, every mixer, latent attention, embeddings per layer */
static const char *const kinds[] = {
    "n_experts=6,experts_used=2,shared_hidden=40,shared_switch=1,activation=gelu_tanh",
    "mixer=2/4/1,attn_gate=1,k_heads=2,v_heads=4,k_dim=8,v_dim=12,conv_width=3,state_norm=1",
    "mixer=2/3,recurrence=1,k_heads=1,v_heads=3,k_dim=8,v_dim=20,conv_width=4,state_skip=1",
    "n_kv_heads=1,head_dim=44,kv_rank=32,q_rank=24,nope_dim=8,value_dim=16,rope_dims=12",
    ("head_dim=12/20,rope_set=1/2,rope_dims=12/20,ple_dim=16,layer_scale=1,norms=15,kv_from=0,"
     "norm=layer,norm_bias=1"),
};

START_TEST(random_models_have_the_features_of_keys)
{
    struct tern_error e = {0};
    uint64_t bytes;
    struct tern_model_info info;
    struct tern_shape shape = odd;
    shape.n_layers = 3;
    shape.keys = kinds[_i];
    tern_model *m = open_random(&shape, TERN_Q4, 2);
    ck_assert_msg(!tern_model_check(m, &e), "%s", e.text);
    tern_model_info(m, &info);
    ck_assert(!tern_shape_bytes(&shape, TERN_Q4, &bytes, &e));
    ck_assert(info.file_bytes <= bytes + 8192 && bytes <= info.file_bytes + (1 << 16));
    tern_context *ctx = open_context(m, 0);
    add_rows(ctx, 16);
    ck_assert(!tern_forward(ctx));
    ck_assert_msg(!tern_numeric_status(ctx, &e), "%s", e.text);
    tern_context_close(ctx);
    tern_model_close(m);
}
END_TEST

START_TEST(random_models_do_not_depend_on_threads)
{
    struct tern_error e = {0};
    struct tern_model_info info;
    struct tern_shape big = odd;
    uint64_t ids[3];
    big.vocab = 60000; /* several chunks */
    for (int i = 0; i < 3; i++) {
        tern_model *m;
        ck_assert(!tern_random_model(path, &big, TERN_F32, i == 2 ? 8 : 7, i + 1, &e));
        ck_assert_msg(!tern_model_open(&m, path, NULL, &e), "%s", e.text);
        ck_assert_msg(!tern_model_check(m, &e), "%s", e.text);
        tern_model_info(m, &info);
        ids[i] = info.content_id;
        tern_model_close(m);
    }
    ck_assert_uint_eq(ids[0], ids[1]);
    ck_assert_uint_ne(ids[0], ids[2]); /* another seed */
}
END_TEST

START_TEST(wrong_shapes_are_refused)
{
    static const struct {
        size_t field;
        uint64_t value;
        const char *want;
    } cases[] = {{offsetof(struct tern_shape, dim), 0, "dim is 0"},
                 {offsetof(struct tern_shape, n_kv_heads), 4, "do not divide"},
                 {offsetof(struct tern_shape, head_dim), 13, "even"},
                 {offsetof(struct tern_shape, n_layers), 1025, "layers is 1025"},
                 {offsetof(struct tern_shape, vocab), UINT64_MAX, "vocab is"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tern_error e = {0};
        struct tern_shape s = odd;
        memcpy((char *)&s + cases[i].field, &cases[i].value, sizeof cases[i].value);
        ck_assert_int_eq(tern_random_model(path, &s, TERN_Q8, 1, 1, &e), TERN_USAGE);
        ck_assert_msg(strstr(e.text, cases[i].want) != NULL, "%s", e.text);
    }
    struct tern_error e = {0};
    ck_assert_int_eq(tern_random_model(path, &odd, (enum tern_type)9, 1, 1, &e), TERN_USAGE);
    static const char *const bad[][2] = {{"n_experts=4,experts_used=9", "experts_used is 9"},
                                         {"n_exports=4", "'n_exports'"},
                                         {"mixer=2*3/", "conv"},
                                         {"n_experts=", "'n_experts'"},
                                         {"n_experts=4/x", "'n_experts'"},
                                         {"n_experts", "'n_experts'"},
                                         {"norm=batch", "'batch'"},
                                         {"attn_cap=3", "want f32"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tern_shape s = odd;
        s.keys = bad[i][0];
        ck_assert_int_eq(tern_random_model(path, &s, TERN_Q8, 1, 1, &e), TERN_USAGE);
        ck_assert_msg(strstr(e.text, bad[i][1]) != NULL, "%s", e.text);
    }
    ck_assert_int_eq(tern_random_model("/no/such/folder/x", &odd, TERN_Q8, 1, 1, &e), TERN_IO);
}
END_TEST

/* ---- profiles ----------------------------------------------------------------------------- */

static struct tern_op find_op(tern_context *ctx, const char *name)
{
    struct tern_op ops[32];
    size_t n = tern_profile(ctx, ops, 32);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(ops[i].name, name))
            return ops[i];
    return (struct tern_op){.name = name}; /* it has not run */
}

/* One thread takes both KV heads with all blocks; three share out heads and blocks. */
START_TEST(a_timeline_says_what_attention_did)
{
    struct tern_span spans[256];
    struct tern_shape deep = odd;
    size_t n_spans, found = 0;
    deep.max_seq = 600;
    tern_model *m = open_random(&deep, TERN_Q8, _i ? 3 : 1);
    tern_context *ctx = open_context(m, 0);
    for (int i = 0; i < 36; i++) {
        add_rows(ctx, 15);
        ck_assert(!tern_forward(ctx));
    }
    ck_assert(!tern_timeline_start(ctx, 256, NULL));
    add_rows(ctx, 1);
    ck_assert(!tern_forward(ctx));
    n_spans = tern_timeline(ctx, spans, 256, NULL);
    for (const struct tern_span *s = spans; s < spans + n_spans; s++) {
        if (strcmp(s->operation, "attend") || !s->n_rows)
            continue;
        found++;
        ck_assert(s->row == 0 && s->n_rows == 1 && s->n_kv_heads == (_i ? 1 : 2));
        ck_assert(s->kv_head + s->n_kv_heads <= 2 && s->block + s->n_blocks <= 3);
        ck_assert_uint_eq(s->n_blocks, _i ? 1 : 3);
    }
    ck_assert_uint_ge(found, deep.n_layers);
    tern_context_close(ctx);
    tern_model_close(m);
}
END_TEST

START_TEST(a_profile_counts_and_changes_nothing)
{
    struct tern_error e = {0};
    struct tern_cost cost;
    tern_model *m = open_random(&odd, TERN_Q8, _i);
    tern_context *plain = open_context(m, 1), *profiled = open_context(m, 1);
    ck_assert_uint_eq(tern_profile(profiled, NULL, 0), 0);
    ck_assert(!tern_profile_start(profiled, &e));
    for (int n = 9; n > 0; n -= 8) { /* a prompt, then one token */
        add_rows(plain, n), add_rows(profiled, n);
        tern_batch_cost(profiled, &cost);
        ck_assert(!tern_forward(plain) && !tern_forward(profiled));
    }
    ck_assert_uint_eq(tern_fingerprint(plain, NULL), tern_fingerprint(profiled, NULL));
    ck_assert_uint_eq(find_op(profiled, "attend").calls, 2 * odd.n_layers);
    ck_assert_uint_eq(find_op(profiled, "gate_up").macs, 10 * odd.n_layers * 2 * 72 * 90);
    ck_assert_uint_eq(find_op(profiled, "logits").macs, 2 * 72 * 130);
    ck_assert_uint_eq(find_op(profiled, "attend").macs, 2 * 72 * odd.n_layers * (45 + 10));
    ck_assert(find_op(profiled, "down").seconds > 0);
    ck_assert_uint_eq(cost.attention_macs, 2 * 72 * odd.n_layers * 10);
    ck_assert_uint_eq(cost.cache_bytes, 10 * odd.n_layers * 2 * 24 * 2);
    ck_assert(!tern_profile_start(profiled, &e)); /* again from zero */
    ck_assert_uint_eq(find_op(profiled, "attend").calls, 0);
    tern_profile_stop(profiled);
    ck_assert_uint_eq(tern_profile(profiled, NULL, 0), 0);
    tern_context_close(plain);
    tern_context_close(profiled);
    tern_model_close(m);
}
END_TEST

START_TEST(a_window_bounds_the_cost)
{
    struct tern_error e = {0};
    struct tern_cost cost;
    struct toy toy = toy_default();
    tern_model *m;
    for (size_t l = 0; l < toy.n_layers; l++)
        toy.window[l] = 4;
    toy.max_seq = 64;
    ck_assert(!toy_write(path, &toy, &e));
    ck_assert_msg(!tern_model_open(&m, path, NULL, &e), "%s", e.text);
    tern_context *ctx = open_context(m, 0);
    add_rows(ctx, 8);
    tern_batch_cost(ctx, &cost);
    uint64_t q = toy.n_heads * toy.head_dim, kv = toy.n_kv_heads * toy.head_dim;
    ck_assert_uint_eq(cost.attention_macs, 2 * q * toy.n_layers * (1 + 2 + 3 + 5 * 4));
    ck_assert_uint_eq(cost.cache_bytes, 8 * toy.n_layers * 2 * kv * 2);
    tern_context_close(ctx);
    tern_model_close(m);
}
END_TEST

/* ---- fingerprints and limits -------------------------------------------------------------- */

START_TEST(a_fingerprint_can_be_made_by_hand)
{
    uint64_t rows;
    tern_model *m = open_random(&odd, TERN_Q4, 1);
    tern_context *own = open_context(m, 1), *hand = open_context(m, 0);
    for (int n = 3; n > 0; n--) {
        add_rows(own, n), add_rows(hand, n);
        ck_assert(!tern_forward(own) && !tern_forward(hand));
        tern_fingerprint_add(hand);
    }
    ck_assert_uint_eq(tern_fingerprint(own, NULL), tern_fingerprint(hand, &rows));
    ck_assert_uint_eq(rows, 3);
    uint64_t first = tern_fingerprint(own, NULL);
    tern_fingerprint_begin(own);
    ck_assert_uint_ne(tern_fingerprint(own, &rows), first);
    ck_assert_uint_eq(rows, 0);
    tern_context_close(own);
    tern_context_close(hand);
    tern_model_close(m);
}
END_TEST

START_TEST(the_machine_has_limits)
{
    struct tern_error e = {0};
    struct tern_model_info info;
    tern_meter *meter;
    const char *of_float = NULL, *of_int = NULL;
    tern_model *m = open_random(&odd, TERN_Q8, _i);
    ck_assert_msg(!tern_meter_open(&meter, m, &e), "%s", e.text);
    tern_model_info(m, &info);
    double read = tern_meter_read(meter);
    double f = tern_meter_peak(meter, TERN_F16, &of_float);
    double q = tern_meter_peak(meter, TERN_Q4, &of_int);
    ck_assert_msg(read > 0.05 && read < 1e5, "%g GB/s", read);
    if (strcmp(info.cpu, "ref")) {
        ck_assert_msg(f > 0.1 && q > 0.1 && f < 1e6 && q < 1e6, "%g and %g GMAC/s", f, q);
        ck_assert(*of_float && *of_int && strcmp(of_float, of_int));
    } else {
        ck_assert(f == 0 && q == 0 && !*of_float && !*of_int);
    }
    tern_meter_close(meter);
    tern_meter_close(NULL);
    tern_model_close(m);
}
END_TEST

/* The first vector target sums q4 in int16 and q8 in int32; q4c's values are those of q8. */
START_TEST(each_type_has_its_limit)
{
    for (size_t i = 0; i < N_LEVELS; i++) {
        const struct peak *q8 = peak_find(levels[i].cpu, TERN_Q8);
        const struct peak *q4 = peak_find(levels[i].cpu, TERN_Q4);
        const struct peak *f32 = peak_find(levels[i].cpu, TERN_F32);
        ck_assert(q8 && q4 && f32 && q8 != f32 && q4 != f32 && (i || q8 != q4));
        ck_assert_ptr_eq(peak_find(levels[i].cpu, TERN_Q4C), q8);
        ck_assert_ptr_eq(peak_find(levels[i].cpu, TERN_F16), f32);
    }
    ck_assert_ptr_null(peak_find(0, TERN_Q8));
}
END_TEST

SUITE("measure", AROUND_EACH(setup, teardown),
      LOOP(random_models_are_sound, TERN_F32, TERN_Q4C + 1),
      LOOP(random_models_have_the_features_of_keys, 0, sizeof kinds / sizeof *kinds),
      TEST(random_models_do_not_depend_on_threads), TEST(wrong_shapes_are_refused),
      LOOP(a_profile_counts_and_changes_nothing, 1, 4),
      LOOP(a_timeline_says_what_attention_did, 0, 2), TEST(a_window_bounds_the_cost),
      TEST(a_fingerprint_can_be_made_by_hand),
      LOOP(the_machine_has_limits, golden_is_threaded() ? 2 : 1, 3), TEST(each_type_has_its_limit))
