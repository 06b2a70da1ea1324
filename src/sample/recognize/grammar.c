/* From rules to productions. Rules are taken callees first, so that what a part calls is known to be
 * regular or not when the part is looked at. */
#include "sample/recognize/grammar.h"

#include <string.h>

/* Deeper expressions, and longer ones that consist of others, are cut into nonterminals. */
enum { DEPTH_MOST = 200, LENGTH_MOST = 1000 };

uint32_t rules_add(struct grammar_rules *r, enum part_kind kind, uint32_t first, lang word)
{
    if (!r->n_parts)
        r->n_parts = 1;
    if (!budget_grow(r->budget, &r->parts, &r->max_parts, r->n_parts + 1, sizeof *r->parts))
        return 0;
    r->parts[r->n_parts] =
        (struct grammar_part){.kind = (uint8_t)kind, .first = first, .word = word};
    return r->n_parts++;
}

void rules_close(struct grammar_rules *r)
{
    budget_free(r->budget, r->parts, r->max_parts * sizeof *r->parts);
    budget_free(r->budget, r->rules, r->max_rules * sizeof *r->rules);
}

void grammar_close(struct grammar *g)
{
    budget_free(g->budget, g->symbols, g->max_symbols * sizeof *g->symbols);
    budget_free(g->budget, g->starts, g->max_starts * sizeof *g->starts);
    budget_free(g->budget, g->nonterminals, g->max_nonterminals * sizeof *g->nonterminals);
    budget_free(g->budget, g->loops, g->max_loops * sizeof *g->loops);
}

/* A stack of numbers. */
struct number_list {
    uint32_t *at, n, max;
    struct budget *budget;
};

static bool push(struct number_list *l, uint32_t x)
{
    if (!budget_grow(l->budget, &l->at, &l->max, (size_t)l->n + 1, sizeof *l->at))
        return false;
    l->at[l->n++] = x;
    return true;
}

static void list_close(struct number_list *l)
{
    budget_free(l->budget, l->at, l->max * sizeof *l->at);
}

/* ---- rules that call themselves at one end: A ::= x A | y is x* y, and A ::= A x | y is y x*; or at both: A
 * ::= A x A | y is y (x y)*, whatever else x and y call ---- */

static bool calls(const struct grammar_part *p, uint32_t rule)
{
    return p->kind == PART_CALL && p->first == rule;
}

static uint32_t last_of(const struct grammar_rules *r, uint32_t join)
{
    uint32_t i = r->parts[join].first;
    while (r->parts[i].next)
        i = r->parts[i].next;
    return i;
}

static bool calls_at_both_ends(const struct grammar_rules *r, uint32_t part, uint32_t rule)
{
    const struct grammar_part *p = &r->parts[part];
    return p->kind == PART_JOIN && last_of(r, part) != p->first &&
           calls(&r->parts[p->first], rule) && calls(&r->parts[last_of(r, part)], rule);
}

/* Alternatives whose first or last part, or both, are calls of the rule itself. */
struct rule_ends {
    uint32_t heads, tails, both, all;
};

static struct rule_ends ends_of(const struct grammar_rules *r, uint32_t rule)
{
    const struct grammar_part *parts = r->parts, *root = &parts[r->rules[rule].root];
    struct rule_ends e = {0};
    uint32_t i = root->kind == PART_PICK ? root->first : r->rules[rule].root;
    for (; i; i = parts[i].next) {
        bool join = parts[i].kind == PART_JOIN;
        e.heads += calls(&parts[join ? parts[i].first : i], rule);
        e.tails += calls(&parts[join ? last_of(r, i) : i], rule);
        e.both += calls_at_both_ends(r, i, rule);
    }
    for (i = r->rules[rule].begin; i < r->rules[rule].end; i++)
        e.all += calls(&parts[i], rule);
    return e;
}

/* What is left of a join without its first or last part. */
static uint32_t without_end(struct grammar_rules *r, uint32_t join, bool head)
{
    struct grammar_part *parts = r->parts;
    if (head)
        parts[join].first = parts[parts[join].first].next;
    else {
        uint32_t i = parts[join].first;
        while (parts[parts[i].next].next)
            i = parts[i].next;
        parts[i].next = 0;
    }
    uint32_t first = parts[join].first;
    return parts[first].next ? join : first;
}

