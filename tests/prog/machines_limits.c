/* Several machines: what they refuse. Contexts beyond those that have a number, and batches beyond what MPI
 * can count; after that all goes on. Rank 0 prints "N passed, N failed". */
#include <stdbool.h>
#include <stdio.h>
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

int main(void)
{
    struct tern_shape shape = {32, 64, 1, 2, 1, 16, 16000, 40000, 1, 0, NULL};
    struct tern_error e = {0};
    tern_model *model = NULL;
    uint32_t rank;
    char path[64];
    if (tern_machines_start(NULL, &e))
        return 1;
    (void)tern_machines(&rank);
    snprintf(path, sizeof path, "/tmp/machines-limits-%ld", (long)getpid());
    enum tern_status s = tern_random_model(path, &shape, TERN_F32, 1, 1, &e);
    s = s ? s : tern_model_open(&model, path, NULL, &e);
    check("a model", !s, &e);
    if (!s && rank) {
        (void)tern_follow(model, &e);
    } else if (!s) {
        contexts(model);
        batches(model);
    }
    tern_model_close(model);
    remove(path);
    if (!rank)
        printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
