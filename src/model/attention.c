/* cflags: -O2 */
/* Attention: see attention.h. A strip is some neighbouring rows of a sequence; an item is a strip
 * and a KV head with the query heads that share it. The blocks that a strip sees follow one
 * another, each is read once for all queries of the item, and each row merges its blocks in order
 * (src/kernels/README.md). Where there are too few items for the threads, the blocks are shared out
 * instead: then results of blocks are kept, and merged in a second run. Both ways give the same
 * bits. */
#include "model/attention.h"

#include <float.h>
#include <string.h>

#include "base/sizes.h"
#include "model/split.h"
#include "model/state.h"

enum {
    STRIP_FLOATS = 192 * 64, /* of the queries of a strip: with K and V of a block they fill half of
                               a cache of 512 KiB */
    AT_ONCE = 64,            /* queries of a strip whose scores exist at a time, */
    FEW = 16,                /* and that need not be shared out */
    LATENT_QUERIES =
        256,        /* of a strip of latent attention, at least: its values are made for a strip */
    PACK_FROM = 24, /* queries that make it pay to pack K and V first, */
    PACKED_AT_ONCE = 24, /* and whose scores then exist at a time: they stay in L1 */
    SPLIT_FROM = 3,      /* blocks that make it pay to share them out */
    SPLIT_ROWS = 4,      /* rows at full depth whose blocks can be shared out */
    NARROW = 16,         /* dims of a head for which it pays to take */
    HEADS = 4            /* KV heads together */
};

/* ---- memory ---- */

/* Rows of a strip, at most */
static size_t strip_rows(const struct layer *w, size_t n_batch)
{
    size_t queries = STRIP_FLOATS / max_size(w->head_dim, 16);
    if (w->latent.rank)
        queries = max_size(queries, LATENT_QUERIES);
    size_t rows = queries / (w->n_heads / w->n_kv_heads);
    return rows < 1 ? 1 : min_size(rows, n_batch);
}

void attention_take(struct attention *t, struct arena *a, const struct model *m, size_t n_ctx,
                    size_t n_batch)
{
    size_t heads = 1;
    t->max_queries = t->max_dim = 1;
    for (size_t l = 0; l < m->n_layers + m->n_mtp; l++) {
        const struct layer *w = &m->layers[l];
        if (!w->n_heads)
            continue;
        size_t queries = w->n_heads / w->n_kv_heads * max_size(HEADS, strip_rows(w, n_batch));
        t->max_queries = max_size(t->max_queries, queries);
        t->max_dim = max_size(t->max_dim, w->head_dim);
        heads = max_size(heads, w->n_heads);
    }
    t->groups = ceil_div(t->max_dim, GROUP);
    t->stride = t->groups * GROUP;
    t->capacity = heads * ceil_div(n_ctx, BLOCK) * min_size(n_batch, SPLIT_ROWS);
    t->strips = arena_take(a, n_batch, sizeof *t->strips);
    t->m = arena_take(a, t->capacity, sizeof *t->m);
    t->l = arena_take(a, t->capacity, sizeof *t->l);
    t->a = arena_take(a, t->capacity * t->stride, sizeof *t->a);
}

void attention_take_scratch(const struct attention *t, struct arena *a, struct attention_scratch *s)
{
    size_t n = t->max_queries;
    s->x = arena_take(a, n * t->stride, sizeof *s->x);
    s->q = arena_take(a, n * t->stride, sizeof *s->q);
    s->q_scale = arena_take(a, n * t->groups, sizeof *s->q_scale);
    s->q_sum = arena_take(a, n * t->groups, sizeof *s->q_sum);
    s->wide = arena_take(a, 2 * BLOCK * t->stride, sizeof *s->wide);
    s->see = arena_take(a, n, sizeof *s->see);
    s->alibi = arena_take(a, n, sizeof *s->alibi);
    s->scores = arena_take(a, AT_ONCE * BLOCK, sizeof *s->scores);
    s->m = arena_take(a, n, sizeof *s->m);
    s->l = arena_take(a, n, sizeof *s->l);
    s->a = arena_take(a, n * t->stride, sizeof *s->a);
    s->M = arena_take(a, n, sizeof *s->M);
    s->L = arena_take(a, n, sizeof *s->L);
    s->A = arena_take(a, n * t->stride, sizeof *s->A);
    s->q8 = arena_take(a, t->stride, sizeof *s->q8);
    s->scale = arena_take(a, t->groups, sizeof *s->scale);
    s->sum = arena_take(a, t->groups, sizeof *s->sum);
    s->half = arena_take(a, t->max_dim, sizeof *s->half);
}

