/* Jobs that wait: see waiting.h. Rounds are those of start-time fair queuing, with a cost of one a job. */
#include "app/serve/model/waiting.h"

enum { QUEUE_SHARE = 4 }; /* one part in so many of the queue is for clients without a job in it */

static uint64_t later(uint64_t round, const struct job *j, uint64_t client)
{
    return j && j->request.client == client && j->round >= round ? j->round + 1 : round;
}

static bool runs_another(const struct scheduler *s, const struct job *j)
{
    for (uint32_t i = 0; i < s->n_parallel; i++)
        if (s->running[i] && s->running[i]->request.client == j->request.client)
            return true;
    return false;
}

bool waiting_must_leave(const struct scheduler *s, const struct job *j)
{
    return s->server->is_shared && s->n_parallel > 1 && s->n_running + 1 >= s->n_parallel &&
           runs_another(s, j);
}

/* Of the queue, places for clients without a job in it */
static size_t kept_for_others(const struct scheduler *s)
{
    return s->server->is_shared ? s->max_waiting / QUEUE_SHARE : 0;
}

size_t waiting_room(const struct scheduler *s)
{
    return s->max_waiting + s->n_parallel - kept_for_others(s);
}

/* Jobs for which a sequence is free do not count as waiting. */
bool waiting_is_full_for(const struct scheduler *s, const struct job *j)
{
    size_t room = s->max_waiting + s->n_parallel - s->n_running;
    const struct job *other = s->waiting;
    if (s->n_waiting >= room)
        return true;
    if (!s->server->is_shared || s->n_waiting < room - kept_for_others(s))
        return false;
    while (other && other->request.client != j->request.client)
        other = other->next;
    return other != NULL;
}

void waiting_add(struct scheduler *s, struct job *j)
{
    struct job **end = &s->waiting;
    j->round = s->round;
    j->serial = s->serial++;
    for (uint32_t i = 0; i < s->n_parallel; i++)
        j->round = later(j->round, s->running[i], j->request.client);
    for (; *end; end = &(*end)->next)
        j->round = later(j->round, *end, j->request.client);
    j->state = JOB_WAITS;
    j->next = NULL;
    *end = j;
    s->n_waiting++;
}

void waiting_remove(struct scheduler *s, struct job *j)
{
    struct job **at = &s->waiting;
    while (*at && *at != j)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = j->next;
    s->n_waiting--;
}

struct job *waiting_next(struct scheduler *s, bool (*may_start)(struct scheduler *s, struct job *j))
{
    struct job *next = NULL;
    for (struct job *j = s->waiting; j; j = j->next)
        if ((!next || j->round < next->round) && may_start(s, j))
            next = j;
    return next;
}

void waiting_take(struct scheduler *s, struct job *j)
{
    waiting_remove(s, j);
    if (j->round > s->round)
        s->round = j->round;
}
