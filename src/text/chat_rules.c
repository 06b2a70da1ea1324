/* Well-known chat templates. ADDING ONE: its rules, and a row in the table at the end. Octal bytes
 * are the operations of chat.h: \1 around a special token, \2 the message, \3 its answer without
 * thoughts, \5 the system text, \6 and \7 a group that is trimmed, \10 BOS, \1\1 EOS. */
#include "text/chat_rules.h"

#define RULE(mask, value, text)                  \
    {                                            \
        (mask) | 3, value, sizeof text - 1, text \
    }
#define USER(mask, value, text) RULE(mask, CHAT_USER | (value), text)
#define ASSISTANT(mask, value, text) RULE(mask, CHAT_ASSISTANT | (value), text)
#define END(mask, value, text) RULE(mask, CHAT_END | (value), text)
#define NEW CHAT_FIRST | CHAT_SYSTEM /* the first message, with a system text */
#define ASK CHAT_GENERATE

static const struct chat_rule chatml[] = {
    USER(NEW, NEW,
         "\1<|im_start|>\1system\n\5\1<|im_end|>\1\n\1<|im_start|>\1user\n\2\1<|im_end|>\1\n"),
    USER(0, 0, "\1<|im_start|>\1user\n\2\1<|im_end|>\1\n"),
    ASSISTANT(0, 0, "\1<|im_start|>\1assistant\n\2\1<|im_end|>\1\n"),
    END(ASK, ASK, "\1<|im_start|>\1assistant\n"),
    END(0, 0, ""),
};

#define KNOWN(rules) #rules, rules, sizeof rules / sizeof *rules
const struct chat_known chat_known[] = {
    {KNOWN(chatml), 0},
    {NULL, NULL, 0, 0},
};
