/* The file of a store of prefixes: see prefix_file.h. */
#include "model/prefix_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/sizes.h"
#include "base/xxh64.h"
#include "model/kv_store.h"
#include "model/session.h"
#include "model/split_store.h"
#include "weights/file_layout.h"

enum {
    OWNER = 40, /* offsets in the header */
    SHAPE = OWNER + 8 * SESSION_OWNERS,
    CLASSES = SHAPE + 4 * 8, /* behind: nodes, layers, bytes of a state, classes */
    MAX_CLASSES = 64,        /* bits of a node's field */
    CHUNK = 1 << 16          /* of what is read and left out */
};

enum field { PARENT, TOKENS, ROWS_FROM, PAGES, STATES, N_FIELDS }; /* u64s of a node */

static const char name[] = "the file of prefixes";

static size_t header_bytes(const struct cache *c)
{
    return CLASSES + 16 * (size_t)c->n_classes;
}

/* The whole header but for its checksum, and the size of the file */
static void fill_header(const struct prefix_store *s, const struct model *m, uint64_t n_nodes,
                        unsigned char *header)
{
    const struct cache *c = s->cache;
    uint64_t owner[SESSION_OWNERS], kind = LAYOUT_KIND_PREFIXES, bytes = header_bytes(c);
    const uint64_t shape[] = {n_nodes, c->n_layers, m->state_floats * sizeof(float),
                              (uint64_t)c->n_classes};
    memset(header, 0, header_bytes(c));
    memcpy(header, LAYOUT_MAGIC, 4);
    header[LAYOUT_VERSION] = TERN_FORMAT_MAJOR;
    header[LAYOUT_VERSION + 2] = TERN_FORMAT_MINOR;
    memcpy(header + LAYOUT_KIND, &kind, sizeof kind);
    memcpy(header + LAYOUT_HEADER_BYTES, &bytes, sizeof bytes);
    session_owners(c, m, owner);
    memcpy(header + OWNER, owner, sizeof owner);
    memcpy(header + SHAPE, shape, sizeof shape);
    for (int i = 0; i < c->n_classes; i++) {
        const uint64_t class[] = {c->classes[i].window, cache_whole_bytes(&c->classes[i])};
        memcpy(header + CLASSES + 16 * i, class, sizeof class);
    }
}

static enum tern_status check_classes(const struct cache *c, struct tern_error *e)
{
    return c->n_classes <= MAX_CLASSES
               ? TERN_OK
               : error_set(e, TERN_LIMIT, "prefixes of a model with more than %d windows cannot be saved",
                           MAX_CLASSES);
}

/* ---- save --------------------------------------------------------------------------------- */

struct out {
    const struct prefix_store *s;
    const struct model *m;
    int fd;
    uint64_t at;
    struct xxh64 hash;   /* of the node */
    uint64_t *number;    /* [n_nodes] of the nodes written, from 1 */
    unsigned char *page; /* [page_bytes + zeros] */
    size_t largest;      /* of all classes */
};

static enum tern_status put(struct out *o, const void *p, size_t n, struct tern_error *e)
{
    uint64_t at = o->at;
    xxh64_update(&o->hash, p, n);
    o->at += n;
    return file_write_at(o->fd, p, n, at, name, e);
}

/* A page without what the node does not know */
static enum tern_status put_page(struct out *o, int32_t node, int class, struct tern_error *e)
{
    const struct cache *c = o->s->cache;
    const struct cache_class *k = &c->classes[class];
    const struct prefix_node *t = &o->s->nodes[node];
    size_t bytes = cache_whole_bytes(k);
    const unsigned char *from = store_page(c, o->m, class, prefix_pages(o->s, node)[class]);
    size_t first = t->block || t->rows_from ? t->rows_from : 1; /* the first token has no row */
    if (t->n == BLOCK && (!first || !c->hidden.dim))
        return put(o, from, bytes, e);
    memcpy(o->page, from, bytes);
    for (size_t l = 0; l < c->n_layers; l++) {
        const struct layer *w = &o->m->layers[l];
        if (c->layers[l].class != class || w->kv_from)
            continue;
        unsigned char *block = o->page + cache_whole_offset(&c->layers[l]);
        kv_clear(block, c, w, t->n, BLOCK, o->page + o->largest);
        kv_clear(block, c, w, 0, l < o->m->n_layers ? 0 : first, o->page + o->largest);
    }
    return put(o, o->page, bytes, e);
}

