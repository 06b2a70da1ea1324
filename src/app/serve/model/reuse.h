/* What a job's sequence begins with: the longest beginning of its prompt that was evaluated before, in the
 * store of the context or in another sequence. Model thread. */
#ifndef SERVE_REUSE_H
#define SERVE_REUSE_H

#include "app/serve/model/model_thread.h"

/* Another job is reading what this prompt begins with, and waiting for it saves at least WORTH rows. Under
 * the lock. */
bool reuse_should_wait(struct scheduler *s, struct job *j);
/* The idle sequence that suits the job best. Under the lock. */
uint32_t reuse_choose(struct scheduler *s, const struct job *j);
/* Makes j->seq begin so; returns how many tokens it holds, less than the prompt. */
size_t reuse_begin(struct scheduler *s, struct job *j);
/* After a step, and when the job is over: keeps what is new. */
void reuse_stepped(struct scheduler *s, struct job *j);
void reuse_end(struct scheduler *s, struct job *j);

#endif
