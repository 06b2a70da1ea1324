/* The sampler, outside of any model. Without arguments: a hash of many choices, which must be the
 * one below on every target. With --time: what a choice costs. With --draw: reads commands from
 * standard input, for tests/cli/test_sampler_numpy.py, and prints tokens:
 *   logits X ...    history ID ...    bias ID X ...    order TEXT    (each replaces the last one)
 *   set NAME X      a field of struct tern_sampler_params
 *   reset           to tern's defaults, with nothing of the above
 *   draw N          tokens 0 .. N - 1 by their index, on one line; mirostat begins anew for each
 *   walk N          the same, with mirostat's mu after each */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fpenv.h"
#include "base/xxh64.h"
#include "kernels/kernels.h"
#include "sample/sampler.h"

enum { MAX = 1 << 18, WANT_ROUNDS = 300 };
static const uint64_t want = 0xa18b016c1bc592f3;

static struct kernels kernels;
static struct sampler_item scratch[2 * MAX];
static float logits[MAX];
static tern_token history[MAX];
static struct tern_bias bias[MAX];

static struct sampler sampler_of(size_t vocab)
{
    return (struct sampler){.vocab = vocab, .log_sum_exp = kernels.log_sum_exp, .scratch = scratch};
}

/* ---- the same on every target --------------------------------------------------------------- */

static uint64_t state = 1;

