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

void conversation_free(struct tern_chat_message *m)
{
    for (size_t i = 0; i < m->n_calls; i++) {
        free((char *)m->calls[i].id);
        free((char *)m->calls[i].name);
        free((char *)m->calls[i].arguments);
    }
    free((struct tern_call *)m->calls);
    free((char *)m->call_id);
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
    free(c->listed);
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
        conversation_free(c->list);
    c->list[first ? 0 : c->n++] =
        (struct tern_chat_message){.role = role, .text = copy, .bytes = n};
    return TERN_OK;
}

void conversation_cut(struct conversation *c, size_t n)
{
    while (c->n > n)
        conversation_free(&c->list[--c->n]);
}

size_t conversation_turn(const struct conversation *c, size_t turns)
{
    size_t i = 1;
    while (turns-- && i < c->n)
        do
            i++;
        while (i < c->n && *c->list[i].role != 'u');
    return i;
}

const struct tern_chat_message *conversation_list(struct conversation *c, size_t turns,
                                                  const char *tools, size_t n_tools, size_t *n)
{
    size_t from = conversation_turn(c, turns);
    if (c->n_listed < c->n + 1) {
        struct tern_chat_message *more = realloc(c->listed, (c->n + 16) * sizeof *more);
        if (!more)
            return NULL;
        c->listed = more, c->n_listed = c->n + 16;
    }
    *n = 0;
    if (tools)
        c->listed[(*n)++] =
            (struct tern_chat_message){.role = "tools", .text = tools, .bytes = n_tools};
    if (c->list->text)
        c->listed[(*n)++] = *c->list;
    memcpy(c->listed + *n, c->list + from, (c->n - from) * sizeof *c->list);
    *n += c->n - from;
    return c->listed;
}

void conversation_drop(struct conversation *c)
{
    size_t end = conversation_turn(c, 1);
    for (size_t i = 1; i < end; i++)
        conversation_free(&c->list[i]);
    memmove(c->list + 1, c->list + end, (c->n - end) * sizeof *c->list);
    c->n -= end - 1;
}

struct tern_chat_message conversation_take(struct conversation *c)
{
    return c->list[--c->n];
}

