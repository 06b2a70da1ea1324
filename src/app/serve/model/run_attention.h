/* Jobs that ask what the last token of a prompt attends to, in the model thread. Their rows are evaluated in
 * the batches of run_embedding.h. Only the batch with the last one is observed, and observing changes no
 * bit of it. */
#ifndef SERVE_RUN_ATTENTION_H
#define SERVE_RUN_ATTENTION_H

#include "app/serve/model/model_thread.h"

/* The job has j->seq, which holds a beginning of its prompt. False: it failed, and j->last says why. */
bool run_attention_begin(struct scheduler *s, struct job *j);
/* Before and after a batch with taken[i] rows of jobs[i]. */
void run_attention_watch(struct scheduler *s, struct job *const *jobs, const size_t *taken,
                         size_t n);
void run_attention_unwatch(struct scheduler *s);
/* All its rows are evaluated, or it ends here: fills j->last. */
void run_attention_end(struct scheduler *s, struct job *j);

#endif
