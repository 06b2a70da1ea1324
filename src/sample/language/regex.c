/* Regular expressions: see regex.h.
 *
 * '^' and '$' match no byte, but only at the start or the end. So a piece with anchors is four sets of
 * texts that are not empty: those that it matches where the match begins at the start (+ 2) or not, and
 * ends at the end (+ 1) or not; and four bits that say where it matches the empty text. What it matches
 * somewhere it matches at an end, too. A piece without anchors is one language. */
#include "sample/language/regex.h"

#include "sample/language/regex_class.h"

#include <string.h>

enum { AT_END = 1, AT_START = 2, PLACES = 4, EVERYWHERE = 15 };

struct regex_piece {
    lang some[PLACES]; /* texts that are not empty; without anchors only [0] */
    lang all;          /* without anchors: some[0], and the empty text where it matches that */
    uint8_t empty;     /* bit p: matches the empty text at place p */
    bool anchored;     /* it has anchors */
    bool fixed;        /* no quantifier may follow */
};

struct regex_group {
    uint32_t choices,
        items;    /* of the pieces: its first choice; the first item of its last choice */
    uint32_t at;  /* byte of its '(' */
    uint8_t look; /* 0, or '=' or '!' of a look-ahead */
};

struct regex_parser {
    struct regex_text t;
    struct regex_piece *pieces;
    struct regex_group *groups;
    uint32_t n_pieces, piece_capacity, n_groups, group_capacity;
    lang ahead; /* what the look-aheads at the beginning demand of the text */
    bool looked, whole;
};

static struct budget *budget_of(const struct regex_parser *r)
{
    return languages_budget(r->t.ls);
}

static bool refuse_budget(struct regex_parser *r)
{
    return budget_refuse(budget_of(r), r->t.e, "regular expression"), false;
}

/* ---- pieces ---- */

static lang some_at(const struct regex_piece *x, unsigned place)
{
    return x->some[x->anchored ? place : 0];
}

static bool empty_at(const struct regex_piece *x, unsigned place)
{
    return x->empty >> place & 1;
}

static struct regex_piece plain_piece(lang all, lang some, bool empty)
{
    return (struct regex_piece){.some = {some}, .all = all, .empty = empty ? EVERYWHERE : 0};
}

static struct regex_piece concat_pieces(struct languages *ls, const struct regex_piece *x,
                                        const struct regex_piece *y)
{
    if (!x->anchored && !y->anchored) {
        lang all = lang_concat(ls, x->all, y->all), some = all;
        if (x->empty && y->empty)
            some = lang_or(ls, lang_concat(ls, x->some[0], y->all), y->some[0]);
        return plain_piece(all, some, x->empty && y->empty);
    }
    struct regex_piece r = {.anchored = true, .empty = x->empty & y->empty};
    for (unsigned p = 0; p < PLACES; p++) {
        lang a = lang_concat(ls, some_at(x, p & AT_START), some_at(y, p & AT_END));
        if (empty_at(x, p & AT_START))
            a = lang_or(ls, a, some_at(y, p));
        if (empty_at(y, p & AT_END))
            a = lang_or(ls, a, some_at(x, p));
        r.some[p] = a;
    }
    return r;
}

/* Turns of an anchored piece that match nothing are left out, where it can match nothing. */
static struct regex_piece repeat_anchored(struct languages *ls, const struct regex_piece *x,
                                          uint32_t min, uint32_t max)
{
    struct regex_piece r = {.anchored = true, .empty = min ? x->empty : EVERYWHERE};
    for (unsigned p = 0; p < PLACES; p++) {
        unsigned start = p & AT_START, end = p & AT_END;
        uint32_t least = empty_at(x, start) || empty_at(x, end) ? 0 : min;
        lang a = max >= 1 && least <= 1 ? some_at(x, p) : LANG_NONE;
        if (max >= 2) {
            lang middle = lang_repeat(ls, some_at(x, 0), least > 2 ? least - 2 : 0,
                                      max == LANG_MANY ? max : max - 2);
            middle = lang_concat(ls, middle, some_at(x, end));
            a = lang_or(ls, a, lang_concat(ls, some_at(x, start), middle));
        }
        r.some[p] = a;
    }
    return r;
}

