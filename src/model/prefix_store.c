/* The store of prefixes: see prefix_store.h. */
#include "model/prefix_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"

enum {
    END_WORTH = 16 * BLOCK, /* what an end counts beside its tokens */
    FARTHEST = 16           /* blocks that are searched for the state before */
};

_Static_assert(sizeof(struct prefix_node) <= PREFIX_NODE_BYTES, "prefix_share.h counts less");
_Static_assert(sizeof(struct prefix_state) <= PREFIX_STATE_BYTES, "prefix_share.h counts less");

/* ---- places ---- */

static size_t n_classes(const struct prefix_store *s)
{
    return (size_t)s->cache->n_classes;
}

static struct prefix_node *node_at(const struct prefix_store *s, int32_t node)
{
    return &s->nodes[node];
}

int32_t *prefix_pages(const struct prefix_store *s, int32_t node)
{
    return s->pages + (size_t)node * n_classes(s);
}

static int32_t root_of(bool far)
{
    return -1 - far;
}

/* Where the first child of a node or root is noted */
static int32_t *first_child(struct prefix_store *s, int32_t parent)
{
    return parent < 0 ? &s->root[-1 - parent] : &s->nodes[parent].child;
}

static int32_t child_of(const struct prefix_store *s, int32_t parent)
{
    return parent < 0 ? s->root[-1 - parent] : s->nodes[parent].child;
}

static size_t begin_of(const struct prefix_store *s, int32_t node)
{
    return node < 0 ? 0 : (size_t)s->nodes[node].block * BLOCK;
}

static size_t end_of(const struct prefix_store *s, int32_t node)
{
    return node < 0 ? 0 : begin_of(s, node) + s->nodes[node].n;
}

static void free_all(struct prefix_store *s)
{
    s->root[0] = s->root[1] = s->newest = s->oldest = s->free_node = s->free_state = PREFIX_NONE;
    s->n_used = s->n_kept = 0;
    s->n_tokens = 0;
    for (size_t i = s->n_nodes; i-- > 0; s->free_node = (int32_t)i)
        s->nodes[i].right = s->free_node, s->nodes[i].n = 0;
    for (size_t i = s->n_states; i-- > 0; s->free_state = (int32_t)i)
        s->states[i].next = s->free_state, s->states[i].node = PREFIX_NONE;
}

enum tern_status prefix_open(struct prefix_store *s, struct cache *c, struct tern_error *e)
{
    size_t n = c->share.n_pages, n_pages = n * (size_t)c->n_classes;
    *s = (struct prefix_store){.cache = c};
    free_all(s);
    if (!n)
        return TERN_OK;
    s->nodes = calloc(n, sizeof *s->nodes);
    s->pages = calloc(n_pages ? n_pages : 1, sizeof *s->pages);
    s->states = calloc(c->share.n_states + 1, sizeof *s->states);
    s->cursors = calloc(c->n_seqs, sizeof *s->cursors);
    if (!s->nodes || !s->pages || !s->states || !s->cursors)
        return error_memory(e, "the store of prefixes", n * sizeof *s->nodes);
    s->n_nodes = n, s->n_states = c->share.n_states;
    memset(s->pages, -1, n_pages * sizeof *s->pages);
    for (size_t i = 0; i < c->n_seqs; i++)
        s->cursors[i].node = PREFIX_NONE;
    free_all(s);
    return TERN_OK;
}

void prefix_close(struct prefix_store *s)
{
    free(s->nodes);
    free(s->pages);
    free(s->states);
    free(s->cursors);
    *s = (struct prefix_store){0};
}

uint64_t prefix_bytes(const struct prefix_store *s)
{
    const struct cache *c = s->cache;
    uint64_t node = PREFIX_NODE_BYTES, state = PREFIX_STATE_BYTES;
    for (int i = 0; i < c->n_classes; i++)
        node += cache_whole_bytes(&c->classes[i]) + sizeof *s->pages;
    state += c->recurrent.state_floats * sizeof(float);
    return s->n_used * node + s->n_kept * state;
}

