/* The rows of serve's options, and their defaults. */
#ifndef SERVE_SERVE_ROWS_H
#define SERVE_SERVE_ROWS_H

#include "app/serve/serve_options.h"

extern const struct option_row serve_rows[N_SERVE_OPTIONS];
extern const int64_t serve_defaults[N_SERVE_OPTIONS];

#endif
