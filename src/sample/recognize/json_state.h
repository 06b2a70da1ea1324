/* What the parts of the JSON recognizer share: the compiled constraint and the records of a track. */
#ifndef RECOGNIZE_JSON_STATE_H
#define RECOGNIZE_JSON_STATE_H

#include "sample/recognize/json_recognizer.h"
#include "sample/recognize/word_sets.h"

/* ---- records ---------------------------------------------------------------------------------
 * An offset of the track stands for a record; 0: none. Records lie at multiples of 8. */

/* One alternative of a level: a shape of `owner`, a node that the level around it wants here. Where a
 * value is being read, `want` is the node that it must have for this alternative. */
struct thread {
    uint32_t shape, owner, want;
    uint32_t
        next; /* the first named member that may still come; of a script: the state behind the hole */
    uint32_t count
        []; /* [n_contains], or [n_classes] and, in any order, a bit for each named member seen */
};

enum { LEVEL_SCRIPT, LEVEL_OBJECT, LEVEL_ARRAY };
enum {
    LEVEL_LINES = 1 /* one item a line */,
    LEVEL_UNIQUE = 2 /* an item must be new */,
    LEVEL_PYTHON = 4,
    LEVEL_GEMMA = 8
};

/* An open container, or at the bottom a script in a hole. A level is pushed anew when its threads
 * change: at a key's end or an item's begin (then it waits for a value: `want` holds, and n counts the
 * value), and at the value's end if that drops a thread. */
struct level {
    uint32_t up;   /* the level around, as it waits for this container */
    uint32_t seen; /* keys or items to remember: json_seen.h */
    uint32_t n_seen;
    uint32_t watch;  /* items that this array and those around it remember */
    uint32_t n;      /* members or items, the one being read too */
    uint16_t depth;  /* containers that are open, this one too */
    uint16_t unique; /* depth of the outermost array of unique items; 0: none */
    unsigned char kind, flags;
    uint32_t n_threads, n_words; /* words of the threads */
    uint64_t signature;
    uint64_t seen_sum; /* of what is remembered, in any order */
    uint64_t sum,
        key; /* in arrays of unique items: hash of the items or members so far, of the key */
};           /* behind it: n_words words, of the threads */

static inline const uint32_t *level_words(const struct level *l)
{
    return (const uint32_t *)(const void *)(l + 1);
}

/* A word whose text is needed at its end: a key, or a scalar in an array of unique items. The text,
 * unescaped, lies behind it up to place.used. */
struct recorded {
    uint32_t level, unused;
};

/* ---- place.more ------------------------------------------------------------------------------ */

enum phase {
    AT_TEXT,    /* of a script; lexeme: set of json.texts; top: 0 */
    AT_VALUE,   /* a value begins here */
    AT_ITEM,    /* an item or a key begins here */
    AT_OPEN,    /* behind { or [ */
    AT_INDENT,  /* in the blanks before an item; scratch: how many */
    AT_CLOSE,   /* in those before } or ] */
    AT_COLON,   /* behind a key */
    AT_GAP,     /* behind : */
    AT_COMMA,   /* behind , */
    AT_AFTER,   /* behind a value */
    AT_LITERAL, /* scratch: which * 16 + bytes read */
    AT_NUMBER,  /* lexeme: language, or set of json.values */
    AT_STRING,  /* likewise, of the content; the phases up to AT_LOW_3 are within it */
    AT_ESCAPE,  /* behind \ */
    AT_HEX_0,
    AT_HEX_1,
    AT_HEX_2,
    AT_HEX_3, /* behind \u and so many digits; scratch: their value */
    AT_LOW,
    AT_LOW_U, /* the other half of a pair: \, u; scratch: the first half */
    AT_LOW_0,
    AT_LOW_1,
    AT_LOW_2,
    AT_LOW_3,
    AT_QUOTE,  /* in the mark before a string in Gemma's notation; scratch: bytes read */
    AT_UNQUOTE /* in the one behind it */
};
enum { /* bits of place.more */
       MORE_PHASE = 31,
       MORE_UNIT = 5,           /* 4 bits: 0 unknown, 1 to 8 spaces, UNIT_TAB */
       MORE_COLON = 9,          /* 2 bits: blanks behind : */
       MORE_COMMA = 11,         /* 2 bits */
       MORE_RECORDED = 1 << 13, /* top is a struct recorded */
       MORE_SET = 1 << 14,      /* lexeme is a set */
       MORE_KEY = 1 << 15,
       MORE_SCRATCH = 16, /* 16 bits */
       UNIT_TAB = 9,
       GAP_UNKNOWN = 0,
       GAP_NONE = 1,
       GAP_ONE = 2,
};

