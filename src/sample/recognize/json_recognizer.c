/* The recognizer of JSON: see json_recognizer.h. This file opens it and takes steps; levels, words,
 * keys, gaps and what must be unique have files of their own. */
#include "sample/recognize/json_recognizer.h"

#include "sample/recognize/json_compact.h"
#include "sample/recognize/json_escape.h"
#include "sample/recognize/json_gap.h"
#include "sample/recognize/json_keys.h"
#include "sample/recognize/json_level.h"
#include "sample/recognize/json_step.h"
#include "sample/recognize/json_unique.h"
#include "sample/recognize/json_word.h"
#include "base/xxh64.h"

#include <string.h>

/* ---- scripts ------------------------------------------------------------------------------ */

/* The set's pairs are edges; edge n_edges says that the text may end. */
static bool add_states(struct json_recognizer *j, struct word_list *list, const uint32_t *states,
                       uint32_t n)
{
    const struct script *s = &j->script;
    struct numbers_list *reached = &j->reached;
    reached->n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!add_number(j, reached, states[i]))
            return false;
    for (uint32_t i = 0; i < reached->n; i++) {
        uint32_t state = reached->at[i];
        for (uint32_t k = 0; k < s->n_accepting; k++)
            if (s->accepting[k] == state && !word_list_add(&j->texts, list, s->n_edges, LANG_BLANK))
                return false;
        for (uint32_t e = 0; e < s->n_edges; e++) {
            if (s->edges[e].from != state)
                continue;
            bool hole = s->edges[e].words == LANG_NONE, known = hole;
            if (!word_list_add(&j->texts, list, e, hole ? LANG_BLANK : s->edges[e].words))
                return false;
            if (known || !lang_accepts(j->languages, s->edges[e].words))
                continue;
            for (uint32_t k = 0; k < reached->n && !known; k++)
                known = reached->at[k] == s->edges[e].to;
            if (!known && !add_number(j, reached, s->edges[e].to))
                return false;
        }
    }
    return true;
}

static bool follow(void *self, uint32_t edge, struct word_list *list)
{
    struct json_recognizer *j = self;
    return edge == j->script.n_edges || add_states(j, list, &j->script.edges[edge].to, 1);
}

uint32_t script_set(struct json_recognizer *j, const uint32_t *states, uint32_t n)
{
    j->texts.list.n = 0;
    return add_states(j, &j->texts.list, states, n) ? words_find(&j->texts, &j->texts.list)
                                                    : WORDS_FAIL;
}

static bool is_hole(const struct json_recognizer *j, const struct word *w)
{
    return w->slot < j->script.n_edges && j->script.edges[w->slot].words == LANG_NONE;
}

/* Waits for the values of the set's holes. STEP_DEAD: it has none. */
static enum step hole_begin(struct json_recognizer *j, struct track *t, struct place *p)
{
    uint32_t n;
    const struct word *w = words_of(&j->texts, p->lexeme, &n);
    j->head = (struct level){.kind = LEVEL_SCRIPT};
    j->words.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_hole(j, &w[i]))
            continue;
        const struct script_edge *e = &j->script.edges[w[i].slot];
        struct thread *th = draft_thread(j, w[i].slot, 0);
        if (!th)
            return STEP_NO_ROOM;
        th->want = e->node;
        th->next = e->to;
        if (e->style != SCRIPT_JSON)
            j->head.flags = e->style == SCRIPT_PYTHON ? LEVEL_PYTHON : LEVEL_GEMMA;
    }
    return draft_push(j, t, p, AT_VALUE);
}

static enum step text_step(struct json_recognizer *j, struct track *t, struct place *p,
                           unsigned char byte)
{
    struct place q = *p;
    enum step s = hole_begin(j, t, &q);
    if (s == STEP_ALIVE)
        s = value_begin(j, t, &q, byte);
    if (s != STEP_DEAD) {
        *p = q;
        return s;
    }
    p->lexeme = words_step(&j->texts, p->lexeme, byte);
    return p->lexeme == WORDS_FAIL ? STEP_NO_ROOM : p->lexeme ? STEP_ALIVE : STEP_DEAD;
}

static bool has_end(const struct json_recognizer *j, uint32_t set)
{
    uint32_t n;
    const struct word *w = words_of(&j->texts, set, &n);
    return n && w[n - 1].slot == j->script.n_edges; /* pairs are in the order of slots */
}

/* ---- steps -------------------------------------------------------------------------------- */

