/* The files of sequences and prefixes on several machines: see split_store.h. */
#include "model/split_store.h"

#ifdef TERN_MPI

#include <stdlib.h>

#include "base/machines.h"

enum { MORE_FIRST = 2 }; /* numbers of the layer that guesses */

enum ask_kind {
    ASK_END,
    ASK_TAKE,
    ASK_PUT,
    ASK_TAKE_FLOATS,
    ASK_PUT_FLOATS,
    ASK_BEGIN,
    ASK_REFILL,
    ASK_SNAPSHOT,
    ASK_NODE,
    ASK_STATE,
};

struct ask {
    uint32_t kind;
    int32_t node; /* or a node's parent */
    uint64_t layer, page;
    uint64_t place; /* of floats: behind the first record */
    uint64_t seq, at, n, n_layers, n_first, tail, classes, rows_from;
    uint64_t is_end;
};

/* MPI belongs to the process, and so does this. */
static struct {
    unsigned char *travel; /* the parts of all machines, of which several may hold a head; n_first numbers */
    unsigned char *whole;  /* what one machine has */
} room;

static void ask(struct ask a)
{
    machines_broadcast(&a, sizeof a);
}

/* The model as machine r has it */
struct as_rank {
    struct model model;
    struct split split;
};

static const struct model *as_rank(struct as_rank *as, const struct model *m, size_t r)
{
    *as = (struct as_rank){*m, *split_of(m)};
    as->split.rank = r, as->model.split = &as->split;
    return &as->model;
}

/* ---- memory ---- */

static size_t block_bytes(const struct cache *c, const struct model *m, size_t l)
{
    return layer_kv(&m->layers[l]) * c->layers[l].kv_bytes;
}

void store_close(void)
{
    free(room.travel);
    free(room.whole);
    room.travel = room.whole = NULL;
}

enum tern_status store_open(const struct cache *c, const struct model *m, struct tern_error *e)
{
    size_t floats = max_size(m->state_floats, m->log_floats) * sizeof(float);
    size_t part = max_size(floats, (c->n_layers + MORE_FIRST) * sizeof(uint64_t));
    size_t whole = floats;
    for (size_t l = 0; l < c->n_layers; l++)
        part = max_size(part, block_bytes(c, m, l));
    for (int i = 0; i < c->n_classes; i++)
        whole = max_size(whole, cache_whole_bytes(&c->classes[i]));
    size_t bytes = part * split_of(m)->n;
    room.travel = malloc(bytes + 1);
    room.whole = malloc(whole + 1);
    if (room.travel && room.whole)
        return TERN_OK;
    store_close();
    return error_memory(e, "what all machines hold of a sequence", bytes + whole);
}

/* ---- blocks ---- */

/* Bytes from .. end - 1 of a whole block are machine r's. */
static struct portion part_of(const struct cache *c, const struct model *m, size_t l, size_t r)
{
    struct as_rank as;
    size_t head = 2 * c->layers[l].kv_bytes;
    struct portion own = own_kv(as_rank(&as, m, r), &m->layers[l]);
    return (struct portion){own.begin * head, own.end * head};
}

/* This machine's part of a layer in a page */
static unsigned char *own_part(const struct cache *c, size_t l, size_t page)
{
    const struct cache_class *class = &c->classes[c->layers[l].class];
    return class->pages + page * class->page_bytes + c->layers[l].offset;
}

/* All machines hold the rows of latent attention. */
static bool is_whole(const struct model *m, size_t l)
{
    return !split_of(m) || m->layers[l].latent.rank;
}

/* The parts travel one behind the other. */
static void collect(const struct cache *c, const struct model *m, const struct ask *a,
                    unsigned char *whole)
{
    const struct split *s = split_of(m);
    size_t at[MOST_MACHINES + 1] = {0};
    for (size_t r = 0; r < s->n; r++) {
        struct portion part = part_of(c, m, a->layer, r);
        at[r + 1] = at[r] + part.end - part.begin;
    }
    if (at[s->rank + 1] > at[s->rank])
        memcpy(room.travel + at[s->rank], own_part(c, a->layer, a->page),
               at[s->rank + 1] - at[s->rank]);
    machines_collect(room.travel, at);
    for (size_t r = 0; r < s->n && whole; r++)
        memcpy(whole + part_of(c, m, a->layer, r).begin, room.travel + at[r], at[r + 1] - at[r]);
}

