/* Chat sections of the families of templates that call tools, written by hand: what the tests of writing,
 * reading and constraining calls share. Special tokens are those of the vocabulary smollm2 and stand for
 * the family's own. */
#ifndef TESTS_TOOL_FAMILIES_H
#define TESTS_TOOL_FAMILIES_H

#include "chat_rules.h"

enum { FAMILY_RULES = 12, FAMILY_PARTS = 10 };

struct tool_family {
    const char *name;
    struct rule rules[FAMILY_RULES], parts[FAMILY_PARTS]; /* end with a text of NULL */
    uint32_t styles[3], n_styles;
    const char *forms[2][5]; /* ends with a first text of NULL */
    const char *skip[4];     /* ends with NULL */
    const char *behind[4];   /* ends with NULL */
    const char *thought[2];  /* marks, or NULL */
    uint64_t flags, id_length;
    const char *written;    /* the talk of tool_families.c */
    const char *answers[3]; /* each followed by its events, as tool_family_events says: */
    const char *events[3];  /* T text, H thought, C id name arguments */
};

enum { TOOL_FAMILIES = 6 };
extern const struct tool_family tool_families[TOOL_FAMILIES];

/* Tools, a question, an answer with calls, their results, an answer. */
enum { FAMILY_TALK = 6 };
extern const struct tern_chat_message tool_family_talk[FAMILY_TALK];
extern const char tool_family_tools[];

struct keywriter tool_family_section(const struct tool_family *f);
struct chat *tool_family_open(const struct tool_family *f, struct keywriter *k);

#endif
