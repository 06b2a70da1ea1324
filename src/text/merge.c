/* Merging by a heap: see merge.h. Symbols form a doubly linked list inside an array; joining
 * extends the left one and unlinks the right one. */
#include "text/merge.h"

#include <stdlib.h>

enum { WAYS = 4 }; /* children of a node of the heap: half the cache misses of two */

/* Makes room for one more element of `size` bytes in *p [n] of [*cap]. */
static bool grow(void **p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 64;
    void *q = realloc(*p, want * size);
    if (!q)
        return false;
    *p = q;
    *cap = want;
    return true;
}

void merge_begin(struct merge *m, const char *word)
{
    m->n = m->n_heap = 0;
    m->word = word;
}

void merge_close(struct merge *m)
{
    free(m->symbols);
    free(m->heap);
}

bool merge_add(struct merge *m, size_t at, size_t len, int32_t id, bool frozen)
{
    void *p = m->symbols;
    bool ok = grow(&p, m->n, &m->cap, sizeof *m->symbols);
    m->symbols = p;
    if (!ok || stop_asked(m->stop, 1))
        return false;
    int32_t i = (int32_t)m->n;
    if (i)
        m->symbols[i - 1].next = i;
    m->symbols[m->n++] = (struct symbol){(uint32_t)at, (uint32_t)len, i - 1, -1, id, frozen};
    return true;
}

static bool push(struct merge *m, struct pair pair)
{
    void *p = m->heap;
    bool ok = grow(&p, m->n_heap, &m->heap_cap, sizeof *m->heap);
    m->heap = p;
    if (!ok)
        return false;
    size_t i = m->n_heap++;
    for (; i && pair.order < m->heap[(i - 1) / WAYS].order; i = (i - 1) / WAYS)
        m->heap[i] = m->heap[(i - 1) / WAYS];
    m->heap[i] = pair;
    return true;
}

/* Number of the least child of heap[i], or n_heap when it has none. */
static size_t least_child(const struct merge *m, size_t i)
{
    size_t first = WAYS * i + 1, end = first + WAYS < m->n_heap ? first + WAYS : m->n_heap;
    size_t least = first < m->n_heap ? first : m->n_heap;
    for (size_t k = first + 1; k < end; k++)
        if (m->heap[k].order < m->heap[least].order)
            least = k;
    return least;
}

static struct pair pop(struct merge *m)
{
    struct pair top = m->heap[0], last = m->heap[--m->n_heap];
    size_t i = 0, child;
    while ((child = least_child(m, i)) < m->n_heap && m->heap[child].order < last.order) {
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return top;
}

/* Queues the pair whose left symbol is number i, if it makes a token. */
static bool consider(struct merge *m, struct merge_rule rule, int32_t i)
{
    int32_t id;
    uint32_t rank;
    if (i < 0 || m->symbols[i].next < 0)
        return true;
    const struct symbol *left = &m->symbols[i], *right = &m->symbols[left->next];
    if (!rule.find(rule.model, m, left, right, &id, &rank))
        return true;
    if (rule.queued)
        rule.queued(rule.model, left, id);
    return push(m, (struct pair){(uint64_t)rank << 32 | (uint32_t)i, id});
}

static void join(struct merge *m, struct symbol *left, int32_t id)
{
    struct symbol *right = &m->symbols[left->next];
    left->len += right->len;
    left->id = id;
    left->next = right->next;
    if (right->next >= 0)
        m->symbols[right->next].prev = (int32_t)(left - m->symbols);
    right->len = 0;
}

bool merge_run(struct merge *m, struct merge_rule rule)
{
    for (size_t i = 0; i + 1 < m->n; i++)
        if (stop_asked(m->stop, 1) || !consider(m, rule, (int32_t)i))
            return false;
    while (m->n_heap) {
        if (stop_asked(m->stop, 1))
            return false;
        struct pair top = pop(m);
        int32_t i = (int32_t)(uint32_t)top.order, id;
        uint32_t rank;
        struct symbol *left = &m->symbols[i];
        if (left->len == 0 || left->next < 0 ||
            !rule.find(rule.model, m, left, &m->symbols[left->next], &id, &rank) || id != top.id)
            continue;
        join(m, left, id);
        if (!consider(m, rule, left->prev) || !consider(m, rule, i))
            return false;
    }
    return true;
}
