/* A prefix tree over byte strings: finds all that a text begins with, a step per byte. Built once;
 * the children of a node lie side by side, sorted. */
#ifndef TEXT_TRIE_H
#define TEXT_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trie_node {
    uint32_t first; /* number of the first child */
    int32_t value;  /* of the string that ends here, or -1 */
    uint16_t n;     /* children */
    unsigned char byte;
};

struct trie {
    struct trie_node *nodes; /* [n], the root first; owned */
    uint32_t n;
    uint32_t first[256]; /* children of the root by byte, or 0 */
};

struct trie_key {
    const char *p; /* [n], borrowed while the tree is built */
    uint32_t n;    /* > 0 */
    int32_t value; /* >= 0 */
};

/* Builds the tree of keys[0..n), which it sorts; of equal ones the one of the largest value
 * stays. False: no memory. */
bool trie_open(struct trie *t, struct trie_key *keys, uint32_t n);
void trie_close(struct trie *t);

/* The child of `node` (0: the root) for a byte, or 0. */
static inline uint32_t trie_child(const struct trie *t, uint32_t node, unsigned char byte)
{
    uint32_t lo = t->nodes[node].first, n = t->nodes[node].n;
    if (node == 0)
        return t->first[byte];
    while (n > 1) {
        uint32_t half = n / 2;
        lo += t->nodes[lo + half].byte <= byte ? half : 0;
        n -= half;
    }
    return n && t->nodes[lo].byte == byte ? lo : 0;
}

#endif
