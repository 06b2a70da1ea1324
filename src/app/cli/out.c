/* Standard output: see out.h. */
#include "app/cli/out.h"

#include "app/cli/signals.h"
#include "app/cli/stopwatch.h"
#include "app/cli/visible.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failed; /* errno of the first write that failed */

/* Text that comes within a millisecond of the last write waits for more: a call of the system for
 * each token costs as much as half a token of a small model. */
static char held[4096];
static size_t n_held;
static double last_write; /* stopwatch_now */

void out_init(void)
{
    failed = 0, n_held = 0, last_write = 0;
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", O_RDWR); /* takes the lowest free number: fd */
    signal(SIGPIPE, SIG_IGN);
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN);
#endif
}

/* After a signal nothing waits for a reader that does not read. */
static bool may_write(void)
{
    struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};
    return !signals_caught() || poll(&p, 1, 0) > 0;
}

static bool write_all(const char *text, size_t n)
{
    if (!may_write())
        return false;
    while (n && !failed) {
        ssize_t done = write(STDOUT_FILENO, text, n);
        if (done > 0) {
            text += done;
            n -= (size_t)done;
        } else if (done < 0 && errno == EAGAIN) {
            struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};
            poll(&p, 1, -1);
        } else if (done < 0 && errno != EINTR) {
            failed = errno;
        }
        if (n && signals_caught())
            return false;
    }
    return !failed;
}

static bool write_held(void)
{
    size_t n = n_held;
    n_held = 0;
    return !n || write_all(held, n);
}

bool out_write(const char *text, size_t n)
{
    return write_held() && write_all(text, n);
}

bool out_stream(const char *text, size_t n)
{
    double now = stopwatch_now();
    if (n > sizeof held - n_held && !write_held())
        return false;
    if (n > sizeof held)
        return write_all(text, n);
    if (n) /* else text may be NULL */
        memcpy(held + n_held, text, n);
    n_held += n;
    if (now - last_write < 1e-3)
        return !failed;
    last_write = now;
    return write_held();
}

static void put_visible(void *arg, const char *text, size_t n)
{
    (void)arg;
    (void)out_stream(text, n);
}

bool out_text(const char *text, size_t n)
{
    if (!visible_on(STDOUT_FILENO))
        return out_stream(text, n);
    visible_text(put_visible, NULL, text, n);
    return out_stream("", 0);
}

bool out_print(const char *format, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, format);
    size_t n = visible_format(text, sizeof text, format, ap);
    va_end(ap);
    return out_text(text, n) && out_write("", 0);
}

bool out_closed(void)
{
    return failed == EPIPE;
}

enum tern_status out_status(struct tern_error *e)
{
    if (!failed || failed == EPIPE)
        return TERN_OK;
    e->code = TERN_IO;
    snprintf(e->text, sizeof e->text, "standard output: cannot write: %s", strerror(failed));
    return TERN_IO;
}
