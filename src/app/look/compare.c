/* Two files of one model: see compare.h. The text goes through both, a few rows at a time: what the
 * first gives in every step is kept until the second has given the same step. The difference of a
 * row is max abs(a - b) / max abs(a). */
#include "app/look/compare.h"

#include "app/cli/out.h"
#include "app/look/page.h"
#include "app/look/table.h"
#include "app/look/twins.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 16, STEPS_A_LAYER = 20, NAME = 14, CELL = 6 };
static const double BOUND = 0.5; /* types of 4 bits stay below that */

struct compared {
    uint64_t layer;
    const char *operation;
    size_t rows, columns, at; /* of the rows that the first model gave last: where they stand */
    double most;              /* largest difference of a row */
    uint32_t most_at;         /* its position */
    bool is_beyond;
    uint32_t first_at; /* the first position beyond the bound */
};

struct compare {
    struct subject *a, b;
    double bound;
    struct compared *steps; /* [n_steps of room], in the order of the forward pass; owned */
    size_t n_steps, room, next;
    float *values; /* [used of size] what the first model gave; owned */
    size_t used, size;
    double *kl;    /* [tokens] of the next token, in nats; owned */
    size_t n_same; /* positions where both say the same */
    bool no_memory, is_lost;
};

/* ---- row by row ------------------------------------------------------------------------------ */

static bool make_room(struct compare *c, size_t more)
{
    if (c->used + more > c->size) {
        size_t size = 2 * c->size + more;
        float *values = realloc(c->values, size * sizeof *values);
        if (!values)
            return false;
        c->values = values, c->size = size;
    }
    return true;
}

/* Both files give one row of `experts` to each token, but they may choose other experts. */
static bool is_skipped(const struct tern_observation *o)
{
    return !strcmp(o->operation, "expert");
}

static void keep(void *arg, const struct tern_observation *o)
{
    struct compare *c = arg;
    size_t n = o->rows * o->columns;
    if (is_skipped(o))
        return;
    c->no_memory = c->no_memory || !make_room(c, n);
    if (c->no_memory || c->next == c->room)
        return;
    struct compared *s = &c->steps[c->next++];
    if (c->next > c->n_steps)
        *s = (struct compared){.layer = o->layer, .operation = o->operation}, c->n_steps++;
    s->rows = o->rows, s->columns = o->columns, s->at = c->used;
    for (size_t i = 0; i < o->rows; i++)
        memcpy(c->values + c->used + i * o->columns, o->values + i * o->stride,
               o->columns * sizeof *c->values);
    c->used += n;
}

static double difference(const float *a, const float *b, size_t n)
{
    double most = 0, apart = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);
        most = fmax(most, fabs((double)a[i]));
        if (!(d <= apart)) /* NaN, too */
            apart = isnan(d) ? INFINITY : d;
    }
    return apart == 0 ? 0 : apart / most;
}

/* sum over tokens of p (log p - log q), and whether both have the same largest logit */
static double divergence(const struct compare *c, const float *a, const float *b, bool *is_same)
{
    double kl = 0, sum_a = 0, sum_b = 0;
    size_t n = c->a->info.vocab, best_a = 0, best_b = 0;
    for (size_t i = 1; i < n; i++) {
        best_a = a[i] > a[best_a] ? i : best_a;
        best_b = b[i] > b[best_b] ? i : best_b;
    }
    for (size_t i = 0; i < n; i++) {
        sum_a += exp((double)a[i] - a[best_a]);
        sum_b += exp((double)b[i] - b[best_b]);
    }
    for (size_t i = 0; i < n; i++) {
        double p = (double)a[i] - a[best_a] - log(sum_a), q = (double)b[i] - b[best_b] - log(sum_b);
        if (isfinite(p))
            kl += exp(p) * (p - q);
    }
    *is_same = best_a == best_b;
    return kl;
}

static void compare_row(struct compare *c, struct compared *s, uint32_t position, const float *a,
                        const float *b)
{
    double d = difference(a, b, s->columns);
    if (d > s->most)
        s->most = d, s->most_at = position;
    if (d > c->bound && !s->is_beyond)
        s->is_beyond = true, s->first_at = position;
    if (!strcmp(s->operation, "logits")) {
        bool is_same;
        c->kl[position] = divergence(c, a, b, &is_same);
        c->n_same += is_same;
    }
}

static void meet(void *arg, const struct tern_observation *o)
{
    struct compare *c = arg;
    if (is_skipped(o))
        return;
    struct compared *s = &c->steps[c->next++];
    c->is_lost = c->is_lost || c->next > c->n_steps || s->layer != o->layer ||
                 strcmp(s->operation, o->operation) || s->rows != o->rows ||
                 s->columns != o->columns;
    for (size_t i = 0; !c->is_lost && i < o->rows; i++)
        compare_row(c, s, o->at[i].position, c->values + s->at + i * s->columns,
                    o->values + i * o->stride);
}

