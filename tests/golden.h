/* Golden tests, read: tests/golden/NAME.txt (tools/golden.py wrote it) in; the model as a toy, its
 * tokens and the reference's logits out. For tests and tests/prog_*.c alike: no Check here.
 * tools/ternlib/golden_file.py explains the lines of the file. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "toy.h"

enum { GOLDEN_FREQS = 64, GOLDEN_ROWS = 8, GOLDEN_VOCAB = 96, GOLDEN_GREEDY = 32 };

/* All golden tests, NULL at the end. */
extern const char *const golden_names[];

struct golden {
    const char *name;
    struct toy toy; /* f32; its inv_freq points into this struct */
    float inv_freq[GOLDEN_FREQS];
    uint64_t prompt_seed;
    size_t n_prompt;
    uint64_t greedy[GOLDEN_GREEDY]; /* the reference's continuation */
    size_t n_rows, at[GOLDEN_ROWS]; /* recorded rows, and their positions */
    float row[GOLDEN_ROWS][GOLDEN_VOCAB];
};

/* Reads the file below the working directory; exits with a message when it cannot. */
void golden_read(struct golden *g, const char *name);

/* The first n tokens of the sequence that `seed` starts (golden_file.prompt_ids). */
void golden_prompt(tern_token *ids, size_t n, uint64_t seed, uint64_t vocab);

/* Writes the toy to a fresh path with its matrices as `type`; exits when it cannot. */
void golden_write(char *path, size_t size, const struct toy *toy, enum tern_type type);

#endif