static struct regex_piece repeat_piece(struct languages *ls, const struct regex_piece *x,
                                       uint32_t min, uint32_t max)
{
    if (x->anchored)
        return repeat_anchored(ls, x, min, max);
    lang all = lang_repeat(ls, x->all, min, max), some = all;
    bool empty = !min || x->empty;
    if (empty)
        some = max ? lang_repeat(ls, x->some[0], 1, max) : LANG_NONE;
    return plain_piece(all, some, empty);
}

static bool push(struct regex_parser *r, struct regex_piece x)
{
    bool failed = !x.anchored && x.all == LANG_FAIL;
    for (unsigned p = 0; p < PLACES; p++)
        failed |= x.some[p] == LANG_FAIL;
    if (failed || !budget_grow(budget_of(r), &r->pieces, &r->piece_capacity,
                               r->n_pieces + (size_t)1, sizeof x))
        return refuse_budget(r);
    r->pieces[r->n_pieces++] = x;
    return true;
}

/* ---- groups ---- */

static struct regex_group *group_of(struct regex_parser *r)
{
    return &r->groups[r->n_groups - 1];
}

static bool open_group(struct regex_parser *r, const char *at, uint8_t look)
{
    if (!budget_step(budget_of(r), 1) || !budget_grow(budget_of(r), &r->groups, &r->group_capacity,
                                                      r->n_groups + (size_t)1, sizeof *r->groups))
        return refuse_budget(r);
    r->groups[r->n_groups++] =
        (struct regex_group){r->n_pieces, r->n_pieces, (uint32_t)(at - r->t.start), look};
    return true;
}

/* The items of the last choice become one piece. */
static bool end_choice(struct regex_parser *r)
{
    struct regex_piece x = plain_piece(LANG_BLANK, LANG_NONE, true);
    uint32_t items = group_of(r)->items;
    while (r->n_pieces > items)
        x = concat_pieces(r->t.ls, &r->pieces[--r->n_pieces], &x);
    if (!push(r, x))
        return false;
    group_of(r)->items = r->n_pieces;
    return true;
}

/* The union of one field of the group's choices. */
static lang unite(struct regex_parser *r, uint32_t from, int place)
{
    uint32_t n = r->n_pieces - from;
    size_t size = n * sizeof(lang);
    if (n == 1)
        return place < 0 ? r->pieces[from].all : some_at(&r->pieces[from], (unsigned)place);
    lang *x = budget_resize(budget_of(r), NULL, 0, size), a = LANG_FAIL;
    if (!x)
        return a;
    for (uint32_t i = 0; i < n; i++) {
        const struct regex_piece *p = &r->pieces[from + i];
        x[i] = place < 0 ? p->all : some_at(p, (unsigned)place);
    }
    a = lang_or_all(r->t.ls, x, n);
    budget_free(budget_of(r), x, size);
    return a;
}

static bool end_group(struct regex_parser *r, struct regex_piece *out)
{
    if (!end_choice(r))
        return false;
    uint32_t from = group_of(r)->choices;
    *out = (struct regex_piece){0};
    for (uint32_t i = from; i < r->n_pieces; i++) {
        out->anchored |= r->pieces[i].anchored;
        out->empty |= r->pieces[i].empty;
    }
    for (unsigned p = 0; p < (out->anchored ? PLACES : 1); p++)
        out->some[p] = unite(r, from, (int)p);
    if (!out->anchored)
        out->all = unite(r, from, -1);
    r->n_pieces = from;
    r->n_groups--;
    return true;
}

