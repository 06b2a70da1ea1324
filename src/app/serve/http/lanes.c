/* Threads that work on requests: see lanes.h. */
#include "app/serve/http/lanes.h"

#include "app/cli/parser.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* The long lane yields to the model's threads, which are 5 nicer than that of HTTP: texts go on meanwhile. */
enum { NICE_LONG = 10 };

struct lanes {
    pthread_mutex_t lock;
    atomic_bool given_up;
    struct one_lane {
        struct lanes *lanes;
        pthread_t thread;
        bool runs;
        pthread_cond_t changed;
        /* under the lock */
        bool closing, ended;
        struct lane_task *first; /* by turn */
        size_t n;                /* that wait or are worked on */
        uint64_t passed;         /* bytes done so far for each of those that were there */
    } lane[N_LANES];
};

static _Thread_local const struct one_lane *this_lane; /* NULL: this is no thread of a lane */
static _Thread_local const struct lane_task *this_task;

bool lanes_is_short(void)
{
    return this_lane && this_lane == &this_lane->lanes->lane[LANE_SHORT];
}

bool lanes_is_given_up(void)
{
    return this_task && (this_lane->lanes->given_up || *this_task->lost);
}

void lanes_give_up(struct lanes *l)
{
    l->given_up = true;
}

/* NULL: the lane is to end. */
static struct lane_task *next_task(struct one_lane *lane)
{
    struct lanes *l = lane->lanes;
    pthread_mutex_lock(&l->lock);
    while (!lane->first && !lane->closing)
        pthread_cond_wait(&lane->changed, &l->lock);
    struct lane_task *t = lane->first;
    if (t)
        lane->first = t->next;
    pthread_mutex_unlock(&l->lock);
    return t;
}

static void note_done(struct one_lane *lane, uint64_t bytes)
{
    pthread_mutex_lock(&lane->lanes->lock);
    lane->passed += bytes / lane->n--;
    pthread_mutex_unlock(&lane->lanes->lock);
}

static void *work(void *arg)
{
    struct one_lane *lane = arg;
    this_lane = lane;
    if (!lanes_is_short())
        (void)!nice(NICE_LONG);
    for (struct lane_task *t; (t = next_task(lane));) {
        uint64_t bytes = t->bytes;
        this_task = t;
        t->run(t->arg);
        this_task = NULL;
        note_done(lane, bytes);
    }
    pthread_mutex_lock(&lane->lanes->lock);
    lane->ended = true;
    pthread_cond_signal(&lane->changed);
    pthread_mutex_unlock(&lane->lanes->lock);
    return NULL;
}

/* Waits by the steady clock. */
static void open_condition(pthread_cond_t *c)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
}

enum tern_status lanes_open(struct lanes **out, struct tern_error *e)
{
    struct lanes *l = *out = calloc(1, sizeof *l);
    bool ok = l != NULL;
    if (!l)
        return parser_no_memory(e);
    pthread_mutex_init(&l->lock, NULL);
    for (int i = 0; i < N_LANES; i++) {
        struct one_lane *lane = &l->lane[i];
        lane->lanes = l;
        open_condition(&lane->changed);
        ok = lane->runs = ok && !pthread_create(&lane->thread, NULL, work, lane);
    }
    return ok ? TERN_OK : parser_no_memory(e);
}

void lanes_add(struct lanes *l, enum lane to, struct lane_task *t)
{
    struct one_lane *lane = &l->lane[to];
    struct lane_task **p = &lane->first;
    pthread_mutex_lock(&l->lock);
    t->turn = lane->passed + t->bytes;
    while (*p && (*p)->turn <= t->turn)
        p = &(*p)->next;
    t->next = *p;
    *p = t;
    lane->n++;
    pthread_cond_signal(&lane->changed);
    pthread_mutex_unlock(&l->lock);
}

/* False: it does not end in time. */
static bool close_lane(struct one_lane *lane, const struct timespec *end)
{
    pthread_mutex_lock(&lane->lanes->lock);
    lane->closing = true;
    pthread_cond_signal(&lane->changed);
    while (lane->runs && !lane->ended)
        if (pthread_cond_timedwait(&lane->changed, &lane->lanes->lock, end) == ETIMEDOUT)
            break;
    bool ended = !lane->runs || lane->ended;
    pthread_mutex_unlock(&lane->lanes->lock);
    if (!ended)
        return false;
    if (lane->runs)
        pthread_join(lane->thread, NULL);
    pthread_cond_destroy(&lane->changed);
    return true;
}

bool lanes_close(struct lanes *l, int seconds)
{
    struct timespec end;
    if (!l)
        return true;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    for (int i = 0; i < N_LANES; i++) /* in this order: what is short may turn out to be long */
        if (!close_lane(&l->lane[i], &end))
            return false;
    pthread_mutex_destroy(&l->lock);
    free(l);
    return true;
}
