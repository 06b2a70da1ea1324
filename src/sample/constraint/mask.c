/* cflags: -O2 */
/* Masks: see mask.h. */
#include "sample/constraint/mask.h"

#include "sample/language/language_parts.h"
#include "sample/constraint/mask_cache.h"
#include "sample/constraint/mask_reach.h"

#include <stdlib.h>
#include <string.h>

/* A subtree of fewer nodes is walked by the recognizer even where a word's language could decide. */
enum { SUBTREE_LEAST = 48 };

struct masks {
    const struct recognizer *r;
    const struct spelling *s;
    struct budget *budget;
    uint64_t all_steps;   /* of the budget */
    uint64_t steps;       /* that each call may take: all or fewer */
    size_t bytes;         /* of the arrays below */
    struct track *track;  /* of the state being asked */
    struct place *places; /* [depth + 2], by depth */
    uint32_t *ends;       /* [depth + 2]: the node behind the subtree at each depth */
    struct place *before; /* [depth + 2]: on the way to a node */
    lang *states;         /* [depth + 2]: of a word's walk, which may be within another */
    uint32_t *word_ends;  /* [depth + 2] */
    lang *free_states;    /* [depth + 2]: of LANG_CHARS after the same bytes */
    uint32_t *same;       /* [n_same] of [nodes of the tree]: see walk_word */
    uint32_t n_same;
    struct mask_set inside, alive, whole;
    struct mask_cross *cross; /* [n_cross] of [nodes of the tree] */
    uint32_t n_cross;
    struct mask_cache cache;
    struct reaches reaches;
};

/* Counted, and given back by masks_close. */
static void *allot(struct masks *m, size_t n, size_t size)
{
    if (!quota_take(m->budget->quota, n * size))
        return NULL;
    m->bytes += n * size;
    return malloc(n * size);
}

static bool open_set(struct masks *m, struct mask_set *s, uint32_t n_words)
{
    s->n_words = n_words;
    s->bits = allot(m, n_words + (size_t)1, sizeof *s->bits);
    s->list = allot(m, n_words + (size_t)1, sizeof *s->list);
    return s->bits && s->list;
}

struct masks *masks_open(const struct recognizer *r, const struct spelling *s, struct budget *b)
{
    struct masks *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    size_t depth = s->tree.depth + (size_t)2;
    uint32_t n_words = (s->n_tokens + 31) / 32;
    m->r = r, m->s = s, m->budget = b, m->all_steps = m->steps = b->steps;
    m->cache.limit = MASK_CACHE_BYTES;
    m->cache.quota = b->quota;
    m->places = allot(m, depth, sizeof *m->places);
    m->before = allot(m, depth, sizeof *m->before);
    m->states = allot(m, depth, sizeof *m->states);
    m->free_states = allot(m, depth, sizeof *m->free_states);
    m->same = allot(m, s->tree.n_nodes, sizeof *m->same);
    m->ends = allot(m, depth, sizeof *m->ends);
    m->word_ends = allot(m, depth, sizeof *m->word_ends);
    m->cross = allot(m, s->tree.n_nodes, sizeof *m->cross);
    bool sets = open_set(m, &m->inside, n_words);
    sets = open_set(m, &m->alive, n_words) && sets;
    sets = open_set(m, &m->whole, n_words) && sets;
    if (m->places && m->before && m->states && m->ends && m->word_ends && m->cross && sets &&
        m->free_states && m->same)
        return m;
    masks_close(m);
    return NULL;
}

void masks_close(struct masks *m)
{
    if (!m)
        return;
    mask_cache_close(&m->cache);
    for (int i = 0; i < 3; i++) {
        struct mask_set *s = i == 0 ? &m->inside : i == 1 ? &m->alive : &m->whole;
        free(s->bits);
        free(s->list);
    }
    free(m->places);
    free(m->before);
    free(m->states);
    free(m->free_states);
    free(m->same);
    free(m->ends);
    free(m->word_ends);
    free(m->cross);
    quota_give(m->budget->quota, m->bytes);
    free(m);
}

