/* Shapes and files of random weights: see bench_shape.h. ADDING A SHAPE: a row of the table. */
#define _GNU_SOURCE /* memfd_create */
#include "app/bench/bench_shape.h"

#include "app/cli/number.h"
#include "app/cli/parser.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const struct {
    const char *name;
    struct tern_shape
        shape; /* dim, hidden, layers, heads, kv_heads, head_dim, vocab, -, tied, window */
} shapes[] = {
    {"15m", {288, 768, 6, 6, 6, 48, 32000, 0, 1, 0}},       /* llama2.c stories15M */
    {"42m", {512, 1376, 8, 8, 8, 64, 32000, 0, 1, 0}},      /* llama2.c stories42M */
    {"110m", {768, 2048, 12, 12, 12, 64, 32000, 0, 1, 0}},  /* llama2.c stories110M */
    {"135m", {576, 1536, 30, 9, 3, 64, 49152, 0, 1, 0}},    /* SmolLM2 */
    {"360m", {960, 2560, 32, 15, 5, 64, 49152, 0, 1, 0}},   /* SmolLM2 */
    {"0.5b", {896, 4864, 24, 14, 2, 64, 151936, 0, 1, 0}},  /* Qwen2.5 */
    {"1b", {2048, 8192, 16, 32, 8, 64, 128256, 0, 1, 0}},   /* Llama 3.2 */
    {"1.1b", {2048, 5632, 22, 32, 4, 64, 32000, 0, 0, 0}},  /* TinyLlama */
    {"1.7b", {2048, 8192, 24, 32, 32, 64, 49152, 0, 1, 0}}, /* SmolLM2 */
    {"3b", {3072, 8192, 28, 24, 8, 128, 128256, 0, 1, 0}},  /* Llama 3.2 */
    {"7b", {4096, 11008, 32, 32, 32, 128, 32000, 0, 0, 0}}, /* Llama 2 */
    {"8b", {4096, 14336, 32, 32, 8, 128, 128256, 0, 0, 0}}, /* Llama 3 */
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

const char *bench_shape_names(void)
{
    static char text[16 * N_SHAPES];
    size_t n = 0;
    for (size_t i = 0; i < N_SHAPES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "", shapes[i].name);
    return text;
}

/* ---- explicit sizes ------------------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
    {"dim", offsetof(struct tern_shape, dim)},
    {"hidden", offsetof(struct tern_shape, hidden)},
    {"layers", offsetof(struct tern_shape, n_layers)},
    {"heads", offsetof(struct tern_shape, n_heads)},
    {"kv_heads", offsetof(struct tern_shape, n_kv_heads)},
    {"head_dim", offsetof(struct tern_shape, head_dim)},
    {"vocab", offsetof(struct tern_shape, vocab)},
    {"window", offsetof(struct tern_shape, window)},
};

enum { N_FIELDS = sizeof fields / sizeof *fields, N_NEEDED = N_FIELDS - 1 };

static uint64_t *field_of(struct tern_shape *shape, size_t i)
{
    return (uint64_t *)(void *)((char *)shape + fields[i].offset);
}

/* One part "name=number" or "tied". */
static bool read_part(struct tern_shape *shape, const char *part)
{
    size_t n = strcspn(part, "=");
    if (!strcmp(part, "tied"))
        return (shape->tied = 1);
    for (size_t i = 0; part[n] && i < N_FIELDS; i++)
        if (strlen(fields[i].name) == n && !memcmp(fields[i].name, part, n))
            return number_u64(part + n + 1, strlen(part + n + 1), field_of(shape, i)) &&
                   *field_of(shape, i);
    return false;
}

static enum tern_status read_sizes(struct tern_shape *shape, const char **text,
                                   struct tern_error *e)
{
    *shape = (struct tern_shape){0};
    while (**text) {
        char part[40] = {0};
        size_t n = strcspn(*text, ",");
        memcpy(part, *text, n < sizeof part ? n : sizeof part - 1);
        if (!read_part(shape, part))
            return parser_usage(e,
                                "--shape: '%.40s' is not one of dim=N, hidden=N, layers=N, "
                                "heads=N, kv_heads=N, head_dim=N, vocab=N, window=N, tied",
                                part);
        *text += n + ((*text)[n] == ',');
    }
    for (size_t i = 0; i < N_NEEDED; i++)
        if (!*field_of(shape, i))
            return parser_usage(e, "--shape: %s is missing", fields[i].name);
    return TERN_OK;
}

enum tern_status bench_shape_read(struct tern_shape *shape, const char **text, struct tern_error *e)
{
    size_t n = strcspn(*text, ",");
    if (strchr(*text, '='))
        return read_sizes(shape, text, e);
    for (size_t i = 0; i < N_SHAPES; i++)
        if (strlen(shapes[i].name) == n && !memcmp(shapes[i].name, *text, n)) {
            *shape = shapes[i].shape;
            *text += n + ((*text)[n] == ',');
            return TERN_OK;
        }
    return parser_usage(e,
                        "--shape: '%.*s' is not one of %s, nor sizes as in "
                        "dim=64,hidden=160,layers=2,heads=4,kv_heads=2,head_dim=16,vocab=256",
                        n < 100 ? (int)n : 100, *text, bench_shape_names());
}

/* ---- files --------------------------------------------------------------------------------- */

/* Memory that nobody needs now; UINT64_MAX when the system does not say. */
static uint64_t free_memory(void)
{
    char line[128];
    uint64_t kib = UINT64_MAX / 1024;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "MemAvailable:", 13)) {
            const char *digits = line + 13 + strspn(line + 13, " ");
            (void)number_u64(digits, strspn(digits, "0123456789"), &kib);
        }
    if (f)
        fclose(f);
    return kib * 1024;
}

