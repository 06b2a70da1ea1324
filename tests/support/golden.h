/* Golden tests, read: tests/golden/NAME.txt (tools/golden.py wrote it) in; the model in the words
 * of src/weights/FORMAT.md, its tokens and the reference's logits out. For tests and tests/prog_*.c
 * alike: no Check here. tools/tern/testing/golden_file.py explains the lines of the file. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <stdbool.h>

#include "weights/keywriter.h"
#include "toy.h"

enum { GOLDEN_ROWS = 8, GOLDEN_VOCAB = 96, GOLDEN_GREEDY = 32, GOLDEN_TENSORS = 256 };

/* All golden tests, NULL at the end; the first GOLDEN_EXACT have constants in fingerprints.txt,
 * held in many ways (prog_exact); all have two in graphs.txt (test_golden). */
extern const char *const golden_names[];
enum { GOLDEN_EXACT = 31 };

int golden_count(void); /* without that NULL */
/* Where programs are slow (QUICK), tests do a part: whether a test of all models is to take this one,
 * each or a fifth; and how many of n are enough, all or the first half. Under the thread sanitizer
 * (QUICK=threads) only what threads do together counts: a fifteenth, and the first quarter. */
bool golden_is_quick(void);
bool golden_is_threaded(void);
bool golden_is_due(int i);
int golden_few(int n);
int golden_alone(int n); /* of n tests of one thread: all, or none under the thread sanitizer */

/* max|a - b| / max|b| of n numbers; not a number where a difference is none */
double golden_distance(const float *a, const float *b, size_t n);

struct golden_tensor {
    char name[48];
    uint64_t rows, k, matrices;
    bool f32;  /* in files of every type */
    bool ones; /* every value is 1 */
};

struct golden {
    const char *name;
    uint64_t vocab, seed;    /* seed: of the weights (toy.h) */
    bool windowed;           /* some layer has a window */
    bool recurrent;          /* some layer keeps a state */
    struct keywriter config; /* the section; freed by golden_close */
    struct golden_tensor tensors[GOLDEN_TENSORS];
    size_t n_tensors;
    uint64_t prompt_seed, n_prompt;
    uint64_t greedy[GOLDEN_GREEDY]; /* the reference's continuation */
    size_t n_rows, at[GOLDEN_ROWS]; /* recorded rows, and their positions */
    float row[GOLDEN_ROWS][GOLDEN_VOCAB];
};

/* Reads the file below the working directory; exits with a message when it cannot. */
void golden_read(struct golden *g, const char *name);

/* The first n tokens of the sequence that `seed` starts (golden_file.prompt_ids). */
void golden_prompt(tern_token *ids, size_t n, uint64_t seed, uint64_t vocab);

/* Writes the model to a fresh path with its matrices as `type`; exits when it cannot. */
void golden_write(char *path, size_t size, const struct golden *g, enum tern_type type);

void golden_close(struct golden *g);

#endif
