/* Who may ask what: the checks of a request's header. See frame.h.
 *
 * The order: form and size of the header, then Host and Origin, then the key, then the route. A page
 * of another site cannot read an answer or use the model: its Origin is not ours, and a name that was
 * made to point at this machine (DNS rebinding) is not a Host of ours. */
#include "app/serve/http/frame.h"

#include "app/cli/utf8.h"
#include "app/serve/http/request_head.h"
#include "app/serve/model/scheduler.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct header_sum {
    size_t n, bytes; /* cookies and parameters are no fields, but count among the n */
    size_t n_host, n_length, n_encoding;
    bool bad; /* a name or value with a byte that may not be there */
    bool folded;
};

/* A field of two lines, which is not allowed (RFC 9112, 5.2). MHD 0.9 appends the second one to the field's name: so a
 * length may be lost or made up. It does that in memory behind the header; else the value stands behind the name. */
static bool is_folded(const char *name, const char *value)
{
    return MHD_VERSION < 0x01000000 && value && (uintptr_t)value < (uintptr_t)name;
}

static bool is_token(const char *name)
{
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 127 ||
            strchr("\"(),/:;<=>?@[\\]{}", *p))
            return false;
    return *name != 0;
}

static enum MHD_Result count(void *arg, enum MHD_ValueKind kind, const char *name,
                             const char *value)
{
    struct header_sum *s = arg;
    s->n++;
    if (kind != MHD_HEADER_KIND)
        return MHD_YES;
    s->bytes += strlen(name) + (value ? strlen(value) : 0) + 4; /* ": " and CR LF */
    s->n_host += !strcasecmp(name, "host");
    s->n_length += !strcasecmp(name, "content-length");
    s->n_encoding += !strcasecmp(name, "transfer-encoding");
    s->folded |= is_folded(name, value);
    s->bad |= !is_token(name);
    for (const char *p = value ? value : ""; *p; p++)
        s->bad |= ((unsigned char)*p < ' ' && *p != '\t') || *p == 127;
    return MHD_YES;
}

/* ---- form and size -------------------------------------------------------------------------- */

static void check_length(struct exchange *x, const struct header_sum *s)
{
    const char *encoding = exchange_header(x, "transfer-encoding");
    struct fault before = x->fault;
    x->fault = (struct fault){0};
    if (s->folded)
        fault_set(&x->fault, 400, NULL, "bad_request", NULL, "a field of the header has two lines");
    else if (s->n_length > 1 || s->n_encoding > 1 || (s->n_length && s->n_encoding))
        fault_set(&x->fault, 400, NULL, "bad_request", NULL,
                  "the length of the body is stated twice");
    else if (encoding && strcasecmp(encoding, "chunked"))
        fault_set(&x->fault, 400, NULL, "bad_request", NULL,
                  "Transfer-Encoding: only chunked is supported");
    x->unclear = x->fault.status != 0;
    if (before.status)
        x->fault = before;
}

/* Blanks may stand behind the value of a field. */
static bool is_identity(const char *encoding)
{
    size_t n = strcspn(encoding, " \t");
    return !encoding[n + strspn(encoding + n, " \t")] &&
           (!n || (n == strlen("identity") && !strncasecmp(encoding, "identity", n)));
}

static void check_form(struct exchange *x, const struct header_sum *s)
{
    struct fault *f = &x->fault;
    size_t line = strlen(x->method) + strlen(x->target) + strlen(x->version) + 2;
    request_head_check_sizes(x->frame->server->options, line, s->n, s->bytes, f);
    if (s->bad)
        fault_set(f, 400, NULL, "bad_request", NULL,
                  "a field of the header has a byte that is not allowed there");
    if (strcmp(x->version, "HTTP/1.1") && strcmp(x->version, "HTTP/1.0"))
        fault_set(f, 400, NULL, "bad_request", NULL, "only HTTP/1.1 and HTTP/1.0 are supported");
    const char *encoding = exchange_header(x, "content-encoding");
    if (encoding && !is_identity(encoding))
        fault_set(f, 415, NULL, "unsupported_encoding", NULL,
                  "Content-Encoding %.40s is not supported: send the body as it is", encoding);
    check_length(x, s);
}

/* ---- the path ------------------------------------------------------------------------------- */

static int hex(char c)
{
    const char *digits = "0123456789abcdef", *p = c ? strchr(digits, c | 32) : NULL;
    return p && (c > '9' || c == *p) ? (int)(p - digits) : -1;
}

