/* A q4c model has, bit for bit, the logits of the q8 model with the same values and scales: golden
 * models written both ways, with random codes and a random table in each tile (most without a zero,
 * so that padding is not zero), in batches of one, few and many rows, on every target. And both
 * have the fingerprint that is recorded here. Plain, for emulators. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "kernels/formats.h"
#include "kernels/targets.h"
#include "weights/weights.h"
#include "weights/writer.h"

enum { LENGTH = 48, HEAD = 32, Q8_BLOCK = 544, Q4_BLOCK = 288 };

#define NAME(file, name, needs) #name,
static const char *const targets[] = {TARGETS(NAME)};
static const size_t batches[] = {1, 5, TERN_DEFAULT_LOGITS};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void stop_if(enum tern_status s, const struct tern_error *e)
{
    if (s) {
        fprintf(stderr, "%s\n", e->text);
        exit((int)s);
    }
}

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* The table and all codes of a tile */
static void randomize(unsigned char *tile, size_t groups, uint64_t *state)
{
    for (int i = 0; i < 16; i++)
        tile[i] = (unsigned char)((int)(next(state) % 255) - 127);
    for (size_t g = 0; g < groups; g++)
        for (int i = 0; i < Q4_BLOCK - 32; i++)
            tile[HEAD + g * Q4_BLOCK + i] = (unsigned char)next(state);
}

/* A block of q8 from one of q4c, as FORMAT.md has them; from column n on is padding: zero in q8 */
static void widen(unsigned char *to, const unsigned char *from, const unsigned char *table,
                  size_t n)
{
    for (int r = 0; r < 16; r++)
        for (int k = 0; k < 32; k++) {
            int pair = from[k / 8 * 64 + 4 * r + k % 4];
            int value = table[k % 8 < 4 ? pair & 15 : pair >> 4];
            to[k / 4 * 64 + 4 * r + k % 4] = (unsigned char)((size_t)k < n ? value : 0);
        }
    memcpy(to + Q8_BLOCK - 32, from + Q4_BLOCK - 32, 32);
}

/* Tensor t with other numbers; seed: which */
static void write_tiles(struct writer *w, const struct tensor *t, uint64_t seed, bool as_q8)
{
    struct tern_error e = {0};
    size_t groups = (size_t)(t->k + 31) / 32, bytes = HEAD + groups * Q4_BLOCK;
    unsigned char *tile = malloc(bytes), *wide = malloc(groups * Q8_BLOCK);
    for (size_t at = 0; at < t->bytes; at += bytes) {
        memcpy(tile, (const unsigned char *)t->data + at, bytes);
        randomize(tile, groups, &seed);
        for (size_t g = 0; g < groups; g++)
            widen(wide + g * Q8_BLOCK, tile + HEAD + g * Q4_BLOCK, tile, (size_t)t->k - 32 * g);
        if (as_q8)
            stop_if(writer_data(w, wide, groups * Q8_BLOCK, &e), &e);
        else
            stop_if(writer_data(w, tile, bytes, &e), &e);
    }
    free(tile);
    free(wide);
}

/* The model of a q4c file with other numbers, as q4c or as q8 */
static void write_twin(char *path, size_t size, const char *from, bool as_q8)
{
    struct tern_error e = {0};
    struct weights *in;
    struct writer *w;
    toy_path(path, size, as_q8 ? "twin-q8.bin" : "twin-q4c.bin");
    stop_if(weights_open(&in, from, &e), &e);
    stop_if(writer_open(&w, path, &e), &e);
    for (size_t i = 0; i < weights_n_sections(in); i++) {
        const struct section *s = weights_section_at(in, i);
        if (strcmp(s->tag, "tensors") != 0)
            stop_if(writer_section(w, s->tag, s->critical, s->data, s->bytes, &e), &e);
    }
    for (size_t i = 0; i < weights_count(in); i++) {
        const struct tensor *t = weights_at(in, i);
        enum tern_type type = t->type == TERN_Q4C && as_q8 ? TERN_Q8 : t->type;
        stop_if(writer_tensor(w, t->name, type, t->rows, t->k, t->matrices, &e), &e);
    }
    for (size_t i = 0; i < weights_count(in); i++) {
        const struct tensor *t = weights_at(in, i);
        if (t->type == TERN_Q4C)
            write_tiles(w, t, i, as_q8);
        else
            stop_if(writer_data(w, t->data, (size_t)t->bytes, &e), &e);
    }
    stop_if(writer_finish(w, &e), &e);
    writer_close(w);
    weights_close(in);
}

/* Of all logits of the golden prompt; 0: this machine lacks the target */
static uint64_t fingerprint(const struct golden *g, const char *path, const char *cpu, size_t batch)
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = 2, .cpu = cpu};
    struct tern_context_params cp = {.n_ctx = LENGTH, .n_batch = 64, .fingerprint = 1};
    tern_token ids[LENGTH];
    tern_model *model;
    tern_context *ctx;
    enum tern_status s = tern_model_open(&model, path, &mp, &e);
    if (s == TERN_USAGE)
        return 0;
    stop_if(s, &e);
    stop_if(tern_context_open(&ctx, model, &cp, &e), &e);
    golden_prompt(ids, LENGTH, g->prompt_seed, g->vocab);
    for (size_t i = 0; i < LENGTH; i++) {
        stop_if(tern_batch_add(ctx, 0, ids[i], TERN_ROW_LOGITS, &e), &e);
        if (i % batch == batch - 1 || i == LENGTH - 1)
            stop_if(tern_forward(ctx), &e);
    }
    stop_if(tern_numeric_status(ctx, &e), &e);
    uint64_t value = tern_fingerprint(ctx, NULL);
    tern_context_close(ctx);
    tern_model_close(model);
    return value;
}

int main(void)
{
    static const struct {
        const char *name;
        uint64_t fingerprint;
    } models[] = {{"llama-gqa", 0x40f31b95c88a9c6c},
                  {"gpt-oss", 0x6f81678ca5a3b997},
                  {"falcon-40b", 0xb6a92f5c8973d605},
                  {"qwen2-moe", 0xcc32f5c5c44c2a78}};
    static struct golden g;
    char first[256], twins[2][256];
    int passed = 0, failed = 0;
    for (size_t i = 0; i < COUNT(models); i++) {
        golden_read(&g, models[i].name);
        golden_write(first, sizeof first, &g, TERN_Q4C);
        for (int as_q8 = 0; as_q8 < 2; as_q8++)
            write_twin(twins[as_q8], sizeof twins[0], first, as_q8);
        uint64_t want = models[i].fingerprint;
        for (size_t run = 0; run < COUNT(targets) * COUNT(batches) * 2; run++) {
            const char *cpu = targets[run / 2 / COUNT(batches)];
            size_t batch = batches[run / 2 % COUNT(batches)];
            uint64_t got = fingerprint(&g, twins[run % 2], cpu, batch);
            if (got == want)
                passed++;
            else if (got && ++failed)
                printf("DIFFERS: %s %s, %s, batches of %zu: %016" PRIx64 ", want %016" PRIx64 "\n",
                       g.name, run % 2 ? "q8" : "q4c", cpu, batch, got, want);
        }
        remove(first), remove(twins[0]), remove(twins[1]);
        golden_close(&g);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
