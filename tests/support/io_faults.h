/* Fails calls of the system that open, move bytes, sync, rename, map a file or start a thread, for a
 * test whose first line is
 *   ldflags: -Wl,@tests/support/allocs.ld -Wl,@tests/support/io_faults.ld
 * in a comment. Not for several threads. */
#ifndef TESTS_IO_FAULTS_H
#define TESTS_IO_FAULTS_H

#include <stddef.h>

enum io_mode {
    IO_FAIL,  /* one call fails */
    IO_REST,  /* and all after it */
    IO_AGAIN, /* every second call is interrupted: EINTR */
    IO_SHORT, /* every transfer moves one byte, if it is of less than 64, or half of its bytes */
    IO_MODES
};

/* Forgets all counts; then the at-th call from now fails (0: none), or all calls are troubled. */
void io_start(enum io_mode mode, size_t at);
void io_stop(void);

size_t io_count(void);       /* calls since io_start, failed ones included */
int io_open_files(void);     /* files opened since io_start and not closed */
const char *io_failed(void); /* the name of the call that failed first; "" */

#endif
