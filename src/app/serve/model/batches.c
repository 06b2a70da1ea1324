/* Turns of the model thread: see batches.h. */
#include "app/serve/model/batches.h"

#include <math.h>

#include "app/cli/stopwatch.h"
#include "app/serve/model/late.h"
#include "app/serve/model/model_files.h"
#include "app/serve/model/reuse.h"
#include "app/serve/model/run_attention.h"
#include "app/serve/model/run_embedding.h"
#include "app/serve/model/run_text.h"
#include "app/serve/model/waiting.h"

enum {
    PAUSE_BYTES = 256 << 10, /* of events that nobody takes */
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
    else
        late_look(s, j);
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

static void fail(struct job *j, const struct fault *why)
{
    j->last = (struct job_event){.kind = JOB_FAILED, .fault = *why};
}

/* Under the lock. */
static bool may_end(const struct job *j)
{
    return j->closed && j->late != JOB_CATCHES_UP;
}

/* The jobs that nobody waits for, or, if there is a reason, all of them. */
static void end_closed(struct scheduler *s, const struct fault *why)
{
    struct job *closed[MAX_PARALLEL];
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_parallel; i++)
        if (s->running[i] && (why || may_end(s->running[i]))) {
            s->running[i]->late = JOB_ON_TIME;
            closed[n++] = s->running[i];
        }
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        if (why) {
            events_clear(&closed[i]->made); /* perhaps of a step that nobody may see */
            tern_text_close(closed[i]->text);
            closed[i]->text = NULL;
            tern_attention_close(closed[i]->attention);
            closed[i]->attention = NULL;
            fail(closed[i], why);
        }
        end(s, closed[i]);
    }
}

