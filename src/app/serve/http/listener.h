/* The address that `serve` listens at. */
#ifndef SERVE_LISTENER_H
#define SERVE_LISTENER_H

#include "tern.h"

#include <stdbool.h>

struct listener {
    int fd, port;
    bool loopback; /* nobody else can reach it */
    char url[96];  /* "http://127.0.0.1:8080" */
};

/* Checks `host`, an address or "localhost", and says whether it is this machine's alone. */
enum tern_status listener_check(struct listener *l, const char *host, struct tern_error *e);
/* Opens it; port 0: a free one. */
enum tern_status listener_open(struct listener *l, const char *host, int port,
                               struct tern_error *e);

#endif