static enum tern_status system_error(struct tern_error *e, const char *what, const char *name)
{
    e->code = TERN_IO;
    snprintf(e->text, sizeof e->text, "%s %.300s: %s", what, name, strerror(errno));
    return TERN_IO;
}

/* A file in TMPDIR or /var/tmp, whose name goes at once. */
static enum tern_status open_on_disk(struct bench_file *f, uint64_t bytes, struct tern_error *e)
{
    const char *folder = getenv("TMPDIR");
    char name[4096];
    struct statvfs room;
    if (!folder || !*folder)
        folder = "/var/tmp";
    if (statvfs(folder, &room))
        return system_error(e, "cannot find out the free space of", folder);
    if ((uint64_t)room.f_bavail * room.f_frsize < bytes + (64 << 20)) {
        e->code = TERN_LIMIT;
        snprintf(e->text, sizeof e->text,
                 "the model needs %llu MiB, more than the memory or %.200s has, where %llu MiB are "
                 "free (set TMPDIR to another folder)",
                 (unsigned long long)(bytes >> 20), folder,
                 (unsigned long long)((uint64_t)room.f_bavail * room.f_frsize >> 20));
        return e->code;
    }
    snprintf(name, sizeof name, "%.4000s/tern-bench-XXXXXX", folder);
    f->fd = mkstemp(name);
    if (f->fd < 0)
        return system_error(e, "cannot create a file in", folder);
    unlink(name);
    return TERN_OK;
}

enum tern_status bench_file_open(struct bench_file *f, const struct tern_shape *shape,
                                 enum tern_type type, struct tern_error *e)
{
    uint64_t bytes, memory = free_memory();
    f->fd = -1;
    enum tern_status s = tern_shape_bytes(shape, type, &bytes, e);
    if (s)
        return s;
#ifdef MFD_CLOEXEC
    if (bytes < memory - memory / 4) /* the rest is for cache, batch and others */
        f->fd = memfd_create("tern-bench", MFD_CLOEXEC);
#endif
    if (f->fd < 0)
        s = open_on_disk(f, bytes, e);
    if (s)
        return s;
    snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
    s = tern_random_model(f->path, shape, type, 1, 0, e);
    if (s && !strncmp(e->text, f->path, strlen(f->path))) {
        char text[sizeof e->text]; /* that path means nothing to anybody else */
        snprintf(text, sizeof text, "random weights%s", e->text + strlen(f->path));
        memcpy(e->text, text, sizeof text);
    }
    return s;
}

void bench_file_close(struct bench_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}