/* ---- order of use ---- */

static void unlink_use(struct prefix_store *s, int32_t node)
{
    const struct prefix_node *t = node_at(s, node);
    *(t->newer < 0 ? &s->newest : &s->nodes[t->newer].older) = t->older;
    *(t->older < 0 ? &s->oldest : &s->nodes[t->older].newer) = t->newer;
}

/* The node was used just before `newer`, or last of all. */
static void link_use(struct prefix_store *s, int32_t node, int32_t newer)
{
    struct prefix_node *t = node_at(s, node);
    t->newer = newer;
    t->older = newer < 0 ? s->newest : s->nodes[newer].older;
    *(newer < 0 ? &s->newest : &s->nodes[newer].older) = node;
    *(t->older < 0 ? &s->oldest : &s->nodes[t->older].newer) = node;
    t->used = s->time;
}

/* Uses the node and all before it, which are the more recent for it. */
static void touch(struct prefix_store *s, int32_t node)
{
    s->time++;
    for (; node >= 0; node = s->nodes[node].parent) {
        unlink_use(s, node);
        link_use(s, node, PREFIX_NONE);
    }
}

/* ---- states ---- */

static void drop_state(struct prefix_store *s, int32_t state)
{
    struct prefix_state *t = &s->states[state];
    int32_t *at = &s->nodes[t->node].state;
    while (*at != state)
        at = &s->states[*at].next;
    *at = t->next;
    s->cache->recurrent.snapshots[t->snapshot].kept = false;
    t->node = PREFIX_NONE, t->next = s->free_state;
    s->free_state = state;
    s->n_kept--;
}

/* The last state of a node that is at most `after` tokens into it, or none */
static int32_t state_before(const struct prefix_store *s, int32_t node, size_t after)
{
    int32_t best = PREFIX_NONE;
    for (int32_t i = s->nodes[node].state; i >= 0; i = s->states[i].next)
        if (s->states[i].after <= after)
            if (best < 0 || s->states[i].after > s->states[best].after)
                best = i;
    return best;
}

/* What the loss of a state costs that lies so far into a node */
static double worth(const struct prefix_store *s, int32_t node, size_t after, bool is_end)
{
    size_t gap = after, blocks = 0;
    int32_t before = state_before(s, node, after - 1), at = node;
    while (before < 0 && (at = s->nodes[at].parent) >= 0 && blocks++ < FARTHEST)
        if ((before = state_before(s, at, BLOCK)) < 0)
            gap += BLOCK;
    if (before >= 0)
        gap += (at == node ? 0 : BLOCK) - s->states[before].after;
    return (double)(gap + (is_end ? END_WORTH : 0)) /
           (double)(1 + s->time - s->nodes[node].used);
}

/* A place for a state of this worth, or none */
static int32_t take_state(struct prefix_store *s, double least)
{
    int32_t found = PREFIX_NONE;
    for (size_t i = 0; i < s->n_states && s->free_state < 0; i++) {
        const struct prefix_state *t = &s->states[i];
        double w = worth(s, t->node, t->after, t->is_end);
        if (w < least)
            found = (int32_t)i, least = w;
    }
    if (found >= 0)
        drop_state(s, found);
    found = s->free_state;
    if (found >= 0)
        s->free_state = s->states[found].next;
    return found;
}

/* A state of the node, whose snapshot is still to be named; or none */
static int32_t add_state(struct prefix_store *s, int32_t node, size_t after, bool is_end)
{
    int32_t i = take_state(s, worth(s, node, after, is_end));
    if (i < 0)
        return i;
    s->states[i] = (struct prefix_state){.node = node,
                                         .next = s->nodes[node].state,
                                         .after = (uint32_t)after,
                                         .is_end = is_end,
                                         .end_of = PREFIX_NONE};
    s->nodes[node].state = i;
    s->n_kept++;
    return i;
}

