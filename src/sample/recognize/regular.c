/* A language as a recognizer: see regular.h. */
#include "sample/recognize/regular.h"

#include <stdlib.h>
#include <string.h>

struct regular {
    struct languages *languages; /* owned */
    lang root;
};

static enum step begin(void *self, struct track *t, struct place *p)
{
    const struct regular *r = self;
    (void)t;
    *p = (struct place){.lexeme = r->root};
    return STEP_ALIVE;
}

static enum step step(void *self, struct track *t, struct place *p, unsigned char byte)
{
    const struct regular *r = self;
    lang next = lang_step(r->languages, p->lexeme, byte);
    (void)t;
    if (next == LANG_FAIL)
        return STEP_NO_ROOM;
    if (next == LANG_NONE)
        return STEP_DEAD;
    p->lexeme = next;
    return STEP_ALIVE;
}

static bool accepts(void *self, struct track *t, const struct place *p)
{
    const struct regular *r = self;
    (void)t;
    return lang_accepts(r->languages, p->lexeme);
}

static lang word(void *self, struct track *t, const struct place *p, uint32_t reach,
                 bool *in_string)
{
    (void)reach;
    (void)self, (void)t;
    *in_string = false;
    return p->lexeme;
}

static void first(void *self, struct track *t, const struct place *p, uint64_t set[4])
{
    const struct regular *r = self;
    (void)t;
    lang_first(r->languages, p->lexeme, set);
}

static uint64_t signature(void *self, struct track *t, const struct place *p)
{
    (void)self, (void)t;
    return p->lexeme + (uint64_t)1;
}

static void close(void *self)
{
    struct regular *r = self;
    if (r)
        languages_close(r->languages);
    free(r);
}

enum tern_status regular_open(struct recognizer *out, struct languages *ls, lang a,
                              const char *what, struct tern_error *e)
{
    enum lang_answer live = a == LANG_FAIL ? LANG_UNKNOWN : lang_decide(ls, a);
    if (live == LANG_YES)
        live = lang_is_live(ls, a);
    struct regular *r = live == LANG_YES ? malloc(sizeof *r) : NULL;
    *out = (struct recognizer){0};
    if (!r) {
        const struct budget *b = languages_budget(ls);
        languages_close(ls);
        return live == LANG_YES  ? error_memory(e, what, sizeof *r)
               : live == LANG_NO ? error_set(e, TERN_USAGE, "%s: no text matches it", what)
                                 : budget_refuse(b, e, what);
    }
    *r = (struct regular){ls, a};
    *out =
        (struct recognizer){r, ls, begin, step, accepts, word, NULL, first, signature, NULL, close};
    return TERN_OK;
}
