/* Builds the array of texts: see token_tree.h. */
#include "sample/constraint/token_tree.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = (1 << 24) - 2 };

static int by_bytes(const void *left, const void *right)
{
    const struct token_text *a = left, *b = right;
    int c = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    if (c)
        return c;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Bytes that a text has in common with the one before it */
static uint32_t shared(const struct token_text *texts, uint32_t i)
{
    uint32_t k = 0;
    if (!i)
        return 0;
    const struct token_text *a = &texts[i - 1], *b = &texts[i];
    while (k < a->n && k < b->n && a->p[k] == b->p[k])
        k++;
    return k;
}

/* Bytes and places of tokens; path[d] is the node at depth d of the text before. */
static void fill(struct token_tree *t, const struct token_text *texts, uint32_t *path)
{
    uint32_t at = 1, depth = 0;
    path[0] = 0;
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        uint32_t common = shared(texts, i);
        for (; depth > common; depth--)
            t->nodes[path[depth]].size = (at - path[depth]) & 0xFFFFFF;
        while (depth < texts[i].n) {
            t->nodes[at].byte = texts[i].p[depth];
            t->nodes[at].first = i;
            path[++depth] = at++;
        }
        t->tokens[i] = texts[i].id;
    }
    for (; depth; depth--)
        t->nodes[path[depth]].size = (at - path[depth]) & 0xFFFFFF;
    t->nodes[0].size = at & 0xFFFFFF;
    t->nodes[at].first = t->n_tokens;
}

enum tern_status token_tree_open(struct token_tree *t, struct token_text *texts, uint32_t n,
                                 struct tern_error *e)
{
    uint64_t nodes = 1;
    *t = (struct token_tree){.n_tokens = n};
    qsort(texts, n, sizeof *texts, by_bytes);
    for (uint32_t i = 0; i < n; i++) {
        nodes += texts[i].n - shared(texts, i);
        if (texts[i].n > t->depth)
            t->depth = texts[i].n;
    }
    if (nodes > NODES_MAX)
        return error_set(e, TERN_LIMIT, "the texts of the tokens make %llu nodes, want at most %d",
                         (unsigned long long)nodes, (int)NODES_MAX);
    t->n_nodes = (uint32_t)nodes;
    t->nodes = calloc(nodes + 1, sizeof *t->nodes);
    t->tokens = malloc((n + (size_t)1) * sizeof *t->tokens);
    uint32_t *path = malloc((t->depth + (size_t)1) * sizeof *path);
    if (t->nodes && t->tokens && path)
        fill(t, texts, path);
    free(path);
    return t->nodes && t->tokens && path
               ? TERN_OK
               : error_memory(e, "the texts of the tokens", nodes * sizeof *t->nodes);
}

void token_tree_close(struct token_tree *t)
{
    free(t->nodes);
    free(t->tokens);
    *t = (struct token_tree){0};
}

size_t token_tree_prefix(const struct token_tree *t, uint32_t node, const unsigned char *p,
                         size_t n)
{
    size_t longest = 0;
    uint32_t at = node;
    for (size_t i = 0; i < n; i++) {
        const uint32_t end = at + t->nodes[at].size;
        for (at++; at < end && t->nodes[at].byte != p[i];)
            at += t->nodes[at].size;
        if (at >= end)
            break;
        if (t->nodes[at + 1].first > t->nodes[at].first)
            longest = i + 1;
    }
    return longest;
}
