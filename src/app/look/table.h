/* Tables in a terminal whose cells are tokens. */
#ifndef LOOK_TABLE_H
#define LOOK_TABLE_H

#include "app/look/paint.h"
#include "app/look/subject.h"

/* Columns of the terminal behind standard output; 80 where it does not say. */
size_t table_width(void);

/* The token as a label padded to `columns`; returns text [room]. */
const char *table_label(const struct subject *s, tern_token token, size_t columns,
                        bool to_the_right, char *text, size_t room);

/* A token and its probability, "cat    .53", `columns` wide, on the colour of the probability. */
void table_choice(const struct subject *s, enum paint paint, tern_token token, double p,
                  size_t columns);

/* ".53", "1.0", in 3 columns; returns text */
const char *table_probability(double p, char text[8]);

#endif
