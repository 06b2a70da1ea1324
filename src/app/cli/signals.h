/* Signals of a program. SIGINT, SIGTERM and SIGHUP: the first stops the evaluation cleanly, the
 * second (or one at a time when nothing is evaluated) ends the program at once, with 130, 143 and
 * 129. A program that has not ended 0.6 s after the first is ended then. No unfinished file is left.
 * SIGQUIT: the same files are removed, and the program ends as it would without a handler.
 * SIGBUS: the weights file was cut while it was mapped; one sentence, exit code 4. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

#include "tern.h"

/* Installs the handlers. `model` is the path to be named. */
void signals_init(const char *program, const char *model);

/* From now on the first signal cancels `ctx`; NULL: every signal ends the program. */
void signals_watch(tern_context *ctx);

/* From now on the first signal is only noted, for a program that asks signals_caught. */
void signals_note(void);

/* From now on the first SIGINT stops the work, not the program: no time is set for it. */
void signals_interactive(void);

/* While on, the program may take its time after a signal: what it saves cannot be made again. */
void signals_hold(bool on);

/* A file to be removed when a signal ends the program; NULL: none. */
void signals_temporary(const char *path);

/* From now on a signal that ends the program calls f first, from its handler. */
void signals_at_end(void (*f)(void));

/* From now on the program outlives a weights file that is cut: what is gone reads as zeros, `ctx` is
 * cancelled, and signals_was_cut is true before the first wrong byte is read. NULL: SIGBUS ends the
 * program, as at first. */
void signals_outlive_cut(tern_context *ctx);
bool signals_was_cut(void);

/* The signal that asked to stop, or 0. */
int signals_caught(void);

/* It did stop: the next one is the first again. */
void signals_clear(void);

/* Waits until `fd` can be read; false: a signal asked to stop, then or before. */
bool signals_wait(int fd);

#endif
