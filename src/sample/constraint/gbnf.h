/* llama.cpp's grammar language: rules, literals, classes, groups, ? * + {m,n}, comments, <tokens>.
 * A grammar becomes a context-free grammar over regular terminals, without rules that no text ends, and
 * an Earley recognizer [Earley 1970; Leo 1991]: any recursion works, left, right or in the middle.
 *
 * A literal is its UTF-8 bytes, a class is one code point. <name> is the special token of that name,
 * spelled 0xFF "<name>". */
#ifndef CONSTRAINT_GBNF_H
#define CONSTRAINT_GBNF_H

#include "sample/constraint/recognizer.h"

/* `b` is borrowed until close. out->close frees everything. TERN_INVALID: the grammar is wrong (its line
 * in e); TERN_LIMIT: it does not fit the budget. */
enum tern_status gbnf_open(struct recognizer *out, const char *text, size_t n, struct budget *b,
                           struct tern_error *e);

#endif
