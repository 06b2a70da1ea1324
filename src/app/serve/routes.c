/* The table of routes.
 * ADDING A ROUTE: a row here, a handler declared in handlers.h, its lines in openapi.json. */
#include "app/serve/handlers.h"

#include <string.h>

static const struct route routes[] = {
    {"GET", "/", ROUTE_NO_KEY | ROUTE_WHILE_LOADING, handle_page},
    {"GET", "/health", ROUTE_NO_KEY | ROUTE_WHILE_LOADING, handle_health},
    {"GET", "/openapi.json", ROUTE_NO_KEY | ROUTE_WHILE_LOADING, handle_openapi},
    {"GET", "/metrics", ROUTE_WHILE_LOADING, handle_metrics},
    {"GET", "/slots", 0, handle_slots},
    {"POST", "/v1/chat/completions", ROUTE_JSON, handle_chat},
    {"POST", "/v1/completions", ROUTE_JSON, handle_completions},
    {"POST", "/v1/embeddings", ROUTE_JSON, handle_embeddings},
    {"GET", "/v1/models", 0, handle_models},
    {"GET", "/v1/models/", ROUTE_PREFIX, handle_model},
    {"GET", "/props", 0, handle_props},
    {"POST", "/tokenize", ROUTE_JSON, handle_tokenize},
    {"POST", "/detokenize", ROUTE_JSON, handle_detokenize},
    {"POST", "/apply-template", ROUTE_JSON, handle_apply_template},
    {"POST", "/attention", ROUTE_JSON, handle_attention},
    {"POST", "/v1/responses", ROUTE_JSON, handle_responses},
    {"POST", "/v1/responses/input_tokens", ROUTE_JSON, handle_input_tokens},
    {"POST", "/v1/messages", ROUTE_JSON | ROUTE_ANTHROPIC, handle_messages},
    {"POST", "/v1/messages/count_tokens", ROUTE_JSON | ROUTE_ANTHROPIC, handle_count_tokens},
};

/* A base URL without /v1 works, too, as with llama-server. */
const char *routes_name(const struct route *r, const char *path)
{
    return !strncmp(r->path, "/v1/", 4) && strncmp(path, "/v1/", 4) ? r->path + 3 : r->path;
}

/* No path has routes of two methods. */
const struct route *routes_find(const char *method, const char *path, const char **allowed)
{
    *allowed = NULL;
    if (!strcmp(method, "HEAD"))
        method = "GET";
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct route *r = &routes[i];
        const char *name = routes_name(r, path);
        if (r->flags & ROUTE_PREFIX ? strncmp(path, name, strlen(name)) : strcmp(path, name))
            continue;
        if (!strcmp(method, r->method))
            return r;
        *allowed = strcmp(r->method, "GET") ? r->method : "GET, HEAD";
    }
    return NULL;
}

bool routes_are_anthropic(const struct route *r, const char *path, bool names_version)
{
    static const char own[] = "/v1/messages";
    const char *name = strncmp(path, "/v1/", 4) ? own + 3 : own;
    size_t n = strlen(name);
    if (r)
        return r->flags & ROUTE_ANTHROPIC;
    return names_version || (!strncmp(path, name, n) && (!path[n] || path[n] == '/'));
}
