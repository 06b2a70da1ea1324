/* Pages, tables and counts of the KV cache: see cache.h. */
#include "model/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "model/split.h"

enum {
    NO_CLASS = -1,        /* of a layer without attention */
    HUGE_FROM = 16 << 20, /* bytes of a cache that large pages make faster to read */
    AHEAD = BLOCK / 2,    /* positions of a block that take the memory of a page ahead, */
    AHEAD_ROWS = 64,      /* in steps of at most so many */
    TOUCH = 4096          /* bytes of the smallest page of a machine */
};

/* A window that no position of the context can feel is none. */
static size_t effective_window(size_t window, size_t n_ctx)
{
    return window >= n_ctx ? 0 : window;
}

static size_t blocks_of(size_t n)
{
    return ceil_div(n, BLOCK);
}

static int find_class(struct cache *c, size_t window)
{
    int i = 0;
    while (i < c->n_classes && c->classes[i].window != window)
        i++;
    if (i == c->n_classes)
        c->classes[c->n_classes++].window = window;
    return i;
}

/* K and V of a block that this machine holds */
static size_t own_parts_of(const struct model *m, const struct layer *w, struct cache_layer *at)
{
    struct portion own = own_kv(m, w);
#ifdef TERN_MPI
    at->first_head = own.begin;
#else
    (void)at;
#endif
    return w->latent.rank ? 1 : 2 * (own.end - own.begin);
}

/* The place of a KV head among those */
static size_t head_place(const struct cache_layer *at, size_t kv_head)
{
#ifdef TERN_MPI
    return kv_head - at->first_head;
#else
    (void)at;
    return kv_head;
#endif
}

/* Classes, layer offsets and page sizes from the model's layers; sizes only, no memory of pages. */
static void plan_classes(struct cache *c, const struct model *m)
{
    for (size_t l = 0; l < c->n_layers; l++) {
        const struct layer *w = &m->layers[l];
        struct cache_layer *at = &c->layers[l];
        if (w->kv_from) { /* that layer's place in the pages, which holds all that it reads */
            *at = c->layers[w->kv_from - 1];
            continue;
        }
        at->class = NO_CLASS;
        if (!w->n_kv_heads)
            continue;
        at->class = find_class(c, effective_window(w->window, c->n_ctx));
        struct cache_class *class = &c->classes[at->class];
        at->kv_bytes = attend_bytes(c->type, w->head_dim);
        at->offset = class->page_bytes;
        class->page_bytes +=
            own_parts_of(m, w, at) * at->kv_bytes; /* < 2^35 a layer: no overflow */
#ifdef TERN_MPI
        at->whole_offset = class->whole_bytes;
        class->whole_bytes += layer_kv(w) * at->kv_bytes;
#endif
    }
}

/* How many pages, and the memory of them and of the tokens; false when that does not fit. */
static bool plan_pages(struct cache *c, const struct model *m, const struct cache_request *request)
{
    uint64_t total = 0, bytes, pages = 0;
    for (int i = 0; i < c->n_classes; i++) {
        struct cache_class *class = &c->classes[i];
        size_t live = class->window ? class->window + request->n_batch + CACHE_ROLLBACK : c->n_ctx;
        class->max_pages = blocks_of(live) + (class->window != 0);
        if (class->max_pages > c->n_blocks)
            class->max_pages = c->n_blocks;
        class->n_pages = class->max_pages * c->n_seqs;
        pages += class->page_bytes;
        if (!size_mul(class->n_pages, class->page_bytes, &bytes) || !size_add(total, bytes, &total))
            return false;
    }
    if (!size_mul(c->n_seqs * sizeof *c->tokens, c->n_ctx, &bytes) ||
        !size_add(total, bytes, &total))
        return false;
    c->seq_bytes = (size_t)total;
#ifdef TERN_MPI
    for (int i = 0; i < c->n_classes; i++) /* a rank may hold nothing of a page */
        c->seq_bytes +=
            c->classes[i].n_pages * (c->classes[i].whole_bytes - c->classes[i].page_bytes);
    uint64_t own_pages = pages;
    pages = 0;
    for (int i = 0; i < c->n_classes; i++)
        pages += c->classes[i].whole_bytes;
#endif
    c->share = prefix_share_of(request->prefix_bytes, pages, (size_t)c->n_classes,
                               m->state_floats * sizeof(float));
    for (int i = 0; i < c->n_classes; i++)
        c->classes[i].n_pages += c->share.n_pages;
#ifdef TERN_MPI
    pages = own_pages;
#endif
    if (!size_add(total, c->share.n_pages * pages, &total))
        return false;
    c->range_bytes = (size_t)total;
    return true;
}

