/* Chat templates: rules that turn a conversation into special ids and runs of text. They come from
 * the section `chat` of the weights file, where the converter stores the rules of the model's own
 * template (FORMAT.md, "Chat"), or from such a section in chat_builtin.c.
 *
 * A rule has conditions and a text. Every message, and the end of the conversation, takes the first
 * rule whose conditions hold: (when & mask) == value, with `when` made of enum chat_when. So does every
 * item of a list, a tool or a call, with enum chat_part_when. Bytes 1 to 8, and where the template
 * knows tools 14 and 15, are operations in its text; all others stand for themselves. */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "text/buffer.h"
#include "text/tokenizer.h"

enum chat_when {
    CHAT_USER = 0, /* bits 0 and 1: what the rule writes; */
    CHAT_ASSISTANT = 1,
    CHAT_END = 2,    /* what follows the last message */
    CHAT_RESULT = 3, /* a tool's result */
    CHAT_KIND = 3,
    CHAT_FIRST = 1 << 2,        /* of its role */
    CHAT_LAST = 1 << 3,         /* of all; for CHAT_END: the last message is the assistant's */
    CHAT_FINAL = 1 << 4,        /* of its role */
    CHAT_EMPTY = 1 << 5,        /* its text is empty */
    CHAT_BLANK = 1 << 6,        /* its text is empty or whitespace */
    CHAT_THOUGHT = 1 << 7,      /* its text has a thought (thoughts.h) */
    CHAT_SYSTEM = 1 << 8,       /* there is a system text, */
    CHAT_SYSTEM_EMPTY = 1 << 9, /* an empty one, */
    CHAT_SYSTEM_BLANK = 1 << 10,
    CHAT_GENERATE = 1 << 11, /* an answer is asked for */
    CHAT_THINK = 1 << 12,    /* with thinking */
    /* of a message, with struct thoughts of the section: */
    CHAT_ANSWER_BLANK = 1 << 13, /* its answer is empty or whitespace */
    CHAT_THINKS_EMPTY = 1 << 14, /* its thought is empty or newlines */
    CHAT_THINKS_BLANK = 1 << 15, /* its thought is empty or whitespace */
    CHAT_MARK = 1 << 16,         /* it holds a mark of thoughts */
    /* where the template knows tools: */
    CHAT_TOOLS = 1 << 17,         /* there are tools */
    CHAT_CALLS = 1 << 18,         /* the message has calls; for CHAT_END: the last one has */
    CHAT_AFTER_RESULT = 1 << 19,  /* the message before is a result; for CHAT_END: the last one */
    CHAT_BEFORE_RESULT = 1 << 20, /* the next message is a result */
    CHAT_CURRENT = 1 << 21,       /* no user's message follows */
    CHAT_ANSWERED = 1 << 22, /* an assistant's message without calls follows, at once or later */
    CHAT_ANSWER_EMPTY = 1 << 23,
    CHAT_ANSWER_NEWLINES = 1 << 24, /* its answer is empty or newlines */
    CHAT_MANY_CALLS = 1 << 25,      /* it has two calls or more */
    CHAT_CALLER_EMPTY = 1 << 26,    /* of a result: the text of the message that called is empty */
    CHAT_CALLED = 1 << 27,          /* a message of the conversation has calls */
};

enum chat_part_when { /* conditions of rules of parts */
                      CHAT_PART_TOOL = 0,
                      CHAT_PART_CALL = 1,
                      CHAT_PART_ARGUMENT = 2,
                      CHAT_PART_MEMBER = 3, /* of a tool's function */
                      CHAT_PART_FIRST = 1 << 2,
                      CHAT_PART_LAST = 1 << 3,
                      CHAT_PART_STRING = 1 << 4, /* the value is one */
                      CHAT_PART_NUMBER = 1 << 5,
                      CHAT_PART_BOOL = 1 << 6,
                      CHAT_PART_NULL = 1 << 7,
                      CHAT_PART_ARRAY = 1 << 8,
                      CHAT_PART_OBJECT = 1 << 9,
                      CHAT_PART_DESCRIBED = 1 << 10,  /* the function has a description */
                      CHAT_PART_PARAMETERS = 1 << 11, /* its parameters have properties */
                      CHAT_PART_ARGUMENTS = 1 << 12,  /* the call has arguments */
                      CHAT_PART_ALL = (1 << 13) - 1
};

