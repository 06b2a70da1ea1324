/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=memory_release,--wrap=memory_advise_huge */
/* Pages, tables and counts of the KV cache, without a model's arithmetic: whatever is done, every
 * position that a sequence sees holds what was written for it, no page is lost or held for nothing,
 * and the memory is what the sizes need. */
#include "allocs.h"
#include "base/sizes.h"
#include "model/cache.h"
#include "suite.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_CTX = 900, N_BATCH = 100, N_SEQS = 3, N_LAYERS = 7 };

/* A class without a window (the last layer's is felt by no position), and four with: the largest
 * takes as many pages as a whole context. */
static struct cache_memory memory;

static struct layer layers[N_LAYERS] = {
    {.n_kv_heads = 2, .head_dim = 3, .window = 20},
    {.n_kv_heads = 1, .head_dim = 1},
    {.n_kv_heads = 1, .head_dim = 2, .window = 300},
    {.n_kv_heads = 3, .head_dim = 1},
    {.n_kv_heads = 1, .head_dim = 5, .window = 40},
    {.n_kv_heads = 1, .head_dim = 1, .window = 800},
    {.n_kv_heads = 1, .head_dim = 1, .window = N_CTX},
};
static const struct model model = {.n_layers = N_LAYERS, .layers = layers};

static struct cache c;
static tern_token text[N_SEQS][N_CTX];
static size_t length[N_SEQS];
static struct tern_error e;

/* Reserved ranges are given back with their size. */
static size_t released;
void __real_memory_release(void *p, size_t n);
void __wrap_memory_release(void *p, size_t n);

void __wrap_memory_release(void *p, size_t n)
{
    released = p ? n : 0;
    __real_memory_release(p, n);
}

/* Large pages are asked for so many bytes. */
static size_t huge;
void __wrap_memory_advise_huge(void *p, size_t n);

void __wrap_memory_advise_huge(void *p, size_t n)
{
    huge = p == c.range ? n : 0;
}

static void open_cache(enum tern_cache_type type)
{
    ck_assert_msg(!cache_open(&c, &model, &(struct cache_request){type, N_CTX, N_BATCH, N_SEQS, 0}, &e), "%s", e.text);
    memset(length, 0, sizeof length);
}

/* Check's own macros write a file at each call. */
#define must(what) (what) ? (void)0 : ck_abort_msg("%s", #what)

/* ---- what positions hold ---- */

/* The bytes of a position in the K (part 0) or V (1) of a head: all blocks together fill a page. */
static unsigned char *place(size_t seq, size_t l, size_t head, size_t part, size_t p, size_t *n)
{
    unsigned char *at = (part ? cache_v : cache_k)(&c, l, seq, p, head);
    *n = c.layers[l].kv_bytes / BLOCK;
    return at + p % BLOCK * *n;
}

static unsigned char mark_of(size_t l, size_t head, size_t part, size_t p, tern_token t)
{
    return (unsigned char)(t + (tern_token)(p * 7 + l * 31 + head * 101 + part * 57));
}

static void write_position(size_t seq, size_t p, tern_token t)
{
    size_t n;
    c.tokens[seq * N_CTX + p] = t;
    for (size_t l = 0; l < N_LAYERS; l++)
        for (size_t i = 0; i < 2 * layers[l].n_kv_heads; i++) {
            unsigned char *at = place(seq, l, i / 2, i % 2, p, &n);
            memset(at, mark_of(l, i / 2, i % 2, p, t), n);
        }
}

/* First position that position n of a sequence sees in a layer. */
static size_t sees_from(size_t l, size_t n)
{
    size_t w = layers[l].window;
    return w && w < N_CTX && n + 1 > w ? n + 1 - w : 0;
}

static bool holds(size_t seq, size_t l, size_t p)
{
    const struct cache_class *class = &c.classes[c.layers[l].class];
    return class->table[seq * c.n_blocks + p / BLOCK] >= 0;
}

