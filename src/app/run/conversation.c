/* Conversations: see conversation.h. */
#include "app/run/conversation.h"

#include "app/cli/files.h"
#include "app/cli/growing_text.h"
#include "app/cli/json.h"
#include "app/cli/parser.h"
#include "app/cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum tern_status no_memory(struct tern_error *e)
{
    return parser_no_memory_for(e, "the conversation");
}

/* ---- messages ------------------------------------------------------------------------------- */

static void message_close(struct tern_chat_message *m)
{
    free((char *)m->text);
    free((tern_token *)m->tokens);
    *m = (struct tern_chat_message){.role = m->role};
}

static bool grow(struct conversation *c)
{
    size_t room = 2 * c->room + 16;
    struct tern_chat_message *more =
        c->n < c->room ? c->list : realloc(c->list, room * sizeof *more);
    if (c->n >= c->room && more)
        c->list = more, c->room = room;
    return more != NULL;
}

enum tern_status conversation_open(struct conversation *c, struct tern_error *e)
{
    *c = (struct conversation){0};
    if (!grow(c))
        return no_memory(e);
    c->list[c->n++] = (struct tern_chat_message){.role = "system"};
    return TERN_OK;
}

void conversation_close(struct conversation *c)
{
    conversation_cut(c, 0);
    free(c->list);
}

enum tern_status conversation_add(struct conversation *c, const char *role, const char *text,
                                  size_t n, struct tern_error *e)
{
    char *copy = malloc(n + 1);
    bool first = *role == 's';
    if (!copy || (!first && !grow(c))) {
        free(copy);
        return no_memory(e);
    }
    memcpy(copy, text, n);
    if (first)
        message_close(c->list);
    c->list[first ? 0 : c->n++] =
        (struct tern_chat_message){.role = role, .text = copy, .bytes = n};
    return TERN_OK;
}

void conversation_cut(struct conversation *c, size_t n)
{
    while (c->n > n)
        message_close(&c->list[--c->n]);
}

void conversation_drop(struct conversation *c)
{
    message_close(&c->list[1]);
    message_close(&c->list[2]);
    c->n -= 2;
    memmove(c->list + 1, c->list + 3, (c->n - 1) * sizeof *c->list);
}

/* ---- files ---------------------------------------------------------------------------------- */

static enum tern_status fail(const char *path, struct tern_error *e)
{
    snprintf(e->text, sizeof e->text, "%.300s: cannot write: %s", path, strerror(errno));
    return e->code = TERN_IO;
}

static enum tern_status not_regular(const char *path, struct tern_error *e)
{
    snprintf(e->text, sizeof e->text, "%.300s is not a regular file; give another name", path);
    return e->code = TERN_USAGE;
}

static void put(void *arg, const char *text, size_t n)
{
    growing_text_add(arg, text, n);
}

/* All of it, on the disk. */
static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno != EINTR)
            return false;
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    while (fsync(fd))
        if (errno != EINTR)
            return false;
    return true;
}

static enum tern_status write_text(const struct growing_text *t, const char *temporary,
                                   const char *path, struct tern_error *e)
{
    struct stat there;
    bool old = !lstat(path, &there);
    if (old && !S_ISREG(there.st_mode))
        return not_regular(path, e);
    int fd;
    do
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return fail(path, e);
    signals_temporary(temporary);
    if (old)
        (void)fchmod(fd, there.st_mode & 0777); /* some file systems know no modes */
    enum tern_status s = write_all(fd, t->p, t->n) ? TERN_OK : fail(path, e);
    if (close(fd) && !s)
        s = fail(path, e);
    if (!s && rename(temporary, path))
        s = fail(path, e);
    if (s)
        unlink(temporary);
    signals_temporary(NULL);
    return s;
}

enum tern_status conversation_save(const struct conversation *c, const char *path,
                                   struct tern_error *e)
{
    struct growing_text t = {0}, temporary = {0};
    char end[32];
    for (size_t i = !c->list->text; i < c->n; i++) {
        const struct tern_chat_message *m = &c->list[i];
        growing_text_add(&t, "{\"role\": \"", 10);
        growing_text_add(&t, m->role, strlen(m->role));
        growing_text_add(&t, "\", \"content\": \"", 15);
        json_text(put, &t, m->text, m->bytes);
        growing_text_add(&t, "\"}\n", 3);
    }
    growing_text_add(&temporary, path, strlen(path));
    growing_text_add(&temporary, end,
                     (size_t)snprintf(end, sizeof end, ".%ld.tmp", (long)getpid()) + 1);
    enum tern_status s =
        t.failed || temporary.failed ? no_memory(e) : write_text(&t, temporary.p, path, e);
    growing_text_close(&t);
    growing_text_close(&temporary);
    return s;
}

/* Four hexadecimal digits, or -1. */
static int unit(const char *p, const char *end)
{
    static const char digits[] = "0123456789abcdef";
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const char *at = end - p > i && p[i] ? strchr(digits, p[i] | (p[i] & 0x40) >> 1) : NULL;
        if (!at)
            return -1;
        value = value << 4 | (int)(at - digits);
    }
    return value;
}

