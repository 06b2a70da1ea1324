/* Shorter tracks: see json_compact.h. What a place needs is its level or recorded word, the levels
 * around, and what each of them remembers; all of it lies before place.used and refers to what is older. */
#include "sample/recognize/json_compact.h"

#include "sample/recognize/json_seen.h"
#include "sample/recognize/json_state.h"

#include <stdlib.h>
#include <string.h>

enum kind { LEVEL, SEEN, WORD };
struct live {
    uint32_t at, bytes, to; /* in the old track; where in the new one */
    enum kind kind;
};
struct survey {
    struct json_recognizer *j;
    struct live *live; /* [n] of [capacity], by `at` after sorting */
    uint32_t n, capacity;
    unsigned char *noted; /* of each 8 bytes: a level or a seen value that was noted begins there */
};

static bool is_new(struct survey *s, uint32_t at)
{
    bool is = at && !s->noted[at / 8];
    s->noted[at / 8] = 1;
    return is;
}

static bool note(struct survey *s, uint32_t at, size_t bytes, enum kind kind)
{
    if (s->n == s->capacity &&
        !budget_grow(s->j->budget, &s->live, &s->capacity, s->n + 1u, sizeof *s->live))
        return false;
    s->live[s->n++] = (struct live){at, (uint32_t)bytes, 0, kind};
    return true;
}

/* What is around a level that was noted was noted with it: nested places cost no more than flat ones. */
static bool survey_place(struct survey *s, const struct track *t, const struct place *p)
{
    uint32_t at = p->top;
    if (p->more & MORE_RECORDED) {
        if (!note(s, at, p->used - at, WORD))
            return false;
        at = level_of(t, p);
    }
    while (is_new(s, at)) {
        const struct level *l = level_at(t, at);
        if (!note(s, at, sizeof *l + l->n_words * sizeof(uint32_t), LEVEL))
            return false;
        for (uint32_t seen = l->seen; is_new(s, seen); seen = seen_at(t, seen)->before)
            if (!note(s, seen, seen_size(seen_at(t, seen)), SEEN))
                return false;
        at = l->up;
    }
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct live *x = a, *y = b;
    return x->at != y->at        ? (x->at < y->at ? -1 : 1)
           : x->bytes < y->bytes ? 1
           : x->bytes > y->bytes ? -1
                                 : 0;
}

/* Where the record at `at` is now. */
static uint32_t moved(const struct survey *s, uint32_t at)
{
    uint32_t low = 0, high = s->n;
    if (!at)
        return 0;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (s->live[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return s->live[low].to;
}

static void move_record(const struct survey *s, const struct track *from, struct track *to,
                        const struct live *r)
{
    unsigned char *p = to->bytes + r->to;
    memcpy(p, from->bytes + r->at, r->bytes);
    if (r->kind == LEVEL) {
        struct level *l = (void *)p;
        l->up = moved(s, l->up);
        l->seen = moved(s, l->seen);
    } else if (r->kind == SEEN) {
        struct seen *seen = (void *)p;
        seen->before = moved(s, seen->before);
        for (uint32_t i = 0; i < seen->n_others; i++)
            seen->others[i].at = moved(s, seen->others[i].at);
    } else {
        struct recorded *word = (void *)p;
        word->level = moved(s, word->level);
    }
}

/* A place is cut where the newest record ends that lies before its own end. */
static uint32_t cut(const struct survey *s, const struct place *p)
{
    uint32_t low = 0, high = s->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (s->live[middle].at < p->used)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return 8;
    const struct live *last = &s->live[low - 1];
    uint32_t left = p->used - last->at;
    return last->to + (last->bytes < left ? last->bytes : left);
}

enum step json_compact(void *self, const struct track *from, struct track *to, struct place *p,
                       size_t n)
{
    struct survey s = {.j = self};
    uint32_t end = 8, kept = 0;
    size_t size = 1; /* they begin at multiples of 8 */
    for (size_t i = 0; i < n; i++)
        size = p[i].used / 8 + (size_t)1 > size ? p[i].used / 8 + (size_t)1 : size;
    bool good = (s.noted = budget_resize(s.j->budget, NULL, 0, size)) != NULL;
    if (good)
        memset(s.noted, 0, size);
    for (size_t i = 0; i < n && good; i++)
        good = survey_place(&s, from, &p[i]);
    if (s.n)
        qsort(s.live, s.n, sizeof *s.live, by_place);
    for (uint32_t i = 0; i < s.n; i++) /* each once; of a word, the longest */
        if (!kept || s.live[kept - 1].at != s.live[i].at)
            s.live[kept++] = s.live[i];
    s.n = kept;
    for (uint32_t i = 0; i < s.n; i++) {
        s.live[i].to = (end + 7) & ~7u;
        end = s.live[i].to + s.live[i].bytes;
    }
    good = good && track_room(to, end);
    for (uint32_t i = 0; i < s.n && good; i++)
        move_record(&s, from, to, &s.live[i]);
    for (size_t i = 0; i < n && good; i++) {
        p[i].used = cut(&s, &p[i]);
        p[i].top = moved(&s, p[i].top);
    }
    budget_free(s.j->budget, s.noted, size);
    budget_free(s.j->budget, s.live, s.capacity * sizeof *s.live);
    return good ? STEP_ALIVE : STEP_NO_ROOM;
}