/* The states of a node, by position */
static size_t states_of(const struct prefix_store *s, int32_t node, int32_t *states)
{
    size_t n = 0, at;
    for (int32_t i = s->nodes[node].state; i >= 0; i = s->states[i].next, n++) {
        for (at = n; at && s->states[states[at - 1]].after > s->states[i].after; at--)
            states[at] = states[at - 1];
        states[at] = i;
    }
    return n;
}

static enum tern_status put_states(struct out *o, const int32_t *states, size_t n,
                                   struct tern_error *e)
{
    const struct cache *c = o->s->cache;
    const struct recurrent *r = &c->recurrent;
    enum tern_status s = TERN_OK;
    for (size_t i = 0; i < n && !s; i++) {
        const float *state = recurrent_kept(r, o->s->states[states[i]].snapshot);
        s = put(o, store_floats(c, o->m, state), r->state_floats * sizeof(float), e);
    }
    return s;
}

static enum tern_status put_node(struct out *o, int32_t node, uint64_t number, struct tern_error *e)
{
    const struct prefix_node *t = &o->s->nodes[node];
    const int32_t *pages = prefix_pages(o->s, node);
    int n_classes = o->s->cache->n_classes;
    int32_t states[BLOCK];
    uint64_t after[BLOCK][2], sum, fields[N_FIELDS] = {
        [TOKENS] = t->n, [ROWS_FROM] = t->rows_from, [STATES] = states_of(o->s, node, states)};
    fields[PARENT] = t->parent < 0 ? (uint64_t)(-1 - t->parent) : o->number[t->parent] + 1;
    o->number[node] = number;
    for (size_t i = 0; i < fields[STATES]; i++) {
        const struct prefix_state *state = &o->s->states[states[i]];
        after[i][0] = state->after, after[i][1] = state->is_end;
    }
    for (int i = 0; i < n_classes; i++)
        fields[PAGES] |= (uint64_t)(pages[i] >= 0) << i;
    xxh64_init(&o->hash, 0);
    enum tern_status s = put(o, fields, sizeof fields, e);
    if (!s)
        s = put(o, t->tokens, t->n * sizeof *t->tokens, e);
    if (!s)
        s = put(o, after, fields[STATES] * sizeof *after, e);
    for (int i = 0; i < n_classes && !s; i++)
        if (pages[i] >= 0)
            s = put_page(o, node, i, e);
    if (!s)
        s = put_states(o, states, fields[STATES], e);
    sum = xxh64_digest(&o->hash);
    return s ? s : put(o, &sum, sizeof sum, e);
}

static enum tern_status put_all(struct out *o, unsigned char *header, struct tern_error *e)
{
    size_t bytes = header_bytes(o->s->cache), n = 0;
    enum tern_status s = TERN_OK;
    o->at = bytes;
    for (int32_t i = o->s->newest; i >= 0 && !s; i = o->s->nodes[i].older)
        s = put_node(o, i, ++n, e);
    fill_header(o->s, o->m, n, header);
    memcpy(header + LAYOUT_FILE_BYTES, &o->at, sizeof o->at);
    uint64_t sum = layout_header_checksum(header, bytes);
    memcpy(header + LAYOUT_CHECKSUM, &sum, sizeof sum);
    return s ? s : file_write_at(o->fd, header, bytes, 0, name, e);
}

enum tern_status prefix_save(const struct prefix_store *s, const struct model *m, int fd,
                             struct tern_error *e)
{
    struct out o = {.s = s, .m = m, .fd = fd};
    enum tern_status status = check_classes(s->cache, e);
    if (status)
        return status;
    for (int i = 0; i < s->cache->n_classes; i++)
        o.largest = max_size(o.largest, cache_whole_bytes(&s->cache->classes[i]));
    size_t zeros = o.largest / BLOCK + GROUP, bytes = header_bytes(s->cache);
    o.number = calloc(s->n_nodes, sizeof *o.number);
    o.page = calloc(1, o.largest + zeros);
    unsigned char *header = malloc(bytes);
    status = o.number && o.page && header ? put_all(&o, header, e)
                                          : error_memory(e, name, o.largest + bytes);
    free(o.number);
    free(o.page);
    free(header);
    return status;
}

/* ---- load --------------------------------------------------------------------------------- */

struct in {
    struct prefix_store *s;
    const struct model *m;
    int fd;
    uint64_t at, end;
    struct xxh64 hash;    /* of the node */
    /* [1 + n_nodes] of the nodes by number: where it is, PREFIX_NONE when left out; its number in the
     * text; it has all tokens */
    int32_t *node;
    uint32_t *block;
    bool *whole;
    unsigned char *chunk; /* [CHUNK] */
};

static enum tern_status damaged(const char *what, struct tern_error *e)
{
    return error_set(e, TERN_BAD_FILE, "%s: %s", name, what);
}

