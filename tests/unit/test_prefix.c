/* The store of prefixes: what is found is as long as it must be, and the logits behind it are those of
 * a fresh run, for models of each kind and any order of finding, keeping, cutting and forking. */
#include <string.h>

#include "base/sizes.h"
#include "golden.h"
#include "prefix_texts.h"
#include "suite.h"

/* ---- what must be found ---- */

static struct { /* what was kept, of each text and as ends of texts that went on no further */
    size_t length[N_TEXTS];
    size_t ends[1000][2], n_ends;
    size_t last[N_SEQS][2]; /* the end that the sequence may go on from; 0: none */
} kept;

static void note_kept(size_t seq, size_t text, size_t n)
{
    kept.length[text] = max_size(kept.length[text], n);
    kept.last[seq][0] = text, kept.last[seq][1] = n;
}

static void note_end(size_t seq)
{
    if (kept.last[seq][1] && kept.n_ends < 1000)
        memcpy(kept.ends[kept.n_ends++], kept.last[seq], sizeof kept.ends[0]);
    kept.last[seq][1] = 0;
}

/* The longest that the first n tokens of a text can find, and the least where there are states */
static size_t longest(size_t text, size_t n)
{
    size_t most = 0;
    for (size_t k = 0; k < N_TEXTS; k++)
        most = max_size(most, min_size(kept.length[k], texts_common(k, text)));
    return min_size(most, n - 1);
}

static size_t least(size_t text, size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < kept.n_ends + N_SEQS; i++) {
        const size_t *end = i < kept.n_ends ? kept.ends[i] : kept.last[i - kept.n_ends];
        if (end[1] <= texts_common(end[0], text) && end[1] < n)
            most = max_size(most, end[1]);
    }
    return most;
}

