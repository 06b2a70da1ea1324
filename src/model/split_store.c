/* The files of sequences on several machines: see split_store.h. */
#include "model/split_store.h"

#ifdef TERN_MPI

#include <stdlib.h>

#include "base/machines.h"

enum ask_kind { ASK_END, ASK_TAKE, ASK_PUT, ASK_BEGIN };

struct ask {
    uint32_t kind;
    uint64_t layer, seq, block, n, n_layers, n_first;
};

static void ask(struct ask a)
{
    machines_broadcast(&a, sizeof a);
}

/* Bytes from .. end - 1 of a whole block are machine r's. */
static struct portion part_of(const struct cache *c, const struct model *m, size_t l, size_t r)
{
    struct split split = *split_of(m);
    struct model as = *m;
    size_t head = 2 * c->layers[l].kv_bytes;
    split.rank = r, as.split = &split;
    struct portion own = own_kv(&as, &m->layers[l]);
    return (struct portion){own.begin * head, own.end * head};
}

/* This machine's part of a block in its cache */
static unsigned char *own_part(const struct cache *c, size_t l, size_t seq, size_t block)
{
    return cache_k(c, l, seq, block * BLOCK, c->layers[l].first_head);
}

static size_t whole_bytes(const struct cache *c, const struct model *m, size_t l)
{
    return layer_kv(&m->layers[l]) * c->layers[l].kv_bytes;
}

/* All machines hold the rows of latent attention. */
static bool is_whole(const struct model *m, size_t l)
{
    return !split_of(m) || m->layers[l].latent.rank;
}

/* The parts travel one behind the other. `travel`: room for all of them */
static void collect(const struct cache *c, const struct model *m, const struct ask *a,
                    unsigned char *travel, unsigned char *whole)
{
    const struct split *s = split_of(m);
    size_t at[MOST_MACHINES + 1] = {0};
    for (size_t r = 0; r < s->n; r++) {
        struct portion part = part_of(c, m, a->layer, r);
        at[r + 1] = at[r] + part.end - part.begin;
    }
    if (at[s->rank + 1] > at[s->rank])
        memcpy(travel + at[s->rank], own_part(c, a->layer, a->seq, a->block),
               at[s->rank + 1] - at[s->rank]);
    machines_collect(travel, at);
    for (size_t r = 0; r < s->n && whole; r++)
        memcpy(whole + part_of(c, m, a->layer, r).begin, travel + at[r], at[r + 1] - at[r]);
}

static void put_own(struct cache *c, const struct model *m, const struct ask *a,
                    const unsigned char *whole)
{
    struct portion own = part_of(c, m, a->layer, split_of(m)->rank);
    if (own.begin < own.end)
        memcpy(own_part(c, a->layer, a->seq, a->block), whole + own.begin, own.end - own.begin);
}

/* Room for the parts of all machines, of which several may hold a head, and a whole block */
static size_t room_bytes(const struct cache *c, const struct model *m)
{
    size_t most = 0;
    for (size_t l = 0; l < c->n_layers; l++)
        most = max_size(most, whole_bytes(c, m, l));
    return most * split_of(m)->n;
}

/* ---- rank 0 ---- */

enum tern_status store_take(const struct cache *c, const struct model *m, size_t l, size_t seq,
                            size_t block, void *whole, size_t bytes, struct tern_error *e)
{
    struct ask a = {.kind = ASK_TAKE, .layer = l, .seq = seq, .block = block};
    if (is_whole(m, l)) {
        memcpy(whole, own_part(c, l, seq, block), bytes);
        return TERN_OK;
    }
    unsigned char *travel = malloc(room_bytes(c, m));
    if (!travel)
        return error_memory(e, "the blocks of all machines", room_bytes(c, m));
    ask(a);
    collect(c, m, &a, travel, whole);
    free(travel);
    return TERN_OK;
}

void store_put(struct cache *c, const struct model *m, size_t l, size_t seq, size_t block,
               const void *whole, size_t bytes)
{
    struct ask a = {.kind = ASK_PUT, .layer = l, .seq = seq, .block = block};
    if (split_of(m)) {
        ask(a);
        machines_broadcast((void *)(uintptr_t)whole, bytes); /* which rank 0 only reads */
    }
    if (is_whole(m, l))
        memcpy(own_part(c, l, seq, block), whole, bytes);
    else
        put_own(c, m, &a, whole);
}

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

void store_end(const struct model *m)
{
    if (split_of(m))
        ask((struct ask){.kind = ASK_END});
}

/* ---- the others ---- */

static enum tern_status follow_begin(struct cache *c, const struct model *m, const struct ask *a,
                                     struct tern_error *e)
{
    uint64_t *first = malloc(a->n_first * sizeof *first);
    if (!first)
        return error_memory(e, "a session", a->n_first * sizeof *first);
    machines_broadcast(c->tokens + a->seq * c->n_ctx, a->n * sizeof *c->tokens);
    machines_broadcast(first, a->n_first * sizeof *first);
    cache_refill(c, a->seq, a->n, first, a->n_layers);
    hidden_refill(&c->hidden, a->seq, a->n, a->n_layers > m->n_layers ? first[a->n_layers] : 0);
    c->far[a->seq] = m->rope_limit && a->n > m->rope_limit;
    free(first);
    return TERN_OK;
}

static void follow_put(struct cache *c, const struct model *m, const struct ask *a,
                       unsigned char *whole)
{
    size_t bytes = whole_bytes(c, m, a->layer);
    machines_broadcast(whole, bytes);
    if (is_whole(m, a->layer))
        memcpy(own_part(c, a->layer, a->seq, a->block), whole, bytes);
    else
        put_own(c, m, a, whole);
}

enum tern_status store_follow(struct cache *c, const struct model *m, struct tern_error *e)
{
    size_t room = room_bytes(c, m);
    unsigned char *travel = malloc(room);
    enum tern_status s = travel ? TERN_OK : error_memory(e, "a session", room);
    struct ask a = {.kind = ASK_END};
    while (!s) {
        machines_broadcast(&a, sizeof a);
        if (a.kind == ASK_TAKE)
            collect(c, m, &a, travel, NULL);
        else if (a.kind == ASK_PUT)
            follow_put(c, m, &a, travel);
        else if (a.kind == ASK_BEGIN)
            s = follow_begin(c, m, &a, e);
        else
            break;
    }
    free(travel);
    return s;
}

#endif
