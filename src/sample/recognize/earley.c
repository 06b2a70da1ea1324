/* The track holds a set per byte: what is being read there, and what waits there for a nonterminal. A set
 * is written once; items name the set where they began by its place in the track. Of items that began in
 * different sets where the same waits, one is kept, for the same follows their ends. */
#include "sample/recognize/earley.h"

#include "base/hash_mix.h"

#include <string.h>

/* How far a production is: its symbol at `dot` is next. */
struct earley_item {
    uint32_t dot;    /* of grammar.symbols */
    uint32_t origin; /* the set where the production began */
    uint32_t value;  /* of a word: what is left of it; of a loop: how often it was taken */
};

struct item_set {
    uint64_t waits, all; /* signatures: of what waits here, and of what can follow */
    uint32_t n_scan, n_wait;
    uint32_t accepts, unused;
    struct earley_item items[]; /* words, then what waits for a nonterminal */
};

/* Looks at items that a byte may cost, about 1 ms; usual are hundreds. So many are a step of the budget. */
enum { WORK_MOST = 1 << 17, LOOKS_A_STEP = 4 };

struct item_slot {
    uint32_t round, item; /* taken in this round by items[item] */
};

struct earley {
    struct grammar g;
    const struct track *track; /* of the text that is being read */
    struct earley_item *items; /* of the set that is being built */
    uint32_t n_items, max_items;
    struct item_slot *slots; /* of items by hash; a power of two, at most half full */
    uint32_t n_slots;
    uint32_t *predicted; /* of each nonterminal, the round when it was */
    uint32_t round;
    uint32_t here; /* where the set will lie */
    uint32_t work; /* looks at items */
    bool accepts, failed;
};

static const struct item_set *set_at(const struct track *t, uint32_t at)
{
    return (const struct item_set *)(const void *)(t->bytes + at);
}

static size_t set_size(uint32_t n_items)
{
    size_t size = sizeof(struct item_set) + n_items * sizeof(struct earley_item);
    return (size + 7) & ~(size_t)7;
}

/* Of what waits in the set where the item began; 1: in the one that is being built. */
static uint64_t origin_signature(const struct earley *y, const struct earley_item *x)
{
    return x->origin == y->here ? 1 : set_at(y->track, x->origin)->waits;
}

static uint64_t hash(const struct earley *y, const struct earley_item *x)
{
    return hash_mix(hash_mix(origin_signature(y, x) + x->dot) +
                    ((uint64_t)x->value << 32 | x->dot));
}

static bool is_same(const struct earley *y, const struct earley_item *a,
                    const struct earley_item *b)
{
    return a->dot == b->dot && a->value == b->value &&
           (a->origin == b->origin || origin_signature(y, a) == origin_signature(y, b));
}

/* ---- building a set ---- */

static bool grow_slots(struct earley *y)
{
    uint32_t n = y->n_slots ? y->n_slots * 2 : 64;
    struct item_slot *slots = budget_resize(y->g.budget, NULL, 0, n * sizeof *slots);
    if (!slots)
        return false;
    memset(slots, 0, n * sizeof *slots);
    budget_free(y->g.budget, y->slots, y->n_slots * sizeof *slots);
    y->slots = slots, y->n_slots = n;
    for (uint32_t k = 0; k < y->n_items; k++) {
        uint32_t i = (uint32_t)hash(y, &y->items[k]) & (n - 1);
        while (slots[i].round == y->round)
            i = (i + 1) & (n - 1);
        slots[i] = (struct item_slot){y->round, k};
    }
    return true;
}

static void add(struct earley *y, uint32_t dot, uint32_t origin, uint32_t value)
{
    struct earley_item x = {dot, origin, value};
    if (++y->work > WORK_MOST || (y->n_items * 2 >= y->n_slots && !grow_slots(y))) {
        y->failed = true;
        return;
    }
    uint32_t mask = y->n_slots - 1, i = (uint32_t)hash(y, &x) & mask;
    for (; y->slots[i].round == y->round; i = (i + 1) & mask)
        if (is_same(y, &y->items[y->slots[i].item], &x))
            return;
    if (!budget_grow(y->g.budget, &y->items, &y->max_items, (size_t)y->n_items + 1, sizeof x)) {
        y->failed = true;
        return;
    }
    y->slots[i] = (struct item_slot){y->round, y->n_items};
    y->items[y->n_items++] = x;
}

