/* Which states lead to an end. States are explored by classes of bytes; what is found out stays known. */
#include "sample/language/language_parts.h"

#include <string.h>

/* What is known without a search. */
static enum lang_answer lang_known(const struct languages *ls, lang a)
{
    if (a == LANG_FAIL)
        return LANG_UNKNOWN;
    unsigned flags = node_of(ls, a)->flags;
    if (a == LANG_NONE || flags & LANG_DEAD)
        return LANG_NO;
    return flags & (LANG_NULLABLE | LANG_CLOSED | LANG_LIVE) ? LANG_YES : LANG_UNKNOWN;
}

/* States in the order in which they were found, each with the one that it was found from. */
struct search {
    struct lang_list states, parents;
    uint32_t time;
};

static void search_begin(struct languages *ls, struct search *s)
{
    *s = (struct search){.time = ++ls->seen_time};
}

static void search_end(struct languages *ls, struct search *s)
{
    budget_free(ls->budget, s->states.p, s->states.capacity * sizeof(uint32_t));
    budget_free(ls->budget, s->parents.p, s->parents.capacity * sizeof(uint32_t));
}

static bool search_add(struct languages *ls, struct search *s, lang a, uint32_t parent)
{
    ls->nodes[a].seen = s->time;
    ls->nodes[a].place = s->states.n;
    return list_push(ls, &s->states, a) && list_push(ls, &s->parents, parent);
}

/* The derivative by the next class of bytes; false: there are no more, or it is LANG_FAIL. */
static bool next_class(struct languages *ls, const uint32_t cuts[8], lang a, unsigned *byte,
                       lang *to)
{
    unsigned b = *byte;
    if (b == 256)
        return *to = LANG_NONE, false;
    *to = lang_derive(ls, a, (unsigned char)b);
    do
        b++;
    while (b < 256 && !set_has(cuts, b));
    *byte = b;
    return *to != LANG_FAIL;
}

/* Depth first, since most searches find an end soon. */
static enum lang_answer search_live(struct languages *ls, struct search *s, lang a)
{
    struct lang_list todo = {0};
    bool good = search_add(ls, s, a, 0) && list_push(ls, &todo, 0);
    enum lang_answer answer = LANG_NO;
    while (good && answer == LANG_NO && todo.n) {
        uint32_t at = todo.p[--todo.n], cuts[8];
        unsigned byte = 0;
        lang from = s->states.p[at], to = LANG_FAIL;
        good = lang_cuts(ls, from, cuts);
        while (good && answer == LANG_NO && next_class(ls, cuts, from, &byte, &to)) {
            if (lang_known(ls, to) == LANG_YES) {
                for (uint32_t i = at; i; i = s->parents.p[i])
                    ls->nodes[s->states.p[i]].flags |= LANG_LIVE;
                ls->nodes[a].flags |= LANG_LIVE;
                answer = LANG_YES;
            } else if (lang_known(ls, to) == LANG_UNKNOWN && ls->nodes[to].seen != s->time) {
                good = list_push(ls, &todo, s->states.n) && search_add(ls, s, to, at);
            }
        }
        good &= to != LANG_FAIL;
    }
    budget_free(ls->budget, todo.p, todo.capacity * sizeof(uint32_t));
    if (!good)
        return LANG_UNKNOWN;
    for (uint32_t i = 0; answer == LANG_NO && i < s->states.n; i++)
        ls->nodes[s->states.p[i]].flags |= LANG_DEAD;
    return answer;
}

enum lang_answer lang_is_live(struct languages *ls, lang a)
{
    enum lang_answer answer = lang_known(ls, a);
    struct search s;
    if (answer != LANG_UNKNOWN || a == LANG_FAIL)
        return answer;
    search_begin(ls, &s);
    answer = search_live(ls, &s, a);
    search_end(ls, &s);
    return answer;
}

/* ---- all states ---- */

