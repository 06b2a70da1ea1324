/* A script is what stands around and between JSON values: a small automaton whose edges are languages
 * and holes for values. A regular expression is a script of one edge, a schema one of one hole, a
 * tool call is text, a hole, text.
 *
 * Where a byte begins a value and also goes on in a language, the value is taken. A special token is
 * spelled 0xFF and its name; LANG_CHARS holds no such byte. */
#ifndef RECOGNIZE_SCRIPT_H
#define RECOGNIZE_SCRIPT_H

#include "sample/schema/shape.h"

enum {
    SCRIPT_JSON,
    SCRIPT_PYTHON, /* True, False, None; no \/ and no escaped pairs */
    SCRIPT_GEMMA /* no blanks, keys without quotes, and a special token around texts, without escapes */
};
#define SCRIPT_GEMMA_QUOTE "\xFF<|\"|>"
/* The keys that can be written so. Those of a hole in this style are among them. */
lang script_gemma_keys(struct languages *ls);

struct script_edge {
    uint32_t from, to;
    lang words;     /* a text of it leads on; LANG_NONE: a hole */
    uint32_t node;  /* of the hole's value */
    unsigned style; /* SCRIPT_JSON ... */
};

/* State 0 is the start; zeroed is a script of one state that accepts nothing. */
struct script {
    struct script_edge *edges; /* [n_edges] of [capacity]; owned */
    uint32_t n_edges, capacity, n_states;
    uint32_t *
        accepting; /* [n_accepting] of [accepting_capacity]; owned: texts may end in these states */
    uint32_t n_accepting, accepting_capacity;
    struct budget *budget; /* borrowed; what failed is seen at its end, as `failed` */
    bool failed;
};

void script_open(struct script *s, struct budget *budget); /* with state 0 */
void script_close(struct script *s);

uint32_t script_state(struct script *s); /* a new one */
void script_accept(struct script *s, uint32_t state);
/* LANG_FAIL makes the script fail. */
void script_words(struct script *s, uint32_t from, uint32_t to, lang words);
void script_hole(struct script *s, uint32_t from, uint32_t to, uint32_t node, unsigned style);

/* From `from`, text of `free` until the bytes trigger[0..n) have come: then `to`. Before them the text
 * may end, if `may_end`. */
void script_until(struct script *s, struct languages *ls, uint32_t from, uint32_t to, lang free,
                  const char *trigger, size_t n, bool may_end);

/* One text of "yes|no": \| and \\ stand for | and \. */
lang script_choice(struct languages *ls, const char *text, size_t n);

#endif