/* The item before a symbol that nothing was read of. */
static void add_new(struct earley *y, uint32_t dot, uint32_t origin)
{
    uint32_t symbol = y->g.symbols[dot];
    add(y, dot, origin, symbol_kind(symbol) == SYMBOL_WORD ? symbol_value(symbol) : 0);
}

static void predict(struct earley *y, uint32_t nonterminal)
{
    const struct nonterminal *x = &y->g.nonterminals[nonterminal];
    if (y->predicted[nonterminal] == y->round)
        return;
    y->predicted[nonterminal] = y->round;
    for (uint32_t p = x->first; p < x->first + x->n; p++)
        add_new(y, y->g.starts[p], y->here);
}

/* A nonterminal that began in the set at `origin` ends here. */
static void complete(struct earley *y, uint32_t origin, uint32_t nonterminal)
{
    y->accepts |= origin == 0 && nonterminal == 0;
    if (origin == y->here) /* the empty text: the items that wait for it have passed it */
        return;
    const struct item_set *s = set_at(y->track, origin);
    y->work += s->n_wait;
    for (uint32_t i = s->n_scan; i < s->n_scan + s->n_wait; i++) {
        const struct earley_item *x = &s->items[i];
        uint32_t symbol = y->g.symbols[x->dot], value = symbol_value(symbol);
        if (symbol_kind(symbol) == SYMBOL_CALL) {
            if (value == nonterminal)
                add_new(y, x->dot + 1, x->origin);
            continue;
        }
        const struct grammar_loop *l = &y->g.loops[value];
        if (l->nonterminal == nonterminal) /* without a limit more than min is min */
            add(y, x->dot, x->origin, x->value + !(l->max == LANG_MANY && x->value == l->min));
    }
}

/* Adds what follows from the items. */
static void close_set(struct earley *y)
{
    for (uint32_t i = 0; i < y->n_items && !y->failed; i++) {
        const struct earley_item x = y->items[i];
        uint32_t symbol = y->g.symbols[x.dot], value = symbol_value(symbol);
        switch (symbol_kind(symbol)) {
        case SYMBOL_WORD:
            if (lang_accepts(y->g.languages, x.value))
                add_new(y, x.dot + 1, x.origin);
            break;
        case SYMBOL_CALL:
            predict(y, value);
            if (y->g.nonterminals[value].nullable)
                add_new(y, x.dot + 1, x.origin);
            break;
        case SYMBOL_LOOP:
            if (x.value >= y->g.loops[value].min)
                add_new(y, x.dot + 1, x.origin);
            if (x.value < y->g.loops[value].max)
                predict(y, y->g.loops[value].nonterminal);
            break;
        case SYMBOL_END:
            complete(y, x.origin, value);
            break;
        }
    }
}

static bool scans(const struct earley *y, const struct earley_item *x)
{
    return symbol_kind(y->g.symbols[x->dot]) == SYMBOL_WORD && x->value != LANG_BLANK;
}

static bool waits(const struct earley *y, const struct earley_item *x)
{
    uint32_t symbol = y->g.symbols[x->dot];
    return symbol_kind(symbol) == SYMBOL_CALL ||
           (symbol_kind(symbol) == SYMBOL_LOOP && x->value < y->g.loops[symbol_value(symbol)].max);
}

static bool pay(struct earley *y)
{
    return budget_step(y->g.budget, 1 + y->work / LOOKS_A_STEP);
}

