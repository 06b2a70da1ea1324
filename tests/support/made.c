/* Nodes made by hand: see made.h. */
#include "made.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* One more element; asserts that there is memory. */
static void grow(struct shapes *s, void *array, uint32_t *n, const void *element, size_t size)
{
    void **p = array;
    *p = budget_resize(languages_budget(s->languages), *p, *n * size, (*n + 1) * size);
    assert(*p);
    memcpy((char *)*p + (*n)++ * size, element, size);
}

static lang digits(struct shapes *s, uint32_t min, uint32_t max)
{
    const uint64_t set[4] = {0x3ffull << '0', 0, 0, 0};
    return lang_repeat(s->languages, lang_set(s->languages, set), min, max);
}

static lang maybe(struct shapes *s, lang a)
{
    return lang_or(s->languages, a, LANG_BLANK);
}

static lang then(struct shapes *s, lang a, lang b)
{
    return lang_concat(s->languages, a, b);
}

lang made_integers(struct shapes *s, uint32_t n)
{
    const uint64_t set[4] = {0x3feull << '0', 0, 0, 0};
    lang whole = then(s, lang_set(s->languages, set), digits(s, 0, n - 1));
    return then(s, maybe(s, made_text(s, "-")), lang_or(s->languages, made_text(s, "0"), whole));
}

static lang any_number(struct shapes *s)
{
    lang sign = lang_or(s->languages, made_text(s, "+"), made_text(s, "-"));
    lang e = lang_or(s->languages, made_text(s, "e"), made_text(s, "E"));
    lang power = then(s, e, then(s, maybe(s, sign), digits(s, 1, LANG_MANY)));
    lang part = then(s, made_text(s, "."), digits(s, 1, LANG_MANY));
    return then(s, made_integers(s, LANG_MANY), then(s, maybe(s, part), maybe(s, power)));
}

lang made_text(struct shapes *s, const char *text)
{
    return lang_text(s->languages, text, strlen(text));
}

lang made_texts(struct shapes *s, const char *texts)
{
    return script_choice(s->languages, texts, strlen(texts));
}

uint32_t made_add(struct shapes *s, struct node n)
{
    grow(s, &s->nodes, &s->n_nodes, &n, sizeof n);
    return s->n_nodes - 1;
}

uint32_t made_string(struct shapes *s, lang string)
{
    return made_add(s, (struct node){.string = string});
}

uint32_t made_number(struct shapes *s, lang number)
{
    return made_add(s, (struct node){.number = number});
}

uint32_t made_array(struct shapes *s, uint32_t of, struct array_shape a, const uint32_t *items,
                    uint32_t n_items)
{
    a.items = (struct stretch){s->n_items, n_items};
    for (uint32_t i = 0; i < n_items; i++)
        grow(s, &s->items, &s->n_items, &items[i], sizeof *items);
    grow(s, &s->arrays, &s->n_arrays, &a, sizeof a);
    of = of == NODE_NONE ? made_add(s, (struct node){0}) : of;
    struct stretch *span = &s->nodes[of].arrays;
    span->first = s->n_arrays - 1 - span->n++; /* a node's shapes are added one after the other */
    return of;
}

uint32_t made_object(struct shapes *s, uint32_t of, uint32_t min, uint32_t max,
                     const struct by_name *members, uint32_t n_members,
                     const struct member_class *classes, uint32_t n_classes)
{
    struct object_shape o = {{s->n_members, n_members}, {s->n_classes, n_classes}, min, max};
    for (uint32_t i = 0; i < n_members; i++) {
        struct shape_key key = {s->n_text, (uint32_t)strlen(members[i].key)};
        for (const char *c = members[i].key; *c; c++)
            grow(s, &s->text, &s->n_text, c, 1);
        struct member m = {s->n_keys, members[i].node, members[i].required};
        grow(s, &s->keys, &s->n_keys, &key, sizeof key);
        grow(s, &s->members, &s->n_members, &m, sizeof m);
    }
    for (uint32_t i = 0; i < n_classes; i++)
        grow(s, &s->classes, &s->n_classes, &classes[i], sizeof *classes);
    grow(s, &s->objects, &s->n_objects, &o, sizeof o);
    of = of == NODE_NONE ? made_add(s, (struct node){0}) : of;
    struct stretch *span = &s->nodes[of].objects;
    span->first = s->n_objects - 1 - span->n++;
    return of;
}