/* ---- one block ---- */

struct attend_job {
    struct forward *f;
    const struct layer *w;
    size_t l, queries; /* layer; query heads of an item, */
    size_t heads;      /* which share this many KV heads: one, or HEADS for a single row */
#ifdef TERN_MPI
    size_t first_q, first_kv, n_kv; /* heads of the part that is in work */
#endif
};

/* The part of the heads that is in work: all, but for a model on several machines */
static size_t first_q(const struct attend_job *job)
{
#ifdef TERN_MPI
    return job->first_q;
#else
    (void)job;
    return 0;
#endif
}

static size_t first_kv(const struct attend_job *job)
{
#ifdef TERN_MPI
    return job->first_kv;
#else
    (void)job;
    return 0;
#endif
}

static size_t n_kv(const struct attend_job *job)
{
#ifdef TERN_MPI
    return job->n_kv;
#else
    return job->w->n_kv_heads;
#endif
}

static size_t heads_of(const struct attend_job *job)
{
    return n_kv(job) / job->heads * job->queries;
}

/* Positions begin .. end - 1 that a row sees */
struct range {
    size_t begin, end;
};

static struct range row_sees(const struct attend_job *job, size_t row)
{
    const struct row *r = &job->f->rows[row];
    return (struct range){cache_begin(job->f->cache, job->w, r->seq, r->position),
                          (size_t)r->position + 1};
}

/* The queries of an item, in the form that score reads. One that is not finite is marked: rounding
 * to q8 and the cap of scores would hide it. */
static void take_queries(const struct attend_job *job, const struct strip *t, size_t head,
                         struct attention_scratch *s)
{
    const struct forward *f = job->f;
    const struct attention *a = &f->attention;
    size_t d = job->w->head_dim;
    for (size_t i = 0; i < t->rows * job->queries; i++) {
        const float *q = f->q + (t->row + i / job->queries) * f->q_stride +
                         (first_q(job) + head * job->queries + i % job->queries) * d;
        bool finite = true;
        if (f->cache->type == TERN_CACHE_Q8) {
            finite = f->kernels->quantize(s->q + i * a->stride, s->q_scale + i * a->groups,
                                          s->q_sum + i * a->groups, q, d);
        } else {
            memcpy(s->x + i * a->stride, q, d * sizeof *q);
            finite = f->kernels->in_range(q, d, FLT_MAX);
        }
        if (!finite)
            mark_bad(job->f, job->l, BAD_QUERY);
        if (job->w->alibi)
            s->alibi[i] =
                (struct alibi){job->w->alibi[first_q(job) + head * job->queries + i % job->queries],
                               (float)f->rows[t->row + i / job->queries].position};
    }
}

/* K and V of a block as the steps of attention are to read them */
struct kv_block {
    const void *k, *v;
    enum tern_cache_type type; /* of K */
    attend_fn score, mix;
};

/* For many queries, what is read often is packed once: as exact, and so the same bits. The values of
 * latent attention are always made of K. */
static void pack_block(struct kv_block *kv, const struct kernels *k, const struct layer *w,
                       bool many, size_t n, float *wide)
{
    size_t d = w->head_dim;
    float *v = wide + BLOCK * round_up(d, LANES);
    if (w->latent.rank) {
        k->turn(v, kv->k, kv->type, d, w->latent.rank, n);
        kv->v = v;
        kv->mix = k->mix_turned;
    } else if (many) {
        k->pack_v[kv->type](v, kv->v, d, n);
        kv->v = v;
        kv->mix = k->mix_packed;
    }
    if (many && k->pack_k[kv->type]) {
        k->pack_k[kv->type](wide, kv->k, d, n);
        kv->k = wide;
        kv->score = k->score_packed;
    }
}

