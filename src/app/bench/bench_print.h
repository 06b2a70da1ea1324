/* Results of `bench` as Markdown, CSV, JSON or JSON lines: llama-bench's fields by name and in its
 * order, then ours. ADDING A FIELD: a line in fill_fields of bench_print.c. */
#ifndef BENCH_BENCH_PRINT_H
#define BENCH_BENCH_PRINT_H

#include "app/bench/bench_fields.h"
#include "app/bench/bench_test.h"

void bench_print_begin(struct bench_printer *p);
void bench_print(struct bench_printer *p, const struct bench_result *r);
void bench_print_end(struct bench_printer *p);

/* "pp512", "tg128 @ d512", "pp512+tg128" */
void bench_test_name(const struct bench_plan *plan, char *text, size_t n);

#endif
