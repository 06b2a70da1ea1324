/* Heat maps in a terminal: true colours, 256 colours or plain text, by what it can do. */
#ifndef LOOK_TERMINAL_MAP_H
#define LOOK_TERMINAL_MAP_H

#include "app/look/subject.h"

/* TERN_LIMIT for one head of more tokens than fit. Ask before the model runs. */
enum tern_status terminal_map_check(const struct subject *s, struct tern_error *e);

/* --head: one head with its tokens and numbers; otherwise every head of the chosen layers, small. */
enum tern_status terminal_map_show(const struct subject *s, const tern_attention *a,
                                   struct tern_error *e);

#endif
