/* Files of receipts: see receipt_file.h. */
#include "app/run/receipt_file.h"

#include "app/cli/files.h"
#include "app/cli/number.h"
#include "app/cli/out.h"
#include "app/cli/output_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sentence about the file names the option. */
static enum tern_status name_option(enum tern_status s, const char *option, struct tern_error *e)
{
    struct tern_error cause = *e;
    if (s && s != TERN_CANCELLED)
        snprintf(e->text, sizeof e->text, "%s: %.480s", option, cause.text);
    return s;
}

static enum tern_status write_text(const char *path, const char *text, size_t n,
                                   struct tern_error *e)
{
    struct output_file file;
    enum tern_status s = output_file_open(&file, path, e);
    if (s)
        return s;
    fwrite(text, 1, n, file.stream);
    return output_file_close(&file, TERN_OK, e);
}

enum tern_status receipt_file_check(const struct run_options *o, struct tern_error *e)
{
    struct output_file file;
    const char *path = o->value[OPT_RECEIPT].text;
    enum tern_status s = path ? output_file_open(&file, path, e) : TERN_OK;
    if (!s && path)
        (void)output_file_close(&file, TERN_CANCELLED, e);
    return name_option(s, "--receipt", e);
}

/* The tokens of the answer: all but the last are in the sequence. */
static tern_token *take_answer(const struct completion *g, size_t n)
{
    size_t made = g->stats.result.n_generated;
    tern_token *answer = malloc((made + 1) * sizeof *answer);
    if (answer && made) {
        memcpy(answer, tern_seq_tokens(g->ctx, 0) + n, (made - 1) * sizeof *answer);
        answer[made - 1] = g->stats.result.last;
    }
    return answer;
}

static enum tern_status print(const struct completion *g, const tern_token *prompt, size_t n,
                              const tern_token *answer, const char *path, struct tern_error *e)
{
    struct tern_memory plan;
    tern_context_memory(g->ctx, &plan);
    struct tern_receipt_params p = {.prompt = prompt,
                                    .n_prompt = n,
                                    .answer = answer,
                                    .n_answer = g->stats.result.n_generated,
                                    .generate = &g->p,
                                    .constraint = g->p.constraint ? &g->constrain.params : NULL,
                                    .result = &g->stats.result,
                                    .cache_type = plan.cache_type};
    size_t size;
    enum tern_status s = tern_receipt_write(g->model, &p, NULL, 0, &size, e);
    char *text = s ? NULL : malloc(size);
    if (s)
        return s;
    if (!text)
        return parser_no_memory_for(e, "the receipt");
    s = tern_receipt_write(g->model, &p, text, size, &size, e);
    if (!s)
        s = write_text(path, text, size, e);
    free(text);
    return s;
}

enum tern_status receipt_file_write(const struct completion *g, const tern_token *prompt, size_t n,
                                    struct tern_error *e)
{
    enum tern_status s;
    tern_token *answer = g->stats.result.n_shifts ? NULL : take_answer(g, n);
    if (!answer && !g->stats.result.n_shifts)
        return parser_no_memory_for(e, "the receipt");
    s = print(g, prompt, n, answer, g->o->value[OPT_RECEIPT].text, e);
    free(answer);
    return name_option(s, "--receipt", e);
}

static void say(const struct tern_receipt_verdict *v)
{
    char time[32];
    if (v->holds)
        out_print("proven: %zu token%s in %s\n", v->n_tokens, v->n_tokens == 1 ? "" : "s",
                  number_seconds(v->seconds, time, sizeof time));
    else
        out_print("refuted: %s\n", v->why);
}

enum tern_status receipt_file_verify(tern_model *model, const struct run_options *o,
                                     struct tern_error *e)
{
    struct tern_receipt_verdict v;
    char *text = NULL;
    size_t n = 0;
    enum tern_status s = files_take(o->value[OPT_VERIFY_RECEIPT].text, &text, &n, e);
    if (!s)
        s = name_option(tern_receipt_verify(model, text, n, &v, e), "--verify-receipt", e);
    free(text);
    if (s)
        return s;
    say(&v);
    if (v.holds)
        return TERN_OK;
    snprintf(e->text, sizeof e->text, "--verify-receipt: the receipt is refuted");
    return e->code = TERN_BAD_FILE;
}
