/* API keys: see api_keys.h. */
#include "app/serve/http/api_keys.h"

#include "app/cli/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Adds a key, which is never shown: it came from option or variable `from`, or from a line of a file. */
static enum tern_status add(struct api_keys *k, const char *text, size_t n, const char *from,
                            size_t line, struct tern_error *e)
{
    char where[40] = "";
    if (line)
        snprintf(where, sizeof where, ", line %zu", line);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 127)
            return parser_usage(e,
                                "%.200s%s: byte %zu of the key is %s: write a key of letters, digits and "
                                "signs of ASCII%s",
                                from, where, i + 1, text[i] == ' ' ? "a blank" : "not printable ASCII",
                                line ? ", one on each line" : "");
    if (!n)
        return parser_usage(e, "%.200s: the key is empty: give one, or leave it out", from);
    if (n > k->longest)
        return parser_usage(e, "%.200s%s: the key has %zu bytes: half of --max-headers, %zu, are allowed",
                            from, where, n, k->longest);
    char **more = realloc(k->key, (k->n + 1) * sizeof *more);
    if (!more)
        return parser_no_memory(e);
    k->key = more;
    k->key[k->n] = strndup(text, n);
    return k->key[k->n++] ? TERN_OK : parser_no_memory(e);
}

static void warn_of_readers(const char *path)
{
    struct stat file;
    if (!stat(path, &file) && S_ISREG(file.st_mode) && (file.st_mode & S_IROTH))
        fprintf(stderr, "serve: --api-key-file %s: every user of this machine can read it\n", path);
}

/* A key a line; empty lines and those that begin with # are skipped. */
static enum tern_status add_file(struct api_keys *k, const char *path, struct tern_error *e)
{
    char *text = NULL, from[240];
    size_t n, before = k->n, number = 0;
    enum tern_status s = files_take(path, &text, &n, e);
    snprintf(from, sizeof from, "--api-key-file %.200s", path);
    for (char *p = text; !s && p < text + n;) {
        const char *feed = memchr(p, '\n', (size_t)(text + n - p));
        size_t line = feed ? (size_t)(feed - p) : (size_t)(text + n - p), end = line;
        while (end && (p[end - 1] == ' ' || p[end - 1] == '\t' || p[end - 1] == '\r'))
            end--;
        number++;
        if (end && *p != '#')
            s = add(k, p, end, from, number, e);
        p += line + 1;
    }
    if (!s && k->n == before)
        s = parser_usage(e, "%s holds no key: write one on a line that does not begin with #", from);
    free(text);
    return s;
}

enum tern_status api_keys_open(struct api_keys *k, const struct serve_options *o,
                               struct tern_error *e)
{
    const char *file = o->value[SERVE_API_KEY_FILE].text, *env = getenv("TERN_API_KEY");
    enum tern_status s = TERN_OK;
    k->longest = (size_t)serve_number(o, SERVE_MAX_HEADERS) / 2;
    for (size_t i = 0; i < o->n_keys && !s; i++)
        s = add(k, o->keys[i], strlen(o->keys[i]), "--api-key", 0, e);
    if (!s && file)
        s = add_file(k, file, e);
    if (!s && file && !o->value[SERVE_QUIET].given)
        warn_of_readers(file);
    if (!s && env && *env)
        s = add(k, env, strlen(env), "TERN_API_KEY", 0, e);
    return s;
}

void api_keys_close(struct api_keys *k)
{
    for (size_t i = 0; i < k->n; i++)
        free(k->key[i]);
    free(k->key);
    *k = (struct api_keys){0};
}

/* Every byte of the text is compared with some byte of the key. */
static unsigned differs(const char *key, const char *text, size_t n)
{
    size_t n_key = strlen(key);
    volatile unsigned wrong = n != n_key;
    for (size_t i = 0; i < n; i++)
        wrong |= (unsigned)(unsigned char)text[i] ^ (unsigned char)key[i % n_key];
    return wrong;
}

size_t api_keys_find(const struct api_keys *k, const char *text, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < k->n; i++)
        found += differs(k->key[i], text, n) ? 0 : i + 1 - found;
    return found;
}
