/* Ranks of heads: see head_ranks.h. The loss is the mean of -log p(token | text before it), in
 * nats. */
#include "app/look/head_ranks.h"

#include "app/cli/out.h"
#include "app/cli/output_file.h"
#include "app/look/ablation.h"
#include "app/look/page.h"
#include "app/look/table.h"
#include "app/look/text_pieces.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN = 20, TEXT_SHOWN = 200 };

struct head_loss {
    uint64_t layer, head;
    double loss;
};

struct head_ranks {
    struct subject *s;
    struct edits edits;     /* one for each head, in order */
    struct head_loss *list; /* [edits.n]; owned */
    double loss;            /* with all heads */
    size_t n_tokens;        /* that are scored */
};

bool head_ranks_are_wanted(const struct look_options *o)
{
    const char *text = o->value[LOOK_ABLATE].text;
    return text && !strcmp(text, "each");
}

/* ---- measuring ------------------------------------------------------------------------------- */

static enum tern_status measure_head(struct head_ranks *r, size_t k, uint32_t window,
                                     struct tern_error *e)
{
    struct edits one = {.list = &r->edits.list[k], .n = 1};
    struct tern_layer_info info;
    size_t scored;
    tern_model_layer(r->s->model, one.list->layer, &info);
    r->list[k].layer = one.list->layer, r->list[k].head = one.list->from / info.head_dim;
    enum tern_status status = tern_edit(r->s->ctx, edits_apply, &one, e);
    if (!status)
        status = text_pieces_run(r->s, r->s->tokens, r->s->n, window, &r->list[k].loss, &scored, e);
    (void)tern_edit(r->s->ctx, NULL, NULL, NULL);
    return status;
}

static enum tern_status measure(struct head_ranks *r, struct tern_error *e)
{
    uint32_t window = text_pieces_window(r->s, r->s->n);
    bool is_shown = !r->s->o->value[LOOK_QUIET].given && isatty(STDERR_FILENO);
    enum tern_status status = ablation_take_all(&r->edits, r->s, e);
    if (!status)
        status = subject_context(r->s, window, 1, e);
    if (!status)
        status = text_pieces_run(r->s, r->s->tokens, r->s->n, window, &r->loss, &r->n_tokens, e);
    if (!status && !r->n_tokens)
        status = parser_usage(e, "--ablate each needs a text of at least two tokens");
    r->list = calloc(r->edits.n + 1, sizeof *r->list);
    if (!status && !r->list)
        status = parser_no_memory(e);
    for (size_t k = 0; !status && k < r->edits.n; k++) {
        if (is_shown)
            fprintf(stderr, "\rlook: %zu of %zu heads ", k, r->edits.n);
        status = measure_head(r, k, window, e);
    }
    if (is_shown)
        fprintf(stderr, "\r%40s\r", "");
    return status;
}

/* The head that costs most first */
static int by_loss(const void *a, const void *b)
{
    const struct head_loss *x = a, *y = b;
    if (x->loss != y->loss)
        return x->loss < y->loss ? 1 : -1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return x->head < y->head ? -1 : x->head > y->head;
}

/* ---- showing --------------------------------------------------------------------------------- */

/* Layers x heads; the list is in order. */
static void print_map(const struct head_ranks *r)
{
    enum paint paint = paint_find(r->s->o);
    size_t heads = 1, cell = 3, width = table_width();
    double most = 0;
    for (size_t k = 0; k < r->edits.n; k++) {
        most = fmax(most, fabs(r->list[k].loss - r->loss));
        heads = r->list[k].head + 1 > heads ? r->list[k].head + 1 : heads;
    }
    if (heads * cell + 6 > width)
        cell = 1;
    out_print("%-6s", "heads");
    for (size_t h = 0; h < heads && cell > 1; h++)
        out_print("%*zu", (int)cell, h);
    for (size_t k = 0; k < r->edits.n; k++) {
        if (!r->list[k].head)
            out_print("\n%5llu ", (unsigned long long)r->list[k].layer);
        paint_cell(paint, most > 0 ? (r->list[k].loss - r->loss) / most : 0, true, NULL, cell);
    }
    out_print("\n\n");
}

