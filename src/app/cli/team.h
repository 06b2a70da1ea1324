/* Several machines, as programs see them (tern.h): rank 0 does the program's work, the others follow it
 * and print nothing. Without MPI there is rank 0 alone. */
#ifndef CLI_TEAM_H
#define CLI_TEAM_H

#include <stdbool.h>

#include "tern.h"

#ifdef TERN_MPI

/* Joins the others, first of all. */
enum tern_status team_start(struct tern_error *e);

/* True on a machine beside the first: it has followed with the model that was opened, as *s says. */
bool team_followed(tern_model *model, enum tern_status *s, struct tern_error *e);

/* This machine's exit code: the first one's counts. */
int team_exit(int code);

#else

static inline enum tern_status team_start(struct tern_error *e)
{
    (void)e;
    return TERN_OK;
}

static inline bool team_followed(tern_model *model, enum tern_status *s, struct tern_error *e)
{
    (void)model, (void)s, (void)e;
    return false;
}

static inline int team_exit(int code)
{
    return code;
}

#endif

#endif
