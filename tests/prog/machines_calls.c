/* Several machines: a random sequence of calls gives the same bits on any number of them. Batches of several
 * sequences, keep, fork, find and keep prefixes, sessions, files of prefixes, cancels, generated text with
 * guesses; models of each kind. Rank 0 prints a line for each model: two hashes, of what calls returned and
 * of files. Arguments: the seed, the number of calls. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xxh64.h"
#include "golden.h"

enum {
    N_CTX = 420,
    N_BATCH = 96,
    N_SEQS = 3,
    N_TEXTS = 3,
    CALLS = 24,
    BRANCH = 150,
    MOST_FILE = 1 << 24
};

/* Full attention; windows; two sets of RoPE frequencies; latent attention; recurrent layers and short
 * convolutions, alone and beside attention; the layer that guesses */
static const char *const names[] = {"llama-gqa", "gemma2",     "phi3-long",      "deepseek-v2",
                                    "lfm2",      "qwen3-next", "mamba2",         "kimi-linear",
                                    "falcon-h1", "nemotron-h", "mtp/qwen3-next", NULL};

static struct {
    tern_context *ctx;
    tern_token text[N_TEXTS][N_CTX]; /* which begin as the first does */
    size_t of[N_SEQS];               /* the text that a sequence goes on with */
    struct xxh64 calls, files;
    int n_calls;
    uint32_t random;
    char path[300];
} t;

static uint32_t below(uint32_t n)
{
    t.random ^= t.random << 13, t.random ^= t.random >> 17,
        t.random ^= t.random << 5; /* xorshift32 */
    return t.random % n;
}

static void note(uint64_t x)
{
    xxh64_update(&t.calls, &x, sizeof x);
}

static void note_file(const char *path)
{
    static unsigned char bytes[MOST_FILE];
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    xxh64_update(&t.files, bytes, n);
    note(n);
}

static void batch(void)
{
    size_t left = N_BATCH;
    for (uint32_t seq = 0; seq < N_SEQS; seq++) {
        size_t at = tern_seq_length(t.ctx, seq), n = below(3) ? below(40) : 1;
        if (at + n > N_CTX)
            note(at = tern_seq_keep(t.ctx, seq, 0));
        if (!below(4))
            tern_seq_expect(t.ctx, seq, below(N_CTX));
    }
    for (uint32_t seq = 0; seq < N_SEQS; seq++) {
        size_t at = tern_seq_length(t.ctx, seq), n = below(3) ? below(40) : 1;
        for (size_t i = 0; i < n && left && at + i < N_CTX; i++, left--)
            note(tern_batch_add(t.ctx, seq, t.text[t.of[seq]][at + i], !below(4), NULL));
    }
    if (!below(12))
        tern_cancel(t.ctx);
    note(tern_forward(t.ctx));
    note(tern_fingerprint(t.ctx, NULL));
}

/* Greedy, with guesses from repetitions or by the model's own layer */
static void generate(uint32_t seq, bool mtp)
{
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_generate_result result = {.last = -1};
    struct tern_sampler_params greedy = tern_sampler_defaults(tern_context_model(t.ctx));
    size_t at = tern_seq_length(t.ctx, seq);
    if (at + 40 > N_CTX)
        return;
    p.seq = seq, p.tokens = t.text[t.of[seq]] + at, p.n_tokens = 4, p.n_predict = 20;
    greedy.temperature = 0, p.sampler = &greedy, p.ignore_end = 1;
    p.lookup = mtp ? 0 : 4, p.mtp = mtp ? 2 : 0;
    note(tern_generate(t.ctx, &p, &result, NULL));
    note(result.n_generated);
    note((uint64_t)result.last);
    note(tern_seq_length(t.ctx, seq));
}

static void session(uint32_t from, uint32_t to)
{
    note(tern_session_save(t.ctx, from, t.path, NULL));
    note_file(t.path);
    if (tern_seq_length(t.ctx, from) && !tern_session_load(t.ctx, to, t.path, NULL))
        t.of[to] = t.of[from];
    note(tern_seq_length(t.ctx, to));
    remove(t.path);
}

