/* The KV cache: pages of one attention block. In: keys and values by layer and position; out: the
 * K and V of a block. Knows pages, sequences and sliding windows; no arithmetic.
 *
 * A page holds 256 positions of every layer of one window class (all full-attention layers are one
 * class, each distinct window is another). Inside it, per layer and KV head:
 *
 *   K  16 tiles of 16 positions   position p is lane p % 16 of tile p / 16 % 16
 *   V  [256 positions][head_dim]  both as kernels.h says, attend_bytes each
 *
 * Latent attention has no V: its values are the first dims of its K.
 *
 * A sequence is a table of pages per class, indexed by position / 256. Pages are counted. Positions of a
 * page that others hold are never written, so a fork copies at most one page per class: that of its
 * next position. The store of prefixes (prefix_store.h) holds pages, too. It may hold one that its
 * sequence goes on to fill, and reads no more of that than it knows. A windowed class frees the pages
 * that no later position can see, except for a margin that lets tern_seq_keep go back a little: at
 * the end of a step, or with a store at the beginning of the next, for the store may want them. All
 * pages lie in one reserved range that takes memory as it fills: a little ahead, so that no step of few rows
 * waits for the memory of a whole page. */
#ifndef MODEL_CACHE_H
#define MODEL_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "model/cache_request.h"
#include "model/hidden.h"
#include "model/model.h"
#include "model/prefix_share.h"
#include "model/recurrent.h"

enum { CACHE_ROLLBACK = 64 }; /* positions that a windowed class keeps beyond its window */

struct cache_class {
    size_t window;        /* 0: none */
    size_t page_bytes;    /* of all its layers */
    size_t max_pages;     /* of one sequence at a time */
    size_t n_pages;       /* of all sequences and of the store */
    unsigned char *pages; /* [n_pages, page_bytes]; inside the reserved range */
    uint32_t *users;      /* [n_pages] sequences that hold a page, and the store */
    int32_t *free_pages;  /* [n_free] stack */
    size_t n_free;
    size_t fresh;   /* the first page that nobody has taken yet, nor any behind it */
    size_t touched; /* bytes of `pages`, from the first, whose memory was taken ahead of them */
    int32_t *table; /* [n_seqs, n_blocks] page, or -1 */
#ifdef TERN_MPI
    size_t whole_bytes; /* of a page on one machine */
#endif
};

struct cache_layer {
    int class;
    size_t offset;   /* of the layer inside a page */
    size_t kv_bytes; /* of one head's K, and of its V */
#ifdef TERN_MPI
    size_t first_head;   /* KV heads that this machine holds, from one on */
    size_t whole_offset; /* inside a page on one machine */
#endif
};

/* What a cache reserves */
struct cache_memory {
    uint64_t bytes;     /* UINT64_MAX when they do not fit */
    uint64_t states;    /* of them, for recurrent layers */
    uint64_t prefix;    /* of them, for the store, which is counted as on one machine */
    size_t n_snapshots; /* of the sequences */
#ifdef TERN_MPI
    uint64_t elsewhere; /* of them, what other machines hold of the store */
#endif
};

struct cache {
    enum tern_cache_type type;
    size_t n_ctx, n_seqs, n_blocks;
    size_t n_layers; /* with the one that guesses */
    int n_classes;
    struct cache_class *classes; /* [n_classes] */
    struct cache_layer *layers;  /* [n_layers] */
    uint32_t *length;            /* [n_seqs] positions evaluated */
    bool *far;                   /* [n_seqs] with the RoPE sets' far frequencies */
    tern_token *tokens; /* [n_seqs, n_ctx] of each position; inside the range, after the pages */
    uint32_t *ahead; /* [n_seqs] of these, the last ones that are on trial: until it is known that
                      * they stay, no page is given up for them */
    int *bad;        /* [n_seqs] what was not finite (state.h) as its positions were evaluated, or 0 */
    void *range;
    size_t range_bytes, seq_bytes; /* the latter: without the store */
    struct prefix_share share;     /* of the store */
    struct recurrent recurrent; /* the states of recurrent layers */
    struct hidden hidden;       /* what the layer that guesses reads */
};

