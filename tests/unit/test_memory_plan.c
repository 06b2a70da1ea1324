/* What a plan says a context takes, counted by hand from shapes of published models with few layers, and
 * what opening one takes: compressed attention, whose positions are one row for all heads, and hybrids,
 * whose states, log and snapshots lie beside the cache. */
#include <string.h>
#include <unistd.h>

#include "engine/context.h"
#include "suite.h"
#include "tern_lab.h"
#include "toy.h"

enum { LOG = 80, RECORDS = 3, TOKEN = 4, PAGE = 256 }; /* rows; of a sequence; bytes; positions */

static char path[256];
static tern_model *model;

static void open_shape(const struct tern_shape *shape)
{
    struct tern_error e = {0};
    struct tern_model_params p = {.n_threads = 1};
    toy_path(path, sizeof path, "plan");
    ck_assert_msg(!tern_random_model(path, shape, TERN_Q8, 1, 1, &e), "%s", e.text);
    ck_assert_msg(!tern_model_open(&model, path, &p, &e), "%s", e.text);
}

static void close_shape(void)
{
    tern_model_close(model);
    unlink(path);
}

/* The plan for a context; opening it takes just that. */
static struct tern_memory plan_of(uint32_t n_ctx, uint32_t n_seqs, enum tern_cache_type type)
{
    struct tern_context_params p = {
        .n_ctx = n_ctx, .n_seqs = n_seqs, .n_batch = 8, .cache_type = type};
    struct tern_memory plan, taken;
    struct tern_error e = {0};
    tern_context *c;
    ck_assert_msg(!tern_context_plan(model, &p, &plan, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&c, model, &p, &e), "%s", e.text);
    tern_context_memory(c, &taken);
    ck_assert(taken.cache == plan.cache && taken.batch == plan.batch);
    ck_assert(taken.states == plan.states && taken.n_snapshots == plan.n_snapshots);
    ck_assert_uint_eq(plan.states, c->cache.recurrent.range_bytes);
    ck_assert_uint_eq(plan.n_snapshots, c->cache.recurrent.n_snapshots);
    ck_assert_uint_eq(plan.cache, c->cache.range_bytes + plan.states);
    ck_assert_uint_eq(plan.batch, c->forward.arena.size);
    tern_context_close(c);
    return plan;
}

/* DeepSeek's rank and rotary dims: 576 numbers a layer and position, and no V */
START_TEST(compressed_attention_keeps_one_row)
{
    enum { LAYERS = 3, ROW = 512 + 64 };
    static const uint64_t bytes[] = {ROW * 2, ROW * 4, ROW / 32 * 34};
    const struct tern_shape deepseek = {
        64, 64, LAYERS, 4, 1, ROW, 64, 8192, 1, 0,
        "kv_rank=512,q_rank=48,nope_dim=128,value_dim=128,rope_dims=64"};
    open_shape(&deepseek);
    for (enum tern_cache_type type = 0; tern_cache_type_name(type); type++)
        for (uint32_t n_seqs = 1; n_seqs <= 3; n_seqs += 2) {
            struct tern_memory plan = plan_of(3 * PAGE, n_seqs, type);
            uint64_t position = LAYERS * bytes[type] + TOKEN;
            ck_assert_uint_eq(plan.cache, n_seqs * 3 * PAGE * position);
            ck_assert(!plan.states && !plan.n_snapshots);
        }
    close_shape();
}
END_TEST

/* A record and a row of the log of one recurrent layer, in floats */
struct kind {
    const char *name, *keys;
    size_t record, row;
    size_t heads, n_attention; /* KV heads of 64; layers of 4 */
};

static const struct kind kinds[] = {
    {"delta net",
     "mixer=2*3/1,attn_gate=1,qk_norm=1,k_heads=2,k_dim=128,v_dim=128,conv_width=4,state_norm=1,"
     "v_heads=4",
     3 * (4 * 128 + 4 * 128) + 4 * 128 * 128, 4 * 128 + 4 * 128 + 2 * 4 + 8 /* to 16 */, 2, 1},
    {"Mamba2",
     "mixer=2*3/1,rope_set=0,recurrence=1,k_heads=1,v_heads=8,k_dim=32,v_dim=16,conv_width=4,"
     "conv_bias=1,state_skip=1,state_norm=2",
     3 * (2 * 32 + 8 * 16) + 8 * 32 * 16, 2 * 32 + 8 * 16 + 8 + 8, 1, 1},
    {"short convolution", "mixer=4*2/1/4,conv_width=3,qk_norm=1", 2 * 64, 64, 2, 1}};