/* The texts in which a piece matches somewhere, or as a whole. */
static lang texts_of(struct languages *ls, const struct regex_piece *x, bool whole)
{
    lang at[PLACES];
    if (!x->anchored)
        return whole ? x->all : lang_concat(ls, LANG_CHARS, lang_concat(ls, x->all, LANG_CHARS));
    for (unsigned p = 0; p < PLACES; p++)
        at[p] = empty_at(x, p) ? lang_or(ls, LANG_BLANK, x->some[p]) : x->some[p];
    if (whole)
        return at[AT_START | AT_END];
    at[0] = lang_concat(ls, LANG_CHARS, lang_concat(ls, at[0], LANG_CHARS));
    at[AT_START] = lang_concat(ls, at[AT_START], LANG_CHARS);
    at[AT_END] = lang_concat(ls, LANG_CHARS, at[AT_END]);
    return lang_or_all(ls, at, PLACES);
}

/* ---- parsing ---- */

/* Behind "(?", at '=' or '!'. Only the whole text can be asked for two things at once. */
static bool read_look(struct regex_parser *r, const char *at)
{
    const struct regex_group *g = group_of(r);
    bool first = r->n_groups == 1 && g->choices == g->items;
    uint32_t n = r->n_pieces - g->items;
    if (!first || n > 1 ||
        (n == 1 &&
         (r->pieces[g->items].some[0] != LANG_NONE || r->pieces[g->items].empty != 0xC)) ||
        (!n && !r->whole))
        return regex_refuse(&r->t, at, "look-ahead is supported only behind the first '^'");
    r->looked = true;
    return open_group(r, at, (uint8_t)*r->t.at++);
}

static bool read_open(struct regex_parser *r)
{
    struct regex_text *t = &r->t;
    const char *at = t->at++;
    if (t->at == t->end || *t->at != '?')
        return open_group(r, at, 0);
    char kind = ++t->at < t->end ? *t->at : 0;
    if (kind == ':')
        return t->at++, open_group(r, at, 0);
    if (kind == '=' || kind == '!')
        return read_look(r, at);
    if (kind != '<')
        return regex_refuse(t, at, "unknown kind of group");
    char second = ++t->at < t->end ? *t->at : 0;
    if (second == '=' || second == '!')
        return regex_refuse(t, at, "look-behind is not supported");
    while (t->at < t->end && *t->at != '>' && *t->at != '(' && *t->at != ')')
        t->at++;
    if (t->at == t->end || *t->at != '>' || second == '>')
        return regex_refuse(t, at, "the name of the group does not end");
    return t->at++, open_group(r, at, 0);
}

static bool read_close(struct regex_parser *r)
{
    struct regex_piece x;
    if (r->n_groups == 1)
        return regex_refuse(&r->t, r->t.at, "')' without '('");
    uint8_t look = group_of(r)->look;
    r->t.at++;
    if (!end_group(r, &x))
        return false;
    if (!look)
        return push(r, x);
    /* It looks from the start on: as an expression behind '^'. */
    struct regex_piece start = {.anchored = true, .empty = 0xC};
    x = concat_pieces(r->t.ls, &start, &x);
    lang a = texts_of(r->t.ls, &x, false);
    r->ahead = lang_and(r->t.ls, r->ahead, look == '=' ? a : lang_not(r->t.ls, a));
    return r->ahead != LANG_FAIL || refuse_budget(r);
}

/* Decimal digits at *p; a number above LANG_MANY - 1 becomes that. False: no digits. */
static bool read_count(const char **p, const char *end, uint32_t *count)
{
    uint64_t c = 0;
    const char *from = *p;
    for (; *p < end && **p >= '0' && **p <= '9'; ++*p)
        c = c * 10 + (uint64_t)(**p - '0') < LANG_MANY ? c * 10 + (uint64_t)(**p - '0')
                                                       : LANG_MANY - 1;
    *count = (uint32_t)c;
    return *p > from;
}

