/* Context-free grammars. A grammar is written as rules of parts; it becomes productions whose terminals are
 * languages: every part without recursion is one language, and so is a repeat of it. Only what the root
 * reaches and what has an end is left. */
#ifndef RECOGNIZE_GRAMMAR_H
#define RECOGNIZE_GRAMMAR_H

#include "sample/language/language.h"

/* ---- as written ---- */

enum part_kind { PART_WORD, PART_CALL, PART_JOIN, PART_PICK, PART_LOOP };

/* Parts have the numbers of an array; 0 is none. A part stands behind those that it consists of, and is
 * used in one place. */
struct grammar_part {
    uint8_t kind;
    bool regular;   /* word is its language; set by grammar_open */
    uint16_t depth; /* of the expression */
    uint32_t next;  /* the next part of the same whole */
    uint32_t first; /* CALL: the rule; JOIN, PICK: the first part; LOOP: the part */
    lang word;      /* WORD: its language */
    uint32_t min, max;
    uint32_t nonterminal; /* 1 + its number, 0: none yet */
};

struct grammar_rule {
    const char *name; /* borrowed from the text */
    uint32_t n, line; /* bytes of the name; where it is defined, or first named */
    uint32_t root;    /* part; 0: not defined */
    uint32_t begin, end, begin_2, end_2; /* its parts */
    uint32_t hash;                       /* of the name */
    uint32_t cursor;                     /* grammar_open's own: the part that is looked at next */
    bool calls_itself;
};

struct grammar_rules {
    struct budget *budget;
    struct languages *languages;
    struct grammar_part *parts;
    struct grammar_rule *rules;
    uint32_t n_parts, max_parts, n_rules, max_rules;
};

/* Appends a part; 0: no budget or no memory. */
uint32_t rules_add(struct grammar_rules *r, enum part_kind kind, uint32_t first, lang word);
void rules_close(struct grammar_rules *r); /* not the languages */

/* ---- as productions ---- */

enum symbol_kind { SYMBOL_WORD, SYMBOL_CALL, SYMBOL_LOOP, SYMBOL_END };
static inline enum symbol_kind symbol_kind(uint32_t symbol)
{
    return (enum symbol_kind)(symbol >> 30);
}
static inline uint32_t symbol_value(uint32_t symbol) /* lang, nonterminal, loop, nonterminal */
{
    return symbol & 0x3FFFFFFF;
}

struct nonterminal {
    uint32_t first, n; /* of starts */
    uint32_t part;
    bool nullable, productive;
};

/* min to max times a nonterminal; a nullable one has min 0, its empty text does not count. */
struct grammar_loop {
    uint32_t nonterminal, min, max;
};

struct grammar {
    struct languages *languages;
    uint32_t *symbols;                /* productions, each ended by SYMBOL_END of its nonterminal */
    uint32_t *starts;                 /* where each begins */
    struct nonterminal *nonterminals; /* 0 is the root's */
    struct grammar_loop *loops;
    uint32_t n_symbols, n_starts, n_nonterminals, n_loops;
    uint32_t max_symbols, max_starts, max_nonterminals, max_loops;
    struct budget *budget;
};

/* All rules are defined; `root` is a rule. Changes r's parts. False: no budget or no memory; g may be
 * closed. *empty: no text matches. */
bool grammar_open(struct grammar *g, struct grammar_rules *r, uint32_t root, bool *empty);
void grammar_close(struct grammar *g); /* not the languages */

#endif
