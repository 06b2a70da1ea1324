/* Tokens that wait until their text is certain: see certain.h. */
#include "app/cli/certain.h"

#include <string.h>

struct certain_token {
    tern_token token;
    size_t end; /* bytes from the beginning up to the end of its text */
};

enum tern_status certain_open(struct certain *c, const tern_model *model, bool ignore_end,
                              const tern_token *prompt, size_t n, struct tern_error *e)
{
    size_t bytes;
    *c = (struct certain){.model = model, .ignore_end = ignore_end};
    enum tern_status s = tern_decoder_open(&c->decoder, model, 0, e);
    for (size_t i = 0; i < n && !s; i++)
        (void)tern_decoder_push(c->decoder, prompt[i], &bytes);
    return s;
}

void certain_close(struct certain *c)
{
    tern_decoder_close(c->decoder);
    growing_text_close(&c->raw);
    growing_text_close(&c->waiting);
    *c = (struct certain){0};
}

static bool add_text(struct certain *c, const char *text, size_t n)
{
    growing_text_add(&c->raw, text, n);
    c->made += n;
    return !c->raw.failed;
}

bool certain_add(struct certain *c, tern_token token)
{
    size_t n = 0;
    const char *text = "";
    if (c->ignore_end || !tern_token_is_end(c->model, token))
        text = tern_decoder_push(c->decoder, token, &n);
    bool ok = add_text(c, text, n);
    struct certain_token t = {token, c->made};
    growing_text_add(&c->waiting, (const char *)&t, sizeof t);
    return ok && !c->waiting.failed;
}

void certain_grow(struct certain *c, size_t n)
{
    c->certain += n;
}

/* What the decoder held back belongs to the text, unless a stop string ended it. */
bool certain_end(struct certain *c, enum tern_stop_reason reason)
{
    size_t n;
    c->over = true;
    if (reason == TERN_STOP_STRING)
        return true;
    const char *text = tern_decoder_finish(c->decoder, &n);
    bool ok = add_text(c, text, n);
    c->certain = c->made;
    return ok;
}

/* Drops the first n bytes. */
static void drop(struct growing_text *t, size_t n)
{
    if (t->n > n)
        memmove(t->p, t->p + n, t->n - n);
    t->n -= n;
}

void certain_next(struct certain *c, struct certain_piece *piece)
{
    struct certain_token t = {0};
    size_t n = c->certain - c->passed;
    bool waits = c->waiting.n > 0;
    if (waits)
        memcpy(&t, c->waiting.p, sizeof t);
    bool whole = waits && t.end <= c->certain;
    drop(&c->raw, c->n_given);
    c->n_given = 0;
    *piece = (struct certain_piece){.kind = CERTAIN_NONE, .text = ""};
    if (!whole && !(c->over && n))
        return;
    piece->kind = whole ? CERTAIN_TOKEN : waits ? CERTAIN_CUT : CERTAIN_REST;
    piece->token = t.token;
    piece->n = c->n_given = whole ? t.end - c->passed : n;
    if (piece->n)
        piece->text = c->raw.p;
    c->passed += piece->n;
    drop(&c->waiting, waits ? sizeof t : 0);
}
