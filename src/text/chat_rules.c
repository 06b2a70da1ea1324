/* Well-known chat templates. ADDING ONE: its rules, a row in the table at the end, and its name in
 * tools/tern/convert/chat/chat.py. Octal bytes are the operations of chat.h: \1 around a special
 * token (\1\1: EOS), \2 the message, \3 its answer without thoughts, \5 the system text, \6 and \7
 * around what is trimmed, \10 BOS. */
#include "text/chat_rules.h"

#define RULE(mask, value, text)                  \
    {                                            \
        (mask) | 3, value, sizeof text - 1, text \
    }
#define USER(mask, value, text) RULE(mask, CHAT_USER | (value), text)
#define ASSISTANT(text) RULE(0, CHAT_ASSISTANT, text)
#define NEW CHAT_FIRST | CHAT_SYSTEM /* the first message, with a system text */
#define FIRST_RULES(with_system, without) \
    USER(NEW, NEW, with_system), USER(CHAT_FIRST, CHAT_FIRST, without)
#define ASK(text) RULE(CHAT_GENERATE, CHAT_GENERATE | CHAT_END, text), RULE(0, CHAT_END, "")
#define TRIM(text) "\6" text "\0078"

#define USER_ML "\1<|im_start|>\1user\n\2\1<|im_end|>\1\n"
#define SYSTEM_ML "\1<|im_start|>\1system\n\5\1<|im_end|>\1\n" USER_ML
#define ASK_ML "\1<|im_start|>\1assistant\n"
static const struct chat_rule chatml[] = {
    USER(NEW, NEW, SYSTEM_ML),
    USER(0, 0, USER_ML),
    ASSISTANT(ASK_ML "\2\1<|im_end|>\1\n"),
    ASK(ASK_ML),
};

static const struct chat_rule qwen3[] = {
    USER(NEW, NEW, SYSTEM_ML),
    USER(0, 0, USER_ML),
    RULE(CHAT_THOUGHT, CHAT_THOUGHT | CHAT_ASSISTANT, ASK_ML "\6\3\0071\1<|im_end|>\1\n"),
    ASSISTANT(ASK_ML "\2\1<|im_end|>\1\n"),
    RULE(CHAT_GENERATE | CHAT_THINK, CHAT_GENERATE | CHAT_END, ASK_ML "<think>\n\n</think>\n\n"),
    ASK(ASK_ML),
};

#define INST2 "\10\1[INST]\1 "
#define END2 " \1[/INST]\1"
static const struct chat_rule llama2[] = {
    USER(NEW, NEW, INST2 "<<SYS>>\n\5\6\n<</SYS>>\n\n\2\0076" END2),
    USER(0, 0, INST2 TRIM("\2") END2),
    ASSISTANT(" " TRIM("\2") " \1\1"),
    RULE(0, CHAT_END, ""),
};

#define HEADER3(role) "\1<|start_header_id|>\1" role "\1<|end_header_id|>\1\n\n"
#define TURN3(role, text) HEADER3(role) TRIM(text) "\1<|eot_id|>\1"
static const struct chat_rule llama3[] = {
    FIRST_RULES("\10" TURN3("system", "\5") TURN3("user", "\2"), "\10" TURN3("user", "\2")),
    USER(0, 0, TURN3("user", "\2")),
    ASSISTANT(TURN3("assistant", "\2")),
    ASK(HEADER3("assistant")),
};

#define INST(text) "\1[INST]\1 " text "\1[/INST]\1"
#define LAST_NEW CHAT_LAST | CHAT_SYSTEM /* the system text stands in the last message */
static const struct chat_rule mistral[] = {
    USER(CHAT_FIRST | LAST_NEW, CHAT_FIRST | LAST_NEW, "\10" INST("\5\n\n\2")),
    USER(LAST_NEW, LAST_NEW, INST("\5\n\n\2")),
    USER(CHAT_FIRST, CHAT_FIRST, "\10" INST("\2")),
    USER(0, 0, INST("\2")),
    ASSISTANT(" " TRIM("\2") "\1\1"),
    RULE(0, CHAT_END, ""),
};

#define TURN_G(role, text) "\1<start_of_turn>\1" role "\n" text TRIM("\2") "\1<end_of_turn>\1\n"
static const struct chat_rule gemma[] = {
    FIRST_RULES("\10" TURN_G("user", "\5\n\n"), "\10" TURN_G("user", "")),
    USER(0, 0, TURN_G("user", "")),
    ASSISTANT(TURN_G("model", "")),
    ASK("\1<start_of_turn>\1model\n"),
};

#define BAR(role, text, end) "\1<|" role "|>\1\n" text "\1" end "\1\n"
static const struct chat_rule phi3[] = {
    USER(NEW | CHAT_SYSTEM_EMPTY, NEW, BAR("system", "\5", "<|end|>") BAR("user", "\2", "<|end|>")),
    USER(0, 0, BAR("user", "\2", "<|end|>")),
    ASSISTANT(BAR("assistant", "\2", "<|end|>")),
    ASK("\1<|assistant|>\1\n"),
};

static const struct chat_rule zephyr[] = {
    USER(NEW, NEW, BAR("system", "\5", "") BAR("user", "\2", "")),
    USER(0, 0, BAR("user", "\2", "")),
    ASSISTANT(BAR("assistant", "\2", "")),
    ASK("\1<|assistant|>\1\n"),
};

#define GRANITE(role) "\1<|start_of_role|>\1" role "\1<|end_of_role|>\1"
#define TURN_I(role, text) GRANITE(role) text "\1<|end_of_text|>\1\n"
static const struct chat_rule granite[] = {
    USER(NEW, NEW, TURN_I("system", "\5") TURN_I("user", "\2")),
    USER(0, 0, TURN_I("user", "\2")),
    ASSISTANT(TURN_I("assistant", "\2")),
    ASK(GRANITE("assistant")),
};

static const struct chat_rule vicuna[] = {
    USER(NEW, NEW, "\5\n\nUSER: \2\n"),
    USER(0, 0, "USER: \2\n"),
    ASSISTANT("ASSISTANT: \2\1\1\n"),
    ASK("ASSISTANT:"),
};

#define KNOWN(rules, thinking)                                \
    {                                                         \
#rules, rules, sizeof rules / sizeof *rules, thinking \
    }
const struct chat_known chat_known[] = {
    KNOWN(chatml, 0), KNOWN(gemma, 0),   KNOWN(granite, 0),  KNOWN(llama2, 0),
    KNOWN(llama3, 0), KNOWN(mistral, 0), KNOWN(phi3, 0),     KNOWN(qwen3, 1),
    KNOWN(vicuna, 0), KNOWN(zephyr, 0),  {NULL, NULL, 0, 0},
};
