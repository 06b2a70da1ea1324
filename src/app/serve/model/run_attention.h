/* Jobs that ask what the last token of a prompt attends to, in the model thread. Their rows are evaluated by
 * run_embedding.h, but for the last ones. Only their batch is observed, and observing changes no bit of it. */
#ifndef SERVE_RUN_ATTENTION_H
#define SERVE_RUN_ATTENTION_H

#include "app/serve/model/model_thread.h"

/* The job has j->seq, which holds a beginning of its prompt. False: it failed, and j->last says why. */
bool run_attention_begin(struct scheduler *s, struct job *j);
/* Evaluates the last row of each of these jobs, in a batch of their own. TERN_CANCELLED: nothing changed. */
enum tern_status run_attention_look(struct scheduler *s, struct job *const *jobs, size_t n);
/* All its rows are evaluated, or it ends here: fills j->last. */
void run_attention_end(struct scheduler *s, struct job *j);

#endif
