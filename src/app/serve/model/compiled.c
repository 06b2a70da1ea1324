/* Constraints that requests share: see compiled.h. */
#include "app/serve/model/compiled.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "app/serve/http/lanes.h"
#include "app/serve/model/scheduler.h"

enum {
    IDLE_MAX = 8,         /* constraints kept that no request uses */
    SHORT_QUESTIONS = 16, /* of tern.h's `stop` while one is compiled in the short lane: some milliseconds */
    RETRY_AFTER = 1,      /* s */
};

static _Thread_local unsigned questions_left; /* 0: they are not counted, or over */

struct compiled {
    struct compiled_store *store;
    tern_constraint *constraint; /* NULL: it is being compiled */
    struct tern_constraint_params params; /* its texts are the constraint's; until then, those of who compiles it */
    size_t users;
    uint64_t used; /* when, in finds */
    struct compiled *next;
};

struct compiled_store {
    const tern_model *model;
    size_t max_bytes;
    uint64_t max_steps, finds, n_begun;
    pthread_mutex_t lock; /* never held while a constraint is opened or closed: compiled_make_room takes it */
    pthread_cond_t changed;
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
    pthread_cond_init(&s->changed, NULL);
    return s;
}

static void discard(struct compiled *c)
{
    tern_constraint_close(c->constraint);
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
    pthread_cond_destroy(&s->changed);
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
    return c;
}

/* Unlinks the constraint that was idle longest, if more than so many are. */
static struct compiled *take_idle(struct compiled_store *s, size_t most)
{
    struct compiled **oldest = NULL, *c;
    size_t n = 0;
    for (struct compiled **at = &s->first; *at; at = &(*at)->next)
        if (!(*at)->users) {
            n++;
            if (!oldest || (*at)->used < (*oldest)->used)
                oldest = at;
        }
    if (n <= most)
        return NULL;
    c = *oldest;
    *oldest = c->next;
    return c;
}

static void unlink_one(struct compiled_store *s, const struct compiled *c)
{
    struct compiled **at = &s->first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

/* ---- finding ------------------------------------------------------------------------------ */

static tern_constraint *compile(const struct compiled_store *s,
                                struct tern_constraint_params p, struct fault *f)
{
    bool is_short = lanes_is_short();
    tern_constraint *c;
    struct tern_error e;
    p.max_bytes = s->max_bytes;
    p.max_steps = s->max_steps;
    questions_left = is_short ? SHORT_QUESTIONS : 0;
    enum tern_status status = tern_constraint_open(&c, s->model, &p, &e);
    bool is_long = is_short && !questions_left;
    questions_left = 0;
    if (!status)
        return c;
    if (e.code == TERN_CANCELLED && is_long)
        fault_later(f);
    else if (e.code == TERN_CANCELLED)
        (void)fault_given_up(f);
    if (e.code == TERN_NO_MEMORY) {
        (void)fault_no_memory(f, "a constraint beside those in use (--max-constraint-memory)");
        f->retry_after = RETRY_AFTER;
    }
    fault_set(f, e.code == TERN_INTERNAL ? 500 : 400, NULL, NULL, NULL, "%s", e.text);
    return NULL;
}

bool compiled_takes_long(void)
{
    return questions_left && !--questions_left;
}

/* Under the lock. The new one that this thread shall compile, or NULL. */
static struct compiled *begin(struct compiled_store *s, const struct tern_constraint_params *p,
                              struct fault *f)
{
    struct compiled *c = calloc(1, sizeof *c);
    if (!c) {
        (void)fault_no_memory(f, "a constraint");
        return NULL;
    }
    *c = (struct compiled){
        .store = s, .params = *p, .users = 1, .used = ++s->finds, .next = s->first};
    s->n_begun++;
    return s->first = c;
}

struct compiled *compiled_find(struct server *server, const struct tern_constraint_params *p,
                               struct fault *f)
{
    struct compiled_store *s = scheduler_compiled(server->scheduler);
    struct compiled *c;
    pthread_mutex_lock(&s->lock);
    /* The long lane waits for the short one, which gives up soon; the short one waits for nothing. */
    while ((c = look_up(s, p)) && !c->constraint && !lanes_is_short())
        pthread_cond_wait(&s->changed, &s->lock);
    bool is_ready = c && c->constraint;
    if (is_ready)
        c->users++, c->used = ++s->finds;
    else if (c)
        fault_later(f);
    bool is_new = !c && (c = begin(s, p, f));
    pthread_mutex_unlock(&s->lock);
    if (!is_new)
        return is_ready ? c : NULL;
    tern_constraint *made = compile(s, *p, f);
    pthread_mutex_lock(&s->lock);
    c->constraint = made;
    if (made)
        c->params = *tern_constraint_made_of(made);
    else
        unlink_one(s, c);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (made)
        return c;
    discard(c);
    return NULL;
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
    struct compiled *idle = take_idle(s, IDLE_MAX);
    pthread_mutex_unlock(&s->lock);
    if (idle)
        discard(idle);
}

bool compiled_make_room(struct compiled_store *s)
{
    pthread_mutex_lock(&s->lock);
    struct compiled *idle = take_idle(s, 0);
    pthread_mutex_unlock(&s->lock);
    if (idle)
        discard(idle);
    return idle != NULL;
}

uint64_t compiled_count(struct compiled_store *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t n = s->n_begun;
    pthread_mutex_unlock(&s->lock);
    return n;
}
