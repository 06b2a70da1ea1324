/* Trials of the kernels that work on a row. */
#ifndef TESTS_TRIALS_ROWS_H
#define TESTS_TRIALS_ROWS_H

#include "trial.h"

void try_quantize(struct trial *t);
void try_rmsnorm(struct trial *t);
void try_add(struct trial *t);
void try_swiglu(struct trial *t);
void try_layernorm(struct trial *t);
void try_activate(struct trial *t);
void try_in_place(struct trial *t);
void try_rope_angles(struct trial *t);
void try_rope(struct trial *t);
void try_to_f16(struct trial *t);
void try_in_range(struct trial *t);
void try_divide(struct trial *t);
void try_log_sum_exp(struct trial *t);

#endif