static void clear_bit(uint32_t *bits, uint32_t token)
{
    bits[token / 32] &= ~((uint32_t)1 << token % 32);
}

static void add_tokens(struct mask_set *out, const struct token_tree *tree,
                       const struct token_node *x)
{
    for (uint32_t i = x->first; i < x[1].first; i++)
        mask_set_add(out, (uint32_t)tree->tokens[i]);
}

static enum step step_byte(const struct masks *m, struct place *p, unsigned char byte)
{
    return m->r->step(m->r->self, m->track, p, byte);
}

static lang word_of(const struct masks *m, const struct place *p, bool *in_string)
{
    *in_string = false;
    return m->r->languages ? m->r->word(m->r->self, m->track, p, m->s->tree.depth, in_string)
                           : LANG_NONE;
}

static void cross_at(struct masks *m, uint32_t node, uint32_t depth)
{
    m->cross[m->n_cross++] = (struct mask_cross){node, depth};
}

void masks_allow(struct masks *m, uint64_t steps, struct stop *stop)
{
    m->steps = steps < m->all_steps ? steps : m->all_steps;
    m->budget->stop = stop;
}

void masks_begin(struct masks *m, struct track *t)
{
    m->track = t;
    m->budget->steps = m->steps;
    m->budget->is_empty = m->budget->no_memory = t->no_memory = false;
}

enum step masks_step(struct masks *m, struct track *t, struct place *p, tern_token token)
{
    uint32_t n;
    const unsigned char *text = spelling_of(m->s, token, &n);
    struct place next = *p;
    enum step step = n ? STEP_ALIVE : STEP_DEAD;
    masks_begin(m, t);
    for (uint32_t i = 0; i < n && step == STEP_ALIVE; i++)
        step = m->r->step(m->r->self, t, &next, text[i]);
    if (step == STEP_ALIVE)
        *p = next;
    return step;
}

/* ---- walks --------------------------------------------------------------------------------- */

enum walk_kind {
    WALK_BYTES,     /* the recognizer decides about each byte */
    WALK_WORDS,     /* the languages of words decide about larger subtrees */
    WALK_TO_THE_END /* of a string: nodes that end it are kept in m->cross */
};

static bool add_word(struct masks *m, uint32_t root, uint32_t depth, lang a, bool in_string,
                     const struct place *p, struct mask_set *out);

/* Does the byte end the string that p is in? *crosses: and it may */
static bool ends_string(const struct masks *m, const struct place *p, unsigned byte, bool *crosses)
{
    bool in_string = false;
    lang word = byte == '"' ? word_of(m, p, &in_string) : LANG_NONE;
    *crosses = in_string && lang_accepts(m->r->languages, word);
    return in_string;
}

/* Adds the tokens of the tree below `root`, at `depth`, that are alive from m->places[depth] on. */
static bool walk(struct masks *m, const struct token_tree *tree, uint32_t root, uint32_t depth,
                 enum walk_kind kind, struct mask_set *out)
{
    const struct token_node *nodes = tree->nodes;
    const uint32_t end = root + nodes[root].size;
    uint32_t d = depth;
    m->ends[d] = end;
    for (uint32_t i = root + 1; i < end;) {
        const struct token_node *x = &nodes[i];
        bool in_string, crosses;
        while (i >= m->ends[d])
            d--;
        struct place *p = &m->places[d + 1];
        *p = m->places[d];
        if (kind == WALK_TO_THE_END && ends_string(m, p, x->byte, &crosses)) {
            if (crosses)
                cross_at(m, i, d + 1);
            i += x->size;
            continue;
        }
        enum step step = step_byte(m, p, (unsigned char)x->byte);
        if (step == STEP_NO_ROOM)
            return false;
        if (step == STEP_DEAD) {
            i += x->size;
            continue;
        }
        add_tokens(out, tree, x);
        bool large = kind == WALK_WORDS && x->size >= SUBTREE_LEAST;
        lang a = large ? word_of(m, p, &in_string) : LANG_NONE;
        if (a != LANG_NONE) {
            if (!add_word(m, i, d + 1, a, in_string, p, out))
                return false;
            i += x->size;
            continue;
        }
        m->ends[d + 1] = i + x->size;
        d += x->size > 1;
        i++;
    }
    return true;
}

