/* A thread of the library's own: see thread.h. */
#include "base/thread.h"

#include <signal.h>

enum tern_status thread_start(pthread_t *thread, size_t stack_bytes, void *(*fn)(void *arg),
                              void *arg, struct tern_error *e)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    pthread_attr_t attr;
    sigset_t mask, old;
    sigfillset(&mask);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&mask, own[i]);
    pthread_attr_init(&attr);
    if (stack_bytes)
        pthread_attr_setstacksize(&attr, stack_bytes);
    pthread_sigmask(SIG_SETMASK, &mask, &old); /* which the thread inherits */
    int failed = pthread_create(thread, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return failed ? error_set(e, TERN_NO_MEMORY, "the system has no more threads") : TERN_OK;
}
