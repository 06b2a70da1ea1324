/* A thread of the library's own. Signals are for the threads of the program that uses the library, except
 * those that a thread's own access raises: blocked, they would end the process without asking its handler. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

#include "base/error.h"

/* TERN_NO_MEMORY when the system has no more threads. stack_bytes 0: as the system has it */
enum tern_status thread_start(pthread_t *thread, size_t stack_bytes, void *(*fn)(void *arg),
                              void *arg, struct tern_error *e);

#endif