static void check_sequence(size_t seq)
{
    size_t n;
    must(c.length[seq] == length[seq]);
    must(!memcmp(c.tokens + seq * N_CTX, text[seq], length[seq] * sizeof **text));
    for (size_t l = 0; l < N_LAYERS; l++)
        for (size_t p = sees_from(l, length[seq]); p < length[seq]; p++) {
            must(holds(seq, l, p));
            for (size_t i = 0; i < 2 * layers[l].n_kv_heads; i++) {
                const unsigned char *at = place(seq, l, i / 2, i % 2, p, &n);
                unsigned char want = mark_of(l, i / 2, i % 2, p, text[seq][p]);
                if (at[0] != want || at[n - 1] != want)
                    ck_abort_msg("sequence %zu, layer %zu, position %zu", seq, l, p);
            }
        }
}

/* ---- what pages are held ---- */

static void check_class(const struct cache_class *class)
{
    static uint32_t users[200];
    size_t used = 0;
    must(class->n_pages <= 200);
    memset(users, 0, sizeof users);
    for (size_t seq = 0; seq < N_SEQS; seq++) {
        const int32_t *table = class->table + seq * c.n_blocks;
        size_t n = length[seq], out = class->window + CACHE_ROLLBACK, held = 0;
        for (size_t b = 0; b < c.n_blocks; b++) {
            bool useful = b * BLOCK < n && !(class->window && (b + 1) * BLOCK + out <= n);
            must(useful || table[b] < 0);
            must(table[b] < (int)class->n_pages);
            held += table[b] >= 0;
            if (table[b] >= 0)
                used += users[table[b]]++ == 0;
        }
        must(held <= class->max_pages);
    }
    must(!memcmp(users, class->users, class->n_pages * sizeof *users));
    must(used + class->n_free == class->n_pages);
    for (size_t i = 0; i < class->n_free; i++)
        must(!users[class->free_pages[i]]++); /* free, and there once */
}

static void check_all(void)
{
    for (size_t seq = 0; seq < N_SEQS; seq++)
        check_sequence(seq);
    for (int i = 0; i < c.n_classes; i++)
        check_class(&c.classes[i]);
}

/* ---- steps ---- */

static uint32_t state = 1;

static size_t random_below(size_t n)
{
    state ^= state << 13, state ^= state >> 17, state ^= state << 5; /* xorshift32 */
    return state % n;
}

/* n positions; where `stays` is false, they are given up again. */
static void step(size_t seq, size_t n, bool stays)
{
    n = min_size(n, N_CTX - length[seq]);
    cache_extend(&c, seq, n);
    for (size_t i = 0; i < n; i++) {
        tern_token t = (tern_token)random_below(1000);
        write_position(seq, length[seq] + i, t);
        if (stays)
            text[seq][length[seq] + i] = t;
    }
    cache_commit(&c, seq, stays ? n : 0);
    length[seq] += stays ? n : 0;
}

/* What a sequence can keep: n positions when position n finds all that it sees, else none. */
static size_t keepable(size_t seq, size_t n)
{
    n = min_size(n, length[seq]);
    for (size_t l = 0; l < N_LAYERS; l++)
        for (size_t p = sees_from(l, n); p < n; p++)
            if (!holds(seq, l, p))
                return 0;
    return n;
}

static void keep(size_t seq, size_t n)
{
    size_t want = keepable(seq, n);
    ck_assert_uint_eq(cache_keep(&c, seq, n), want);
    length[seq] = want;
}

static void fork_text(size_t from, size_t to, size_t n)
{
    size_t want = keepable(from, n);
    c.far[from] = n % 2, c.far[to] = !c.far[from];
    ck_assert_uint_eq(cache_fork(&c, from, to, n), want);
    ck_assert(c.far[to] == (n % 2 != (from == to)));
    memmove(text[to], text[from], want * sizeof **text);
    length[to] = want;
}

