/* See prefix_check.h. */
#include "prefix_check.h"

#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* Check's own macros write a file at each call. */
#define must(what) (what) ? (void)0 : ck_abort_msg("%s", #what)

static void check_pages(const tern_context *c, int class)
{
    const struct cache_class *k = &c->cache.classes[class];
    const struct prefix_store *s = &c->prefixes;
    uint32_t *users = calloc(k->n_pages, sizeof *users);
    size_t held = 0;
    for (size_t seq = 0; seq < c->cache.n_seqs; seq++) {
        size_t own = 0;
        for (size_t b = 0; b < c->cache.n_blocks; b++) {
            int32_t page = cache_page(&c->cache, class, seq, b);
            must(page < 0 || b * BLOCK < c->cache.length[seq]);
            own += page >= 0;
            if (page >= 0)
                users[page]++;
        }
        must(own <= k->max_pages);
    }
    for (int32_t i = s->newest; i >= 0; i = s->nodes[i].older) {
        int32_t page = s->pages[i * c->cache.n_classes + class];
        must(page >= 0 || k->window);
        if (page >= 0)
            users[page]++;
    }
    must(!memcmp(users, k->users, k->n_pages * sizeof *users));
    for (size_t i = 0; i < k->n_pages; i++)
        held += users[i] > 0;
    must(held + k->n_free == k->n_pages);
    for (size_t i = 0; i < k->n_free; i++)
        must(!users[k->free_pages[i]]++); /* free, and there once */
    free(users);
}

/* No sibling is the beginning of another. */
static void check_siblings(const struct prefix_store *s, int32_t first)
{
    for (int32_t a = first; a >= 0; a = s->nodes[a].right)
        for (int32_t b = first; b >= 0; b = s->nodes[b].right) {
            size_t n = s->nodes[a].n < s->nodes[b].n ? s->nodes[a].n : s->nodes[b].n;
            must(a == b || memcmp(s->nodes[a].tokens, s->nodes[b].tokens, n * sizeof(tern_token)));
        }
}

static void check_node(const struct prefix_store *s, int32_t node)
{
    const struct prefix_node *t = &s->nodes[node];
    must(t->n >= 1 && t->n <= BLOCK && (t->n == BLOCK || t->child < 0));
    must(t->block == (t->parent < 0 ? 0 : s->nodes[t->parent].block + 1));
    must(t->left < 0 || s->nodes[t->left].right == node);
    must(t->right < 0 || s->nodes[t->right].left == node);
    must(t->left >= 0 ||
         (t->parent < 0 ? s->root[-1 - t->parent] : s->nodes[t->parent].child) == node);
    for (int32_t i = t->state; i >= 0; i = s->states[i].next) {
        const struct snapshot *k = &s->cache->recurrent.snapshots[s->states[i].snapshot];
        must(s->states[i].node == node && s->states[i].after >= 1 && s->states[i].after <= t->n);
        must(k->kept && k->at == t->block * BLOCK + s->states[i].after);
    }
    check_siblings(s, t->child);
}

void prefix_check(const tern_context *c)
{
    const struct prefix_store *s = &c->prefixes;
    const struct recurrent *r = &c->cache.recurrent;
    struct tern_prefix_info info;
    size_t n_used = 0, n_kept = 0, n_tokens = 0;
    unsigned char *seen = calloc(s->n_nodes + 1, 1);
    for (int32_t i = s->newest; i >= 0; i = s->nodes[i].older) {
        must(s->nodes[i].parent < 0 || seen[s->nodes[i].parent]); /* used after what follows it */
        must(!seen[i]++);
        must(s->nodes[i].older < 0 ? s->oldest == i : s->nodes[s->nodes[i].older].newer == i);
        check_node(s, i);
        n_used++, n_tokens += s->nodes[i].n;
    }
    must(n_used == s->n_used && n_used <= s->n_nodes && n_tokens == s->n_tokens);
    for (int root = 0; root < PREFIX_ROOTS && s->n_nodes; root++)
        check_siblings(s, s->root[root]);
    for (size_t i = 0; i < s->n_states; i++)
        n_kept += s->states[i].node >= 0;
    must(n_kept == s->n_kept);
    for (size_t i = 0; i < r->n_snapshots && r->state_floats; i++)
        n_kept -= r->snapshots[i].kept;
    must(!n_kept);
    for (int i = 0; i < c->cache.n_classes; i++)
        check_pages(c, i);
    tern_prefix_info(c, &info);
    must(info.bytes <= info.max_bytes && info.n_pages == n_used && info.n_tokens == n_tokens);
    free(seen);
}
