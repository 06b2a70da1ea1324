/* Several machines: every golden model has the bits of graphs.txt, on however many processes mpirun
 * started. Arguments: threads of each process; then targets, in turn (rank 0 has the first; "best": the best
 * one); then, after "--share", shares. With PARTS=1 each process has its part of the file alone (tern_model_cut).
 * Rank 0 prints "N passed, N failed". */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"

enum { POSITIONS = 300, CHUNK = 150, ALONE = 5 };

static int passed, failed;
static tern_token ids[POSITIONS];

static void check(const char *name, const char *type, const char *cache, uint64_t hash)
{
    char start[128], line[128] = "";
    FILE *file = fopen("tests/golden/graphs.txt", "r");
    size_t n = (size_t)snprintf(start, sizeof start, "%s %s %s ", name, type, cache);
    while (file && fgets(line, sizeof line, file) && strncmp(line, start, n)) {
    }
    if (file)
        fclose(file);
    bool same = !strncmp(line, start, n) && strtoull(line + n, NULL, 16) == hash;
    passed += same, failed += !same;
    if (!same)
        printf("%s%016llx, not %s", start, (unsigned long long)hash, line);
}

/* Into a file and back: what follows is the same. */
static enum tern_status store(tern_context *ctx, const tern_model *model, struct tern_error *e)
{
    char path[256];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/session-%p", folder ? folder : "/tmp", (const void *)model);
    enum tern_status s = tern_session_save(ctx, 0, path, e);
    (void)tern_seq_keep(ctx, 0, 0);
    s = s ? s : tern_session_load(ctx, 0, path, e);
    remove(path);
    return s;
}

/* The rows of graphs.txt: chunks, and the last rows each alone */
static uint64_t fingerprint(tern_model *model, size_t n, enum tern_cache_type type, bool stores)
{
    struct tern_error e = {0};
    struct tern_context_params params = {.cache_type = type,
                                         .n_ctx = (uint32_t)n,
                                         .n_batch = CHUNK,
                                         .n_logits = CHUNK,
                                         .fingerprint = 1};
    tern_context *ctx = NULL;
    enum tern_status s = tern_context_open(&ctx, model, &params, &e);
    for (size_t at = 0, end; !s && at < n; at = end) {
        end = at + CHUNK + ALONE <= n ? at + CHUNK : at + ALONE < n ? n - ALONE : at + 1;
        for (size_t i = at; i < end && !s; i++)
            s = tern_batch_add(ctx, 0, ids[i], i % 4 == 3, &e);
        s = s ? s : tern_forward(ctx);
        if (!s && !at && stores)
            s = store(ctx, model, &e);
    }
    if (s)
        printf("%s\n", e.text);
    uint64_t hash = s ? 0 : tern_fingerprint(ctx, NULL);
    tern_context_close(ctx);
    return hash;
}

/* The file becomes parts, or they vanish; does nothing without PARTS. */
static enum tern_status cut(const char *path, const char *share, bool removes, struct tern_error *e)
{
    uint32_t rank, n = tern_machines(&rank);
    char part[300];
    if (!getenv("PARTS"))
        return TERN_OK;
    enum tern_status s = removes ? TERN_OK : tern_model_cut(path, n, share, e);
    remove(path);
    for (uint32_t r = 0; r < n; r++) {
        snprintf(part, sizeof part, "%s.part-%u-of-%u", path, r + 1, n);
        if (removes || r != rank)
            remove(part);
    }
    return s;
}

static void test(const struct golden *g, enum tern_type type, struct tern_model_params *how,
                 uint32_t rank)
{
    enum tern_cache_type cache = (enum tern_cache_type)(strlen(g->name) % 3);
    struct tern_error e = {0};
    tern_model *model = NULL;
    char path[256];
    size_t n = g->n_prompt < POSITIONS ? g->n_prompt : POSITIONS;
    golden_write(path, sizeof path, g, type);
    golden_prompt(ids, n, g->prompt_seed, g->vocab);
    enum tern_status s = cut(path, how->share, false, &e);
    s = s ? s : tern_model_open(&model, path, how, &e);
    if (s)
        printf("%s: %s\n", g->name, e.text), failed++;
    else if (rank)
        (void)tern_follow(model, &e);
    else
        check(g->name, tern_type_name(type), tern_cache_type_name(cache),
              fingerprint(model, n, cache, type == TERN_Q8));
    tern_model_close(model);
    remove(path);
    (void)cut(path, NULL, true, &e);
}

int main(int argc, char **argv)
{
    static struct golden g;
    struct tern_error e = {0};
    uint32_t rank, n_targets = 0;
    if (tern_machines_start(NULL, &e)) {
        printf("%s\n", e.text);
        return 1;
    }
    (void)tern_machines(&rank);
    struct tern_model_params how = {.n_threads = argc > 1 ? atoi(argv[1]) : 1};
    while (2 + (int)n_targets < argc && strcmp(argv[2 + n_targets], "--share"))
        n_targets++;
    const char *cpu = n_targets ? argv[2 + rank % n_targets] : "best";
    how.cpu = strcmp(cpu, "best") ? cpu : NULL;
    how.share = 3 + (int)n_targets < argc ? argv[3 + n_targets] : NULL;
    for (int i = 0; golden_names[i]; i++) {
        if (!golden_is_due(i))
            continue;
        golden_read(&g, golden_names[i]);
        test(&g, TERN_F32, &how, rank);
        test(&g, TERN_Q8, &how, rank);
        golden_close(&g);
    }
    if (!rank)
        printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