/* The first n bytes of text with %XX decoded, owned; NULL: they are no path, or memory ran out. */
static char *decode(const char *text, size_t n)
{
    char *path = malloc(n + 1);
    size_t to = 0;
    for (size_t i = 0; path && i < n; i++) {
        int c = (unsigned char)text[i];
        if (c == '%') {
            int high = i + 2 < n ? hex(text[i + 1]) : -1, low = i + 2 < n ? hex(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                goto bad;
            c = high * 16 + low;
            i += 2;
        }
        if (c < ' ' || c == 127 || c == '\\')
            goto bad;
        path[to++] = (char)c;
    }
    if (path)
        path[to] = 0;
    if (path && utf8_is_valid(path, to))
        return path;
bad:
    free(path);
    return NULL;
}

/* ---- Host and Origin ------------------------------------------------------------------------ */

/* Splits HOST[:PORT] or [V6][:PORT]: the host's first byte and length. */
static const char *host_of(const char *text, size_t *n)
{
    const char *end;
    if (*text == '[') {
        end = strchr(++text, ']');
        *n = end ? (size_t)(end - text) : 0;
        end = end ? end + 1 : "?";
    } else {
        *n = strcspn(text, ": \t");
        end = text + *n;
    }
    if (*end == ':')
        end += 1 + strspn(end + 1, "0123456789");
    if (strspn(end, " \t") !=
        strlen(end)) /* blanks behind a value are no part of it (RFC 9110, 5.5) */
        *n = 0;
    return text;
}

/* A name that leads here: localhost, any address (a name is what an attacker can point at us), what
 * --allow-host lists. */
static bool is_ours(const struct serve_options *o, const char *text)
{
    char name[256];
    unsigned char address[16];
    size_t n;
    const char *host = host_of(text, &n);
    if (!n || n >= sizeof name)
        return false;
    memcpy(name, host, n);
    name[n] = 0;
    if (!strcasecmp(name, "localhost") || inet_pton(AF_INET, name, address) == 1 ||
        inet_pton(AF_INET6, name, address) == 1)
        return true;
    for (size_t i = 0; i < o->n_hosts; i++)
        if (!strcasecmp(name, o->hosts[i]))
            return true;
    return false;
}

static void check_name(struct exchange *x, const char *host)
{
    if (!is_ours(x->frame->server->options, host))
        fault_set(&x->fault, 403, NULL, "host_not_allowed", NULL,
                  "the Host '%.100s' is not a name of this server; start it with --allow-host NAME",
                  host);
}

static void check_host(struct exchange *x, const struct header_sum *s)
{
    const char *host = exchange_header(x, "host");
    if (s->n_host > 1 || (!s->n_host && !strcmp(x->version, "HTTP/1.1")))
        fault_set(&x->fault, 400, NULL, "bad_request", NULL, "exactly one Host is needed");
    else if (host)
        check_name(x, host);
}

/* Bytes of a value without the blanks at its end, which are no part of it (RFC 9110, 5.5) */
static size_t trimmed(const char *value)
{
    size_t n = strlen(value);
    while (n && (value[n - 1] == ' ' || value[n - 1] == '\t'))
        n--;
    return n;
}

/* Our own page: http or https, then the Host. */
static bool is_own_origin(const char *origin, const char *host)
{
    size_t n = !strncmp(origin, "http://", 7) ? 7 : !strncmp(origin, "https://", 8) ? 8 : 0;
    size_t n_host = host ? trimmed(host) : 0;
    return n && n_host && strlen(origin + n) == n_host && !strncasecmp(origin + n, host, n_host);
}

static void check_origin(struct exchange *x)
{
    const struct option_value *cors = &x->frame->server->options->value[SERVE_CORS];
    const char *origin = exchange_header(x, "origin");
    if (!origin || is_own_origin(origin, exchange_header(x, "host")))
        return;
    if (!cors->given ||
        (strcmp(cors->text, "*") && !parser_in_list(cors->text, ',', origin, strlen(origin)))) {
        fault_set(&x->fault, 403, NULL, "origin_not_allowed", NULL,
                  "pages of '%.100s' may not use this server; start it with --cors ORIGIN", origin);
        return;
    }
    exchange_add_header(x, "Access-Control-Allow-Origin", origin);
    exchange_add_header(x, "Access-Control-Expose-Headers", "*");
    exchange_add_header(x, "Vary", "Origin");
}

/* A browser asks before it sends: no key comes with that. */
static bool is_preflight(struct exchange *x)
{
    const char *headers = exchange_header(x, "access-control-request-headers");
    if (strcmp(x->method, "OPTIONS") || !exchange_header(x, "access-control-request-method"))
        return false;
    exchange_add_header(x, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    if (headers)
        exchange_add_header(x, "Access-Control-Allow-Headers", headers);
    exchange_add_header(x, "Access-Control-Max-Age", "600");
    return true;
}

/* ---- the target ----------------------------------------------------------------------------- */

/* The path in a target. With a proxy's form, http://HOST/PATH, its host must be ours, too. */
static const char *path_of(struct exchange *x)
{
    const char *path = x->target;
    char host[256];
    if (strncasecmp(path, "http://", 7) != 0)
        return path;
    path += 7;
    size_t n = strcspn(path, "/?#");
    snprintf(host, sizeof host, "%.*s", (int)(n < sizeof host ? n : 0), path);
    check_name(x, host);
    return path[n] == '/' ? path + n : "/";
}

/* No path leads to a file, so that nothing here protects one; a path that tries is still refused. */
static void find_path(struct exchange *x)
{
    const char *path = path_of(x);
    if (*path == '/')
        x->path = decode(path, strcspn(path, "?#"));
    if (!x->path || strstr(x->path, "/../") || strstr(x->path, "//") ||
        (strlen(x->path) >= 3 && !strcmp(x->path + strlen(x->path) - 3, "/..")))
        fault_set(&x->fault, 400, NULL, "bad_request", NULL, "the path is not valid");
}

/* ---- key and route -------------------------------------------------------------------------- */

static void check_key(struct exchange *x, unsigned flags)
{
    const char *text = exchange_header(x, "authorization");
    const struct api_keys *keys = &x->frame->keys;
    if (text && !strncasecmp(text, "Bearer ", 7))
        text += 7 + strspn(text + 7, " ");
    else
        text = exchange_header(x, "x-api-key");
    size_t found = text ? api_keys_find(keys, text, trimmed(text)) : 0;
    x->client = found ? found : x->c->address;
    if (!keys->n || found || (flags & ROUTE_NO_KEY) || x->fault.status)
        return;
    exchange_add_header(x, "WWW-Authenticate", "Bearer");
    fault_set(&x->fault, 401, NULL, "invalid_api_key", NULL,
              text ? "the API key is not valid"
                   : "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
}

static void refuse_route(struct exchange *x, const char *allowed)
{
    if (x->fault.status)
        return;
    if (allowed) {
        exchange_add_header(x, "Allow", allowed);
        fault_set(&x->fault, 405, NULL, "method_not_allowed", NULL, "%.20s is not for %.200s",
                  x->method, x->path);
    } else {
        fault_set(&x->fault, 404, NULL, "not_found", NULL, "there is no %.300s", x->path);
    }
}

void gate_state(struct exchange *x)
{
    const struct server *s = x->frame->server;
    struct tern_error e;
    if (s->draining)
        fault_set(&x->fault, 503, NULL, "shutting_down", NULL, "%s",
                  s->loaded && scheduler_status(s->scheduler, &e) ? SCHEDULER_LOST
                                                                  : "the server is about to end");
    else if (!s->loaded && !(x->route->flags & ROUTE_WHILE_LOADING))
        fault_set(&x->fault, 503, NULL, "loading", NULL, "the model is being loaded");
    if (x->fault.status == 503)
        x->fault.retry_after = 2;
}

void gate_check(struct exchange *x, struct MHD_Connection *mhd)
{
    struct header_sum sum = {0};
    const char *allowed = NULL;
    MHD_get_connection_values(mhd, MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND, count,
                              &sum);
    find_path(x);
    check_form(x, &sum);
    check_host(x, &sum);
    check_origin(x);
    if (!x->fault.status && is_preflight(x)) {
        x->status = 204;
        x->ended = true;
        return;
    }
    if (x->path)
        x->route = routes_find(x->method, x->path, &allowed);
    x->shape_anthropic = routes_are_anthropic(x->route, x->path ? x->path : "",
                                              exchange_header(x, "anthropic-version") != NULL);
    check_key(x, x->route ? x->route->flags : 0);
    if (!x->route)
        refuse_route(x, allowed);
    else
        gate_state(x);
}
