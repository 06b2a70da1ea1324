/* Lines that a person writes at a terminal: edited in place, with the lines of earlier times to go
 * back to. Without a terminal, or with TERM=dumb, lines are read as they come.
 *
 * The terminal is changed only while a line is read. It is restored at the end of the line, and by
 * every signal that ends the program. */
#ifndef CLI_LINE_EDITOR_H
#define CLI_LINE_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "app/cli/growing_text.h"

enum heard { HEARD_LINE, HEARD_INTERRUPT, HEARD_END };

struct line_editor {
    bool edits;                  /* standard input and error are a terminal that can move */
    bool ended;                  /* there is no more input */
    bool cut;                    /* a line was as long as a terminal allows: it may lack its end */
    const char *bold, *plain;    /* codes around a prompt, or ""; set by line_editor_open */
    const char *prompt;          /* of the line being edited, borrowed */
    struct growing_text input;   /* what was read and is not used yet */
    struct growing_text line;    /* the line being edited */
    struct growing_text newest;  /* that line, while an older one is shown */
    size_t at;                   /* bytes of the line before the cursor */
    size_t row, column;          /* of the cursor as it is shown; row 0 is the prompt's */
    size_t drawn;                /* bytes of the line that are shown, the cursor behind them ... */
    bool stale;                  /* ... or not: the line must be drawn anew */
    bool pastes;                 /* between the marks around what a terminal pastes */
    struct growing_text history; /* lines as in their file, oldest first */
    size_t shown; /* where the entry shown begins; history.n: the line being edited */
    char *path;   /* of the history's file, owned; NULL: none */
};

/* Reads the history: $XDG_STATE_HOME/tern/history, else ~/.local/state/tern/history. */
void line_editor_open(struct line_editor *e);
void line_editor_close(struct line_editor *e);

/* Prompts on standard error, and appends the next line to `text`, without its line feed. Text that
 * is pasted may hold line feeds. text->failed: the line did not fit into memory. HEARD_INTERRUPT: a
 * signal, which signals_caught names; Ctrl-C is SIGINT. */
enum heard line_editor_read(struct line_editor *e, const char *prompt, struct growing_text *text);

#endif