static bool in_number(unsigned char byte)
{
    return (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '+' ||
           (byte | 32) == 'e';
}

static enum step advance_number(struct json_recognizer *j, struct track *t, struct place *p,
                                unsigned char byte)
{
    struct place q = *p;
    enum step s = in_number(byte) ? number_step(j, t, &q, byte) : STEP_DEAD;
    if (s == STEP_DEAD) {
        q = *p;
        s = number_end(j, t, &q);
        if (s == STEP_ALIVE)
            s = phase_of(&q) == AT_TEXT ? text_step(j, t, &q, byte) : gap_step(j, t, &q, byte);
    }
    *p = q;
    return s;
}

enum step json_advance(struct json_recognizer *j, struct track *t, struct place *p,
                       unsigned char byte)
{
    enum phase phase = phase_of(p);
    switch (phase) {
    case AT_TEXT:
        return text_step(j, t, p, byte);
    case AT_VALUE:
        return value_begin(j, t, p, byte);
    case AT_LITERAL:
        return literal_step(j, t, p, byte);
    case AT_NUMBER:
        return advance_number(j, t, p, byte);
    default:
        return phase >= AT_STRING ? string_step(j, t, p, byte) : gap_step(j, t, p, byte);
    }
}

void json_first(struct json_recognizer *j, struct track *t, const struct place *p, uint64_t set[4])
{
    enum phase phase = phase_of(p);
    memset(set, 0, 4 * sizeof *set);
    if (phase == AT_TEXT ||
        (phase == AT_NUMBER && level_at(t, level_of(t, p))->kind == LEVEL_SCRIPT))
        memset(set, 0xff, 4 * sizeof *set);
    else if (phase == AT_VALUE)
        value_first(j, level_at(t, p->top), set);
    else if (phase > AT_STRING && phase < AT_QUOTE)
        escape_first(p, set);
    else if (phase >= AT_LITERAL)
        word_first(j, t, p, set);
    else
        gap_first(j, level_at(t, p->top), p, set);
}

static enum step begin(void *self, struct track *t, struct place *p)
{
    struct json_recognizer *j = self;
    uint32_t compact =
        j->flags & JSON_COMPACT ? GAP_NONE << MORE_COLON | GAP_NONE << MORE_COMMA : 0;
    if (!track_room(t, 8)) /* offset 0 is no record */
        return STEP_NO_ROOM;
    *p = (struct place){0, 8, j->start, compact | AT_TEXT};
    return STEP_ALIVE;
}

/* The content of a string of one language, whose text nobody needs: what most bytes are. */
static bool in_plain_string(const struct place *p, unsigned char byte)
{
    return (p->more & (MORE_PHASE | MORE_RECORDED | MORE_SET)) == AT_STRING && byte >= 32 &&
           byte != '"' && byte != '\\' && byte != 0xFF;
}

static enum step step(void *self, struct track *t, struct place *p, unsigned char byte)
{
    struct json_recognizer *j = self;
    if (in_plain_string(p, byte)) {
        lang rest = lang_step(j->languages, p->lexeme, byte);
        if (rest == LANG_NONE || rest == (lang)LANG_FAIL)
            return rest == LANG_NONE ? STEP_DEAD : STEP_NO_ROOM;
        p->lexeme = rest;
        return STEP_ALIVE;
    }
    struct place q = *p;
    j->failed = false;
    enum step s = json_advance(j, t, &q, byte);
    if (s == STEP_ALIVE && phase_of(&q) != AT_TEXT)
        s = unique_check(j, t, &q);
    if (j->failed)
        return STEP_NO_ROOM;
    if (s == STEP_ALIVE)
        *p = q;
    return s;
}

static bool accepts(void *self, struct track *t, const struct place *p)
{
    struct place q = *p;
    if (phase_of(p) == AT_NUMBER && level_at(t, level_of(t, p))->kind == LEVEL_SCRIPT &&
        number_end(self, t, &q) != STEP_ALIVE)
        return false;
    return phase_of(&q) == AT_TEXT && has_end(self, q.lexeme);
}

/* ---- for masks ---------------------------------------------------------------------------- */

/* The texts of a script that go on; false: a value may begin. */
static bool only_texts(const struct json_recognizer *j, const struct place *p)
{
    uint32_t n;
    const struct word *w = words_of(&j->texts, p->lexeme, &n);
    for (uint32_t i = 0; i < n; i++)
        if (is_hole(j, &w[i]))
            return false;
    return true;
}

static lang word(void *self, struct track *t, const struct place *p, uint32_t reach,
                 bool *in_string)
{
    struct json_recognizer *j = self;
    enum phase phase = phase_of(p);
    *in_string = phase == AT_STRING && !(level_at(t, level_of(t, p))->flags & LEVEL_GEMMA);
    if (phase == AT_TEXT)
        return only_texts(j, p) ? words_any(&j->texts, p->lexeme) : LANG_NONE;
    if (phase != AT_STRING && phase != AT_NUMBER)
        return LANG_NONE;
    lang rest = word_rest(j, p);
    return unique_free(j, t, p, rest, reach) ? rest : LANG_NONE;
}

static bool same_end(void *self, struct track *t, const struct place *p)
{
    struct json_recognizer *j = self;
    uint32_t n;
    (void)t;
    if (phase_of(p) == AT_TEXT)
        return words_of(&j->texts, p->lexeme, &n), n == 1 && only_texts(j, p);
    return !(p->more & (MORE_RECORDED | MORE_SET));
}

static void first(void *self, struct track *t, const struct place *p, uint64_t set[4])
{
    json_first(self, t, p, set);
}

static uint64_t signature(void *self, struct track *t, const struct place *p)
{
    uint32_t at = phase_of(p) == AT_TEXT ? 0 : level_of(t, p);
    uint64_t h = at ? level_at(t, at)->signature : 0;
    size_t n;
    (void)self;
    if (p->more & MORE_RECORDED) {
        const char *text = recorded_text(t, p, &n);
        h = hash_mix(h ^ xxh64(text, n));
    }
    bool reads = phase_of(p) == AT_TEXT || phase_of(p) >= AT_NUMBER;
    h = hash_mix(h ^ ((uint64_t)p->more << 32 | (reads ? p->lexeme : 0)));
    return h ? h : 1;
}

/* ---- opening ------------------------------------------------------------------------------ */

static void close_json(void *self)
{
    struct json_recognizer *j = self;
    struct budget *b = j->budget;
    struct numbers_list *lists[] = {&j->words, &j->list, &j->done, &j->reached};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        budget_free(b, lists[i]->at, lists[i]->capacity * sizeof(uint32_t));
    word_sets_close(&j->values);
    word_sets_close(&j->texts);
    json_keys_close(j);
    unique_close(j);
    script_close(&j->script);
    shapes_free(&j->shapes);
    budget_free(b, j, sizeof *j);
}

static bool in_numbers(const uint32_t *x, uint32_t n, uint32_t value)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i] == value)
            return true;
    return false;
}