/* *fits is false when the sizes overflow. */
static enum tern_status plan(struct cache *c, const struct model *m,
                             const struct cache_request *request, bool *fits, struct tern_error *e)
{
    *c = (struct cache){.type = request->type, .n_ctx = request->n_ctx, .n_seqs = request->n_seqs};
    c->n_layers = m->n_layers + m->n_mtp;
    c->n_blocks = blocks_of(request->n_ctx);
    c->classes = calloc(c->n_layers, sizeof *c->classes);
    c->layers = calloc(c->n_layers, sizeof *c->layers);
    if (!c->classes || !c->layers)
        return error_memory(e, "the cache's tables", c->n_layers * sizeof *c->classes);
    plan_classes(c, m);
    *fits = plan_pages(c, m, request);
    return TERN_OK;
}

/* What a store of this share takes beside pages and states */
static uint64_t share_places(const struct cache *c)
{
    return c->share.n_pages * (PREFIX_NODE_BYTES + (size_t)c->n_classes * sizeof(int32_t)) +
           c->share.n_states * PREFIX_STATE_BYTES;
}

enum tern_status cache_bytes(const struct model *m, const struct cache_request *request,
                             struct cache_memory *memory, struct tern_error *e)
{
    struct cache c;
    bool fits = false;
    enum tern_status s = plan(&c, m, request, &fits, e);
    memory->states =
        recurrent_bytes(m, request, c.seq_bytes, c.share.n_states, &memory->n_snapshots);
    memory->prefix = c.share.bytes;
    if (!fits || !size_add(memory->states, c.range_bytes, &memory->bytes) ||
        !size_add(memory->bytes, hidden_bytes(m, request->n_seqs), &memory->bytes) ||
        !size_add(memory->bytes, share_places(&c), &memory->bytes))
        memory->bytes = UINT64_MAX;
#ifdef TERN_MPI
    memory->elsewhere = 0;
    for (int i = 0; i < c.n_classes && memory->bytes < UINT64_MAX; i++)
        memory->elsewhere +=
            c.share.n_pages * (cache_whole_bytes(&c.classes[i]) - c.classes[i].page_bytes);
    memory->bytes += memory->elsewhere;
#endif
    cache_close(&c);
    return s;
}

static enum tern_status open_class(struct cache_class *class, size_t n_seqs, size_t n_blocks,
                                   struct tern_error *e)
{
    class->users = calloc(class->n_pages, sizeof *class->users);
    class->free_pages = calloc(class->n_pages, sizeof *class->free_pages);
    class->table = calloc(n_seqs * n_blocks, sizeof *class->table);
    if (!class->users || !class->free_pages || !class->table)
        return error_memory(e, "the cache's page table", n_seqs * n_blocks * sizeof(int32_t));
    for (size_t i = 0; i < class->n_pages; i++) /* page 0 is taken first */
        class->free_pages[class->n_free++] = (int32_t)(class->n_pages - 1 - i);
    for (size_t i = 0; i < n_seqs * n_blocks; i++)
        class->table[i] = -1;
    return TERN_OK;
}

