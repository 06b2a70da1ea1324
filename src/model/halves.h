/* Long batches on several machines: while one half of the rows waits for what other machines computed,
 * the other half is evaluated. The front half is always a step ahead: its keys are there when the rear
 * half reads them. Built with MPI=1 only. */
#ifndef MODEL_HALVES_H
#define MODEL_HALVES_H

#include "model/state.h"

#ifdef TERN_MPI

struct halves {
    struct forward *front, *rear; /* the rear half's state is owned */
    struct relay *relay;
};

/* Bytes of the rear half's state, 0 where there is none; opens it in f, and closes it */
uint64_t halves_bytes(const struct model *m, size_t n_ctx, size_t n_batch, int n_threads);
enum tern_status halves_open(struct forward *f, struct tern_error *e);
void halves_close(struct forward *f);

/* fn with each half of the rows, and then all of x in f; or false, and nothing is done */
bool halves_run(struct forward *f, void (*fn)(void *f));

/* A gather of a half */
void halves_gather(struct forward *f, void *all, const size_t *at);

#else

static inline bool halves_run(struct forward *f, void (*fn)(void *f))
{
    (void)f, (void)fn;
    return false;
}

#endif

#endif