/* A sequence, page by page, to another, as a session does. */
static void copy(size_t from, size_t to)
{
    static unsigned char pages[N_LAYERS][N_CTX / BLOCK + 1][12288];
    uint64_t first[N_LAYERS];
    size_t n = length[from];
    for (size_t l = 0; l < N_LAYERS; l++) {
        size_t bytes = 2 * layers[l].n_kv_heads * c.layers[l].kv_bytes;
        ck_assert_uint_le(bytes, sizeof pages[l][0]);
        first[l] = cache_first(&c, l, from);
        ck_assert(first[l] * BLOCK <= sees_from(l, n));
        ck_assert(!first[l] || !holds(from, l, first[l] * BLOCK - 1));
        ck_assert(first[l] * BLOCK >= n || holds(from, l, first[l] * BLOCK));
        for (size_t b = first[l]; b * BLOCK < n; b++)
            memcpy(pages[l][b], cache_k(&c, l, from, b * BLOCK, 0), bytes);
    }
    ck_assert(cache_fits(&c, n, first, c.n_layers));
    cache_refill(&c, to, n, first, c.n_layers);
    for (size_t l = 0; l < N_LAYERS; l++)
        for (size_t b = first[l]; b * BLOCK < n; b++)
            memcpy(cache_k(&c, l, to, b * BLOCK, 0), pages[l][b],
                   2 * layers[l].n_kv_heads * c.layers[l].kv_bytes);
    memmove(text[to], text[from], n * sizeof **text);
    memmove(c.tokens + to * N_CTX, c.tokens + from * N_CTX, n * sizeof **text);
    length[to] = n;
}

START_TEST(any_steps_leave_every_text_whole)
{
    open_cache((enum tern_cache_type)(_i % 2)); /* a byte of q8's scales has no position */
    check_all();
    for (int i = 0; i < 300; i++) {
        size_t seq = random_below(N_SEQS), n = length[seq], to = random_below(N_SEQS);
        switch (random_below(8)) {
        case 0:
            keep(seq, random_below(n + 9));
            break;
        case 1: /* a little back */
            keep(seq, n - random_below(min_size(n, 2 * CACHE_ROLLBACK) + 1));
            break;
        case 2:
            fork_text(seq, to, n - random_below(min_size(n, 300) + 1));
            break;
        case 3:
            if (seq != to && n)
                copy(seq, to);
            break;
        case 4:
            step(seq, 1 + random_below(N_BATCH), false);
            break;
        default:
            step(seq, N_BATCH - random_below(3) * random_below(20), true);
        }
        check_all();
    }
    for (size_t seq = 0; seq < N_SEQS; seq++)
        keep(seq, 0);
    check_all();
    for (int i = 0; i < c.n_classes; i++)
        ck_assert_uint_eq(c.classes[i].n_free, c.classes[i].n_pages);
    cache_close(&c);
}
END_TEST

/* Of two sequences that share a page, one goes back into it and takes another way. */
START_TEST(a_shared_page_is_not_written)
{
    static const size_t lengths[] = {256, 257, 300, 319, 530}, back[] = {1, 20, 64, 0};
    for (size_t i = 0; i < 2 * (sizeof lengths / sizeof *lengths); i++)
        for (size_t k = 0; k < sizeof back / sizeof *back; k++) {
            open_cache(TERN_CACHE_F16);
            while (length[0] < lengths[i / 2])
                step(0, min_size(N_BATCH, lengths[i / 2] - length[0]), true);
            fork_text(0, 1, length[0]);
            keep(i % 2, back[k] ? length[0] - back[k] : 1);
            ck_assert(!back[k] || length[i % 2] == lengths[i / 2] - back[k]);
            check_all();
            step(i % 2, 80, true);
            check_all();
            cache_close(&c);
        }
}
END_TEST

/* At 600, a window of 20 has let go of blocks 0 and 1; at 560 it could still see the second. */
START_TEST(what_is_gone_is_not_copied)
{
    open_cache(TERN_CACHE_F16);
    while (length[0] < 600)
        step(0, N_BATCH, true);
    keep(0, 560);
    ck_assert_uint_eq(length[0], 560);
    ck_assert_uint_eq(cache_first(&c, 0, 0), 2);
    copy(0, 2);
    check_all();
    cache_close(&c);
}
END_TEST

/* A context of whole blocks has no page behind its last position. */
START_TEST(a_full_sequence_owns_all_its_pages)
{
    enum { N = 2 * BLOCK };
    int32_t before[3 * N / BLOCK];
    struct model m = {.n_layers = 1, .layers = layers + 1};
    ck_assert(!cache_open(&c, &m, &(struct cache_request){TERN_CACHE_F16, N, N, 3, 0}, &e));
    cache_extend(&c, 0, N);
    cache_commit(&c, 0, N);
    ck_assert_uint_eq(cache_fork(&c, 0, 1, N), N);
    memcpy(before, c.classes[0].table, sizeof before);
    ck_assert_uint_eq(cache_keep(&c, 0, N), N);
    ck_assert(!memcmp(before, c.classes[0].table, sizeof before));
    cache_close(&c);
}
END_TEST

