/* Answers that may call tools (--tools): what is shown of them while they are made, and the calls that they
 * hold. */
#ifndef RUN_TOOL_ANSWER_H
#define RUN_TOOL_ANSWER_H

#include "app/cli/certain.h"
#include "app/run/conversation.h"
#include "app/run/run_options.h"

struct tool_answer {
    char *tools; /* [n] the file of --tools, owned; NULL: there are none */
    size_t n;
    tern_answer *answer;    /* of the answer that is made; owned */
    struct certain certain; /* its tokens that may be of a stop string */
    struct tern_call cut; /* its last call that broke off, borrowed of it; no name: none */
    bool limit;           /* a limit cut the answer */
    enum tern_status s;   /* of what was pushed */
    bool shown;           /* something of it was */
};

enum tern_status tool_answer_open(struct tool_answer *t, const struct run_options *o,
                                  struct tern_error *e);
void tool_answer_close(struct tool_answer *t);

/* Before an answer to prompt[0..n), asked for with `flags`. */
enum tern_status tool_answer_begin(struct tool_answer *t, const tern_model *model, unsigned flags,
                                   bool ignore_end, const tern_token *prompt, size_t n,
                                   size_t first_call, struct tern_error *e);
/* A token of it, and n more bytes of its text that are of no stop string; `show` gets text and thoughts. False: it
 * failed, or show returned non-zero. */
typedef int (*tool_answer_show)(void *arg, tern_token token, const char *text, size_t n);
bool tool_answer_add(struct tool_answer *t, tern_token token, struct tern_error *e);
bool tool_answer_grow(struct tool_answer *t, size_t n, tool_answer_show show, void *arg,
                      struct tern_error *e);
/* It is over: shows the rest, without the call that a limit cut off. */
void tool_answer_finish(struct tool_answer *t, enum tern_stop_reason reason, tool_answer_show show,
                        void *arg, struct tern_error *e);
/* Whether it calls tools, or began to; then it joins the conversation, and each call is a line of JSON on
 * standard output: {"id": "...", "name": "...", "arguments": {...}}, with `jsonl` as {"call": ...}. A
 * call that was cut off, or is malformed, is told on standard error; with `jsonl` it is {"cut": ...}, whose
 * arguments are a text: as much of them as came. */
bool tool_answer_calls(const struct tool_answer *t);
enum tern_status tool_answer_remember(const struct tool_answer *t, struct conversation *said,
                                      bool jsonl, struct tern_error *e);

#endif