static void name_snapshot(struct prefix_store *s, int32_t state, size_t snapshot)
{
    s->states[state].snapshot = snapshot;
    s->cache->recurrent.snapshots[snapshot].kept = true;
}

/* Where the state of position `after` of the node is to be put */
static float *fill_state(struct prefix_store *s, int32_t state)
{
    struct recurrent *r = &s->cache->recurrent;
    const struct prefix_state *t = &s->states[state];
    name_snapshot(s, state, recurrent_take_kept(r, begin_of(s, t->node) + t->after));
    return recurrent_kept(r, t->snapshot);
}

float *prefix_add_state(struct prefix_store *s, int32_t node, size_t after, bool is_end)
{
    return s->free_state < 0 ? NULL : fill_state(s, add_state(s, node, after, is_end));
}

/* ---- nodes ---- */

static void remove_node(struct prefix_store *s, int32_t node)
{
    struct prefix_node *t = node_at(s, node);
    while (t->state >= 0)
        drop_state(s, t->state);
    for (size_t i = 0; i < n_classes(s); i++)
        cache_drop_page(s->cache, (int)i, &prefix_pages(s, node)[i]);
    *(t->left < 0 ? first_child(s, t->parent) : &s->nodes[t->left].right) = t->right;
    if (t->right >= 0)
        s->nodes[t->right].left = t->left;
    unlink_use(s, node);
    s->n_used--;
    s->n_tokens -= t->n;
    t->n = 0, t->serial++;
    t->right = s->free_node;
    s->free_node = node;
}

void prefix_clear(struct prefix_store *s)
{
    while (s->n_nodes && s->oldest >= 0)
        remove_node(s, s->oldest);
}

static void set_tokens(struct prefix_store *s, int32_t node, const tern_token *tokens, size_t n)
{
    struct prefix_node *t = node_at(s, node);
    memcpy(t->tokens, tokens, n * sizeof *tokens);
    s->n_tokens += n - t->n;
    t->n = (uint32_t)n;
}

/* A node in a free place, to be linked by use */
static int32_t put_node(struct prefix_store *s, int32_t parent, const tern_token *tokens, size_t n)
{
    int32_t node = s->free_node, *first = first_child(s, parent);
    struct prefix_node *t = node_at(s, node);
    s->free_node = t->right;
    *t = (struct prefix_node){.serial = t->serial,
                              .parent = parent,
                              .child = PREFIX_NONE,
                              .left = PREFIX_NONE,
                              .right = *first,
                              .state = PREFIX_NONE};
    t->block = (uint32_t)(end_of(s, parent) / BLOCK);
    if (*first >= 0)
        s->nodes[*first].left = node;
    *first = node;
    set_tokens(s, node, tokens, n);
    s->n_used++;
    return node;
}

int32_t prefix_add(struct prefix_store *s, int32_t parent, const tern_token *tokens, size_t n,
                   uint64_t classes)
{
    if (s->free_node < 0)
        return PREFIX_NONE;
    int32_t node = put_node(s, parent, tokens, n);
    link_use(s, node, s->oldest);
    for (size_t i = 0; i < n_classes(s); i++)
        if (classes >> i & 1)
            prefix_pages(s, node)[i] = cache_take_page(s->cache, (int)i);
    return node;
}

/* A node used just before its parent. The leaf that was used least recently makes room,
 * unless that is the parent: then the text is longer than the store. */
static int32_t new_node(struct prefix_store *s, int32_t parent, const tern_token *tokens, size_t n)
{
    if (s->free_node < 0 && s->oldest == parent)
        return PREFIX_NONE;
    if (s->free_node < 0) {
        remove_node(s, s->oldest);
        s->evicted++;
    }
    int32_t node = put_node(s, parent, tokens, n);
    link_use(s, node, parent < 0 ? PREFIX_NONE : parent);
    return node;
}

/* ---- find ---- */