/* At every length: a step of a whole batch finds its pages and no more are reserved than it can
 * need; the last 64 positions, and all that are on trial, can be taken back. */
START_TEST(room_is_enough_and_no_more)
{
    size_t most[N_LAYERS] = {0};
    open_cache(TERN_CACHE_F16);
    ck_assert_int_eq(c.n_classes, 5);
    for (size_t n = 0; n < N_CTX; n++) {
        size_t batch = min_size(N_BATCH, N_CTX - n);
        cache_extend(&c, 0, batch);
        for (int i = 0; i < c.n_classes; i++) {
            size_t used = c.classes[i].n_pages - c.classes[i].n_free;
            most[i] = max_size(most[i], used);
        }
        c.ahead[0] = (uint32_t)batch;
        cache_commit(&c, 0, batch);
        ck_assert_uint_eq(cache_length(&c, 0), n);
        ck_assert_uint_eq(cache_length(&c, 1), 0);
        ck_assert_uint_eq(cache_keep(&c, 0, n), n);
        c.ahead[0] = 0;
        length[0] = n;
        check_all();
        if (n >= CACHE_ROLLBACK) {
            ck_assert_uint_eq(cache_fork(&c, 0, 1, n), n);
            ck_assert_uint_eq(cache_keep(&c, 1, n - CACHE_ROLLBACK), n - CACHE_ROLLBACK);
            cache_keep(&c, 1, 0);
        }
        step(0, 1, true);
        check_sequence(0);
    }
    for (int i = 0; i < c.n_classes; i++)
        ck_assert_uint_eq(most[i], c.classes[i].max_pages);
    cache_close(&c);
}
END_TEST

START_TEST(what_is_on_trial_does_not_count)
{
    static const uint32_t trials[] = {0, 1, 6, 7, 8};
    open_cache(TERN_CACHE_F16);
    step(0, 7, true);
    step(1, 7, true);
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        c.ahead[1] = trials[i];
        ck_assert_uint_eq(cache_length(&c, 0), 7);
        ck_assert_uint_eq(cache_length(&c, 1), trials[i] < 7 ? 7 - trials[i] : 0);
    }
    cache_close(&c);
}
END_TEST

START_TEST(only_first_blocks_that_can_be_are_taken)
{
    open_cache(TERN_CACHE_F16);
    uint64_t first[N_LAYERS] = {2, 0, 1, 0, 2};
    ck_assert(cache_fits(&c, 800, first, c.n_layers)); /* 800 - 20 + 1 is in block 3, less 64 in block 2 */
    static const uint64_t others[][2] = {{0, 1}, {0, 4}, {1, 1}, {2, 0}, {2, 2},
                                         {3, 1}, {4, 1}, {4, 3}, {5, 1}, {6, 1}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        uint64_t one[N_LAYERS];
        memcpy(one, first, sizeof one);
        one[others[i][0]] = others[i][1];
        ck_assert_msg(!cache_fits(&c, 800, one, c.n_layers), "%zu", i);
    }
    first[0] = 3;
    ck_assert(cache_fits(&c, 800, first, c.n_layers));
    first[1] = first[3] = first[6] = 1; /* a class without a window begins at 0 */
    ck_assert(!cache_fits(&c, 800, first, c.n_layers));
    const uint64_t later[N_LAYERS] = {1}, none[N_LAYERS] = {0};
    ck_assert(!cache_fits(&c, 15, later, c.n_layers) && !cache_fits(&c, 274, later, c.n_layers));
    ck_assert(cache_fits(&c, 275, later, c.n_layers) && cache_fits(&c, 300, later, c.n_layers));
    ck_assert(cache_fits(&c, 339, none, c.n_layers) && !cache_fits(&c, 340, none, c.n_layers));
    cache_close(&c);
}
END_TEST

