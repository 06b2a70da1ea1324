/* The leaves of languages: see leaf.h. */
#include "sample/language/leaf.h"

#include "sample/language/numbers.h"
#include "sample/language/string_formats.h"

struct leaves {
    struct budget *budget;
    struct numbers *numbers;
    lang formats[LEAF_FORMATS];
};

/* A leaf's state is its kind above and the kind's own state below. */
enum { KIND = 29 };
#define STATE (((uint32_t)1 << KIND) - 1)

static enum leaf_kind kind_of(uint32_t leaf)
{
    return (enum leaf_kind)(leaf >> KIND);
}

static uint32_t with_kind(enum leaf_kind kind, uint32_t state)
{
    return (uint32_t)kind << KIND | state;
}

static uint32_t step(void *owner, uint32_t leaf, unsigned char byte)
{
    const struct leaves *l = owner;
    enum leaf_kind kind = kind_of(leaf);
    uint32_t state = leaf & STATE;
    if (kind == LEAF_TIME)
        state = time_step(state, byte);
    else if (kind == LEAF_HOST)
        state = host_step(state, byte);
    else if ((state = numbers_step(l->numbers, state, byte)) > STATE)
        return LEAF_NO_BUDGET;
    return state ? with_kind(kind, state) : LEAF_DEAD;
}

static bool accepts(void *owner, uint32_t leaf)
{
    const struct leaves *l = owner;
    switch (kind_of(leaf)) {
    case LEAF_TIME:
        return time_accepts(leaf & STATE);
    case LEAF_HOST:
        return host_accepts(leaf & STATE);
    default:
        return numbers_accepts(l->numbers, leaf & STATE);
    }
}

static uint32_t near(void *owner, uint32_t leaf, uint32_t n)
{
    (void)owner;
    return kind_of(leaf) == LEAF_HOST ? with_kind(LEAF_HOST, host_near(leaf & STATE, n)) : leaf;
}

static const char *cuts(void *owner, uint32_t leaf)
{
    (void)owner;
    switch (kind_of(leaf)) {
    case LEAF_TIME:
        return "+,-./0123456789:;Z[z{";
    case LEAF_HOST:
        return "-./0:A[a{";
    default:
        return "-./0123456789:";
    }
}

static bool lengths(void *owner, uint32_t leaf, struct leaf_lengths *out)
{
    (void)owner;
    if (kind_of(leaf) == LEAF_TIME)
        *out = time_lengths(leaf & STATE);
    else if (kind_of(leaf) == LEAF_HOST)
        *out = host_lengths(leaf & STATE);
    return kind_of(leaf) != LEAF_NUMBER;
}

static void close(void *owner)
{
    struct leaves *l = owner;
    numbers_close(l->numbers);
    budget_free(l->budget, l, sizeof *l);
}

static struct leaves *leaves_of(struct languages *ls)
{
    /* bytes: + - . 0..9 :, letters */
    static const struct leaf_calls calls = {
        step, accepts, near, cuts, lengths, close, {0x07FF680000000000, 0x07FFFFFE07FFFFFE, 0, 0}};
    struct leaves *l = lang_leaf_owner(ls);
    struct budget *b = languages_budget(ls);
    if (l || !(l = budget_resize(b, NULL, 0, sizeof *l)))
        return l;
    *l = (struct leaves){.budget = b, .numbers = numbers_open(b)};
    if (!l->numbers) {
        close(l);
        return NULL;
    }
    lang_set_leaf_owner(ls, &calls, l);
    return l;
}

struct numbers *leaf_numbers(struct languages *ls)
{
    struct leaves *l = leaves_of(ls);
    return l ? l->numbers : NULL;
}

lang *leaf_formats(struct languages *ls)
{
    struct leaves *l = leaves_of(ls);
    return l ? l->formats : NULL;
}

lang leaf_lang(struct languages *ls, enum leaf_kind kind, uint32_t state)
{
    if (!leaves_of(ls) || state > STATE)
        return LANG_FAIL;
    return lang_leaf(ls, with_kind(kind, state));
}