/* What a join has between its ends, and a call of `rule` behind it; 0: no budget or no memory. */
static uint32_t middle_and_call(struct grammar_rules *r, uint32_t join, uint32_t rule)
{
    uint32_t call = rules_add(r, PART_CALL, rule, 0), i;
    uint32_t first = r->parts[r->parts[join].first].next, last = last_of(r, join);
    r->parts[join].kind = PART_WORD,
    r->parts[join].word = LANG_BLANK; /* nothing refers to it now */
    if (!call || first == last)
        return call;
    for (i = first; r->parts[i].next != last;)
        i = r->parts[i].next;
    r->parts[i].next = call;
    return rules_add(r, PART_JOIN, first, 0);
}

/* A ::= A x A | y becomes A ::= B (x B)* and B ::= y. */
static bool unroll_both_ends(struct grammar_rules *r, uint32_t rule)
{
    struct grammar_rule b = r->rules[rule];
    uint32_t again = 0, rest = 0, middles = 0, x, next;
    b.cursor = b.end; /* its parts are looked at with those of A */
    if (!budget_grow(r->budget, &r->rules, &r->max_rules, r->n_rules + 1, sizeof *r->rules))
        return false;
    r->rules[rule].begin_2 = r->n_parts;
    uint32_t i = r->parts[b.root].kind == PART_PICK ? r->parts[b.root].first : b.root;
    for (; i; i = next) {
        next = r->parts[i].next;
        uint32_t *list = calls_at_both_ends(r, i, rule) ? &middles : &rest;
        if (!calls(&r->parts[i], rule)) /* A ::= A says nothing */
            r->parts[i].next = *list, *list = i;
    }
    if (!(b.root = rules_add(r, PART_PICK, rest, 0)))
        return false;
    for (; middles; middles = next) {
        next = r->parts[middles].next;
        if (!(x = middle_and_call(r, middles, r->n_rules)))
            return false;
        r->parts[x].next = again, again = x;
    }
    uint32_t pick = rules_add(r, PART_PICK, again, 0);
    uint32_t loop = pick ? rules_add(r, PART_LOOP, pick, 0) : 0;
    uint32_t call = loop ? rules_add(r, PART_CALL, r->n_rules, 0) : 0;
    uint32_t join = call ? rules_add(r, PART_JOIN, call, 0) : 0;
    if (!join)
        return false;
    r->parts[loop].max = LANG_MANY;
    r->parts[call].next = loop;
    r->rules[rule].root = join, r->rules[rule].end_2 = r->n_parts;
    r->rules[r->n_rules++] = b;
    return true;
}

/* Rewrites the rule; false: no budget or no memory. */
static bool unroll_itself(struct grammar_rules *r, uint32_t rule)
{
    struct rule_ends e = ends_of(r, rule);
    if (e.both)
        return unroll_both_ends(r, rule);
    bool head = e.heads == e.all;
    if (!head && e.tails != e.all)
        return true;
    struct grammar_rule *self = &r->rules[rule];
    uint32_t again = 0, rest = 0;
    uint32_t i = r->parts[self->root].kind == PART_PICK ? r->parts[self->root].first : self->root;
    for (uint32_t next; i; i = next) {
        next = r->parts[i].next;
        if (calls(&r->parts[i], rule)) /* A ::= A says nothing */
            continue;
        uint32_t join = r->parts[i].kind == PART_JOIN, end = i;
        if (join)
            end = head ? r->parts[i].first : last_of(r, i);
        bool is_call = join && calls(&r->parts[end], rule);
        uint32_t x = is_call ? without_end(r, i, head) : i, *list = is_call ? &again : &rest;
        r->parts[x].next = *list, *list = x;
    }
    self->begin_2 = r->n_parts;
    uint32_t x = rules_add(r, PART_PICK, again, 0), loop = x ? rules_add(r, PART_LOOP, x, 0) : 0;
    uint32_t y = loop ? rules_add(r, PART_PICK, rest, 0) : 0;
    uint32_t join = y ? rules_add(r, PART_JOIN, head ? y : loop, 0) : 0;
    if (!join)
        return false;
    r->parts[loop].max = LANG_MANY;
    r->parts[head ? y : loop].next = head ? loop : y;
    self->root = join, self->end_2 = r->n_parts;
    return true;
}

/* ---- which parts are regular ---- */

