/* Levels of the JSON recognizer: see json_level.h. */
#include "sample/recognize/json_level.h"

#include "sample/recognize/json_unique.h"

#include <string.h>

uint32_t thread_words(const struct json_recognizer *j, unsigned kind, uint32_t shape)
{
    uint32_t n = sizeof(struct thread) / sizeof(uint32_t);
    if (kind == LEVEL_ARRAY)
        return n + j->shapes.arrays[shape].n_contains;
    if (kind == LEVEL_OBJECT) {
        const struct object_shape *o = &j->shapes.objects[shape];
        n += o->classes.n;
        if (j->flags & JSON_ANY_ORDER)
            n += (o->members.n + 31) / 32;
    }
    return n;
}

/* ---- drafts ------------------------------------------------------------------------------- */

void draft_start(struct json_recognizer *j, const struct level *from)
{
    memcpy(&j->head, from, sizeof j->head);
    j->head.n_threads = 0;
    j->words.n = 0;
}

static struct thread *draft_room(struct json_recognizer *j, uint32_t n)
{
    uint32_t at = j->words.n;
    if (j->head.n_threads == JSON_ALTERNATIVES ||
        !budget_grow(j->budget, &j->words.at, &j->words.capacity, (size_t)at + n,
                     sizeof *j->words.at))
        return NULL;
    j->words.n += n;
    j->head.n_threads++;
    return (void *)(j->words.at + at);
}

struct thread *draft_thread(struct json_recognizer *j, uint32_t shape, uint32_t owner)
{
    uint32_t n = thread_words(j, j->head.kind, shape);
    struct thread *th = draft_room(j, n);
    if (th) {
        memset(th, 0, n * sizeof(uint32_t));
        th->shape = shape;
        th->owner = owner;
    }
    return th;
}

struct thread *draft_copy(struct json_recognizer *j, const struct thread *from)
{
    uint32_t n = thread_words(j, j->head.kind, from->shape);
    struct thread *th = draft_room(j, n);
    if (th)
        memcpy(th, from, n * sizeof(uint32_t));
    return th;
}

void draft_undo(struct json_recognizer *j, const struct thread *th)
{
    j->words.n = (uint32_t)((const uint32_t *)th - j->words.at);
    j->head.n_threads--;
}

/* The level's number of items as far as it matters to what follows. */
static uint32_t near_count(const struct json_recognizer *j, const struct level *l,
                           const struct thread *th)
{
    uint32_t min = 0, max = SHAPE_NO_LIMIT, places = 0;
    if (l->kind == LEVEL_OBJECT) {
        min = j->shapes.objects[th->shape].min;
        max = j->shapes.objects[th->shape].max;
    } else if (l->kind == LEVEL_ARRAY) {
        const struct array_shape *a = &j->shapes.arrays[th->shape];
        min = a->min;
        max = a->max;
        places = (a->items.n >> a->n_contains) - 1;
    }
    uint32_t matters = max == SHAPE_NO_LIMIT ? (min > places ? min : places) : max;
    return l->n < matters ? l->n : matters;
}

static uint64_t sign(const struct json_recognizer *j, const struct track *t,
                     const struct level *head)
{
    uint64_t h = head->up ? level_at(t, head->up)->signature : 0;
    uint32_t n = 0, near;
    for (const uint32_t *w = j->words.at, *end = w + j->words.n; w < end;
         w += thread_words(j, head->kind, ((const struct thread *)(const void *)w)->shape))
        if ((near = near_count(j, head, (const void *)w)) > n)
            n = near;
    h = hash_mix(h ^ (uint64_t)head->kind << 8 ^ head->flags ^ (uint64_t)n << 16);
    h = hash_mix(h ^ head->seen_sum);
    if (head->unique)
        h = hash_mix(h ^ head->unique ^ hash_mix(head->sum ^ hash_mix(head->key)));
    for (uint32_t i = 0; i < j->words.n; i++)
        h = hash_mix(h ^ j->words.at[i]);
    return h;
}

