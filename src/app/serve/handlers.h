/* The handlers of all routes (routes.c), each in the file that its comment names. */
#ifndef SERVE_HANDLERS_H
#define SERVE_HANDLERS_H

#include "app/serve/server.h"

/* status_pages.c */
void handle_health(struct server *s, struct exchange *x);
void handle_metrics(struct server *s, struct exchange *x);
void handle_slots(struct server *s, struct exchange *x);
void handle_page(struct server *s, struct exchange *x);

#endif
