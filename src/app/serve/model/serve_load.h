/* What the model thread opens before it can take jobs: models, contexts, the files of --cache-dir. All of
 * it happens before the sandbox. */
#ifndef SERVE_SERVE_LOAD_H
#define SERVE_SERVE_LOAD_H

#include "app/serve/model/model_thread.h"

/* Fills the server's model, info and plan, too. A plan that does not fit is refused with its numbers. */
enum tern_status load_all(struct scheduler *s, struct tern_error *e);
void load_close(struct scheduler *s); /* of what was opened */

#ifdef TERN_MPI
/* On a machine beside the first, until that ends: no port, no scheduler */
enum tern_status load_follow(const struct serve_options *o, struct tern_error *e);
#else
#define load_follow(o, e) TERN_OK
#endif

#endif
