/* Lines: see line_editor.h. */
#include "app/cli/line_editor.h"

#include "app/cli/columns.h"
#include "app/cli/number.h"
#include "app/cli/signals.h"
#include "app/cli/utf8.h"
#include "app/cli/visible.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

enum {
    LINE_MOST = 4095, /* bytes of a line in the terminal's own mode: it drops what follows */
    HISTORY_BYTES = 256 << 10 /* of the file that are read: its end */
};

#define KEY(key) ((key)&0x1f)

/* ---- the terminal --------------------------------------------------------------------------- */

static struct termios before;
static volatile sig_atomic_t is_raw;
static const char paste_off[] = "\033[?2004l";

/* Called by signal handlers, too. */
static void restore(void)
{
    if (!is_raw)
        return;
    is_raw = 0;
    (void)!write(STDERR_FILENO, paste_off, sizeof paste_off - 1);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static bool make_raw(void)
{
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &before))
        return false;
    raw = before;
    raw.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON);
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_cc[VMIN] = 1, raw.c_cc[VTIME] = 0;
    is_raw = 1;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw)) {
        is_raw = 0;
        return false;
    }
    fputs("\033[?2004h", stderr); /* marks around what is pasted */
    return true;
}

static void put(void *arg, const char *text, size_t n)
{
    growing_text_add(arg, text, n);
}

/* Moves by n: up A, right C, left D. */
static void move(struct growing_text *out, size_t n, char where)
{
    char code[32];
    if (n)
        growing_text_add(out, code, (size_t)snprintf(code, sizeof code, "\033[%zu%c", n, where));
}

/* Adds the place of the cursor behind text[0..n), which begins at *column of row *row, and the text
 * as a terminal of `width` columns shows it there. */
static void place(struct growing_text *out, const char *text, size_t n, size_t width, size_t *row,
                  size_t *column)
{
    struct growing_text shown = {0};
    visible_text(put, &shown, text, n);
    for (size_t i = 0, bytes; i < shown.n; i += bytes) {
        const char *p = shown.p + i;
        size_t columns = columns_of(p, shown.n - i, &bytes);
        bool feed = *p == '\n';
        if (feed || *column + columns > width)
            ++*row, *column = 0;
        if (feed)
            growing_text_add(out, "\r\n", 2);
        else
            growing_text_add(out, *p == '\t' ? " " : p, bytes);
        *column += feed ? 0 : columns;
    }
    if (*column >= width) { /* the terminal would wait for the next character */
        growing_text_add(out, "\r\n", 2);
        ++*row, *column = 0;
    }
    out->failed |= shown.failed;
    growing_text_close(&shown);
}

/* Shows the line as it is now: what was added at its end, or all of it from behind the prompt. */
static void draw(struct line_editor *e)
{
    struct growing_text out = {0};
    const struct growing_text *l = &e->line;
    size_t width = columns_of_terminal(STDERR_FILENO), begin = strlen(e->prompt);
    width = width > begin + 1 ? width : 80;
    if (e->stale) {
        growing_text_add(&out, "\r", 1);
        move(&out, e->row, 'A');
        move(&out, begin, 'C');
        growing_text_add(&out, "\033[J", 3);
        e->drawn = e->row = 0, e->column = begin;
    }
    if (l->n > e->drawn)
        place(&out, l->p + e->drawn, l->n - e->drawn, width, &e->row, &e->column);
    e->drawn = l->n;
    if (e->at < l->n) {
        struct growing_text head = {0}; /* finds the cursor's place, is not shown */
        size_t row = 0, column = begin;
        place(&head, l->p, e->at, width, &row, &column);
        growing_text_close(&head);
        growing_text_add(&out, "\r", 1);
        move(&out, e->row - row, 'A');
        move(&out, column, 'C');
        e->row = row, e->column = column;
    }
    e->stale = e->at < l->n;
    if (out.n && !out.failed)
        fwrite(out.p, 1, out.n, stderr); /* in one write, for it is not buffered */
    growing_text_close(&out);
}

static void show_prompt(const struct line_editor *e)
{
    fprintf(stderr, "%s%s%s", e->bold, e->prompt, e->plain);
}

/* ---- history -------------------------------------------------------------------------------- */

/* As its file: lines, in which a line feed is written as a carriage return. What fails here is not
 * reported: a history is a convenience. */
static void swap_bytes(char *text, size_t n, char from, char to)
{
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] == from ? to : text[i];
}

/* Where the entry before the one at `at` begins. */
static size_t history_before(const struct growing_text *h, size_t at)
{
    at -= at > 0;
    while (at && h->p[at - 1] != '\n')
        at--;
    return at;
}

