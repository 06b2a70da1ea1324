/* Constraints that requests share. They are compiled once and found again by text and flags; of those that nobody
 * uses, the least recently used leave first. Each may take as much memory and as many steps as the store was opened
 * with, whatever a request says, and all together what the model was opened with (tern_model_params). Threads of the
 * lanes find them; any thread may do the rest. */
#ifndef SERVE_COMPILED_H
#define SERVE_COMPILED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/serve/http/fault.h"
#include "tern.h"

struct server;
struct compiled;

/* A share of the constraint of these parameters, compiled now if no request had it lately. NULL: *f is a
 * 400, whose message names keyword and place, or what it takes and may take; a 503, because those in use leave no
 * memory; or fault_later. p is copied; its max_bytes and max_steps do not count. */
struct compiled *compiled_find(struct server *s, const struct tern_constraint_params *p,
                               struct fault *f);
const tern_constraint *compiled_get(const struct compiled *c);
const struct tern_constraint_params *compiled_params(const struct compiled *c); /* for receipts */
void compiled_release(struct compiled *c);                                      /* NULL is fine */

/* ---- for the scheduler */
/* Whether this thread compiles a constraint in the short lane, and has for some milliseconds, so that the long one
 * shall do it: tern.h's `stop` asks. */
bool compiled_takes_long(void);
struct compiled_store;
struct compiled_store *compiled_store_open(const tern_model *model, size_t max_bytes,
                                           uint64_t max_steps); /* NULL: no memory */
void compiled_store_close(
    struct compiled_store *s); /* before the model; when all shares are released */
/* Closes the least recently used one that nobody uses. False: there is none. For make_room of tern_model_params. */
bool compiled_make_room(struct compiled_store *s);
uint64_t compiled_count(struct compiled_store *s); /* compilations that were begun */

#endif
