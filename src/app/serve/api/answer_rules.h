/* What an answer of a chat must be: tools that it may or must call, or a format of its text. In: what a
 * request says. Out: a constraint that requests share. */
#ifndef SERVE_ANSWER_RULES_H
#define SERVE_ANSWER_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "app/serve/model/compiled.h"
#include "app/serve/http/fault.h"

struct server;

enum answer_format {
    FORMAT_TEXT,
    FORMAT_JSON,
    FORMAT_SCHEMA,
    FORMAT_REGEX,
    FORMAT_GRAMMAR,
    FORMAT_CHOICE
};

struct answer_rules {  /* zeroed: a free text without calls */
    const char *tools; /* [n_tools] dialog_tools_text of the tools that may be called, or NULL */
    size_t n_tools;
    const json_t *tool_places; /* for faults: tool_list_blame */
    const char *tool_choice;   /* NULL or "auto", "none", "required", or a function's name */
    bool parallel;             /* several calls in an answer */
    enum answer_format format;
    const char *text; /* [n] of the format: schema, expression, grammar, choices */
    size_t n;
    unsigned chat_flags; /* with which the answer is asked for (dialog_prompt) */
    bool plain;          /* no chat: the text begins with no thought */
    bool opened;         /* the prompt begins a thought that the template leaves to the model */
    /* What the answer has already (prefill): of the prompt, the last tokens, a thought first. A format holds for
     * their text, calls and what may come beside them for all of them. */
    const tern_token *said; /* [n_said] */
    size_t n_said, n_text;  /* n_text: the last of n_said, behind the thought */
    bool spoke;             /* they begin with its text: no thought comes before */
    bool said_call;         /* and end within a call */
    /* Fields to be named in faults: "tool_choice", "response_format.json_schema.schema" */
    const char *choice_field;
    char format_field[FAULT_PARAM];
};

/* Whether a call must come. Then no text comes that a format could hold for. */
bool answer_rules_must_call(const struct answer_rules *r);
/* Whether its text may be calls or what the format says. */
bool answer_rules_may_call_or_text(const struct answer_rules *r);
/* Whether the answer begins within a thought. */
bool answer_rules_think(const struct answer_rules *r, const struct server *s);
/* *out: an owned share; NULL: nothing is to be enforced.
 *
 * A format is enforced whole, or the request is refused: a client that asked for JSON gets no other text. It
 * begins behind the thoughts. Beside tools, calls may come instead. A schema of a tool is enforced as far as
 * it can be: agents send dozens, and one keyword must not end all of their requests. What is then left out
 * appears with fields_unknown's names in ignored[0..max), a C string, to which it is appended. */
bool answer_rules_find(struct server *s, const struct answer_rules *r, struct compiled **out,
                       char *ignored, size_t max, struct fault *f);
/* *out: an owned state of c behind what was said, as far as it concerns c: a text without calls does not
 * concern tools, its thought does. NULL: c begins now. False: format or tools do not allow what was said, and the
 * fault says where. */
bool answer_rules_begin(const struct answer_rules *r, const struct server *s,
                        const struct compiled *c, tern_constraint_state **out, struct fault *f);

#endif
