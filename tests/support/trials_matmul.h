/* Trials of matmul and get_row. */
#ifndef TESTS_TRIALS_MATMUL_H
#define TESTS_TRIALS_MATMUL_H

#include "trial.h"

#define DECLARE_MATMUL(id, name, ...) void try_matmul_##name(struct trial *t);
FORMATS(DECLARE_MATMUL)
void try_get_row(struct trial *t);

#endif
