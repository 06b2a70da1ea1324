/* What every handler of `serve` knows. main_serve.c owns it. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "tern.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct exchange;
struct scheduler;
struct serve_options;

struct fill_in_marks { /* around the texts of a prompt whose middle is wanted (api/fill_in.h); -1: none */
    tern_token prefix, suffix, middle;
};

struct server {
    const struct serve_options *options;
    /* The model thread fills these while it loads. Other threads read them once `loaded` is set;
     * handlers of routes without ROUTE_WHILE_LOADING always find it set. */
    tern_model *model;
    struct tern_model_info info;
    struct tern_memory plan; /* of the context that the model thread opened */
    struct fill_in_marks fill_in;
    size_t longest_token; /* bytes; 0: the model has no text */
    atomic_bool loaded;
    struct scheduler *scheduler;
    const char *model_name; /* --alias, else the name of the file without ".bin" */
    int64_t started;        /* Unix time */
    bool draining;          /* asked to end: running answers end, no new ones begin */
    bool is_shared; /* clients can be told apart, so that some may be kept for others. Settled before the
                     * scheduler begins */
};

enum {                          /* flags of a route */
       ROUTE_NO_KEY = 1,        /* no API key is asked for */
       ROUTE_WHILE_LOADING = 2, /* answers before the model is loaded; others give 503 */
       ROUTE_ANTHROPIC = 4,     /* errors have the form of Anthropic's API */
       ROUTE_JSON = 8,          /* the body is a JSON object: exchange_json */
       ROUTE_PREFIX = 16,       /* and all paths that begin so: exchange_rest */
};

typedef void (*route_handler)(struct server *s, struct exchange *x);

struct route {
    const char *method, *path;
    unsigned flags;
    route_handler handle;
};

/* The path under which a request for this path finds the route: with or without /v1. */
const char *routes_name(const struct route *r, const char *path);

/* The route of a request. NULL: none; *allowed then names the methods that the path has, as the header
 * Allow does, or is NULL if there is no such path. */
const struct route *routes_find(const char *method, const char *path, const char **allowed);

/* Whether errors of this route have the form of Anthropic's API; r NULL: of a path that has none, below
 * /v1/messages or where the client names that API's version. */
bool routes_are_anthropic(const struct route *r, const char *path, bool names_version);

#endif
