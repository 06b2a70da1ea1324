/* Text of files, users and models on a terminal, which would obey control characters: all of them
 * except tab and line feed become visible. ESC is written ^[, U+009B <U+009B>, a byte that is not
 * UTF-8 <9B>. Pipes and files get every byte unchanged. */
#ifndef CLI_VISIBLE_H
#define CLI_VISIBLE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* From now on terminals get every byte unchanged, too. */
void visible_switch_off(void);

bool visible_on(int fd); /* text to standard output or error is made visible: it is a terminal */

typedef void (*visible_put)(void *arg, const char *text, size_t n);

/* Puts text[0..n) with its control characters visible; no character is cut at its ends. */
void visible_text(visible_put put, void *arg, const char *text, size_t n);

/* A string as one line, tabs and line feeds visible too, cut to `room` bytes. */
void visible_line(char *line, size_t room, const char *text);

/* vsnprintf into text [size], cut to it; returns the bytes that are there. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 0)))
#endif
size_t visible_format(char *text, size_t size, const char *format, va_list ap);

/* To standard error, made visible if that is a terminal. */
void visible_error(const char *text, size_t n);
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void visible_error_print(const char *format, ...);

#endif
