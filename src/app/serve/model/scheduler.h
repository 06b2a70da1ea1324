/* The thread that runs the model, as the frame of `serve` sees it. */
#ifndef SERVE_SCHEDULER_H
#define SERVE_SCHEDULER_H

#include "app/cli/growing_text.h"
#include "app/serve/server.h"

#include <jansson.h>

struct scheduler;

/* What clients are told when a model that was loaded can no longer be used */
#define SCHEDULER_LOST "the model's file changed, and the server is about to end"

/* Starts the thread. It opens the model that s->options name, fills s->model, s->info and s->plan,
 * sets s->loaded, and calls loaded(arg); when that fails, it calls loaded(arg), too. */
enum tern_status scheduler_open(struct scheduler **out, struct server *s, void (*loaded)(void *arg),
                                void *arg, struct tern_error *e);
/* Why loading failed, or why the model can no longer be used: all jobs then fail. Else TERN_OK. The text names
 * files: it is for the log. Clients get SCHEDULER_LOST. */
enum tern_status scheduler_status(struct scheduler *c, struct tern_error *e);
/* No new jobs are taken. now: those that run or wait are cancelled, too. Their readers are told at once, not at the
 * end of the step in work. */
void scheduler_stop(struct scheduler *c, bool now);
size_t scheduler_n_jobs(struct scheduler *c); /* that run or wait */
/* Ends the thread: it wakes nobody from now on, and all jobs are over. What was kept is saved. NULL is allowed,
 * also below. */
void scheduler_end(struct scheduler *c);
/* The same, and closes context and model. */
void scheduler_close(struct scheduler *c);

struct compiled_store *scheduler_compiled(struct scheduler *c); /* compiled.h */

/* For /slots: an array, without any text of a prompt. For /metrics: lines of Prometheus. */
json_t *scheduler_slots(struct scheduler *c);
void scheduler_metrics(struct scheduler *c, struct growing_text *t);

#endif