static size_t common(const struct prefix_node *t, const tern_token *tokens, size_t n)
{
    size_t i = 0;
    n = min_size(n, t->n);
    if (!memcmp(t->tokens, tokens, n * sizeof *tokens))
        return n;
    while (t->tokens[i] == tokens[i])
        i++;
    return i;
}

int32_t prefix_overlap(const struct prefix_store *s, int32_t parent, const tern_token *tokens,
                       size_t n)
{
    int32_t i = child_of(s, parent);
    while (i >= 0 && common(&s->nodes[i], tokens, n) < min_size(n, s->nodes[i].n))
        i = s->nodes[i].right;
    return i;
}

/* True when the node and those before it hold all that position n, in or behind the node, sees. Where
 * there is no window, each node has its page. */
static bool has_pages(const struct prefix_store *s, int32_t node, size_t n)
{
    for (size_t i = 0; i < n_classes(s); i++) {
        const struct cache_class *class = &s->cache->classes[i];
        size_t first = class->window ? cache_needed_block(class, n) : SIZE_MAX;
        for (int32_t at = node; at >= 0 && s->nodes[at].block >= first; at = s->nodes[at].parent)
            if (prefix_pages(s, at)[i] < 0)
                return false;
    }
    return true;
}

struct find { /* a place in the tree */
    int32_t node, state;
    size_t n; /* tokens up to there */
};

/* The farthest place in the node, at most k tokens into it, from which a sequence can go on; or that of
 * 0 tokens */
static struct find place_in(const struct prefix_store *s, int32_t node, size_t k)
{
    struct find p = {node, PREFIX_NONE, 0};
    if (s->cache->recurrent.state_floats) {
        if ((p.state = state_before(s, node, k)) < 0)
            return p;
        k = s->states[p.state].after;
    }
    if (k && has_pages(s, node, begin_of(s, node) + k))
        p.n = begin_of(s, node) + k;
    return p;
}

/* Follows tokens [n] from a node or root; *known is how many are kept, whether or not a sequence can go
 * on there. */
static struct find follow(const struct prefix_store *s, const tern_token *tokens, size_t n, bool far,
                           size_t *known)
{
    struct find best = {PREFIX_NONE, PREFIX_NONE, 0}, p;
    int32_t parent = root_of(far), whole;
    size_t at = 0;
    *known = 0;
    do {
        whole = PREFIX_NONE;
        for (int32_t i = child_of(s, parent); i >= 0 && whole < 0; i = s->nodes[i].right) {
            size_t k = common(&s->nodes[i], tokens + at, n - at);
            if (k == BLOCK)
                whole = i;
            *known = max_size(*known, at + k);
            p = place_in(s, i, k);
            if (p.n > best.n)
                best = p;
        }
        parent = whole, at += BLOCK;
    } while (whole >= 0);
    return best;
}

size_t prefix_reach(const struct prefix_store *s, const tern_token *tokens, size_t n, bool far)
{
    size_t known;
    return s->n_nodes ? follow(s, tokens, n, far, &known).n : 0;
}

/* Position of the first row of the layer that guesses in the nodes up to this one; they follow. */
static size_t first_row(const struct prefix_store *s, int32_t node)
{
    while (node >= 0 && !s->nodes[node].rows_from)
        node = s->nodes[node].parent;
    return node < 0 ? 1 : begin_of(s, node) + s->nodes[node].rows_from;
}

static void release_end(struct prefix_store *s, size_t seq)
{
    for (size_t i = 0; i < s->n_states; i++)
        if (s->states[i].node >= 0 && s->states[i].end_of == (int32_t)seq)
            s->states[i].end_of = PREFIX_NONE;
}

