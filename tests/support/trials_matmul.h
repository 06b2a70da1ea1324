/* Trials of matmul and get_row. */
#ifndef TESTS_TRIALS_MATMUL_H
#define TESTS_TRIALS_MATMUL_H

#include "trial.h"

void try_matmul_f32(struct trial *t);
void try_matmul_f16(struct trial *t);
void try_matmul_bf16(struct trial *t);
void try_matmul_q8(struct trial *t);
void try_matmul_q4(struct trial *t);
void try_matmul_q4c(struct trial *t);
void try_get_row(struct trial *t);

#endif
