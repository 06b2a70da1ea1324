/* The parts of an answer: its thought and what follows it, told apart by marks such as <think> and
 * </think>. In: a message's text. Out: its parts, and conditions of enum chat_when on them. */
#ifndef TEXT_THOUGHTS_H
#define TEXT_THOUGHTS_H

#include "text/buffer.h"

/* Sum of what differs from: an answer has a thought where it holds the end mark; what follows the
 * last one is its answer. */
enum thoughts_form {
    THOUGHTS_BOTH = 1,      /* it has one only where it holds the begin mark, too */
    THOUGHTS_FIRST_END = 2, /* the answer follows the first end mark */
    /* alone: it has one where it holds either mark; the answer is the text without what stands from
     * each begin mark to the next end mark, and without end marks */
    THOUGHTS_SPANS = 4
};

struct mark {
    const char *p;
    size_t n;
};

struct thoughts {
    struct mark begin, end; /* not empty; borrowed */
    unsigned form;
    const struct mark *skip; /* [n_skip], not empty: texts that do not belong to the answer */
    size_t n_skip;
};

enum { TRIM_NOT, TRIM_NEWLINES, TRIM_SPACE /* what Python's str.strip takes */, TRIM_BLANK };

/* Narrows p[0..*n) and returns where it then begins. TRIM_BLANK: what an added token swallows. */
const char *thoughts_trim(const char *p, size_t *n, unsigned left, unsigned right);
bool thoughts_is_blank(const char *p, size_t n);
/* The first `what` in p[0..n), or the last; NULL: none. */
const char *thoughts_find(const char *p, size_t n, struct mark what, bool last);

/* CHAT_THOUGHT, CHAT_MARK, CHAT_ANSWER_BLANK, _EMPTY and _NEWLINES, CHAT_THINKS_EMPTY and _BLANK of a
 * text */
unsigned thoughts_when(const struct thoughts *t, const char *p, size_t n);

/* Appends the answer, or what precedes the first end mark, and of that what follows the last begin
 * mark: nothing without a thought. False: no memory. */
bool thoughts_put_answer(const struct thoughts *t, const char *p, size_t n, struct buffer *out);
bool thoughts_put_thinks(const struct thoughts *t, const char *p, size_t n, struct buffer *out);

#endif
