/* serve's sandbox: from each thread that lived before, what it promises to refuse is refused, and
 * what the server needs goes on. */
#define _GNU_SOURCE
#include "app/serve/sandbox.h"
#include "base/pool.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_THREADS = 4 };

static int listening, client;
static struct sockaddr_in address = {.sin_family = AF_INET};

/* ---- what is refused: each returns what the call did ------------------------------------------ */

static long try_open(void)
{
    return open("/etc/passwd", O_RDONLY);
}

static long try_create(void)
{
    return open("/tmp/tern-sandbox-test", O_WRONLY | O_CREAT, 0600);
}

static long try_bare_openat(void)
{
    return syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
}

static long try_exec(void)
{
    char *argv[] = {(char *)"true", NULL};
    return execv("/bin/true", argv);
}

static long try_fork(void)
{
    pid_t child = fork();
    if (!child)
        _exit(0);
    return child;
}

static long try_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0);
}

static long try_connect(void)
{
    return connect(client, (struct sockaddr *)&address, sizeof address);
}

static long try_bind(void)
{
    return bind(client, (struct sockaddr *)&address, sizeof address);
}

static long try_trace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static long try_kill(void)
{
    return kill(getppid(), 0);
}

static long try_queue(void)
{
    siginfo_t info = {.si_code = SI_QUEUE};
    return syscall(SYS_rt_tgsigqueueinfo, getppid(), getppid(), 0, &info);
}

static long try_limits(void)
{
    struct rlimit r;
    return prlimit(getppid(), RLIMIT_NOFILE, NULL, &r);
}

static long try_advise(void)
{
    return syscall(440 /* process_madvise */, -1, NULL, 0, MADV_COLD, 0);
}

static long try_unlink(void)
{
    return unlink("/tmp/tern-sandbox-test");
}

static long try_rename(void)
{
    return rename("/tmp/tern-sandbox-test", "/tmp/tern-sandbox-test-2");
}

static long try_executable(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? -1 : 0;
}

static const struct {
    const char *name;
    long (*call)(void);
} refused[] = {{"open", try_open},         {"create", try_create},
               {"openat", try_bare_openat}, {"exec", try_exec},
               {"fork", try_fork},         {"socket", try_socket},
               {"connect", try_connect},   {"bind", try_bind},
               {"ptrace", try_trace},      {"kill", try_kill},
               {"queue", try_queue},       {"limits", try_limits},
               {"advise", try_advise},     {"unlink", try_unlink},     {"rename", try_rename},
               {"executable memory", try_executable}};
enum { N_REFUSED = sizeof refused / sizeof *refused };

static long result[N_THREADS][N_REFUSED];
static int reason[N_THREADS][N_REFUSED];
static int order[N_THREADS];
static atomic_int begun;

/* One item on each thread: none ends before all have begun. */
static void try_all(void *arg, size_t begin, size_t end, int thread)
{
    (void)arg, (void)end;
    begun++;
    while (begun < N_THREADS)
        sched_yield();
    order[begin] = thread;
    for (size_t i = 0; i < N_REFUSED; i++) {
        errno = 0;
        result[begin][i] = refused[i].call();
        reason[begin][i] = errno;
    }
}

/* ---- what goes on ------------------------------------------------------------------------------ */

static void *add_one(void *arg)
{
    ++*(int *)arg;
    return NULL;
}

static void go_on(void)
{
    struct stat s;
    char byte = 0;
    int pair[2], n = 0, fd;
    pthread_t t;
    ck_assert_int_eq(pthread_create(&t, NULL, add_one, &n), 0);
    ck_assert_int_eq(pthread_join(t, NULL), 0);
    ck_assert_int_eq(n, 1);
    void *p = malloc((size_t)64 << 20);
    ck_assert_ptr_nonnull(p);
    free(p);
    ck_assert_int_eq(fstat(listening, &s), 0);
    fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(send(fd, "x", 1, 0), 1);
    ck_assert_int_eq(recv(client, &byte, 1, 0), 1);
    ck_assert_int_eq(byte, 'x');
    close(fd);
    ck_assert_int_eq(pipe(pair), 0);
    ck_assert_int_ge(eventfd(0, 0), 0);
    struct rlimit r;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &r), 0);
    signal(SIGUSR1, SIG_IGN);
    ck_assert_int_eq(raise(SIGUSR1), 0);
}

static void connect_before(void)
{
    socklen_t n = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listening = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listening, 1), 0);
    ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&address, &n), 0);
    client = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, sizeof address), 0);
}

START_TEST(refuses_in_every_thread)
{
    struct tern_error e;
    struct pool *pool = NULL;
    char why[128];
    connect_before();
    ck_assert_int_eq(pool_open(&pool, N_THREADS, &e), TERN_OK);
    if (!sandbox_enter(why, sizeof why)) {
        suite_skip("the sandbox", why);
        pool_close(pool);
        return;
    }
    pool_run(pool, N_THREADS, try_all, NULL);
    for (int t = 0; t < N_THREADS; t++) {
        for (size_t i = 0; i < N_REFUSED; i++)
            ck_assert_msg(result[t][i] == -1 && reason[t][i] == EPERM,
                          "thread %d: %s gave %ld, %s", order[t], refused[i].name, result[t][i],
                          strerror(reason[t][i]));
    }
    ck_assert_int_ne(order[0], order[1]);
    go_on();
    pool_close(pool);
}
END_TEST

SUITE("serve: sandbox", TEST(refuses_in_every_thread))