/* A descriptor of the history's file, if that is a file of ours; else -1. */
static int history_file(const struct line_editor *e, int flags, off_t *size)
{
    struct stat s;
    int fd = e->path ? open(e->path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600) : -1;
    if (fd >= 0 && (fstat(fd, &s) || !S_ISREG(s.st_mode) || fchmod(fd, 0600))) {
        close(fd);
        fd = -1;
    }
    *size = fd < 0 ? 0 : s.st_size;
    return fd;
}

/* Appends the entries from `at` on, in one write beside other programs that append; with O_TRUNC
 * writes the file anew. */
static void history_write(const struct line_editor *e, size_t at, int flags)
{
    off_t size;
    int fd = history_file(e, O_WRONLY | O_CREAT | flags, &size);
    if (fd < 0)
        return;
    (void)!write(fd, e->history.p + at, e->history.n - at);
    close(fd);
}

static void history_store(struct line_editor *e)
{
    struct growing_text *h = &e->history;
    size_t at = h->n, n = e->line.n + 1, last = history_before(h, at);
    if (n == 1 || n > HISTORY_BYTES / 16)
        return;
    growing_text_add(h, e->line.p, n - 1);
    growing_text_add(h, "\n", 1);
    if (!h->failed)
        swap_bytes(h->p + at, n - 1, '\n', '\r');
    if (h->failed || (at - last == n && !memcmp(h->p + last, h->p + at, n)))
        h->n = at;
    else
        history_write(e, at, O_APPEND);
    h->failed = false;
}

/* The end of the file; a file that has grown large is cut to it. */
static void history_read(struct line_editor *e)
{
    struct growing_text *h = &e->history;
    char part[4096], *feed;
    off_t size;
    int fd = history_file(e, O_RDONLY, &size);
    off_t from = size > HISTORY_BYTES ? size - HISTORY_BYTES : 0;
    for (ssize_t n; fd >= 0 && (n = pread(fd, part, sizeof part, from + (off_t)h->n)) > 0;)
        growing_text_add(h, part, (size_t)n);
    if (fd >= 0)
        close(fd);
    if (h->n && h->p[h->n - 1] != '\n')
        growing_text_add(h, "\n", 1);
    if (h->failed)
        h->n = 0;
    else if (from && h->n && (feed = memchr(h->p, '\n', h->n))) { /* the first may lack its begin */
        size_t cut = (size_t)(feed + 1 - h->p);
        memmove(h->p, h->p + cut, h->n -= cut);
        history_write(e, 0, O_TRUNC);
    }
}

/* The path, with its folders made. */
static char *history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool is_own = state && *state == '/'; /* a relative one is invalid by the specification */
    if (!is_own && !(home && *home == '/'))
        return NULL;
    const char *base = is_own ? state : home;
    size_t n = strlen(base) + 64, begin = is_own ? 1 : strlen(base) + 1;
    char *path = malloc(n);
    if (!path)
        return NULL;
    snprintf(path, n, "%s%s/tern/history", base, is_own ? "" : "/.local/state");
    for (char *p = path + begin; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    return path;
}

/* ---- editing -------------------------------------------------------------------------------- */

/* Bytes from the cursor to the next one a person would count: those that combine go along. */
static size_t next(const struct line_editor *e)
{
    size_t at = e->at, bytes, n = e->line.n;
    if (at == n)
        return 0;
    columns_of(e->line.p + at, n - at, &bytes);
    for (at += bytes; at < n && !columns_of(e->line.p + at, n - at, &bytes);)
        at += bytes;
    return at - e->at;
}

static size_t previous(const struct line_editor *e)
{
    const char *p = e->line.p;
    size_t at = e->at, columns = 0, bytes = 0;
    while (at && !columns) {
        size_t end = at--;
        while (at && end - at < 4 && ((unsigned char)p[at] & 0xc0) == 0x80)
            at--;
        columns = columns_of(p + at, end - at, &bytes);
        if (bytes != end - at)
            at = end - 1, columns = 1; /* not a character */
    }
    return e->at - at;
}

static size_t word(const struct line_editor *e)
{
    size_t at = e->at;
    while (at && strchr(" \t\n", e->line.p[at - 1]))
        at--;
    while (at && !strchr(" \t\n", e->line.p[at - 1]))
        at--;
    return e->at - at;
}