enum tern_status cache_open(struct cache *c, const struct model *m,
                            const struct cache_request *request, struct tern_error *e)
{
    bool fits = false;
    size_t n_seqs = request->n_seqs, n_ctx = request->n_ctx;
    enum tern_status s = plan(c, m, request, &fits, e);
    if (!s && !fits)
        s = error_set(e, TERN_NO_MEMORY,
                      "a KV cache of %zu sequences of %zu positions does not fit any memory",
                      n_seqs, n_ctx);
    if (!s && !(c->range = memory_reserve(c->range_bytes)))
        s = error_set(e, TERN_NO_MEMORY,
                      "not enough memory for a KV cache of %zu positions (%zu MiB): try a smaller "
                      "context",
                      n_ctx, c->range_bytes >> 20);
    c->far = calloc(n_seqs, sizeof *c->far);
    c->length = calloc(n_seqs, sizeof *c->length);
    c->ahead = calloc(n_seqs, sizeof *c->ahead);
    c->bad = calloc(n_seqs, sizeof *c->bad);
    if (!s && (!c->far || !c->length || !c->ahead || !c->bad))
        s = error_memory(e, "the sequences", n_seqs * sizeof *c->length);
    if (!s && c->range_bytes >= HUGE_FROM)
        memory_advise_huge(c->range, c->range_bytes);
    unsigned char *at = c->range;
    for (int i = 0; i < c->n_classes && !s; i++) {
        c->classes[i].pages = at;
        at += c->classes[i].n_pages * c->classes[i].page_bytes;
        s = open_class(&c->classes[i], n_seqs, c->n_blocks, e);
    }
    c->tokens = (void *)at;
    if (!s)
        s = recurrent_open(&c->recurrent, m, request, c->seq_bytes, c->share.n_states, e);
    if (!s)
        s = hidden_open(&c->hidden, m, n_seqs, e);
    if (s)
        cache_close(c);
    return s;
}

void cache_close(struct cache *c)
{
    for (int i = 0; i < c->n_classes && c->classes; i++) {
        free(c->classes[i].users);
        free(c->classes[i].free_pages);
        free(c->classes[i].table);
    }
    memory_release(c->range, c->range_bytes);
    recurrent_close(&c->recurrent);
    hidden_close(&c->hidden);
    free(c->classes);
    free(c->layers);
    free(c->length);
    free(c->far);
    free(c->ahead);
    free(c->bad);
    *c = (struct cache){0};
}

static int32_t *table_of(const struct cache *c, const struct cache_class *class, size_t seq)
{
    return class->table + seq * c->n_blocks;
}

static int32_t take_page(struct cache_class *class)
{
    int32_t page = class->free_pages[--class->n_free];
    class->users[page] = 1;
    if ((size_t)page == class->fresh)
        class->fresh++;
    return page;
}

static void drop_page(struct cache_class *class, int32_t *entry)
{
    if (*entry >= 0 && --class->users[*entry] == 0)
        class->free_pages[class->n_free++] = *entry;
    *entry = -1;
}

static void drop_blocks(const struct cache *c, struct cache_class *class, size_t seq, size_t begin,
                        size_t end)
{
    int32_t *table = table_of(c, class, seq);
    for (size_t b = begin; b < end; b++)
        drop_page(class, &table[b]);
}

size_t cache_length(const struct cache *c, size_t seq)
{
    size_t n = c->length[seq], trial = c->ahead[seq];
    return n > trial ? n - trial : 0;
}

/* A windowed class gives up what the sequence can see no more. */
static void drop_unseen(struct cache *c, size_t seq)
{
    for (int i = 0; i < c->n_classes; i++)
        drop_blocks(c, &c->classes[i], seq, 0,
                    cache_first_block(&c->classes[i], cache_length(c, seq)));
}

void cache_extend(struct cache *c, size_t seq, size_t n)
{
    if (c->share.n_pages)
        drop_unseen(c, seq);
    for (int i = 0; i < c->n_classes; i++) {
        int32_t *table = table_of(c, &c->classes[i], seq);
        for (size_t b = c->length[seq] / BLOCK; b < blocks_of(c->length[seq] + n); b++)
            if (table[b] < 0)
                table[b] = take_page(&c->classes[i]);
    }
}

/* A sequence has n positions more. In the second half of a block they take the memory of a page that nobody
 * has had, each its share, unless pages of old are free: at the block's end all of it is there. */