struct shapes made_open(struct budget *b)
{
    struct shapes s = {.languages = languages_open(b), .root = NODE_ANY};
    assert(s.languages);
    made_add(&s, (struct node){0});
    made_add(&s, (struct node){7, LANG_CHARS, any_number(&s), {0, 0}, {0, 0}});
    const uint32_t any = NODE_ANY;
    const struct member_class class = {LANG_CHARS, NODE_ANY, 0, SHAPE_NO_LIMIT};
    made_array(&s, NODE_ANY, (struct array_shape){.max = SHAPE_NO_LIMIT}, &any, 1);
    made_object(&s, NODE_ANY, 0, SHAPE_NO_LIMIT, NULL, 0, &class, 1);
    return s;
}

/* ---- reading ------------------------------------------------------------------------------ */

void reader_open(struct reader *k, struct recognizer r)
{
    *k = (struct reader){r, {.limit = 16 << 20}, {0}};
}

void reader_close(struct reader *k)
{
    k->r.close(k->r.self);
    free(k->t.bytes);
}

size_t reader_read(struct reader *k, const char *text, size_t n)
{
    enum step s = k->r.begin(k->r.self, &k->t, &k->p);
    assert(s == STEP_ALIVE);
    for (size_t i = 0; i < n; i++) {
        s = k->r.step(k->r.self, &k->t, &k->p, (unsigned char)text[i]);
        assert(s != STEP_NO_ROOM);
        if (s != STEP_ALIVE)
            return i;
    }
    return n + k->r.accepts(k->r.self, &k->t, &k->p);
}

static uint32_t draw(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

enum { NO_BYTE = 256, NOT_IN_FIRST };

/* A byte that may come, one that ends something more often where the text is long enough. */
static unsigned choose(struct reader *k, uint64_t *seed, bool end)
{
    unsigned char may[256], ends[8];
    uint32_t n = 0, n_ends = 0;
    uint64_t first[4];
    if (k->r.first)
        k->r.first(k->r.self, &k->t, &k->p, first);
    for (unsigned c = 0; c < 256; c++) {
        struct place q = k->p;
        if (k->r.step(k->r.self, &k->t, &q, (unsigned char)c) != STEP_ALIVE)
            continue;
        if (k->r.first && !(first[c / 64] >> c % 64 & 1))
            return NOT_IN_FIRST;
        may[n++] = (unsigned char)c;
        if (c == '"' || c == ']' || c == '}')
            ends[n_ends++] = (unsigned char)c;
    }
    if (!n)
        return NO_BYTE;
    return n_ends && (end || draw(seed, 4) == 0) ? ends[draw(seed, n_ends)] : may[draw(seed, n)];
}

size_t reader_walk(struct reader *k, uint64_t seed, size_t wish, char *out, size_t max)
{
    k->r.begin(k->r.self, &k->t, &k->p);
    for (size_t n = 0; n < max; n++) {
        bool over = k->r.accepts(k->r.self, &k->t, &k->p);
        if (over && (n > wish || draw(&seed, 3) == 0))
            return n;
        unsigned c = choose(k, &seed, n > wish);
        if (c >= NO_BYTE)
            return out[n] = 0, over && c == NO_BYTE ? n : SIZE_MAX;
        out[n] = (char)c;
        k->r.step(k->r.self, &k->t, &k->p, (unsigned char)c);
    }
    return max;
}