static enum tern_status forward(const struct subject *s, const tern_token *tokens, size_t n,
                                struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n; i++)
        status = tern_batch_add(s->ctx, 0, tokens[i], TERN_ROW_LOGITS, e);
    if (!status && (status = tern_forward(s->ctx)))
        e->code = status;
    return status;
}

static enum tern_status go_through(struct compare *c, struct tern_error *e)
{
    enum tern_status status = tern_observe(c->a->ctx, keep, c, e);
    bool is_shown = !c->a->o->value[LOOK_QUIET].given && isatty(STDERR_FILENO);
    if (!status)
        status = tern_observe(c->b.ctx, meet, c, e);
    for (size_t i = 0, n; !status && i < c->a->n; i += n) {
        n = c->a->n - i < ROWS ? c->a->n - i : ROWS;
        c->used = c->next = 0;
        status = forward(c->a, c->a->tokens + i, n, e);
        c->next = 0;
        if (!status && c->no_memory)
            status = parser_no_memory(e);
        if (!status)
            status = forward(&c->b, c->a->tokens + i, n, e);
        if (!status && c->is_lost)
            status = parser_usage(e, "--compare: the files run different steps");
        if (is_shown)
            fprintf(stderr, "\rlook: %zu of %zu tokens ", i + n, c->a->n);
    }
    if (is_shown)
        fprintf(stderr, "\r%40s\r", "");
    return status;
}

/* ---- what is found --------------------------------------------------------------------------- */

/* The step with this operation in this layer; NULL: it has none */
static const struct compared *find_step(const struct compare *c, uint64_t layer,
                                        const char *operation)
{
    for (size_t i = 0; i < c->n_steps; i++)
        if (c->steps[i].layer == layer && !strcmp(c->steps[i].operation, operation))
            return &c->steps[i];
    return NULL;
}

/* The operations of all layers, each once, in the order in which they come up; returns how many. */
static size_t list_operations(const struct compare *c, const char *list[STEPS_A_LAYER + 4])
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_steps; i++) {
        bool is_known = n == STEPS_A_LAYER + 4;
        for (size_t k = 0; k < n; k++)
            is_known = is_known || !strcmp(list[k], c->steps[i].operation);
        if (!is_known)
            list[n++] = c->steps[i].operation;
    }
    return n;
}

static const struct compared *first_beyond(const struct compare *c)
{
    for (size_t i = 0; i < c->n_steps; i++)
        if (c->steps[i].is_beyond)
            return &c->steps[i];
    return NULL;
}

static size_t worst_token(const struct compare *c)
{
    size_t worst = 0;
    for (size_t i = 1; i < c->a->n; i++)
        worst = c->kl[i] > c->kl[worst] ? i : worst;
    return worst;
}

static double mean_kl(const struct compare *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->a->n; i++)
        sum += c->kl[i];
    return sum / (double)c->a->n;
}