/* Takes away edges of no text. */
static bool drop_dead_edges(struct json_recognizer *j)
{
    struct script *s = &j->script;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_edges; i++) {
        struct script_edge *e = &s->edges[i];
        enum lang_answer live =
            e->words == LANG_NONE ? LANG_YES : lang_is_live(j->languages, e->words);
        if (live == LANG_UNKNOWN)
            return false;
        if (live == LANG_YES)
            s->edges[n++] = *e;
    }
    s->n_edges = n;
    return true;
}

/* Takes away edges from which no accepted text ends. STEP_DEAD: there is no such text. */
static enum step prune_script(struct json_recognizer *j)
{
    struct script *s = &j->script;
    struct numbers_list *good = &j->reached; /* states */
    uint32_t n = 0, before;
    good->n = 0;
    if (!drop_dead_edges(j))
        return STEP_NO_ROOM;
    for (uint32_t i = 0; i < s->n_accepting; i++)
        if (!add_number(j, good, s->accepting[i]))
            return STEP_NO_ROOM;
    do {
        before = good->n;
        for (uint32_t i = 0; i < s->n_edges; i++)
            if (in_numbers(good->at, good->n, s->edges[i].to) &&
                !in_numbers(good->at, good->n, s->edges[i].from) &&
                !add_number(j, good, s->edges[i].from))
                return STEP_NO_ROOM;
    } while (good->n != before);
    for (uint32_t i = 0; i < s->n_edges; i++)
        if (in_numbers(good->at, good->n, s->edges[i].to))
            s->edges[n++] = s->edges[i];
    s->n_edges = n;
    return in_numbers(good->at, good->n, 0) ? STEP_ALIVE : STEP_DEAD;
}

static enum step open_start(struct json_recognizer *j)
{
    const uint32_t start = 0;
    if (j->script.failed || !json_keys_open(j))
        return STEP_NO_ROOM;
    enum step s = prune_script(j);
    if (s != STEP_ALIVE)
        return s;
    j->start = script_set(j, &start, 1);
    return j->start == WORDS_FAIL ? STEP_NO_ROOM : j->start ? STEP_ALIVE : STEP_DEAD;
}

enum tern_status json_recognizer_open(struct recognizer *out, struct shapes *shapes,
                                      struct script *script, unsigned flags, struct budget *b,
                                      struct tern_error *e)
{
    struct json_recognizer *j = budget_resize(b, NULL, 0, sizeof *j);
    if (!j) {
        if (script)
            script_close(script);
        shapes_free(shapes);
        return budget_refuse(b, e, "constraint");
    }
    *j = (struct json_recognizer){.shapes = *shapes,
                                  .languages = shapes->languages,
                                  .budget = b,
                                  .flags = flags,
                                  .canonical = {(lang)LANG_FAIL, (lang)LANG_FAIL}};
    if (script) {
        j->script = *script;
    } else {
        script_open(&j->script, b);
        script_hole(&j->script, 0, script_state(&j->script), shapes->root, SCRIPT_JSON);
        script_accept(&j->script, 1);
    }
    word_sets_open(&j->values, j->languages, b);
    word_sets_open(&j->texts, j->languages, b);
    j->texts.follow = follow;
    j->texts.arg = j;
    *out = (struct recognizer){j,        j->languages, begin,     step,         accepts,   word,
                               same_end, first,        signature, json_compact, close_json};
    enum step s = open_start(j);
    if (s == STEP_ALIVE)
        return TERN_OK;
    close_json(j);
    *out = (struct recognizer){0};
    return s == STEP_NO_ROOM ? budget_refuse(b, e, "constraint")
                             : error_set(e, TERN_USAGE, "constraint: no text satisfies it");
}