/* Writes the set at y->here and moves p there. */
static enum step write_set(struct earley *y, struct track *t, struct place *p)
{
    uint32_t n_scan = 0, n_wait = 0, at = 0;
    for (uint32_t i = 0; i < y->n_items; i++)
        n_scan += scans(y, &y->items[i]), n_wait += waits(y, &y->items[i]);
    if (y->failed || !pay(y) || !track_room(t, (uint64_t)y->here + set_size(n_scan + n_wait)))
        return STEP_NO_ROOM;
    struct item_set *s = (struct item_set *)(void *)(t->bytes + y->here);
    *s = (struct item_set){.n_scan = n_scan, .n_wait = n_wait, .accepts = y->accepts};
    for (uint32_t i = 0; i < y->n_items; i++) {
        const struct earley_item *x = &y->items[i];
        uint64_t h = hash(y, x);
        if (scans(y, x))
            s->items[at++] = *x, s->all += h;
        else if (waits(y, x))
            s->items[n_scan++] = *x, s->waits += h;
    }
    s->waits = hash_mix(s->waits + !y->here); /* the whole text waits in the first one */
    s->all = hash_mix(s->all + s->waits + s->accepts) | 1;
    p->top = y->here, p->used = y->here + (uint32_t)set_size(s->n_scan + n_wait);
    return STEP_ALIVE;
}

static void start_set(struct earley *y, const struct track *t, uint32_t here)
{
    if (++y->round == 0) {
        memset(y->slots, 0, y->n_slots * sizeof *y->slots);
        memset(y->predicted, 0, y->g.n_nonterminals * sizeof *y->predicted);
        y->round = 1;
    }
    y->track = t, y->here = here;
    y->n_items = y->work = 0, y->accepts = y->failed = false;
}

/* ---- the recognizer ---- */

static enum step begin(void *self, struct track *t, struct place *p)
{
    struct earley *y = self;
    start_set(y, t, 0);
    predict(y, 0);
    close_set(y);
    *p = (struct place){0};
    return write_set(y, t, p);
}

static enum step step(void *self, struct track *t, struct place *p, unsigned char byte)
{
    struct earley *y = self;
    const struct item_set *s = set_at(t, p->top);
    start_set(y, t, p->used);
    y->work = s->n_scan;
    for (uint32_t i = 0; i < s->n_scan; i++) {
        lang left = lang_step(y->g.languages, s->items[i].value, byte);
        if (left == LANG_FAIL)
            return STEP_NO_ROOM;
        if (left != LANG_NONE)
            add(y, s->items[i].dot, s->items[i].origin, left);
    }
    if (!y->n_items && !y->failed)
        return pay(y) ? STEP_DEAD : STEP_NO_ROOM;
    close_set(y);
    return write_set(y, t, p);
}

static bool accepts(void *self, struct track *t, const struct place *p)
{
    (void)self;
    return set_at(t, p->top)->accepts;
}

enum { WORDS = 16 }; /* more words at once are no word */

static lang word(void *self, struct track *t, const struct place *p, uint32_t reach,
                 bool *in_string)
{
    (void)reach;
    const struct earley *y = self;
    const struct item_set *s = set_at(t, p->top);
    lang x = LANG_NONE;
    *in_string = false;
    if (s->n_scan > WORDS)
        return LANG_NONE;
    for (uint32_t i = 0; i < s->n_scan; i++)
        x = lang_or(y->g.languages, x, s->items[i].value);
    return x == LANG_FAIL ? LANG_NONE : x;
}

static void first(void *self, struct track *t, const struct place *p, uint64_t set[4])
{
    const struct earley *y = self;
    const struct item_set *s = set_at(t, p->top);
    memset(set, 0, 4 * sizeof *set);
    for (uint32_t i = 0; i < s->n_scan; i++) {
        uint64_t more[4];
        lang_first(y->g.languages, s->items[i].value, more);
        for (int k = 0; k < 4; k++)
            set[k] |= more[k];
    }
}

static uint64_t signature(void *self, struct track *t, const struct place *p)
{
    (void)self;
    return set_at(t, p->top)->all;
}

/* ---- compacting ---- */

/* The sets that are kept: where they lie, and where they will, both ascending. */
struct kept_sets {
    uint32_t (*at)[2], n, max;
};