static void prefixes(void)
{
    struct tern_error e = {0};
    int fd = open(t.path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    note(tern_prefix_save(t.ctx, fd, &e));
    note_file(t.path);
    if (!below(4)) /* what is damaged is not taken */
        note(ftruncate(fd, 3000) == 0);
    note(tern_prefix_load(t.ctx, fd, &e));
    close(fd);
    remove(t.path);
}

static void find(uint32_t seq, size_t text)
{
    t.of[seq] = text;
    note(tern_prefix_find(t.ctx, seq, t.text[text], 1 + below(N_CTX - 1)));
}

static void call(bool mtp)
{
    uint32_t seq = below(N_SEQS), other = below(N_SEQS), what = below(16);
    if (what < 7) {
        batch();
    } else if (what == 7) {
        note(tern_seq_keep(t.ctx, seq, tern_seq_length(t.ctx, seq) - below(30)));
    } else if (what == 8) {
        t.of[other] = t.of[seq];
        note(tern_seq_fork(t.ctx, seq, other, tern_seq_length(t.ctx, seq) - below(20)));
    } else if (what < 11) {
        tern_prefix_keep(t.ctx, seq);
    } else if (what == 11) {
        find(seq, below(N_TEXTS));
    } else if (what == 12) {
        generate(seq, mtp);
    } else if (what < 15) {
        session(seq, other);
    } else {
        prefixes();
    }
}

static enum tern_status run(tern_model *model, uint32_t seed, enum tern_cache_type type, bool mtp,
                            struct tern_error *e)
{
    struct tern_context_params params = {.cache_type = type,
                                         .n_ctx = N_CTX,
                                         .n_batch = N_BATCH,
                                         .n_seqs = N_SEQS,
                                         .n_logits = N_BATCH,
                                         .fingerprint = 1,
                                         .prefix_bytes = 1 << 20};
    enum tern_status s = tern_context_open(&t.ctx, model, &params, e);
    xxh64_init(&t.calls, 0);
    xxh64_init(&t.files, 0);
    t.random = seed;
    memset(t.of, 0, sizeof t.of);
    for (int i = 0; i < t.n_calls && !s; i++)
        call(mtp);
    tern_context_close(t.ctx);
    return s;
}

static bool test(const char *name, uint32_t seed, uint32_t rank)
{
    static struct golden g;
    bool mtp = strchr(name, '/');
    struct tern_model_params how = {.n_threads = 1, .load = mtp ? TERN_LOAD_MTP : 0};
    struct tern_error e = {0};
    tern_model *model = NULL;
    char path[256];
    golden_read(&g, name);
    golden_write(path, sizeof path, &g, TERN_Q8);
    for (size_t k = 0; k < N_TEXTS; k++) {
        golden_prompt(t.text[k], N_CTX, 1 + k, g.vocab);
        memcpy(t.text[k], t.text[0], k * BRANCH * sizeof **t.text);
    }
    snprintf(t.path, sizeof t.path, "%s.saved", path);
    enum tern_status s = tern_model_open(&model, path, &how, &e);
    if (!s)
        s = rank ? tern_follow(model, &e)
                 : run(model, seed, (enum tern_cache_type)(strlen(name) % 3), mtp, &e);
    if (s)
        printf("%s: %s\n", name, e.text);
    else if (!rank)
        printf("%-16s %016llx %016llx\n", name, (unsigned long long)xxh64_digest(&t.calls),
               (unsigned long long)xxh64_digest(&t.files));
    tern_model_close(model);
    remove(path);
    golden_close(&g);
    return !s;
}

int main(int argc, char **argv)
{
    struct tern_error e = {0};
    uint32_t rank, seed = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    bool good = true;
    if (tern_machines_start(NULL, &e)) {
        printf("%s\n", e.text);
        return 1;
    }
    (void)tern_machines(&rank);
    t.n_calls = argc > 2 ? atoi(argv[2]) : CALLS;
    for (size_t i = 0; names[i]; i++)
        good &= test(names[i], seed + (uint32_t)i, rank);
    return !good;
}