static void put_own(struct cache *c, const struct model *m, const struct ask *a,
                    const unsigned char *whole)
{
    struct portion own = {0, block_bytes(c, m, a->layer)};
    if (!is_whole(m, a->layer))
        own = part_of(c, m, a->layer, split_of(m)->rank);
    if (own.begin < own.end)
        memcpy(own_part(c, a->layer, a->page), whole + own.begin, own.end - own.begin);
}

static void take_block(const struct cache *c, const struct model *m, size_t l, int32_t page,
                       unsigned char *whole)
{
    struct ask a = {.kind = ASK_TAKE, .layer = l, .page = (uint64_t)page};
    if (is_whole(m, l)) {
        memcpy(whole, own_part(c, l, a.page), block_bytes(c, m, l));
        return;
    }
    ask(a);
    collect(c, m, &a, whole);
}

static void put_block(struct cache *c, const struct model *m, size_t l, int32_t page,
                      const unsigned char *whole)
{
    struct ask a = {.kind = ASK_PUT, .layer = l, .page = (uint64_t)page};
    if (split_of(m)) {
        ask(a);
        machines_broadcast((void *)(uintptr_t)whole, block_bytes(c, m, l)); /* rank 0 only reads */
    }
    put_own(c, m, &a, whole);
}

void store_take(const struct cache *c, const struct model *m, size_t l, size_t seq, size_t block,
                void *whole, size_t bytes)
{
    (void)bytes;
    take_block(c, m, l, cache_page(c, c->layers[l].class, seq, block), whole);
}

void store_put(struct cache *c, const struct model *m, size_t l, size_t seq, size_t block,
               const void *whole, size_t bytes)
{
    (void)bytes;
    put_block(c, m, l, cache_page(c, c->layers[l].class, seq, block), whole);
}

/* ---- pages ---- */

/* The layer has a place of its own in the pages of the class. */
static bool is_in(const struct cache *c, const struct model *m, size_t l, int class)
{
    return c->layers[l].class == class && !m->layers[l].kv_from;
}

const unsigned char *store_page(const struct cache *c, const struct model *m, int class,
                                int32_t page)
{
    if (!split_of(m))
        return store_page_room(c, m, class, page);
    for (size_t l = 0; l < c->n_layers; l++)
        if (is_in(c, m, l, class))
            take_block(c, m, l, page, room.whole + cache_whole_offset(&c->layers[l]));
    return room.whole;
}

unsigned char *store_page_room(const struct cache *c, const struct model *m, int class,
                               int32_t page)
{
    const struct cache_class *k = &c->classes[class];
    return split_of(m) ? room.whole : k->pages + (size_t)page * k->page_bytes;
}

void store_put_page(struct cache *c, const struct model *m, int class, int32_t page)
{
    for (size_t l = 0; l < c->n_layers && split_of(m); l++)
        if (is_in(c, m, l, class))
            put_block(c, m, l, page, room.whole + cache_whole_offset(&c->layers[l]));
}

/* ---- records, and rows of the log ---- */

/* What a machine holds of one, from -> to: each float to its place, or one range behind the other */
struct part_copy {
    const float *from;
    float *to; /* or NULL: they are counted */
    bool packs, unpacks;
    size_t n;
};

static void range(struct part_copy *g, size_t begin, size_t n)
{
    if (g->to)
        memcpy(g->to + (g->packs ? g->n : begin), g->from + (g->unpacks ? g->n : begin),
               n * sizeof *g->to);
    g->n += n;
}

static void range_of(struct part_copy *g, size_t begin, struct portion heads, size_t width)
{
    range(g, begin + heads.begin * width, (heads.end - heads.begin) * width);
}