/* ---- memory ---- */

START_TEST(memory_is_what_pages_and_tokens_take)
{
    for (int type = 0; type < 3; type++) {
        uint64_t pages = 0, page = 0;
        open_cache((enum tern_cache_type)type);
        for (size_t l = 0; l < N_LAYERS; l++) {
            size_t dims = layers[l].head_dim * (type == TERN_CACHE_F32 ? 4 : 2);
            ck_assert_uint_eq(c.layers[l].kv_bytes, 256 * (type == TERN_CACHE_Q8 ? 34 : dims));
            page += 2 * layers[l].n_kv_heads * c.layers[l].kv_bytes;
        }
        for (int i = 0; i < c.n_classes; i++) {
            const struct cache_class *class = &c.classes[i];
            ck_assert_uint_eq(class->n_pages, N_SEQS * class->max_pages);
            ck_assert_ptr_eq(class->pages, (unsigned char *)c.range + pages);
            pages += class->n_pages * class->page_bytes;
            page -= class->page_bytes;
        }
        ck_assert_uint_eq(page, 0);
        ck_assert_ptr_eq(c.tokens, (unsigned char *)c.range + pages);
        ck_assert_uint_eq(c.range_bytes, pages + sizeof text);
        ck_assert(!cache_bytes(&model, &(struct cache_request){c.type, N_CTX, N_BATCH, N_SEQS, 0}, &memory, &e));
        ck_assert_uint_eq(memory.bytes, c.range_bytes);
        cache_close(&c);
        ck_assert_uint_eq(released, memory.bytes);
        ck_assert(!c.type && !c.n_layers);
    }
}
END_TEST

START_TEST(large_caches_ask_for_large_pages)
{
    struct layer one = {.n_kv_heads = 8, .head_dim = 64}; /* 512 KiB a page */
    struct model m = {.n_layers = 1, .layers = &one};
    for (size_t pages = 31; pages <= 32; pages++) {
        huge = 0;
        ck_assert(!cache_open(&c, &m, &(struct cache_request){TERN_CACHE_F16, pages * BLOCK, 1, 1, 0}, &e));
        ck_assert_uint_eq(huge, pages < 32 ? 0 : c.range_bytes);
        cache_close(&c);
    }
}
END_TEST

/* 2^20 sequences of 2^31 positions are 2^43 pages. */
/* Whether the machine's pages of a page of the cache have memory: none 0, some 1, all 2 */
static int has_memory(int32_t page)
{
    static unsigned char there[64 << 10];
    size_t bytes = c.classes[0].page_bytes, machine = (size_t)sysconf(_SC_PAGESIZE), n = 0;
    unsigned char *at = c.classes[0].pages + (size_t)page * bytes;
    ck_assert_uint_eq((uintptr_t)at % machine + bytes % machine, 0);
    ck_assert_int_eq(mincore(at, bytes, there), 0);
    for (size_t i = 0; i < bytes / machine; i++)
        n += there[i] & 1;
    return n == bytes / machine ? 2 : n > 0;
}

/* One row at a time: the memory of the next page comes in the second half of a block, bit by bit. */
START_TEST(memory_of_a_page_comes_ahead)
{
    static struct layer wide = {.n_kv_heads = 8, .head_dim = 64};
    const struct model one = {.n_layers = 1, .layers = &wide};
    ck_assert(!cache_open(&c, &one, &(struct cache_request){TERN_CACHE_F16, 1024, 512, 2, 0}, &e));
    for (size_t i = 0; i < BLOCK; i++) {
        cache_extend(&c, 0, 1);
        ck_assert_int_eq(has_memory(1), i > BLOCK / 2);
        cache_commit(&c, 0, 1);
    }
    ck_assert_int_eq(has_memory(1), 2);
    ck_assert_int_eq(has_memory(2), 0);
    cache_extend(&c, 0, BLOCK + BLOCK / 2); /* a large step waits for its pages, and asks for none */
    cache_commit(&c, 0, BLOCK + BLOCK / 2);
    ck_assert_int_eq(has_memory(2), 0);
    cache_keep(&c, 0, 0); /* two pages of old are free: no new one will be taken */
    for (size_t i = 0; i < BLOCK; i++) {
        cache_extend(&c, 1, 1);
        cache_commit(&c, 1, 1);
    }
    ck_assert_int_eq(has_memory(3), 0);
    cache_close(&c);
}
END_TEST

