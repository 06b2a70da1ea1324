/* How many rows of prompts a step takes: as many as leave running streams their pace, by the times of the
 * steps before. In: the times. Out: a number. */
#ifndef SERVE_CHUNKS_H
#define SERVE_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

enum { CHUNKS_CLASSES = 8 };

struct chunks {   /* zeroed, then max */
    uint32_t max; /* rows of a batch */
    double
        base[CHUNKS_CLASSES]; /* [i] s: steps of up to 2^i streams and no prompt; 0: not measured */
    double beside, alone;     /* s a row takes, beside streams and without; 0: not measured */
    uint32_t last;            /* rows of the last step with streams, */
    double rest;              /* and what was too little for a row more */
    uint32_t since;           /* steps with rows of prompts since one without */
};

/* Rows for the next step of n_readers prompts, beside n_streams texts; 0, with streams only: none this
 * time. */
uint32_t chunks_choose(struct chunks *c, size_t n_streams, size_t n_readers);
/* A step of n_streams texts and n_rows rows of prompts took so long. */
void chunks_learn(struct chunks *c, size_t n_streams, size_t n_rows, double seconds);
/* What such a step will take, s; 0: unknown. */
double chunks_guess(const struct chunks *c, size_t n_streams, size_t n_rows);

#endif
