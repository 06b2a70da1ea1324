/* What the files of languages share. An expression is a node; a node never changes, except for what is
 * remembered about it. Nodes and lists are known by their numbers, because arrays move.
 *
 * Lengths are counted in characters: every byte but 0x80 ... 0xBF counts one. UTF-8 states say where
 * inside a character one is: 0 between two, 1 to 3 when so many bytes of 0x80 ... 0xBF follow, 4 to 7
 * behind E0, ED, F0 and F4, whose second byte is bounded. */
#ifndef LANGUAGE_LANGUAGE_PARTS_H
#define LANGUAGE_LANGUAGE_PARTS_H

#include "sample/language/language.h"

enum lang_kind {
    KIND_NONE,
    KIND_BLANK,
    KIND_SET,    /* one byte of parts[a .. a + 8), as 256 bits */
    KIND_CONCAT, /* a, which is no CONCAT, then b */
    KIND_REPEAT, /* a, min to max times */
    KIND_OR,     /* parts[a .. a + b), ascending; none is an OR */
    KIND_AND,    /* the same; none is an AND, at most one is a NOT */
    KIND_NOT,    /* not a */
    KIND_LEAF,   /* state a of the leaves' owner */
};

enum {
    LANG_NULLABLE = 1, /* the empty text is in it */
    LANG_PLAIN =
        2, /* no and, no not, no leaf of unknown lengths: lengths are exact, not only bounds */
    LANG_CLOSED =
        4,         /* it has a text, and so has everything that can be left of it, or it is NONE */
    LANG_OPEN = 8, /* everything that can be left of it is infinite, or NONE */
    LANG_FINITE = 16,   /* plain, and finitely many texts */
    LANG_LIVE = 32,     /* found out: it has a text, */
    LANG_DEAD = 64,     /* it has none */
    LANG_DECIDED = 128, /* found out: all that can be left of it is known to be live or dead */
    LANG_ENDLESS = 256, /* a text of it with any characters behind it is in it, too */
    /* It has a text w such that x w y is in it for all characters x and y; where its texts begin inside
     * a character, behind every rest of that. Languages of which this is true have texts in common. */
    LANG_ANYWHERE = 512,
};

enum { UTF8_STATES = 8, UTF8_MIXED = 15 };

struct lang_node {
    uint8_t kind;
    uint16_t flags, map; /* map: its classes of bytes, when there is a row */
    uint32_t a, b, min, max;
    uint32_t ways; /* 4 bits for each UTF-8 state: the one in which its texts end that begin there;
                      UTF8_MIXED: no texts are known to end in one */
    uint32_t shortest, longest; /* characters; bounds */
    uint32_t worst;             /* plain: the shortest rest is never longer, whatever was read */
    uint32_t gap;               /* plain: lengths of rests never lie further apart */
    uint32_t big;               /* the largest finite bound of a repeat */
    uint32_t next;              /* of the same hash */
    uint32_t row;               /* targets[row + class]; 0: none yet */
    uint32_t memo_time, memo, cut_time, seen, place, near;
};

/* Bytes that no state of its kind tells apart. */
struct lang_map {
    uint32_t cuts[8]; /* bit b: byte b does not go with byte b - 1 */
    uint8_t class_of[256];
    uint32_t n, next;
};

struct lang_list { /* of numbers; memory of the budget */
    uint32_t *p, n, capacity;
};

struct languages {
    struct budget *budget;
    struct lang_node *nodes;
    struct lang_map *maps;
    uint32_t n_nodes, node_capacity, n_maps, map_capacity;
    uint32_t *table, table_size; /* nodes by hash; 0 ends a chain */
    uint32_t map_table[256];     /* maps by hash, + 1 */
    struct lang_list parts, targets, work, stack;
    uint32_t time, cut_time, seen_time, near_bytes;
    lang character;         /* any one */
    lang tail[UTF8_STATES]; /* the rest of one */
    lang byte[UTF8_STATES]; /* its next byte */
    const struct leaf_calls *leaves;
    void *leaf_owner;
};

static inline const struct lang_node *node_of(const struct languages *ls, lang a)
{
    return &ls->nodes[a];
}
static inline bool has_flag(const struct languages *ls, lang a, unsigned flag)
{
    return ls->nodes[a].flags & flag;
}
static inline unsigned way_of(uint32_t ways, unsigned from)
{
    return ways >> 4 * from & 15;
}
static inline uint32_t add_sizes(uint32_t a, uint32_t b) /* LANG_MANY stays so */
{
    return a > LANG_MANY - b ? LANG_MANY : a + b;
}
static inline uint32_t multiply_sizes(uint32_t a, uint32_t b)
{
    uint64_t c = (uint64_t)a * b;
    return c >= LANG_MANY ? LANG_MANY : (uint32_t)c;
}
static inline uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}
static inline uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}
static inline bool set_has(const uint32_t set[8], unsigned byte)
{
    return set[byte >> 5] >> (byte & 31) & 1;
}
static inline void set_add(uint32_t set[8], unsigned byte)
{
    set[byte >> 5] |= (uint32_t)1 << (byte & 31);
}

/* ---- language.c ---- */
bool list_push(struct languages *ls, struct lang_list *l, uint32_t x);
/* The node of these fields; parts: the list of an OR or AND, the bits of a SET. */
lang lang_intern(struct languages *ls, const struct lang_node *key, const uint32_t *parts);
/* Is it "a rest of a character, then min to max characters"? *from: the UTF-8 state of the rest. */
bool lang_is_length(const struct languages *ls, lang a, unsigned *from, uint32_t *min,
                    uint32_t *max);
lang lang_length(struct languages *ls, unsigned from, uint32_t min, uint32_t max);

/* ---- language_facts.c ---- */
unsigned utf8_step(unsigned state, unsigned byte); /* UTF8_MIXED: no UTF-8 */
void lang_set_facts(const struct languages *ls, struct lang_node *x, const uint32_t *parts);

/* ---- language_choice.c ---- */
/* The union or intersection of work[from ...), which is taken off the list. */
lang lang_or_work(struct languages *ls, uint32_t from, unsigned depth);
lang lang_and_work(struct languages *ls, uint32_t from);

/* ---- language_step.c ---- */
lang lang_derive(struct languages *ls, lang a, unsigned char byte); /* live or not */
/* Where classes of bytes begin that a tells apart. */
bool lang_cuts(struct languages *ls, lang a, uint32_t cuts[8]);

#endif
