/* Turns of the model thread: see batches.h. */
#include "app/serve/model/batches.h"

#include <math.h>

#include "app/cli/stopwatch.h"
#include "app/serve/model/model_files.h"
#include "app/serve/model/reuse.h"
#include "app/serve/model/run_attention.h"
#include "app/serve/model/run_embedding.h"
#include "app/serve/model/run_text.h"
#include "app/serve/model/waiting.h"

enum {
    PAUSE_BYTES = 256 << 10, /* of events that nobody takes */
    EMBED_EVERY = 4,         /* steps of streams between batches of embeddings */
};

/* ---- begin and end ------------------------------------------------------------------------ */

static bool is_text(const struct job *j)
{
    return j->request.kind == JOB_TEXT;
}

static const struct run_kind {
    bool (*begin)(struct scheduler *s, struct job *j);
    void (*end)(struct scheduler *s, struct job *j);
} run_kinds[] = {
    [JOB_TEXT] = {run_text_begin, run_text_end},
    [JOB_EMBED_MEAN] = {run_embedding_begin, run_embedding_end},
    [JOB_EMBED_LAST] = {run_embedding_begin, run_embedding_end},
    [JOB_ATTENTION] = {run_attention_begin, run_attention_end},
};

static const struct run_kind *kind_of(const struct job *j)
{
    return &run_kinds[j->request.kind];
}

/* Under the lock. */
static void count_end(struct scheduler *s, const struct job *j)
{
    struct serve_numbers *n = &s->numbers;
    const struct tern_generate_result *r = &j->last.result;
    bool done = j->last.kind == JOB_DONE;
    n->n_done += done && !j->closed;
    n->n_failed += !done && !j->closed;
    n->n_cancelled += j->closed;
    n->n_drafted += r->n_drafted;
    n->n_accepted += r->n_accepted;
    n->prompt_seconds += j->last.prompt_seconds;
    n->generate_seconds += j->last.generate_seconds;
    tern_prefix_info(s->ctx, &n->prefix);
}

static void end(struct scheduler *s, struct job *j)
{
    if (j->last.kind == JOB_NOTHING)
        kind_of(j)->end(s, j);
    reuse_end(s, j);
    pthread_mutex_lock(&s->lock);
    count_end(s, j);
    pthread_mutex_unlock(&s->lock);
    job_end(j);
}

static void begin(struct scheduler *s, struct job *j)
{
    j->started = stopwatch_now();
    size_t n = reuse_begin(s, j);
    pthread_mutex_lock(&s->lock);
    j->n_cached = j->n_read = n;
    s->numbers.n_cached += n;
    pthread_mutex_unlock(&s->lock);
    if (!kind_of(j)->begin(s, j))
        end(s, j);
}

static bool may_start(struct scheduler *s, struct job *j)
{
    return !waiting_must_leave(s, j) && !reuse_should_wait(s, j);
}

static struct job *admit_one(struct scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    struct job *j = s->n_running < s->n_parallel ? waiting_next(s, may_start) : NULL;
    if (j) {
        waiting_take(s, j);
        j->seq = reuse_choose(s, j);
        j->state = JOB_RUNS;
        s->running[j->seq] = j;
        s->n_running++;
    }
    pthread_mutex_unlock(&s->lock);
    return j;
}

static void admit(struct scheduler *s)
{
    for (struct job *j; (j = admit_one(s));)
        begin(s, j);
}

/* The jobs that nobody waits for, or, if there is a reason, all of them. */
static void end_closed(struct scheduler *s, const char *why)
{
    struct job *closed[MAX_PARALLEL];
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_parallel; i++)
        if (s->running[i] && (why || s->running[i]->closed))
            closed[n++] = s->running[i];
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        if (why) {
            events_clear(&closed[i]->made); /* perhaps of a step that nobody may see */
            tern_text_close(closed[i]->text);
            closed[i]->text = NULL;
            tern_attention_close(closed[i]->attention);
            closed[i]->attention = NULL;
            run_text_fail(closed[i], 503, "%s", why);
        }
        end(s, closed[i]);
    }
}

