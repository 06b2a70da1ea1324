/* Jobs that embed a text, in the model thread. Their rows share the batches of texts, and so do those of
 * the jobs of run_attention.h, without the last one. */
#ifndef SERVE_RUN_EMBEDDING_H
#define SERVE_RUN_EMBEDDING_H

#include "app/serve/model/model_thread.h"

/* The job has j->seq, which is empty. False: it failed, and j->last says why. */
bool run_embedding_begin(struct scheduler *s, struct job *j);
/* Adds at most max rows of a job to the batch, and none of a token that is looked at; returns how many. */
size_t run_embedding_add(struct scheduler *s, struct job *j, size_t max);
/* The batch was evaluated, with taken[i] rows of jobs[i], added in this order. */
void run_embedding_take(struct scheduler *s, struct job *const *jobs, const size_t *taken,
                        size_t n);
/* All its rows are evaluated, or it ends here: fills j->last. */
void run_embedding_end(struct scheduler *s, struct job *j);

#endif
