/* How a program ends: a sentence for the person, an exit code for the shell. */
#ifndef CLI_FINISH_H
#define CLI_FINISH_H

#include "tern.h"

/* The exit code of `program`, whose work ended with s; an error is written to standard error as one
 * line. 0 when the reader of standard output has gone away: it has read enough. */
int finish_program(const char *program, enum tern_status s, struct tern_error *e);

#endif