START_TEST(sizes_that_overflow_do_not_fit)
{
    struct layer two[2] = {{.n_kv_heads = 1 << 7, .head_dim = 1 << 4},
                           {.n_kv_heads = 1 << 7, .head_dim = 1 << 4, .window = (1u << 31) - 1}};
    struct model m = {.n_layers = 1, .layers = two};
    const size_t n = (size_t)1 << 31, seqs = 1 << 20;
    ck_assert(!cache_bytes(&m, &(struct cache_request){TERN_CACHE_F16, n, 1, seqs, 0}, &memory, &e)); /* 2^21 a page */
    ck_assert(memory.bytes == UINT64_MAX);
    ck_assert(!cache_bytes(&m, &(struct cache_request){TERN_CACHE_F16, n, 1, seqs / 2, 0}, &memory, &e));
    ck_assert(memory.bytes < UINT64_MAX && memory.bytes > UINT64_MAX / 2);
    m.n_layers = 2; /* each of 2^63 */
    ck_assert(!cache_bytes(&m, &(struct cache_request){TERN_CACHE_F16, n, 1, seqs / 2, 0}, &memory, &e));
    ck_assert(memory.bytes == UINT64_MAX);
    ck_assert_int_eq(cache_open(&c, &m, &(struct cache_request){TERN_CACHE_F16, n, 1, seqs / 2, 0}, &e), TERN_NO_MEMORY);
    ck_assert_msg(strstr(e.text, "does not fit any memory") != NULL, "%s", e.text);
    m.n_layers = 1, two[0].n_kv_heads = 23, two[0].head_dim = 89;
    ck_assert(!cache_bytes(&m, &(struct cache_request){TERN_CACHE_F16, n, 1, seqs, 0}, &memory, &e)); /* with the tokens, 2^64 */
    ck_assert(memory.bytes == UINT64_MAX);
    two[0].n_kv_heads = 1 << 6, two[0].head_dim = 1 << 4;
    ck_assert_int_eq(cache_open(&c, &m, &(struct cache_request){TERN_CACHE_F16, n, 1, seqs / 2, 0}, &e), TERN_NO_MEMORY);
    ck_assert_msg(strstr(e.text, "not enough memory for a KV cache of 2147483648 positions (4"),
                  "%s", e.text);
}
END_TEST

START_TEST(every_allocation_fails_in_turn)
{
    enum tern_status s = TERN_NO_MEMORY;
    for (size_t n = 1; s; n++) {
        allocs_start(n, 0);
        s = cache_open(&c, &model, &(struct cache_request){TERN_CACHE_F16, N_CTX, N_BATCH, N_SEQS, 0}, &e);
        allocs_stop();
        ck_assert(!s || (s == TERN_NO_MEMORY && e.code == s));
        if (!s)
            cache_close(&c);
        ck_assert_uint_eq(allocs_live(), 0);
        ck_assert(!c.range && !c.classes);
        ck_assert(s || n > 13);
    }
    for (size_t n = 1; n <= 2; n++) {
        allocs_start(n, 0);
        s = cache_bytes(&model, &(struct cache_request){TERN_CACHE_F16, N_CTX, N_BATCH, N_SEQS, 0}, &memory, &e);
        allocs_stop();
        ck_assert(s == TERN_NO_MEMORY && !allocs_live());
    }
}
END_TEST

SUITE("cache", LOOP(any_steps_leave_every_text_whole, 0, 2), TEST(room_is_enough_and_no_more),
      TEST(what_is_on_trial_does_not_count), TEST(a_shared_page_is_not_written),
      TEST(what_is_gone_is_not_copied), TEST(a_full_sequence_owns_all_its_pages),
      TEST(large_caches_ask_for_large_pages), TEST(only_first_blocks_that_can_be_are_taken),
      TEST(memory_is_what_pages_and_tokens_take), TEST(memory_of_a_page_comes_ahead),
      TEST(sizes_that_overflow_do_not_fit),
      TEST(every_allocation_fails_in_turn))
