/* Job events in, parts of an answer out: text, thoughts, calls, the end. Chat, responses and messages
 * use it.
 *
 * The engine says which bytes of text are certain, that is, not perhaps the beginning of a stop string.
 * A token waits here until all of its bytes are certain, and then goes to the parser of answers (tern_answer).
 * So nothing behind a stop string comes out, and no character is split. */
#ifndef SERVE_ANSWER_STREAM_H
#define SERVE_ANSWER_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "app/serve/http/fault.h"
#include "app/serve/model/job.h"
#include "tern.h"

struct answer_stream;

struct answer_stream_params {
    /* The prompt, needed while opening only. Its last n_said tokens are the beginning of the answer
     * (prefill): they were said, and are not told again. */
    const tern_token *prompt;
    size_t n_prompt, n_said;
    unsigned chat_flags; /* with which it was asked for: dialog_prompt.chat_flags */
    const char *tools;   /* dialog_tools_text, or NULL */
    size_t n_tools;
    size_t first_call;       /* answer_first_call */
    bool plain;              /* no chat: all is text */
    enum tern_answer_form form;
    bool ignore_end;         /* as in the job */
    const char *const *stop; /* [n_stop] the client's stop strings; they outlive the stream */
    size_t n_stop;
};

struct answer_token { /* with what the job told of it */
    tern_token token;
    bool forced;
    double logprob;
    const struct tern_choice *top; /* [n_top] */
    size_t n_top;
};

struct answer_part {
    enum {
        PART_NONE,      /* nothing waits */
        PART_PROMPT,    /* a token of the prompt, where the job was asked for their logprobs */
        PART_TEXT,      /* text [bytes]: whole characters */
        PART_THOUGHT,   /* the same, of a thought */
        PART_BEGIN,     /* a call begins: its id and name */
        PART_ARGUMENTS, /* more of its arguments: text */
        PART_CALL,      /* it is over: id, name, arguments; no tokens */
        PART_DONE,
        PART_FAILED
    } kind;
    size_t choice;    /* which of a request's answers (answers.h) */
    const char *text; /* "" where there is none */
    size_t bytes;
    struct tern_call call;
    bool
        cut; /* the call broke off, mostly by the limit of tokens or a stop string: its arguments are the
               * beginning of JSON */
    size_t index; /* of the call, among those that this answer ends: 0, 1, ... */
    /* The tokens that came with it, in order: those that held its text, and those before without text
     * (marks of thoughts, parts of characters). Each token comes once. PART_DONE has the rest, as the
     * end token. A token cut by a stop string comes with the text before that. */
    const struct answer_token *tokens;
    size_t n_tokens;
    /* PART_DONE */
    bool called;                  /* it has calls, none of them cut: finish_reason tool_calls */
    enum tern_stop_reason reason; /* END, COMPLETE, STRING: it stopped; LENGTH, CONTEXT: cut off */
    const char *stop;             /* which of the client's stop strings ended it, or NULL */
    const struct job_event *end;  /* JOB_DONE: result, times, receipt */
    /* PART_FAILED */
    const struct fault *fault;
};

/* NULL: the fault says why. */
struct answer_stream *answer_stream_open(const tern_model *model,
                                         const struct answer_stream_params *p, struct fault *f);
void answer_stream_close(struct answer_stream *a);

/* *within: whether what was said ends within a call. */
bool answer_stream_said_call(const tern_model *model, const struct answer_stream_params *p,
                             bool *within, struct fault *f);

/* The next part; takes events from the job as it needs them. false: PART_NONE, nothing waits (or it is
 * over). All that the part points at is borrowed until the next call. */
bool answer_stream_next(struct answer_stream *a, struct job *j, struct answer_part *part);

#endif
