/* A conversation as any API sends it, made fit for tern_chat_tokens. What the core would refuse is
 * written as well as it can be; history is never refused for what a model or a client once wrote:
 *
 * - System texts before all else join into one, in their order, with an empty line between. A template
 *   without a place for one gets it before the first user's text. A later one stays where it is, as a text
 *   of the user: no template has a place for it there, and in front it would change what precedes it, all
 *   of which would have to be evaluated again.
 * - Neighbours of one role join, with an empty line between. A conversation that begins with the
 *   assistant, or has no user's text at all, gets an empty text of the user before it.
 * - A result goes to the call with its id, else to the first call before it that has none. A result
 *   without a call becomes text of the user; a call without a result gets an empty one. The results of a
 *   turn stand in the order of its calls, because many templates write no ids.
 * - Arguments that are no JSON object become one: {"arguments": "what was there"}.
 * - Ids that the template cannot write are replaced by its own kind, 9 digits.
 * - If the template knows no tools, or no calls without tools, calls and results become text.
 * - Thoughts go before an answer as the model would have written them; the template keeps or drops
 *   them. */
#ifndef SERVE_DIALOG_H
#define SERVE_DIALOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "app/serve/http/fault.h"
#include "tern.h"

struct dialog;

/* In place of what is no text, in a result of a tool */
#define DIALOG_LEFT_OUT "[left out: this model reads text only]"

/* NULL: not enough memory. Everything that is added is copied. Later lack of memory is reported by
 * dialog_tokens. */
struct dialog *dialog_open(void);
void dialog_close(struct dialog *d);

void dialog_system(struct dialog *d, const char *text, size_t n);
void dialog_user(struct dialog *d, const char *text, size_t n);
/* thought [n_thought]: what it thought before the text; NULL: nothing. */
void dialog_assistant(struct dialog *d, const char *text, size_t n, const char *thought,
                      size_t n_thought);
/* A call of the assistant, who spoke last (an empty text is made up if not). arguments [n]: as the
 * client has them, perhaps broken. id, name: may be NULL. */
void dialog_call(struct dialog *d, const char *id, const char *name, const char *arguments,
                 size_t n);
/* id, name: of its call, or NULL. */
void dialog_result(struct dialog *d, const char *id, const char *name, const char *text, size_t n);
/* tools: a JSON array of functions in OpenAI's form, {"type": "function", "function": {...}}. */
void dialog_tools(struct dialog *d, const json_t *tools);

/* The tools as JSON text, for TERN_CONSTRAINT_TOOLS and answer_stream; NULL: none, or the model's
 * template knows no tools. Borrowed until the next dialog_tools. */
const char *dialog_tools_text(const struct dialog *d, const tern_model *model, size_t *n);

/* Bytes of what was said, tools included */
size_t dialog_bytes(const struct dialog *d);

/* What dialog_tokens made */
struct dialog_prompt {
    tern_token *tokens; /* [n] malloced: the caller's */
    size_t n;
    size_t n_said;       /* of these, the last ones are the beginning of the answer */
    unsigned chat_flags; /* that were in effect */
    size_t n_text;       /* of n_said, the last ones are text, behind thoughts */
    bool in_thought;     /* what was said is a thought, which goes on */
};

/* The prompt, which asks for an answer. prefill: if the last message is the assistant's and calls
 * nothing, the answer goes on from there. chat_flags: TERN_CHAT_THINK, TERN_CHAT_NO_THINK or 0. */
bool dialog_tokens(struct dialog *d, const tern_model *model, unsigned chat_flags, bool prefill,
                   struct dialog_prompt *out, struct fault *f);
/* Appends what begins a thought, where the model thinks and the template leaves that to it: a format can
 * then be demanded of what follows the thought. Nothing is appended, and *opened is false, where the
 * template opens the thought, the model does not think or the answer has begun. */
bool dialog_open_thought(struct dialog_prompt *p, const tern_model *model, bool *opened,
                         struct fault *f);
/* The same as text, special tokens spelled out, malloced. generate: it asks for an answer, or goes on with
 * one. */
bool dialog_text(struct dialog *d, const tern_model *model, unsigned chat_flags, bool generate,
                 char **text, size_t *n, struct fault *f);

#endif