static void insert(struct line_editor *e, const char *text, size_t n)
{
    struct growing_text *l = &e->line;
    size_t tail = l->n - e->at;
    e->stale |= tail > 0;
    growing_text_add(l, text, n); /* makes room */
    if (l->failed || !n) /* text may then be NULL */
        return;
    memmove(l->p + e->at + n, l->p + e->at, tail);
    memcpy(l->p + e->at, text, n);
    e->at += n;
}

/* The n bytes before the cursor. */
static void delete (struct line_editor *e, size_t n)
{
    struct growing_text *l = &e->line;
    if (!n)
        return;
    memmove(l->p + e->at - n, l->p + e->at, l->n - e->at);
    e->at -= n, l->n -= n;
}

/* Bytes of the entry at `at`, without its line feed. */
static size_t history_bytes(const struct growing_text *h, size_t at)
{
    return (size_t)((char *)memchr(h->p + at, '\n', h->n - at) - (h->p + at));
}

/* The entry before or after the one shown. */
static void show_other(struct line_editor *e, bool older)
{
    const struct growing_text *h = &e->history;
    if (older ? !e->shown : e->shown == h->n)
        return;
    if (e->shown == h->n) {
        e->newest.n = 0;
        growing_text_add(&e->newest, e->line.p, e->line.n);
    }
    if (older)
        e->shown = history_before(h, e->shown);
    else
        e->shown += history_bytes(h, e->shown) + 1;
    bool last = e->shown == h->n;
    e->line.n = e->at = 0;
    if (last)
        insert(e, e->newest.p, e->newest.n);
    else
        insert(e, h->p + e->shown, history_bytes(h, e->shown));
    if (!last)
        swap_bytes(e->line.p, e->line.n, '\r', '\n');
}

/* A key by the letter of the arrow or its like: ESC [ letter, or ESC [ number ~. */
static void press(struct line_editor *e, char key, uint64_t number)
{
    e->stale = true;
    if (key == '~')
        key = number < 9 ? "?H?~F??HF"[number] : '?';
    if (key == 'A' || key == 'B')
        show_other(e, key == 'A');
    else if (key == 'C')
        e->at += next(e);
    else if (key == 'D')
        e->at -= previous(e);
    else if (key == 'H')
        e->at = 0;
    else if (key == 'F')
        e->at = e->line.n;
    else if (key == '~') {
        size_t n = next(e);
        e->at += n;
        delete (e, n);
    }
}

/* What the control character does to the line. */
static void control(struct line_editor *e, char c)
{
    static const char keys[] = {KEY('p'), KEY('n'), KEY('f'), KEY('b'), KEY('a'), KEY('e'), 0};
    const char *key = c ? strchr(keys, c) : NULL;
    e->stale = true;
    if (key)
        press(e, "ABCDHF"[key - keys], 0);
    else if (c == KEY('d'))
        press(e, '~', 3);
    else if (c == KEY('k'))
        e->line.n = e->at;
    size_t back = c == KEY('h') || c == 127 ? previous(e)
                  : c == KEY('w')           ? word(e)
                  : c == KEY('u')           ? e->at
                                            : 0;
    delete (e, back);
    if (c != KEY('l'))
        return;
    fputs("\033[H\033[2J", stderr);
    show_prompt(e);
    e->row = 0;
}

/* The length of the code that p[0..n) begins with, which is ESC; 0: the rest of it is to come. */
static size_t escape(struct line_editor *e, const char *p, size_t n)
{
    size_t i = 2;
    if (n < 2)
        return 0;
    if (p[1] != '[' && p[1] != 'O')
        return 1;
    while (i < n && p[i] >= 0x20 && p[i] < 0x40)
        i++;
    if (i == n)
        return n < 32 ? 0 : n;
    uint64_t number = 0;
    (void)number_u64(p + 2, i - 2, &number);
    if (p[i] == '~' && (number == 200 || number == 201))
        e->pastes = number == 200;
    else if (!e->pastes)
        press(e, p[i], number);
    return i + 1;
}

/* Bytes of the character at p[0..n), complete or not UTF-8; 0: the rest of it is to come. */
static size_t character(const char *p, size_t n)
{
    unsigned char c = (unsigned char)*p;
    size_t i = 1, bytes = utf8_character(p, n);
    while (i < n && ((unsigned char)p[i] & 0xc0) == 0x80)
        i++;
    bool waits = i == n && c > 0xc1 && c < 0xf5 && n < (c < 0xe0 ? 2u : c < 0xf0 ? 3u : 4u);
    return bytes || waits ? bytes : 1;
}