static void print_ranks(const struct head_ranks *r)
{
    size_t n = isatty(STDOUT_FILENO) && r->edits.n > SHOWN ? SHOWN : r->edits.n;
    out_print("loss %.6f nats a token over %zu tokens, with all heads\n", r->loss, r->n_tokens);
    out_print("rank  head      loss      change\n");
    for (size_t k = 0; k < n; k++) {
        char head[48];
        snprintf(head, sizeof head, "%llu.%llu", (unsigned long long)r->list[k].layer,
                 (unsigned long long)r->list[k].head);
        out_print("%4zu  %-8s  %.6f  %+.6f\n", k + 1, head, r->list[k].loss,
                  r->list[k].loss - r->loss);
    }
    if (n < r->edits.n)
        out_print("and %zu others: -o ranks.html and ranks.jsonl have all\n", r->edits.n - n);
}

static enum tern_status write_lines(const struct head_ranks *r, const char *path,
                                    struct tern_error *e)
{
    struct output_file out;
    enum tern_status status = output_file_open(&out, path, e);
    for (size_t k = 0; !status && k < r->edits.n; k++)
        fprintf(out.stream,
                "{\"rank\":%zu,\"layer\":%llu,\"head\":%llu,\"loss\":%.9g,\"change\":%.9g}\n",
                k + 1, (unsigned long long)r->list[k].layer, (unsigned long long)r->list[k].head,
                r->list[k].loss, r->list[k].loss - r->loss);
    return status ? status : output_file_close(&out, TERN_OK, e);
}

static void put_ranks(FILE *f, const struct head_ranks *r)
{
    fprintf(f, ",\"scored\":%zu,\"loss\":", r->n_tokens);
    page_number(f, r->loss);
    fputs(",\"mean_over\":", f);
    const char *mean = r->s->o->value[LOOK_MEAN_OVER].text;
    page_string(f, mean ? mean : "", mean ? strlen(mean) : 0);
    page_tokens(f, "text", r->s, r->s->tokens, r->s->n < TEXT_SHOWN ? r->s->n : TEXT_SHOWN);
    fputs(",\"heads\":[\n", f);
    for (size_t k = 0; k < r->edits.n; k++)
        fprintf(f, "%s[%llu,%llu,%.9g]", k ? ",\n" : "", (unsigned long long)r->list[k].layer,
                (unsigned long long)r->list[k].head, r->list[k].loss);
    putc(']', f);
}

static enum tern_status write_page(const struct head_ranks *r, const char *path,
                                   struct tern_error *e)
{
    struct page page;
    enum tern_status status =
        page_open(&page, "head_ranks", "What each head is worth", r->s, path, e);
    if (status)
        return status;
    put_ranks(page.f, r);
    return page_close(&page, page_head_ranks_js, TERN_OK, e);
}

enum tern_status head_ranks_show(struct subject *s, struct tern_error *e)
{
    struct head_ranks r = {.s = s};
    const char *path = s->o->value[LOOK_OUTPUT].text;
    size_t n = path ? strlen(path) : 0;
    bool is_page = page_is_named(path);
    if (path && !is_page && (n < 7 || strcmp(path + n - 6, ".jsonl")))
        return parser_usage(e, "-o %.200s: the name must end in .html or .jsonl", path);
    enum tern_status status = measure(&r, e);
    if (!status) {
        if (!path)
            print_map(&r);
        qsort(r.list, r.edits.n, sizeof *r.list, by_loss);
        if (path)
            status = (is_page ? write_page : write_lines)(&r, path, e);
        else
            print_ranks(&r);
    }
    edits_close(&r.edits);
    free(r.list);
    return status;
}
