/* A job of a text, in the model thread: from its prompt to its last event. */
#ifndef SERVE_RUN_TEXT_H
#define SERVE_RUN_TEXT_H

#include "app/serve/model/model_thread.h"

/* The job has j->seq, which holds the first j->n_cached tokens of its prompt. False: it failed, and
 * j->last says why. */
bool run_text_begin(struct scheduler *s, struct job *j);
/* After a step: what came of it is made ready to be published. now: stopwatch_now. */
void run_text_stepped(struct scheduler *s, struct job *j, double now);
/* The text is over, or is ended here: fills j->last. */
void run_text_end(struct scheduler *s, struct job *j);
/* j->last = JOB_FAILED with this fault. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void run_text_fail(struct job *j, int status, const char *format, ...);

#endif