/* ---- nodes tried one after another ------------------------------------------------------------ */

/* Steps from one node's place to the next: what their ways have in common is stepped once. */
struct mask_way {
    uint32_t from;             /* depth of m->before[0] */
    uint32_t known;            /* places before[0 .. known] hold for `text` */
    const unsigned char *text; /* of the last node, from `from` on; NULL: none yet */
};

/* m->before[depth - w->from] = the place behind p[0..depth). */
static enum step come_near(struct masks *m, struct mask_way *w, const unsigned char *p,
                           uint32_t depth)
{
    uint32_t k = 0, length = depth - w->from;
    p += w->from;
    while (w->text && k < w->known && k < length && w->text[k] == p[k])
        k++;
    w->text = p;
    enum step step = STEP_ALIVE;
    for (; k < length && step == STEP_ALIVE; k++) {
        m->before[k + 1] = m->before[k];
        step = step_byte(m, &m->before[k + 1], p[k]);
    }
    w->known = step == STEP_ALIVE ? k : k - 1;
    return step;
}

/* Adds the tokens at and below a node, if they are alive. */
static bool try_node(struct masks *m, struct mask_way *w, struct mask_cross at, enum walk_kind kind,
                     struct mask_set *out)
{
    const struct token_node *x = &m->s->tree.nodes[at.node];
    uint32_t n;
    enum step step = come_near(m, w, spelling_of(m->s, m->s->tree.tokens[x->first], &n), at.depth);
    if (step != STEP_ALIVE)
        return step == STEP_DEAD;
    add_tokens(out, &m->s->tree, x);
    if (x->size == 1)
        return true;
    m->places[at.depth] = m->before[at.depth - w->from];
    return walk(m, &m->s->tree, at.node, at.depth, kind, out);
}

/* ---- words: what their languages decide ---------------------------------------------------- */

/* What a walk over a word's subtree knows of the entry of LANG_CHARS for the same subtree */
struct base {
    const struct mask_entry *entry; /* NULL: not used */
    uint32_t next;                  /* of its crossings: the first one not passed yet */
    bool plain;                     /* it lacks tokens with escapes; they are tried here */
    uint32_t other;                 /* of m->s->others: the first one not passed yet */
};

/* Whether the string may end at a crossing below a node at `depth`, behind which its rest is a. */
static bool may_end_at(struct masks *m, struct mask_way *way, struct mask_cross at, uint32_t depth,
                       lang a)
{
    const struct token_tree *tree = &m->s->tree;
    uint32_t n;
    const unsigned char *p = spelling_of(m->s, tree->tokens[tree->nodes[at.node].first], &n);
    bool crosses = false;
    for (uint32_t i = depth; i + 1 < at.depth; i++) {
        if (p[i] == '\\')
            return come_near(m, way, p, at.depth - 1) == STEP_ALIVE &&
                   ends_string(m, &m->before[at.depth - 1 - way->from], '"', &crosses) && crosses;
        a = lang_step(m->r->languages, a, p[i]);
    }
    return a != LANG_NONE && lang_accepts(m->r->languages, a);
}

/* The subtree of a node at `depth` is as in any string: its tokens are added later, its crossings are those of
 * the base where the string may end. Behind the node its rest is a. */
