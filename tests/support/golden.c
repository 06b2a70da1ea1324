/* Golden tests, read: see golden.h. */
#include "golden.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/writer.h"

const char *const golden_names[] = {
    "llama-mha", "llama-gqa", "llama-mqa", "llama-bias", "llama-linear", "llama3", "mistral",
    "mistral-long", "qwen2", "gemma2", "falcon-40b", "gpt-oss", "mixtral", "olmo2", "qwen2-moe",
    "falcon-rw",
    "bloom", "glm4-moe-groups", "hunyuan", "ministral3", "phimoe", "lfm2", "qwen3-next", "nemotron-h",
    "gemma4-e2b", "gemma4-26b", "deepseek-v2", "deepseek-v3", "llama4", "kimi-linear", "gemma3n",
    /* without constants */
    "arcee", "cohere", "cohere2", "ernie4_5", "exaone4", "falcon", "gemma", "gemma3", "glm4",
    "gpt-neox", "gpt2", "granite", "llama-dynamic", "llama-yarn", "olmo", "olmo3", "olmoe",
    "olmoe-clip", "phi", "phi-norms", "phi3", "phi3-grows", "phi3-long", "qwen3", "qwen3-moe",
    "seed-oss", "smollm3", "stablelm", "stablelm-12b", "starcoder2", "starcoder2-relu",
    "cwm", "glm", "helium", "internlm3", "jais2", "ministral", "nemotron", "vaultgemma",
    "dots1", "ernie4_5-moe", "exaone-moe", "glm4-moe", "granitemoe", "granitemoe-shared", "mellum",
    "minimax-m2", "codegen", "gpt-bigcode", "gpt-bigcode-mha", "gpt-neo",
    "gptj", "granite-swa", "hunyuan-moe", "afmoe", "apertus", "flex-olmo", "granitemoe-swa",
    "hyperclovax", "iquestcoder", "persimmon", "solar-open", "mpt", "nanochat", "opt", "biogpt",
    "bitnet", "gpt-neox-japanese", "gemma4-e4b", "gemma4-12b",
    "deepseek-v2-lite", "glm4-moe-lite", "minicpm3", "youtu", "qwen35", "qwen35-moe",
    "olmo-hybrid", "ling3", "mistral4",
    "bamba", "granite4", "granite4-h", "lfm2-moe", "lfm3", "flint", "kolibri1", "hy-v3",
    "cohere2-moe", "cohere2-moe-rms", "aria-text", "dbrx", "axk1",
    "nemotron3", "falcon-h1", "falcon-h1-norm", "xglm", "ctrl", "mllama-text", "cohere-compass",
    "laguna", "laguna-values", "mamba2",
    NULL};

int golden_count(void)
{
    return (int)(sizeof golden_names / sizeof *golden_names) - 1;
}

bool golden_is_quick(void)
{
    const char *quick = getenv("QUICK");
    return quick && *quick;
}

bool golden_is_threaded(void)
{
    return golden_is_quick() && !strcmp(getenv("QUICK"), "threads");
}

bool golden_is_due(int i)
{
    return !golden_is_quick() || i % (golden_is_threaded() ? 15 : 5) == 0;
}

int golden_few(int n)
{
    int part = golden_is_threaded() ? 4 : golden_is_quick() ? 2 : 1;
    return (n + part - 1) / part;
}

int golden_alone(int n)
{
    return golden_is_threaded() ? 0 : n;
}

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

static size_t read_numbers(uint64_t *out, size_t max, char *text)
{
    size_t n = 0;
    for (char *end; n < max; n++, text = end) {
        out[n] = strtoull(text, &end, 10);
        if (end == text)
            break;
    }
    return n;
}

static void read_row(struct golden *g, char *text)
{
    char *digits;
    g->at[g->n_rows] = strtoul(text, &digits, 10);
    for (size_t i = 0; i < g->vocab; i++)
        g->row[g->n_rows][i] = hex_float(digits + 1 + 8 * i);
    g->n_rows++;
}

/* "NAME rows k matrices any|f32|ones" */
static void read_tensor(struct golden *g, char *text)
{
    struct golden_tensor *t = &g->tensors[g->n_tensors++];
    uint64_t sizes[3] = {0};
    size_t n = strcspn(text, " ");
    snprintf(t->name, sizeof t->name, "%.*s", (int)n, text);
    read_numbers(sizes, 3, text + n);
    t->rows = sizes[0], t->k = sizes[1], t->matrices = sizes[2];
    t->ones = strstr(text + n, " ones") != NULL;
    t->f32 = t->ones || strstr(text + n, " f32") != NULL;
}

