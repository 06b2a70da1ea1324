/* `bench attention`: what attention costs by length, KV heads and window: time, bytes, multiply-adds
 * and scratch memory apart, of the kinds of the attention zoo and of the engine's own. In: the
 * options. Out: a row for each line and length; in Markdown then the exponents, and a plot. */
#ifndef BENCH_BENCH_ATTENTION_H
#define BENCH_BENCH_ATTENTION_H

#include "app/bench/bench_fields.h"
#include "app/bench/bench_options.h"

enum tern_status bench_attention(const struct bench_options *o, struct bench_printer *printers,
                                 size_t n_printers, struct tern_error *e);

#endif