static void touch_ahead(const struct cache *c, struct cache_class *class, size_t length, size_t n)
{
    size_t within = length % BLOCK ? length % BLOCK : BLOCK;
    size_t used = class->n_free - (class->n_pages - class->fresh); /* free pages */
    if (n > AHEAD_ROWS || within <= BLOCK - AHEAD || used >= c->n_seqs)
        return;
    size_t share = ceil_div(class->page_bytes, AHEAD) * min_size(n, within - (BLOCK - AHEAD));
    size_t from = max_size(class->touched, class->fresh * class->page_bytes);
    size_t most = min_size(class->fresh + c->n_seqs, class->n_pages) * class->page_bytes;
    size_t end = min_size(from + share, most);
    for (size_t at = from; at < end; at += TOUCH)
        *(volatile unsigned char *)(class->pages + at) = 0;
    class->touched = max_size(class->touched, end);
}

void cache_commit(struct cache *c, size_t seq, size_t n)
{
    c->length[seq] += (uint32_t)n;
    for (int i = 0; i < c->n_classes; i++)
        touch_ahead(c, &c->classes[i], c->length[seq], n);
    if (!c->share.n_pages)
        drop_unseen(c, seq);
    for (int i = 0; i < c->n_classes; i++)
        drop_blocks(c, &c->classes[i], seq, blocks_of(c->length[seq]), c->n_blocks);
}

/* True when the class still holds everything that position n of the sequence sees. */
static bool can_continue(const struct cache *c, const struct cache_class *class, size_t seq,
                         size_t n)
{
    const int32_t *table = table_of(c, class, seq);
    for (size_t b = cache_needed_block(class, n); b < blocks_of(n); b++)
        if (table[b] < 0)
            return false;
    return true;
}

static size_t can_keep(const struct cache *c, size_t seq, size_t n)
{
    if (n > c->length[seq])
        n = c->length[seq];
    n = recurrent_reach(&c->recurrent, seq, n);
    for (int i = 0; i < c->n_classes; i++)
        if (!can_continue(c, &c->classes[i], seq, n))
            return 0;
    return n;
}

/* Gives the sequence its own copy of the page that its next position will be written to. */
static void own_last_page(struct cache *c, struct cache_class *class, size_t seq, size_t n)
{
    int32_t *entry = &table_of(c, class, seq)[n / BLOCK];
    if (n % BLOCK == 0 || *entry < 0 || class->users[*entry] == 1)
        return;
    int32_t shared = *entry;
    class->users[shared]--;
    *entry = take_page(class);
    memcpy(class->pages + (size_t)*entry * class->page_bytes,
           class->pages + (size_t)shared * class->page_bytes, class->page_bytes);
}

size_t cache_keep(struct cache *c, size_t seq, size_t n)
{
    n = can_keep(c, seq, n);
    c->length[seq] = (uint32_t)n;
    c->bad[seq] = n ? c->bad[seq] : 0;
    recurrent_keep(&c->recurrent, seq, n);
    hidden_keep(&c->hidden, seq, n);
    for (int i = 0; i < c->n_classes; i++) {
        drop_blocks(c, &c->classes[i], seq, blocks_of(n), c->n_blocks);
        own_last_page(c, &c->classes[i], seq, n);
    }
    return n;
}

size_t cache_fork(struct cache *c, size_t from, size_t to, size_t n)
{
    if (from == to)
        return cache_keep(c, from, n);
    n = can_keep(c, from, n);
    cache_keep(c, to, 0);
    recurrent_fork(&c->recurrent, from, to, n);
    hidden_fork(&c->hidden, from, to, n);
    for (int i = 0; i < c->n_classes; i++) {
        struct cache_class *class = &c->classes[i];
        const int32_t *source = table_of(c, class, from);
        int32_t *target = table_of(c, class, to);
        for (size_t b = cache_first_block(class, n); b < blocks_of(n); b++)
            if ((target[b] = source[b]) >= 0)
                class->users[target[b]]++;
        own_last_page(c, class, to, n);
    }
    memcpy(c->tokens + to * c->n_ctx, c->tokens + from * c->n_ctx, n * sizeof *c->tokens);
    c->length[to] = (uint32_t)n;
    c->far[to] = c->far[from];
    c->bad[to] = n ? c->bad[from] : 0;
    return n;
}

