/* Golden tests, read: see golden.h. */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const golden_names[] = {"llama-mha",    "llama-gqa", "llama-mqa", "llama-bias",
                                    "llama-linear", "llama3",    "mistral",   "mistral-long",
                                    "qwen2",        NULL};

void golden_prompt(tern_token *ids, size_t n, uint64_t seed, uint64_t vocab)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (tern_token)((seed >> 33) % vocab);
    }
}

static float hex_float(const char *eight_digits)
{
    char word[9] = {0};
    memcpy(word, eight_digits, 8);
    uint32_t bits = (uint32_t)strtoul(word, NULL, 16);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void read_numbers(uint64_t *out, size_t max, char *text)
{
    for (size_t n = 0; n < max; n++) {
        char *end;
        out[n] = strtoull(text, &end, 10);
        if (end == text)
            break;
        text = end;
    }
}

static void read_row(struct golden *g, char *text)
{
    char *digits;
    g->at[g->n_rows] = strtoul(text, &digits, 10);
    for (size_t i = 0; i < g->toy.vocab; i++)
        g->row[g->n_rows][i] = hex_float(digits + 1 + 8 * i);
    g->n_rows++;
}

static void read_line(struct golden *g, const char *key, char *text)
{
    uint64_t tied = 0, n_prompt = 0;
    struct toy *t = &g->toy;
    const struct {
        const char *key;
        uint64_t *to;
        size_t max;
    } numbers[] = {
        {"n_layers", &t->n_layers, 1},
        {"dim", &t->dim, 1},
        {"vocab", &t->vocab, 1},
        {"max_seq", &t->max_seq, 1},
        {"n_heads", &t->n_heads, 1},
        {"n_kv_heads", &t->n_kv_heads, 1},
        {"head_dim", &t->head_dim, 1},
        {"hidden", &t->hidden, 1},
        {"attn_bias", &t->attn_bias, 1},
        {"ffn_bias", &t->ffn_bias, 1},
        {"weights_seed", &t->seed, 1},
        {"window", t->window, TOY_MAX_LAYERS},
        {"prompt_seed", &g->prompt_seed, 1},
        {"greedy", g->greedy, GOLDEN_GREEDY},
        {"head_tied", &tied, 1},
        {"prompt", &n_prompt, 1},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0)
            read_numbers(numbers[i].to, numbers[i].max, text);
    if (strcmp(key, "head_tied") == 0)
        t->untied = !tied;
    if (strcmp(key, "prompt") == 0)
        g->n_prompt = (size_t)n_prompt;
    if (strcmp(key, "norm_eps") == 0)
        t->norm_eps = hex_float(text);
    for (size_t i = 0; strcmp(key, "inv_freq") == 0 && i < t->head_dim / 2; i++)
        g->inv_freq[i] = hex_float(text + 9 * i);
    if (strcmp(key, "row") == 0 && g->n_rows < GOLDEN_ROWS)
        read_row(g, text);
}

void golden_read(struct golden *g, const char *name)
{
    char path[256], line[4096];
    snprintf(path, sizeof path, "tests/golden/%s.txt", name);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        fprintf(stderr, "cannot read %s: run this from the project's folder\n", path);
        exit(TERN_IO);
    }
    memset(g, 0, sizeof *g);
    g->name = name;
    g->toy.inv_freq = g->inv_freq;
    while (fgets(line, sizeof line, f) != NULL) {
        char *space = strchr(line, ' ');
        if (space == NULL)
            continue;
        *space = 0;
        read_line(g, line, space + 1);
    }
    fclose(f);
}

void golden_write(char *path, size_t size, const struct toy *toy, enum tern_type type)
{
    struct tern_error e = {0};
    struct toy typed = *toy;
    typed.type = type;
    toy_path(path, size, "golden.bin");
    if (toy_write(path, &typed, &e)) {
        fprintf(stderr, "%s\n", e.text);
        exit((int)e.code);
    }
}
