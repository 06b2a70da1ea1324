/* Scripts: see script.h. */
#include "sample/recognize/script.h"

#include <string.h>

void script_open(struct script *s, struct budget *budget)
{
    *s = (struct script){.n_states = 1, .budget = budget};
}

void script_close(struct script *s)
{
    budget_free(s->budget, s->edges, s->capacity * sizeof *s->edges);
    budget_free(s->budget, s->accepting, s->accepting_capacity * sizeof *s->accepting);
    *s = (struct script){0};
}

uint32_t script_state(struct script *s)
{
    return s->n_states++;
}

void script_accept(struct script *s, uint32_t state)
{
    if (budget_grow(s->budget, &s->accepting, &s->accepting_capacity, s->n_accepting + 1u,
                    sizeof *s->accepting))
        s->accepting[s->n_accepting++] = state;
    else
        s->failed = true;
}

static void add_edge(struct script *s, struct script_edge edge)
{
    if (budget_grow(s->budget, &s->edges, &s->capacity, s->n_edges + 1u, sizeof *s->edges))
        s->edges[s->n_edges++] = edge;
    else
        s->failed = true;
}

void script_words(struct script *s, uint32_t from, uint32_t to, lang words)
{
    if (words == (lang)LANG_FAIL)
        s->failed = true;
    else if (words != LANG_NONE)
        add_edge(s, (struct script_edge){from, to, words, NODE_NONE, 0});
}

void script_hole(struct script *s, uint32_t from, uint32_t to, uint32_t node, unsigned style)
{
    if (node != NODE_NONE)
        add_edge(s, (struct script_edge){from, to, LANG_NONE, node, style});
}

void script_until(struct script *s, struct languages *ls, uint32_t from, uint32_t to, lang free,
                  const char *trigger, size_t n, bool may_end)
{
    lang end = lang_text(ls, trigger, n);
    lang upto = lang_concat(ls, LANG_ALL, end); /* ends with a trigger */
    lang some = lang_not(ls, LANG_BLANK);
    lang beyond = lang_concat(ls, upto, some); /* holds one before its end */
    lang first = lang_and(ls, upto, lang_not(ls, beyond));
    script_words(s, from, to, lang_and(ls, lang_concat(ls, free, end), first));
    if (may_end) {
        uint32_t last = script_state(s);
        lang has = lang_or(ls, upto, beyond);
        script_words(s, from, last, lang_and(ls, free, lang_not(ls, has)));
        script_accept(s, last);
    }
}

/* The next alternative, without its escapes, at `to`. */
static const char *take_alternative(const char *p, const char *end, char *to, size_t *n)
{
    for (*n = 0; p < end && *p != '|'; p++) {
        if (*p == '\\' && p + 1 < end && (p[1] == '|' || p[1] == '\\'))
            p++;
        to[(*n)++] = *p;
    }
    return p + 1;
}

lang script_choice(struct languages *ls, const char *text, size_t n)
{
    struct budget *b = languages_budget(ls);
    const char *end = text + n, *p = text;
    size_t n_all = 1, i = 0;
    for (; p < end; p++)
        n_all += *p == '|';
    size_t size = n_all * sizeof(struct lang_span) + n;
    struct lang_span *all = budget_resize(b, NULL, 0, size);
    if (!all)
        return LANG_FAIL;
    char *to = (char *)(all + n_all);
    for (p = text; p <= end; to += all[i++].n) {
        all[i].p = to;
        p = take_alternative(p, end, to, &all[i].n);
    }
    lang any = lang_texts(ls, all, i);
    budget_free(b, all, size);
    return any;
}

/* What Gemma 4's parser takes as one word, here and in other engines */
lang script_gemma_keys(struct languages *ls)
{
    static const uint32_t ranges[][2] = {{'!', '!'}, {'#', '&'}, {'*', '+'},      {'-', '9'},
                                         {';', ';'}, {'=', 'Z'}, {'\\', '\\'},    {'^', 'z'},
                                         {'|', '|'}, {'~', '~'}, {0x80, 0x10ffff}};
    lang sign = lang_chars(ls, ranges, sizeof ranges / sizeof *ranges);
    return lang_repeat(ls, sign, 1, LANG_MANY);
}
