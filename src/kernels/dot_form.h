/* How weights meet x in an integer dot: what simd_int.h asks of the vocabulary of ops_*.h */
#ifndef KERNELS_DOT_FORM_H
#define KERNELS_DOT_FORM_H

enum dot_form {
    DOT_Q8,    /* as the file has them; the values of q4c, too */
    DOT_Q4,    /* codes; the sum of x takes back their zero point */
    DOT_SPREAD /* as scratch has them, for many rows of x: SPREAD_LINES */
};

enum { ANY = 1 << 30 }; /* rows of x that meet weights of a type as they are: all */

#endif
