/* Several machines, as programs see them (tern.h): rank 0 does the program's work, the others follow it
 * and print nothing. Without MPI there is rank 0 alone. */
#ifndef CLI_TEAM_H
#define CLI_TEAM_H

#include <stdbool.h>
#include <stddef.h>

#include "tern.h"

/* Clearly: seconds a token take a tenth more than others, for measurements differ, and more than a reader
 * sees. */
static inline bool team_is_slower(double a, double b)
{
    return a > 1.1 * b && a - b > 1e-4;
}

#ifdef TERN_MPI

/* Joins the others, first of all. When a machine is lost, `program` says so and ends. */
enum tern_status team_start(const char *program, struct tern_error *e);

/* True on a machine beside the first: it has followed with the model that was opened, as *s says. */
bool team_followed(tern_model *model, enum tern_status *s, struct tern_error *e);

/* What machine number i has of the model, and what the context planned last takes there, as a line; false
 * where there are no more. */
bool team_line(const tern_model *model, uint32_t i, char *line, size_t size);

/* Says so on standard error if mapped weights do not fit beside the context planned last. */
void team_warn(const tern_model *model);

/* Says so on standard error if the first machine alone should be clearly faster, in one process, and has the
 * memory. */
void team_advise(tern_model *model);

/* team_start of a program for one machine alone: TERN_USAGE when there are more */
enum tern_status team_refuse(const char *program, struct tern_error *e);

/* This is a machine beside the first; there is one alone. */
bool team_follows(void);
bool team_is_alone(void);

/* This machine's exit code: the first one's counts. */
int team_exit(int code);

#else

static inline void team_advise(tern_model *model)
{
    (void)model;
}

static inline void team_warn(const tern_model *model)
{
    (void)model;
}

static inline enum tern_status team_refuse(const char *program, struct tern_error *e)
{
    (void)program, (void)e;
    return TERN_OK;
}

static inline bool team_follows(void)
{
    return false;
}

static inline bool team_is_alone(void)
{
    return true;
}

static inline enum tern_status team_start(const char *program, struct tern_error *e)
{
    (void)program, (void)e;
    return TERN_OK;
}

static inline bool team_followed(tern_model *model, enum tern_status *s, struct tern_error *e)
{
    (void)model, (void)s, (void)e;
    return false;
}

static inline bool team_line(const tern_model *model, uint32_t i, char *line, size_t size)
{
    (void)model, (void)i, (void)line, (void)size;
    return false;
}

static inline int team_exit(int code)
{
    return code;
}

#endif

#endif
