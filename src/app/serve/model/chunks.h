/* How many rows of prompts a step takes: as many as leave running streams their pace, by the times of the
 * steps before. In: the times. Out: a number. */
#ifndef SERVE_CHUNKS_H
#define SERVE_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

enum { CHUNKS_CLASSES = 8, CHUNKS_QUADS = 16 };

struct chunks {   /* zeroed, then max */
    uint32_t max; /* rows of a batch */
    double
        base[CHUNKS_CLASSES]; /* [i] s: steps of up to 2^i streams and no prompt; 0: not measured */
    double median[CHUNKS_CLASSES]; /* [i] s: of these steps */
    double alone;                  /* s a row takes without streams; 0: not measured */
    double quads[CHUNKS_QUADS]; /* [n] s that n groups of four rows add to base; 0: not measured */
    double seen;                /* s of what rows attend to */
    double before;              /* s: base when the last prompt came */
    size_t n_streams;           /* of the last step with prompts, */
    size_t unread;              /* and what was unread then */
    uint32_t last;              /* rows of the last step with streams */
    uint32_t since;             /* steps with rows of prompts since one without */
    uint32_t late;              /* steps in a row that took longer than expected */
};

struct prompt_reader {    /* a prompt */
    size_t unread, depth; /* rows that are still to come, and those before them */
};

/* In the order in which a step takes their rows */
struct prompt_readers {
    size_t n;
    const struct prompt_reader *of; /* [n] */
};

/* Rows of prompts for the next step, beside n_streams texts; 0, with streams only: none this time. */
uint32_t chunks_choose(struct chunks *c, size_t n_streams, const struct prompt_readers *r);
/* A step of n_streams texts and the first n_rows rows of these prompts took so long. */
void chunks_learn(struct chunks *c, size_t n_streams, size_t n_rows, const struct prompt_readers *r,
                  double seconds);
/* What such a step will take, s; 0: unknown. */
double chunks_guess(const struct chunks *c, size_t n_streams, size_t n_rows,
                    const struct prompt_readers *r);

#endif
