/* Text for standard output that is wrapped between words, if that is a terminal. */
#ifndef CLI_WRAP_H
#define CLI_WRAP_H

#include <stdbool.h>
#include <stddef.h>

#include "app/cli/growing_text.h"

struct wrap {
    size_t width;             /* columns of the terminal; 0: nothing is wrapped */
    size_t column;            /* of the text that was written */
    struct growing_text word; /* spaces and the word behind them, held until its end is known */
    size_t spaces, columns;   /* bytes of these spaces; columns of all that is held */
    bool flows;               /* the word is longer than a line: it is written as it comes */
};

void wrap_open(struct wrap *w); /* at the begin of a line; asks the terminal for its width */
void wrap_close(struct wrap *w);

/* out_text of whole characters; the last word may wait for wrap_end. */
bool wrap_text(struct wrap *w, const char *text, size_t n);
bool wrap_end(struct wrap *w);

#endif
