/* See prefix_texts.h. */
#include "prefix_texts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/xxh64.h"
#include "golden.h"
#include "suite.h"

/* With full attention; with windows beside it, and alone; compressed; recurrent layers of each kind, alone
 * and in one layer with attention; the layer that guesses; two sets of RoPE frequencies. */
static const char *const names[N_MODELS] = {
    "llama-gqa", "gemma2",     "mistral-long", "deepseek-v2",    "lfm2",            "qwen3-next", "nemotron-h",
    "kimi-linear", "mamba2", "falcon-h1", "mtp/qwen3-next", "mtp/deepseek-v3", "phi3-long"};

struct texts t;

/* A text begins as another one, up to a position. */
static const struct {
    size_t as, to;
} begins[N_TEXTS] = {{0, 0}, {0, 300}, {0, 512}, {1, 520}, {0, 3}};

static uint32_t state = 1;

void texts_seed(uint32_t seed)
{
    state = seed;
}

size_t texts_random(size_t below)
{
    state ^= state << 13, state ^= state >> 17, state ^= state << 5; /* xorshift32 */
    return state % below;
}

tern_context *texts_context(uint64_t bytes, enum tern_cache_type type)
{
    struct tern_context_params p = {.n_ctx = N_CTX,
                                    .n_batch = N_BATCH,
                                    .n_seqs = N_SEQS,
                                    .cache_type = type,
                                    .prefix_bytes = bytes};
    struct tern_error e = {0};
    tern_context *c;
    ck_assert_msg(!tern_context_open(&c, t.model, &p, &e), "%s", e.text);
    return c;
}

static uint64_t hash(tern_context *c, size_t i)
{
    return xxh64(tern_logits(c, i), t.vocab * sizeof(float));
}

void texts_feed(uint32_t seq, size_t text, size_t from, size_t to, size_t chunk)
{
    for (size_t at = from, end; at < to; at = end) {
        end = min_size(at + chunk, to);
        for (size_t i = at; i < end; i++)
            ck_assert(!tern_batch_add(t.ctx, seq, t.text[text][i],
                                      i + 1 == end ? TERN_ROW_LOGITS : 0, NULL));
        ck_assert(!tern_forward(t.ctx));
        ck_assert_msg(hash(t.ctx, 0) == t.rows[text][end - 1],
                      "text %zu, position %zu after %zu in chunks of %zu", text, end - 1, from,
                      chunk);
    }
}

bool texts_due(int i)
{
    return !golden_is_quick() || i % 16 == 5;
}

/* The logits of all texts, side by side, a position at a time (a long text has other frequencies), on one
 * thread: with more, most of the time would pass in waiting for one another. */
static void fresh_rows(const struct tern_model_params *how, enum tern_cache_type type)
{
    struct tern_context_params p = {
        .n_ctx = N_CTX, .n_batch = N_TEXTS, .n_seqs = N_TEXTS, .cache_type = type};
    struct tern_error e = {0};
    tern_model *m;
    tern_context *c;
    ck_assert_msg(!tern_model_open(&m, t.path, how, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&c, m, &p, &e), "%s", e.text);
    for (size_t at = 0; at < LENGTH; at++) {
        for (uint32_t k = 0; k < N_TEXTS; k++)
            ck_assert(!tern_batch_add(c, k, t.text[k][at], TERN_ROW_LOGITS, NULL));
        ck_assert(!tern_forward(c));
        for (size_t k = 0; k < N_TEXTS; k++)
            t.rows[k][at] = hash(c, k);
    }
    tern_context_close(c);
    tern_model_close(m);
}

void texts_open(int i, enum tern_cache_type type)
{
    static struct golden g;
    struct tern_error e = {0};
    struct tern_model_params p = {.n_threads = 2,
                                  .load = strncmp(names[i], "mtp/", 4) ? 0 : TERN_LOAD_MTP};
    golden_read(&g, names[i]);
    golden_write(t.path, sizeof t.path, &g, TERN_F32);
    t.vocab = g.vocab;
    for (size_t k = 0; k < N_TEXTS; k++) {
        golden_prompt(t.text[k], N_CTX, g.prompt_seed + k, g.vocab);
        memcpy(t.text[k], t.text[begins[k].as], begins[k].to * sizeof **t.text);
    }
    golden_close(&g);
    ck_assert_msg(!tern_model_open(&t.model, t.path, &p, &e), "%s", e.text);
    p.n_threads = 1;
    fresh_rows(&p, type);
}

void texts_close(void)
{
    tern_model_close(t.model);
    unlink(t.path);
}

size_t texts_common(size_t a, size_t b)
{
    size_t n = 0;
    while (n < N_CTX && t.text[a][n] == t.text[b][n])
        n++;
    return n;
}