static enum tern_status take(struct in *in, void *p, size_t n, struct tern_error *e)
{
    if (n > in->end - in->at)
        return damaged("it ends within a page", e);
    enum tern_status s = file_read_at(in->fd, p, n, in->at, name, e);
    in->at += n;
    if (!s)
        xxh64_update(&in->hash, p, n);
    return s;
}

static enum tern_status skip(struct in *in, size_t n, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    for (size_t part; n && !s; n -= part)
        s = take(in, in->chunk, part = min_size(n, CHUNK), e);
    return s;
}

/* The header, which is that of our own store but for the number of nodes and the size */
static enum tern_status take_header(struct in *in, uint64_t *n_nodes, unsigned char *header,
                                    unsigned char *ours, struct tern_error *e)
{
    size_t bytes = header_bytes(in->s->cache), least = N_FIELDS * 8 + sizeof(tern_token) + 8;
    uint64_t owner[SESSION_OWNERS];
    enum tern_status s = file_size(in->fd, &in->end, name, e);
    if (s || (s = take(in, header, bytes, e)))
        return s;
    if (memcmp(header, LAYOUT_MAGIC, 4) || header[LAYOUT_VERSION] != TERN_FORMAT_MAJOR ||
        load_u64(header + LAYOUT_KIND) != LAYOUT_KIND_PREFIXES)
        return damaged("it is no file of prefixes of this version, or was not saved to its end", e);
    memcpy(owner, header + OWNER, sizeof owner);
    if (session_check_owners(in->s->cache, in->m, owner, e))
        return error_in(e, TERN_BAD_FILE, name);
    *n_nodes = load_u64(header + SHAPE);
    fill_header(in->s, in->m, *n_nodes, ours);
    if (memcmp(header + LAYOUT_HEADER_BYTES, ours + LAYOUT_HEADER_BYTES, 8) ||
        memcmp(header + OWNER, ours + OWNER, bytes - OWNER))
        return damaged("it was saved with other windows, or with another choice of the layer that "
                       "guesses (MTP)", e);
    if (load_u64(header + LAYOUT_FILE_BYTES) != in->end || *n_nodes > in->end / least ||
        load_u64(header + LAYOUT_CHECKSUM) != layout_header_checksum(header, bytes))
        return damaged("its header is damaged, or it was cut off", e);
    return TERN_OK;
}

/* What of a node must hold, whoever wrote it */
static bool is_possible(const struct in *in, const uint64_t *f, uint64_t number)
{
    const struct cache *c = in->s->cache;
    bool recurrent = in->m->state_floats;
    if (f[PARENT] > number || (f[PARENT] > 1 && !in->whole[f[PARENT] - 1]) ||
        (f[PARENT] == 1 && !in->m->rope_limit) || !f[TOKENS] || f[TOKENS] > BLOCK ||
        f[ROWS_FROM] > (c->hidden.dim ? BLOCK : 0) || f[STATES] > (recurrent ? f[TOKENS] : 0))
        return false;
    for (int i = 0; i < c->n_classes; i++)
        if (!c->classes[i].window && !(f[PAGES] >> i & 1))
            return false;
    return c->n_classes == MAX_CLASSES || f[PAGES] >> c->n_classes == 0;
}

static bool tokens_are_valid(const struct in *in, const tern_token *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= in->m->vocab)
            return false;
    return true;
}

static bool states_are_valid(uint64_t after[][2], size_t n, size_t n_tokens)
{
    uint64_t before = 0;
    for (size_t i = 0; i < n; before = after[i++][0])
        if (after[i][0] <= before || after[i][0] > n_tokens || after[i][1] > 1)
            return false;
    return true;
}

/* Where a node goes: a new one, or PREFIX_NONE when there is no room for it */
static enum tern_status place_node(struct in *in, const uint64_t *f, uint64_t number,
                                   const tern_token *tokens, struct tern_error *e)
{
    struct prefix_store *s = in->s;
    bool of_root = f[PARENT] < PREFIX_ROOTS;
    int32_t parent = of_root ? -1 - (int32_t)f[PARENT] : in->node[f[PARENT] - 1];
    in->block[number] = of_root ? 0 : in->block[f[PARENT] - 1] + 1;
    in->whole[number] = f[TOKENS] == BLOCK;
    in->node[number] = PREFIX_NONE;
    if ((parent < 0 && !of_root) || in->block[number] >= s->cache->n_blocks)
        return TERN_OK;
    if (prefix_overlap(s, parent, tokens, f[TOKENS]) >= 0)
        return damaged("two of its pages are of one text", e);
    store_add_node(in->m, parent, tokens, f[TOKENS], f[PAGES], (size_t)f[ROWS_FROM]);
    in->node[number] = prefix_add(s, parent, tokens, f[TOKENS], f[PAGES]);
    if (in->node[number] >= 0)
        s->nodes[in->node[number]].rows_from = (uint32_t)f[ROWS_FROM];
    return TERN_OK;
}