void conversation_put(struct conversation *c, struct tern_chat_message m)
{
    c->list[c->n++] = m;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static char *copy_of(const char *text)
{
    size_t n = strlen(text ? text : "") + 1;
    char *copy = malloc(n);
    return copy ? memcpy(copy, text ? text : "", n) : NULL;
}

enum tern_status conversation_add_call(struct conversation *c, const struct tern_call *call,
                                       struct tern_error *e)
{
    struct tern_chat_message *m = &c->list[c->n - 1];
    struct tern_call *more = realloc((struct tern_call *)m->calls, (m->n_calls + 1) * sizeof *more);
    if (!more)
        return no_memory(e);
    m->calls = more;
    more += m->n_calls++;
    *more = (struct tern_call){copy_of(call->id), copy_of(call->name), copy_of(call->arguments)};
    return more->id && more->name && more->arguments ? TERN_OK : no_memory(e);
}

/* The last message with calls, if only results are behind it; or NULL */
static const struct tern_chat_message *waiting(const struct conversation *c)
{
    size_t i = c->n - 1;
    while (i > 1 && *c->list[i].role == 't')
        i--;
    return c->list[i].n_calls ? &c->list[i] : NULL;
}

size_t conversation_n_waiting(const struct conversation *c)
{
    const struct tern_chat_message *m = waiting(c);
    size_t given = m ? (size_t)(&c->list[c->n - 1] - m) : 0;
    return m && given < m->n_calls ? m->n_calls - given : 0;
}

size_t conversation_n_calls(const struct conversation *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += c->list[i].n_calls;
    return n;
}

enum tern_status conversation_add_result(struct conversation *c, const char *id, const char *text,
                                         size_t n, struct tern_error *e)
{
    const struct tern_chat_message *m = waiting(c);
    size_t given = m ? (size_t)(&c->list[c->n - 1] - m) : 0, k = 0;
    if (!conversation_n_waiting(c))
        return parser_usage(e, "no call waits for a result");
    while (id && k < m->n_calls && strcmp(m->calls[k].id, id))
        k++;
    if (k == m->n_calls)
        return parser_usage(e, "there is no call with the id '%.64s'", id);
    char *copy = copy_of(id ? id : m->calls[given].id);
    enum tern_status s = copy ? conversation_add(c, "tool", text, n, e) : no_memory(e);
    if (s)
        free(copy);
    else
        c->list[c->n - 1].call_id = copy;
    return s;
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

static void put_field(struct growing_text *t, const char *name, const char *text, size_t n)
{
    growing_text_add(t, ", ", t->n ? 2 : 0);
    growing_text_add(t, "\"", 1);
    growing_text_add(t, name, strlen(name));
    growing_text_add(t, "\": \"", 4);
    json_text(put, t, text, n);
    growing_text_add(t, "\"", 1);
}

/* A message or a call; id and name may be NULL. */
static void put_line(struct growing_text *t, const char *role, const char *id, const char *name,
                     const char *text, size_t n)
{
    struct growing_text line = {0};
    put_field(&line, "role", role, strlen(role));
    if (id)
        put_field(&line, "id", id, strlen(id));
    if (name)
        put_field(&line, "name", name, strlen(name));
    put_field(&line, "content", text, n);
    growing_text_add(t, "{", 1);
    growing_text_add(t, line.p, line.n);
    growing_text_add(t, "}\n", 2);
    t->failed |= line.failed;
    growing_text_close(&line);
}

enum tern_status conversation_save(const struct conversation *c, const char *path,
                                   struct tern_error *e)
{
    struct growing_text t = {0}, temporary = {0};
    char end[32];
    for (size_t i = !c->list->text; i < c->n; i++) {
        const struct tern_chat_message *m = &c->list[i];
        put_line(&t, m->role, m->call_id, NULL, m->text, m->bytes);
        for (size_t k = 0; k < m->n_calls; k++)
            put_line(&t, "call", m->calls[k].id, m->calls[k].name, m->calls[k].arguments,
                     strlen(m->calls[k].arguments));
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

/* The end of a value that is no string, with the mark that must follow it, or NULL. Brackets and strings in
 * it are passed over, not checked. */
static const char *skip_value(const char *p, const char *end, char *mark)
{
    size_t depth = 0;
    bool in_string = false;
    for (const char *from = p = skip_space(p, end); p < end; p++) {
        if (in_string)
            in_string = *p != '"', p += *p == '\\' && p + 1 < end;
        else if (*p == '"')
            in_string = true;
        else if (!depth && (*p == ',' || *p == '}'))
            return *mark = *p, p > from ? p + 1 : NULL;
        else if (*p == '{' || *p == '[')
            depth++;
        else if (*p == '}' || *p == ']')
            depth -= depth > 0;
    }
    return NULL;
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

/* What a line may say; without a field, its text is empty */
enum field { ROLE, CONTENT, ID, NAME, N_FIELDS };

struct line_fields {
    struct growing_text text[N_FIELDS];
    bool given[N_FIELDS];
    const char *no_text; /* name of the first that is no text; or NULL */
};

static void fields_close(struct line_fields *f)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        growing_text_close(&f->text[i]);
}

/* {"role": "...", "content": "..."}, in any order and with other members beside them; no role is an
 * empty one. Each text ends with a NUL. TERN_BAD_FILE, or TERN_NO_MEMORY. */
static enum tern_status take_fields(const char *p, const char *end, struct line_fields *f)
{
    static const char *const names[] = {"role", "content", "id", "name"};
    struct growing_text key = {0}, other = {0};
    char mark = ',';
    p = skip_space(p, end);
    p = p < end && *p == '{' ? p + 1 : NULL;
    while (p && mark == ',') {
        size_t i = 0;
        if (!(p = take_string(&key, p, end, ":", &mark)))
            break;
        while (i < N_FIELDS && (key.n != strlen(names[i]) || memcmp(key.p, names[i], key.n)))
            i++;
        const char *value = p;
        if (!(p = take_string(i < N_FIELDS ? &f->text[i] : &other, value, end, ",}", &mark))) {
            p = skip_value(value, end, &mark);
            if (i < N_FIELDS && !f->no_text)
                f->no_text = names[i];
        } else if (i < N_FIELDS) {
            f->given[i] = true;
        }
    }
    bool failed = key.failed;
    growing_text_close(&key);
    growing_text_close(&other);
    for (size_t i = 0; i < N_FIELDS; i++) {
        growing_text_add(&f->text[i], "", 1);
        failed |= f->text[i].failed;
        f->text[i].n -= !f->text[i].failed;
    }
    if (failed)
        return TERN_NO_MEMORY;
    return p && f->given[CONTENT] && !f->no_text && skip_space(p, end) == end ? TERN_OK
                                                                              : TERN_BAD_FILE;
}

static bool is_role(const struct line_fields *f, const char *role)
{
    return f->text[ROLE].n == strlen(role) && !memcmp(f->text[ROLE].p, role, f->text[ROLE].n);
}

/* Why a message with these fields cannot come next, if that has to do with calls; else empty */
static const char *why_not_next(const struct conversation *c, const struct line_fields *f)
{
    return is_role(f, "call")          ? "a call stands behind an answer, or behind another call"
           : is_role(f, "tool")        ? "no call waits for this result"
           : conversation_n_waiting(c) ? "the calls before it have no results yet"
                                       : "";
}

/* The system text first, if at all; then the others in turns, calls behind an assistant's message and
 * results behind calls. TERN_BAD_FILE, and why, where this is none of them. */
static enum tern_status add_fields(struct conversation *c, const struct line_fields *f,
                                   struct tern_error *e)
{
    const struct growing_text *text = &f->text[CONTENT];
    const char *last = c->n > 1 ? c->list[c->n - 1].role : "";
    const struct tern_call call = {f->text[ID].p, f->text[NAME].p, text->p};
    bool answered = *last == 'a' && !c->list[c->n - 1].n_calls;
    if (is_role(f, "call") && *last == 'a')
        return conversation_add_call(c, &call, e);
    if (is_role(f, "tool") && conversation_n_waiting(c))
        return conversation_add_result(c, f->given[ID] ? f->text[ID].p : NULL, text->p, text->n, e);
    const char *role =
        is_role(f, "system") && c->n == 1 && !c->list->text ? "system"
        : is_role(f, "user") && (c->n == 1 || answered)     ? "user"
        : is_role(f, "assistant") && *last && *last != 'a' && !conversation_n_waiting(c)
            ? "assistant"
            : NULL;
    if (role)
        return conversation_add(c, role, text->p, text->n, e);
    snprintf(e->text, sizeof e->text, "%s", why_not_next(c, f));
    return TERN_BAD_FILE;
}

/* The message in a line that is not empty. TERN_BAD_FILE, and why, or an empty text. */
static enum tern_status add_line(struct conversation *c, const char *p, const char *end,
                                 struct tern_error *e)
{
    struct line_fields f = {0};
    enum tern_status s = take_fields(p, end, &f);
    *e->text = 0;
    if (s == TERN_NO_MEMORY)
        no_memory(e);
    else if (!s && (s = add_fields(c, &f, e)) == TERN_USAGE)
        s = TERN_BAD_FILE;
    fields_close(&f);
    return s;
}

enum tern_status conversation_take_result(struct conversation *c, const char *line, size_t n,
                                          struct tern_error *e)
{
    struct line_fields f = {0};
    enum tern_status s = take_fields(line, line + n, &f);
    if (!s)
        s = conversation_add_result(c, f.given[ID] ? f.text[ID].p : NULL, f.text[CONTENT].p,
                                    f.text[CONTENT].n, e);
    else if (s == TERN_NO_MEMORY)
        s = no_memory(e);
    else if (f.no_text)
        s = parser_usage(e, "the result of a call: %s is no text", f.no_text);
    else
        s = parser_usage(e, "the result of a call is a line such as {\"id\": \"...\", "
                            "\"content\": \"...\"}");
    fields_close(&f);
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
        if (skip_space(p, end) < end && (s = add_line(&loaded, p, end, e)) == TERN_BAD_FILE) {
            const struct tern_error why = *e;
            snprintf(e->text, sizeof e->text, "%.300s: line %zu%s%.100s", path, line,
                     *why.text ? ": " : " is not the next message, ",
                     *why.text ? why.text : "{\"role\": ..., \"content\": ...}");
        }
    }
    free(text);
    if (!s && (loaded.n < 3 || *loaded.list[loaded.n - 1].role == 'u')) {
        snprintf(e->text, sizeof e->text, "%.300s: %s", path,
                 loaded.n < 3 ? "it holds no answered message" : "its last message has no answer");
        s = TERN_BAD_FILE;
    }
    conversation_close(s ? &loaded : c);
    if (!s)
        *c = loaded;
    return s ? (e->code = s) : TERN_OK;
}