/* Of a row of what the convolution reads */
static void input_ranges(struct part_copy *g, const struct model *m, const struct mixer *x,
                         size_t at)
{
    size_t keys = x->k_heads * x->k_dim;
    if (!x->v_heads) {
        range_of(g, at, own_columns(m, cut_states(x)), 1);
        return;
    }
    range_of(g, at, own_keys(m, x), x->k_dim);
    range_of(g, at + keys, own_keys(m, x), x->k_dim);
    range_of(g, at + 2 * keys, own_states(m, x), x->v_dim);
}

static void record_ranges(struct part_copy *g, const struct model *m, const struct mixer *x)
{
    for (size_t j = 0; j + 1 < x->width; j++)
        input_ranges(g, m, x, x->at + j * x->channels);
    if (x->v_heads)
        range_of(g, x->at + mixer_inputs(x), own_states(m, x), x->k_dim * x->v_dim);
}

static void log_ranges(struct part_copy *g, const struct model *m, const struct mixer *x)
{
    size_t at = x->log_at + x->channels;
    input_ranges(g, m, x, x->log_at);
    if (!x->v_heads)
        return;
    range_of(g, at, own_states(m, x), x->n_decay);
    if (x->beta.rows)
        range_of(g, at + x->decay.rows, own_states(m, x), 1);
}

/* Returns how many they are. */
static size_t copy_part(struct part_copy g, const struct model *m, size_t r, bool is_log)
{
    struct as_rank as;
    m = as_rank(&as, m, r);
    for (size_t l = 0; l < m->n_layers; l++)
        if (m->layers[l].mix.width)
            (is_log ? log_ranges : record_ranges)(&g, m, &m->layers[l].mix);
    return g.n;
}

/* Rows of the log lie behind all records. */
static bool is_log(const struct recurrent *r, const struct ask *a)
{
    return r->states + a->place >= r->log;
}

static void collect_floats(const struct cache *c, const struct model *m, const struct ask *a,
                           float *whole)
{
    const struct split *s = split_of(m);
    const struct recurrent *r = &c->recurrent;
    float *travel = (void *)room.travel;
    size_t at[MOST_MACHINES + 1] = {0};
    bool log = is_log(r, a);
    for (size_t i = 0; i < s->n; i++)
        at[i + 1] = at[i] + copy_part((struct part_copy){.to = NULL}, m, i, log) * sizeof(float);
    copy_part((struct part_copy){.from = r->states + a->place,
                                 .to = travel + at[s->rank] / sizeof(float),
                                 .packs = true},
              m, s->rank, log);
    machines_collect(travel, at);
    for (size_t i = 0; i < s->n && whole; i++)
        copy_part((struct part_copy){.from = travel + at[i] / sizeof(float),
                                     .to = whole,
                                     .unpacks = true},
                  m, i, log);
}

static size_t floats_bytes(const struct recurrent *r, const struct ask *a)
{
    return (is_log(r, a) ? r->log_floats : r->state_floats) * sizeof(float);
}

/* From `whole`, which all get */
static void put_floats(struct cache *c, const struct model *m, const struct ask *a)
{
    struct recurrent *r = &c->recurrent;
    machines_broadcast(room.whole, floats_bytes(r, a));
    copy_part((struct part_copy){.from = (void *)room.whole, .to = r->states + a->place}, m,
              split_of(m)->rank, is_log(r, a));
}

const float *store_floats(const struct cache *c, const struct model *m, const float *from)
{
    struct ask a = {.kind = ASK_TAKE_FLOATS, .place = (uint64_t)(from - c->recurrent.states)};
    if (!split_of(m))
        return from;
    memset(room.whole, 0, floats_bytes(&c->recurrent, &a)); /* what fills up layers */
    ask(a);
    collect_floats(c, m, &a, (void *)room.whole);
    return (void *)room.whole;
}

float *store_floats_room(const struct model *m, float *to)
{
    return split_of(m) ? (void *)room.whole : to;
}

void store_put_floats(struct cache *c, const struct model *m, float *to)
{
    struct ask a = {.kind = ASK_PUT_FLOATS, .place = (uint64_t)(to - c->recurrent.states)};
    if (!split_of(m))
        return;
    ask(a);
    put_floats(c, m, &a);
}

/* ---- what rank 0 tells ---- */

