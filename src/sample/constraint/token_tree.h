/* Texts of tokens as one array in depth-first order. A node is a byte; its children follow it, sorted by
 * byte, and `size` nodes further its next sibling stands. So a walk is a loop, and what cannot match is
 * skipped with one addition.
 *
 *   texts "a", "ab", "b"     node  byte  size  first
 *                              0    -     4     0     the root
 *                              1    a     2     0     token 0 of the order ends here
 *                              2    b     1     1
 *                              3    b     1     2
 *                              4    -     -     3     the end */
#ifndef CONSTRAINT_TOKEN_TREE_H
#define CONSTRAINT_TOKEN_TREE_H

#include "base/error.h"

struct token_node {
    uint32_t first; /* of `tokens`: those of the subtree are first .. nodes[i + size].first - 1, and those
                       that end here come first, up to nodes[i + 1].first */
    uint32_t size : 24, byte : 8;
};

struct token_text {
    const unsigned char *p; /* borrowed */
    uint32_t n;             /* at least 1 */
    tern_token id;
};

struct token_tree {
    struct token_node *nodes; /* [n_nodes + 1] */
    tern_token *tokens;       /* [n_tokens], sorted by bytes and then by id */
    uint32_t n_nodes, n_tokens, depth; /* depth: bytes of the longest text */
};

/* Sorts texts[0..n) and builds. TERN_LIMIT above 2^24 nodes. Close it also after a failure. */
enum tern_status token_tree_open(struct token_tree *t, struct token_text *texts, uint32_t n,
                                 struct tern_error *e);
void token_tree_close(struct token_tree *t);

/* The bytes of the longest text below a node that p[0..n) begins with; 0: none. */
size_t token_tree_prefix(const struct token_tree *t, uint32_t node, const unsigned char *p,
                         size_t n);

#endif
