/* Command lines of all programs: a table of options in; values, or one sentence that names the
 * option, out. The table drives parsing, ranges and --help, and (checked by tests) the man page.
 * ADDING A KIND: a name in enum option_kind, its test in store() of parser.c. */
#ifndef CLI_PARSER_H
#define CLI_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern.h"

enum option_kind {
    FLAG,
    JOB, /* another job than the program's main one: at most one may be given */
    INTEGER,
    SEED,
    REAL,
    TEXT,
    LIST, /* a text that may be given several times */
    CHOICE,
    OPTIONAL_CHOICE, /* these two take a value after = only */
    OPTIONAL_INTEGER
};

enum { JOB_VALUE = 1 }; /* in .max of a JOB: it takes a value */

struct option_row {
    const char *text; /* three strings: see OPTION */
    int32_t min, max; /* of a number */
    char letter;      /* 0: none */
    unsigned char kind;
};

/* names: of the option, and then others that it has in other programs, separated by spaces; "-ctk":
 * a short one of several letters. value: its name; a choice: its words, separated by |. help: a
 * line of its own before the text is a title above this row. */
#define OPTION(letter, kind, min, max, names, value, help) \
    {                                                      \
        names "\0" value "\0" help, min, max, letter, kind \
    }

struct option_table {
    const struct option_row *rows; /* [n] */
    int n;
    const char *(*find_hint)(const char *argument); /* what another program's option is called */
    const char *(*value_hint)(const char *spelled, const char *value);
    const char *unknown; /* end of the sentence about an unknown option */
};

struct option_value {
    bool given;
    int64_t integer;  /* of an option with an integer */
    uint64_t seed;    /* of a SEED */
    double real;      /* of an option with a real number */
    const char *text; /* as written; borrowed from argv */
};

struct parser {
    const struct option_table *table;
    struct option_value *value; /* [n], the caller's */
    int job;                    /* row of the JOB that was given, or n */
    struct parser_text {
        int option;
        const char *text;
    } * texts; /* [n_texts] of LIST options, in their order; owned */
    size_t n_texts;
    const char **words; /* [n_words] arguments without a dash, and all after --; owned */
    size_t n_words;
};

/* Reads argv into p and value [n], which must be zero. Everything is borrowed from argv. */
enum tern_status parser_open(struct parser *p, const struct option_table *table,
                             struct option_value *value, int argc, char **argv,
                             struct tern_error *e);
void parser_close(struct parser *p);

/* The name of an option, for printf's %.*s. */
#define OPTION_NAME(row) (int)strcspn((row)->text, " "), (row)->text

/* The rows of --help, at most 80 columns, written to standard output. */
void parser_help(const struct option_table *table);

/* Fills e and returns its code. */
enum tern_status parser_no_memory(struct tern_error *e);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
enum tern_status
parser_usage(struct tern_error *e, const char *format, ...);

#endif