static bool keep_same(struct masks *m, struct base *base, struct mask_way *way, uint32_t node,
                      uint32_t depth, lang a)
{
    const struct mask_cross *cross = mask_entry_cross(base->entry);
    const struct spelling_other *others = m->s->others;
    const uint32_t end = node + m->s->tree.nodes[node].size;
    const bool any = a == LANG_CHARS;
    m->same[m->n_same++] = node;
    while (base->next < base->entry->n_cross && cross[base->next].node < node)
        base->next++;
    for (; base->next < base->entry->n_cross && cross[base->next].node < end; base->next++)
        if (any || may_end_at(m, way, cross[base->next], depth, a))
            m->cross[m->n_cross++] = cross[base->next];
    if (!base->plain)
        return true;
    while (base->other < m->s->n_others && others[base->other].node < node)
        base->other++;
    for (; base->other < m->s->n_others && others[base->other].node < end; base->other++) {
        struct mask_cross at = {others[base->other].node, others[base->other].depth};
        if (m->s->tree.nodes[at.node].byte == '\\' &&
            !try_node(m, way, at, WALK_TO_THE_END, &m->inside))
            return false;
    }
    return true;
}

/* Adds the tokens of the base in the subtrees that are the same. */
static void add_same(struct masks *m, const struct mask_entry *base, uint32_t root)
{
    const struct token_tree *tree = &m->s->tree;
    const struct token_node *nodes = tree->nodes;
    uint32_t at = nodes[root + 1].first, total = 0;
    const uint32_t end = nodes[root + nodes[root].size].first;
    mask_set_clear(&m->alive);
    mask_entry_give(base, &m->alive);
    for (uint32_t i = 0; i < m->n_same; i++)
        total += nodes[m->same[i] + nodes[m->same[i]].size].first - nodes[m->same[i]].first;
    bool most = 2 * total > end - at; /* then the others are taken out */
    for (uint32_t i = 0; i <= m->n_same; i++) {
        bool last = i == m->n_same;
        uint32_t from = last ? end : nodes[m->same[i]].first;
        uint32_t to = last ? end : nodes[m->same[i] + nodes[m->same[i]].size].first;
        for (; most && at < from; at++)
            clear_bit(m->alive.bits, (uint32_t)tree->tokens[at]);
        for (; !most && from < to; from++)
            if (mask_set_has(&m->alive, (uint32_t)tree->tokens[from]))
                mask_set_add(&m->inside, (uint32_t)tree->tokens[from]);
        at = to;
    }
    if (!most)
        return;
    for (uint32_t i = 0; i < m->inside.n_words; i++)
        m->inside.bits[i] |= m->alive.bits[i];
    m->inside.n = UINT32_MAX;
}

/* Whether every token below a node that is content of any string is content of this one, too */
static bool is_same(struct masks *m, lang a, lang any, uint32_t node)
{
    return a == any || (any == LANG_CHARS &&
                        reaches_find(&m->reaches, m->r->languages, a) >= m->s->height[node]);
}

/* Fills m->inside and m->cross for the subtree of a node at `depth`, from a word at its place p. Where a
 * string may go on as any string, the subtree is not walked: `base` has its answer. */
static bool walk_word(struct masks *m, uint32_t root, uint32_t depth, lang a, bool in_string,
                      const struct place *p, struct base *base)
{
    const struct token_node *nodes = m->s->tree.nodes;
    struct languages *ls = m->r->languages;
    uint32_t d = 0, *ends = m->word_ends;
    struct mask_way way = {.from = depth};
    m->before[0] = *p;
    m->states[0] = a, m->free_states[0] = LANG_CHARS, ends[0] = root + nodes[root].size;
    for (uint32_t i = root + 1; i < ends[0];) {
        const struct token_node *x = &nodes[i];
        while (i >= ends[d])
            d--;
        lang from = m->states[d], next = LANG_NONE;
        bool leaves = in_string && (x->byte == '"' || x->byte == '\\' || x->byte < 0x20);
        if (!leaves)
            next = lang_step(ls, from, (unsigned char)x->byte);
        if (next == LANG_FAIL)
            return false;
        if (next != LANG_NONE) {
            if (base->entry)
                m->free_states[d + 1] = lang_step(ls, m->free_states[d], (unsigned char)x->byte);
            if (base->entry && is_same(m, next, m->free_states[d + 1], i)) {
                if (!keep_same(m, base, &way, i, depth + d + 1, next))
                    return false;
                i += x->size;
                continue;
            }
            add_tokens(&m->inside, &m->s->tree, x);
            m->states[d + 1] = next, ends[d + 1] = i + x->size;
            d += x->size > 1;
            i++;
            continue;
        }
        struct mask_cross at = {i, depth + d + 1};
        if (in_string && x->byte == '\\') {
            if (!try_node(m, &way, at, WALK_TO_THE_END, &m->inside))
                return false;
        } else if ((!in_string || x->byte == '"') && lang_accepts(ls, from)) {
            cross_at(m, at.node, at.depth);
        }
        i += x->size;
    }
    if (base->entry)
        add_same(m, base->entry, root);
    return true;
}