/* Uses the input up to the end of a line. Returns that of line_editor_read, or -1: more is needed. */
static int use_input(struct line_editor *e)
{
    struct growing_text *in = &e->input;
    size_t i = 0, n = 0;
    int heard = -1;
    for (; i < in->n && heard < 0; i += n) {
        const char *p = in->p + i;
        n = *p == '\033' ? escape(e, p, in->n - i) : character(p, in->n - i);
        if (!n)
            break;
        if (*p == '\033')
            continue;
        if (e->pastes && *p == '\r' && in->n - i > 1 && p[1] == '\n')
            n = 2;
        if (e->pastes && (*p == '\r' || *p == '\n'))
            insert(e, "\n", 1);
        else if (((unsigned char)*p >= 32 && *p != 127) || *p == '\t')
            insert(e, p, n);
        else if (e->pastes)
            continue; /* keys are not obeyed there */
        else if (*p == '\r' || *p == '\n')
            heard = HEARD_LINE;
        else if (*p == KEY('d') && !e->line.n)
            heard = HEARD_END;
        else if (*p == KEY('c') || *p == KEY('z')) {
            bool leaves = *p == KEY('c');
            restore();
            raise(leaves ? SIGINT : SIGTSTP);
            if (leaves || !make_raw())
                heard = leaves ? HEARD_INTERRUPT : HEARD_END;
            else
                show_prompt(e);
            e->row = 0, e->stale = true;
        } else
            control(e, *p);
    }
    if (i)
        memmove(in->p, in->p + i, in->n -= i);
    return heard;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* More input; false at a signal. */
static bool fill(struct line_editor *e)
{
    char more[4096];
    if (!signals_wait(STDIN_FILENO)) {
        e->input.n = 0;
        return false;
    }
    ssize_t got = read(STDIN_FILENO, more, sizeof more);
    e->ended = got == 0 || (got < 0 && errno != EINTR);
    growing_text_add(&e->input, more, got > 0 ? (size_t)got : 0);
    return true;
}

static enum heard read_edited(struct line_editor *e, struct growing_text *text)
{
    int heard;
    e->at = e->row = e->drawn = e->line.n = 0;
    e->column = strlen(e->prompt);
    e->stale = false;
    e->shown = e->history.n;
    e->pastes = false;
    while ((heard = use_input(e)) < 0 && !e->ended) {
        if (!e->pastes)
            draw(e);
        if (e->input.failed || e->line.failed || !fill(e))
            break;
    }
    text->failed |= e->input.failed || e->line.failed;
    if (text->failed) /* what was read is lost: no message is made of the rest */
        e->input.n = 0, heard = HEARD_LINE;
    else if (heard < 0)
        heard = e->ended ? HEARD_END : HEARD_INTERRUPT;
    if (heard == HEARD_LINE) {
        e->at = e->line.n;
        draw(e);
        fputs("\r\n", stderr);
        history_store(e);
        growing_text_add(text, e->line.p, e->line.n);
    }
    restore();
    return (enum heard)heard;
}

static enum heard read_plain(struct line_editor *e, struct growing_text *text)
{
    for (;;) {
        struct growing_text *in = &e->input;
        char *end = in->n ? memchr(in->p, '\n', in->n) : NULL;
        if (end || (e->ended && in->n)) {
            size_t n = end ? (size_t)(end - in->p) : in->n, used = n + (end != NULL);
            growing_text_add(text, in->p, n);
            e->cut |= n >= LINE_MOST;
            memmove(in->p, in->p + used, in->n -= used);
            return HEARD_LINE;
        }
        if (e->ended)
            return HEARD_END;
        if (!fill(e))
            return HEARD_INTERRUPT;
        if (in->failed) {
            in->n = 0;
            text->failed = true;
            return HEARD_LINE;
        }
    }
}

enum heard line_editor_read(struct line_editor *e, const char *prompt, struct growing_text *text)
{
    e->input.failed = e->line.failed = false;
    e->prompt = prompt;
    bool raw = e->edits && make_raw();
    show_prompt(e);
    return raw ? read_edited(e, text) : read_plain(e, text);
}

void line_editor_open(struct line_editor *e)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool can_move = isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb");
    *e = (struct line_editor){.bold = "", .plain = "", .prompt = ""};
    if (can_move && !(no_color && *no_color))
        e->bold = "\033[1m", e->plain = "\033[0m";
    e->edits = can_move && isatty(STDIN_FILENO);
    if (!e->edits)
        return;
    signals_at_end(restore);
    e->path = history_path();
    history_read(e);
}

void line_editor_close(struct line_editor *e)
{
    free(e->path);
    growing_text_close(&e->history);
    growing_text_close(&e->input);
    growing_text_close(&e->line);
    growing_text_close(&e->newest);
}