int32_t cache_page(const struct cache *c, int class, size_t seq, size_t block)
{
    return table_of(c, &c->classes[class], seq)[block];
}

int32_t cache_take_page(struct cache *c, int class)
{
    return take_page(&c->classes[class]);
}

void cache_hold_page(struct cache *c, int class, int32_t page)
{
    c->classes[class].users[page]++;
}

void cache_drop_page(struct cache *c, int class, int32_t *page)
{
    drop_page(&c->classes[class], page);
}

void cache_put_page(struct cache *c, int class, size_t seq, size_t block, int32_t page)
{
    int32_t *entry = &table_of(c, &c->classes[class], seq)[block];
    cache_hold_page(c, class, page);
    drop_page(&c->classes[class], entry);
    *entry = page;
}

void cache_adopt(struct cache *c, size_t seq, const tern_token *tokens, size_t n, bool far)
{
    for (int i = 0; i < c->n_classes; i++)
        own_last_page(c, &c->classes[i], seq, n);
    memcpy(c->tokens + seq * c->n_ctx, tokens, n * sizeof *tokens);
    c->length[seq] = (uint32_t)n;
    c->far[seq] = far;
}

size_t cache_first(const struct cache *c, size_t layer, size_t seq)
{
    if (c->layers[layer].class == NO_CLASS)
        return 0;
    const struct cache_class *class = &c->classes[c->layers[layer].class];
    size_t b = cache_first_block(class, c->length[seq]);
    while (b < blocks_of(c->length[seq]) && table_of(c, class, seq)[b] < 0)
        b++;
    return b;
}

bool cache_fits(const struct cache *c, size_t n, const uint64_t *first, size_t known)
{
    for (size_t l = 0; l < known && l < c->n_layers; l++) {
        if (c->layers[l].class == NO_CLASS && first[l])
            return false;
        if (c->layers[l].class == NO_CLASS)
            continue;
        const struct cache_class *class = &c->classes[c->layers[l].class];
        size_t same = 0; /* the first layer of the class */
        while (c->layers[same].class != c->layers[l].class)
            same++;
        if (first[l] < cache_first_block(class, n) || first[l] > cache_needed_block(class, n) ||
            first[l] != first[same])
            return false;
    }
    return true;
}

void cache_refill(struct cache *c, size_t seq, size_t n, const uint64_t *first, size_t known)
{
    cache_keep(c, seq, 0);
    for (size_t l = 0; l < c->n_layers; l++) {
        if (c->layers[l].class == NO_CLASS)
            continue;
        struct cache_class *class = &c->classes[c->layers[l].class];
        int32_t *table = table_of(c, class, seq);
        for (size_t b = l < known ? first[l] : cache_needed_block(class, n); b < blocks_of(n); b++)
            if (table[b] < 0)
                table[b] = take_page(class);
    }
    c->length[seq] = (uint32_t)n;
}

static unsigned char *page_of(const struct cache *c, size_t layer, size_t seq, size_t position)
{
    const struct cache_layer *at = &c->layers[layer];
    const struct cache_class *class = &c->classes[at->class];
    int32_t page = table_of(c, class, seq)[position / BLOCK];
    return class->pages + (size_t)page * class->page_bytes + at->offset;
}

void *cache_k(const struct cache *c, size_t layer, size_t seq, size_t position, size_t kv_head)
{
    const struct cache_layer *at = &c->layers[layer];
    return page_of(c, layer, seq, position) + 2 * head_place(at, kv_head) * at->kv_bytes;
}

void *cache_v(const struct cache *c, size_t layer, size_t seq, size_t position, size_t kv_head)
{
    const struct cache_layer *at = &c->layers[layer];
    return page_of(c, layer, seq, position) + (2 * head_place(at, kv_head) + 1) * at->kv_bytes;
}
