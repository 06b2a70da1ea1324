/* Colours in a terminal: 24 bits, 256 colours, or characters that get darker. */
#ifndef LOOK_PAINT_H
#define LOOK_PAINT_H

#include "app/look/look_options.h"

enum paint { PAINT_NONE, PAINT_256, PAINT_TRUE };

/* --color, or what the terminal behind standard output can do: COLORTERM, TERM and NO_COLOR tell. */
enum paint paint_find(const struct look_options *o);

/* x in 0 .. 1, or in -1 .. 1 with `is_signed`, as cells whose background is its colour around `text`
 * (plain ASCII); without colours `text` as it is, or where text is NULL, a character a cell. */
void paint_cell(enum paint p, double x, bool is_signed, const char *text, size_t width);

/* Text of a model or user on the colour of x in 0 .. 1; control characters are made visible on a
 * terminal. */
void paint_text(enum paint p, double x, const char *text, size_t n);

/* A cell that cannot be seen. */
void paint_masked(enum paint p, size_t width);

/* Two cells above each other in one character: `top` and `bottom` in 0 .. 1, below 0: nothing. */
void paint_pair(enum paint p, double top, double bottom);

#endif