/* The empty sequence becomes what ends at the place. */
static void adopt(struct prefix_store *s, size_t seq, const struct find *p,
                  const tern_token *tokens, bool far)
{
    struct cache *c = s->cache;
    for (int32_t at = p->node; at >= 0; at = s->nodes[at].parent)
        for (int i = 0; i < c->n_classes; i++) {
            int32_t page = prefix_pages(s, at)[i];
            if (s->nodes[at].block >= cache_first_block(&c->classes[i], p->n) && page >= 0)
                cache_put_page(c, i, seq, s->nodes[at].block, page);
        }
    cache_adopt(c, seq, tokens, p->n, far);
    if (p->state >= 0) {
        recurrent_adopt(&c->recurrent, seq, s->states[p->state].snapshot);
        s->states[p->state].end_of = PREFIX_NONE;
    }
    hidden_refill(&c->hidden, seq, p->n, min_size(first_row(s, p->node), p->n));
}

size_t prefix_find(struct prefix_store *s, size_t seq, const tern_token *tokens, size_t n, bool far)
{
    struct recurrent *r = &s->cache->recurrent;
    size_t known;
    cache_keep(s->cache, seq, 0);
    if (!s->n_nodes)
        return 0;
    struct find p = follow(s, tokens, n, far, &known);
    release_end(s, seq);
    s->cursors[seq].node = PREFIX_NONE;
    if (r->state_floats && known > p.n + RECURRENT_TAIL)
        r->seqs[seq].wanted = known; /* a third text may branch off there, too */
    *(p.n ? &s->hits : &s->misses) += 1;
    if (!p.n)
        return 0;
    touch(s, p.node);
    adopt(s, seq, &p, tokens, far);
    return p.n;
}

/* ---- keep ---- */

/* The node has the pages of the sequence. */
static void take_pages(struct prefix_store *s, int32_t node, size_t seq)
{
    struct cache *c = s->cache;
    for (int i = 0; i < c->n_classes; i++) {
        int32_t page = cache_page(c, i, seq, s->nodes[node].block);
        if (page >= 0)
            cache_hold_page(c, i, page);
        cache_drop_page(c, i, &prefix_pages(s, node)[i]);
        prefix_pages(s, node)[i] = page;
    }
}

/* First row of the layer that guesses in a block of the sequence, counted from its begin; 0: all are there */
static uint32_t rows_from(const struct prefix_store *s, size_t seq, size_t begin)
{
    const struct hidden *h = &s->cache->hidden;
    size_t first = h->dim ? h->seqs[seq].first : 0;
    return first <= max_size(begin, 1) ? 0 : (uint32_t)min_size(first - begin, BLOCK);
}

/* The whole block of the sequence and the node have the same tokens: they share pages from now on. The
 * pages with more rows of the layer that guesses stay. */
static void share(struct prefix_store *s, int32_t node, size_t seq)
{
    struct cache *c = s->cache;
    size_t block = s->nodes[node].block;
    uint32_t from = rows_from(s, seq, block * BLOCK);
    bool better = from < s->nodes[node].rows_from;
    for (int i = 0; i < c->n_classes; i++)
        better &= cache_page(c, i, seq, block) >= 0;
    for (int i = 0; i < c->n_classes; i++) {
        int32_t *kept = &prefix_pages(s, node)[i], own = cache_page(c, i, seq, block);
        if (own < 0 || own == *kept)
            continue;
        if (*kept >= 0 && !better) {
            cache_put_page(c, i, seq, block, *kept);
            continue;
        }
        cache_hold_page(c, i, own);
        cache_drop_page(c, i, kept);
        *kept = own;
    }
    if (better)
        s->nodes[node].rows_from = from;
}

/* The node under the parent with these tokens of the sequence, n of a block: one that is there, one that
 * ends earlier and grows, or a new one. PREFIX_NONE: the store is full. */
