/* What a head does: see head_scores.h. */
#include "app/look/head_scores.h"

#include "app/cli/signals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Adds row i [i + 1 weights, length n] to the sums. */
static void add_row(struct head_scores *t, const tern_token *tokens, size_t i, const float *w)
{
    double sum = 0, bits = 0;
    for (size_t j = 0; j <= i; j++) {
        double x = (double)w[j];
        sum += x;
        bits -= x > 0 ? x * log2(x) : 0;
        t->duplicate += j < i && tokens[j] == tokens[i] ? x : 0;
        t->induction += j && j < i && tokens[j - 1] == tokens[i] ? x : 0;
    }
    double left = sum < 1 ? 1 - sum : 0; /* the sink's */
    t->entropy += bits - (left > 1e-6 ? left * log2(left) : 0);
    t->sink += (double)w[0] + (left > 1e-6 ? left : 0);
    t->previous += (double)w[i - 1];
}

static void divide(struct head_scores *t, double n)
{
    double *const all[] = {&t->entropy, &t->sink, &t->previous, &t->duplicate, &t->induction};
    for (size_t i = 0; n > 0 && i < sizeof all / sizeof *all; i++)
        *all[i] /= n;
}

/* The cell of position i, of `side` cells over n positions */
static size_t cell_of(size_t i, size_t side, size_t n)
{
    return ((i + 1) * side - 1) / n;
}

enum tern_status head_picture_take(struct head_picture *p, const struct subject *s,
                                   const tern_attention *a, size_t side, float *row,
                                   struct tern_error *e)
{
    size_t n = tern_attention_length(a);
    p->side = side < n ? side : n;
    p->scores = (struct head_scores){0};
    p->cells = calloc(p->side, p->side);
    if (!p->cells)
        return parser_no_memory_for(e, "the picture of a head");
    for (size_t i = 0; i < n; i++) {
        enum tern_status status = tern_attention_rows(a, p->layer, p->head, TERN_ATTENTION_WEIGHTS,
                                                      (uint32_t)i, 1, row, n, e);
        if (status)
            return status;
        if (signals_caught())
            return e->code = TERN_CANCELLED;
        unsigned char *cells = p->cells + cell_of(i, p->side, n) * p->side;
        for (size_t j = 0; j < n; j++) {
            unsigned char *cell = &cells[cell_of(j, p->side, n)];
            unsigned char x = (unsigned char)lrintf(255 * fminf(row[j], 1));
            *cell = x > *cell ? x : *cell;
        }
        if (i)
            add_row(&p->scores, s->tokens, i, row);
    }
    divide(&p->scores, (double)n - 1);
    return TERN_OK;
}
