/* What the suites of chat templates share: a vocabulary, rules as a section, what they make of a
 * conversation. */
#ifndef TESTS_CHAT_RULES_H
#define TESTS_CHAT_RULES_H

#include "text/chat.h"
#include "vocabulary.h"
#include "weights/keywriter.h"

struct rule {
    uint32_t mask, value;
    const char *text;
};

#define START "\1<|im_start|>\1"
#define STOP "\1<|im_end|>\1\n"

#define SYSTEM(words)                                              \
    {                                                              \
        .role = "system", .text = words, .bytes = sizeof words - 1 \
    }
#define USER(words)                                              \
    {                                                            \
        .role = "user", .text = words, .bytes = sizeof words - 1 \
    }
#define ASSISTANT(words)                                              \
    {                                                                 \
        .role = "assistant", .text = words, .bytes = sizeof words - 1 \
    }

enum { RULES_PLAIN = 6 };
extern const struct rule rules_plain[RULES_PLAIN];

extern struct vocabulary rules_vocabulary; /* has <|im_start|> and <|im_end|> */
void rules_setup(void);
void rules_teardown(void);

/* The section of n rules; the caller frees its bytes. */
struct keywriter rules_section(const struct rule *rules, size_t n, uint64_t thinking);

struct chat *rules_open(const struct rule *rules, size_t n, uint64_t thinking, struct keywriter *k);

/* The text of a conversation, which must be allowed, is `want`. */
void rules_write(const struct chat *c, const struct tern_chat_message *m, size_t n, unsigned flags,
                 const char *want);

/* How many ids it has; the first `max` go to ids. */
size_t rules_ids(const struct chat *c, const struct tern_chat_message *m, size_t n, unsigned flags,
                 int32_t *ids, size_t max);

#endif
