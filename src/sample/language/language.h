/* Regular languages over bytes, as expressions with and, not and counted repeats. Equal expressions
 * are the same number (hash-consing), so a language is a state of its own lazily built automaton:
 * the derivative by a byte is the next state [Brzozowski 1964; Owens, Reppy, Turon 2009].
 *
 * A repeat keeps its bounds as two numbers and is never unrolled. A language never changes; a set of
 * languages only grows. Not thread-safe: the owner locks. */
#ifndef LANGUAGE_LANGUAGE_H
#define LANGUAGE_LANGUAGE_H

#include "base/budget.h"

typedef uint32_t lang;

enum {
    LANG_NONE = 0,  /* no text */
    LANG_BLANK = 1, /* the empty text alone */
    LANG_ALL = 2,   /* every run of bytes */
    LANG_CHARS = 3, /* every valid UTF-8 text */
};
/* Returned where the budget or the memory is gone. Every operation takes it and returns it, so that a
 * caller may check once at its end. */
#define LANG_FAIL UINT32_MAX
#define LANG_MANY UINT32_MAX /* a repeat without upper bound */

struct languages;

/* `budget` is borrowed until close; while generating it is what the lazy automata may still take. */
struct languages *languages_open(struct budget *budget); /* NULL: no memory */
void languages_close(struct languages *ls);
struct budget *languages_budget(const struct languages *ls);

/* ---- building. Arguments may be LANG_FAIL ---- */
lang lang_set(struct languages *ls, const uint64_t set[4]); /* one byte of the set */
lang lang_text(struct languages *ls, const char *p, size_t n);
lang lang_char_range(struct languages *ls, uint32_t from, uint32_t to); /* one code point, as UTF-8;
                                                                    surrogates are left out */
/* One code point of ranges[0..n), each {first, last}, which ascend and do not overlap. */
lang lang_chars(struct languages *ls, const uint32_t (*ranges)[2], size_t n);
lang lang_concat(struct languages *ls, lang a, lang b);
lang lang_or(struct languages *ls, lang a, lang b);
lang lang_or_all(struct languages *ls, const lang *x, size_t n);
struct lang_span { /* bytes */
    const char *p;
    size_t n;
};
lang lang_texts(struct languages *ls, struct lang_span *x, size_t n); /* one of them; sorts x */
lang lang_and(struct languages *ls, lang a, lang b);
lang lang_not(struct languages *ls, lang a); /* of all runs of bytes */
lang lang_repeat(struct languages *ls, lang a, uint32_t min, uint32_t max);

/* ---- leaves: automata that are given by functions (numbers.c) ----
 * A state is a number that the owner deals out; it stands for the texts that lead to an end from it.
 * There is always one: step answers LEAF_DEAD where no text follows. No two states that are used
 * together need to differ, but equal sets should be equal states. */
#define LEAF_DEAD UINT32_MAX
#define LEAF_NO_BUDGET (UINT32_MAX - 1)
struct leaf_lengths { /* as a lang_node has them, of a state whose bytes are characters */
    uint32_t shortest, longest, worst, gap;
};
struct leaf_calls {
    uint32_t (*step)(void *owner, uint32_t state, unsigned char byte); /* state, DEAD, NO_BUDGET */
    bool (*accepts)(void *owner, uint32_t state);
    uint32_t (*near)(void *owner, uint32_t state,
                     uint32_t n); /* as lang_near; state is right, too */
    /* Bytes at which a class begins that no state of this one's kind tells apart. */
    const char *(*cuts)(void *owner, uint32_t state);
    /* false: they are not known */
    bool (*lengths)(void *owner, uint32_t state, struct leaf_lengths *out);
    void (*close)(void *owner); /* called by languages_close */
    uint64_t bytes[4];          /* all other bytes lead every state to DEAD */
};
/* The set's one owner; NULL before the first. */
void *lang_leaf_owner(const struct languages *ls);
void lang_set_leaf_owner(struct languages *ls, const struct leaf_calls *calls, void *owner);
lang lang_leaf(struct languages *ls, uint32_t state);

/* ---- reading ---- */
/* The derivative. LANG_NONE: no text goes on so (lang_is_live has said LANG_NO). LANG_FAIL: the budget
 * is gone. A second question about a state and a byte is answered from a table. */
lang lang_step(struct languages *ls, lang a, unsigned char byte);
bool lang_accepts(const struct languages *ls, lang a); /* the empty text */
uint32_t lang_shortest(const struct languages *ls, lang a); /* characters of no text are fewer */

/* Is there a text in it? Explores its automaton; answers are remembered. LANG_NONE is dead at once;
 * an expression without and, not and numbers is live at once. */
enum lang_answer { LANG_NO, LANG_YES, LANG_UNKNOWN /* the budget is gone */ };
enum lang_answer lang_is_live(struct languages *ls, lang a);
/* Every state that a text can reach is decided. A constraint asks this of each of its languages when it
 * is compiled, so that lang_is_live never answers LANG_UNKNOWN later. */
enum lang_answer lang_decide(struct languages *ls, lang a);
enum lang_answer lang_subset(struct languages *ls, lang a, lang b);

/* The set of bytes that lead to a live state; those too whose answer a lack of budget hides. */
void lang_first(struct languages *ls, lang a, uint64_t set[4]);
/* How many texts it has, at most `most` + 1 are counted; false: the budget is gone. */
bool lang_count(struct languages *ls, lang a, uint32_t most, uint32_t *count);
/* Calls `each` with every text of a finite language, in byte order; false: the budget is gone or `each`
 * returned false. */
bool lang_each(struct languages *ls, lang a, bool (*each)(void *arg, const char *p, size_t n),
               void *arg);

/* A language with the same live texts of up to n bytes, the bounds of repeats above n forgotten: what
 * a mask looks at. States of a long counter then share one mask. */
lang lang_near(struct languages *ls, lang a, uint32_t n);

#endif