/* "NAME values" of a config key */
static void read_key(struct golden *g, const char *kind, char *text)
{
    enum { MAX = 512 };
    uint64_t sizes[MAX];
    float numbers[MAX];
    char *values = strchr(text, ' ');
    size_t n = 0;
    if (!values)
        return;
    *values++ = 0;
    values[strcspn(values, "\n")] = 0;
    if (strcmp(kind, "text") == 0) {
        keywriter_text(&g->config, text, values);
        return;
    }
    if (strcmp(kind, "u64") == 0) {
        n = read_numbers(sizes, MAX, values);
        keywriter_add(&g->config, text, true, KEY_U64, sizes, n);
        if (strcmp(text, "vocab") == 0)
            g->vocab = sizes[0];
        for (size_t i = 0; i < n && strcmp(text, "mixer") == 0; i++)
            g->recurrent |= sizes[i] > 1;
        for (size_t i = 0; i < n && strcmp(text, "window") == 0; i++)
            g->windowed |= sizes[i] != 0;
        return;
    }
    for (; n < MAX && strlen(values) >= 9 * n + 8; n++)
        numbers[n] = hex_float(values + 9 * n);
    keywriter_add(&g->config, text, true, KEY_F32, numbers, n);
}

static void read_line(struct golden *g, const char *word, char *text)
{
    const struct {
        const char *word;
        uint64_t *to;
        size_t max;
    } numbers[] = {
        {"weights_seed", &g->seed, 1},
        {"prompt_seed", &g->prompt_seed, 1},
        {"prompt", &g->n_prompt, 1},
        {"greedy", g->greedy, GOLDEN_GREEDY},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(word, numbers[i].word) == 0)
            read_numbers(numbers[i].to, numbers[i].max, text);
    if (strcmp(word, "u64") == 0 || strcmp(word, "f32") == 0 || strcmp(word, "text") == 0)
        read_key(g, word, text);
    if (strcmp(word, "tensor") == 0 && g->n_tensors < GOLDEN_TENSORS)
        read_tensor(g, text);
    if (strcmp(word, "row") == 0 && g->n_rows < GOLDEN_ROWS)
        read_row(g, text);
}

void golden_read(struct golden *g, const char *name)
{
    char path[256], line[8192];
    snprintf(path, sizeof path, "tests/golden/%s.txt", name);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        fprintf(stderr, "cannot read %s: run this from the project's folder\n", path);
        exit(TERN_IO);
    }
    memset(g, 0, sizeof *g);
    g->name = name;
    keywriter_init(&g->config);
    while (fgets(line, sizeof line, f) != NULL) {
        char *space = strchr(line, ' ');
        if (space == NULL)
            continue;
        *space = 0;
        read_line(g, line, space + 1);
    }
    fclose(f);
}

/* A vector of ones, padded with zeros */
static enum tern_status write_ones(struct writer *w, size_t n, struct tern_error *e)
{
    float values[1024] = {0};
    for (size_t i = 0; i < n && i < 1008; i++)
        values[i] = 1;
    return writer_data(w, values, (n + 15) / 16 * 64, e);
}

static enum tern_status write_model(struct writer *w, const struct golden *g, enum tern_type type,
                                    struct tern_error *e)
{
    enum tern_status s = writer_section(w, "config", true, g->config.data, g->config.bytes, e);
    if (!s)
        s = toy_last_sections(w, e);
    for (size_t i = 0; i < g->n_tensors && !s; i++) {
        const struct golden_tensor *t = &g->tensors[i];
        s = writer_tensor(w, t->name, t->f32 ? TERN_F32 : type, t->rows, t->k, t->matrices, e);
    }
    for (size_t i = 0; i < g->n_tensors && !s; i++) {
        const struct golden_tensor *t = &g->tensors[i];
        s = t->ones ? write_ones(w, (size_t)t->rows, e)
                    : toy_data(w, t->name, t->f32 ? TERN_F32 : type, t->rows, t->k, t->matrices,
                               g->seed, e);
    }
    return s ? s : writer_finish(w, e);
}

void golden_write(char *path, size_t size, const struct golden *g, enum tern_type type)
{
    struct tern_error e = {0};
    struct writer *w = NULL;
    toy_path(path, size, "golden.bin");
    enum tern_status s = writer_open(&w, path, &e);
    if (!s)
        s = write_model(w, g, type, &e);
    writer_close(w);
    if (s) {
        fprintf(stderr, "%s\n", e.text);
        exit((int)s);
    }
}

void golden_close(struct golden *g)
{
    keywriter_close(&g->config);
}

double golden_distance(const float *a, const float *b, size_t n)
{
    double far = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        far = d > far || isnan(d) ? d : far;
        most = fabs((double)b[i]) > most ? fabs((double)b[i]) : most;
    }
    return far / most;
}