enum step draft_push(struct json_recognizer *j, struct track *t, struct place *p, enum phase phase)
{
    uint32_t at = (p->used + 7) & ~7u;
    size_t bytes = j->words.n * sizeof(uint32_t);
    if (!j->head.n_threads)
        return STEP_DEAD;
    if (!track_room(t, at + sizeof(struct level) + bytes))
        return STEP_NO_ROOM;
    j->head.n_words = j->words.n;
    j->head.signature = sign(j, t, &j->head);
    memcpy(t->bytes + at, &j->head, sizeof j->head);
    memcpy(level_at(t, at) + 1, j->words.at, bytes);
    p->top = at;
    p->used = (uint32_t)(at + sizeof(struct level) + bytes);
    p->more &= ~(uint32_t)(MORE_RECORDED | MORE_SET | MORE_KEY);
    go_to(p, phase, 0);
    return STEP_ALIVE;
}

enum step level_flag(struct json_recognizer *j, struct track *t, struct place *p, unsigned flags,
                     enum phase phase)
{
    const struct level *l = level_at(t, p->top);
    draft_start(j, l);
    j->head.flags |= (unsigned char)flags;
    for (THREADS(j, l, th))
        if (!draft_copy(j, th))
            return STEP_NO_ROOM;
    return draft_push(j, t, p, phase);
}

bool record_word(struct track *t, struct place *p)
{
    uint32_t at = (p->used + 7) & ~7u;
    struct recorded r = {p->top, 0};
    if (!track_room(t, (uint64_t)at + sizeof r))
        return false;
    memcpy(t->bytes + at, &r, sizeof r);
    p->top = at;
    p->used = at + (uint32_t)sizeof r;
    p->more |= MORE_RECORDED;
    return true;
}

bool record_bytes(struct track *t, struct place *p, const void *bytes, size_t n)
{
    if (!track_room(t, p->used + n))
        return false;
    memcpy(t->bytes + p->used, bytes, n);
    p->used += (uint32_t)n;
    return true;
}

/* ---- ends of values ----------------------------------------------------------------------- */

static bool has(const struct json_recognizer *j, const struct value *v, uint32_t want)
{
    const struct node *node = &j->shapes.nodes[want];
    uint32_t x = v->kind == VALUE_STRING   ? node->string
                 : v->kind == VALUE_NUMBER ? node->number
                                           : want;
    if (v->kind == VALUE_LITERAL)
        return node->literals & v->literal;
    for (uint32_t i = 0; i < j->done.n; i++)
        if (j->done.at[i] == x)
            return true;
    return false;
}

/* Whatever a can still become, b can: the same but for wants and, of an array, counts that only have a
 * lower bound. */
static bool covers(const struct json_recognizer *j, unsigned kind, const struct thread *b,
                   const struct thread *a)
{
    if (a->shape != b->shape || a->owner != b->owner || a->next != b->next)
        return false;
    uint32_t n = thread_words(j, kind, a->shape) - (uint32_t)(sizeof *a / sizeof(uint32_t));
    if (kind != LEVEL_ARRAY)
        return !memcmp(a->count, b->count, n * sizeof *a->count);
    for (uint32_t i = 0; i < n; i++) {
        bool counted = j->shapes.arrays[a->shape].contains_max[i] != SHAPE_NO_LIMIT;
        if (counted ? a->count[i] != b->count[i] : a->count[i] > b->count[i])
            return false;
    }
    return true;
}

/* Takes threads of the draft away that others cover. */
static void draft_thin(struct json_recognizer *j)
{
    uint32_t *to = j->words.at, *end = to + j->words.n, size;
    for (uint32_t *a = to; a < end; a += size) {
        struct thread *x = (void *)a;
        size = thread_words(j, j->head.kind, x->shape);
        bool covered = false;
        /* Those kept lie before `to`, those to come behind a. */
        for (uint32_t *b = j->words.at == to ? a : j->words.at; b < end && !covered;) {
            struct thread *y = (void *)b;
            covered = b != a && covers(j, j->head.kind, y, x) &&
                      (b < a || !covers(j, j->head.kind, x, y));
            b += thread_words(j, j->head.kind, y->shape);
            if (b == to)
                b = a;
        }
        if (covered) {
            j->head.n_threads--;
            continue;
        }
        memmove(to, a, size * sizeof *a);
        to += size;
    }
    j->words.n = (uint32_t)(to - j->words.at);
}

