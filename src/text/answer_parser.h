/* Turns an answer into text, thoughts and calls while it streams. What it makes of an answer does not
 * depend on where the answer was cut when it was pushed. Memory is at most a few times the answer's. */
#ifndef TEXT_ANSWER_PARSER_H
#define TEXT_ANSWER_PARSER_H

#include "text/chat.h"
#include "text/thoughts.h"
#include "text/tools.h"

struct answer_parser;

struct answer_params {
    struct mark tools;   /* JSON, for the types of arguments without quotes; n 0: unknown */
    struct mark opening; /* what the template wrote of a thought before the answer; n 0: none */
    enum tern_answer_form form;
    bool marked;         /* special tokens come as answer_parser_special says, else as text */
    size_t first_call; /* calls of the conversation before: the number of the first without an id */
};

enum tern_status answer_parser_open(struct answer_parser **out, const struct chat *c,
                                    const struct answer_params *params, struct tern_error *e);
void answer_parser_close(struct answer_parser *a);

/* Bytes of the answer. Events of earlier pushes that nobody took are lost. TERN_NO_MEMORY. */
enum tern_status answer_parser_push(struct answer_parser *a, const char *p, size_t n,
                                    struct tern_error *e);
/* A special token by its text, where the answer is marked. */
enum tern_status answer_parser_special(struct answer_parser *a, const char *name, size_t n,
                                       struct tern_error *e);
/* The last bytes, and no more come: what looked like the beginning of a call is text. cut: a limit ended
 * the answer, and such a beginning comes as tern_answer_cut says. */
enum tern_status answer_parser_finish(struct answer_parser *a, const char *p, size_t n, bool cut,
                                      struct tern_error *e);

/* The next event; borrowed until the next push. TERN_ANSWER_NONE: no more yet. */
enum tern_answer_kind answer_parser_next(struct answer_parser *a, struct tern_answer_event *event);
/* All of the answer so far as a message; borrowed until the next push. */
void answer_parser_message(const struct answer_parser *a, struct tern_chat_message *m);

#endif
