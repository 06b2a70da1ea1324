/* Jobs that wait: see waiting.h. Rounds are those of start-time fair queuing, with a cost of one a job. */
#include "app/serve/model/waiting.h"

#include <string.h>

enum { QUEUE_SHARE = 4 }; /* one part in so many of the queue is for clients without a job in it */

static uint64_t later(uint64_t round, const struct job *j, uint64_t client)
{
    return j && j->request.client == client && j->round >= round ? j->round + 1 : round;
}

/* Of the sequences, those for clients without one */
static size_t sequences_for_others(const struct scheduler *s)
{
    return s->server->is_shared && s->n_parallel > 1;
}

/* Of the queue, places for clients without a job in it; a single place is for who comes first */
static size_t kept_for_others(const struct scheduler *s)
{
    bool is_shared = s->server->is_shared && s->max_waiting > 1;
    return is_shared ? (s->max_waiting + QUEUE_SHARE - 1) / QUEUE_SHARE : 0;
}

size_t waiting_room(const struct scheduler *s)
{
    return s->max_waiting + s->n_parallel - kept_for_others(s) - sequences_for_others(s);
}

/* Whether there is a sequence for the job where n of these run; the others are NULL. */
static bool has_sequence(const struct scheduler *s, struct job *const running[MAX_PARALLEL],
                         size_t n, const struct job *j)
{
    if (n + sequences_for_others(s) < s->n_parallel)
        return true;
    for (uint32_t i = 0; i < s->n_parallel; i++)
        if (running[i] && running[i]->request.client == j->request.client)
            return false;
    return n < s->n_parallel;
}

bool waiting_must_leave(const struct scheduler *s, const struct job *j)
{
    return !has_sequence(s, s->running, s->n_running, j);
}

/* Only jobs without a sequence count as waiting: those that will have one are gone after the step in work. */
bool waiting_is_full_for(const struct scheduler *s, const struct job *j)
{
    struct job *running[MAX_PARALLEL];
    size_t n = s->n_running, n_waiting = 0, room = s->max_waiting;
    uint32_t at = 0;
    memcpy(running, s->running, sizeof running);
    for (struct job *other = s->waiting; other; other = other->next) {
        if (has_sequence(s, running, n, other)) {
            while (running[at])
                at++;
            running[at] = other, n++;
            continue;
        }
        n_waiting++;
        if (other->request.client == j->request.client)
            room = s->max_waiting - kept_for_others(s);
    }
    return n_waiting >= room && !has_sequence(s, running, n, j);
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
