/* Reads one call of an answer, byte by byte, and what follows it. `arguments` grows as they become certain, by
 * whole characters; none are taken back. */
#ifndef TEXT_ANSWER_CALL_H
#define TEXT_ANSWER_CALL_H

#include "text/answer_form.h"
#include "text/answer_values.h"
#include "text/tools.h"

struct answer_forms {
    struct answer_form list[CHAT_FORMS_MAX];
    size_t n;
    bool one;          /* an answer has one call at most */
    struct mark quote; /* of Gemma 4, as it is spelled in an answer; n 0: none */
    struct buffer bytes;
};

enum answer_call_result {
    ANSWER_CALL_MORE,
    ANSWER_CALL_READ, /* a call: `used` bytes */
    ANSWER_CALL_OVER, /* no call follows: `used` bytes are what ends the calls */
    ANSWER_CALL_NONE, /* it is no call, or if sure, a broken one of `used` bytes */
    ANSWER_CALL_CUT,  /* finishing: it is the beginning of one */
    ANSWER_CALL_NO_MEMORY
};

enum answer_call_phase { CALL_BEGIN, CALL_STEPS, CALL_AFTER };
enum answer_list_phase { LIST_NEXT, LIST_KEY, LIST_MIDDLE, LIST_TRAIL, LIST_VALUE, LIST_AFTER };

struct answer_call {
    const struct answer_forms *forms; /* borrowed */
    size_t form, step, used;
    enum answer_call_phase phase;
    enum answer_list_phase list;
    size_t pos, k, from; /* bytes read; of the literal; where a value began */
    struct mark trail;   /* whitespace of a literal that may stand before a value */
    bool sure; /* it is a call, whatever follows */
    bool is_text, in_string, escaped, began;
    bool in_quotes; /* the value is a text between Gemma's quotes */
    enum answer_type type; /* of the value that is read, where it is a text */
    char quote;
    unsigned depth;
    struct buffer name, id, arguments, key;
};

enum tern_status answer_forms_open(struct answer_forms *out, const struct chat *c, bool marked,
                                   struct tern_error *e);
void answer_forms_close(struct answer_forms *f);

void answer_call_begin(struct answer_call *call, const struct answer_forms *forms, size_t form);
/* rest[0..n) holds what it held in the call before, and perhaps more. `tools` may be NULL. */
enum answer_call_result answer_call_read(struct answer_call *call, struct mark rest,
                                         const struct tools *tools, bool finishing);
/* After ANSWER_CALL_CUT: the arguments as far as they go. False: no memory. */
bool answer_call_cut(struct answer_call *call, struct mark rest);
/* After ANSWER_CALL_READ: `rest` now begins behind the call. Returns true. */
bool answer_call_next(struct answer_call *call);
/* Id and name, in one piece of memory that out->id owns; `number` for a call without an id. */
bool answer_call_name(const struct answer_call *call, size_t number, struct tern_call *out);
/* The arguments so far, which the caller frees. NULL: no memory. */
char *answer_call_arguments(const struct answer_call *call);
void answer_call_free(struct tern_call *call);
void answer_call_close(struct answer_call *call);

#endif
