/* Sets of words that are read side by side: pairs (slot, language), the language being what of the
 * slot's word is still to come. Equal sets are the same number, so that a set is a state of an
 * automaton; its steps are remembered. Sets only grow in number. */
#ifndef RECOGNIZE_WORD_SETS_H
#define RECOGNIZE_WORD_SETS_H

#include "sample/language/language.h"

enum { WORDS_NONE = 0, WORDS_FAIL = UINT32_MAX }; /* the empty set; budget or memory are gone */

struct word {
    uint32_t slot;
    lang rest;
};

struct word_list {   /* under construction */
    struct word *at; /* [n] of [capacity] */
    uint32_t n, capacity;
};

struct word_sets {
    struct languages *languages; /* borrowed */
    struct budget *budget;       /* borrowed */
    struct word_list words;      /* of all sets */
    struct word_set {
        uint32_t first, n; /* of words */
        lang any;          /* the union of the rests; LANG_FAIL: not asked yet */
    } * sets;
    uint32_t n_sets, sets_capacity;
    uint32_t *by_content; /* [n_by_content], a power of two: sets by hash, 0: free */
    uint32_t n_by_content;
    struct word_step {
        uint32_t from, to; /* sets; 0: free */
        unsigned char byte;
    } * steps; /* [n_places], a power of two; used: n_steps */
    uint32_t n_places, n_steps;
    struct word_list list; /* of a caller that builds a set */
    /* What joins the list when the word of a slot is over; NULL: nothing. */
    bool (*follow)(void *arg, uint32_t slot, struct word_list *list);
    void *arg;
};

void word_sets_open(struct word_sets *w, struct languages *languages, struct budget *budget);
void word_sets_close(struct word_sets *w);

static inline const struct word *words_of(const struct word_sets *w, uint32_t set, uint32_t *n)
{
    *n = w->sets[set].n;
    return w->words.at + w->sets[set].first;
}

bool word_list_add(struct word_sets *w, struct word_list *list, uint32_t slot, lang rest);
/* The set of the pairs in `list`, which is emptied; pairs may come in any order and twice. */
uint32_t words_find(struct word_sets *w, struct word_list *list);
uint32_t words_step(struct word_sets *w, uint32_t set, unsigned char byte);
lang words_any(struct word_sets *w, uint32_t set);

#endif
