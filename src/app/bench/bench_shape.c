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

#define QWEN_DELTA "k_heads=16,k_dim=128,v_dim=128,conv_width=4,state_norm=1,"

/* Sizes as published. A model that few machines hold is cut to `layers` of its layers, and its
 * vocabulary by the same part, so that each step keeps its share of a token. */
static const struct {
    const char *name;
    struct tern_shape
        shape; /* dim, hidden, layers, heads, kv_heads, head_dim, vocab, -, tied, window, keys */
    uint64_t layers; /* 0: all */
} shapes[] = {
    {"15m", {288, 768, 6, 6, 6, 48, 32000, 0, 1, 0, NULL}, 0},       /* llama2.c stories15M */
    {"42m", {512, 1376, 8, 8, 8, 64, 32000, 0, 1, 0, NULL}, 0},      /* llama2.c stories42M */
    {"110m", {768, 2048, 12, 12, 12, 64, 32000, 0, 1, 0, NULL}, 0},  /* llama2.c stories110M */
    {"135m", {576, 1536, 30, 9, 3, 64, 49152, 0, 1, 0, NULL}, 0},    /* SmolLM2 */
    {"360m", {960, 2560, 32, 15, 5, 64, 49152, 0, 1, 0, NULL}, 0},   /* SmolLM2 */
    {"0.5b", {896, 4864, 24, 14, 2, 64, 151936, 0, 1, 0, NULL}, 0},  /* Qwen2.5 */
    {"1b", {2048, 8192, 16, 32, 8, 64, 128256, 0, 1, 0, NULL}, 0},   /* Llama 3.2 */
    {"1.1b", {2048, 5632, 22, 32, 4, 64, 32000, 0, 0, 0, NULL}, 0},  /* TinyLlama */
    {"1.7b", {2048, 8192, 24, 32, 32, 64, 49152, 0, 1, 0, NULL}, 0}, /* SmolLM2 */
    {"3b", {3072, 8192, 28, 24, 8, 128, 128256, 0, 1, 0, NULL}, 0},  /* Llama 3.2 */
    {"7b", {4096, 11008, 32, 32, 32, 128, 32000, 0, 0, 0, NULL}, 0}, /* Llama 2 */
    {"8b", {4096, 14336, 32, 32, 8, 128, 128256, 0, 0, 0, NULL}, 0}, /* Llama 3 */
    {"qwen3-30b-a3b",
     {2048, 768, 48, 32, 4, 128, 151936, 0, 0, 0,
      "n_experts=128,experts_used=8,router_normalize=1,qk_norm=1"},
     4},
    {"gpt-oss-20b",
     {2880, 2880, 24, 64, 8, 64, 201088, 0, 0, 0,
      "window=128/0,attn_bias=15,attn_sinks=1,activation=swiglu_oai,ffn_clamp=7.0,ffn_bias=7,"
      "n_experts=32,experts_used=4,router_score=1,router_bias=1"},
     4},
    {"qwen3.5-2b",
     {2048, 6144, 24, 8, 2, 256, 248320, 0, 1, 0,
      "mixer=2*3/1,attn_gate=1,qk_norm=1,rope_dims=64," QWEN_DELTA "v_heads=16"},
     0},
    {"qwen3.6-35b-a3b",
     {2048, 512, 40, 16, 2, 256, 248320, 0, 0, 0,
      "mixer=2*3/1,attn_gate=1,qk_norm=1,rope_dims=64," QWEN_DELTA "v_heads=32,n_experts=256,"
      "experts_used=8,router_normalize=1,shared_hidden=512,shared_switch=1"},
     4},
    {"gemma4-e2b", /* the last 20 layers read the keys and values of layers 13 and 14 */
     {1536, 6144, 35, 8, 1, 256, 262144, 0, 1, 0,
      "hidden=6144*15/12288*20,head_dim=256*4/512,window=512*4/0,rope_set=1*4/2,rope_dims=256/512,"
      "kv_from=0*15/14*4/15/14*4/15/14*4/15/14*4/15,qk_norm=1,v_norm=1*15/0*20,norms=15,"
      "activation=gelu_tanh,attn_scale=1.0,layer_scale=1,ple_dim=256,logit_cap=30.0"},
     0},
    {"lfm2-1.2b",
     {2048, 8192, 16, 32, 8, 64, 65536, 0, 1, 0,
      "mixer=4*2/1/4*2/1/4*2/1/4/1/4/1/4/1/4,conv_width=3,qk_norm=1"},
     0},
    {"granite4-h-tiny",
     {1536, 512, 40, 12, 4, 128, 100352, 0, 1, 0,
      "mixer=2*5/1/2*4,rope_set=0,recurrence=1,k_heads=1,v_heads=48,k_dim=128,v_dim=64,"
      "conv_width=4,conv_bias=1,state_skip=1,state_norm=2,residual_scale=0.22,n_experts=64,"
      "experts_used=6,router_score=1,shared_hidden=1024"},
     10},
    {"glm-4.7-flash", /* without its first layer, which is dense */
     {2048, 1536, 46, 20, 1, 576, 154880, 0, 0, 0,
      "kv_rank=512,q_rank=768,nope_dim=192,value_dim=256,rope_dims=64,n_experts=64,experts_used=4,"
      "router_score=2,router_select_bias=1,router_normalize=1,router_factor=1.8,"
      "shared_hidden=1536"},
     4},
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

const char *bench_shape_names(void)
{
    static char text[20 * N_SHAPES];
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

/* One part: "name=number", "tied", or else a key, which random_model checks. */
static bool read_part(struct bench_shape *s, const char *part)
{
    size_t n = strcspn(part, "="), used = strlen(s->keys);
    if (!strcmp(part, "tied"))
        return (s->sizes.tied = 1);
    for (size_t i = 0; part[n] && i < N_FIELDS; i++)
        if (strlen(fields[i].name) == n && !memcmp(fields[i].name, part, n))
            return number_u64(part + n + 1, strlen(part + n + 1), field_of(&s->sizes, i)) &&
                   *field_of(&s->sizes, i);
    int more = snprintf(s->keys + used, sizeof s->keys - used, "%s%s", used ? "," : "", part);
    return n && part[n] && part[n + 1] && (size_t)more < sizeof s->keys - used;
}

static enum tern_status read_sizes(struct bench_shape *s, const char **text, struct tern_error *e)
{
    while (**text) {
        char part[128] = {0};
        size_t n = strcspn(*text, ",");
        memcpy(part, *text, n < sizeof part ? n : sizeof part - 1);
        if (n >= sizeof part || !read_part(s, part))
            return parser_usage(e,
                                "--shape: '%.40s' is not one of dim=N, hidden=N, layers=N, "
                                "heads=N, kv_heads=N, head_dim=N, vocab=N, window=N, tied, or a "
                                "config key as in n_experts=8",
                                part);
        *text += n + ((*text)[n] == ',');
    }
    for (size_t i = 0; i < N_NEEDED; i++)
        if (!*field_of(&s->sizes, i))
            return parser_usage(e, "--shape: %s is missing", fields[i].name);
    snprintf(s->name, sizeof s->name, "custom");
    return TERN_OK;
}

/* Cuts the vocabulary as the layers: in tiles of 16 rows. */
static void cut(struct tern_shape *s, uint64_t layers)
{
    if (layers < s->n_layers)
        s->vocab = (s->vocab * layers / s->n_layers + 15) / 16 * 16;
    s->n_layers = layers;
}

static bool read_name(struct bench_shape *s, const char *text, size_t n)
{
    size_t stem = strcspn(text, ":,");
    for (size_t i = 0; i < N_SHAPES; i++) {
        uint64_t all = shapes[i].shape.n_layers, left = shapes[i].layers ? shapes[i].layers : all;
        if (strlen(shapes[i].name) != stem || memcmp(shapes[i].name, text, stem))
            continue;
        if (stem < n && (!number_u64(text + stem + 1, n - stem - 1, &left) || !left || left > all))
            return false;
        s->sizes = shapes[i].shape;
        cut(&s->sizes, left);
        snprintf(s->keys, sizeof s->keys, "%s", s->sizes.keys ? s->sizes.keys : "");
        snprintf(s->name, sizeof s->name, "%s", shapes[i].name);
        if (left < all)
            snprintf(s->name, sizeof s->name, "%s %llu/%llu", shapes[i].name,
                     (unsigned long long)left, (unsigned long long)all);
        return true;
    }
    return false;
}

enum tern_status bench_shape_read(struct bench_shape *s, const char **text, struct tern_error *e)
{
    size_t n = strcspn(*text, ",");
    *s = (struct bench_shape){.name = ""};
    enum tern_status status = TERN_OK;
    if (strchr(*text, '='))
        status = read_sizes(s, text, e);
    else if (read_name(s, *text, n))
        *text += n + ((*text)[n] == ',');
    else
        status = parser_usage(
            e,
            "--shape: '%.*s' is not one of %s, nor sizes as in "
            "dim=64,hidden=160,layers=2,heads=4,kv_heads=2,head_dim=16,vocab=256",
            n < 100 ? (int)n : 100, *text, bench_shape_names());
    s->sizes.keys = s->keys;
    return status;
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
