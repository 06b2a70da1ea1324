/* Sets of words: see word_sets.h. */
#include "sample/recognize/word_sets.h"

#include "base/xxh64.h"

#include <stdlib.h>
#include <string.h>

void word_sets_open(struct word_sets *w, struct languages *languages, struct budget *budget)
{
    *w = (struct word_sets){.languages = languages, .budget = budget};
}

void word_sets_close(struct word_sets *w)
{
    budget_free(w->budget, w->words.at, w->words.capacity * sizeof *w->words.at);
    budget_free(w->budget, w->list.at, w->list.capacity * sizeof *w->list.at);
    budget_free(w->budget, w->sets, w->sets_capacity * sizeof *w->sets);
    budget_free(w->budget, w->by_content, w->n_by_content * sizeof *w->by_content);
    budget_free(w->budget, w->steps, w->n_places * sizeof *w->steps);
}

bool word_list_add(struct word_sets *w, struct word_list *list, uint32_t slot, lang rest)
{
    if (rest == (lang)LANG_FAIL ||
        !budget_grow(w->budget, &list->at, &list->capacity, list->n + 1u, sizeof *list->at))
        return false;
    list->at[list->n++] = (struct word){slot, rest};
    return true;
}

static int by_slot(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    return x->rest < y->rest ? -1 : x->rest > y->rest;
}

static uint32_t place_of(const struct word_sets *w, const struct word *at, uint32_t n)
{
    uint32_t mask = w->n_by_content - 1, i = (uint32_t)xxh64(at, n * sizeof *at) & mask;
    for (uint32_t set; (set = w->by_content[i]); i = (i + 1) & mask)
        if (w->sets[set].n == n && !memcmp(w->words.at + w->sets[set].first, at, n * sizeof *at))
            break;
    return i;
}

/* Doubles the table of sets when it is half full; set 0 is made with the first table. */
static bool room_for_a_set(struct word_sets *w)
{
    if (!budget_grow(w->budget, &w->sets, &w->sets_capacity, w->n_sets + 2u, sizeof *w->sets))
        return false;
    if (!w->n_sets)
        w->sets[w->n_sets++] = (struct word_set){0, 0, LANG_NONE};
    if (w->n_sets * 2 < w->n_by_content)
        return true;
    uint32_t old = w->n_by_content, n = old ? old * 2 : 64;
    uint32_t *table =
        budget_resize(w->budget, w->by_content, old * sizeof *table, n * sizeof *table);
    if (!table)
        return false;
    memset(table, 0, n * sizeof *table);
    w->by_content = table;
    w->n_by_content = n;
    for (uint32_t set = 1; set < w->n_sets; set++)
        table[place_of(w, w->words.at + w->sets[set].first, w->sets[set].n)] = set;
    return true;
}

uint32_t words_find(struct word_sets *w, struct word_list *list)
{
    uint32_t n = 0;
    if (!room_for_a_set(w))
        return WORDS_FAIL;
    if (list->n > 1)
        qsort(list->at, list->n, sizeof *list->at, by_slot);
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i].rest != LANG_NONE && (!n || by_slot(&list->at[n - 1], &list->at[i])))
            list->at[n++] = list->at[i];
    list->n = 0;
    if (!n)
        return WORDS_NONE;
    uint32_t place = place_of(w, list->at, n), set = w->by_content[place];
    if (set)
        return set;
    if (!budget_grow(w->budget, &w->words.at, &w->words.capacity, (size_t)w->words.n + n,
                     sizeof *w->words.at))
        return WORDS_FAIL;
    memcpy(w->words.at + w->words.n, list->at, n * sizeof *list->at);
    w->sets[w->n_sets] = (struct word_set){w->words.n, n, LANG_FAIL};
    w->words.n += n;
    return w->by_content[place] = w->n_sets++;
}

static uint32_t take_step(struct word_sets *w, uint32_t set, unsigned char byte)
{
    struct word_list *list = &w->list;
    list->n = 0;
    for (uint32_t i = 0; i < w->sets[set].n; i++) {
        struct word word = w->words.at[w->sets[set].first + i];
        lang rest = lang_step(w->languages, word.rest, byte);
        if (rest == LANG_NONE)
            continue;
        if (!word_list_add(w, list, word.slot, rest))
            return WORDS_FAIL;
        if (w->follow && lang_accepts(w->languages, rest) && !w->follow(w->arg, word.slot, list))
            return WORDS_FAIL;
    }
    return words_find(w, list);
}

static struct word_step *step_place(const struct word_sets *w, uint32_t set, unsigned char byte)
{
    uint32_t mask = w->n_places - 1, i = ((set * 256 + byte) * 2654435761u) >> 7 & mask;
    while (w->steps[i].from && (w->steps[i].from != set || w->steps[i].byte != byte))
        i = (i + 1) & mask;
    return &w->steps[i];
}

static bool room_for_a_step(struct word_sets *w)
{
    if (w->n_steps * 2 < w->n_places)
        return true;
    uint32_t old = w->n_places, n = old ? old * 2 : 64;
    struct word_step *steps = w->steps, *all = budget_resize(w->budget, NULL, 0, n * sizeof *all);
    if (!all)
        return false;
    memset(all, 0, n * sizeof *all);
    w->steps = all;
    w->n_places = n;
    for (uint32_t i = 0; i < old; i++)
        if (steps[i].from)
            *step_place(w, steps[i].from, steps[i].byte) = steps[i];
    budget_free(w->budget, steps, old * sizeof *steps);
    return true;
}

uint32_t words_step(struct word_sets *w, uint32_t set, unsigned char byte)
{
    if (set == WORDS_NONE)
        return WORDS_NONE;
    if (!room_for_a_step(w))
        return WORDS_FAIL;
    struct word_step *s = step_place(w, set, byte);
    if (s->from)
        return s->to;
    uint32_t to = take_step(w, set, byte);
    if (to != WORDS_FAIL) {
        *s = (struct word_step){set, to, byte};
        w->n_steps++;
    }
    return to;
}

lang words_any(struct word_sets *w, uint32_t set)
{
    if (set == WORDS_NONE)
        return LANG_NONE;
    lang any = w->sets[set].any;
    if (any != (lang)LANG_FAIL)
        return any;
    any = LANG_NONE;
    for (uint32_t i = 0; i < w->sets[set].n; i++)
        any = lang_or(w->languages, any, w->words.at[w->sets[set].first + i].rest);
    return w->sets[set].any = any;
}