void batches_end_all(struct scheduler *s)
{
    struct fault why = {0};
    (void)model_files_changed(s);
    pthread_mutex_lock(&s->lock);
    job_refuse(s, &why);
    pthread_mutex_unlock(&s->lock);
    late_give_up(s);
    end_closed(s, &why);
    pthread_mutex_lock(&s->lock);
    for (struct job *j; (j = s->waiting);) {
        waiting_remove(s, j);
        fail(j, &why);
        s->numbers.n_failed++;
        j->state = JOB_IS_OVER;
        job_wake(j);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- a batch ------------------------------------------------------------------------------ */

struct batch {
    struct job *streams[MAX_PARALLEL];
    struct job *readers[MAX_PARALLEL]; /* of a text, or of any other prompt; */
    struct job *looks[MAX_PARALLEL];   /* or of its last row, which is observed */
    size_t n_streams, n_readers, n_looks;
};

/* Its events are not taken, or its constraint is not ready. */
static bool sits_out(const struct job *j)
{
    return j->shared.n >= PAUSE_BYTES || j->late;
}

/* Inserts a job behind those that began before it. */
static void insert(struct job **jobs, size_t *n, struct job *j)
{
    size_t at = (*n)++;
    for (; at && jobs[at - 1]->started > j->started; at--)
        jobs[at] = jobs[at - 1];
    jobs[at] = j;
}

/* Rows of its prompt, or of a shift, that a job has still to evaluate */
static size_t unread(const struct scheduler *s, const struct job *j)
{
    return is_text(j) ? tern_text_unread(j->text)
                      : j->request.n_prompt - tern_seq_length(s->ctx, j->seq);
}

/* Every other step begins with the prompt that is shortest, so that a long one does not hold it up. */
static void shortest_first(const struct scheduler *s, struct batch *b)
{
    size_t least = 0;
    for (size_t i = 1; i < b->n_readers; i++)
        if (unread(s, b->readers[i]) < unread(s, b->readers[least]))
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
        if (!j || sits_out(j))
            continue;
        if (j->request.kind == JOB_ATTENTION && unread(s, j) == 1)
            insert(b->looks, &b->n_looks, j);
        else if (unread(s, j))
            insert(b->readers, &b->n_readers, j);
        else
            insert(b->streams, &b->n_streams, j);
    }
    pthread_mutex_unlock(&s->lock);
    if (b->n_readers > 1 && s->n_turns % 2)
        shortest_first(s, b);
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
    size_t read = j->request.n_prompt - unread(s, j);
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

/* ---- a step ------------------------------------------------------------------------------------- */

struct share { /* of a batch: the jobs that have rows in it */
    struct job *jobs[MAX_PARALLEL], *others[MAX_PARALLEL]; /* with a text, and without */
    tern_text *texts[MAX_PARALLEL];
    size_t n, n_others, taken[MAX_PARALLEL]; /* rows of the others */
    size_t prompt_rows;                      /* of texts */
};

static void share_text(struct share *r, struct job *j)
{
    r->texts[r->n] = j->text;
    r->jobs[r->n++] = j;
}

/* All streams, and max rows of prompts in the order of the readers: those without a text are added now. */
static void share_rows(struct scheduler *s, const struct batch *b, size_t max, struct share *r)
{
    *r = (struct share){0};
    for (size_t i = 0; i < b->n_streams; i++)
        share_text(r, b->streams[i]);
    for (size_t i = 0; i < b->n_readers && max; i++) {
        struct job *j = b->readers[i];
        size_t rows = unread(s, j) < max ? unread(s, j) : max;
        if (is_text(j)) {
            share_text(r, j);
            r->prompt_rows += rows;
        } else {
            rows = r->taken[r->n_others] = run_embedding_add(s, j, rows);
            r->others[r->n_others++] = j;
        }
        max -= rows;
    }
}

static size_t total_unread(const struct scheduler *s, const struct share *r)
{
    size_t sum = 0;
    for (size_t i = 0; i < r->n; i++)
        sum += unread(s, r->jobs[i]);
    for (size_t i = 0; i < r->n_others; i++)
        sum += unread(s, r->others[i]);
    return sum;
}

static void end_others(struct scheduler *s, struct job *const *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (jobs[i]->n_read == jobs[i]->request.n_prompt || jobs[i]->error.code)
            end(s, jobs[i]);
}

static void after_step(struct scheduler *s, const struct share *r, size_t rows, double seconds)
{
    double now = stopwatch_now();
    for (size_t i = 0; i < r->n; i++)
        run_text_stepped(s, r->jobs[i], now);
    leave_step(s, r->others, r->n_others, 0, 0);
    leave_step(s, r->jobs, r->n, rows, seconds);
    for (size_t i = 0; i < r->n; i++)
        job_publish(r->jobs[i]);
    for (size_t i = 0; i < r->n; i++)
        if (tern_text_is_over(r->jobs[i]->text) || r->jobs[i]->no_memory)
            end(s, r->jobs[i]);
        else {
            reuse_stepped(s, r->jobs[i]);
            late_look(s, r->jobs[i]);
        }
    end_others(s, r->others, r->n_others);
}

/* tern_step refuses only what is wrong here: no job may wait for ever. */
static void refuse(struct scheduler *s, const struct share *r, const struct tern_error *e)
{
    for (size_t i = 0; i < r->n; i++) {
        tern_text_close(r->jobs[i]->text);
        r->jobs[i]->text = NULL;
        run_text_fail(r->jobs[i], 500, "%s", e->text);
        end(s, r->jobs[i]);
    }
    for (size_t i = 0; i < r->n_others; i++) {
        run_text_fail(r->others[i], 500, "%s", e->text);
        end(s, r->others[i]);
    }
}

static void take_readers(const struct scheduler *s, const struct batch *b, struct prompt_reader *of)
{
    for (size_t i = 0; i < b->n_readers; i++)
        of[i] = (struct prompt_reader){unread(s, b->readers[i]),
                                       tern_seq_length(s->ctx, b->readers[i]->seq)};
}

/* Of prompts, beside a row for each stream */
static uint32_t choose_rows(struct scheduler *s, const struct batch *b,
                            const struct prompt_readers *readers)
{
    uint32_t room = s->chunks.max - (uint32_t)b->n_streams;
    uint32_t max = readers->n ? chunks_choose(&s->chunks, b->n_streams, readers) : 0;
    return max < room ? max : room;
}

static void step(struct scheduler *s, const struct batch *b)
{
    struct share r;
    struct tern_error e = {0};
    struct prompt_reader of[MAX_PARALLEL];
    struct prompt_readers readers = {b->n_readers, of};
    take_readers(s, b, of);
    uint32_t max = choose_rows(s, b, &readers);
    share_rows(s, b, max, &r);
    enter_step(s, chunks_guess(&s->chunks, b->n_streams, max, &readers), max);
    size_t before = total_unread(s, &r);
    uint32_t prompt_rows = r.prompt_rows ? (uint32_t)r.prompt_rows : 1;
    double start = stopwatch_now();
    enum tern_status status = r.n ? tern_step(r.texts, r.n, prompt_rows, &e) : tern_forward(s->ctx);
    double seconds = stopwatch_now() - start;
    size_t rows = before - total_unread(s, &r);
    s->was_cancelled = status == TERN_CANCELLED;
    bool is_lost = model_files_changed(s);
    if (status || is_lost) {
        leave_step(s, NULL, 0, 0, seconds);
        if (!s->was_cancelled && !is_lost)
            refuse(s, &r, &e);
        return;
    }
    run_embedding_take(s, r.others, r.taken, r.n_others);
    chunks_learn(&s->chunks, b->n_streams, rows, &readers, seconds);
    after_step(s, &r, b->n_streams + rows, seconds);
}

/* ---- attention ---------------------------------------------------------------------------------- */

static void look(struct scheduler *s, const struct batch *b)
{
    enter_step(s, chunks_guess(&s->chunks, 0, b->n_looks, &(struct prompt_readers){0}), true);
    double start = stopwatch_now();
    s->was_cancelled = run_attention_look(s, b->looks, b->n_looks) == TERN_CANCELLED;
    leave_step(s, b->looks, b->n_looks, s->was_cancelled ? 0 : b->n_looks, stopwatch_now() - start);
    if (!model_files_changed(s))
        end_others(s, b->looks, b->n_looks);
}

/* ---- turns -------------------------------------------------------------------------------- */

bool batches_have_work(struct scheduler *s)
{
    if (s->n_running < s->n_parallel && waiting_next(s, may_start))
        return true;
    for (uint32_t i = 0; i < s->n_parallel; i++)
        if (s->running[i] && (may_end(s->running[i]) || !sits_out(s->running[i])))
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
    if (b.n_looks)
        look(s, &b);
}