/* A quarter of the cache's memory, but at least 4, and no more than there are pages and 4 */
static uint64_t snapshots_of(uint64_t cache, uint64_t record, uint32_t n_ctx, uint32_t n_seqs)
{
    uint64_t n = cache / 4 / record, most = (n_ctx / PAGE + 4) * n_seqs;
    n = n < 4 ? 4 : n;
    return n < most ? n : most;
}

START_TEST(hybrids_keep_states_a_log_and_snapshots)
{
    static const struct {
        uint32_t n_ctx, n_seqs;
    } sizes[] = {{100, 1}, {PAGE, 1}, {4 * PAGE, 2}, {64 * PAGE, 1}, {700 * PAGE, 3}};
    const struct kind *k = &kinds[_i];
    const struct tern_shape shape = {64, 64, 4, 2, k->heads, 64, 64, 1 << 20, 1, 0, k->keys};
    bool least = false, quarter = false;
    open_shape(&shape);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n_ctx = sizes[i].n_ctx, n_seqs = sizes[i].n_seqs;
        struct tern_memory plan = plan_of(n_ctx, n_seqs, TERN_CACHE_F16);
        uint64_t pages = (n_ctx + PAGE - 1) / PAGE, record = 3 * k->record * sizeof(float);
        uint64_t keys = n_seqs * pages * PAGE * k->n_attention * k->heads * 2 * 64 * 2;
        uint64_t cache = keys + (uint64_t)n_seqs * n_ctx * TOKEN;
        uint64_t n = snapshots_of(cache, record, n_ctx, n_seqs);
        ck_assert_msg(plan.n_snapshots == n, "%s: %u of %u: %u, want %llu", k->name, n_seqs, n_ctx,
                      plan.n_snapshots, (unsigned long long)n);
        ck_assert_uint_eq(plan.states, (n + RECORDS * n_seqs) * record +
                                           n_seqs * LOG * 3 * k->row * sizeof(float));
        ck_assert_uint_eq(plan.cache, cache + plan.states);
        least |= n == 4, quarter |= n > 4 && n < (n_ctx / PAGE + 4) * n_seqs;
    }
    ck_assert(least || k->record < 200); /* as many as pages, where a state is small */
    ck_assert(quarter || k->record < 200);
    close_shape();
}
END_TEST

/* What the store of prefixes takes is stated exactly, is no more than was asked for, and changes nothing
 * else; a large state comes with up to 16 pages. */
START_TEST(prefixes_take_their_share)
{
    const struct kind *k = &kinds[_i];
    const struct tern_shape shape = {64, 64, 4, 2, k->heads, 64, 64, 1 << 20, 1, 0, k->keys};
    struct tern_error e = {0};
    struct tern_context_params p = {.n_ctx = 4 * PAGE, .n_batch = 8};
    struct tern_memory none, plan, again;
    tern_context *c;
    open_shape(&shape);
    uint64_t state = 3 * k->record * sizeof(float) + PREFIX_STATE_BYTES;
    uint64_t page = PAGE * k->n_attention * k->heads * 2 * 64 * 2 + PREFIX_NODE_BYTES + 4;
    uint64_t most = state / page < 1 ? 1 : state / page > 16 ? 16 : state / page;
    ck_assert(!tern_context_plan(model, &p, &none, &e) && !none.prefix);
    for (uint64_t n = 0; n < 40; n++) {
        p.prefix_bytes = n * n * page / 3;
        ck_assert(!tern_context_plan(model, &p, &plan, &e));
        ck_assert_uint_le(plan.prefix, p.prefix_bytes);
        ck_assert_uint_eq(plan.cache, none.cache + plan.prefix);
        ck_assert(plan.n_snapshots == none.n_snapshots && plan.batch == none.batch);
        ck_assert(!tern_context_open_plan(&c, model, &plan, &e));
        tern_context_memory(c, &again);
        ck_assert_uint_eq(again.prefix, plan.prefix);
        struct prefix_share share = c->cache.share;
        ck_assert(share.bytes == plan.prefix && share.n_pages == c->prefixes.n_nodes);
        ck_assert_uint_eq(share.bytes, share.n_pages * page + share.n_states * state);
        ck_assert_uint_lt(p.prefix_bytes - share.bytes, share.n_pages ? page : state + most * page);
        ck_assert(share.n_pages >= most * share.n_states);
        ck_assert(share.n_pages < most * (share.n_states + 1) + state / page + 1);
        tern_context_close(c);
    }
    p.prefix_bytes = UINT64_MAX;
    ck_assert_int_eq(tern_context_plan(model, &p, &plan, &e), TERN_NO_MEMORY);
    close_shape();
}
END_TEST

SUITE("memory plan", TEST(compressed_attention_keeps_one_row),
      LOOP(hybrids_keep_states_a_log_and_snapshots, 0, sizeof kinds / sizeof *kinds),
      LOOP(prefixes_take_their_share, 0, sizeof kinds / sizeof *kinds))
