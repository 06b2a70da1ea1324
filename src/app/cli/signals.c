/* Signals: see signals.h. The handlers use only what is async-signal-safe: write, _exit, volatile
 * flags, unlink, tern_cancel, tern_remove_temporaries, signal, raise, and setitimer and mmap, which
 * are bare system calls. */
#include "app/cli/signals.h"

#include "app/cli/visible.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

/* Microseconds from a signal. The system takes large memory back in the rest of the second. */
enum { TO_END = 600000 };

static volatile sig_atomic_t caught;
static tern_context *volatile watched;
static char bus_text[4400];
static size_t bus_bytes;
static tern_context *volatile outlives;
static uintptr_t page_bytes;
static volatile sig_atomic_t noting, held, interactive, cut;
static const char *volatile temporary;
static void (*volatile at_end)(void);

/* Leaves no unfinished file, and the terminal as it was. */
static void clean_up(void)
{
    tern_remove_temporaries();
    if (temporary)
        unlink(temporary);
    if (at_end)
        at_end();
}

static void leave(int code)
{
    clean_up();
    _exit(code);
}

/* From now on TO_END, if the program was asked to end; else none. */
static void set_deadline(void)
{
    bool due = caught && !held && !(interactive && caught == SIGINT);
    struct itimerval t = {.it_value.tv_usec = due ? TO_END : 0};
    setitimer(ITIMER_REAL, &t, NULL);
}

static void on_stop(int number)
{
    if (caught || (!watched && !noting))
        leave(128 + number);
    caught = number;
    set_deadline();
    if (watched)
        tern_cancel(watched);
}

static void on_alarm(int number)
{
    leave(128 + (caught ? caught : number));
}

/* The page of a mapped file that was cut becomes zeros, so that who reads it goes on. */
static bool fill_page(void *address)
{
    int before = errno;
    void *page = (char *)address - (uintptr_t)address % page_bytes;
    bool ok = mmap(page, page_bytes, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == page;
    errno = before;
    return ok;
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if (outlives && info->si_code == BUS_ADRERR) {
        cut = 1; /* before the first wrong byte is read */
        tern_cancel(outlives);
        if (fill_page(info->si_addr))
            return;
    }
    (void)!write(STDERR_FILENO, bus_text, bus_bytes);
    leave(TERN_IO);
}

/* The end that the signal has by itself. */
static void on_other(int number)
{
    clean_up();
    signal(number, SIG_DFL);
    raise(number);
}

static void set_action(int number, struct sigaction *a)
{
    struct sigaction before;
    sigemptyset(&a->sa_mask);
    sigaction(number, NULL, &before);
    if (before.sa_handler != SIG_IGN) /* nohup, or a job in the background */
        sigaction(number, a, NULL);
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction a = {.sa_handler = handler}; /* no SA_RESTART: a blocked write must return */
    set_action(number, &a);
}

void signals_init(const char *program, const char *model)
{
    char name[4200];
    visible_line(name, sizeof name, model);
    snprintf(bus_text, sizeof bus_text, "\n%s: %.4096s: model file changed while running\n",
             program, name);
    bus_bytes = strlen(bus_text);
    handle(SIGINT, on_stop);
    handle(SIGTERM, on_stop);
    handle(SIGHUP, on_stop);
    handle(SIGQUIT, on_other);
    handle(SIGALRM, on_alarm);
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct sigaction bus = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    set_action(SIGBUS, &bus);
}

void signals_watch(tern_context *ctx)
{
    watched = ctx;
}

void signals_temporary(const char *path)
{
    temporary = path;
}

void signals_note(void)
{
    noting = 1;
}

void signals_interactive(void)
{
    interactive = 1;
}

void signals_hold(bool on)
{
    held = on;
    set_deadline();
}

void signals_at_end(void (*f)(void))
{
    static const int others[] = {SIGABRT, SIGSEGV, SIGFPE, SIGILL};
    at_end = f;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        handle(others[i], on_other);
}

void signals_outlive_cut(tern_context *ctx)
{
    outlives = ctx;
}

bool signals_was_cut(void)
{
    return cut;
}

int signals_caught(void)
{
    return caught;
}

void signals_clear(void)
{
    caught = 0;
    set_deadline();
}

/* A signal between the last look and the wait must end the wait: so it may come in only there.
 * (Pool threads take none.) */
bool signals_wait(int fd)
{
    sigset_t stop, before;
    fd_set fds;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGHUP);
    sigprocmask(SIG_BLOCK, &stop, &before);
    do {
        FD_ZERO(&fds);
        FD_SET(fd, &fds);
    } while (!caught && pselect(fd + 1, &fds, NULL, NULL, NULL, &before) < 0 && errno == EINTR);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return !caught;
}