/* The language of a row of regular parts behind each other, joined from the right. */
static lang join_words(struct grammar_rules *r, struct number_list *scratch, uint32_t first,
                       uint32_t end)
{
    lang x = LANG_BLANK;
    scratch->n = 0;
    for (uint32_t i = first; i != end; i = r->parts[i].next)
        if (!push(scratch, r->parts[i].word))
            return LANG_FAIL;
    while (scratch->n)
        x = lang_concat(r->languages, scratch->at[--scratch->n], x);
    return x;
}

static lang pick_words(struct grammar_rules *r, struct number_list *scratch, uint32_t first)
{
    scratch->n = 0;
    for (uint32_t i = first; i; i = r->parts[i].next)
        if (!push(scratch, r->parts[i].word))
            return LANG_FAIL;
    return scratch->n ? lang_or_all(r->languages, scratch->at, scratch->n) : LANG_NONE;
}

/* A row of parts whose texts are long, though no part's are: rules may double and double. */
static bool is_long(const struct grammar_rules *r, const struct grammar_part *p)
{
    uint64_t all = 0, longest = 0;
    if (p->kind != PART_JOIN || !p->regular)
        return false;
    for (uint32_t i = p->first; i; i = r->parts[i].next) {
        uint32_t one = lang_shortest(r->languages, r->parts[i].word);
        all += one, longest = one > longest ? one : longest;
    }
    return all > LENGTH_MOST && all - longest > LENGTH_MOST / 2;
}

static bool look_at(struct grammar_rules *r, struct number_list *scratch, uint32_t at)
{
    struct grammar_part *p = &r->parts[at];
    const struct grammar_part *callee =
        p->kind == PART_CALL ? &r->parts[r->rules[p->first].root] : NULL;
    if (!budget_step(r->budget, 1))
        return false;
    p->regular = callee ? callee->regular : true;
    p->depth = callee ? callee->depth : 1;
    if (callee)
        p->word = callee->word;
    if (p->kind == PART_WORD || p->kind == PART_CALL)
        return p->word != LANG_FAIL;
    for (uint32_t i = p->first; i; i = p->kind == PART_LOOP ? 0 : r->parts[i].next) {
        p->regular &= r->parts[i].regular;
        if (p->depth <= r->parts[i].depth)
            p->depth = (uint16_t)(r->parts[i].depth + 1);
    }
    if (p->depth > DEPTH_MOST || is_long(r, p))
        p->regular = false, p->depth = 1;
    if (!p->regular)
        return true;
    if (p->kind == PART_JOIN)
        p->word = join_words(r, scratch, p->first, 0);
    else if (p->kind == PART_PICK)
        p->word = pick_words(r, scratch, p->first);
    else
        p->word = lang_repeat(r->languages, r->parts[p->first].word, p->min, p->max);
    return p->word != LANG_FAIL;
}

/* A walk along calls: looks at every rule behind those that it calls. A call of a rule that is still on
 * the path is recursion, and not regular. */
static bool look_at_rules(struct grammar_rules *r, uint32_t root, struct number_list *scratch,
                          struct number_list *path)
{
    bool good = push(path, root);
    while (path->n && good) {
        uint32_t at = path->at[path->n - 1], callee = UINT32_MAX;
        struct grammar_rule *self = &r->rules[at];
        if (!self->cursor)
            self->cursor = self->begin;
        while (self->cursor < self->end && callee == UINT32_MAX) {
            const struct grammar_part *p = &r->parts[self->cursor++];
            if (p->kind == PART_CALL)
                callee = p->first;
        }
        self->calls_itself |= callee == at;
        if (callee != UINT32_MAX) {
            if (!r->rules[callee].cursor)
                good = push(path, callee);
            continue;
        }
        path->n--;
        good = !self->calls_itself || unroll_itself(r, at);
        self = &r->rules[at];
        for (uint32_t i = self->begin; i < self->end && good; i++)
            good = look_at(r, scratch, i);
        for (uint32_t i = self->begin_2; i < self->end_2 && good; i++)
            good = look_at(r, scratch, i);
    }
    return good;
}

/* ---- productions ---- */

static uint32_t symbol_of(enum symbol_kind kind, uint32_t value)
{
    return (uint32_t)kind << 30 | value;
}

static bool add_symbol(struct grammar *g, enum symbol_kind kind, uint32_t value)
{
    if (value > 0x3FFFFFFF || !budget_grow(g->budget, &g->symbols, &g->max_symbols,
                                           (size_t)g->n_symbols + 1, sizeof *g->symbols))
        return false;
    g->symbols[g->n_symbols++] = symbol_of(kind, value);
    return true;
}

