/* What must not come twice: see json_unique.h.
 *
 * A text that is alive but for repeats may run into a dead end: ["a", "a where only "a" and "b" are
 * items and "b" has come. So after each step it is asked whether a text that is no repeat can follow.
 * It can where more texts can follow the word being read than it can still repeat. Else a depth-first
 * search looks for one; it meets each repeat once, so that it is short where few were seen. What one
 * search finds, that of a later place finds in no more steps, so that no dead end comes of its bound. */
#include "sample/recognize/json_unique.h"

#include "sample/recognize/json_keys.h"
#include "sample/recognize/json_level.h"
#include "sample/recognize/json_step.h"
#include "sample/recognize/json_word.h"
#include "base/xxh64.h"

#include <string.h>

static uint64_t hash_of(const struct seen_key *key)
{
    return key->bits[SEEN_BITS / 64 - 1];
}

bool unique_remember(struct json_recognizer *j, struct track *t, struct place *p,
                     const struct seen_key *key)
{
    if (!seen_add(t, p, &j->head.seen, key))
        return false;
    j->head.n_seen++;
    j->head.seen_sum += hash_mix(hash_of(key));
    return true;
}

bool unique_value(struct json_recognizer *j, struct track *t, struct place *p,
                  const struct seen_key *key)
{
    if (j->head.kind == LEVEL_OBJECT)
        j->head.sum += hash_mix(hash_of(key) ^ hash_mix(j->head.key));
    else
        j->head.sum = hash_mix(j->head.sum + hash_mix(hash_of(key)));
    if (j->head.flags & LEVEL_UNIQUE) {
        if (!unique_remember(j, t, p, key))
            return false;
        j->head.watch++;
    }
    if (j->head.depth == j->goal && j->searching)
        j->found = true;
    return true;
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* e-?[1-9][0-9]{1,2}, at least 64: numbers that have no other text here (number_powers.h). */
static lang canonical_exponent(struct languages *ls)
{
    uint64_t digits[4] = {0x3ffull << '0', 0, 0, 0}, nonzeros[4] = {0x3feull << '0', 0, 0, 0};
    uint64_t large[4] = {0x380ull << '0', 0, 0, 0}, four[4] = {0x3f0ull << '0', 0, 0, 0};
    lang digit = lang_set(ls, digits), six = lang_text(ls, "6", 1);
    lang two = lang_or(ls, lang_concat(ls, lang_set(ls, large), digit),
                       lang_concat(ls, six, lang_set(ls, four)));
    lang three = lang_concat(ls, lang_set(ls, nonzeros), lang_repeat(ls, digit, 2, 2));
    lang e = lang_or(ls, lang_text(ls, "e", 1), lang_text(ls, "e-", 2));
    return lang_concat(ls, e, lang_or(ls, two, three));
}

/* 0, -?[1-9][0-9]*, and either of them with a fraction that does not end in 0. Of limited numbers also those that
 * need an exponent. */
static lang canonical_numbers(struct languages *ls, bool limited)
{
    uint64_t digits[4] = {0x3ffull << '0', 0, 0, 0}, nonzeros[4] = {0x3feull << '0', 0, 0, 0};
    lang digit = lang_repeat(ls, lang_set(ls, digits), 0, LANG_MANY),
         nonzero = lang_set(ls, nonzeros);
    lang minus = lang_or(ls, lang_text(ls, "-", 1), LANG_BLANK), zero = lang_text(ls, "0", 1);
    lang whole = lang_concat(ls, nonzero, digit);
    lang fraction = lang_concat(ls, lang_text(ls, ".", 1), lang_concat(ls, digit, nonzero));
    lang any = lang_concat(ls, whole, lang_or(ls, fraction, LANG_BLANK));
    any = lang_or(ls, any, lang_concat(ls, zero, fraction));
    lang power = lang_concat(ls, nonzero, lang_or(ls, fraction, LANG_BLANK));
    if (limited)
        any = lang_or(ls, any, lang_concat(ls, power, canonical_exponent(ls)));
    any = lang_concat(ls, minus, any);
    return lang_or(ls, any, zero);
}

lang unique_numbers(struct json_recognizer *j, lang numbers)
{
    bool limited = numbers != j->shapes.nodes[NODE_ANY].number;
    if (j->canonical[limited] == (lang)LANG_FAIL)
        j->canonical[limited] = canonical_numbers(j->languages, limited);
    return lang_and(j->languages, numbers, j->canonical[limited]);
}

/* ---- the search --------------------------------------------------------------------------- */

enum { DEPTH = 512 };

/* Takes a byte out of the set: ends first, blanks and escapes last. 256: it is empty. */
static unsigned next_byte(uint64_t set[4])
{
    static const char first[] = "\"]},:0123456789", last[] = "[{ \n\t\\";
    unsigned byte = 256;
    for (const char *c = first; *c && byte == 256; c++)
        if (set[*c / 64] >> *c % 64 & 1)
            byte = (unsigned char)*c;
    uint64_t late[2] = {0, 0};
    for (const char *c = last; *c; c++)
        late[*c / 64] |= 1ull << *c % 64;
    for (unsigned i = 0; i < 4 && byte == 256; i++) {
        uint64_t now = set[i] & ~(i < 2 ? late[i] : 0);
        if (now)
            byte = i * 64 + (unsigned)__builtin_ctzll(now);
    }
    for (const char *c = last; *c && byte == 256; c++)
        if (set[*c / 64] >> *c % 64 & 1)
            byte = (unsigned char)*c;
    if (byte < 256)
        set[byte / 64] &= ~(1ull << byte % 64);
    return byte;
}

/* Whether a text leads from p to the end of what is at `goal`. */
static enum step search(struct json_recognizer *j, struct track *t, const struct place *p,
                        uint32_t goal)
{
    struct search_frame *f = j->frames;
    uint32_t n = 1, steps = 0;
    enum step answer = STEP_DEAD;
    if (!f && !(j->frames = f = budget_resize(j->budget, NULL, 0, DEPTH * sizeof *f)))
        return STEP_NO_ROOM;
    j->searching = true;
    j->found = false;
    j->goal = goal;
    f[0].place = *p;
    json_first(j, t, p, f[0].left);
    while (n && steps < JSON_SEARCH) {
        unsigned byte = next_byte(f[n - 1].left);
        if (byte == 256) {
            n--;
            continue;
        }
        struct place q = f[n - 1].place;
        enum step s = json_advance(j, t, &q, (unsigned char)byte);
        steps++;
        if (s == STEP_NO_ROOM || j->found) {
            answer = s;
            if (s != STEP_DEAD)
                break;
            j->found = false;
        }
        if (s != STEP_ALIVE || n == DEPTH)
            continue;
        f[n].place = q;
        json_first(j, t, &q, f[n].left);
        n++;
    }
    j->searching = false;
    return answer;
}

/* ---- what is known of languages -------------------------------------------------------------- */

enum { FACTS = 1024, STATES = 64 };

static struct lang_facts *facts_of(struct json_recognizer *j, lang a)
{
    size_t size = FACTS * sizeof *j->facts;
    if (!j->facts) {
        if (!(j->facts = budget_resize(j->budget, NULL, 0, size)))
            return NULL;
        memset(j->facts, 0, size);
    }
    struct lang_facts *f = &j->facts[(a * 2654435761u) >> 22];
    if (f->a != a)
        *f = (struct lang_facts){.a = a};
    return f;
}

/* More than n texts are in a language. */
static bool has_more(struct json_recognizer *j, lang a, uint32_t n)
{
    struct lang_facts *f = facts_of(j, a);
    uint32_t count, most = 64;
    if (f && f->more >= n)
        return true;
    if (f && f->counted)
        return false;
    while (most < n)
        most *= 2;
    if (!f || !lang_count(j->languages, a, most, &count))
        return j->failed = true;
    if (count) { /* more >= n where count > n */
        f->counted = count <= most;
        f->more = f->counted ? count - 1 : most;
    }
    return count > n;
}

/* What may not be repeated when a word or a key begins or goes on at p. */
static uint32_t repeats_at(const struct level *l, const struct place *p)
{
    enum phase phase = phase_of(p);
    bool key =
        p->more & MORE_KEY || (l->kind == LEVEL_OBJECT && (phase == AT_COMMA || phase == AT_ITEM));
    return l->watch + (key ? l->n_seen : 0);
}

/* Those of them that the word at p can still become, if p is in one; more may be counted. */
static uint32_t repeats_of_word(const struct track *t, const struct place *p)
{
    const struct level *l = level_at(t, level_of(t, p));
    uint32_t all = repeats_at(l, p);
    size_t n;
    if (!all || !(p->more & MORE_RECORDED) || !(p->more & MORE_KEY || l->flags & LEVEL_UNIQUE))
        return all;
    const char *text = recorded_text(t, p, &n);
    return all - l->n_seen + seen_beginning(t, l->seen, text, n);
}

/* Behind an item of the outermost array of unique items. */
static bool item_is_over(const struct track *t, const struct place *p)
{
    const struct level *l = level_at(t, level_of(t, p));
    return l->depth == l->unique && l->unique &&
           (phase_of(p) == AT_AFTER || phase_of(p) == AT_CLOSE);
}

/* More than n words can go on here or begin. */
static bool has_more_words(struct json_recognizer *j, const struct level *l, const struct place *p,
                           uint32_t n)
{
    enum phase phase = phase_of(p);
    bool item = phase == AT_COMMA || phase == AT_ITEM || phase == AT_INDENT;
    if (phase == AT_NUMBER || phase == AT_STRING || phase == AT_QUOTE)
        return has_more(j, word_rest(j, p), n);
    if (item && l->kind == LEVEL_OBJECT)
        return has_more(j, json_keys_next(j, l), n);
    if (!item && phase != AT_VALUE && phase != AT_GAP)
        return false;
    for (THREADS(j, l, th)) {
        const struct node *node = &j->shapes.nodes[th->want];
        if ((node->string != LANG_NONE && has_more(j, node->string, n)) ||
            (node->number != LANG_NONE && has_more(j, unique_numbers(j, node->number), n)))
            return true;
    }
    return false;
}

/* Reads the rest of a literal; goes from behind a bracket or a value to the next item, if one may come. */
static enum step go_to_word(struct json_recognizer *j, struct track *t, struct place *p)
{
    enum step s = STEP_ALIVE;
    uint64_t only[4];
    while (phase_of(p) == AT_LITERAL && s == STEP_ALIVE) {
        json_first(j, t, p, only);
        s = json_advance(j, t, p, (unsigned char)next_byte(only));
    }
    if (s != STEP_ALIVE || item_is_over(t, p))
        return s;
    struct place q = *p;
    bool open = phase_of(p) == AT_OPEN, array = level_at(t, level_of(t, p))->kind == LEVEL_ARRAY;
    if (phase_of(p) == AT_AFTER || (open && array))
        s = open ? item_begin(j, t, &q, AT_ITEM) : json_advance(j, t, &q, ',');
    else if (open)
        go_to(&q, AT_ITEM, 0);
    if (s == STEP_ALIVE)
        *p = q;
    return s == STEP_NO_ROOM ? s : STEP_ALIVE;
}

enum step unique_check(struct json_recognizer *j, struct track *t, const struct place *p)
{
    const struct level *l = level_at(t, level_of(t, p));
    uint32_t goal = l->watch ? l->unique : GOAL_KEY;
    struct place q = *p;
    if (!repeats_of_word(t, p) || item_is_over(t, p))
        return STEP_ALIVE; /* of a next item, the comma asks */
    enum step s = go_to_word(j, t, &q);
    if (s != STEP_ALIVE || item_is_over(t, &q))
        return s;
    l = level_at(t, level_of(t, &q));
    if (has_more_words(j, l, &q, repeats_of_word(t, &q)))
        return STEP_ALIVE;
    return search(j, t, p, goal);
}

/* Whether every live state that follows has a text that is not empty: then each has infinitely many. At
 * most STATES states are looked at. */
static bool is_endless(struct json_recognizer *j, lang a)
{
    struct numbers_list *list = &j->reached;
    uint64_t set[4];
    list->n = 0;
    if (!add_number(j, list, a))
        return false;
    for (uint32_t i = 0; i < list->n && list->n <= STATES; i++) {
        lang_first(j->languages, list->at[i], set);
        if (!(set[0] | set[1] | set[2] | set[3]))
            return false;
        for (unsigned byte = 0; byte < 256; byte++) {
            if (!(set[byte / 64] >> byte % 64 & 1))
                continue;
            lang next = lang_step(j->languages, list->at[i], (unsigned char)byte);
            bool known = false;
            for (uint32_t k = list->n; k-- > 0 && !known;)
                known = list->at[k] == next;
            if (next == (lang)LANG_FAIL || (!known && !add_number(j, list, next)))
                return false;
        }
    }
    return list->n <= STATES;
}

/* How many repeats cannot end a word of a early, + 1. Where a is not endless, its texts of up to reach +
 * MARGIN bytes may be those of an endless language of n states. Each of these has a text of less than n
 * bytes, and behind each text another one at most n bytes on: MARGIN / n within MARGIN bytes. */
static uint32_t free_repeats(struct json_recognizer *j, lang a, uint32_t reach)
{
    enum { MARGIN = 64 };
    if (is_endless(j, a)) {
        for (uint32_t i = 0; i < j->reached.n; i++) /* so are those that follow */
            facts_of(j, j->reached.at[i])->free = UINT32_MAX;
        return UINT32_MAX;
    }
    (void)lang_near(j->languages, a,
                    reach); /* the mask asks this: it is remembered for one reach */
    lang near = lang_near(j->languages, a, reach + MARGIN);
    return near != a && is_endless(j, near) ? MARGIN / j->reached.n : 1;
}

bool unique_free(struct json_recognizer *j, const struct track *t, const struct place *p, lang rest,
                 uint32_t reach)
{
    uint32_t repeats = repeats_of_word(t, p), most;
    struct lang_facts *f;
    if (!repeats || rest == LANG_CHARS)
        return true;
    if (!(f = facts_of(j, rest)))
        return false;
    if ((most = f->free) == 0) {
        most = free_repeats(j, rest, reach);
        facts_of(j, rest)->free = most;
    }
    return repeats < most;
}

void unique_close(struct json_recognizer *j)
{
    if (j->frames)
        budget_free(j->budget, j->frames, DEPTH * sizeof *j->frames);
    if (j->facts)
        budget_free(j->budget, j->facts, FACTS * sizeof *j->facts);
}
