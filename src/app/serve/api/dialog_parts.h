/* A conversation, and how it becomes messages of tern.h: what dialog.c and dialog_compose.c share. */
#ifndef SERVE_DIALOG_PARTS_H
#define SERVE_DIALOG_PARTS_H

#include <jansson.h>

#include "app/cli/growing_text.h"
#include "app/serve/api/dialog.h"

enum speech_role { SPEECH_USER, SPEECH_ASSISTANT, SPEECH_RESULT };

struct speech_call {
    char *id, *name, *arguments; /* owned; id, arguments: perhaps NULL */
    size_t number;               /* in the conversation */
    size_t result; /* while composing: its place among what was said; SIZE_MAX: none */
};

struct speech { /* as it was said; all is owned */
    enum speech_role role;
    struct growing_text text, thought;
    struct speech_call *calls; /* [n_calls] of [calls_room], of an assistant */
    size_t n_calls, calls_room;
    char *id, *name; /* of a result; perhaps NULL */
    bool has_call;   /* while composing: a result that belongs to a call */
};

struct dialog {
    struct speech *said; /* [n] of [room] */
    size_t n, room;
    struct growing_text system;
    bool has_system;
    char *tools; /* JSON, or NULL */
    size_t n_calls;
    bool failed; /* memory ran out */
};

/* Appends text behind an empty line. */
void dialog_join(struct growing_text *to, const char *text, size_t n);
/* A JSON string; bytes that are not UTF-8 become U+FFFD. */
json_t *dialog_json_text(const char *text, size_t n);
json_t *dialog_json_grown(const struct growing_text *t);
bool dialog_is_word(char c); /* a letter, a digit or one of _ . : - */

/* The template in use, without marks of thoughts where it knows no thoughts; false: there is none. */
bool dialog_info(const tern_model *model, struct tern_chat_info *info);

enum {
    COMPOSE_NUMBERS = 1,   /* ids of calls are their numbers, 9 digits */
    COMPOSE_PLAIN = 2,     /* calls and results are text */
    COMPOSE_NO_SYSTEM = 4, /* the system text goes before the first user's */
    COMPOSE_PREFILL = 8,   /* without the last turn, which is the assistant's */
    COMPOSE_ASK = 16       /* it ends so that the assistant is to speak */
};

struct composed {
    struct tern_chat_message *list; /* [n]; texts, calls and ids are in `memory` or the dialog's */
    size_t n, room;
    struct growing_text *texts; /* [n] one for each message */
    void **memory;              /* [n_memory] of [memory_room] */
    size_t n_memory, memory_room;
    size_t bytes; /* of all texts */
    bool failed;
};

/* false: not enough memory. The caller closes it, also then. */
bool compose(struct dialog *d, const struct tern_chat_info *info, unsigned form,
             struct composed *out);
void compose_close(struct composed *c);

/* What the assistant has begun to say, if its turn is the last and calls nothing */
struct prefill {
    bool is_there;
    unsigned flags;     /* in: as asked for; out: as they must be for it */
    tern_token *tokens; /* [n] malloced */
    size_t n, n_text;   /* n_text: the last ones, of text behind thoughts */
    bool in_thought;    /* there is a thought, and no text */
};
/* false: not enough memory. */
bool prefill_open(struct prefill *p, const struct dialog *d, const tern_model *model, bool wanted);

/* Appends a mark of thoughts, with plain text before and after it. false: not enough memory. */
bool prefill_add_mark(struct prefill *p, const tern_model *model, const char *before,
                      const char *mark, size_t n, const char *after);

/* An answer with its thought, as the model writes it: begin, thought, end, text. */
void dialog_put_answer(struct growing_text *out, const struct tern_chat_info *info,
                       const struct speech *t);

#endif
