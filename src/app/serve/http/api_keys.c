/* API keys: see api_keys.h. */
#include "app/serve/http/api_keys.h"

#include "app/cli/files.h"

#include <stdlib.h>
#include <string.h>

static enum tern_status add(struct api_keys *k, const char *text, size_t n, const char *from,
                            struct tern_error *e)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 127)
            return parser_usage(e, "%s: a key has a blank or a byte that is not ASCII", from);
    if (!n)
        return parser_usage(e, "%s: a key is empty", from);
    char **more = realloc(k->key, (k->n + 1) * sizeof *more);
    if (!more)
        return parser_no_memory(e);
    k->key = more;
    k->key[k->n] = strndup(text, n);
    return k->key[k->n++] ? TERN_OK : parser_no_memory(e);
}

/* A key a line; empty lines and those that begin with # are skipped. */
static enum tern_status add_file(struct api_keys *k, const char *path, struct tern_error *e)
{
    char *text = NULL;
    size_t n, before = k->n;
    enum tern_status s = files_take(path, &text, &n, e);
    for (char *p = text; !s && p < text + n;) {
        size_t line = strcspn(p, "\n"), end = line;
        while (end && strchr(" \t\r", p[end - 1]))
            end--;
        if (end && *p != '#')
            s = add(k, p, end, "--api-key-file", e);
        p += line + 1;
    }
    if (!s && k->n == before)
        s = parser_usage(e, "--api-key-file: %.200s holds no key", path);
    free(text);
    return s;
}

enum tern_status api_keys_open(struct api_keys *k, const struct serve_options *o,
                               struct tern_error *e)
{
    const char *file = o->value[SERVE_API_KEY_FILE].text, *env = getenv("TERN_API_KEY");
    enum tern_status s = TERN_OK;
    for (size_t i = 0; i < o->n_keys && !s; i++)
        s = add(k, o->keys[i], strlen(o->keys[i]), "--api-key", e);
    if (!s && file)
        s = add_file(k, file, e);
    if (!s && env && *env)
        s = add(k, env, strlen(env), "TERN_API_KEY", e);
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

size_t api_keys_find(const struct api_keys *k, const char *text)
{
    size_t n = strlen(text), found = 0;
    for (size_t i = 0; i < k->n; i++)
        found += differs(k->key[i], text, n) ? 0 : i + 1 - found;
    return found;
}
