/* After the model is loaded, `serve` needs no more files, programs or connections of its own; so it
 * gives up the right to them, for all of its threads. Linux only, on x86-64 and AArch64. */
#ifndef SERVE_SANDBOX_H
#define SERVE_SANDBOX_H

#include "tern.h"

#include <stdbool.h>

/* From now on every thread gets EPERM for: opening, making, removing or renaming files; starting
 * programs or processes; making sockets, connecting, binding; tracing; memory that can be executed;
 * mounts, namespaces, modules and keys. Reading, writing and accepting go on. False: the kernel
 * refuses, and why [n] says so. */
bool sandbox_enter(char *why, size_t n);

#endif