static uint32_t next(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static float part(void) /* 0.00 to 1.00 */
{
    return (float)next(101) / 100.0f;
}

static void random_order(struct tern_sampler_params *p)
{
    for (unsigned char i = 0; i + 1 < TERN_N_STAGES; i++)
        p->order[i] = (unsigned char)(i + 1);
    for (uint32_t i = TERN_N_STAGES - 2; i > 0; i--) {
        uint32_t j = next(i + 1);
        unsigned char swap = p->order[i];
        p->order[i] = p->order[j], p->order[j] = swap;
    }
}

static struct tern_sampler_params random_params(size_t vocab)
{
    struct tern_sampler_params p = sampler_defaults();
    p.temperature = next(8) ? 0.3f + 2 * part() : 0;
    p.top_k = next(2) * next((uint32_t)vocab + 10);
    p.top_p = next(2) ? part() : 1;
    p.min_p = next(2) ? part() * part() : 0;
    p.typical_p = next(3) ? 1 : part();
    p.top_n_sigma = next(3) ? 0 : 3 * part();
    p.xtc_probability = next(3) ? 0 : 0.5f, p.xtc_threshold = 0.3f * part();
    p.repeat_penalty = next(3) ? 1 : 1 + part();
    p.frequency_penalty = next(3) ? 0 : part(), p.presence_penalty = next(3) ? 0 : part();
    p.dry_multiplier = next(3) ? 0 : part();
    p.mirostat = next(5) ? 0 : 2;
    p.seed = next(1000);
    if (next(2))
        random_order(&p);
    return p;
}

static uint64_t hash_choices(void)
{
    struct xxh64 h;
    xxh64_init(&h, 0);
    state = 1;
    for (int round = 0; round < WANT_ROUNDS; round++) {
        size_t vocab = 1 + next(next(2) ? 3000 : 100), n = next(200);
        struct sampler s = sampler_of(vocab);
        for (size_t i = 0; i < vocab; i++)
            logits[i] = (float)next(next(2) ? 30 : 100000) / 3000.0f - (float)next(20);
        for (size_t i = 0; i < n; i++)
            history[i] = (tern_token)next(next(2) ? 4 : (uint32_t)vocab);
        struct tern_sampler_params p = random_params(vocab);
        float mu = 2 * p.mirostat_tau;
        p.mu = &mu;
        for (uint64_t i = 0; i < 20; i++) {
            tern_token token = sampler_pick(&s, &p, logits, history, n, i, NULL);
            xxh64_update(&h, &token, sizeof token);
            xxh64_update(&h, &mu, sizeof mu);
        }
    }
    return xxh64_digest(&h);
}

static int check_targets(void)
{
    int failed = 0, passed = 0;
    for (const char *const *name = kernels_targets(); *name; name++) {
        if (kernels_init(&kernels, *name, NULL))
            continue;
        uint64_t hash = hash_choices();
        printf("%-8s %016llx%s\n", kernels.name, (unsigned long long)hash,
               hash == want ? "" : " is not what it was");
        hash == want ? passed++ : failed++;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

/* ---- time ----------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void time_masked(const char *name, const struct tern_sampler_params *p, size_t vocab,
                        const uint32_t *mask)
{
    struct sampler s = sampler_of(vocab);
    double best = 1e9;
    for (uint64_t i = 0; i < 30; i++) {
        double begin = now();
        (void)sampler_pick(&s, p, logits, history, 4096, i, mask);
        double took = now() - begin;
        best = took < best ? took : best;
    }
    printf("%7zu tokens  %-28s %8.1f us\n", vocab, name, best * 1e6);
}

static void time_one(const char *name, const struct tern_sampler_params *p, size_t vocab)
{
    time_masked(name, p, vocab, NULL);
}

/* Half of the tokens, in runs of 20; and 5 of them. */
static void time_masks(size_t vocab)
{
    static uint32_t mask[MAX / 32 + 1];
    struct tern_sampler_params p = sampler_defaults();
    memset(mask, 0, sizeof mask);
    for (size_t i = 0; i < vocab; i++)
        mask[i / 32] |= (uint32_t)(i / 20 % 2) << i % 32;
    time_masked("under a mask", &p, vocab, mask);
    memset(mask, 0, sizeof mask);
    for (size_t i = 0; i < 5; i++)
        mask[i * 777] |= 2;
    time_masked("under a mask of 5", &p, vocab, mask);
    p.temperature = 0, time_masked("greedy, under a mask of 5", &p, vocab, mask);
}

/* Logits like a model's that has a few hundred tokens in mind: a bell, and these above it; flat: a
 * bell alone, the worst case. */
static void print_times(bool flat)
{
    printf("%s logits\n", flat ? "flat" : "peaked");
    for (size_t i = 0; i < MAX; i++) {
        logits[i] = -6;
        for (int k = 0; k < 12; k++)
            logits[i] += part() * 2;
        logits[i] += i % 300 == 7 && !flat ? 15 * part() * part() : 0;
        history[i] = (tern_token)next(500);
    }
    for (size_t vocab = 32000; vocab <= 128000; vocab *= 4) {
        struct tern_sampler_params p = sampler_defaults(), off = {.temperature = 1, .top_p = 1};
        time_one("as by default", &p, vocab);
        p.top_k = 0, time_one("without top-k", &p, vocab);
        time_one("temperature 1 alone", &off, vocab);
        p = off, p.top_k = 40, time_one("top-k 40", &p, vocab);
        p = off, p.min_p = 0.05f, time_one("min-p 0.05", &p, vocab);
        p = off, p.top_p = 0.95f, time_one("top-p 0.95", &p, vocab);
        p = off, p.typical_p = 0.9f, time_one("typical 0.9", &p, vocab);
        p = off, p.top_n_sigma = 1, time_one("top-n-sigma 1", &p, vocab);
        p = off, p.xtc_probability = 1, p.xtc_threshold = 0.1f, time_one("xtc", &p, vocab);
        p = sampler_defaults(), p.repeat_penalty = 1.1f, time_one("repeat penalty", &p, vocab);
        p = sampler_defaults(), p.dry_multiplier = 0.8f, time_one("dry over 4096", &p, vocab);
        p = off, p.mirostat = 2, p.mirostat_tau = 5, time_one("mirostat", &p, vocab);
        p = off, p.temperature = 0, time_one("greedy", &p, vocab);
        time_masks(vocab);
    }
}

/* ---- draws ---------------------------------------------------------------------------------- */

struct session {
    struct tern_sampler_params p;
    size_t vocab, n_history;
};

static void set(struct tern_sampler_params *p, const char *name, double x)
{
#define REAL_(field)            \
    {                           \
#field, &p->field, NULL \
    }
#define NUMBER_(field)          \
    {                           \
#field, NULL, &p->field \
    }
    const struct {
        const char *name;
        float *real;
        uint32_t *number;
    } fields[] = {
        REAL_(temperature),
        NUMBER_(top_k),
        REAL_(top_p),
        REAL_(min_p),
        REAL_(repeat_penalty),
        NUMBER_(repeat_last_n),
        REAL_(frequency_penalty),
        REAL_(presence_penalty),
        REAL_(typical_p),
        REAL_(top_n_sigma),
        REAL_(xtc_probability),
        REAL_(xtc_threshold),
        REAL_(dry_multiplier),
        REAL_(dry_base),
        NUMBER_(dry_allowed_length),
        NUMBER_(dry_last_n),
        NUMBER_(mirostat),
        REAL_(mirostat_tau),
        REAL_(mirostat_eta),
    };
    if (!strcmp(name, "seed"))
        p->seed = (uint64_t)x;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(name, fields[i].name))
            continue;
        if (fields[i].real)
            *fields[i].real = (float)x;
        else
            *fields[i].number = (uint32_t)x;
    }
}

static void print_draws(struct session *g, long n, bool walks)
{
    struct sampler s = sampler_of(g->vocab);
    float mu = 2 * g->p.mirostat_tau;
    g->p.mu = &mu;
    for (long i = 0; i < n; i++) {
        if (!walks)
            mu = 2 * g->p.mirostat_tau;
        printf("%d ", (int)sampler_pick(&s, &g->p, logits, history, g->n_history, (uint64_t)i, NULL));
        if (walks)
            printf("%a ", (double)mu);
    }
    printf("\n");
}

static double number(char **text)
{
    return strtod(*text, text);
}

static bool more(char **text)
{
    *text += strspn(*text, " \n");
    return **text != 0;
}

static void obey(struct session *g, char *line)
{
    struct tern_error e = {0};
    size_t n = strcspn(line, " \n"), k = 0;
    char *rest = line + n, name[40];
    int used = 0;
    line[n] = 0, rest++;
    rest[strcspn(rest, "\n")] = 0;
    if (!strcmp(line, "logits"))
        for (g->vocab = 0; more(&rest); g->vocab++)
            logits[g->vocab] = (float)number(&rest);
    else if (!strcmp(line, "history"))
        for (g->n_history = 0; more(&rest); g->n_history++)
            history[g->n_history] = (tern_token)number(&rest);
    else if (!strcmp(line, "bias"))
        for (g->p.bias = bias; more(&rest); g->p.n_bias = ++k) {
            bias[k].token = (tern_token)number(&rest);
            bias[k].value = (float)number(&rest);
        }
    else if (!strcmp(line, "set") && sscanf(rest, "%39s %n", name, &used) == 1)
        set(&g->p, name, strtod(rest + used, NULL));
    else if (!strcmp(line, "reset"))
        g->p = sampler_defaults(), g->n_history = 0;
    else if (!strcmp(line, "draw") || !strcmp(line, "walk"))
        print_draws(g, strtol(rest, NULL, 10), *line == 'w');
    else if (strcmp(line, "order") || sampler_order(&g->p, rest, &e))
        fprintf(stderr, "%s: %s\n", line, e.text), exit(2);
    if (g->vocab && sampler_check(&g->p, g->vocab, &e))
        fprintf(stderr, "%s\n", e.text), exit(2);
}

static int obey_all(void)
{
    static char line[1 << 22];
    struct session g = {.p = sampler_defaults()};
    kernels_init(&kernels, NULL, NULL);
    while (fgets(line, sizeof line - 1, stdin))
        obey(&g, line);
    return 0;
}

int main(int argc, char **argv)
{
    struct fpenv saved = fpenv_enter();
    int status = 0;
    if (argc > 1 && !strcmp(argv[1], "--draw"))
        status = obey_all();
    else if (argc > 1 && !strcmp(argv[1], "--time"))
        kernels_init(&kernels, NULL, NULL), print_times(false), print_times(true);
    else
        status = check_targets();
    fpenv_leave(saved);
    return status;
}
