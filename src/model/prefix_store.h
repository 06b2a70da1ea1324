/* The store of prefixes: what sequences evaluated, found again by its tokens. In: sequences of the
 * cache; out: sequences that begin with pages and a state that others made.
 *
 * A tree whose nodes are blocks of 256 tokens, each under the block before it. A node holds its tokens, a
 * page of every window class (or none, where the window had let go of it), and states of recurrent
 * layers after some of its positions. A leaf may have fewer tokens: the end of a text. Its page may be
 * one that its sequence goes on to fill; the node grows with the next keep. No node is the beginning of
 * another under the same parent. Sequences with far RoPE frequencies have a tree of their own.
 *
 * Who finds a part of a node gets a copy of its page, and shares all before. Without recurrent layers any
 * number of tokens can be found, else what ends at a state.
 *
 * Every use makes a node and all before it the most recently used, the beginning of the text first. So
 * the least recently used node is a leaf, and leaves first. States have places of their own. When these
 * are taken, the state leaves whose loss costs least: tokens to evaluate again from the state before
 * it, counting more for ends of prompts and texts and for branches, over the time since it was used. */
#ifndef MODEL_PREFIX_STORE_H
#define MODEL_PREFIX_STORE_H

#include "model/cache.h"

enum {
    PREFIX_NONE = -1,
    PREFIX_ROOTS = 2 /* near and far: -1 and -2 in the place of a node */
};

struct prefix_node {
    tern_token tokens[BLOCK];
    uint32_t n;                                 /* tokens; fewer than BLOCK only in a leaf */
    uint32_t block;                             /* its number in the text */
    uint32_t rows_from;                         /* first row of the layer that guesses (mtp.h) */
    uint32_t serial;                            /* another one when the place is used anew */
    int32_t parent;                             /* or -1 - number of the root */
    int32_t child, left, right;                 /* first child, siblings; or none, as are */
    int32_t newer, older;                       /* by use */
    int32_t state;                              /* first of its states */
    uint64_t used;                              /* time */
};

struct prefix_state {
    int32_t node, next; /* whose it is, or none; next of the node, or of the free places */
    uint32_t after;     /* so many tokens of the node: 1 .. n */
    bool is_end;        /* of a prompt, its tail, or a text; or a branch */
    int32_t end_of;     /* the sequence that this is the end of while it grows, or none */
    size_t snapshot;    /* of recurrent.h */
};

struct prefix_cursor { /* the last whole block that a sequence and the store share */
    int32_t node;
    uint32_t serial;
};

struct prefix_store {
    struct cache *cache; /* borrowed */
    size_t n_nodes, n_states;
    struct prefix_node *nodes;     /* [n_nodes] */
    int32_t *pages;                /* [n_nodes, n_classes], or none */
    struct prefix_state *states;   /* [n_states] */
    struct prefix_cursor *cursors; /* [n_seqs] */
    int32_t root[PREFIX_ROOTS];    /* first child */
    int32_t free_node, free_state; /* lists, by `right` and by `next` */
    int32_t newest, oldest;
    size_t n_used, n_kept; /* nodes, states */
    uint64_t time, n_tokens, hits, misses, evicted;
};

enum tern_status prefix_open(struct prefix_store *s, struct cache *c, struct tern_error *e);
void prefix_close(struct prefix_store *s);
void prefix_clear(struct prefix_store *s); /* sequences stay */
uint64_t prefix_bytes(const struct prefix_store *s);

/* The longest beginning of tokens [n] that is kept, whole or in part; n is at most the context. */
size_t prefix_reach(const struct prefix_store *s, const tern_token *tokens, size_t n, bool far);

/* The sequence becomes it. */
size_t prefix_find(struct prefix_store *s, size_t seq, const tern_token *tokens, size_t n, bool far);

/* Keeps the sequence. Its recurrent state is that of its end, and the layer that guesses has all rows. */
void prefix_keep(struct prefix_store *s, size_t seq);

/* For prefix_file.c. The place of a node's pages [n_classes]. A child of a node or root that begins as
 * tokens [n], or that these begin as; or PREFIX_NONE. A new node, used before all others, with pages of
 * any content in the classes whose bit is set; PREFIX_NONE when the store is full. And a state of it, to
 * be filled; NULL when there is no free place. */
int32_t *prefix_pages(const struct prefix_store *s, int32_t node);
int32_t prefix_overlap(const struct prefix_store *s, int32_t parent, const tern_token *tokens,
                       size_t n);
int32_t prefix_add(struct prefix_store *s, int32_t parent, const tern_token *tokens, size_t n,
                   uint64_t classes);
float *prefix_add_state(struct prefix_store *s, int32_t node, size_t after, bool is_end);

#endif
