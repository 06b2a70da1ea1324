/* The tokens of a job: see events.h. */
#include "app/serve/model/events.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 8 };

struct record { /* then top [n_top], then the text, then up to the next multiple of ALIGN */
    double logprob;
    size_t n_top, bytes;
    enum job_event_kind kind;
    tern_token token;
    bool forced;
};

static size_t record_size(size_t n_top, size_t bytes)
{
    size_t n = sizeof(struct record) + n_top * sizeof(struct tern_choice) + bytes;
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static bool make_room(struct events *e, size_t more)
{
    if (more <= e->room - e->n)
        return true;
    size_t room = 2 * (e->n + more);
    char *grown = realloc(e->p, room);
    if (!grown)
        return false;
    e->p = grown, e->room = room;
    return true;
}

bool events_add(struct events *e, const struct job_event *token)
{
    size_t n = record_size(token->n_top, token->bytes), top = token->n_top * sizeof *token->top;
    struct record r = {token->logprob, token->n_top, token->bytes,
                       token->kind,    token->token, token->forced};
    if (!make_room(e, n))
        return false;
    char *at = e->p + e->n;
    memcpy(at, &r, sizeof r);
    if (top)
        memcpy(at + sizeof r, token->top, top);
    if (token->bytes)
        memcpy(at + sizeof r + top, token->text, token->bytes);
    e->n += n;
    return true;
}

bool events_next(struct events *e, struct job_event *token)
{
    struct record r;
    if (e->at == e->n)
        return false;
    const char *at = e->p + e->at;
    memcpy(&r, at, sizeof r);
    *token = (struct job_event){
        .kind = r.kind,
        .token = r.token,
        .forced = r.forced,
        .logprob = r.logprob,
        .top = (const struct tern_choice *)(const void *)(at + sizeof r),
        .n_top = r.n_top,
        .text = at + sizeof r + r.n_top * sizeof *token->top,
        .bytes = r.bytes,
    };
    e->at += record_size(r.n_top, r.bytes);
    return true;
}

bool events_move(struct events *to, struct events *from)
{
    if (!to->n) {
        struct events empty = *to;
        *to = *from, *from = empty;
        return true;
    }
    if (!from->n)
        return true;
    if (!make_room(to, from->n))
        return false;
    memcpy(to->p + to->n, from->p, from->n);
    to->n += from->n;
    events_clear(from);
    return true;
}

void events_clear(struct events *e)
{
    e->n = e->at = 0;
}

void events_close(struct events *e)
{
    free(e->p);
    *e = (struct events){0};
}
