/* Constraints that requests share: see compiled.h. */
#include "app/serve/model/compiled.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "app/serve/http/lanes.h"
#include "app/serve/model/scheduler.h"

enum {
    IDLE_MAX = 8,            /* constraints kept that no request uses */
    SHORT_STEPS = 256 << 10, /* of a compilation in the short lane: some milliseconds */
};

struct compiled {
    struct compiled_store *store;
    tern_constraint *constraint;
    struct tern_constraint_params params; /* its texts are owned */
    size_t users;
    uint64_t used; /* when, in finds */
    struct compiled *next;
};

struct compiled_store {
    const tern_model *model;
    size_t max_bytes;
    uint64_t max_steps, finds;
    pthread_mutex_t lock;
    struct compiled *first;
};

struct compiled_store *compiled_store_open(const tern_model *model, size_t max_bytes,
                                           uint64_t max_steps)
{
    struct compiled_store *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct compiled_store){.model = model, .max_bytes = max_bytes, .max_steps = max_steps};
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

static void discard(struct compiled *c)
{
    tern_constraint_close(c->constraint);
    free((void *)(uintptr_t)c->params.text);
    free((void *)(uintptr_t)c->params.trigger);
    free((void *)(uintptr_t)c->params.tool_choice);
    free(c);
}

void compiled_store_close(struct compiled_store *s)
{
    if (!s)
        return;
    for (struct compiled *c = s->first, *next; c; c = next) {
        next = c->next;
        discard(c);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- the store, under its lock ------------------------------------------------------------ */

static bool same_bytes(const char *a, size_t n_a, const char *b, size_t n_b)
{
    return n_a == n_b && (!n_a || !memcmp(a, b, n_a));
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static bool is_same(const struct tern_constraint_params *a, const struct tern_constraint_params *b)
{
    return a->kind == b->kind && a->flags == b->flags && a->chat_flags == b->chat_flags &&
           same_text(a->tool_choice, b->tool_choice) &&
           same_bytes(a->trigger, a->trigger_bytes, b->trigger, b->trigger_bytes) &&
           same_bytes(a->text, a->bytes, b->text, b->bytes);
}

static struct compiled *look_up(struct compiled_store *s, const struct tern_constraint_params *p)
{
    struct compiled *c = s->first;
    while (c && !is_same(&c->params, p))
        c = c->next;
    if (c) {
        c->users++;
        c->used = ++s->finds;
    }
    return c;
}

/* Unlinks the constraint that was idle longest, if too many are. */
static struct compiled *take_idle(struct compiled_store *s)
{
    struct compiled **oldest = NULL, *c;
    size_t n = 0;
    for (struct compiled **at = &s->first; *at; at = &(*at)->next)
        if (!(*at)->users) {
            n++;
            if (!oldest || (*at)->used < (*oldest)->used)
                oldest = at;
        }
    if (n <= IDLE_MAX)
        return NULL;
    c = *oldest;
    *oldest = c->next;
    return c;
}

/* ---- finding ------------------------------------------------------------------------------ */

static bool copy(const char **to, const char *from, size_t n)
{
    char *p = from ? malloc(n + 1) : NULL;
    *to = p;
    if (!p)
        return !from;
    memcpy(p, from, n);
    p[n] = 0;
    return true;
}

static struct compiled *compile(struct compiled_store *s, const struct tern_constraint_params *p,
                                struct fault *f)
{
    struct compiled *c = calloc(1, sizeof *c);
    bool is_short = lanes_is_short() && s->max_steps > SHORT_STEPS;
    struct tern_error e = {.code = TERN_NO_MEMORY, .text = "no memory for a constraint"};
    if (c) {
        c->store = s;
        c->users = 1;
        c->params = *p;
        c->params.text = c->params.trigger = c->params.tool_choice = NULL;
        c->params.max_bytes = s->max_bytes;
        c->params.max_steps = is_short ? SHORT_STEPS : s->max_steps;
        bool ok = copy(&c->params.text, p->text, p->bytes) &&
                  copy(&c->params.trigger, p->trigger, p->trigger_bytes) &&
                  copy(&c->params.tool_choice, p->tool_choice,
                       p->tool_choice ? strlen(p->tool_choice) : 0);
        if (ok && !tern_constraint_open(&c->constraint, s->model, &c->params, &e)) {
            c->params.max_steps = s->max_steps; /* as for all, whichever lane it was */
            return c;
        }
        discard(c);
    }
    if (is_short && e.code == TERN_LIMIT)
        fault_later(f);
    if (e.code == TERN_CANCELLED)
        (void)fault_given_up(f);
    fault_set(f,
              e.code == TERN_NO_MEMORY  ? 503
              : e.code == TERN_INTERNAL ? 500
                                        : 400,
              NULL, NULL, NULL, "%s", e.text);
    return NULL;
}

struct compiled *compiled_find(struct server *server, const struct tern_constraint_params *p,
                               struct fault *f)
{
    struct compiled_store *s = scheduler_compiled(server->scheduler);
    pthread_mutex_lock(&s->lock);
    struct compiled *c = look_up(s, p);
    pthread_mutex_unlock(&s->lock);
    if (c || !(c = compile(s, p, f)))
        return c;
    pthread_mutex_lock(&s->lock);
    struct compiled *other = look_up(s, p); /* of the other lane, meanwhile */
    if (!other) {
        c->used = ++s->finds;
        c->next = s->first;
        s->first = c;
    }
    pthread_mutex_unlock(&s->lock);
    if (!other)
        return c;
    discard(c);
    return other;
}

const tern_constraint *compiled_get(const struct compiled *c)
{
    return c->constraint;
}

const struct tern_constraint_params *compiled_params(const struct compiled *c)
{
    return &c->params;
}

void compiled_release(struct compiled *c)
{
    if (!c)
        return;
    struct compiled_store *s = c->store;
    pthread_mutex_lock(&s->lock);
    c->users--;
    struct compiled *idle = take_idle(s);
    pthread_mutex_unlock(&s->lock);
    if (idle)
        discard(idle);
}
