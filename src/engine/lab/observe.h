/* Who looks inside: an observer, who is shown what every step gives; an editor, who may change it;
 * or both. They hang on forward's watch, which passes through here in the order of the equations;
 * what a step keeps is shown as it lies, a norm is computed again from what it read. So nothing is
 * slower without them, and looking changes no bit of any result. What follows from a change is in
 * surgery.h. Operations, their order and shapes: tern_observe in tern_lab.h.
 * ADDING AN OPERATION: its line in watch() of observe.c, its row in tern_lab.h; where no step keeps
 * it, a copy like state.h's `gate`. */
#ifndef LAB_OBSERVE_H
#define LAB_OBSERVE_H

#include <stdbool.h>

#include "tern_lab.h"

#include "base/arena.h"
#include "model/state.h"

struct kept_row;

struct observer {
    struct forward *f;
    tern_observe_fn fn; /* NULL: nobody only looks */
    tern_edit_fn edit;  /* NULL: nobody changes anything */
    void *fn_arg, *edit_arg;
    bool *altered; /* set once something was changed; borrowed */
    struct tern_observation now;
    struct tern_row *at;     /* [n_batch] */
    struct tern_row *routed; /* [n_batch] rows of one expert */
    float *rows;             /* [n_batch, stride] what is computed to be shown */
    size_t stride;
    float *before; /* [n_batch, dim_stride] x before the step, if there is an editor */
    float *aside;  /* [n_batch, dim_stride] what attention adds to x where it waits */
    bool aside_changed;
    struct arena arena;    /* owns these, and f->gate and f->up */
    struct kept_row *kept; /* NULL: none is kept (kept_row.h) */
    struct arena kept_arena;
};

/* Memory to show later batches of f, of which there must be none yet. Nobody looks so far. */
enum tern_status observe_open(struct observer **out, struct forward *f, bool *altered,
                              struct tern_error *e);
void observe_close(struct observer *o); /* NULL is fine */

#endif
