/* Keys of the JSON recognizer: see json_keys.h. */
#include "sample/recognize/json_keys.h"

#include "sample/recognize/json_level.h"
#include "sample/recognize/json_unique.h"
#include "base/xxh64.h"

#include <string.h>

enum { UNASKED = (uint32_t)LANG_FAIL };

static void learn_object(struct json_recognizer *j, uint32_t shape)
{
    const struct object_shape *o = &j->shapes.objects[shape];
    struct object_info *info = &j->objects[shape];
    *info = (struct object_info){UNASKED, !o->min && o->max == SHAPE_NO_LIMIT};
    for (uint32_t i = 0; i < o->classes.n; i++) {
        const struct member_class *c = &j->shapes.classes[o->classes.first + i];
        if (c->min || c->most != SHAPE_NO_LIMIT)
            info->plain = false;
    }
    uint32_t next = o->members.n;
    for (uint32_t i = o->members.n; i-- > 0;) {
        if (j->shapes.members[o->members.first + i].required)
            next = i;
        j->required[o->members.first + i] = next;
    }
}

bool json_keys_open(struct json_recognizer *j)
{
    const struct shapes *s = &j->shapes;
    size_t n = (size_t)s->n_members + s->n_objects, longest = 0;
    j->objects = budget_resize(j->budget, NULL, 0, s->n_objects * sizeof *j->objects + 1);
    j->required = budget_resize(j->budget, NULL, 0, s->n_members * sizeof *j->required + 1);
    j->key_langs = budget_resize(j->budget, NULL, 0, n * sizeof *j->key_langs + 1);
    if (!j->objects || !j->required || !j->key_langs)
        return false;
    memset(j->key_langs, 0xff, n * sizeof *j->key_langs);
    for (uint32_t i = 0; i < s->n_objects; i++) {
        learn_object(j, i);
        if (s->objects[i].members.n > longest)
            longest = s->objects[i].members.n;
    }
    j->n_bits = longest / 64 + 1;
    j->bits = budget_resize(j->budget, NULL, 0, j->n_bits * sizeof *j->bits);
    return j->bits;
}

void json_keys_close(struct json_recognizer *j)
{
    const struct shapes *s = &j->shapes;
    size_t n = (size_t)s->n_members + s->n_objects;
    budget_free(j->budget, j->objects, s->n_objects * sizeof *j->objects + 1);
    budget_free(j->budget, j->required, s->n_members * sizeof *j->required + 1);
    budget_free(j->budget, j->key_langs, n * sizeof *j->key_langs + 1);
    budget_free(j->budget, j->bits, j->n_bits * sizeof *j->bits);
}

/* ---- which members may come ---------------------------------------------------------------- */

static bool is_seen(const struct json_recognizer *j, const struct object_shape *o,
                    const struct thread *th, uint32_t member)
{
    return j->flags & JSON_ANY_ORDER ? th->count[o->classes.n + member / 32] >> member % 32 & 1
                                     : member < th->next;
}

/* Whether the object can be finished with n members, `next` members over and, in any order, member
 * `also` seen. */
static bool is_open(struct json_recognizer *j, const struct object_shape *o,
                    const struct thread *th, uint32_t next, uint32_t also, uint32_t n,
                    const uint32_t *count)
{
    uint64_t *bits = NULL;
    if (j->flags & JSON_ANY_ORDER) {
        bits = j->bits;
        memset(bits, 0, (o->members.n / 64 + 1) * sizeof *bits);
        for (uint32_t i = 0; i < o->members.n; i++)
            bits[i / 64] |= (uint64_t)(i == also || is_seen(j, o, th, i)) << i % 64;
    }
    return shape_object_open(&j->shapes, o, next, bits, n, count, NULL, NULL);
}