/* Sets see [queries] of the rows that see a position of the block; they are neighbours: rows
 * result.begin .. result.end - 1 of the strip. */
static struct range block_rows(const struct attend_job *job, const struct strip *t, size_t block,
                               struct span *see)
{
    struct range rows = {t->rows, t->rows};
    for (size_t i = 0; i < t->rows; i++) {
        struct range sees = row_sees(job, t->row + i);
        size_t lo = max_size(sees.begin, block * BLOCK);
        size_t hi = min_size(sees.end, (block + 1) * BLOCK);
        if (lo >= hi)
            continue;
        rows.begin = min_size(rows.begin, i);
        rows.end = i + 1;
        for (size_t g = 0; g < job->queries; g++)
            see[i * job->queries + g] =
                (struct span){(uint16_t)(lo - block * BLOCK), (uint16_t)(hi - block * BLOCK)};
    }
    return rows;
}

static const void *next_key(const struct attend_job *job, const struct strip *t, size_t head,
                            size_t block)
{
    if (block + 1 == t->block + t->n_blocks)
        return NULL;
    return cache_k(job->f->cache, job->l, job->f->rows[t->row].seq, (block + 1) * BLOCK,
                   first_kv(job) + head);
}

/* m, l, a [queries] of one block and several KV heads, for a single row and an f16 cache: the work of
 * one narrow head is a chain that waits for itself, so the chains of all go side by side. */
static void attend_heads(const struct attend_job *job, const struct strip *t, size_t head,
                         size_t block, struct attention_scratch *s, float *m, float *l, float *a)
{
    const struct forward *f = job->f;
    size_t d = job->w->head_dim, stride = f->attention.stride, n = job->queries / job->heads;
    size_t seq = f->rows[t->row].seq;
    struct attend b[HEADS], all;
    for (size_t h = 0, i = 0; h < job->heads; h++, i += n) {
        size_t kv_head = first_kv(job) + head * job->heads + h;
        b[h] = (struct attend){.q = {.n = n, .k = d, .stride = stride, .x = s->x + i * stride},
                               .v_dim = d,
                               .a_stride = stride,
                               .scale = job->w->attn_scale,
                               .softcap = job->w->attn_cap};
        b[h].k = cache_k(f->cache, job->l, seq, block * BLOCK, kv_head);
        b[h].v = cache_v(f->cache, job->l, seq, block * BLOCK, kv_head);
        b[h].see = s->see + i, b[h].scores = s->scores + i * BLOCK;
        b[h].m = m + i, b[h].l = l + i, b[h].a = a + i * stride;
        f->kernels->score[TERN_CACHE_F16](&b[h]);
    }
    all = b[0];
    all.q.n = job->queries;
    all.alibi = job->w->alibi ? s->alibi : NULL, all.first = block * BLOCK;
    f->kernels->weigh(&all);
    f->kernels->mix_heads(b, job->heads);
}

/* Queries from number i on, of n, prefetch their share of the next K and V; score half of it, if it can. */
static void look_ahead(struct attend *b, const char *next, size_t bytes, size_t i, size_t n,
                       bool score)
{
    const char *at = next + bytes * i / n;
    size_t share = bytes * b->q.n / n, half = score ? share / 2 : 0;
    b->score_ahead = (struct ahead){at, half};
    b->mix_ahead = (struct ahead){at + half, share - half};
}