void batches_end_all(struct scheduler *s)
{
    struct tern_error e;
    const char *why = scheduler_status(s, &e) ? SCHEDULER_LOST : "the server is shutting down";
    end_closed(s, why);
    pthread_mutex_lock(&s->lock);
    for (struct job *j; (j = s->waiting);) {
        waiting_remove(s, j);
        run_text_fail(j, 503, "%s", why);
        s->numbers.n_failed++;
        j->state = JOB_IS_OVER;
        if (j->hungry)
            j->wake(j->arg);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- a batch ------------------------------------------------------------------------------ */

struct batch {
    struct job *streams[MAX_PARALLEL], *readers[MAX_PARALLEL], *embeds[MAX_PARALLEL];
    size_t n_streams, n_readers, n_embeds;
};

static bool is_paused(const struct job *j)
{
    return j->shared.n >= PAUSE_BYTES;
}

/* Inserts a job behind those that began before it. */
static void insert(struct job **jobs, size_t *n, struct job *j)
{
    size_t at = (*n)++;
    for (; at && jobs[at - 1]->started > j->started; at--)
        jobs[at] = jobs[at - 1];
    jobs[at] = j;
}

/* Every other step begins with the prompt that is shortest, so that a long one does not hold it up. */
static void shortest_first(struct batch *b)
{
    size_t least = 0;
    for (size_t i = 1; i < b->n_readers; i++)
        if (tern_text_unread(b->readers[i]->text) < tern_text_unread(b->readers[least]->text))
            least = i;
    struct job *j = b->readers[least];
    for (; least; least--)
        b->readers[least] = b->readers[least - 1];
    b->readers[0] = j;
}

static void gather(struct scheduler *s, struct batch *b)
{
    *b = (struct batch){0};
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_parallel; i++) {
        struct job *j = s->running[i];
        if (!j || is_paused(j))
            continue;
        if (!is_text(j))
            insert(b->embeds, &b->n_embeds, j);
        else if (tern_text_unread(j->text))
            insert(b->readers, &b->n_readers, j);
        else
            insert(b->streams, &b->n_streams, j);
    }
    pthread_mutex_unlock(&s->lock);
    if (b->n_readers > 1 && s->n_turns % 2)
        shortest_first(b);
}

static void enter_step(struct scheduler *s, double seconds, bool may_cancel)
{
    pthread_mutex_lock(&s->lock);
    s->in_step = true;
    s->may_cancel = may_cancel && !s->was_cancelled;
    s->step_ends = stopwatch_now() + seconds;
    pthread_mutex_unlock(&s->lock);
}

/* Under the lock. */
static void count_gap(struct serve_numbers *n, double seconds)
{
    enum { LAST = sizeof n->gaps / sizeof *n->gaps - 1 };
    int i = 0;
    while (i < LAST && seconds * 1000 >= ldexp(1, i))
        i++;
    n->gaps[i]++;
    n->n_gaps++;
    n->gap_seconds += seconds;
}

/* What the step did to a job. Under the lock. */
static void count_job(struct scheduler *s, struct job *j, double now)
{
    size_t read =
        j->request.n_prompt - (is_text(j) ? tern_text_unread(j->text)
                                          : j->request.n_prompt - tern_seq_length(s->ctx, j->seq));
    s->numbers.n_prompt += read - j->n_read;
    j->n_read = read;
    if (!is_text(j) || !j->n_new)
        return;
    s->numbers.n_generated += j->n_new;
    j->n_generated += j->n_new;
    if (j->last_token > 0)
        count_gap(&s->numbers, now - j->last_token);
    j->last_token = now;
}

static void leave_step(struct scheduler *s, struct job *const *jobs, size_t n, size_t rows,
                       double seconds)
{
    double now = stopwatch_now();
    pthread_mutex_lock(&s->lock);
    s->in_step = false;
    s->numbers.n_steps += rows > 0;
    s->numbers.n_rows += rows;
    s->numbers.step_seconds += seconds;
    for (size_t i = 0; i < n; i++)
        count_job(s, jobs[i], now);
    pthread_mutex_unlock(&s->lock);
}

/* ---- texts -------------------------------------------------------------------------------- */

static size_t total_unread(tern_text *const *texts, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += tern_text_unread(texts[i]);
    return sum;
}

static void after_step(struct scheduler *s, struct job *const *jobs, size_t n, size_t rows,
                       double seconds)
{
    double now = stopwatch_now();
    for (size_t i = 0; i < n; i++)
        run_text_stepped(s, jobs[i], now);
    leave_step(s, jobs, n, rows, seconds);
    for (size_t i = 0; i < n; i++)
        job_publish(jobs[i]);
    for (size_t i = 0; i < n; i++)
        if (tern_text_is_over(jobs[i]->text) || jobs[i]->no_memory)
            end(s, jobs[i]);
        else
            reuse_stepped(s, jobs[i]);
}

/* tern_step refuses only what is wrong here: no job may wait for ever. */
static void refuse(struct scheduler *s, struct job *const *jobs, size_t n,
                   const struct tern_error *e)
{
    for (size_t i = 0; i < n; i++) {
        tern_text_close(jobs[i]->text);
        jobs[i]->text = NULL;
        run_text_fail(jobs[i], 500, "%s", e->text);
        end(s, jobs[i]);
    }
}

static void step(struct scheduler *s, struct batch *b)
{
    struct job *jobs[MAX_PARALLEL];
    tern_text *texts[MAX_PARALLEL];
    struct tern_error e = {0};
    size_t depth = b->n_readers ? tern_seq_length(s->ctx, b->readers[0]->seq) : 0;
    uint32_t max = b->n_readers ? chunks_choose(&s->chunks, b->n_streams, b->n_readers, depth) : 0;
    size_t n = 0;
    for (size_t i = 0; i < b->n_streams; i++)
        jobs[n++] = b->streams[i];
    for (size_t i = 0; max && i < b->n_readers; i++)
        jobs[n++] = b->readers[i];
    for (size_t i = 0; i < n; i++)
        texts[i] = jobs[i]->text;
    enter_step(s, chunks_guess(&s->chunks, b->n_streams, max, depth), max);
    size_t unread = total_unread(texts, n);
    double start = stopwatch_now();
    enum tern_status status = tern_step(texts, n, max ? max : 1, &e);
    double seconds = stopwatch_now() - start;
    size_t rows = unread - total_unread(texts, n);
    s->was_cancelled = status == TERN_CANCELLED;
    bool is_lost = model_files_changed(s);
    if (status || is_lost) {
        leave_step(s, jobs, 0, 0, seconds);
        if (!s->was_cancelled && !is_lost)
            refuse(s, jobs, n, &e);
        return;
    }
    chunks_learn(&s->chunks, b->n_streams, rows, depth, seconds);
    after_step(s, jobs, n, b->n_streams + rows, seconds);
}

/* ---- embeddings and attention --------------------------------------------------------------------------- */

static void embed(struct scheduler *s, struct batch *b)
{
    size_t max = chunks_choose(&s->chunks, b->n_streams, b->n_embeds, 0), rows;
    if (!max)
        return;
    enter_step(s, chunks_guess(&s->chunks, 0, max, 0), true);
    double start = stopwatch_now();
    rows = run_embedding_step(s, b->embeds, b->n_embeds, max);
    double seconds = stopwatch_now() - start;
    s->was_cancelled = !rows;
    if (rows)
        chunks_learn(&s->chunks, 0, rows, 0, seconds);
    leave_step(s, b->embeds, rows ? b->n_embeds : 0, rows, seconds);
    if (model_files_changed(s))
        return;
    for (size_t i = 0; i < b->n_embeds; i++)
        if (b->embeds[i]->n_read == b->embeds[i]->request.n_prompt || b->embeds[i]->error.code)
            end(s, b->embeds[i]);
}

/* ---- turns -------------------------------------------------------------------------------- */

bool batches_have_work(struct scheduler *s)
{
    if (s->n_running < s->n_parallel && waiting_next(s, may_start))
        return true;
    for (uint32_t i = 0; i < s->n_parallel; i++)
        if (s->running[i] && (s->running[i]->closed || !is_paused(s->running[i])))
            return true;
    return false;
}

void batches_turn(struct scheduler *s)
{
    struct batch b;
    end_closed(s, NULL);
    admit(s);
    gather(s, &b);
    s->n_turns++;
    if (b.n_streams || b.n_readers)
        step(s, &b);
    if (b.n_embeds && (!b.n_streams || s->n_turns % EMBED_EVERY == 0))
        embed(s, &b);
}
