/* The leaves of languages: see leaf.h. */
#include "sample/constraint/leaf.h"

#include "sample/constraint/numbers.h"
#include "sample/constraint/string_formats.h"

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
    enum leaf_kind kind = kind_of(leaf);
    uint32_t state = leaf & STATE;
    if (kind == LEAF_TIME)
        state = time_step(state, byte);
    else if (kind == LEAF_HOST)
        state = host_step(state, byte);
    else if ((state = numbers_step(owner, state, byte)) > STATE)
        return LEAF_NO_BUDGET;
    return state ? with_kind(kind, state) : LEAF_DEAD;
}

static bool accepts(void *owner, uint32_t leaf)
{
    switch (kind_of(leaf)) {
    case LEAF_TIME:
        return time_accepts(leaf & STATE);
    case LEAF_HOST:
        return host_accepts(leaf & STATE);
    default:
        return numbers_accepts(owner, leaf & STATE);
    }
}

static uint32_t near(void *owner, uint32_t leaf, uint32_t n)
{
    (void)owner;
    return kind_of(leaf) == LEAF_HOST ? with_kind(LEAF_HOST, host_near(leaf & STATE, n)) : leaf;
}

static void close(void *owner)
{
    numbers_close(owner);
}

struct numbers *leaf_numbers(struct languages *ls)
{
    /* bytes: + - . 0..9 :, letters */
    static const struct leaf_calls calls = {
        step, accepts, near, close, {0x07FF680000000000, 0x07FFFFFE07FFFFFE, 0, 0}};
    struct numbers *ns = lang_leaf_owner(ls);
    if (ns)
        return ns;
    ns = numbers_open(languages_budget(ls));
    if (ns)
        lang_set_leaf_owner(ls, &calls, ns);
    return ns;
}

lang leaf_lang(struct languages *ls, enum leaf_kind kind, uint32_t state)
{
    if (!leaf_numbers(ls) || state > STATE)
        return LANG_FAIL;
    return lang_leaf(ls, with_kind(kind, state));
}