/* m, l, a [queries of the strip] of one block and KV head; the rows that see it */
static struct range attend_kv_block(const struct attend_job *job, const struct strip *t,
                                    size_t head, size_t block, struct attention_scratch *s,
                                    float *m, float *l, float *a)
{
    const struct forward *f = job->f;
    const struct kernels *k = f->kernels;
    size_t d = job->w->head_dim, seq = f->rows[t->row].seq, stride = f->attention.stride;
    size_t groups = f->attention.groups;
    enum tern_cache_type type = f->cache->type;
    struct range rows = block_rows(job, t, block, s->see);
    size_t begin = rows.begin * job->queries, end = rows.end * job->queries;
    if (job->heads > 1) {
        attend_heads(job, t, head, block, s, m, l, a);
        return rows;
    }
    struct kv_block kv = {cache_k(f->cache, job->l, seq, block * BLOCK, first_kv(job) + head),
                          cache_v(f->cache, job->l, seq, block * BLOCK, first_kv(job) + head), type,
                          k->score[type], k->mix[type]};
    size_t seen = end > begin ? round_up(s->see[end - 1].hi, LANES) : 0;
    bool packed = k->mix_packed && end - begin >= PACK_FROM;
    pack_block(&kv, k, job->w, packed, seen, s->wide);
    size_t at_once = packed ? PACKED_AT_ONCE : AT_ONCE;
    struct attend b = {.k = kv.k, .v = kv.v, .v_dim = layer_v_dim(job->w), .a_stride = stride};
    b.scale = job->w->attn_scale, b.softcap = job->w->attn_cap, b.scores = s->scores;
    b.first = block * BLOCK;
    const char *next = next_key(job, t, head, block);
    size_t bytes = attend_bytes(type, d) * (job->w->latent.rank ? 1 : 2);
    bool apart = kv.mix != k->mix[type]; /* which prefetches what it is told */
    b.next = apart ? NULL : next;
    for (size_t i = begin; i < end; i += at_once) {
        b.q = (struct queries){min_size(at_once, end - i),
                               d,
                               stride,
                               groups,
                               s->x + i * stride,
                               s->q + i * stride,
                               s->q_scale + i * groups,
                               s->q_sum + i * groups};
        b.see = s->see + i, b.m = m + i, b.l = l + i, b.a = a + i * stride;
        b.alibi = job->w->alibi ? s->alibi + i : NULL;
        if (apart && next)
            look_ahead(&b, next, bytes, i - begin, end - begin, kv.score == k->score_packed);
        kv.score(&b);
        k->weigh(&b);
        kv.mix(&b);
    }
    return rows;
}

/* Merges (m, l, a [d]) of a block of a row and query head into (M, L, A). A sink comes before the
 * first: a score without a value. */
static void merge(const struct attend_job *job, bool first, size_t head, float *M, float *L,
                  float *A, float m, float l, const float *a)
{
    if (first && job->w->sinks) {
        *M = job->w->sinks[first_q(job) + head], *L = 1;
        memset(A, 0, layer_v_dim(job->w) * sizeof *A);
        first = false;
    }
    if (first) {
        *M = m, *L = l;
        memcpy(A, a, layer_v_dim(job->w) * sizeof *A);
    } else {
        job->f->kernels->merge(M, L, A, m, l, a, layer_v_dim(job->w));
    }
}

static void finish(const struct attend_job *job, size_t row, size_t head, const float *A, float L)
{
    struct forward *f = job->f;
    f->kernels->divide(f->att + row * f->q_stride + (first_q(job) + head) * layer_v_dim(job->w), A,
                       L, layer_v_dim(job->w));
}

/* ---- items: a strip and a KV head, block after block ---- */

static void attend_item(const struct attend_job *job, const struct strip *t, size_t head,
                        struct attention_scratch *s)
{
    size_t queries = job->queries, stride = job->f->attention.stride;
    take_queries(job, t, head, s);
    for (size_t block = t->block; block < t->block + t->n_blocks; block++) {
        struct range rows = attend_kv_block(job, t, head, block, s, s->m, s->l, s->a);
        for (size_t i = rows.begin * queries; i < rows.end * queries; i++)
            merge(job, block == row_sees(job, t->row + i / queries).begin / BLOCK,
                  head * queries + i % queries, &s->M[i], &s->L[i], s->A + i * stride, s->m[i],
                  s->l[i], s->a + i * stride);
    }
    for (size_t i = 0; i < t->rows * queries; i++)
        finish(job, t->row + i / queries, head * queries + i % queries, s->A + i * stride, s->L[i]);
}

