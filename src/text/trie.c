/* See trie.h. The sorted keys with one prefix are a range; a node is made of each, level by level,
 * so that the children of a node follow one another. */
#include "text/trie.h"

#include <stdlib.h>
#include <string.h>

struct key_range { /* keys[lo..hi), alike in their first `depth` bytes */
    uint32_t lo, hi, depth;
};

static int compare(const void *a, const void *b)
{
    const struct trie_key *x = a, *y = b;
    int c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    if (c || x->n != y->n)
        return c ? c : x->n < y->n ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* Nodes of the tree: the bytes of each key that are not shared with the one before, and the root.
 */
static size_t count(const struct trie_key *keys, uint32_t n)
{
    size_t total = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t same = 0;
        while (i && same < keys[i].n && same < keys[i - 1].n &&
               keys[i].p[same] == keys[i - 1].p[same])
            same++;
        total += keys[i].n - same;
    }
    return total;
}

/* Fills node i, which stands for ranges[i], and appends its children. */
static void expand(struct trie *t, struct key_range *ranges, uint32_t i,
                   const struct trie_key *keys)
{
    struct key_range r = ranges[i];
    struct trie_node *node = &t->nodes[i];
    node->first = t->n;
    for (; r.lo < r.hi && keys[r.lo].n == r.depth; r.lo++)
        node->value = keys[r.lo].value;
    while (r.lo < r.hi) {
        unsigned char byte = (unsigned char)keys[r.lo].p[r.depth];
        uint32_t end = r.lo;
        while (end < r.hi && (unsigned char)keys[end].p[r.depth] == byte)
            end++;
        t->nodes[t->n] = (struct trie_node){.value = -1, .byte = byte};
        ranges[t->n++] = (struct key_range){r.lo, end, r.depth + 1};
        node->n++;
        r.lo = end;
    }
}

bool trie_open(struct trie *t, struct trie_key *keys, uint32_t n)
{
    if (n)
        qsort(keys, n, sizeof *keys, compare);
    size_t total = count(keys, n);
    struct key_range *ranges = total < UINT32_MAX ? malloc(total * sizeof *ranges) : NULL;
    *t = (struct trie){.nodes = ranges ? malloc(total * sizeof *t->nodes) : NULL, .n = 1};
    if (t->nodes) {
        t->nodes[0] = (struct trie_node){.value = -1};
        ranges[0] = (struct key_range){0, n, 0};
        for (uint32_t i = 0; i < t->n; i++)
            expand(t, ranges, i, keys);
        for (uint32_t i = 1; i <= t->nodes[0].n; i++)
            t->first[t->nodes[i].byte] = i;
    }
    free(ranges);
    return t->nodes != NULL;
}

void trie_close(struct trie *t)
{
    free(t->nodes);
}