static enum tern_status take_pages(struct in *in, int32_t node, uint64_t classes,
                                   struct tern_error *e)
{
    const struct cache *c = in->s->cache;
    enum tern_status s = TERN_OK;
    for (int i = 0; i < c->n_classes && !s; i++) {
        size_t bytes = cache_whole_bytes(&c->classes[i]);
        if (!(classes >> i & 1))
            continue;
        if (node < 0) {
            s = skip(in, bytes, e);
            continue;
        }
        int32_t page = prefix_pages(in->s, node)[i];
        s = take(in, store_page_room(c, in->m, i, page), bytes, e);
        if (!s)
            store_put_page(in->s->cache, in->m, i, page);
    }
    return s;
}

static enum tern_status take_states(struct in *in, int32_t node, uint64_t after[][2], size_t n,
                                    struct tern_error *e)
{
    size_t bytes = in->m->state_floats * sizeof(float);
    enum tern_status s = TERN_OK;
    for (size_t i = 0; i < n && !s; i++) {
        float *to = NULL;
        if (node >= 0) {
            store_add_state(in->m, node, after[i][0], after[i][1] != 0);
            to = prefix_add_state(in->s, node, after[i][0], after[i][1] != 0);
        }
        s = to ? take(in, store_floats_room(in->m, to), bytes, e) : skip(in, bytes, e);
        if (to && !s)
            store_put_floats(in->s->cache, in->m, to);
    }
    return s;
}

static enum tern_status take_node(struct in *in, uint64_t number, struct tern_error *e)
{
    uint64_t f[N_FIELDS], after[BLOCK][2], sum, stated;
    tern_token tokens[BLOCK];
    xxh64_init(&in->hash, 0);
    enum tern_status s = take(in, f, sizeof f, e);
    if (!s && !is_possible(in, f, number))
        s = damaged("a page cannot be where it is", e);
    if (s || (s = take(in, tokens, f[TOKENS] * sizeof *tokens, e)) ||
        (s = take(in, after, f[STATES] * sizeof *after, e)))
        return s;
    if (!tokens_are_valid(in, tokens, f[TOKENS]) ||
        !states_are_valid(after, f[STATES], f[TOKENS]))
        return damaged("a page has tokens or states that cannot be", e);
    if ((s = place_node(in, f, number, tokens, e)) ||
        (s = take_pages(in, in->node[number], f[PAGES], e)) ||
        (s = take_states(in, in->node[number], after, f[STATES], e)))
        return s;
    sum = xxh64_digest(&in->hash);
    if ((s = take(in, &stated, sizeof stated, e)))
        return s;
    return stated == sum ? TERN_OK : damaged("a page is damaged", e);
}

static enum tern_status take_all(struct in *in, uint64_t n_nodes, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    in->node = calloc(n_nodes + 1, sizeof *in->node);
    in->block = calloc(n_nodes + 1, sizeof *in->block);
    in->whole = calloc(n_nodes + 1, sizeof *in->whole);
    in->chunk = malloc(CHUNK);
    if (!in->node || !in->block || !in->whole || !in->chunk)
        s = error_memory(e, name, n_nodes * sizeof *in->node + CHUNK);
    for (uint64_t i = 1; i <= n_nodes && !s; i++)
        s = take_node(in, i, e);
    free(in->node);
    free(in->block);
    free(in->whole);
    free(in->chunk);
    return s || in->at == in->end ? s : damaged("there is more behind its last page", e);
}

enum tern_status prefix_load(struct prefix_store *s, const struct model *m, int fd,
                             struct tern_error *e)
{
    struct in in = {.s = s, .m = m, .fd = fd};
    struct tern_error mine;
    enum tern_status status = check_classes(s->cache, e = e ? e : &mine);
    uint64_t n_nodes = 0;
    if (status)
        return status;
    unsigned char *header = malloc(2 * header_bytes(s->cache));
    status = header ? take_header(&in, &n_nodes, header, header + header_bytes(s->cache), e)
                    : error_memory(e, name, 2 * header_bytes(s->cache));
    free(header);
    if (!status)
        status = take_all(&in, n_nodes, e);
    if (status)
        prefix_clear(s);
    return status;
}
