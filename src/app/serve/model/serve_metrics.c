/* The numbers of the scheduler, for /metrics and /slots: see scheduler.h. Neither shows a text. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "app/cli/stopwatch.h"
#include "app/serve/model/compiled.h"
#include "app/serve/model/model_thread.h"
#include "app/serve/serve_options.h"

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
add(struct growing_text *t, const char *format, ...)
{
    char line[256];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (n > 0)
        growing_text_add(t, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static void metric(struct growing_text *t, const char *name, const char *type, const char *help,
                   double value)
{
    add(t, "# HELP tern_%s %s\n# TYPE tern_%s %s\n", name, help, name, type);
    add(t, "tern_%s %.10g\n", name, value);
}

static void counter(struct growing_text *t, const char *name, const char *help, double value)
{
    metric(t, name, "counter", help, value);
}

static void gauge(struct growing_text *t, const char *name, const char *help, double value)
{
    metric(t, name, "gauge", help, value);
}

static void add_gaps(struct growing_text *t, const struct serve_numbers *n)
{
    enum { N = sizeof n->gaps / sizeof *n->gaps };
    uint64_t sum = 0;
    add(t, "# HELP tern_token_gap_seconds Time between two tokens of a text.\n"
           "# TYPE tern_token_gap_seconds histogram\n");
    for (int i = 0; i < N - 1; i++)
        add(t, "tern_token_gap_seconds_bucket{le=\"%.10g\"} %llu\n", ldexp(0.001, i),
            (unsigned long long)(sum += n->gaps[i]));
    add(t, "tern_token_gap_seconds_bucket{le=\"+Inf\"} %llu\n", (unsigned long long)n->n_gaps);
    add(t, "tern_token_gap_seconds_sum %.10g\ntern_token_gap_seconds_count %llu\n", n->gap_seconds,
        (unsigned long long)n->n_gaps);
}

static double rate(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

static void add_numbers(struct growing_text *t, const struct serve_numbers *n)
{
    counter(t, "prompt_tokens_total", "Tokens of prompts that were evaluated.",
            (double)n->n_prompt);
    counter(t, "prompt_tokens_cached_total", "Tokens of prompts that were found evaluated.",
            (double)n->n_cached);
    counter(t, "prompt_seconds_total", "Time from the begin of a job to its first token.",
            n->prompt_seconds);
    counter(t, "tokens_predicted_total", "Tokens that were chosen.", (double)n->n_generated);
    counter(t, "tokens_predicted_seconds_total", "Time from the first token of a job to its end.",
            n->generate_seconds);
    gauge(t, "prompt_tokens_seconds", "Tokens of prompts a second, over all jobs.",
          rate(n->n_prompt, n->prompt_seconds));
    gauge(t, "predicted_tokens_seconds", "Tokens chosen a second, over all jobs.",
          rate(n->n_generated, n->generate_seconds));
    counter(t, "tokens_drafted_total", "Guesses that were evaluated.", (double)n->n_drafted);
    counter(t, "tokens_accepted_total", "Guesses that were right.", (double)n->n_accepted);
    counter(t, "requests_total", "Jobs that were taken.", (double)n->n_jobs);
    counter(t, "requests_done_total", "Jobs that came to their end.", (double)n->n_done);
    counter(t, "requests_failed_total", "Jobs that failed.", (double)n->n_failed);
    counter(t, "requests_cancelled_total", "Jobs whose client left.", (double)n->n_cancelled);
    counter(t, "requests_refused_total", "Jobs that found the queue full.", (double)n->n_refused);
    counter(t, "n_decode_total", "Batches that were evaluated.", (double)n->n_steps);
    counter(t, "decode_rows_total", "Rows of these batches.", (double)n->n_rows);
    counter(t, "decode_seconds_total", "Time that these batches took.", n->step_seconds);
    gauge(t, "prefix_bytes", "Memory of kept beginnings.", (double)n->prefix.bytes);
    gauge(t, "prefix_max_bytes", "The most that they may take.", (double)n->prefix.max_bytes);
    gauge(t, "prefix_tokens", "Tokens of kept beginnings.", (double)n->prefix.n_tokens);
    counter(t, "prefix_hits_total", "Prompts whose beginning was kept.", (double)n->prefix.hits);
    counter(t, "prefix_misses_total", "Prompts whose beginning was not.", (double)n->prefix.misses);
    counter(t, "prefix_evicted_total", "Pages of beginnings that left for others.",
            (double)n->prefix.evicted);
    add_gaps(t, n);
}

static void add_constraints(struct growing_text *t, const struct scheduler *s)
{
    size_t most, now = tern_constraint_bytes(s->server->model, &most);
    gauge(t, "constraint_bytes", "Memory of constraints and of the texts in them.", (double)now);
    gauge(t, "constraint_most_bytes", "The most that it ever was.", (double)most);
    gauge(t, "constraint_max_bytes", "The most that it may be.",
          (double)serve_number(s->server->options, SERVE_MAX_CONSTRAINTS));
    counter(t, "constraints_compiled_total", "Compilations of constraints that were begun.",
            (double)compiled_count(s->compiled));
}

void scheduler_metrics(struct scheduler *s, struct growing_text *t)
{
    pthread_mutex_lock(&s->lock);
    struct serve_numbers n = s->numbers;
    size_t running = s->n_running, waiting = s->n_waiting;
    pthread_mutex_unlock(&s->lock);
    gauge(t, "requests_processing", "Jobs that run.", (double)running);
    gauge(t, "requests_deferred", "Jobs that wait for a sequence.", (double)waiting);
    gauge(t, "requests_processing_max", "Jobs that can run at once.", (double)s->n_parallel);
    gauge(t, "requests_deferred_max", "Jobs that can wait.", (double)s->max_waiting);
    add_numbers(t, &n);
    if (s->server->loaded)
        add_constraints(t, s);
}

/* ---- slots -------------------------------------------------------------------------------- */

static json_t *slot(const struct scheduler *s, uint32_t i, double now)
{
    static const char *const kinds[] = {"text", "embedding", "embedding", "attention"};
    const struct job *j = s->running[i];
    json_t *o = json_pack("{s:i, s:I, s:b}", "id", (int)i, "n_ctx", (json_int_t)s->n_ctx,
                          "is_processing", j != NULL);
    if (!j || !o)
        return o;
    json_t *more =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f}", "kind", kinds[j->request.kind],
                  "state", j->n_read < j->request.n_prompt ? "reading" : "answering", "n_prompt",
                  (json_int_t)j->request.n_prompt, "n_cached", (json_int_t)j->n_cached, "n_read",
                  (json_int_t)j->n_read, "n_generated", (json_int_t)j->n_generated, "n_predict",
                  (json_int_t)j->request.n_predict, "seconds", now - j->submitted);
    json_object_update(o, more);
    json_decref(more);
    return o;
}

json_t *scheduler_slots(struct scheduler *s)
{
    json_t *slots = json_array();
    double now = stopwatch_now();
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_parallel; i++)
        json_array_append_new(slots, slot(s, i, now));
    pthread_mutex_unlock(&s->lock);
    return slots;
}