/* What a profile says of an item */
static void note(const struct attend_job *job, int thread, const struct strip *t, size_t kv_head,
                 size_t block, size_t n_blocks)
{
    profile_note(job->f->profile, thread,
                 (struct profile_note){(uint32_t)(first_kv(job) + kv_head), (uint32_t)job->heads,
                                       (uint32_t)t->row, (uint32_t)t->rows, (uint32_t)block,
                                       (uint32_t)n_blocks});
}

static void attend_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct attend_job *job = arg;
    const struct forward *f = job->f;
    size_t heads = n_kv(job) / job->heads;
    for (size_t i = begin; i < end; i++) {
        const struct strip *t = &f->attention.strips[i / heads];
        attend_item(job, t, i % heads, &f->scratch[thread].attention);
        note(job, thread, t, i % heads * job->heads, t->block, t->n_blocks);
    }
}

/* ---- parts: a block of an item, kept; then merged ---- */

/* Place of the results of a strip's KV head and block */
static size_t partial_of(const struct attend_job *job, const struct strip *t, size_t head,
                         size_t block)
{
    return t->partial + (head * t->n_blocks + block - t->block) * t->rows * job->queries;
}

static void attend_parts(void *arg, size_t begin, size_t end, int thread)
{
    const struct attend_job *job = arg;
    struct forward *f = job->f;
    struct attention_scratch *s = &f->scratch[thread].attention;
    const struct strip *t = f->attention.strips;
    size_t at_head = SIZE_MAX;
    for (size_t u = begin; u < end; u++) {
        while (u >= t->part + t->n_blocks * n_kv(job))
            t++, at_head = SIZE_MAX;
        size_t head = (u - t->part) / t->n_blocks, block = t->block + (u - t->part) % t->n_blocks;
        size_t at = partial_of(job, t, head, block);
        if (head != at_head)
            take_queries(job, t, head, s);
        at_head = head;
        attend_kv_block(job, t, head, block, s, f->attention.m + at, f->attention.l + at,
                        f->attention.a + at * f->attention.stride);
        note(job, thread, t, head, block, 1);
    }
}

/* One row and query head of a strip; M, L, A: scratch */
static void merge_parts(const struct attend_job *job, const struct strip *t, size_t row,
                        size_t head, struct attention_scratch *s)
{
    const struct attention *p = &job->f->attention;
    struct range sees = row_sees(job, t->row + row);
    size_t first = sees.begin / BLOCK, g = row * job->queries + head % job->queries;
    for (size_t block = first; block * BLOCK < sees.end; block++) {
        size_t at = partial_of(job, t, head / job->queries, block) + g;
        merge(job, block == first, head, s->M, s->L, s->A, p->m[at], p->l[at],
              p->a + at * p->stride);
    }
    finish(job, t->row + row, head, s->A, s->L[0]);
}

static void merge_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct attend_job *job = arg;
    struct forward *f = job->f;
    size_t heads = heads_of(job);
    for (size_t i = begin; i < end; i++) {
        const struct strip *t = &f->attention.strips[i / heads];
        for (size_t row = 0; row < t->rows; row++)
            merge_parts(job, t, row, i % heads, &f->scratch[thread].attention);
    }
}

/* ---- the step ---- */

/* Cuts the batch into strips of at most `max` rows. */
static void cut_strips(const struct attend_job *job, size_t max)
{
    struct forward *f = job->f;
    struct attention *a = &f->attention;
    size_t part = 0, partial = 0;
    a->n_strips = 0;
    for (size_t i = 0, end; i < f->n; i = end) {
        for (end = i + 1; end < f->n && end - i < max && f->rows[end].seq == f->rows[i].seq;)
            end++;
        size_t block = row_sees(job, i).begin / BLOCK;
        size_t n = ceil_div(row_sees(job, end - 1).end, BLOCK) - block;
        a->strips[a->n_strips++] = (struct strip){i, end - i, block, n, part, partial};
        part += n * n_kv(job);
        partial += n * heads_of(job) * (end - i);
    }
}