/* m->inside = plain tokens of at most `max` characters; max is below SPELLING_CHARACTERS, or no token has
 * more. */
static void set_plain(struct masks *m, uint32_t max)
{
    const struct spelling *s = m->s;
    const uint32_t all = s->plain_start[SPELLING_CHARACTERS + 1];
    uint32_t from = max < SPELLING_CHARACTERS ? s->plain_start[max + 1] : all;
    if (from < m->inside.n_words) {
        for (uint32_t i = 0; i < from; i++)
            mask_set_add(&m->inside, (uint32_t)s->plain[i]);
        return;
    }
    memcpy(m->inside.bits, s->plain_bits, m->inside.n_words * sizeof *m->inside.bits);
    m->inside.n = UINT32_MAX;
    for (uint32_t i = from; i < all; i++)
        clear_bit(m->inside.bits, (uint32_t)s->plain[i]);
}

/* What walk_word finds from the root in a string of min to max characters, without a walk. Escapes are
 * tried from p; NULL: they are left out. */
static bool fill_length(struct masks *m, uint32_t min, uint32_t max, const struct place *p)
{
    const struct spelling *s = m->s;
    struct mask_way way = {.from = 0};
    set_plain(m, max);
    if (p)
        m->before[0] = *p;
    for (uint32_t i = 0; i < s->n_others; i++) {
        const struct spelling_other *x = &s->others[i];
        struct mask_cross at = {x->node, x->depth};
        if (s->tree.nodes[x->node].byte == '\\') {
            if (p && x->characters < max && !try_node(m, &way, at, WALK_TO_THE_END, &m->inside))
                return false;
        } else if (x->characters >= min && x->characters <= max) {
            cross_at(m, at.node, at.depth);
        }
    }
    return true;
}

static void begin_entry(struct masks *m)
{
    mask_set_clear(&m->inside);
    m->n_cross = m->n_same = 0;
}

static const struct mask_entry *end_entry(struct masks *m, struct mask_key key)
{
    const struct mask_entry *x = mask_cache_add(&m->cache, key, &m->inside, m->cross, m->n_cross);
    m->budget->no_memory |= !x;
    return x;
}

static struct mask_key word_key(lang a, bool in_string, uint32_t root)
{
    return (struct mask_key){a | (uint64_t)in_string << 32, (uint64_t)1 << 63 | root};
}

/* What is known of any string in a subtree; false: no memory */
static bool find_base(struct masks *m, uint32_t root, struct base *out)
{
    struct mask_key plain = word_key(LANG_CHARS, true, root);
    plain.what |= (uint64_t)1 << 33;
    *out = (struct base){.entry = mask_cache_find(&m->cache, word_key(LANG_CHARS, true, root))};
    if (out->entry || root)
        return true;
    out->plain = true;
    out->entry = mask_cache_find(&m->cache, plain);
    if (out->entry)
        return true;
    begin_entry(m);
    fill_length(m, 0, UINT32_MAX, NULL);
    out->entry = end_entry(m, plain);
    return out->entry != NULL;
}

/* Finds or makes what the word's language says of a subtree. */
static const struct mask_entry *word_entry(struct masks *m, uint32_t root, uint32_t depth, lang a,
                                           bool in_string, const struct place *p)
{
    struct mask_key key = word_key(a, in_string, root);
    const struct mask_entry *x = mask_cache_find(&m->cache, key);
    struct base base = {0};
    unsigned from;
    uint32_t min, max;
    if (x)
        return x;
    bool is_length = in_string && !root && lang_is_length(m->r->languages, a, &from, &min, &max) &&
                     !from && (max < SPELLING_CHARACTERS || max >= m->s->tree.depth);
    if (in_string && !is_length && a != LANG_CHARS && !find_base(m, root, &base))
        return NULL;
    begin_entry(m);
    if (!(is_length ? fill_length(m, min, max, p)
                    : walk_word(m, root, depth, a, in_string, p, &base)))
        return NULL;
    return end_entry(m, key);
}

