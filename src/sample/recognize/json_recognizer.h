/* The recognizer of JSON values and of scripts around them. A stack of levels is the nesting of the
 * text, the same for all alternatives, because the bytes are the same. A level holds the alternatives
 * that are still alive: a shape, how far it is, and which node of the level around it is for. So any
 * number of alternatives is read in one pass (determinization of a visibly pushdown automaton [Alur,
 * Madhusudan 2004]), and every alternative is dropped as soon as it cannot be finished: what is
 * accepted byte by byte can always be finished.
 *
 * Texts: no blank but those of one style. A container is on one line, or, if the one around it is, one
 * item a line, with the same unit of 1 to 8 spaces or a tab for each level. Behind ':' and, on one line,
 * ',' comes one space or none. The first choice of each holds to the end. {} and [] stand so.
 *
 * Members that a schema names come in its order, the others behind them in any order. No key comes
 * twice. Within arrays of unique items numbers have no exponent, no zero at the end of a fraction and no
 * minus before 0; items and keys are remembered by 64-bit hashes, so that no repeat passes. A repeat is
 * refused as soon as only repeats can follow; to know that, at most JSON_SEARCH bytes are tried.
 *
 * Limits: JSON_ALTERNATIVES in one level; the track's limit on what is open or must be remembered. */
#ifndef RECOGNIZE_JSON_RECOGNIZER_H
#define RECOGNIZE_JSON_RECOGNIZER_H

#include "sample/recognize/recognizer.h"
#include "sample/recognize/script.h"

enum { JSON_ALTERNATIVES = 4096, JSON_SEARCH = 1 << 16 };

enum {
    JSON_COMPACT = 1,   /* no blanks */
    JSON_ANY_ORDER = 2, /* of members */
};

/* Takes over `shapes` and `script`, also when it fails; `script` NULL: the value of shapes->root is the
 * whole text. `b` is borrowed until close. */
enum tern_status json_recognizer_open(struct recognizer *out, struct shapes *shapes,
                                      struct script *script, unsigned flags, struct budget *b,
                                      struct tern_error *e);

#endif
