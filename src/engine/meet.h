/* Several machines that open one model: they meet, compare what each of them opened, and agree on shares.
 * In: what became of it here; out: the first failure on any of them, with its host's name. Without MPI it
 * is what became of it here. */
#ifndef ENGINE_MEET_H
#define ENGINE_MEET_H

#include "engine/model_handle.h"

#ifdef TERN_MPI

/* Meets the other machines when the model was opened here, or not; it is split if all could. Only the first
 * model of a process is; another one is rank 0's alone. `share` may be NULL. */
enum tern_status meet_open(struct tern_model *m, enum tern_status status, const char *share,
                           struct tern_error *e);

/* When it is known what each needs of the model, of which it is about to copy so many bytes (or 0): whether
 * every host has room for the copies of all its processes */
enum tern_status meet_copies(const struct tern_model *m, enum tern_status status, uint64_t bytes,
                             struct tern_error *e);

/* Meets them again, when what each needs of the model was copied and locked, where that was wanted */
enum tern_status meet_loaded(struct tern_model *m, enum tern_status status, struct tern_error *e);

/* What became of something that all machines of the model do at the same time */
enum tern_status meet_agree(const struct tern_model *m, enum tern_status status,
                            struct tern_error *e);

/* The model is closed: the others end, too. NULL: the one that is open */
void meet_end(const struct tern_model *m);

/* What only one machine can do yet: TERN_USAGE on several */
enum tern_status meet_alone(const struct tern_model *m, const char *what, struct tern_error *e);

/* What --share says of n machines; none: the same for all */
struct split;
enum tern_status meet_shares(struct split *s, size_t n, const char *text, struct tern_error *e);

#else

#define meet_open(m, status, share, e) (status)
#define meet_copies(m, status, bytes, e) (status)
#define meet_loaded(m, status, e) (status)
#define meet_agree(m, status, e) (status)
#define meet_end(m) ((void)0)
#define meet_alone(m, what, e) TERN_OK

#endif

#endif
