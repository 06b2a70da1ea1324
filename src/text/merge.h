/* The loop that both kinds of BPE share: join the best pair of neighbours until none is left.
 * O(n log n) with a binary heap; no recursion. */
#ifndef TEXT_MERGE_H
#define TEXT_MERGE_H

#include "base/stop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol {
    uint32_t at, len;   /* bytes of the word; len 0: joined into the symbol before */
    int32_t prev, next; /* neighbours, or -1 */
    int32_t id;         /* token, or -1 */
    bool frozen;        /* takes part in no merge */
};

struct pair {
    uint64_t order; /* rank << 32 | number of the left symbol: the least is joined first */
    int32_t id;     /* token that joining gives */
};

struct merge {
    struct symbol *symbols; /* [n] of [cap]; owned */
    struct pair *heap;      /* [n_heap] of [heap_cap]; owned */
    size_t n, cap, n_heap, heap_cap;
    const char *word;  /* the bytes that `at` counts in; borrowed */
    struct stop *stop; /* asked for each symbol and pair; may be NULL */
};

/* What joining neighbours makes: true with its token and rank (less is sooner), or false. */
struct merge_rule {
    bool (*find)(void *model, const struct merge *m, const struct symbol *left,
                 const struct symbol *right, int32_t *id, uint32_t *rank);
    void (*queued)(void *model, const struct symbol *left, int32_t id); /* may be NULL */
    void *model;
};

void merge_begin(struct merge *m, const char *word);
void merge_close(struct merge *m);

/* Appends a symbol of `len` bytes that begins at byte `at`. A word has less than 2^31 bytes (growth.h).
 * False: no memory, or stopped. */
bool merge_add(struct merge *m, size_t at, size_t len, int32_t id, bool frozen);

/* Joins pairs until none is left; the survivors are the symbols with len > 0. A pair that was
 * queued is joined in its turn if its place still makes the same token, as the reference does. False:
 * no memory, or stopped. */
bool merge_run(struct merge *m, struct merge_rule rule);

#endif
