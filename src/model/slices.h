/* Which bytes of a weights file this machine needs, of a model that several evaluate: of every tensor that
 * split.h cuts the tiles of its rows, and all of the others. In: a model that is split; out: the slices
 * that the weights keep (weights.h), so that only those are read, copied, locked and counted. */
#ifndef MODEL_SLICES_H
#define MODEL_SLICES_H

#ifdef TERN_MPI

#include "model/model.h"

/* Finds them, and hands them to m->weights. TERN_NO_MEMORY; TERN_BAD_FILE where the file is a part that
 * does not hold them. */
enum tern_status slices_find(struct model *m, struct tern_error *e);

#endif

#endif