/* The nonterminal of a part: UINT32_MAX: no budget or no memory. */
static uint32_t nonterminal_of(struct grammar *g, struct grammar_rules *r, uint32_t part)
{
    if (r->parts[part].kind == PART_CALL)
        part = r->rules[r->parts[part].first].root;
    struct grammar_part *p = &r->parts[part];
    if (p->nonterminal)
        return p->nonterminal - 1;
    if (!budget_grow(g->budget, &g->nonterminals, &g->max_nonterminals,
                     (size_t)g->n_nonterminals + 1, sizeof *g->nonterminals))
        return UINT32_MAX;
    g->nonterminals[g->n_nonterminals] = (struct nonterminal){.part = part};
    p->nonterminal = ++g->n_nonterminals;
    return p->nonterminal - 1;
}

static bool add_item(struct grammar *g, struct grammar_rules *r, uint32_t part)
{
    const struct grammar_part *p = &r->parts[part];
    if (p->kind != PART_LOOP)
        return add_symbol(g, SYMBOL_CALL, nonterminal_of(g, r, part));
    if (!p->max)
        return true;
    struct grammar_loop l = {nonterminal_of(g, r, p->first), p->min, p->max};
    if (l.nonterminal == UINT32_MAX ||
        !budget_grow(g->budget, &g->loops, &g->max_loops, (size_t)g->n_loops + 1, sizeof *g->loops))
        return false;
    g->loops[g->n_loops] = l;
    return add_symbol(g, SYMBOL_LOOP, g->n_loops++);
}

/* A production from parts: a join's, or the one part `at`. */
static bool add_production(struct grammar *g, struct grammar_rules *r, struct number_list *scratch,
                           uint32_t at, uint32_t nonterminal)
{
    bool join = r->parts[at].kind == PART_JOIN && !r->parts[at].regular;
    uint32_t i = join ? r->parts[at].first : at, end = join ? 0 : r->parts[at].next;
    if (!budget_grow(g->budget, &g->starts, &g->max_starts, (size_t)g->n_starts + 1,
                     sizeof *g->starts))
        return false;
    g->starts[g->n_starts++] = g->n_symbols;
    while (i != end) {
        if (!r->parts[i].regular) {
            if (!add_item(g, r, i))
                return false;
            i = r->parts[i].next;
            continue;
        }
        uint32_t first = i;
        while (i != end && r->parts[i].regular)
            i = r->parts[i].next;
        lang word = join_words(r, scratch, first, i);
        if (word != LANG_BLANK && !add_symbol(g, SYMBOL_WORD, word))
            return false;
    }
    return add_symbol(g, SYMBOL_END, nonterminal);
}

static bool add_productions(struct grammar *g, struct grammar_rules *r, struct number_list *scratch)
{
    for (uint32_t n = 0; n < g->n_nonterminals; n++) {
        uint32_t at = g->nonterminals[n].part, first = g->n_starts;
        bool pick = r->parts[at].kind == PART_PICK && !r->parts[at].regular;
        for (uint32_t i = pick ? r->parts[at].first : at; i; i = pick ? r->parts[i].next : 0)
            if (!budget_step(g->budget, 1) || !add_production(g, r, scratch, i, n))
                return false;
        g->nonterminals[n].first = first, g->nonterminals[n].n = g->n_starts - first;
    }
    return true;
}

/* ---- which nonterminals have an end, and which the empty text ---- */

/* The nonterminal that a symbol waits for; UINT32_MAX: none. */
static uint32_t needs(const struct grammar *g, uint32_t symbol)
{
    uint32_t value = symbol_value(symbol);
    if (symbol_kind(symbol) == SYMBOL_CALL)
        return value;
    if (symbol_kind(symbol) == SYMBOL_LOOP && g->loops[value].min)
        return g->loops[value].nonterminal;
    return UINT32_MAX;
}

/* Lists for each nonterminal the productions that need it: users[first[n] .. first[n + 1] - 1]. */
struct users {
    uint32_t *first, *users, *missing; /* missing: of each production, what it still needs */
    uint32_t n_users;
    struct number_list ready; /* nonterminals */
};

static void spread_close(struct grammar *g, struct users *s)
{
    budget_free(g->budget, s->first, (g->n_nonterminals + 2) * sizeof *s->first);
    budget_free(g->budget, s->users, s->n_users * sizeof *s->users);
    budget_free(g->budget, s->missing, g->n_starts * sizeof *s->missing);
    list_close(&s->ready);
}