static bool member_may_come(struct json_recognizer *j, const struct level *l,
                            const struct thread *th, uint32_t member)
{
    const struct object_shape *o = &j->shapes.objects[th->shape];
    if (j->shapes.members[o->members.first + member].node == NODE_NONE || is_seen(j, o, th, member))
        return false;
    return j->objects[th->shape].plain ||
           is_open(j, o, th, member + 1, member, l->n + 1, th->count);
}

/* The members from th->next on that may come lie before this one. */
static uint32_t members_end(const struct json_recognizer *j, const struct thread *th)
{
    const struct object_shape *o = &j->shapes.objects[th->shape];
    if (j->flags & JSON_ANY_ORDER || th->next == o->members.n)
        return o->members.n;
    uint32_t required = j->required[o->members.first + th->next];
    return required < o->members.n ? required + 1 : required;
}

/* A class counts what matters: the members that must come, or those of a small class. */
static uint32_t counted(const struct member_class *c, uint32_t count)
{
    return c->most == SHAPE_NO_LIMIT && count >= c->min ? c->min : count + 1;
}

static bool class_may_come(struct json_recognizer *j, const struct level *l, struct thread *th,
                           uint32_t i)
{
    const struct object_shape *o = &j->shapes.objects[th->shape];
    const struct member_class *c = &j->shapes.classes[o->classes.first + i];
    uint32_t old = th->count[i], n = o->members.n;
    if (!(j->flags & JSON_ANY_ORDER) && th->next < n &&
        j->required[o->members.first + th->next] < n)
        return false;
    if (j->objects[th->shape].plain)
        return true;
    th->count[i] = counted(c, old);
    bool open = is_open(j, o, th, n, UINT32_MAX, l->n + 1, th->count);
    th->count[i] = old;
    return open;
}

/* ---- languages of keys --------------------------------------------------------------------- */

static lang key_lang(const struct json_recognizer *j, uint32_t member)
{
    struct shape_key k = j->shapes.keys[j->shapes.members[member].key];
    return lang_text(j->languages, j->shapes.text + k.at, k.n);
}

/* The union of the languages that were put on json.list from `from` on; takes them off. */
static lang union_of(struct json_recognizer *j, uint32_t from)
{
    lang all = lang_or_all(j->languages, j->list.at + from, j->list.n - from);
    j->list.n = from;
    return all;
}

static lang nameless(struct json_recognizer *j, uint32_t shape)
{
    const struct object_shape *o = &j->shapes.objects[shape];
    uint32_t from = j->list.n;
    if (j->objects[shape].nameless != UNASKED)
        return j->objects[shape].nameless;
    for (uint32_t i = 0; i < o->members.n; i++)
        if (!add_number(j, &j->list, key_lang(j, o->members.first + i)))
            return UNASKED;
    return j->objects[shape].nameless = lang_not(j->languages, union_of(j, from));
}

static lang thread_keys(struct json_recognizer *j, const struct level *l, const struct thread *th)
{
    const struct object_shape *o = &j->shapes.objects[th->shape];
    bool plain = j->objects[th->shape].plain && !(j->flags & JSON_ANY_ORDER);
    lang *kept = plain ? &j->key_langs[o->members.first + th->shape + th->next] : NULL, all;
    uint32_t from = j->list.n;
    if (kept && *kept != UNASKED)
        return *kept;
    struct thread *mine = draft_copy(j, th);
    if (!mine)
        return UNASKED;
    for (uint32_t i = th->next, end = members_end(j, th); i < end; i++)
        if (member_may_come(j, l, mine, i) &&
            !add_number(j, &j->list, key_lang(j, o->members.first + i)))
            return UNASKED;
    uint32_t classes = j->list.n;
    for (uint32_t i = 0; i < o->classes.n; i++)
        if (class_may_come(j, l, mine, i) &&
            !add_number(j, &j->list, j->shapes.classes[o->classes.first + i].keys))
            return UNASKED;
    if (j->list.n > classes) {
        all = lang_and(j->languages, union_of(j, classes), nameless(j, th->shape));
        if (!add_number(j, &j->list, all))
            return UNASKED;
    }
    draft_undo(j, mine);
    all = union_of(j, from);
    if (kept)
        *kept = all;
    return all;
}