/* The quantifier at t->at; false: there is none. */
static bool read_quantifier(struct regex_text *t, uint32_t *min, uint32_t *max)
{
    const char *p = t->at + 1;
    *min = *t->at == '+';
    *max = *t->at == '?' ? 1 : LANG_MANY;
    if (*t->at == '{') {
        if (!read_count(&p, t->end, min))
            return false;
        *max = *min;
        if (p < t->end && *p == ',' && (p++, !read_count(&p, t->end, max)))
            *max = LANG_MANY;
        if (p == t->end || *p++ != '}')
            return false;
    } else if (*t->at != '*' && *t->at != '+' && *t->at != '?') {
        return false;
    }
    if (p < t->end && *p == '?') /* lazy: the same texts */
        p++;
    t->at = p;
    return true;
}

static bool read_repeat(struct regex_parser *r, const char *at, uint32_t min, uint32_t max)
{
    struct regex_piece x;
    if (r->n_pieces == group_of(r)->items || r->pieces[r->n_pieces - 1].fixed)
        return regex_refuse(&r->t, at, "nothing to repeat");
    if (min > max)
        return regex_refuse(&r->t, at, "the bounds of the repeat are out of order");
    x = repeat_piece(r->t.ls, &r->pieces[--r->n_pieces], min, max);
    x.fixed = true;
    return push(r, x);
}

static bool read_anchor(struct regex_parser *r, char c)
{
    uint8_t empty = c == '^' ? 1 << AT_START | 1 << (AT_START | AT_END)
                             : 1 << AT_END | 1 << (AT_START | AT_END);
    r->t.at++;
    return push(r, (struct regex_piece){.anchored = true, .empty = empty, .fixed = true});
}

static bool read_item(struct regex_parser *r)
{
    struct regex_text *t = &r->t;
    const char *at = t->at;
    char c = *at;
    uint32_t min, max;
    if (c == '(')
        return read_open(r);
    if (c == ')')
        return read_close(r);
    if (c == '|')
        return t->at++, end_choice(r);
    if (c == '^' || c == '$')
        return read_anchor(r, c);
    if (read_quantifier(t, &min, &max))
        return read_repeat(r, at, min, max);
    lang a = regex_class(t);
    return a != LANG_FAIL && push(r, plain_piece(a, a, false));
}

static lang read_all(struct regex_parser *r)
{
    struct regex_piece x;
    if (!open_group(r, r->t.at, 0))
        return LANG_FAIL;
    while (r->t.at < r->t.end)
        if (!budget_step(budget_of(r), 1) ? !refuse_budget(r) : !read_item(r))
            return LANG_FAIL;
    if (r->n_groups > 1) {
        regex_refuse(&r->t, r->t.start + group_of(r)->at, "'(' without ')'");
        return LANG_FAIL;
    }
    if (r->looked && group_of(r)->choices != group_of(r)->items) {
        regex_refuse(&r->t, r->t.start, "look-ahead beside '|' is not supported");
        return LANG_FAIL;
    }
    lang a = end_group(r, &x) ? texts_of(r->t.ls, &x, r->whole) : LANG_FAIL;
    if (r->looked)
        a = lang_and(r->t.ls, a, r->ahead);
    if (a == LANG_FAIL)
        refuse_budget(r);
    return a;
}

lang regex_compile(struct languages *ls, const char *p, size_t n, bool whole, struct tern_error *e)
{
    const char *start = n ? p : "";
    struct regex_parser r = {
        .t = {ls, start, start, start + n, e}, .ahead = LANG_ALL, .whole = whole};
    lang a = read_all(&r);
    budget_free(languages_budget(ls), r.pieces, r.piece_capacity * sizeof *r.pieces);
    budget_free(languages_budget(ls), r.groups, r.group_capacity * sizeof *r.groups);
    return a;
}