size_t texts_find(uint32_t seq, size_t text, size_t n)
{
    size_t reach = tern_prefix_reach(t.ctx, t.text[text], n);
    size_t found = tern_prefix_find(t.ctx, seq, t.text[text], n);
    ck_assert_uint_eq(found, reach);
    ck_assert_uint_lt(found, n);
    ck_assert_uint_eq(tern_seq_length(t.ctx, seq), found);
    ck_assert(!memcmp(tern_seq_tokens(t.ctx, seq), t.text[text], found * sizeof(tern_token)));
    return found;
}

/* ---- the store ---- */

/* Check's own macros write a file at each call. */
#define must(what) (what) ? (void)0 : ck_abort_msg("%s", #what)

static void check_pages(const tern_context *c, int class)
{
    const struct cache_class *k = &c->cache.classes[class];
    const struct prefix_store *s = &c->prefixes;
    uint32_t *users = calloc(k->n_pages, sizeof *users);
    size_t held = 0;
    for (size_t seq = 0; seq < c->cache.n_seqs; seq++) {
        size_t own = 0;
        for (size_t b = 0; b < c->cache.n_blocks; b++) {
            int32_t page = cache_page(&c->cache, class, seq, b);
            must(page < 0 || b * BLOCK < c->cache.length[seq]);
            own += page >= 0;
            if (page >= 0)
                users[page]++;
        }
        must(own <= k->max_pages);
    }
    for (int32_t i = s->newest; i >= 0; i = s->nodes[i].older) {
        int32_t page = s->pages[i * c->cache.n_classes + class];
        must(page >= 0 || k->window);
        if (page >= 0)
            users[page]++;
    }
    must(!memcmp(users, k->users, k->n_pages * sizeof *users));
    for (size_t i = 0; i < k->n_pages; i++)
        held += users[i] > 0;
    must(held + k->n_free == k->n_pages);
    for (size_t i = 0; i < k->n_free; i++)
        must(!users[k->free_pages[i]]++); /* free, and there once */
    free(users);
}

/* No sibling is the beginning of another. */
static void check_siblings(const struct prefix_store *s, int32_t first)
{
    for (int32_t a = first; a >= 0; a = s->nodes[a].right)
        for (int32_t b = first; b >= 0; b = s->nodes[b].right) {
            size_t n = s->nodes[a].n < s->nodes[b].n ? s->nodes[a].n : s->nodes[b].n;
            must(a == b || memcmp(s->nodes[a].tokens, s->nodes[b].tokens, n * sizeof(tern_token)));
        }
}

static void check_node(const struct prefix_store *s, int32_t node)
{
    const struct prefix_node *k = &s->nodes[node];
    must(k->n >= 1 && k->n <= BLOCK && (k->n == BLOCK || k->child < 0));
    must(k->block == (k->parent < 0 ? 0 : s->nodes[k->parent].block + 1));
    must(k->left < 0 || s->nodes[k->left].right == node);
    must(k->right < 0 || s->nodes[k->right].left == node);
    must(k->left >= 0 ||
         (k->parent < 0 ? s->root[-1 - k->parent] : s->nodes[k->parent].child) == node);
    for (int32_t i = k->state; i >= 0; i = s->states[i].next) {
        const struct snapshot *of = &s->cache->recurrent.snapshots[s->states[i].snapshot];
        must(s->states[i].node == node && s->states[i].after >= 1 && s->states[i].after <= k->n);
        must(of->kept && of->at == k->block * BLOCK + s->states[i].after);
    }
    check_siblings(s, k->child);
}

void texts_check_store(const tern_context *c)
{
    const struct prefix_store *s = &c->prefixes;
    const struct recurrent *r = &c->cache.recurrent;
    struct tern_prefix_info info;
    size_t n_used = 0, n_kept = 0, n_tokens = 0;
    unsigned char *seen = calloc(s->n_nodes + 1, 1);
    for (int32_t i = s->newest; i >= 0; i = s->nodes[i].older) {
        must(s->nodes[i].parent < 0 || seen[s->nodes[i].parent]); /* used after what follows it */
        must(!seen[i]++);
        must(s->nodes[i].older < 0 ? s->oldest == i : s->nodes[s->nodes[i].older].newer == i);
        check_node(s, i);
        n_used++, n_tokens += s->nodes[i].n;
    }
    must(n_used == s->n_used && n_used <= s->n_nodes && n_tokens == s->n_tokens);
    for (int root = 0; root < PREFIX_ROOTS && s->n_nodes; root++)
        check_siblings(s, s->root[root]);
    for (size_t i = 0; i < s->n_states; i++)
        n_kept += s->states[i].node >= 0;
    must(n_kept == s->n_kept);
    for (size_t i = 0; i < r->n_snapshots && r->state_floats; i++)
        n_kept -= r->snapshots[i].kept;
    must(!n_kept);
    for (int i = 0; i < c->cache.n_classes; i++)
        check_pages(c, i);
    tern_prefix_info(c, &info);
    must(info.bytes <= info.max_bytes && info.n_pages == n_used && info.n_tokens == n_tokens);
    free(seen);
}
