/* cflags: -O2 */
/* States behind every character: see mask_reach.h. */
#include "sample/constraint/mask_reach.h"

enum { WITHIN_STATES = 24 };

/* Adds x to list[0..*n) unless it is there; false: there is no room. */
static bool add_state(lang (*list)[2], uint32_t *n, uint32_t most, lang x, lang y)
{
    for (uint32_t i = 0; i < *n; i++)
        if (list[i][0] == x && list[i][1] == y)
            return true;
    if (*n == most)
        return false;
    list[*n][0] = x, list[(*n)++][1] = y;
    return true;
}

/* The states behind each character that may follow a are added to r->reached[0..*n); false: there is a
 * character that may not follow, or no room. */
static bool expand(struct reaches *r, struct languages *ls, lang a, uint32_t *n)
{
    lang within[WITHIN_STATES][2] = {{a, LANG_CHARS}}; /* of a character: of a, of any text */
    uint32_t n_within = 1;
    for (uint32_t i = 0; i < n_within; i++) {
        lang last = LANG_NONE, last_any = LANG_NONE;
        for (unsigned byte = 0; byte < 0xF5; byte++) {
            lang any = lang_step(ls, within[i][1], (unsigned char)byte);
            if (any == LANG_NONE)
                continue;
            lang next = lang_step(ls, within[i][0], (unsigned char)byte);
            if (next == LANG_NONE || next == LANG_FAIL || any == LANG_FAIL)
                return false;
            if (next == last && any == last_any)
                continue;
            last = next, last_any = any;
            bool fits = any == LANG_CHARS
                            ? add_state(r->reached, n, REACH_STATES, next, LANG_CHARS)
                            : add_state(within, &n_within, WITHIN_STATES, next, any);
            if (!fits)
                return false;
        }
    }
    return true;
}

/* Whether a comes to rest soon where the same character follows again and again. Where it does not, as with
 * counters, looking at all its states costs more than it saves; where it becomes LANG_CHARS, that is found
 * without looking. */
static bool comes_to_rest(struct languages *ls, lang a)
{
    for (int i = 0; i < 4; i++) {
        lang next = lang_step(ls, a, '~');
        if (next == a)
            return a != LANG_NONE && a != LANG_FAIL && a != LANG_CHARS;
        a = next;
    }
    return false;
}

unsigned reaches_find(struct reaches *r, struct languages *ls, lang a)
{
    struct reach *x = &r->slots[(a * 2654435761u) >> 22];
    uint32_t done = 0, n = 1, end;
    if (x->a == a)
        return x->characters;
    *x = (struct reach){a, 0};
    r->reached[0][0] = a, r->reached[0][1] = LANG_CHARS;
    if (!comes_to_rest(ls, a))
        return 0;
    do {
        for (end = n; done < end; done++)
            if (!expand(r, ls, r->reached[done][0], &n))
                return x->characters;
        x->characters++;
    } while (n > end && n < REACH_STATES);
    if (n == end)
        x->characters = UINT16_MAX;
    return x->characters;
}