void store_begin(const struct model *m, size_t seq, const uint32_t *tokens, size_t n,
                 const uint64_t *first, size_t n_layers, size_t n_first)
{
    if (!split_of(m))
        return;
    ask((struct ask){
        .kind = ASK_BEGIN, .seq = seq, .n = n, .n_layers = n_layers, .n_first = n_first});
    machines_broadcast((void *)(uintptr_t)tokens, n * sizeof *tokens);
    machines_broadcast((void *)(uintptr_t)first, n_first * sizeof *first);
}

void store_refill(const struct model *m, size_t seq, size_t at, size_t n, size_t tail)
{
    if (split_of(m))
        ask((struct ask){.kind = ASK_REFILL, .seq = seq, .at = at, .n = n, .tail = tail});
}

void store_add_snapshot(const struct model *m, size_t seq, size_t at)
{
    if (split_of(m))
        ask((struct ask){.kind = ASK_SNAPSHOT, .seq = seq, .at = at});
}

void store_add_node(const struct model *m, int32_t parent, const tern_token *tokens, size_t n,
                    uint64_t classes, size_t rows_from)
{
    if (!split_of(m))
        return;
    ask((struct ask){
        .kind = ASK_NODE, .node = parent, .n = n, .classes = classes, .rows_from = rows_from});
    machines_broadcast((void *)(uintptr_t)tokens, n * sizeof *tokens);
}

void store_add_state(const struct model *m, int32_t node, size_t after, bool is_end)
{
    if (split_of(m))
        ask((struct ask){.kind = ASK_STATE, .node = node, .at = after, .is_end = is_end});
}

void store_end(const struct model *m)
{
    if (split_of(m))
        ask((struct ask){.kind = ASK_END});
    store_close();
}

/* ---- the others ---- */

static void follow_begin(struct cache *c, const struct model *m, const struct ask *a)
{
    uint64_t *first = (void *)room.travel;
    machines_broadcast(c->tokens + a->seq * c->n_ctx, a->n * sizeof *c->tokens);
    machines_broadcast(first, a->n_first * sizeof *first);
    cache_refill(c, a->seq, a->n, first, a->n_layers);
    hidden_refill(&c->hidden, a->seq, a->n, a->n_layers > m->n_layers ? first[a->n_layers] : 0);
    c->far[a->seq] = m->rope_limit && a->n > m->rope_limit;
}

static void follow_put(struct cache *c, const struct model *m, const struct ask *a)
{
    machines_broadcast(room.whole, block_bytes(c, m, a->layer));
    put_own(c, m, a, room.whole);
}

static void follow_node(struct prefix_store *p, const struct ask *a)
{
    tern_token tokens[BLOCK];
    machines_broadcast(tokens, a->n * sizeof *tokens);
    int32_t node = prefix_add(p, a->node, tokens, a->n, a->classes);
    if (node >= 0)
        p->nodes[node].rows_from = (uint32_t)a->rows_from;
}

/* False at the end */
static bool follow(struct cache *c, struct prefix_store *p, const struct model *m,
                   const struct ask *a)
{
    switch ((enum ask_kind)a->kind) {
    case ASK_END:
        return false;
    case ASK_TAKE:
        collect(c, m, a, NULL);
        break;
    case ASK_PUT:
        follow_put(c, m, a);
        break;
    case ASK_TAKE_FLOATS:
        collect_floats(c, m, a, NULL);
        break;
    case ASK_PUT_FLOATS:
        put_floats(c, m, a);
        break;
    case ASK_BEGIN:
        follow_begin(c, m, a);
        break;
    case ASK_REFILL:
        (void)recurrent_refill(&c->recurrent, a->seq, a->at, a->n, a->tail);
        break;
    case ASK_SNAPSHOT:
        (void)recurrent_add_snapshot(&c->recurrent, a->seq, a->at);
        break;
    case ASK_NODE:
        follow_node(p, a);
        break;
    case ASK_STATE:
        (void)prefix_add_state(p, a->node, a->at, a->is_end != 0);
        break;
    }
    return true;
}

void store_follow(struct cache *c, struct prefix_store *p, const struct model *m)
{
    struct ask a;
    do
        machines_broadcast(&a, sizeof a);
    while (follow(c, p, m, &a));
    store_close();
}

#endif