static inline enum phase phase_of(const struct place *p)
{
    return (enum phase)(p->more & MORE_PHASE);
}
static inline uint32_t scratch_of(const struct place *p)
{
    return p->more >> MORE_SCRATCH;
}
static inline void go_to(struct place *p, enum phase phase, uint32_t scratch)
{
    p->more = (p->more & 0xffe0u) | (uint32_t)phase | scratch << MORE_SCRATCH;
}

/* ---- the constraint -------------------------------------------------------------------------- */

struct numbers_list { /* of uint32_t */
    uint32_t *at, n, capacity;
};

struct search_frame {
    struct place place;
    uint64_t left[4]; /* bytes to try */
};

struct object_info {
    lang nameless; /* texts that name no member; LANG_FAIL: not asked yet */
    bool plain;    /* any number of members, no class that must come or is small */
};

struct json_recognizer {
    struct shapes shapes;
    struct script script;
    struct languages *languages; /* of shapes */
    struct budget *budget;
    unsigned flags;
    struct word_sets values, texts;
    uint32_t start; /* of texts */

    /* Keys (json_keys.c). */
    struct object_info *objects; /* [shapes.n_objects] */
    uint32_t *required; /* [n_members]: the first required member from here on, in its shape */
    lang *key_langs;    /* [n_members + n_objects]: of plain objects in order, by member to come */

    /* What a step builds. */
    struct level head;
    struct numbers_list words, /* of the head's threads */
        list, done, reached;
    uint64_t *bits; /* [n_bits], of the longest object, where members come in any order */
    size_t n_bits;

    bool failed; /* no budget was left for an answer within this step */

    lang canonical[2]; /* numbers in arrays of unique items: any, and limited ones */
    bool searching, found;
    uint32_t goal; /* depth of the array whose item ends, or GOAL_KEY */
    struct search_frame *frames;
    struct lang_facts {
        lang a;        /* LANG_NONE: free */
        uint32_t more; /* it has more texts than so many */
        bool counted;  /* and no more than more + 1 */
        uint32_t free; /* 1 + the repeats that cannot end a word early; 0: not asked yet */
    } * facts;         /* [FACTS], by language, the last one asked: json_unique.c */
};
enum { GOAL_KEY = UINT32_MAX };

static inline struct level *level_at(const struct track *t, uint32_t at)
{
    return (struct level *)(void *)(t->bytes + at);
}
/* Offset of the innermost level. */
static inline uint32_t level_of(const struct track *t, const struct place *p)
{
    return p->more & MORE_RECORDED ? ((struct recorded *)(void *)(t->bytes + p->top))->level
                                   : p->top;
}
static inline const char *recorded_text(const struct track *t, const struct place *p, size_t *n)
{
    *n = p->used - p->top - sizeof(struct recorded);
    return (const char *)t->bytes + p->top + sizeof(struct recorded);
}

static inline bool add_number(struct json_recognizer *j, struct numbers_list *list, uint32_t x)
{
    if (list->n == list->capacity &&
        !budget_grow(j->budget, &list->at, &list->capacity, list->n + 1u, sizeof *list->at))
        return false;
    list->at[list->n++] = x;
    return true;
}

#endif