static void add_utf8(struct growing_text *t, int c)
{
    char b[4];
    size_t n = c > 0xffff ? 4 : c > 0x7ff ? 3 : c > 0x7f ? 2 : 1;
    b[0] = (char)(n == 1 ? c : (0xf00 >> n & 0xff) | c >> 6 * (n - 1));
    for (size_t i = 1; i < n; i++)
        b[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
    growing_text_add(t, b, n);
}

/* What follows a backslash; NULL when it is none of JSON's. */
static const char *take_escape(struct growing_text *t, const char *p, const char *end)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = p < end && *p ? strchr(from, *p) : NULL;
    if (at)
        growing_text_add(t, to + (at - from), 1);
    if (at || p == end || *p != 'u')
        return at ? p + 1 : NULL;
    int c = unit(p + 1, end), low;
    p += 5;
    if (c < 0)
        return NULL;
    if (c >> 10 == 0xd800 >> 10 && end - p > 2 && p[0] == '\\' && p[1] == 'u' &&
        (low = unit(p + 2, end)) >> 10 == 0xdc00 >> 10)
        c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff), p += 6;
    add_utf8(t, c >> 11 == 0xd800 >> 11 ? 0xfffd : c);
    return p;
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* A string and the mark that must follow it; the end of them, or NULL. */
static const char *take_string(struct growing_text *t, const char *p, const char *end,
                               const char *marks, char *mark)
{
    t->n = 0;
    p = skip_space(p, end);
    if (p == end || *p++ != '"')
        return NULL;
    while (p && p < end && *p != '"') {
        if (*p == '\\')
            p = take_escape(t, p + 1, end);
        else
            growing_text_add(t, p++, 1);
    }
    if (!p || p == end)
        return NULL;
    p = skip_space(p + 1, end);
    if (p == end || !*p || !strchr(marks, *p))
        return NULL;
    *mark = *p;
    return p + 1;
}

/* {"role": "...", "content": "..."}, in any order and with other strings beside them; no role is an
 * empty one. TERN_BAD_FILE, or TERN_NO_MEMORY. */
static enum tern_status take_message(const char *p, const char *end, struct growing_text *role,
                                     struct growing_text *content)
{
    struct growing_text key = {0}, other = {0};
    bool has_content = false;
    char mark = ',';
    p = skip_space(p, end);
    p = p < end && *p == '{' ? p + 1 : NULL;
    while (p && mark == ',') {
        if (!(p = take_string(&key, p, end, ":", &mark)))
            break;
        bool is_role = key.n == 4 && !memcmp(key.p, "role", 4);
        bool is_content = key.n == 7 && !memcmp(key.p, "content", 7);
        has_content |= is_content;
        p = take_string(is_role ? role : is_content ? content : &other, p, end, ",}", &mark);
    }
    bool failed = key.failed || role->failed || content->failed;
    growing_text_close(&key);
    growing_text_close(&other);
    if (failed)
        return TERN_NO_MEMORY;
    return p && has_content && skip_space(p, end) == end ? TERN_OK : TERN_BAD_FILE;
}

/* The message in a line that is not empty: the system text first, if at all; then the others in
 * turns. TERN_BAD_FILE without a sentence. */
static enum tern_status add_line(struct conversation *c, const char *p, const char *end,
                                 struct tern_error *e)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    struct growing_text role = {0}, content = {0};
    size_t i = 0;
    enum tern_status s = take_message(p, end, &role, &content);
    while (!s && i < 3 && (role.n != strlen(roles[i]) || memcmp(role.p, roles[i], role.n)))
        i++;
    bool fits = i == 0 ? c->n == 1 && !c->list->text : i == 2 - c->n % 2;
    if (s == TERN_NO_MEMORY)
        no_memory(e);
    else if (!s && fits)
        s = conversation_add(c, roles[i], content.n ? content.p : "", content.n, e);
    else
        s = TERN_BAD_FILE;
    growing_text_close(&role);
    growing_text_close(&content);
    return s;
}

enum tern_status conversation_load(struct conversation *c, const char *path, struct tern_error *e)
{
    struct conversation loaded;
    struct stat there;
    char *text;
    size_t n, line = 0;
    if (!stat(path, &there) && !S_ISREG(there.st_mode))
        return not_regular(path, e); /* which may not end */
    enum tern_status s = files_take(path, &text, &n, e);
    if (s)
        return s;
    s = conversation_open(&loaded, e);
    for (const char *p = text, *end; !s && p < text + n; p = end + 1) {
        end = memchr(p, '\n', (size_t)(text + n - p));
        end = end ? end : text + n;
        line++;
        if (skip_space(p, end) < end && (s = add_line(&loaded, p, end, e)) == TERN_BAD_FILE)
            snprintf(e->text, sizeof e->text,
                     "%.300s: line %zu is not the next message, {\"role\": ..., \"content\": ...}",
                     path, line);
    }
    free(text);
    if (!s && (loaded.n < 3 || loaded.n % 2 == 0)) {
        snprintf(e->text, sizeof e->text, "%.300s: %s", path,
                 loaded.n < 3 ? "it holds no answered message" : "its last message has no answer");
        s = TERN_BAD_FILE;
    }
    conversation_close(s ? &loaded : c);
    if (!s)
        *c = loaded;
    return s ? (e->code = s) : TERN_OK;
}