static uint32_t find(const struct kept_sets *k, uint32_t at)
{
    uint32_t low = 0, high = k->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (k->at[mid][0] < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static uint32_t size_at(const struct track *t, uint32_t at)
{
    const struct item_set *s = set_at(t, at);
    return (uint32_t)set_size(s->n_scan + s->n_wait);
}

/* Marks each set up to the last place that is needed, from behind: an item's origin lies before it. */
static bool mark_kept(struct earley *y, const struct track *from, const struct place *p, size_t n,
                      struct kept_sets *k)
{
    const uint32_t end = p[n - 1].used, size = end / 8 + 1; /* sets begin at multiples of 8 */
    unsigned char *needed = budget_resize(y->g.budget, NULL, 0, size);
    bool good = needed != NULL;
    if (good)
        memset(needed, 0, size);
    for (size_t i = 0; i < n && good; i++)
        needed[p[i].top / 8] = 1;
    for (uint32_t at = end / 8; at-- && good;) {
        if (!needed[at])
            continue;
        const struct item_set *s = set_at(from, at * 8);
        for (uint32_t i = 0; i < s->n_scan + s->n_wait; i++)
            needed[s->items[i].origin / 8] = 1;
    }
    for (uint32_t at = 0, to = 0; at < size && good; at++)
        if (needed[at]) {
            good = budget_grow(y->g.budget, &k->at, &k->max, (size_t)k->n + 1, sizeof *k->at);
            if (good)
                k->at[k->n][0] = at * 8, k->at[k->n++][1] = to, to += size_at(from, at * 8);
        }
    budget_free(y->g.budget, needed, size);
    return good;
}

static enum step compact(void *self, const struct track *from, struct track *to, struct place *p,
                         size_t n)
{
    struct earley *y = self;
    struct kept_sets k = {0};
    bool good = mark_kept(y, from, p, n, &k);
    good = good && track_room(to, k.at[k.n - 1][1] + size_at(from, k.at[k.n - 1][0]));
    for (uint32_t i = 0; i < k.n && good; i++) {
        struct item_set *s = (struct item_set *)(void *)(to->bytes + k.at[i][1]);
        memcpy(s, set_at(from, k.at[i][0]), size_at(from, k.at[i][0]));
        for (uint32_t j = 0; j < s->n_scan + s->n_wait; j++)
            s->items[j].origin = k.at[find(&k, s->items[j].origin)][1];
    }
    for (size_t i = 0; i < n && good; i++) {
        p[i].top = k.at[find(&k, p[i].top)][1];
        p[i].used = p[i].top + size_at(to, p[i].top);
    }
    budget_free(y->g.budget, k.at, k.max * sizeof *k.at);
    return good ? STEP_ALIVE : STEP_NO_ROOM;
}

static void close(void *self)
{
    struct earley *y = self;
    struct budget *b = y->g.budget;
    struct languages *ls = y->g.languages;
    budget_free(b, y->items, y->max_items * sizeof *y->items);
    budget_free(b, y->slots, y->n_slots * sizeof *y->slots);
    budget_free(b, y->predicted, y->g.n_nonterminals * sizeof *y->predicted);
    grammar_close(&y->g);
    budget_free(b, y, sizeof *y);
    languages_close(ls);
}

bool earley_open(struct recognizer *out, const struct grammar *g)
{
    struct grammar copy = *g;
    struct earley *y = budget_resize(g->budget, NULL, 0, sizeof *y);
    if (!y) {
        grammar_close(&copy);
        languages_close(copy.languages);
        return false;
    }
    *y = (struct earley){.g = copy};
    size_t size = y->g.n_nonterminals * sizeof *y->predicted;
    y->predicted = budget_resize(g->budget, NULL, 0, size);
    if (!y->predicted) {
        close(y);
        return false;
    }
    memset(y->predicted, 0, size);
    *out = (struct recognizer){.self = y,
                               .languages = copy.languages,
                               .begin = begin,
                               .step = step,
                               .accepts = accepts,
                               .word = word,
                               .first = first,
                               .signature = signature,
                               .compact = compact,
                               .close = close};
    return true;
}