lang json_keys_next(struct json_recognizer *j, const struct level *l)
{
    j->list.n = 0;
    draft_start(j, l);
    if (l->n_threads == 1)
        return thread_keys(j, l, (const struct thread *)(const void *)level_words(l));
    for (THREADS(j, l, th))
        if (!add_number(j, &j->list, thread_keys(j, l, th)))
            return UNASKED;
    return union_of(j, 0);
}

/* ---- a key's end --------------------------------------------------------------------------- */

static bool is_key(const struct json_recognizer *j, uint32_t member, const char *p, size_t n)
{
    struct shape_key k = j->shapes.keys[j->shapes.members[member].key];
    return k.n == n && !memcmp(j->shapes.text + k.at, p, n);
}

static bool in_lang(struct json_recognizer *j, lang a, const char *p, size_t n)
{
    for (size_t i = 0; i < n && a != LANG_NONE; i++)
        a = lang_step(j->languages, a, (unsigned char)p[i]);
    j->failed |= a == (lang)LANG_FAIL;
    return a != LANG_NONE && a != (lang)LANG_FAIL && lang_accepts(j->languages, a);
}

/* The key is this member of the thread's shape. */
static bool take_member(struct json_recognizer *j, const struct level *l, const struct thread *th,
                        uint32_t member)
{
    const struct object_shape *o = &j->shapes.objects[th->shape];
    struct thread *made = draft_copy(j, th);
    if (!made)
        return false;
    if (!member_may_come(j, l, made, member)) {
        draft_undo(j, made);
        return true;
    }
    made->want = j->shapes.members[o->members.first + member].node;
    if (j->flags & JSON_ANY_ORDER)
        made->count[o->classes.n + member / 32] |= 1u << member % 32;
    else
        made->next = member + 1;
    return true;
}

static bool take_class(struct json_recognizer *j, const struct level *l, const struct thread *th,
                       const char *p, size_t n, bool *taken)
{
    const struct object_shape *o = &j->shapes.objects[th->shape];
    for (uint32_t i = 0; i < o->classes.n; i++) {
        const struct member_class *c = &j->shapes.classes[o->classes.first + i];
        struct thread *made = draft_copy(j, th);
        if (!made)
            return false;
        if (!class_may_come(j, l, made, i) || !in_lang(j, c->keys, p, n)) {
            draft_undo(j, made);
            continue;
        }
        made->want = c->node;
        made->count[i] = counted(c, made->count[i]);
        if (!(j->flags & JSON_ANY_ORDER))
            made->next = o->members.n;
        *taken = true;
    }
    return true;
}

enum step json_key_end(struct json_recognizer *j, struct track *t, struct place *p)
{
    const struct level *l = level_at(t, level_of(t, p));
    size_t n;
    const char *text = recorded_text(t, p, &n);
    uint64_t hash = xxh64(text, n);
    struct seen_key key = seen_key_of(hash, text, n);
    bool seen = seen_has(t, l->seen, &key), taken = false;
    draft_start(j, l);
    j->head.n++;
    j->head.key = l->unique ? hash : 0;
    for (THREADS(j, l, th)) {
        const struct object_shape *o = &j->shapes.objects[th->shape];
        uint32_t i = 0;
        while (i < o->members.n && !is_key(j, o->members.first + i, text, n))
            i++;
        if (i < o->members.n ? i < members_end(j, th) && !take_member(j, l, th, i)
                             : !seen && !take_class(j, l, th, text, n, &taken))
            return STEP_NO_ROOM;
    }
    if (taken && !unique_remember(j, t, p, &key))
        return STEP_NO_ROOM;
    if (j->searching && j->goal == GOAL_KEY)
        j->found = true;
    return draft_push(j, t, p, AT_COLON);
}
