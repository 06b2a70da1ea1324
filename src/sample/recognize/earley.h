/* Recognizes a context-free grammar byte by byte [Earley 1970], with the empty rules of Aycock and Horspool
 * [2002]. Any recursion works. An ambiguous grammar costs time and track. Looks at items are
 * counted in the budget; a byte that costs more than 2^17 of them is STEP_NO_ROOM. */
#ifndef RECOGNIZE_EARLEY_H
#define RECOGNIZE_EARLEY_H

#include "sample/recognize/grammar.h"
#include "sample/recognize/recognizer.h"

/* Takes over g and g's languages, also when it fails: false: no budget or no memory. */
bool earley_open(struct recognizer *out, const struct grammar *g);

#endif