/* True when sharing out so many equal items leaves no more than a ninth of the threads' time unused. */
static bool is_even(size_t items, size_t threads)
{
    return ceil_div(items, threads) * threads * 8 <= items * 9;
}

/* True when whole items are not even, and the blocks are enough to share them out, and not too many to
 * keep. */
static bool must_split(const struct attend_job *job, size_t threads)
{
    const struct attention *a = &job->f->attention;
    const struct strip *last = &a->strips[a->n_strips - 1];
    size_t partial = last->partial + last->n_blocks * heads_of(job) * last->rows;
    return !is_even(a->n_strips * n_kv(job), threads) && last->n_blocks >= SPLIT_FROM &&
           partial <= a->capacity;
}

static size_t longest_run(const struct forward *f)
{
    size_t longest = 1;
    for (size_t i = 1, run = 1; i < f->n; i++) {
        run = f->rows[i].seq == f->rows[i - 1].seq ? run + 1 : 1;
        longest = max_size(longest, run);
    }
    return longest;
}

/* Rows of a strip: as many as there is memory for, because each strip reads all that it sees, but so few
 * that the strips of the longest run of a sequence are even work. */
static size_t choose_rows(const struct attend_job *job, size_t threads)
{
    size_t run = longest_run(job->f), n = ceil_div(run, strip_rows(job->w, job->f->n_batch));
    while (n < run && ceil_div(run, n) * job->queries > FEW && !is_even(n * n_kv(job), threads))
        n++;
    return ceil_div(run, n);
}

/* KV heads that an item takes together: narrow ones, when one thread has a single row */
static size_t heads_together(const struct forward *f, const struct attend_job *job)
{
    bool alone = f->n == 1 && pool_threads(f->pool) == 1 && f->cache->type == TERN_CACHE_F16;
    size_t n = job->w->head_dim <= NARROW && job->queries * HEADS <= FEW ? HEADS : 1;
    while (n_kv(job) % n)
        n--;
    return alone ? n : 1;
}

static void attend(struct forward *f, struct attend_job *job)
{
    size_t threads = (size_t)pool_threads(f->pool);
    job->heads = heads_together(f, job), job->queries *= job->heads;
    cut_strips(job, choose_rows(job, threads));
    if (must_split(job, threads)) {
        const struct strip *last = &f->attention.strips[f->attention.n_strips - 1];
        profile_run(f->profile, OP_ATTEND, f->pool, last->part + last->n_blocks * n_kv(job),
                    attend_parts, job);
        profile_run(f->profile, OP_ATTEND, f->pool, f->attention.n_strips * heads_of(job),
                    merge_items, job);
    } else {
        profile_run(f->profile, OP_ATTEND, f->pool, f->attention.n_strips * n_kv(job) / job->heads,
                    attend_items, job);
    }
}

#ifdef TERN_MPI

/* This machine's heads: some of the first KV head's, then whole ones, then some of the last's */
static void attend_own(struct forward *f, const struct layer *w)
{
    struct portion own = own_heads(f->model, w);
    size_t queries = w->n_heads / w->n_kv_heads, n;
    for (size_t h = own.begin; h < own.end; h += n) {
        struct attend_job job = {
            .f = f, .w = w, .l = w->index, .first_q = h, .first_kv = h / queries};
        size_t whole = h % queries ? 0 : (own.end - h) / queries;
        job.n_kv = max_size(whole, 1);
        job.queries = whole ? queries : min_size(own.end, (job.first_kv + 1) * queries) - h;
        n = job.n_kv * job.queries;
        attend(f, &job);
    }
}

#else

static void attend_own(struct forward *f, const struct layer *w)
{
    attend(f, &(struct attend_job){
                  .f = f, .w = w, .l = w->index, .queries = w->n_heads / w->n_kv_heads});
}

#endif

void step_attend(struct forward *f, const struct layer *w)
{
    state_watch(f, w->index, WATCH_ATTEND);
    attend_own(f, w);
}
