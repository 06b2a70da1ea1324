/* A result as named fields, and fields as CSV, JSON or JSON lines on either output. Knows no test. */
#ifndef BENCH_BENCH_FIELDS_H
#define BENCH_BENCH_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_printer {
    const char *form; /* "md", "csv", "json", "jsonl", or NULL: nothing is printed */
    bool to_stderr;
    size_t n; /* results so far */
    char *ops;
    size_t ops_bytes; /* tables of operations, which follow the table of results */
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void bench_say(const struct bench_printer *p, const char *format, ...);

enum bench_field_kind { FIELD_STRING, FIELD_NUMBER, FIELD_BOOLEAN };

struct bench_field {
    const char *name; /* static */
    enum bench_field_kind kind;
    char text[256];
};

struct bench_fields {
    struct bench_field list[64];
    size_t n;
};

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
void bench_add(struct bench_fields *f, const char *name, enum bench_field_kind kind,
               const char *format, ...);
void bench_add_u64(struct bench_fields *f, const char *name, uint64_t value);
void bench_add_real(struct bench_fields *f, const char *name, double value);

/* What a JSON object has beside fields; each part begins with a comma and `gap`. */
typedef void (*bench_more_fn)(const struct bench_printer *p, const char *gap, const void *arg);

/* Around all rows, and a row, for every form but md. more may be NULL. */
void bench_fields_begin(const struct bench_printer *p);
void bench_fields_print(struct bench_printer *p, const struct bench_fields *f, bench_more_fn more,
                        const void *arg);
void bench_fields_end(const struct bench_printer *p);

#endif
