/* The end of a program: see finish.h. */
#include "app/cli/finish.h"

#include "app/cli/out.h"
#include "app/cli/signals.h"
#include "app/cli/team.h"
#include "app/cli/visible.h"

#include <stdio.h>

int finish_program(const char *program, enum tern_status s, struct tern_error *e)
{
    bool stopped = !s || s == TERN_CANCELLED;
    if (stopped && signals_caught())
        return team_exit(128 + signals_caught());
    if (stopped && out_closed())
        return TERN_OK;
    if (stopped)
        s = out_status(e);
    char line[4 * sizeof e->text]; /* one line, whatever names and values it quotes */
    visible_line(line, sizeof line, e->text);
    if (s)
        fprintf(stderr, "%s: %s\n", program, line);
    return team_exit((int)s);
}