/* TERN_NO_MEMORY when there is no memory to find it out. */
enum tern_status cache_bytes(const struct model *m, const struct cache_request *request,
                             struct cache_memory *memory, struct tern_error *e);

enum tern_status cache_open(struct cache *c, const struct model *m,
                            const struct cache_request *request, struct tern_error *e);
void cache_close(struct cache *c);

/* Takes the pages that positions length .. length + n - 1 of a sequence need; n_ctx and n_batch
 * bound them, so this cannot fail. */
void cache_extend(struct cache *c, size_t seq, size_t n);

/* Ends a step: the sequence is `n` positions longer (0: as it was, its new pages are given back),
 * and a windowed class gives up the pages that are out of sight. */
void cache_commit(struct cache *c, size_t seq, size_t n);

size_t cache_length(const struct cache *c, size_t seq); /* without what is on trial */

/* tern_seq_keep and tern_seq_fork. */
size_t cache_keep(struct cache *c, size_t seq, size_t n);
size_t cache_fork(struct cache *c, size_t from, size_t to, size_t n);

/* For the store of prefixes: the page of a block of a sequence in a class, or -1; a free page; a user
 * more of a page; one less of *page (unless that is -1), which becomes -1; and `page` in the place of what
 * the sequence has there. */
int32_t cache_page(const struct cache *c, int class, size_t seq, size_t block);
int32_t cache_take_page(struct cache *c, int class);
void cache_hold_page(struct cache *c, int class, int32_t page);
void cache_drop_page(struct cache *c, int class, int32_t *page);
void cache_put_page(struct cache *c, int class, size_t seq, size_t block, int32_t page);

/* The sequence, which was empty until its pages were put, has n positions of these tokens. */
void cache_adopt(struct cache *c, size_t seq, const tern_token *tokens, size_t n, bool far);

/* First block that the sequence holds of what a layer sees. */
size_t cache_first(const struct cache *c, size_t layer, size_t seq);

/* True when first [known] can be the first blocks of a sequence of n positions (at most n_ctx).
 * Then cache_refill makes it one, with pages of any content; its old ones are given back. A layer of
 * which none is known gets those that the next position sees. */
bool cache_fits(const struct cache *c, size_t n, const uint64_t *first, size_t known);
void cache_refill(struct cache *c, size_t seq, size_t n, const uint64_t *first, size_t known);

/* K and V of a KV head in the block of 256 positions that holds `position`; borrowed. Latent attention
 * has no V. */
void *cache_k(const struct cache *c, size_t layer, size_t seq, size_t position, size_t kv_head);
void *cache_v(const struct cache *c, size_t layer, size_t seq, size_t position, size_t kv_head);

/* Bytes of a page on one machine. What depends on memory is to be the same on several. */
static inline size_t cache_whole_bytes(const struct cache_class *class)
{
#ifdef TERN_MPI
    return class->whole_bytes;
#else
    return class->page_bytes;
#endif
}

/* Of the layer inside it */
static inline size_t cache_whole_offset(const struct cache_layer *layer)
{
#ifdef TERN_MPI
    return layer->whole_offset;
#else
    return layer->offset;
#endif
}

/* First block that position n (the next one), or one up to the rollback margin before it, sees. */
static inline size_t cache_first_block(const struct cache_class *class, size_t n)
{
    size_t back = class->window + CACHE_ROLLBACK;
    return !class->window || n < back ? 0 : (n - back) / BLOCK;
}

/* First block that position n itself sees. */
static inline size_t cache_needed_block(const struct cache_class *class, size_t n)
{
    return class->window && n >= class->window ? (n - class->window + 1) / BLOCK : 0;
}

/* First position that the row at `position` sees in a layer */
static inline size_t cache_begin(const struct cache *c, const struct layer *w, size_t seq,
                                 size_t position)
{
    size_t begin = layer_sees_from(w, position);
    bool guesses = c->hidden.dim && w->index + 1 == c->n_layers;
    size_t first = guesses ? c->hidden.seqs[seq].first : 0;
    return begin > first ? begin : first;
}

#endif
