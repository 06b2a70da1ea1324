/* A chat template as its section holds it: rules, rules of parts, styles, the forms of calls. Everything
 * in it is checked when it is read, so that what writes and reads by it need not. */
#ifndef TEXT_CHAT_SECTION_H
#define TEXT_CHAT_SECTION_H

#include "text/chat.h"
#include "text/thoughts.h"

enum { CHAT_STOP_MAX = 48, CHAT_GROUPS_MAX = 4, CHAT_STYLES_MAX = 10, CHAT_FORMS_MAX = 4 };
enum { CHAT_SKIP_MAX = 8, CHAT_ENDS_MAX = 4 };
enum { CHAT_PLAIN_STYLE = 1 /* what '-' stands for: TOJSON_STR */ };

struct chat_rule {
    uint32_t mask, value; /* of enum chat_when, or chat_part_when */
    uint32_t n;
    const char *p; /* [n], in the section */
};

enum { CHAT_CALLS_FIRST = 1, CHAT_CALLS_ONE = 2 }; /* flags of forms */

/* How an answer writes calls: texts with operations NAME, VALUE and LIST */
struct chat_form {
    struct mark trigger, begin, call, between, end;
};

struct chat {
    const struct tokenizer *t;       /* borrowed */
    struct chat_rule *rules, *parts; /* [n], [n_parts] */
    size_t n, n_parts;
    bool builtin; /* a special token that the tokenizer lacks becomes text */
    bool tools;   /* the rules know tools */
    struct thoughts thoughts;
    struct mark skip[CHAT_SKIP_MAX];
    struct mark behind[CHAT_SKIP_MAX]; /* [n_behind] no text; a call may begin behind them, too */
    int32_t marks[2];                  /* tokens of the marks of thoughts, or -1 */
    int32_t ends[CHAT_ENDS_MAX];       /* [n_ends], which end an answer */
    uint32_t styles[CHAT_STYLES_MAX];
    size_t n_ends, n_styles, n_forms, n_behind;
    struct chat_form forms[CHAT_FORMS_MAX];
    unsigned form_flags;
    uint64_t id_length; /* of a call; 0: any */
    char name[64], stop[CHAT_STOP_MAX];
    uint64_t hash; /* XXH64 of the section */
    struct tern_chat_info info;
};

/* Fills c, whose tokenizer is set. */
enum tern_status chat_section_read(struct chat *c, const void *section, size_t n,
                                   struct tern_error *e);
/* The section of a built-in template; `code`: the status where there is none of that name. */
enum tern_status chat_section_builtin(struct chat *c, const char *name, size_t n,
                                      enum tern_status code, struct tern_error *e);

/* The first rule that holds, or NULL. */
const struct chat_rule *chat_rule_find(const struct chat_rule *rules, size_t n, unsigned when);

#endif
