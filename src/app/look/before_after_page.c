/* What surgery did, as a page: see before_after_page.h. */
#include "app/look/before_after_page.h"

#include "app/look/page.h"

#include <math.h>
#include <string.h>

/* The options of surgery as they were given: "options":{"ablate":"2.3", ...} */
static void put_options(FILE *f, const struct option_value *v)
{
    static const struct {
        enum look_option option;
        const char *name;
    } list[] = {{LOOK_ABLATE, "ablate"},     {LOOK_MEAN_OVER, "mean_over"},
                {LOOK_PATCH, "patch"},       {LOOK_FROM, "from"},
                {LOOK_STEER, "steer"},       {LOOK_STEER_FROM, "steer_from"},
                {LOOK_STEER_TO, "steer_to"}, {LOOK_STEER_LAYER, "steer_layer"},
                {LOOK_STEER_BY, "steer_by"}};
    bool any = false;
    fputs(",\"options\":{", f);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const struct option_value *x = &v[list[i].option];
        if (!x->given)
            continue;
        fprintf(f, "%s\"%s\":", any ? "," : "", list[i].name);
        page_string(f, x->text, strlen(x->text));
        any = true;
    }
    putc('}', f);
}

/* [layer, operation, added or replaced, first column, columns, first and last position or null] */
static void put_edits(FILE *f, const struct edits *edits)
{
    fputs(",\"edits\":[", f);
    for (size_t i = 0; i < edits->n; i++) {
        const struct edit *x = &edits->list[i];
        fprintf(f, "%s[%llu,\"%s\",%s,%zu,%zu,", i ? ",\n" : "", (unsigned long long)x->layer,
                x->operation, x->is_added ? "true" : "false", x->from, x->n);
        if (x->last == UINT32_MAX)
            fputs("null]", f);
        else
            fprintf(f, "[%u,%u]]", x->first, x->last);
    }
    putc(']', f);
}

/* [token, id, p before, p after] */
static void put_choice(FILE *f, const struct outcome *a, const struct outcome *b, tern_token token)
{
    fputs("[", f);
    page_token(f, a->s, token);
    fprintf(f, ",%d,", (int)token);
    page_number(f, exp(tern_logprob(a->s->model, a->logits, token)));
    putc(',', f);
    page_number(f, exp(tern_logprob(a->s->model, b->logits, token)));
    putc(']', f);
}

/* The most probable tokens before, then those after that are not among them */
static void put_choices(FILE *f, const struct outcome *a, const struct outcome *b)
{
    struct tern_choice before[BEFORE_AFTER_TOP], after[BEFORE_AFTER_TOP];
    size_t n = tern_top(a->s->ctx, a->logits, before, BEFORE_AFTER_TOP);
    (void)tern_top(a->s->ctx, b->logits, after, BEFORE_AFTER_TOP);
    fputs(",\"choices\":[\n", f);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ",\n" : "", f);
        put_choice(f, a, b, before[i].token);
    }
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < n && before[k].token != after[i].token)
            k++;
        if (k < n)
            continue;
        fputs(",\n", f);
        put_choice(f, a, b, after[i].token);
    }
    putc(']', f);
}

enum tern_status before_after_page_write(const struct outcome *before, const struct outcome *after,
                                         const struct edits *edits, const char *path,
                                         struct tern_error *e)
{
    struct page page;
    const struct subject *s = before->s;
    enum tern_status status = page_open(&page, "before_after", "Before and after", s, path, e);
    if (status)
        return status;
    put_options(page.f, s->o->value);
    put_edits(page.f, edits);
    page_tokens(page.f, "text", s, s->tokens, s->n_prompt);
    page_tokens(page.f, "before", s, before->tokens, before->n);
    page_tokens(page.f, "after", s, after->tokens, after->n);
    put_choices(page.f, before, after);
    fputs(",\"kl\":", page.f);
    page_number(page.f, before_after_divergence(before, after));
    return page_close(&page, page_before_after_js, TERN_OK, e);
}
