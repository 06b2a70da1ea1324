/* Standard output, the one thing that scripts read: written without stdio, so that a token leaves
 * at once and every error is seen. Also the file descriptors and the terminal of a program. */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>

#include "tern.h"

/* First thing in main: descriptors 0, 1 and 2 that are closed become /dev/null, so that no file
 * opened later takes their number; a reader that goes away, or a file limit, becomes an error of
 * write instead of a signal. */
void out_init(void);

/* Writes all n bytes now. False once anything has failed, or when a signal asked to stop. */
bool out_write(const char *text, size_t n);

/* The same for text that comes in many pieces: some of it may wait for the next call of either. */
bool out_stream(const char *text, size_t n);

/* out_stream for text of files, users and models; made visible if standard output is a terminal
 * (visible.h). So is what out_print writes. */
bool out_text(const char *text, size_t n);

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
bool out_print(const char *format, ...);

/* True when the reader has gone away (EPIPE): nobody wants to hear more. */
bool out_closed(void);
/* TERN_OK, also when closed; TERN_IO with the reason when a write failed. */
enum tern_status out_status(struct tern_error *e);

#endif