static bool spread_open(struct grammar *g, struct users *s)
{
    *s = (struct users){.ready.budget = g->budget};
    s->first = budget_resize(g->budget, NULL, 0, (g->n_nonterminals + 2) * sizeof *s->first);
    s->missing = budget_resize(g->budget, NULL, 0, g->n_starts * sizeof *s->missing);
    if (!s->first || !s->missing)
        return false;
    memset(s->first, 0, (g->n_nonterminals + 2) * sizeof *s->first);
    for (uint32_t i = 0; i < g->n_symbols; i++)
        if (needs(g, g->symbols[i]) != UINT32_MAX)
            s->first[needs(g, g->symbols[i]) + 2]++, s->n_users++;
    for (uint32_t n = 2; n < g->n_nonterminals + 2; n++)
        s->first[n] += s->first[n - 1];
    s->users = budget_resize(g->budget, NULL, 0, s->n_users * sizeof *s->users);
    if (!s->users)
        return false;
    for (uint32_t p = 0; p < g->n_starts; p++)
        for (uint32_t i = g->starts[p]; symbol_kind(g->symbols[i]) != SYMBOL_END; i++)
            if (needs(g, g->symbols[i]) != UINT32_MAX)
                s->users[s->first[needs(g, g->symbols[i]) + 1]++] = p;
    return budget_step(g->budget, g->n_symbols);
}

static uint32_t left_of(const struct grammar *g, uint32_t production)
{
    uint32_t i = g->starts[production];
    while (symbol_kind(g->symbols[i]) != SYMBOL_END)
        i++;
    return symbol_value(g->symbols[i]);
}

/* Sets a flag of the nonterminals that have a production whose words all have it and whose nonterminals
 * all have it: nullable, or productive. */
static bool spread(struct grammar *g, struct users *s, bool nullable)
{
    s->ready.n = 0;
    for (uint32_t p = 0, i; p < g->n_starts; p++) {
        s->missing[p] = 0;
        for (i = g->starts[p]; symbol_kind(g->symbols[i]) != SYMBOL_END; i++) {
            uint32_t word = symbol_value(g->symbols[i]);
            if (symbol_kind(g->symbols[i]) == SYMBOL_WORD)
                s->missing[p] += nullable ? !lang_accepts(g->languages, word) : word == LANG_NONE;
            else
                s->missing[p] += needs(g, g->symbols[i]) != UINT32_MAX;
        }
        if (!s->missing[p] && !push(&s->ready, symbol_value(g->symbols[i])))
            return false;
    }
    while (s->ready.n) {
        uint32_t n = s->ready.at[--s->ready.n];
        bool *flag = nullable ? &g->nonterminals[n].nullable : &g->nonterminals[n].productive;
        if (*flag)
            continue;
        *flag = true;
        for (uint32_t u = s->first[n]; u < s->first[n + 1]; u++)
            if (!--s->missing[s->users[u]] && !push(&s->ready, left_of(g, s->users[u])))
                return false;
    }
    return true;
}

/* Drops productions without an end, and makes loops what loop says. */
static void prune(struct grammar *g, const struct users *s)
{
    for (uint32_t n = 0; n < g->n_nonterminals; n++) {
        struct nonterminal *x = &g->nonterminals[n];
        uint32_t end = x->first + x->n;
        x->n = 0;
        for (uint32_t p = x->first; p < end; p++)
            if (!s->missing[p])
                g->starts[x->first + x->n++] = g->starts[p];
    }
    for (uint32_t i = 0; i < g->n_loops; i++)
        if (g->nonterminals[g->loops[i].nonterminal].nullable)
            g->loops[i].min = 0;
}

bool grammar_open(struct grammar *g, struct grammar_rules *r, uint32_t root, bool *empty)
{
    struct number_list scratch = {.budget = r->budget}, path = scratch;
    struct users s = {.ready = scratch};
    *g = (struct grammar){.languages = r->languages, .budget = r->budget};
    bool good = look_at_rules(r, root, &scratch, &path);
    good = good && nonterminal_of(g, r, r->rules[root].root) != UINT32_MAX &&
           add_productions(g, r, &scratch);
    good = good && spread_open(g, &s) && spread(g, &s, true) && spread(g, &s, false);
    if (good)
        prune(g, &s);
    *empty = good && !g->nonterminals[0].productive;
    spread_close(g, &s);
    list_close(&scratch), list_close(&path);
    return good;
}
