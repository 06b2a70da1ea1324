/* One answer to a conversation: from what an API's request says to the parts of the answer. Responses and
 * messages use it: they read a request into a turn, and write the parts in their own form. */
#ifndef SERVE_TURN_H
#define SERVE_TURN_H

#include <stdbool.h>
#include <stddef.h>

#include "app/serve/api/answer_rules.h"
#include "app/serve/api/answers.h"
#include "app/serve/api/dialog.h"
#include "app/serve/http/exchange.h"
#include "app/serve/api/request_params.h"
#include "app/serve/api/tool_list.h"

struct turn { /* zeroed, then filled by who reads the request; turn_close frees all */
    struct dialog *dialog;
    const char *field; /* that the conversation is in, to be named in faults */
    struct request_params params;
    struct answer_rules rules; /* tools, chat_flags, said: set here */
    struct tool_list tools;    /* all of the request's */
    char *choice;              /* rules.tool_choice where it is a name; owned */
    char *format;              /* rules.text; owned */
    json_t
        *callable; /* of the tools, those that may be called, in OpenAI's form; owned. NULL: all */
    unsigned chat_flags; /* TERN_CHAT_THINK, TERN_CHAT_NO_THINK or 0 */
    size_t n;            /* answers; 0: 1 */
    /* Stop strings of params of which answer_part.stop shall tell; they outlive the answers */
    const char *const *stop; /* [n_stop] */
    size_t n_stop;
    bool prefill; /* a last message of the assistant is the beginning of the answer */
    char ignored[FIELDS_TEXT_MAX]; /* fields and parts without effect, for the header and the log */
    /* turn_prepare */
    struct dialog_prompt prompt;
    enum tern_answer_form form;
};

/* Appends one more name to t->ignored. */
void turn_ignore(struct turn *t, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/* Bytes of a system text to be skipped: the line x-anthropic-billing-header at its beginning, which Claude Code
 * writes anew for every request, so that no evaluated prompt could be used again. Names `place`. */
size_t turn_skip_billing(struct turn *t, const char *place, const char *text, size_t n);
/* Appends the fields that were not read. */
void turn_unknown(struct turn *t, const struct fields *f);
/* Words of how much to think: those for no thoughts, and the others */
#define TURN_EFFORT_OFF "none|minimal"
#define TURN_EFFORT_ON "low|medium|high|xhigh|max"
/* Thoughts on or off, as a client asks in field `name` of f. The field is named as one without effect if the
 * template leaves no such choice and does the other. */
void turn_think(struct turn *t, const struct server *s, const struct fields *f, const char *name,
                bool think);
/* The JSON schema in field `name` of f, which must be there, as what the answer must be. */
bool turn_read_schema(struct turn *t, const struct server *s, struct fields *f, const char *name);
void turn_close(struct turn *t);

/* Of a turn whose tokens are only counted or shown: has it at most --max-text bytes? */
bool turn_check_text(const struct turn *t, const struct server *s, struct fault *f);
/* Makes the prompt. */
bool turn_prepare(struct turn *t, const struct server *s, struct fault *f);

/* Submits the jobs of a prepared turn; their parts come later, and `close` after them. The exchange gets the
 * header x-tern-ignored. False: the fault says why, and the writer is not called. */
bool turn_begin(struct turn *t, struct server *s, struct exchange *x,
                const struct answers_writer *w, void *arg, struct fault *f);

#endif
