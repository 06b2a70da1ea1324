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
    {"POST", "/v1/responses", ROUTE_JSON, handle_responses},
    {"POST", "/v1/responses/input_tokens", ROUTE_JSON, handle_input_tokens},
    {"POST", "/v1/messages", ROUTE_JSON | ROUTE_ANTHROPIC, handle_messages},
    {"POST", "/v1/messages/count_tokens", ROUTE_JSON | ROUTE_ANTHROPIC, handle_count_tokens},
};

const struct route *routes_find(const char *method, const char *path, bool *known)
{
    if (!strcmp(method, "HEAD"))
        method = "GET";
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct route *r = &routes[i];
        if (r->flags & ROUTE_PREFIX ? strncmp(path, r->path, strlen(r->path))
                                    : strcmp(path, r->path))
            continue;
        if (!strcmp(method, r->method))
            return r;
        *known = true;
    }
    return NULL;
}