static int32_t keep_block(struct prefix_store *s, size_t seq, int32_t parent,
                          const tern_token *tokens, size_t n)
{
    int32_t node = prefix_overlap(s, parent, tokens, n);
    if (node >= 0) {
        unlink_use(s, node);
        link_use(s, node, parent < 0 ? PREFIX_NONE : parent);
        if (n == BLOCK && s->nodes[node].n == BLOCK)
            share(s, node, seq);
        if (n <= s->nodes[node].n)
            return node;
    } else if ((node = new_node(s, parent, tokens, n)) < 0) {
        return node;
    }
    set_tokens(s, node, tokens, n);
    take_pages(s, node, seq);
    s->nodes[node].rows_from = rows_from(s, seq, begin_of(s, node));
    return node;
}

static bool has_state(const struct prefix_store *s, int32_t node, size_t after)
{
    int32_t i = state_before(s, node, after);
    return i >= 0 && s->states[i].after == after;
}

/* The sequence's snapshots that lie in the node */
static void keep_snapshots(struct prefix_store *s, int32_t node, size_t seq)
{
    const struct recurrent *r = &s->cache->recurrent;
    const struct recurrent_seq *q = &r->seqs[seq];
    size_t begin = begin_of(s, node), end = min_size(end_of(s, node), s->cache->length[seq]);
    for (size_t i = 0; i < q->n_snapshots; i++) {
        const struct snapshot *t = &r->snapshots[q->snapshots[i]];
        bool is_end = t->at == q->tail || t->at == q->wanted;
        if (t->at <= begin || t->at > end || t->kept || has_state(s, node, t->at - begin))
            continue;
        int32_t state = add_state(s, node, t->at - begin, is_end);
        if (state >= 0)
            name_snapshot(s, state, (size_t)q->snapshots[i]);
    }
}

/* The state at the end of the sequence, in the place of that of its last end */
static void keep_end(struct prefix_store *s, int32_t node, size_t seq)
{
    struct recurrent *r = &s->cache->recurrent;
    size_t n = s->cache->length[seq], after = n - begin_of(s, node);
    if (has_state(s, node, after))
        return;
    for (size_t i = 0; i < s->n_states; i++)
        if (s->states[i].node >= 0 && s->states[i].end_of == (int32_t)seq)
            drop_state(s, (int32_t)i);
    int32_t state = add_state(s, node, after, true);
    if (state < 0)
        return;
    memcpy(fill_state(s, state), recurrent_state(r, seq, n), r->state_floats * sizeof(float));
    s->states[state].end_of = (int32_t)seq;
}

/* The last whole block that the sequence shares with the store, if it is known without a search: they
 * have a page in common. */
static int32_t cursor_of(const struct prefix_store *s, size_t seq)
{
    const struct prefix_cursor *at = &s->cursors[seq];
    if (at->node < 0 || s->nodes[at->node].serial != at->serial ||
        end_of(s, at->node) > s->cache->length[seq])
        return PREFIX_NONE;
    for (int i = 0; i < s->cache->n_classes; i++) {
        int32_t page = prefix_pages(s, at->node)[i];
        if (page >= 0 && page == cache_page(s->cache, i, seq, s->nodes[at->node].block))
            return at->node;
    }
    return PREFIX_NONE;
}

void prefix_keep(struct prefix_store *s, size_t seq)
{
    const struct cache *c = s->cache;
    const tern_token *tokens = c->tokens + seq * c->n_ctx;
    size_t n = c->length[seq];
    int32_t at = s->n_nodes ? cursor_of(s, seq) : PREFIX_NONE;
    size_t begin = end_of(s, at);
    if (!s->n_nodes || begin == n)
        return;
    touch(s, at);
    at = at < 0 ? root_of(c->far[seq]) : at;
    for (size_t k; begin < n; begin += k) {
        k = min_size(BLOCK, n - begin);
        if ((at = keep_block(s, seq, at, tokens + begin, k)) < 0)
            return;
        if (k == BLOCK)
            s->cursors[seq] = (struct prefix_cursor){at, s->nodes[at].serial};
        if (c->recurrent.state_floats)
            keep_snapshots(s, at, seq);
    }
    if (c->recurrent.state_floats)
        keep_end(s, at, seq);
}
