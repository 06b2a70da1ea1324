/* Chat templates: rules that turn a conversation into special ids and runs of text. They come from
 * the section `chat` of the weights file, where the converter stores the rules of the model's own
 * template (FORMAT.md, "Chat"), or from such a section in chat_builtin.c.
 *
 * A rule has conditions and a text. Every message, and the end of the conversation, takes the first
 * rule whose conditions hold: (when & mask) == value, with `when` made of enum chat_when. Bytes 1
 * to 8 in its text are operations, all others stand for themselves. */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "text/buffer.h"
#include "text/tokenizer.h"

enum chat_when {
    CHAT_USER = 0, /* bits 0 and 1: what the rule writes; */
    CHAT_ASSISTANT = 1,
    CHAT_END = 2,               /* what follows the last message */
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
/* [2] the tokens that are the marks of thoughts, if rules tell thoughts and answers apart; or -1 */
const int32_t *chat_marks(const struct chat *c);
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