static enum step hole_end(struct json_recognizer *j, const struct level *l, struct place *p,
                          const struct value *v)
{
    j->list.n = 0;
    for (THREADS(j, l, th))
        if (has(j, v, th->want) && !add_number(j, &j->list, th->next))
            return STEP_NO_ROOM;
    p->lexeme = script_set(j, j->list.at, j->list.n);
    p->top = 0;
    p->more &= ~(uint32_t)(MORE_RECORDED | MORE_SET | MORE_KEY);
    go_to(p, AT_TEXT, 0);
    return p->lexeme == WORDS_FAIL ? STEP_NO_ROOM : p->lexeme ? STEP_ALIVE : STEP_DEAD;
}

enum step value_end(struct json_recognizer *j, struct track *t, struct place *p, uint32_t at,
                    const struct value *v)
{
    const struct level *l = level_at(t, at);
    bool repeat = l->flags & LEVEL_UNIQUE && seen_has(t, l->seen, &v->key);
    if (l->kind == LEVEL_SCRIPT)
        return hole_end(j, l, p, v);
    draft_start(j, l);
    for (THREADS(j, l, th)) {
        if (!has(j, v, th->want) ||
            (repeat && l->kind == LEVEL_ARRAY && j->shapes.arrays[th->shape].unique))
            continue;
        struct thread *kept = draft_copy(j, th);
        if (!kept)
            return STEP_NO_ROOM;
    }
    if (j->head.n_threads > 1)
        draft_thin(j);
    if (j->head.n_threads == l->n_threads && !l->unique) {
        p->top = at;
        p->more &= ~(uint32_t)(MORE_RECORDED | MORE_SET | MORE_KEY);
        go_to(p, AT_AFTER, 0);
        return STEP_ALIVE;
    }
    if (l->unique && !unique_value(j, t, p, &v->key))
        return STEP_NO_ROOM;
    return draft_push(j, t, p, AT_AFTER);
}

/* ---- containers --------------------------------------------------------------------------- */

static bool in_list(const struct numbers_list *list, uint32_t x)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i] == x)
            return true;
    return false;
}

/* The nodes that the level waits for, each once, in json.list. */
static bool list_wants(struct json_recognizer *j, const struct level *l)
{
    j->list.n = 0;
    for (THREADS(j, l, th))
        if (!in_list(&j->list, th->want) && !add_number(j, &j->list, th->want))
            return false;
    return true;
}

enum step container_begin(struct json_recognizer *j, struct track *t, struct place *p,
                          unsigned kind)
{
    const struct level *l = level_at(t, p->top);
    draft_start(j, l);
    j->head.up = p->top;
    j->head.kind = (unsigned char)kind;
    j->head.flags &= LEVEL_PYTHON | LEVEL_GEMMA;
    j->head.depth++;
    j->head.n = j->head.n_seen = j->head.seen = 0;
    j->head.seen_sum = j->head.sum = j->head.key = 0;
    if (!list_wants(j, l) || l->depth == UINT16_MAX)
        return STEP_NO_ROOM;
    for (uint32_t i = 0; i < j->list.n; i++) {
        const struct node *node = &j->shapes.nodes[j->list.at[i]];
        struct stretch span = kind == LEVEL_OBJECT ? node->objects : node->arrays;
        for (uint32_t k = 0; k < span.n; k++) {
            if (!draft_thread(j, span.first + k, j->list.at[i]))
                return STEP_NO_ROOM;
            if (kind == LEVEL_ARRAY && j->shapes.arrays[span.first + k].unique) {
                j->head.flags |= LEVEL_UNIQUE;
                if (!j->head.unique)
                    j->head.unique = j->head.depth;
            }
        }
    }
    return draft_push(j, t, p, AT_OPEN);
}

