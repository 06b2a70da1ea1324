/* How an answer writes calls, cut into steps: what the parser of answers and the constraint of calls go
 * by. Made of a form of the section `chat` and of its rules of arguments. */
#ifndef TEXT_ANSWER_FORM_H
#define TEXT_ANSWER_FORM_H

#include "text/chat_section.h"

/* How special tokens are spelled in literals */
enum answer_spelling {
    ANSWER_TEXT,   /* as their text */
    ANSWER_MARKED, /* 0xFF, the text, 0xFE: no UTF-8 text has these bytes */
    ANSWER_SCRIPT  /* 0xFF and the text */
};
enum { ANSWER_SPECIAL = 0xFF, ANSWER_SPECIAL_END = 0xFE };

enum answer_step_kind {
    ANSWER_LITERAL,
    ANSWER_NAME,
    ANSWER_ID,
    ANSWER_ARGUMENTS, /* a JSON object */
    ANSWER_LIST       /* arguments one by one */
};

struct answer_step {
    enum answer_step_kind kind;
    struct mark text; /* of a literal */
};

/* An argument of a list: `before` key `middle` value `after`, and `between` two of them. A text may have
 * a middle and an end of its own: quotes. */
struct answer_list {
    bool sorted;                 /* by Jinja's dictsort */
    struct mark before, between; /* `between` does not hold `before` */
    struct mark middle, after;
    struct mark text_middle, text_after;    /* text_middle begins with middle */
    unsigned text_notation;                 /* of enum tojson_notation: JSON and REPR have quotes */
    unsigned scalar_notation, box_notation; /* of numbers, true, null; of arrays and objects */
};

enum { ANSWER_STEPS = 12 };
struct answer_form {
    struct mark trigger, begin, between, end;
    struct answer_step steps[ANSWER_STEPS]; /* of a call: [n_steps] */
    size_t n_steps;
    struct answer_list list; /* of ANSWER_LIST */
    struct buffer bytes;     /* the literals */
};

/* TERN_BAD_FILE where the section's rules do not tell how to read a call back. */
enum tern_status answer_form_open(struct answer_form *out, const struct chat *c, size_t i,
                                  enum answer_spelling spelling, struct tern_error *e);
void answer_form_close(struct answer_form *f);

/* p[0..n) without the whitespace at its ends */
struct mark answer_core(struct mark text);

#endif
