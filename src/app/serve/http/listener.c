/* The address that `serve` listens at: see listener.h. */
#include "app/serve/http/listener.h"

#include "app/cli/parser.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAITING = 1024 }; /* connections that the system holds until they are accepted */

static enum tern_status read_host(const char *host, struct sockaddr_storage *a, socklen_t *n,
                                  struct tern_error *e)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)a;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)a;
    memset(a, 0, sizeof *a);
    if (!strcmp(host, "localhost"))
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        a->ss_family = AF_INET;
        *n = sizeof *v4;
    } else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        a->ss_family = AF_INET6;
        *n = sizeof *v6;
    } else {
        return parser_usage(
            e, "--host: '%.100s' is not an address such as 127.0.0.1, 0.0.0.0 or ::1", host);
    }
    return TERN_OK;
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
}

enum tern_status listener_check(struct listener *l, const char *host, struct tern_error *e)
{
    struct sockaddr_storage a;
    socklen_t n;
    enum tern_status s = read_host(host, &a, &n, e);
    *l = (struct listener){.fd = -1, .loopback = !s && is_loopback(&a)};
    return s;
}

enum tern_status listener_open(struct listener *l, const char *host, int port, struct tern_error *e)
{
    struct sockaddr_storage a;
    socklen_t n;
    int on = 1;
    bool v6;
    enum tern_status s = read_host(host, &a, &n, e);
    if (s)
        return s;
    v6 = a.ss_family == AF_INET6;
    if (v6)
        ((struct sockaddr_in6 *)&a)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)&a)->sin_port = htons((uint16_t)port);
    l->loopback = is_loopback(&a);
    l->fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0 || setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(l->fd, (struct sockaddr *)&a, n) || listen(l->fd, WAITING) ||
        getsockname(l->fd, (struct sockaddr *)&a, &n)) {
        snprintf(e->text, sizeof e->text, "cannot listen at %.100s, port %d: %s", host, port,
                 strerror(errno));
        if (l->fd >= 0)
            close(l->fd);
        l->fd = -1;
        return e->code = TERN_IO;
    }
    l->port =
        ntohs(v6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
    snprintf(l->url, sizeof l->url, v6 ? "http://[%.60s]:%d" : "http://%.60s:%d", host, l->port);
    return TERN_OK;
}