/* A store with room for all: nothing that can be found is missed, and the rest is right. */
START_TEST(all_that_was_kept_is_found)
{
    if (!texts_due(_i))
        return;
    texts_open(_i % N_MODELS, (enum tern_cache_type)(_i / N_MODELS));
    t.ctx = texts_context(64 << 20, (enum tern_cache_type)(_i / N_MODELS));
    bool states = t.ctx->cache.recurrent.state_floats, far = t.ctx->model->model->rope_limit;
    memset(&kept, 0, sizeof kept);
    texts_seed(7 + (uint32_t)_i);
    for (int round = 0; round < golden_few(30); round++) {
        uint32_t seq = (uint32_t)texts_random(N_SEQS);
        size_t text = texts_random(N_TEXTS), n = 2 + texts_random(LENGTH - 2), chunk;
        size_t want = longest(text, n);
        note_end(seq);
        size_t low = states ? least(text, n) : want, found = texts_find(seq, text, n);
        if (!far)
            ck_assert_msg(found >= low && found <= want, "%zu: found %zu of %zu, want %zu to %zu",
                          text, found, n, low, want);
        for (size_t at = found; at < n; at += chunk) {
            chunk = min_size(1 + texts_random(N_BATCH), n - at);
            texts_feed(seq, text, at, at + chunk, chunk);
            tern_prefix_keep(t.ctx, seq);
            note_kept(seq, text, at + chunk);
            texts_check_store(t.ctx);
        }
    }
    struct tern_prefix_info info;
    tern_prefix_info(t.ctx, &info);
    ck_assert(info.hits && info.misses && !info.evicted);
    tern_prefix_clear(t.ctx);
    texts_check_store(t.ctx);
    ck_assert_uint_eq(tern_prefix_reach(t.ctx, t.text[0], LENGTH), 0);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST


/* ---- any order, in little memory ---- */

/* A budget for so many pages, and states where there are any */
static uint64_t budget(tern_context *c, size_t n)
{
    uint64_t page = PREFIX_NODE_BYTES, state = c->cache.recurrent.state_floats * sizeof(float);
    for (int i = 0; i < c->cache.n_classes; i++)
        page += c->cache.classes[i].page_bytes + sizeof(int32_t);
    return n * (page + (state ? state + PREFIX_STATE_BYTES : 0));
}

static size_t at_text[N_SEQS]; /* which text a sequence holds */

static void do_anything(void)
{
    uint32_t seq = (uint32_t)texts_random(N_SEQS), to = (uint32_t)texts_random(N_SEQS);
    size_t n = tern_seq_length(t.ctx, seq), more = 1 + texts_random(250), kept_n;
    switch (texts_random(12)) {
    case 0:
    case 1:
    case 2:
        at_text[seq] = texts_random(N_TEXTS);
        texts_find(seq, at_text[seq], 1 + texts_random(LENGTH));
        break;
    case 3: /* a little back, or far */
        tern_seq_keep(t.ctx, seq, (uint32_t)(n - texts_random(min_size(n, n % 3 ? 70 : n) + 1)));
        break;
    case 4:
        kept_n = tern_seq_fork(t.ctx, seq, to, (uint32_t)(n - texts_random(min_size(n, 70) + 1)));
        at_text[to] = at_text[seq];
        ck_assert(kept_n <= n);
        break;
    case 5: /* another text with the same beginning */
        for (size_t k = 0; k < N_TEXTS; k++)
            if (texts_common(k, at_text[seq]) >= n)
                at_text[seq] = k;
        break;
    case 6:
        if (!texts_random(20))
            tern_prefix_clear(t.ctx);
        break;
    case 7:
    case 8:
        tern_prefix_keep(t.ctx, seq);
        break;
    default:
        texts_feed(seq, at_text[seq], n, min_size(n + more, LENGTH), 1 + texts_random(N_BATCH));
        if (more % 4)
            tern_prefix_keep(t.ctx, seq);
    }
    texts_check_store(t.ctx);
}

START_TEST(any_order_gives_the_bits_of_a_fresh_run)
{
    static const size_t pages[] = {0, 1, 2, 3, 4, 7, 12};
    if (!texts_due(_i))
        return;
    texts_open(_i % N_MODELS, (enum tern_cache_type)(_i / N_MODELS));
    tern_context *measure = texts_context(0, 0);
    size_t n_nodes = 0;
    texts_seed(3 + (uint32_t)_i);
    for (size_t k = 0; k < sizeof pages / sizeof *pages; k++) {
        size_t one_in = golden_is_quick() ? 7 : 3; /* of the small stores, others for each model */
        if (pages[k] < 12 && (k + (size_t)_i) % one_in)
            continue;
        uint64_t bytes = budget(measure, pages[k]);
        t.ctx = texts_context(bytes, (enum tern_cache_type)(_i / N_MODELS));
        struct tern_prefix_info info;
        tern_prefix_info(t.ctx, &info);
        ck_assert_uint_le(info.max_bytes, bytes);
        ck_assert(pages[k] || !t.ctx->prefixes.n_nodes);
        n_nodes += t.ctx->prefixes.n_nodes;
        memset(at_text, 0, sizeof at_text);
        for (int step = 0; step < golden_few(100); step++)
            do_anything();
        tern_context_close(t.ctx);
    }
    ck_assert(n_nodes); /* where states are large, few pages are too little for any */
    tern_context_close(measure);
    texts_close();
}
END_TEST

/* ---- what conversations need ---- */

static void answer(size_t text, size_t from, size_t to)
{
    for (size_t n = from; n < to; n++) {
        texts_feed(0, text, n, n + 1, 1);
        if ((n + 1) % BLOCK == 0)
            tern_prefix_keep(t.ctx, 0);
    }
    tern_prefix_keep(t.ctx, 0);
}

START_TEST(turns_of_a_conversation_read_little_again)
{
    if (!texts_due(_i))
        return;
    enum { PROMPT = 305, END = 450 };
    texts_open(_i, TERN_CACHE_F16);
    t.ctx = texts_context(64 << 20, TERN_CACHE_F16);
    bool states = t.ctx->cache.recurrent.state_floats;
    texts_find(0, 0, PROMPT);
    for (size_t n = 0, end; n < PROMPT; n = end) { /* as a server does: chunks, each kept */
        end = min_size(n + N_BATCH, PROMPT);
        texts_feed(0, 0, n, end, N_BATCH);
        tern_prefix_keep(t.ctx, 0);
    }
    answer(0, PROMPT, END);
    ck_assert_uint_eq(texts_find(1, 0, 500), END);        /* the next turn */
    ck_assert_uint_ge(texts_find(1, 1, 500), PROMPT - 16); /* the answer is changed: text 1 has 300 */
    ck_assert_uint_ge(texts_find(1, 0, PROMPT), PROMPT - 16); /* the same again */
    texts_feed(1, 0, texts_find(1, 0, PROMPT), PROMPT, N_BATCH);
    if (!states) {
        ck_assert_uint_eq(texts_find(1, 1, 500), 300);
        ck_assert_uint_eq(texts_find(1, 0, PROMPT), PROMPT - 1);
    }
    /* A text that branches off leaves a state there for the next. */
    size_t first = texts_find(2, 2, 600);
    ck_assert_uint_ge(first, END);
    texts_feed(2, 2, first, 600, N_BATCH);
    tern_prefix_keep(t.ctx, 2);
    ck_assert_uint_eq(texts_find(0, 0, 600), 512);
    texts_feed(0, 0, tern_seq_length(t.ctx, 0), 600, 64);
    tern_prefix_keep(t.ctx, 0);
    texts_check_store(t.ctx);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

START_TEST(the_place_of_a_branch_is_found)
{
    if (!texts_due(_i))
        return;
    texts_open(_i, TERN_CACHE_F16);
    t.ctx = texts_context(64 << 20, TERN_CACHE_F16);
    bool states = t.ctx->cache.recurrent.state_floats;
    for (size_t n = 0; n < 600; n += N_BATCH) {
        for (size_t i = 0; i < N_BATCH; i++)
            ck_assert(!tern_batch_add(t.ctx, 0, t.text[0][n + i], 0, NULL));
        ck_assert(!tern_forward(t.ctx));
        tern_prefix_keep(t.ctx, 0);
    }
    size_t found = texts_find(1, 1, 600); /* begins as text 0 up to 300 */
    texts_feed(1, 1, found, 600, N_BATCH);
    tern_prefix_keep(t.ctx, 1);
    ck_assert_uint_eq(found, states ? 256 : 300);
    ck_assert_uint_eq(texts_find(2, 0, 304), states ? 300 : 303);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

/* Kept at its end alone, a text lacks the pages that its windows had let go of: nothing goes on there. */
START_TEST(pages_that_are_gone_are_not_found)
{
    texts_open(1, TERN_CACHE_F16); /* windows of 7 beside full attention */
    t.ctx = texts_context(64 << 20, TERN_CACHE_F16);
    texts_feed(0, 0, 0, 700, N_BATCH);
    tern_prefix_keep(t.ctx, 0);
    size_t found = texts_find(1, 1, 600); /* they have 300 in common */
    ck_assert_uint_lt(found, 300);
    texts_feed(1, 1, found, 340, N_BATCH);
    ck_assert_uint_eq(texts_find(1, 0, 700), 699);
    texts_feed(1, 0, 699, 700, N_BATCH);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

/* What has the near frequencies of RoPE is found for short texts alone. */
START_TEST(far_texts_find_far_pages)
{
    texts_open(12, TERN_CACHE_F16); /* the limit is 32 */
    t.ctx = texts_context(64 << 20, TERN_CACHE_F16);
    texts_feed(0, 0, 0, 20, N_BATCH);
    tern_prefix_keep(t.ctx, 0);
    ck_assert_uint_eq(texts_find(1, 0, 32), 20);
    texts_feed(1, 0, 20, 32, 5);
    ck_assert_uint_eq(texts_find(1, 0, 33), 0);
    texts_feed(1, 0, 0, 100, N_BATCH);
    tern_prefix_keep(t.ctx, 1);
    ck_assert_uint_eq(texts_find(2, 0, 33), 32);
    texts_feed(2, 0, 32, 50, 9);
    ck_assert_uint_eq(texts_find(2, 0, 32), 20);
    texts_feed(2, 0, 20, 40, 7);
    texts_check_store(t.ctx);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

/* ---- memory ---- */

static size_t used_pages(void)
{
    return t.ctx->cache.classes[0].n_pages - t.ctx->cache.classes[0].n_free;
}

START_TEST(equal_pages_are_held_once)
{
    texts_open(0, TERN_CACHE_F16);
    t.ctx = texts_context(1 << 20, TERN_CACHE_F16);
    texts_feed(0, 0, 0, 530, N_BATCH);
    texts_feed(1, 0, 0, 530, N_BATCH);
    ck_assert_uint_eq(used_pages(), 6);
    tern_prefix_keep(t.ctx, 0);
    ck_assert_uint_eq(used_pages(), 6); /* the store has no pages but theirs */
    tern_prefix_keep(t.ctx, 1);
    ck_assert_uint_eq(used_pages(), 4); /* two whole ones, and a last one each */
    texts_find(2, 0, 600);
    ck_assert_uint_eq(used_pages(), 5);
    for (uint32_t seq = 0; seq < N_SEQS; seq++)
        tern_seq_keep(t.ctx, seq, 0);
    ck_assert_uint_eq(used_pages(), 3);
    texts_check_store(t.ctx);
    tern_prefix_clear(t.ctx);
    ck_assert_uint_eq(used_pages(), 0);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

START_TEST(the_least_recently_used_leaves)
{
    texts_open(0, TERN_CACHE_F16);
    tern_context *measure = texts_context(0, 0);
    t.ctx = texts_context(budget(measure, 3), TERN_CACHE_F16);
    tern_context_close(measure);
    struct tern_prefix_info info;
    for (size_t k = 0; k < 3; k++) {
        static const size_t texts[] = {0, 4, 1}; /* the last one begins as the first */
        tern_seq_keep(t.ctx, 0, 0);
        texts_feed(0, texts[k], 0, k == 2 ? 400 : 200, N_BATCH);
        tern_prefix_keep(t.ctx, 0);
    }
    tern_prefix_info(t.ctx, &info); /* text 0 grew to a page, which 1 has as well */
    ck_assert(info.n_pages == 3 && !info.evicted && info.n_tokens == 600);
    ck_assert_uint_eq(texts_find(1, 4, 300), 200);
    texts_feed(1, 4, 200, 260, N_BATCH);
    tern_prefix_keep(t.ctx, 1); /* a page more: the last one of text 1 goes */
    tern_prefix_info(t.ctx, &info);
    ck_assert(info.n_pages == 3 && info.evicted == 1 && info.hits == 1 && !info.misses);
    ck_assert_uint_eq(tern_prefix_reach(t.ctx, t.text[1], 500), 256);
    ck_assert_uint_eq(tern_prefix_reach(t.ctx, t.text[4], 500), 260);
    ck_assert_uint_eq(texts_find(0, 2, 3), 2);
    tern_seq_keep(t.ctx, 0, 0);
    texts_feed(0, 2, 0, 700, N_BATCH); /* a text that fills it, and does not fit */
    tern_prefix_keep(t.ctx, 0);
    ck_assert_uint_eq(tern_prefix_reach(t.ctx, t.text[2], 700), 699);
    ck_assert_uint_eq(tern_prefix_reach(t.ctx, t.text[4], 700), 3);
    texts_check_store(t.ctx);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

START_TEST(nothing_is_kept_that_is_not_sure)
{
    texts_open(_i ? 5 : 0, TERN_CACHE_F16); /* without and with a state */
    t.ctx = texts_context(1 << 20, TERN_CACHE_F16);
    texts_feed(0, 0, 0, 250, N_BATCH);
    for (size_t i = 250; i < 262; i++) { /* the last ones are wrong guesses */
        struct row row = {.token = t.text[0][i < 256 ? i : 0],
                          .flags = TERN_ROW_LOGITS,
                          .trial = i > 250};
        ck_assert(!context_add(t.ctx, row, NULL));
    }
    ck_assert(!context_run(t.ctx, true));
    for (size_t i = 1; i < 6; i++)
        context_show(t.ctx, 0, i, true);
    tern_prefix_keep(t.ctx, 0);
    ck_assert_uint_eq(tern_seq_length(t.ctx, 0), 256);
    ck_assert_uint_eq(texts_find(1, 0, 300), 256);
    texts_feed(0, 0, 256, 300, 5);
    texts_feed(1, 0, 256, 300, 9);
    t.ctx->altered = true;
    tern_prefix_keep(t.ctx, 1);
    ck_assert_uint_eq(tern_prefix_reach(t.ctx, t.text[0], 300), 0);
    ck_assert_uint_eq(tern_prefix_find(t.ctx, 2, t.text[0], 300), 0);
    t.ctx->altered = false, t.ctx->cache.bad[1] = 1;
    tern_prefix_keep(t.ctx, 1);
    ck_assert_uint_eq(tern_prefix_reach(t.ctx, t.text[0], 300), 256);
    tern_prefix_keep(t.ctx, N_SEQS); /* no such sequence */
    ck_assert_uint_eq(tern_prefix_find(t.ctx, N_SEQS, t.text[0], 300), 0);
    ck_assert_uint_eq(tern_prefix_find(t.ctx, 2, t.text[0], 0), 0);
    ck_assert_uint_eq(tern_prefix_find(t.ctx, 2, t.text[0], 1), 0);
    texts_check_store(t.ctx);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

SUITE("prefix", LOOP(all_that_was_kept_is_found, 0, 3 * N_MODELS),
      LOOP(any_order_gives_the_bits_of_a_fresh_run, 0, 3 * N_MODELS),
      LOOP(turns_of_a_conversation_read_little_again, 0, N_MODELS - 1),
      LOOP(the_place_of_a_branch_is_found, 0, N_MODELS - 1), TEST(pages_that_are_gone_are_not_found),
      TEST(far_texts_find_far_pages), TEST(equal_pages_are_held_once),
      TEST(the_least_recently_used_leaves), LOOP(nothing_is_kept_that_is_not_sure, 0, 2))
