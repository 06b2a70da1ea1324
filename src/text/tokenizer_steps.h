/* The lists of steps that a tokenizer is made of: "normalizer.N", "pre.N" and "decoder.N" with
 * their parameters, read from the section and checked. ADDING A STEP: a row of `forms` in
 * tokenizer_steps.c; its case in normalize.c, pretokenize.c or decoder.c; a row of TOKENIZER.md; its
 * translation in tools/tern/convert/tokenizers/tokenizer_json.py. */
#ifndef TEXT_TOKENIZER_STEPS_H
#define TEXT_TOKENIZER_STEPS_H

#include "weights/keys.h"
#include "text/trie.h"

enum step_kind {
    STEP_PREPEND,  /* normalizer: `to` before a text that is not empty */
    STEP_REPLACE,  /* normalizer, decoder: every `from` becomes `to` */
    STEP_NFC,      /* normalizer */
    STEP_NFD,      /* normalizer */
    STEP_TRIM,     /* normalizer: SentencePiece's remove_extra_whitespaces */
    STEP_CHARSMAP, /* normalizer: what `map` begins with here becomes what stands for it */
    STEP_BLANKS,   /* normalizer: whitespace off the start (number & 1) and the end (& 2) */
    STEP_RUNS,     /* normalizer: two or more `from` in a row become `to` */
    STEP_SPLIT,    /* pre: at the matches of `pattern` or of the literal `from` */
    STEP_DIGITS,   /* pre: at numeric characters; read into STEP_CLASS, as the next two */
    STEP_PUNCTUATION,
    STEP_WHITESPACE,
    STEP_CLASS,      /* pre: at the characters of unicode_class `number` */
    STEP_SCRIPTS,    /* pre: where the script changes; what has no script, such as a space, stays
                      * with what is before it, and is left out where nothing is */
    STEP_PREFIX,     /* pre: a space before a text that does not begin with one */
    STEP_METASPACE,  /* pre and decoder: a space is `to`; scheme says where one is put before */
    STEP_BYTES,      /* decoder: byte tokens give their byte */
    STEP_STRIP,      /* decoder: up to `number` copies of `from` off the start of the text */
    STEP_BYTE_LEVEL, /* decoder: tokens are bytes, joined before they are read as UTF-8 */
    STEP_JOIN,       /* decoder: a space between tokens */
};

enum { SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS };
enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };
enum { STEPS_MAX = 16, STEP_TEXT_MAX = 256 };

struct step {
    enum step_kind kind;
    const char *from, *to; /* borrowed */
    size_t from_n, to_n;   /* bytes */
    uint64_t number;       /* class: its bits; strip: count */
    uint64_t scheme;       /* prepend (0 is always), metaspace: enum PREPEND_ */
    uint64_t behavior;     /* split, class: enum SPLIT_ */
    bool invert;           /* split: the matches are what lies between the pattern's matches */
    bool split;            /* metaspace: begin a new piece at every replacement character */
    int pattern;           /* split: number for pattern_match, or -1: the literal `from` */
    bool bytes;            /* class: that of bytes, as byte-level BPE writes them */
    bool graphemes;        /* charsmap: one is replaced as a whole by what its start becomes */
    struct charsmap *map;  /* charsmap; owned */
};

/* A table of texts and of what each becomes. */
struct charsmap {
    struct trie trie;           /* value: number of the text */
    const char *to;             /* what they become, one after another; borrowed */
    const uint32_t *to_lengths; /* [n], borrowed */
    uint32_t *start;            /* [n] offsets into `to`; owned */
};

struct steps {
    struct step list[STEPS_MAX];
    size_t n;
};

/* Reads list.0, list.1, ... ; a name or value that is not known is refused by its name. */
enum tern_status steps_read(struct steps *steps, struct keys *keys, const char *list,
                            struct tern_error *e);
void steps_close(struct steps *steps);

#endif
