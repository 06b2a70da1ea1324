/* See vocabulary.h. */
#include "vocabulary.h"

#include <stdio.h>

static void demand(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static char *read_file(const char *name, int n_name, size_t *bytes)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/tokenizers/%.*s.bin", n_name, name);
    FILE *f = fopen(path, "rb");
    demand(f && fseek(f, 0, SEEK_END) == 0 && ftell(f) > 0, path);
    *bytes = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*bytes);
    demand(p && fread(p, 1, *bytes, f) == *bytes, path);
    fclose(f);
    return p;
}

static struct strings strings_of(struct keys *keys, const char *bytes, const char *lengths)
{
    struct strings s = {.bytes = ""};
    uint64_t n_bytes = 0, n = 0, at = 0;
    const uint32_t *list = NULL;
    keys_text(keys, bytes, &s.bytes, &n_bytes, NULL);
    keys_u32s(keys, lengths, &list, &n, NULL);
    uint32_t *start = calloc(n + 1, sizeof *start);
    demand(start, lengths);
    for (s.n = 0; s.n < n; s.n++)
        start[s.n + 1] = (uint32_t)(at += list[s.n]);
    demand(at == n_bytes, bytes);
    s.start = start;
    return s;
}

/* The fragments of the file, or of the one that it names. */
static void find_fragments(struct vocabulary *v)
{
    const char *name = NULL;
    uint64_t n = 0;
    struct keys other = {0}, *keys = &v->keys;
    struct tern_error e = {0};
    keys_text(keys, "fragments", &name, &n, NULL);
    if (name) {
        size_t bytes;
        v->other = read_file(name, (int)n, &bytes);
        demand(!keys_parse(&other, "fragments", v->other, bytes, &e), e.text);
        keys = &other;
    }
    v->lean = name != NULL;
    v->fragments = strings_of(keys, "text.bytes", "text.lengths");
    keys_close(&other);
}

void vocabulary_open(struct vocabulary *v, const char *name)
{
    struct tern_error e = {0};
    *v = (struct vocabulary){0};
    v->file = read_file(name, 100, &v->file_bytes);
    demand(!keys_parse(&v->keys, name, v->file, v->file_bytes, &e) &&
               !keys_text(&v->keys, "section", &v->section, &v->section_bytes, &e) &&
               !keys_u64(&v->keys, "seed", &v->seed, &e) &&
               !keys_parse(&v->section_keys, "tokenizer", v->section, v->section_bytes, &e) &&
               !tokenizer_open_bytes(&v->t, v->section, v->section_bytes, UINT32_MAX, &e),
           e.text);
    find_fragments(v);
    v->tokens = strings_of(&v->section_keys, "tokens.bytes", "tokens.lengths");
    v->added = strings_of(&v->section_keys, "added.bytes", "added.lengths");
}

void vocabulary_close(struct vocabulary *v)
{
    tokenizer_close(v->t);
    keys_close(&v->keys);
    keys_close(&v->section_keys);
    free((void *)v->fragments.start);
    free((void *)v->tokens.start);
    free((void *)v->added.start);
    free(v->file);
    free(v->other);
}

size_t vocabulary_encode(const struct vocabulary *v, const char *text, size_t n, unsigned flags,
                         int32_t **ids)
{
    struct tern_error e = {0};
    size_t max = 2 * n + 16, got = 0;
    *ids = malloc(max * sizeof **ids);
    demand(*ids && !tokenizer_encode(v->t, text, n, flags, *ids, max, &got, &e), e.text);
    if (got > max) {
        free(*ids);
        *ids = malloc(got * sizeof **ids);
        demand(*ids && !tokenizer_encode(v->t, text, n, flags, *ids, got, &got, &e), e.text);
    }
    return got;
}

void vocabulary_decode(const struct vocabulary *v, const int32_t *ids, size_t n, bool show_special,
                       struct buffer *out)
{
    struct tern_error e = {0};
    struct decoder *d = NULL;
    size_t len;
    demand(!decoder_open(&d, v->t, show_special, &e), e.text);
    for (size_t i = 0; i <= n; i++) {
        const char *p = i < n ? decoder_push(d, ids[i], &len) : decoder_finish(d, &len);
        demand(buffer_add(out, p, len), "no memory");
    }
    decoder_close(d);
}
