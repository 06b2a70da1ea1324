/* Drives a bare tokenizer section for tools/check_tokenizer.py.
 *   prog_tokenizer SECTION   requests on stdin, answers on stdout, little-endian:
 *     u32 'e', u32 flags (as tern_tokenize), u32 bytes, text   ->  u32 n, u32 ids [n]
 *     u32 'd', u32 show_special, u32 n, u32 ids [n]            ->  u32 bytes, text */
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

static void *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    void *p = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0 && (p = malloc((*n = (size_t)ftell(f)) + 1))) {
        rewind(f);
        *n = fread(p, 1, *n, f);
    }
    if (f)
        fclose(f);
    return p;
}

static int answer(const void *p, uint32_t n, size_t size)
{
    fwrite(&n, sizeof n, 1, stdout);
    fwrite(p, size, n, stdout);
    return 0;
}

static int encode(const struct tokenizer *t, uint32_t flags, const char *text, uint32_t n)
{
    size_t max = n + (size_t)64, got;
    int32_t *ids = malloc(max * sizeof *ids);
    struct tern_error e = {0};
    if (!ids || tokenizer_encode(t, text, n, flags, ids, max, &got, &e) || got > max)
        return fprintf(stderr, "%s\n", e.text), 1;
    answer(ids, (uint32_t)got, sizeof *ids);
    free(ids);
    return 0;
}

static int decode(const struct tokenizer *t, bool show, const int32_t *ids, uint32_t n)
{
    struct decoder *d;
    size_t cap = 64, used = 0, len;
    char *all = malloc(cap);
    if (!all || decoder_open(&d, t, show, NULL))
        return 1;
    for (uint32_t i = 0; i <= n; i++) {
        const char *p = i < n ? decoder_push(d, ids[i], &len) : decoder_finish(d, &len);
        while (used + len > cap)
            if (!(all = realloc(all, cap *= 2)))
                return 1;
        if (len)
            memcpy(all + used, p, len);
        used += len;
    }
    answer(all, (uint32_t)used, 1);
    decoder_close(d);
    free(all);
    return 0;
}

static int serve(const struct tokenizer *t)
{
    uint32_t head[3];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        size_t bytes = head[2] * (size_t)(head[0] == 'd' ? 4 : 1);
        char *p = malloc(bytes + 1);
        if (!p || fread(p, 1, bytes, stdin) != bytes)
            return 1;
        if (head[0] == 'd' ? decode(t, head[1] != 0, (const int32_t *)(void *)p, head[2])
                           : encode(t, head[1], p, head[2]))
            return 1;
        free(p);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct tokenizer *t;
    struct tern_error e = {0};
    size_t n = 0;
    if (argc != 2)
        return 77;
    void *section = read_file(argv[1], &n);
    if (!section || tokenizer_open_bytes(&t, section, n, UINT32_MAX, &e))
        return fprintf(stderr, "%s: %s\n", argv[1], section ? e.text : "cannot read"), 3;
    int bad = serve(t);
    tokenizer_close(t);
    free(section);
    return bad;
}
