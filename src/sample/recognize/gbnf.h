/* llama.cpp's grammar language: rules, literals, classes, groups, ? * + {m,n}, comments, <tokens>.
 * A grammar becomes a context-free grammar over regular terminals, without rules that no text ends
 * (grammar.h), and an Earley recognizer (earley.h): any recursion works, left, right or in the middle.
 *
 * A literal is its UTF-8 bytes, a class is one code point. <name> is the special token of that name,
 * spelled 0xFF "<name>". !<name>* and !<name>+ are text without special tokens. Refused are a <name> that
 * the vocabulary lacks, other uses of !<name>, tokens by number (<[5]>), a rule that is defined twice, and
 * a class without characters. */
#ifndef RECOGNIZE_GBNF_H
#define RECOGNIZE_GBNF_H

#include "sample/recognize/recognizer.h"

enum { GBNF_MOST = 1 << 18 }; /* bytes of a grammar's text */

/* Which special tokens there are */
struct gbnf_tokens {
    bool (*has)(const void *self, const char *name, size_t n); /* `name` with its < and > */
    const void *self;
};

/* `b` is borrowed until close. `tokens` NULL: there is every token. TERN_USAGE: the grammar is wrong, or no
 * text matches it (e names the line); TERN_LIMIT: it is too long or does not fit the budget;
 * TERN_NO_MEMORY. */
enum tern_status gbnf_open(struct recognizer *out, const char *text, size_t n,
                           const struct gbnf_tokens *tokens, struct budget *b,
                           struct tern_error *e);

#endif
