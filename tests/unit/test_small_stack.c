/* Everything works in a thread with a stack of 256 KiB: the model is opened, checked, quantized and
 * run by every target, without other threads, and texts of all kinds go through the tokenizer, the
 * samplers, the chat templates and sessions. How much stack each took is printed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "golden.h"
#include "suite.h"
#include "tern.h"
#include "tern_lab.h"
#include "toy.h"

enum { STACK = 256 << 10, PAINT = 0xA5, TEXT = 50000 };

static const char fable[] = "models/fable.bin";
static char made[256], session[256];

/* Check's own calls need more stack, so that a failure is kept and told later. */
static const char *failed;
static struct tern_error e;

static bool ok(enum tern_status s, const char *what)
{
    if (s)
        failed = what;
    return !s;
}

static void use_texts(tern_model *m)
{
    static const char *const pieces[] = {" ",        "a",    "The cat sat. ", "\xE2\x96\x81",
                                         "\xFF\xF0", "\n\n", "12345"};
    static char text[TEXT];
    static tern_token ids[2 * TEXT];
    size_t n = 0, got, len;
    for (size_t i = 0; n + 16 < TEXT; i++) {
        const char *p = pieces[i * i % 7 * (i / 1000 % 3 + 1) % 7];
        memcpy(text + n, p, strlen(p));
        n += strlen(p);
    }
    if (!ok(tern_tokenize(m, text, n, TERN_ADD_SPECIAL, ids, 2 * TEXT, &got, &e), "tokenize"))
        return;
    tern_decoder *d;
    if (!ok(tern_decoder_open(&d, m, 1, &e), "decoder"))
        return;
    for (size_t i = 0; i < got && i < 2 * TEXT; i++)
        tern_decoder_push(d, ids[i], &len);
    tern_decoder_finish(d, &len);
    tern_decoder_close(d);
    const struct tern_chat_message talk[] = {{.role = "system", .text = text, .bytes = n / 8},
                                             {.role = "user", .text = text, .bytes = n / 4}};
    for (size_t i = 0; tern_chat_builtin(i); i++)
        if (ok(tern_chat_use(m, tern_chat_builtin(i), &e), "chat template"))
            ok(tern_chat_tokens(m, talk, 2, TERN_CHAT_GENERATE, ids, 2 * TEXT, &got, &e), "chat");
}

static void generate(tern_model *m, enum tern_cache_type type)
{
    static const struct tern_bias bias = {5, 1.5f};
    static const char *const breakers[] = {"\n"};
    struct tern_context_params cp = {.n_ctx = 48, .n_batch = 32, .cache_type = type};
    struct tern_sampler_params sampler = tern_sampler_defaults(m);
    struct tern_generate_params p = tern_generate_defaults();
    tern_context *ctx;
    if (!ok(tern_context_open(&ctx, m, &cp, &e), "context"))
        return;
    sampler.temperature = 0.8f, sampler.top_k = 50, sampler.top_p = 0.9f, sampler.min_p = 0.01f;
    sampler.typical_p = 0.9f, sampler.xtc_probability = 0.5f, sampler.repeat_penalty = 1.1f;
    sampler.repeat_last_n = 64, sampler.dry_multiplier = 0.8f, sampler.top_n_sigma = 3;
    sampler.bias = &bias, sampler.n_bias = 1;
    sampler.dry_breakers = breakers, sampler.n_dry_breakers = 1;
    p.prompt = "Once upon a time there was a cat. The cat and the dog and the cat and the dog";
    p.prompt_bytes = strlen(p.prompt), p.n_predict = 40, p.ignore_end = 1, p.shift = 1;
    p.sampler = &sampler, p.lookup = 4;
    ok(tern_generate(ctx, &p, NULL, &e), "generate");
    ok(tern_session_save(ctx, 0, session, &e), "save");
    ok(tern_session_load(ctx, 0, session, &e), "load");
    tern_context_close(ctx);
}

static void *everything(void *arg)
{
    static const enum tern_cache_type types[] = {TERN_CACHE_F32, TERN_CACHE_F16, TERN_CACHE_Q8};
    struct tern_model_params mp = {.n_threads = 1, .cpu = arg};
    tern_model *m;
    const char *cpu = arg;
    bool slow = cpu && (!strcmp(cpu, "plain") || !strcmp(cpu, "ref"));
    for (int k = 0; k < 2; k++) {
        if (!ok(tern_model_open(&m, k ? made : fable, &mp, &e), "open"))
            return NULL;
        for (size_t i = 0; i < (slow ? 1 : 3); i++)
            generate(m, types[2 - i]);
        if (!k && !slow) {
            ok(tern_model_check(m, &e), "check");
            ok(tern_model_selftest(m, NULL, NULL, &e), "selftest");
        }
        tern_model_close(m);
    }
    return NULL;
}

static void *texts(void *arg)
{
    tern_model *m;
    (void)arg;
    if (!ok(tern_model_open(&m, fable, &(struct tern_model_params){.n_threads = 1}, &e), "open"))
        return NULL;
    use_texts(m);
    tern_model_close(m);
    return NULL;
}

static void *quantize(void *arg)
{
    const struct tern_quantize_params p = {
        .type = TERN_Q4C, .n_threads = 1, .text = "One day a cat sat on a mat.", .text_bytes = 27};
    (void)arg;
    ok(tern_quantize(fable, made, &p, &e), "quantize");
    return NULL;
}

/* Runs fn in a thread of its own stack below a page that may not be touched. */
static void run_small(void *(*fn)(void *), const char *cpu, const char *what)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), untouched = 0;
    pthread_attr_t attr;
    pthread_t thread;
    unsigned char *p =
        mmap(NULL, page + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(p != MAP_FAILED && !mprotect(p, page, PROT_NONE));
    p += page;
    memset(p, PAINT, STACK);
    ck_assert(!pthread_attr_init(&attr) && !pthread_attr_setstack(&attr, p, STACK));
    ck_assert_int_eq(pthread_create(&thread, &attr, fn, (void *)(uintptr_t)cpu), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    while (untouched < STACK && p[untouched] == PAINT)
        untouched++;
    munmap(p - page, page + STACK);
    ck_assert_msg(!failed, "%s: %s", failed, e.text);
    printf("%-10s %-6s %3zu KiB of stack\n", what, cpu ? cpu : "best", (STACK - untouched) >> 10);
}

static const char *const cpus[] = {NULL, "avx2", "neon", "avx512", "ref", "plain"};

static void setup(void)
{
    toy_path(made, sizeof made, "small.bin");
    toy_path(session, sizeof session, "small.session");
    run_small(quantize, NULL, "quantize");
    run_small(texts, NULL, "texts");
}

static void teardown(void)
{
    remove(made);
    remove(session);
}

/* _i: the target; those of other machines are left out. */
START_TEST(works_in_small_threads)
{
    struct tern_model_params mp = {.n_threads = 1, .cpu = cpus[_i]};
    tern_model *m;
    if (tern_model_open(&m, fable, &mp, NULL))
        return;
    tern_model_close(m);
    run_small(everything, cpus[_i], "the rest");
}
END_TEST

SUITE("small stack", AROUND_ALL(setup, teardown),
      LOOP(works_in_small_threads, 0, golden_few((int)(sizeof cpus / sizeof *cpus))))
