/* Several machines: what they refuse. Contexts beyond those that have a number, batches beyond what MPI can
 * count, and more memory than the host has for all of them; after that all goes on. Rank 0 prints "N passed,
 * N failed". */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tern.h"
#include "tern_lab.h"

enum { MOST = 64 };

static int passed, failed;

static void check(const char *what, bool is_so, const struct tern_error *e)
{
    passed += is_so, failed += !is_so;
    if (!is_so)
        printf("%s: %s\n", what, e->text);
}

static bool runs(tern_context *ctx)
{
    return !tern_batch_add(ctx, 0, 1, TERN_ROW_LOGITS, NULL) && !tern_forward(ctx) &&
           tern_n_logits(ctx) == 1;
}

/* 64 contexts are open; the next one is refused, until one of them is closed. */
static void contexts(tern_model *model)
{
    static tern_context *open[MOST], *more;
    struct tern_context_params params = {.n_ctx = 8};
    struct tern_error e = {0};
    bool all = true;
    for (int i = 0; i < MOST; i++)
        all &= !tern_context_open(&open[i], model, &params, &e) && runs(open[i]);
    check("64 contexts", all, &e);
    check("one more", tern_context_open(&more, model, &params, &e) == TERN_LIMIT && !more, &e);
    all = true;
    for (int i = 0; i < MOST; i++)
        all &= runs(open[i]);
    check("each is itself", all, &e);
    tern_context_close(open[7]);
    check("one that is closed", !tern_context_open(&open[7], model, &params, &e) && runs(open[7]),
          &e);
    for (int i = 0; i < MOST; i++)
        tern_context_close(open[i]);
}

/* 40,000 rows with 16,000 logits each */
static void batches(tern_model *model)
{
    struct tern_context_params params = {.n_ctx = 40000, .n_batch = 40000, .n_logits = 40000};
    struct tern_memory plan;
    struct tern_error e = {0};
    enum tern_status s = tern_context_plan(model, &params, &plan, &e);
    check("a batch that is too large", s == TERN_USAGE && strstr(e.text, "too large to travel"),
          &e);
    params.n_logits = 1;
    s = tern_context_plan(model, &params, &plan, &e);
    check("fewer logits", !s || s == TERN_NO_MEMORY, &e);
}

/* What all processes of this host hold of the plan, as the plan says; *prefixes: of it, for kept prefixes */
static uint64_t together(const tern_model *model, uint64_t *prefixes)
{
    struct tern_machine m;
    uint64_t sum = 0, there = 0;
    *prefixes = 0;
    for (uint32_t r = 0; tern_machine(model, r, &m); r++) {
        sum += m.memory.cache + m.memory.batch;
        *prefixes += m.memory.prefix;
        there = m.others_beside;
    }
    return sum == there ? sum : 0;
}

/* Kept prefixes lie in KV heads, of which each process holds its own; with latent attention each holds all. */
static void prefixes(tern_model *model, bool latent)
{
    struct tern_context_params params = {.n_ctx = 512, .n_batch = 8, .prefix_bytes = 20 << 20};
    struct tern_memory plan;
    struct tern_error e = {0};
    uint64_t held = 0;
    enum tern_status s = tern_context_plan(model, &params, &plan, &e);
    check("a plan", !s && together(model, &held), &e);
    check("what is held", latent ? held == 2 * plan.prefix : held < plan.prefix * 5 / 4, &e);
    params.prefix_bytes = 40 << 20;
    s = tern_context_plan(model, &params, &plan, &e);
    check("the memory of both",
          latent ? s == TERN_NO_MEMORY && strstr(e.text, "in the 2 processes there") : !s, &e);
}

static void dense(tern_model *model)
{
    contexts(model);
    batches(model);
    prefixes(model, false);
}

static void latent(tern_model *model)
{
    prefixes(model, true);
}

static void try(const struct tern_shape *shape, void (*fn)(tern_model *model))
{
    struct tern_error e = {0};
    tern_model *model = NULL;
    uint32_t rank;
    char path[64];
    (void)tern_machines(&rank);
    snprintf(path, sizeof path, "/tmp/machines-limits-%ld", (long)getpid());
    enum tern_status s = tern_random_model(path, shape, TERN_F32, 1, 1, &e);
    s = s ? s : tern_model_open(&model, path, NULL, &e);
    check("a model", !s, &e);
    if (!s && rank)
        (void)tern_follow(model, &e);
    else if (!s)
        fn(model);
    tern_model_close(model);
    remove(path);
}

int main(void)
{
    static const struct tern_shape shapes[] = {
        {32, 64, 1, 2, 2, 16, 16000, 40000, 1, 0, NULL},
        {32, 64, 1, 2, 1, 44, 64, 512, 1, 0,
         "kv_rank=32,q_rank=24,nope_dim=8,value_dim=16,rope_dims=12"}};
    struct tern_error e = {0};
    uint32_t rank;
    setenv("TERN_MEMORY", "64", 1);
    if (tern_machines_start(NULL, &e))
        return 1;
    try(&shapes[0], dense);
    try(&shapes[1], latent);
    if (tern_machines(&rank) && !rank)
        printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
