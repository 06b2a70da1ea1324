/* Holds every step of a model to probes: what another program, which ran the original model, got
 * for the same tokens. The file (npz.h; tools/golden.py --probes writes it) has
 *
 *   tokens     int32 [n]        the text
 *   positions  int32 [rows]     ascending: the rows that were kept of each of the others,
 *   embed, layer.0.attn_norm, layer.0.q, ... logits   float32 [rows, columns], in the order of
 *                               the forward pass; names: tern_observe of tern_lab.h
 *
 * An operation holds where max |a - b| <= bound * max |b| in every row. */
#ifndef RUN_VERIFY_H
#define RUN_VERIFY_H

#include "app/run/run_options.h"

/* Prints each operation's worst error over the layers. TERN_LIMIT: names the first layer and
 * operation beyond the bound, or without what the probes have. */
enum tern_status verify_run(tern_model *model, const struct run_options *o, struct tern_error *e);

#endif
