/* Command lines of all programs: a table of options in; values out, or one sentence that names the
 * wrong option. Parsing, ranges and --help follow from the table; tests hold the man pages to it.
 * ADDING A KIND: a name in enum option_kind, a case in read_value() of parser.c. */
#ifndef CLI_PARSER_H
#define CLI_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern.h"

enum option_kind {
    FLAG,
    JOB, /* instead of what the program does otherwise; at most one may be given */
    INTEGER,
    SEED,
    REAL,
    TEXT,
    LIST, /* a text that may be given several times */
    CHOICE,
    OPTIONAL_CHOICE, /* of these two a value can only follow after = */
    OPTIONAL_INTEGER
};

struct option_row {
    char letter;       /* 0: none */
    const char *names; /* the option's, then what other programs call it, separated by spaces;
                        * "-ctk" is a short name of several letters */
    enum option_kind kind;
    int64_t min, max;  /* of a number */
    const char *value; /* what --help calls the value; the words of a choice, separated by |; NULL
                        * where no value is taken */
    const char *(*words)(void); /* those of a choice, where the library knows them; else NULL */
    const char *help;
    const char *title; /* of the group of options that begins with this row, else NULL */
};

/* Rows that several programs have. */
#define OPTION_MODEL                                                \
    .letter = 'm', .names = "model", .kind = TEXT, .value = "FILE", \
    .help = "the weights file; default: the first argument"
#define OPTION_LOAD                                       \
    .names = "load", .kind = CHOICE, .value = "map|copy", \
    .help = "use the weights file in place, or copy it to memory first; default map"
#define OPTION_THREADS                                                                       \
    .letter = 't', .names = "threads", .kind = INTEGER, .min = 1, .max = 1024, .value = "N", \
    .help = "default: the number of CPU cores you may use"
#define OPTION_SHARE                                      \
    .names = "share", .kind = TEXT, .value = "A,B,...",   \
    .help = "of each machine, in whole numbers, or: measured; default: all the same"
#define OPTION_QUIET \
    .letter = 'q', .names = "quiet silent", .kind = FLAG, .help = "show errors only"
#define OPTION_HELP .letter = 'h', .names = "help", .kind = JOB, .help = "show this text"
#define OPTION_VERSION .names = "version", .kind = JOB, .help = "print the version of tern"

struct option_table {
    const char *examples;          /* the first lines of --help */
    const char *usage;             /* the lines after them */
    const struct option_row *rows; /* [n], in the order of --help */
    int n;
    const char *unknown; /* where the options are listed; follows an unknown one */
    const char *(*find_hint)(const char *argument); /* what another program's option is called */
    const char *(*value_hint)(const char *spelled, const char *value); /* or NULL, both */
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
#define OPTION_NAME(row) (int)strcspn((row)->names, " "), (row)->names

/* True when text [n] is one of the words of `list`, which `gap` separates. */
bool parser_in_list(const char *list, char gap, const char *text, size_t n);

/* --help: examples, usage and all rows, at most 80 columns wide, to standard output. */
void parser_help(const struct option_table *table);

#if defined(__GNUC__)
#define PARSER_FORMAT __attribute__((format(printf, 2, 3)))
#else
#define PARSER_FORMAT
#endif

/* Each fills e and returns its code. parser_no_memory_for: "not enough memory for", then what. */
enum tern_status parser_no_memory(struct tern_error *e);
PARSER_FORMAT enum tern_status parser_no_memory_for(struct tern_error *e, const char *format, ...);
PARSER_FORMAT enum tern_status parser_usage(struct tern_error *e, const char *format, ...);

#endif
