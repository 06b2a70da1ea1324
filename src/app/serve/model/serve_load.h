/* What the model thread opens before it can take jobs: models, contexts, the files of --cache-dir. All of
 * it happens before the sandbox. */
#ifndef SERVE_SERVE_LOAD_H
#define SERVE_SERVE_LOAD_H

#include "app/serve/model/model_thread.h"

/* Fills the server's model, info and plan, too. A plan that does not fit is refused with its numbers. */
enum tern_status load_all(struct scheduler *s, struct tern_error *e);
void load_close(struct scheduler *s); /* of what was opened */

#endif
