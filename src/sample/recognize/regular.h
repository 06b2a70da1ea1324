/* The recognizer of one regular language: --regex and --choice. A place is a state of its automaton; nothing is
 * recorded. */
#ifndef RECOGNIZE_REGULAR_H
#define RECOGNIZE_REGULAR_H

#include "sample/recognize/recognizer.h"

/* Takes over `ls`, also when it fails. TERN_USAGE: no text is in the language; TERN_LIMIT: the budget cannot
 * decide that each of its states leads to a text. `what` names the text in errors. */
enum tern_status regular_open(struct recognizer *out, struct languages *ls, lang a,
                              const char *what, struct tern_error *e);

#endif