enum chat_op {
    CHAT_NAME = 1,     /* NAME, 1: the special token of that name; no name: EOS */
    CHAT_WHOLE = 2,    /* the message's text */
    CHAT_ANSWER = 3,   /* its answer; without a thought, all */
    CHAT_THINKS = 4,   /* its thought */
    CHAT_INSTRUCT = 5, /* the system text */
    CHAT_OPEN = 6,     /* from here ... */
    CHAT_CLOSE = 7,    /* ... to here is trimmed: next byte '0' + left + 3 * right;
                          0 not, 1 newlines, 2 what Python's str.strip takes */
    CHAT_BOS = 8,
    CHAT_LIST = 14, /* next byte: a digit of enum chat_list */
    CHAT_VALUE = 15 /* next bytes: what, and the digit of a style, or '-' */
};

enum chat_list {
    CHAT_LIST_TOOLS = '0',
    CHAT_LIST_CALLS = '1',
    CHAT_LIST_ARGUMENTS = '2',
    CHAT_LIST_MEMBERS = '3',
    CHAT_LIST_SORTED = '4',   /* arguments in the order of Jinja's dictsort */
    CHAT_LIST_NO_RETURN = '5' /* members, except for `return` */
};

struct chat;

/* What a conversation became: text, in which marks say what is not to be encoded as text. */
struct chat_mark {
    size_t at, n;   /* text[at .. at + n) stands for ... */
    int32_t id;     /* ... this special token, or for ids, if not NULL */
    unsigned flags; /* of the added token */
    const int32_t *ids;
    size_t n_ids;
};

struct chat_text {
    struct buffer text, marks; /* bytes; struct chat_mark */
};

/* From the section's bytes (8-byte aligned; they must outlive the chat, as must the tokenizer). All
 * of it is checked here. */
enum tern_status chat_open(struct chat **out, const struct tokenizer *t, const void *section,
                           size_t n, struct tern_error *e);
/* A built-in one, by name. Special tokens that the tokenizer lacks become text. ADDING ONE: see
 * tools/tern/convert/chat/builtin.py. */
enum tern_status chat_open_builtin(struct chat **out, const struct tokenizer *t, const char *name,
                                   struct tern_error *e);
void chat_close(struct chat *c);
const char *chat_builtin(size_t i); /* NULL: no more */
const struct tern_chat_info *chat_info(const struct chat *c);
uint64_t chat_hash(const struct chat *c); /* XXH64 of its section */
/* The i-th token that ends an answer; -1: no more */
int32_t chat_end(const struct chat *c, size_t i);
/* [2] the tokens that are the marks of thoughts, if rules tell thoughts and answers apart; or -1 */
const int32_t *chat_marks(const struct chat *c);
bool chat_knows_thoughts(const struct chat *c);
/* What asks for an answer with these flags begins a thought. */
bool chat_begins_thought(const struct chat *c, unsigned flags);
/* Where what the template itself writes of a thought begins, in [p, p + n) that ends with what asks for
 * an answer: "<think>\n"; NULL: no thought is open. */
const char *chat_opening(const struct chat *c, const char *p, size_t n);

/* Appends to *out, which begins as zero; the caller closes it, also after an error. */
enum tern_status chat_render(const struct chat *c, const struct tern_chat_message *messages,
                             size_t n, unsigned flags, struct chat_text *out, struct tern_error *e);
enum tern_status chat_encode(const struct chat *c, const struct chat_text *in, int32_t *tokens,
                             size_t max, size_t *n, struct tern_error *e);
void chat_text_close(struct chat_text *t);

#endif
