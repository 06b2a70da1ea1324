/* Surgery's effect: see before_after.h. The text is evaluated twice, without the edits and with
 * them. */
#include "app/look/before_after.h"

#include "app/cli/out.h"
#include "app/look/before_after_page.h"
#include "app/look/page.h"
#include "app/look/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = BEFORE_AFTER_TOP, LABEL = 16 };

static int keep_logits(void *arg, size_t first, size_t n)
{
    struct outcome *o = arg;
    size_t last = o->s->n_prompt - 1;
    if (last >= first && last < first + n)
        memcpy(o->logits, tern_logits(o->s->ctx, last - first),
               o->s->info.vocab * sizeof *o->logits);
    return 0;
}

static enum tern_status run(struct subject *s, struct outcome *o, tern_edit_fn fn, void *arg,
                            struct tern_error *e)
{
    *o = (struct outcome){.s = s, .logits = malloc(s->info.vocab * sizeof *o->logits)};
    if (!o->logits)
        return parser_no_memory(e);
    (void)tern_seq_keep(s->ctx, 0, 0);
    enum tern_status status = tern_edit(s->ctx, fn, arg, e);
    if (!status)
        status = subject_run(s, keep_logits, o, e);
    o->n = s->n - s->n_prompt;
    o->tokens = malloc((o->n + 1) * sizeof *o->tokens);
    if (!o->tokens)
        return status ? status : parser_no_memory(e);
    memcpy(o->tokens, s->tokens + s->n_prompt, o->n * sizeof *o->tokens);
    return status;
}

double before_after_divergence(const struct outcome *p, const struct outcome *q)
{
    const struct subject *s = p->s;
    double sum = 0;
    for (uint64_t i = 0; i < s->info.vocab; i++) {
        double x = tern_logprob(s->model, p->logits, (tern_token)i);
        if (isfinite(x))
            sum += exp(x) * (x - tern_logprob(s->model, q->logits, (tern_token)i));
    }
    return sum;
}

/* The most probable tokens of one run, with their probability there and in the other */
static void print_choice(const struct subject *s, enum paint paint, const struct tern_choice *c,
                         const float *other)
{
    char label[160], text[200];
    double p = exp(c->logprob), q = exp(tern_logprob(s->model, other, c->token));
    int n = snprintf(text, sizeof text, "%s %.4f",
                     table_label(s, c->token, LABEL, false, label, sizeof label), p);
    paint_text(paint, p, text, (size_t)n);
    out_print("  %.4f", q);
}

static void print_table(const struct subject *s, const struct outcome *a, const struct outcome *b)
{
    struct tern_choice before[TOP], after[TOP];
    enum paint paint = paint_find(s->o);
    size_t n = tern_top(s->ctx, a->logits, before, TOP);
    (void)tern_top(s->ctx, b->logits, after, TOP);
    out_print("    %-*s  after    %-*s  before\n", LABEL + 7, "before", LABEL + 7, "after");
    for (size_t i = 0; i < n; i++) {
        out_print("%2zu  ", i + 1);
        print_choice(s, paint, &before[i], b->logits);
        out_print("   ");
        print_choice(s, paint, &after[i], a->logits);
        out_print("\n");
    }
    out_print("KL(before, after) %.6f nats\n", before_after_divergence(a, b));
}

static void print_text(const struct outcome *o, const char *title)
{
    out_print("\n%s:", title);
    for (size_t i = 0; i < o->n; i++) {
        char id[16];
        size_t n;
        const char *text = subject_bytes(o->s, o->tokens[i], id, &n);
        if (!o->s->decoder)
            out_print(" ");
        (void)out_text(text, n);
    }
    out_print("\n");
}

static void print_outcomes(const struct subject *s, const struct outcome *before,
                           const struct outcome *after)
{
    print_table(s, before, after);
    if (s->o->value[LOOK_N_PREDICT].integer) {
        print_text(before, "before");
        print_text(after, "after");
    }
}

enum tern_status before_after_show(struct subject *s, struct tern_error *e)
{
    struct outcome before = {0}, after = {0};
    const char *path = s->o->value[LOOK_OUTPUT].text;
    bool is_page = page_is_named(path);
    bool saves = s->o->value[LOOK_STEER_TO].given && control_vector_has_name(path);
    if (path && !saves && !is_page)
        return parser_usage(e,
                            "-o %.200s: the name must end in .html, or in .gguf to save the "
                            "direction of --steer-to",
                            path);
    enum tern_status status = subject_begin(s, e);
    if (!status)
        status = run(s, &before, NULL, NULL, e);
    if (!status)
        status = run(s, &after, s->edit, s->edit_arg, e);
    if (!status && is_page)
        status = before_after_page_write(&before, &after, s->edit_arg, path, e);
    else if (!status)
        print_outcomes(s, &before, &after);
    if (!status && saves)
        status = control_vector_write(&((const struct edits *)s->edit_arg)->direction, path, e);
    free(before.logits);
    free(before.tokens);
    free(after.logits);
    free(after.tokens);
    return status;
}
