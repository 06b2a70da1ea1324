/* Without arguments: 1 MiB of whatever is awkward is encoded in less than a second.
 * Else it drives a bare tokenizer section for tools/check_tokenizer.py:
 *   prog_tokenizer SECTION   requests on stdin, answers on stdout, little-endian:
 *     u32 'e', u32 flags (as tern_tokenize), u32 bytes, text   ->  u32 n, u32 ids [n]
 *     u32 'd', u32 show_special, u32 n, u32 ids [n]            ->  u32 bytes, text
 *     u32 't', u32 flags, u32 n, u32 bytes [n], texts           ->  u32 2 + n_ids, f64 seconds, ids
 */
#include "vocabulary.h"

#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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
    size_t got;
    struct tern_error e = {0};
    if (tokenizer_encode(t, text, n, flags, NULL, 0, &got, &e))
        return fprintf(stderr, "%s\n", e.text), 1;
    int32_t *ids = malloc((got + 1) * sizeof *ids);
    if (!ids || tokenizer_encode(t, text, n, flags, ids, got, &got, &e))
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

/* Encodes n texts one after another; the answer begins with the seconds that it took. */
static int encode_timed(const struct tokenizer *t, uint32_t flags, uint32_t n)
{
    uint32_t *lengths = malloc((n + 1) * sizeof *lengths);
    size_t bytes = 0, used = 2, got;
    if (!lengths || fread(lengths, sizeof *lengths, n, stdin) != n)
        return 1;
    for (uint32_t i = 0; i < n; i++)
        bytes += lengths[i];
    char *text = malloc(bytes + 1);
    int32_t *ids = malloc((2 * bytes + 16 * (size_t)n + 2) * sizeof *ids);
    if (!text || !ids || fread(text, 1, bytes, stdin) != bytes)
        return 1;
    double begin = now();
    for (uint32_t i = 0; i < n; text += lengths[i++], used += got)
        if (tokenizer_encode(t, text, lengths[i], flags, ids + used, 2 * lengths[i] + 16, &got,
                             NULL))
            return 1;
    double took = now() - begin;
    memcpy(ids, &took, sizeof took);
    answer(ids, (uint32_t)used, sizeof *ids);
    free(lengths);
    free(text - bytes);
    free(ids);
    return 0;
}

static int serve(const struct tokenizer *t)
{
    uint32_t head[3];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        if (head[0] == 't') {
            if (encode_timed(t, head[1], head[2]))
                return 1;
            fflush(stdout);
            continue;
        }
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

/* ---- time ------------------------------------------------------------------------------------ */

enum { MIB = 1 << 20 };

/* Seconds to encode n bytes of `unit` over and over; of random bytes for an empty unit. */
static double seconds(const struct tokenizer *t, const char *unit, size_t n)
{
    char *text = malloc(n);
    int32_t *ids = malloc(2 * n * sizeof *ids);
    size_t got, len = strlen(unit);
    uint64_t x = 1;
    if (!text || !ids)
        exit(1);
    for (size_t i = 0; i < n; i++)
        text[i] = len ? unit[i % len] : (char)((x = x * 6364136223846793005u + 1) >> 56);
    double begin = now();
    if (tokenizer_encode(t, text, n, TERN_PARSE_SPECIAL, ids, 2 * n, &got, NULL))
        exit(1);
    double took = now() - begin;
    free(text);
    free(ids);
    return took;
}

/* Seconds of processor time that 1 MiB may take: one, and more where the program itself is slow. A
 * quadratic step would take an hour. */
static double limit(void)
{
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 30;
#elif defined(__has_feature)
    return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 30 : 1;
#else
    const char *emulator = getenv("EMULATOR");
    return emulator && *emulator ? 60 : 1;
#endif
}

/* The best of a few tries counts, for the sake of busy machines. */
static int too_slow(const struct tokenizer *t, const char *name, const char *unit)
{
    double best = 1e9;
    for (int i = 0; i < 5 && best >= limit(); i++) {
        double s = seconds(t, unit, MIB);
        best = s < best ? s : best;
    }
    if (best >= limit())
        printf("%s: %.3f s for 1 MiB of '%s'\n", name, best, unit);
    return best >= limit();
}

static int measure(void)
{
    static const char *const names[] = {"gpt2",   "llama3",   "qwen2",     "hf-llama",
                                        "spm",    "o200k",    "deepseek2", "deepseek3",
                                        "falcon", "llamacpp", "uni-map",   "hf-uni"};
    static const char *const units[] = {"a",
                                        "_",
                                        " ",
                                        "\n",
                                        "1",
                                        "\xE4\xBD\xA0",
                                        "\xF0\x9F\x91\xA8\xE2\x80\x8D",
                                        "e\xCC\x81",
                                        "'",
                                        "",
                                        "A\xCA\xB0",
                                        "\xD0\x94",
                                        "  x",
                                        "\xCD\x8F",
                                        "\xE3\x80\x80"};
    int failed = 0, n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct vocabulary v;
        vocabulary_open(&v, names[i]);
        for (size_t k = 0; k < sizeof units / sizeof *units; k++, n++)
            failed += too_slow(v.t, names[i], units[k]);
        vocabulary_close(&v);
    }
    printf("%d passed, %d failed\n", n - failed, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    struct tokenizer *t;
    struct tern_error e = {0};
    size_t n = 0;
    if (argc < 2 && getenv("QUICK") && *getenv("QUICK"))
        return 77; /* time says nothing where the build is slow */
    if (argc < 2)
        return measure();
    void *section = read_file(argv[1], &n);
    if (!section || tokenizer_open_bytes(&t, section, n, UINT32_MAX, &e))
        return fprintf(stderr, "%s: %s\n", argv[1], section ? e.text : "cannot read"), 3;
    int bad = serve(t);
    tokenizer_close(t);
    free(section);
    return bad;
}
