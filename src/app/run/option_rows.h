/* What each option of `run` is: the table from which parsing, ranges and --help follow. */
#ifndef RUN_OPTION_ROWS_H
#define RUN_OPTION_ROWS_H

#include "app/run/run_options.h"

extern const struct option_row option_rows[N_RUN_OPTIONS];

#endif