/* 1e-6 and below is 0, 1 and above is 1. */
static double strength(double d)
{
    return d > 0 ? fmin(fmax(log10(d) / 6 + 1, 0), 1) : 0;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static void print_layers(const struct compare *c, uint64_t from, uint64_t to, enum paint paint)
{
    const char *names[STEPS_A_LAYER + 4];
    size_t n = list_operations(c, names);
    out_print("%-*s", NAME, "layer");
    for (uint64_t l = from; l < to; l++)
        if (l < c->a->info.n_layers)
            out_print("%*llu", CELL, (unsigned long long)l);
        else
            out_print("%*s", CELL, "end");
    for (size_t i = 0; i < n; i++) {
        out_print("\n%-*s", NAME, names[i]);
        for (uint64_t l = from; l < to; l++) {
            const struct compared *s = find_step(c, l, names[i]);
            char number[16] = "";
            if (s)
                snprintf(number, sizeof number, s->most > 0 ? "%.0e" : "0", s->most);
            if (s)
                paint_cell(paint, strength(s->most), false, number, CELL);
            else
                out_print("%*s", CELL, "");
        }
    }
    out_print("\n");
}

static void print_token(const struct compare *c, size_t position)
{
    char label[128];
    out_print("token %zu, %s", position,
              subject_label(c->a, c->a->tokens[position], 40, label, sizeof label));
}

static void print_findings(const struct compare *c)
{
    const struct compared *first = first_beyond(c);
    if (!first)
        out_print("no step differs by more than %g of the row's largest value\n", c->bound);
    else {
        out_print("first step that differs by more than %g of the row's largest value: ", c->bound);
        out_print("layer %llu, %s, ", (unsigned long long)first->layer, first->operation);
        print_token(c, first->first_at);
        out_print("\n");
    }
    out_print("KL of the next token: mean %.6f nats, largest %.6f after ", mean_kl(c),
              c->kl[worst_token(c)]);
    print_token(c, worst_token(c));
    out_print("\nthe most probable token is the same after %zu of %zu tokens\n", c->n_same,
              c->a->n);
}

static void show_in_terminal(const struct compare *c)
{
    enum paint paint = paint_find(c->a->o);
    uint64_t n = c->a->info.n_layers + 1;
    uint64_t at_once = isatty(STDOUT_FILENO) ? (table_width() - NAME) / CELL : n;
    at_once = at_once && at_once < n ? at_once : n;
    for (uint64_t l = 0; l < n; l += at_once) {
        print_layers(c, l, n - l < at_once ? n : l + at_once, paint);
        out_print("\n");
    }
    print_findings(c);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_steps(FILE *f, const struct compare *c)
{
    for (size_t i = 0; i < c->n_steps; i++) {
        const struct compared *s = &c->steps[i];
        fprintf(f, "%s[%llu,\"%s\",", i ? ",\n" : "", (unsigned long long)s->layer, s->operation);
        page_number(f, s->most);
        fprintf(f, ",%u]", s->most_at);
    }
}

static void put_data(FILE *f, const struct compare *c)
{
    const struct compared *first = first_beyond(c);
    const char *names[] = {c->a->o->model, c->b.o->model};
    fputs(",\"models\":[", f);
    page_string(f, names[0], strlen(names[0]));
    putc(',', f);
    page_string(f, names[1], strlen(names[1]));
    fprintf(f, "],\"types\":[\"%s\",\"%s\"],\"n_layers\":%llu,\"bound\":%g,\"same\":%zu,\"first\":",
            c->a->info.type_name, c->b.info.type_name, (unsigned long long)c->a->info.n_layers,
            c->bound, c->n_same);
    if (first)
        fprintf(f, "[%llu,\"%s\",%u]", (unsigned long long)first->layer, first->operation,
                first->first_at);
    else
        fputs("null", f);
    fputs(",\"tokens\":[", f);
    for (size_t i = 0; i < c->a->n; i++) {
        fputs(i ? ",[" : "[", f);
        page_token(f, c->a, c->a->tokens[i]);
        putc(',', f);
        page_number(f, c->kl[i]);
        putc(']', f);
    }
    fputs("],\"steps\":[\n", f);
    put_steps(f, c);
    putc(']', f);
}

static enum tern_status write_page(const struct compare *c, const char *path, struct tern_error *e)
{
    struct page page;
    enum tern_status status = page_open(&page, "compare", "Two files of one model", c->a, path, e);
    if (status)
        return status;
    put_data(page.f, c);
    return page_close(&page, page_compare_js, TERN_OK, e);
}

/* ---- the job --------------------------------------------------------------------------------- */

static enum tern_status take_room(struct compare *c, struct tern_error *e)
{
    c->room = c->a->info.n_layers * STEPS_A_LAYER + 4;
    c->steps = calloc(c->room, sizeof *c->steps);
    c->kl = calloc(c->a->n, sizeof *c->kl);
    return c->steps && c->kl ? TERN_OK : parser_no_memory(e);
}

/* The text, and what the first model continues it with */
static enum tern_status make_text(struct subject *a, struct tern_error *e)
{
    enum tern_status status = subject_begin(a, e);
    if (!status && a->o->value[LOOK_N_PREDICT].integer)
        status = subject_run(a, NULL, NULL, e);
    if (!status)
        (void)tern_seq_keep(a->ctx, 0, 0);
    return status;
}

static enum tern_status compare(struct compare *c, const struct look_options *other,
                                struct tern_error *e)
{
    struct tern_memory plan;
    enum tern_status status = subject_open_model(&c->b, other, e);
    if (!status)
        status = twins_check(c->a, &c->b, e);
    if (!status)
        status = make_text(c->a, e);
    if (status)
        return status;
    tern_context_memory(c->a->ctx, &plan);
    status = subject_context(&c->b, plan.n_ctx, 1, e);
    if (!status)
        status = take_room(c, e);
    return status ? status : go_through(c, e);
}

enum tern_status compare_show(struct subject *s, struct tern_error *e)
{
    struct look_options other = *s->o;
    const struct option_value *bound = &s->o->value[LOOK_BOUND];
    const char *path = s->o->value[LOOK_OUTPUT].text;
    struct compare c = {.a = s, .bound = bound->given ? bound->real : BOUND};
    other.model = s->o->value[LOOK_COMPARE].text;
    enum tern_status status = page_check_name(path, e);
    if (!status)
        status = compare(&c, &other, e);
    if (!status && path)
        status = write_page(&c, path, e);
    else if (!status)
        show_in_terminal(&c);
    subject_close(&c.b);
    free(c.steps);
    free(c.values);
    free(c.kl);
    return status;
}