/* Marks what leads to a live state, by the arrows from states[edges[2 i]] to states[edges[2 i + 1]]. */
static bool spread_live(struct languages *ls, const struct lang_list *states,
                        const struct lang_list *edges)
{
    uint32_t n = states->n, n_edges = edges->n / 2, *first, *from, *todo, top = 0;
    size_t size = (n + (size_t)1 + n_edges + n) * sizeof *first;
    first = budget_resize(ls->budget, NULL, 0, size);
    if (!first)
        return false;
    from = first + n + 1;
    todo = from + n_edges;
    memset(first, 0, (n + (size_t)1) * sizeof *first);
    for (uint32_t i = 0; i < n_edges; i++)
        first[edges->p[2 * i + 1] + 1]++;
    for (uint32_t i = 0; i < n; i++)
        first[i + 1] += first[i];
    for (uint32_t i = n_edges; i-- > 0;) /* leaves first[] one place early: see below */
        from[--first[edges->p[2 * i + 1] + 1]] = edges->p[2 * i];
    for (uint32_t i = 0; i < n; i++)
        if (lang_known(ls, states->p[i]) == LANG_YES)
            todo[top++] = i;
    while (top) {
        uint32_t to = todo[--top], end = to + 2 <= n ? first[to + 2] : n_edges;
        for (uint32_t i = first[to + 1]; i < end; i++) {
            lang a = states->p[from[i]];
            if (lang_known(ls, a) != LANG_UNKNOWN)
                continue;
            ls->nodes[a].flags |= LANG_LIVE;
            todo[top++] = from[i];
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (lang_known(ls, states->p[i]) == LANG_UNKNOWN)
            ls->nodes[states->p[i]].flags |= LANG_DEAD;
    budget_free(ls->budget, first, size);
    return budget_step(ls->budget, 1 + (n + n_edges) / 16);
}

/* All states from a on, and arrows between them. What is closed or decided is not looked into. */
static bool explore(struct languages *ls, struct search *s, struct lang_list *edges, lang a)
{
    bool good = search_add(ls, s, a, 0);
    for (uint32_t i = 0; good && i < s->states.n; i++) {
        uint32_t cuts[8];
        unsigned byte = 0;
        lang from = s->states.p[i], to = LANG_NONE;
        if (node_of(ls, from)->flags & (LANG_CLOSED | LANG_DECIDED | LANG_DEAD))
            continue;
        good = lang_cuts(ls, from, cuts);
        while (good && next_class(ls, cuts, from, &byte, &to)) {
            if (to == LANG_NONE)
                continue;
            if (ls->nodes[to].seen != s->time)
                good = search_add(ls, s, to, i);
            good = good && list_push(ls, edges, i) && list_push(ls, edges, ls->nodes[to].place);
        }
        good &= to != LANG_FAIL;
    }
    return good;
}

enum lang_answer lang_decide(struct languages *ls, lang a)
{
    struct lang_list edges = {0};
    struct search s;
    if (a == LANG_FAIL)
        return LANG_UNKNOWN;
    if (node_of(ls, a)->flags & (LANG_CLOSED | LANG_DECIDED | LANG_DEAD))
        return LANG_YES;
    search_begin(ls, &s);
    bool good = explore(ls, &s, &edges, a) && spread_live(ls, &s.states, &edges);
    for (uint32_t i = 0; good && i < s.states.n; i++)
        ls->nodes[s.states.p[i]].flags |= LANG_DECIDED;
    budget_free(ls->budget, edges.p, edges.capacity * sizeof(uint32_t));
    search_end(ls, &s);
    return good ? LANG_YES : LANG_UNKNOWN;
}

enum lang_answer lang_subset(struct languages *ls, lang a, lang b)
{
    enum lang_answer outside = lang_is_live(ls, lang_and(ls, a, lang_not(ls, b)));
    return outside == LANG_UNKNOWN ? outside : outside == LANG_YES ? LANG_NO : LANG_YES;
}
