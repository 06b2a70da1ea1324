/* The time that a program has after a signal: which signals set it, and what takes it away. Each case
 * is a process of its own, which never looks for a signal. */
#include "app/cli/signals.h"
#include "suite.h"
#include "toy.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SURVIVED = 99 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work(double seconds)
{
    for (double end = now() + seconds; now() < end;)
        usleep(1000);
}

static void stays(void)
{
    raise(SIGTERM);
}

static void held(void)
{
    signals_hold(true);
    raise(SIGTERM);
}

static void held_too_late(void)
{
    raise(SIGTERM);
    signals_hold(true);
}

static void held_no_more(void)
{
    held();
    signals_hold(false);
}

static void interrupted(void)
{
    signals_interactive();
    raise(SIGINT);
}

static void interrupted_and_released(void)
{
    interrupted();
    signals_hold(true);
    signals_hold(false);
}

static void terminated(void)
{
    signals_interactive();
    raise(SIGTERM);
}

static void cleared(void)
{
    raise(SIGINT);
    signals_clear();
}

static void twice(void)
{
    held();
    raise(SIGTERM);
    _exit(1);
}

static void quits(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    raise(SIGQUIT);
}

static char temporary[300];

static pid_t start(void (*act)(void))
{
    pid_t pid = fork();
    if (pid)
        return pid;
    signals_init("test", "model");
    signals_note();
    signals_temporary(temporary);
    act();
    work(1.2);
    _exit(SURVIVED);
}

START_TEST(a_program_ends_in_time)
{
    static const struct {
        void (*act)(void);
        int code;
    } cases[] = {
        {stays, 128 + SIGTERM},    {held, SURVIVED},
        {held_too_late, SURVIVED}, {held_no_more, 128 + SIGTERM},
        {interrupted, SURVIVED},   {interrupted_and_released, SURVIVED},
        {cleared, SURVIVED},       {terminated, 128 + SIGTERM},
        {twice, 128 + SIGTERM},
    };
    enum { N = sizeof cases / sizeof *cases };
    pid_t pid[N];
    for (size_t i = 0; i < N; i++)
        pid[i] = start(cases[i].act);
    for (size_t i = 0; i < N; i++) {
        int status;
        ck_assert(waitpid(pid[i], &status, 0) == pid[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == cases[i].code,
                      "case %zu: status %x", i, (unsigned)status);
    }
}
END_TEST

START_TEST(each_end_removes_the_file)
{
    static void (*const acts[])(void) = {stays, quits};
    for (size_t i = 0; i < 2; i++) {
        int status, fd;
        toy_path(temporary, sizeof temporary, "deadlines");
        ck_assert((fd = open(temporary, O_WRONLY | O_CREAT, 0600)) >= 0 && !close(fd));
        pid_t pid = start(acts[i]);
        ck_assert(waitpid(pid, &status, 0) == pid && access(temporary, F_OK));
        if (acts[i] == quits)
            ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGQUIT);
        else
            ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM);
    }
}
END_TEST

SUITE("deadlines", TEST(a_program_ends_in_time), TEST(each_end_removes_the_file))