/* Tokens that cross the string's end, by what follows it: from the place behind one text of the word. */
static bool add_closing(struct masks *m, const struct mask_entry *x, const struct place *p,
                        struct mask_set *out)
{
    const struct mask_cross *cross = mask_entry_cross(x);
    const struct token_tree *tree = &m->s->tree;
    uint32_t n;
    const unsigned char *text = spelling_of(m->s, tree->tokens[tree->nodes[cross->node].first], &n);
    m->places[0] = *p;
    for (uint32_t i = 0; i + 1 < cross->depth; i++)
        if (step_byte(m, &m->places[0], text[i]) != STEP_ALIVE)
            return false;
    mask_set_clear(&m->alive);
    if (!walk(m, &m->s->closing, 0, 0, WALK_BYTES, &m->alive))
        return false;
    for (uint32_t i = 0; i < x->n_cross; i++) {
        const struct token_node *node = &tree->nodes[cross[i].node];
        for (uint32_t k = node->first; k < node[node->size].first; k++)
            if (mask_set_has(&m->alive, (uint32_t)tree->tokens[k]))
                mask_set_add(out, (uint32_t)tree->tokens[k]);
    }
    return true;
}

/* Adds the tokens below `root` from a word at its place p. */
static bool add_word(struct masks *m, uint32_t root, uint32_t depth, lang a, bool in_string,
                     const struct place *p, struct mask_set *out)
{
    lang near = lang_near(m->r->languages, a, m->s->tree.depth);
    const struct mask_entry *x =
        near == LANG_FAIL ? NULL : word_entry(m, root, depth, near, in_string, p);
    if (!x)
        return false;
    mask_entry_give(x, out);
    if (!x->n_cross)
        return true;
    if (in_string && !root && m->r->same_end && m->r->same_end(m->r->self, m->track, p))
        return add_closing(m, x, p, out);
    struct mask_way way = {.from = depth};
    m->before[0] = *p;
    for (uint32_t i = 0; i < x->n_cross; i++)
        if (!try_node(m, &way, mask_entry_cross(x)[i], WALK_BYTES, out))
            return false;
    return true;
}

/* ---- a mask ---------------------------------------------------------------------------------- */

static bool fill(struct masks *m, const struct place *p)
{
    bool in_string;
    lang a = word_of(m, p, &in_string);
    if (a != LANG_NONE)
        return add_word(m, 0, 0, a, in_string, p, &m->whole);
    m->places[0] = *p;
    return walk(m, &m->s->tree, 0, 0, WALK_WORDS, &m->whole);
}

enum step masks_find(struct masks *m, struct track *t, const struct place *p, uint32_t *bits)
{
    masks_begin(m, t);
    struct mask_key key = {m->r->signature ? m->r->signature(m->r->self, t, p) : 0, 0};
    const struct mask_entry *x = key.what ? mask_cache_find(&m->cache, key) : NULL;
    mask_set_clear(&m->whole);
    if (x) {
        mask_entry_give(x, &m->whole);
    } else {
        if (!fill(m, p))
            return STEP_NO_ROOM;
        if (m->r->accepts(m->r->self, t, p))
            for (size_t i = 0; i < m->s->n_ends; i++)
                if (!mask_set_has(&m->whole, (uint32_t)m->s->ends[i]))
                    mask_set_add(&m->whole, (uint32_t)m->s->ends[i]);
        if (key.what)
            mask_cache_add(&m->cache, key, &m->whole, NULL, 0);
    }
    memcpy(bits, m->whole.bits, m->whole.n_words * sizeof *bits);
    return STEP_ALIVE;
}
