/* Jobs that embed a text, in the model thread. Their batches hold rows of several of them, and of the jobs
 * of run_attention.h. */
#ifndef SERVE_RUN_EMBEDDING_H
#define SERVE_RUN_EMBEDDING_H

#include "app/serve/model/model_thread.h"

/* The job has j->seq, which is empty. False: it failed, and j->last says why. */
bool run_embedding_begin(struct scheduler *s, struct job *j);
/* One batch of at most max_rows rows of these jobs, in this order. Returns the number of rows; 0: it was
 * cancelled, and nothing changed. */
size_t run_embedding_step(struct scheduler *s, struct job *const *jobs, size_t n, size_t max_rows);
/* All its rows are evaluated, or it ends here: fills j->last. */
void run_embedding_end(struct scheduler *s, struct job *j);

#endif
