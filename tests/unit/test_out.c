/* Text that comes in many pieces: all of it arrives, in order, whatever its sizes and whoever else
 * writes; what cannot be written is remembered. */
#include "app/cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/cli/signals.h"
#include "app/cli/stopwatch.h"
#include "suite.h"

/* The clock and the signals of the program, in the test's hands. */
static double now;
static int caught;

double stopwatch_now(void)
{
    return now;
}

int signals_caught(void)
{
    return caught;
}

enum { ROOM = 200000 };
static int saved, ends[2];

/* Standard output becomes a pipe that is read at the end; a pipe holds 65536 bytes. */
static void setup(void)
{
    out_init();
    now = 10, caught = 0;
    saved = dup(STDOUT_FILENO);
    ck_assert(!pipe(ends) && dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
    close(ends[1]);
}

static void teardown(void)
{
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(ends[0]);
}

/* What the pipe holds now. */
static size_t arrived(char *text, size_t max)
{
    size_t n = 0;
    struct pollfd p = {ends[0], POLLIN, 0};
    while (poll(&p, 1, 0) > 0 && p.revents & POLLIN && n < max) {
        ssize_t got = read(ends[0], text + n, max - n);
        ck_assert(got > 0);
        n += (size_t)got;
    }
    return n;
}

START_TEST(pieces_wait_for_a_millisecond)
{
    char text[64];
    ck_assert(out_stream("one", 3)); /* the last write is long ago */
    ck_assert(arrived(text, sizeof text) == 3 && !memcmp(text, "one", 3));
    now += 0.5e-3;
    ck_assert(out_stream(" two", 4) && out_stream("", 0) && arrived(text, sizeof text) == 0);
    now += 0.6e-3;
    ck_assert(out_stream(" three", 6));
    ck_assert(arrived(text, sizeof text) == 10 && !memcmp(text, " two three", 10));
    ck_assert(out_stream("!", 1) && arrived(text, sizeof text) == 0);
    ck_assert(out_write("", 0) && arrived(text, sizeof text) == 1 && text[0] == '!');
}
END_TEST

/* Pieces of all sizes around that of the buffer, every fifth followed by a write of its own */
START_TEST(nothing_is_lost)
{
    static const size_t sizes[] = {0, 1, 2, 4094, 4095, 4096, 4097, 5000, 100};
    static char sent[ROOM], got[ROOM];
    size_t n = 0;
    for (size_t i = 0; i < 18; i++) {
        size_t size = sizes[i * 7 % 9];
        for (size_t k = 0; k < size; k++)
            sent[n + k] = (char)(n + k * 31 + i);
        ck_assert((i % 5 == 4 ? out_write : out_stream)(sent + n, size));
        n += size;
        now += 1e-4;
    }
    ck_assert(out_write("", 0));
    ck_assert_uint_eq(arrived(got, ROOM), n);
    ck_assert(!memcmp(sent, got, n));
}
END_TEST

START_TEST(a_reader_that_has_gone)
{
    struct tern_error e = {0};
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    ck_assert(!out_stream("text", 4) && out_closed() && !out_status(&e));
    ck_assert(!out_stream("more", 4) && !out_write("more", 4));
    ends[0] = dup(saved);
}
END_TEST

START_TEST(a_full_disk)
{
    struct tern_error e = {0};
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) {
        suite_skip("/dev/full", "not on this system");
        return;
    }
    dup2(full, STDOUT_FILENO);
    close(full);
    ck_assert(!out_stream("text", 4) && !out_closed());
    ck_assert_int_eq(out_status(&e), TERN_IO);
    ck_assert(strstr(e.text, "standard output: cannot write: "));
}
END_TEST

/* After a signal, a reader that does not read is not waited for. */
START_TEST(a_signal)
{
    static char text[ROOM];
    fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
    while (write(STDOUT_FILENO, text, 4096) > 0)
        ;
    caught = SIGINT;
    ck_assert(!out_stream("text", 4));
    ck_assert_uint_gt(arrived(text, ROOM), 4096);
    caught = 0;
}
END_TEST

SUITE("out", AROUND_EACH(setup, teardown), TEST(pieces_wait_for_a_millisecond),
      TEST(nothing_is_lost), TEST(a_reader_that_has_gone), TEST(a_full_disk), TEST(a_signal))