static bool thread_may_end(const struct json_recognizer *j, const struct level *l,
                           const struct thread *th)
{
    if (l->kind == LEVEL_ARRAY) {
        const struct array_shape *a = &j->shapes.arrays[th->shape];
        for (uint32_t i = 0; i < a->n_contains; i++)
            if (th->count[i] < a->contains_min[i])
                return false;
        return l->n >= a->min && l->n <= a->max;
    }
    const struct object_shape *o = &j->shapes.objects[th->shape];
    for (uint32_t i = 0; i < o->classes.n; i++)
        if (th->count[i] < j->shapes.classes[o->classes.first + i].min)
            return false;
    uint32_t i = th->next; /* to the first required member to come */
    for (; i < o->members.n && (i = j->required[o->members.first + i]) < o->members.n; i++)
        if (!(j->flags & JSON_ANY_ORDER) || !(th->count[o->classes.n + i / 32] >> i % 32 & 1))
            return false;
    return l->n >= o->min && l->n <= o->max;
}

bool container_may_end(const struct json_recognizer *j, const struct level *l)
{
    for (THREADS(j, l, th))
        if (thread_may_end(j, l, th))
            return true;
    return false;
}

enum step container_end(struct json_recognizer *j, struct track *t, struct place *p)
{
    const struct level *l = level_at(t, p->top);
    uint64_t hash = hash_mix(l->sum ^ (l->kind + 16u) ^ (uint64_t)l->n << 8);
    struct value v = {VALUE_CONTAINER, 0, seen_key_of(hash, NULL, 0)};
    j->done.n = 0;
    for (THREADS(j, l, th))
        if (thread_may_end(j, l, th) && !in_list(&j->done, th->owner) &&
            !add_number(j, &j->done, th->owner))
            return STEP_NO_ROOM;
    return j->done.n ? value_end(j, t, p, l->up, &v) : STEP_DEAD;
}

/* Counts an item for the conditions in m; false: a condition has enough. */
static bool count_item(const struct array_shape *a, struct thread *th, uint32_t m)
{
    for (uint32_t i = 0; i < a->n_contains; i++) {
        if (!(m >> i & 1))
            continue;
        uint32_t max = a->contains_max[i];
        if (max != SHAPE_NO_LIMIT ? th->count[i] == max : th->count[i] == a->contains_min[i]) {
            if (max != SHAPE_NO_LIMIT)
                return false;
        } else {
            th->count[i]++;
        }
    }
    return true;
}

/* Adds the threads of an item that is counted for the conditions in m. With `needed`, only where it is
 * one that must still come, if any must. */
static bool add_items(struct json_recognizer *j, const struct level *l, const struct thread *th,
                      bool needed)
{
    const struct array_shape *a = &j->shapes.arrays[th->shape];
    uint32_t last = (a->items.n >> a->n_contains) - 1, at = l->n < last ? l->n : last, need = 0;
    for (uint32_t i = 0; i < a->n_contains; i++)
        need |= (uint32_t)(th->count[i] < a->contains_min[i]) << i;
    for (uint32_t m = 0; m < 1u << a->n_contains && l->n < a->max; m++) {
        uint32_t want = j->shapes.items[a->items.first + (at << a->n_contains | m)];
        if (want == NODE_NONE || (needed && need && !(m & need)))
            continue;
        struct thread *made = draft_copy(j, th);
        if (!made)
            return false;
        made->want = want;
        if (!count_item(a, made, m) ||
            !((l->n + 1 >= a->min && !a->n_contains) ||
              shape_array_open(&j->shapes, a, l->n + 1, made->count, NULL, NULL)))
            draft_undo(j, made);
    }
    return true;
}

enum step item_begin(struct json_recognizer *j, struct track *t, struct place *p, enum phase phase)
{
    const struct level *l = level_at(t, p->top);
    for (int needed = j->searching; needed >= 0; needed--) { /* a search looks for an end */
        draft_start(j, l);
        j->head.n++;
        for (THREADS(j, l, th))
            if (!add_items(j, l, th, needed))
                return STEP_NO_ROOM;
        if (j->head.n_threads)
            break;
    }
    return draft_push(j, t, p, phase);
}
