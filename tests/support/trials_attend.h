/* Trials of attention. K and V of positions that are not visible, and padding, hold NaNs. */
#ifndef TESTS_TRIALS_ATTEND_H
#define TESTS_TRIALS_ATTEND_H

#include "trial.h"

void try_attend_f16(struct trial *t);
void try_attend_f32(struct trial *t);
void try_attend_q8(struct trial *t);
void try_attend_packed(struct trial *t);
void try_widen(struct trial *t);
void try_merge(struct trial *t);
void try_mix_heads(struct trial *t);

/* K or V of a block: only positions lo..hi-1 hold numbers. */
void *trials_take_cache(struct trial *t, enum tern_cache_type type, size_t dim, size_t lo,
                        size_t hi, bool is_k);

#endif
