/* The costs of attention: see bench_attention.h. A line is a kind at some shape, measured at every
 * length: n rows over n keys, or one row, as a token with a cache has it. One thread, f32. */
#include "app/bench/bench_attention.h"

#include "app/bench/bench_test.h"
#include "app/cli/out.h"
#include "app/cli/parser.h"
#include "app/cli/signals.h"
#include "app/cli/visible.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 8, HEAD_DIM = 64, MAX_LINES = 64, PLOT_ROWS = 16, PLOT_COLUMNS = 61 };
enum measure { SECONDS, BYTES, MACS, SCRATCH, N_MEASURES };

struct cost_line {
    char name[40];
    const char *kind;
    size_t heads, kv_heads, head_dim, window;
    bool one_row;
    double value[N_MEASURES][BENCH_VALUES]; /* [lengths] */
};

struct attention_bench {
    const struct bench_options *o;
    struct bench_printer *printers;
    size_t n_printers, repetitions;
    struct cost_line *lines; /* [n] */
    size_t n;
    float *q, *k, *v, *out; /* for the longest */
};

/* ---- which lines -------------------------------------------------------------------------- */

static void add_line(struct attention_bench *b, const char *kind, size_t heads, size_t kv_heads,
                     size_t window, bool one_row, const char *name)
{
    if (b->n == MAX_LINES)
        return;
    struct cost_line *l = &b->lines[b->n++];
    *l = (struct cost_line){.kind = kind, .heads = heads, .kv_heads = kv_heads, .window = window};
    l->head_dim = HEADS * HEAD_DIM / heads, l->one_row = one_row;
    snprintf(l->name, sizeof l->name, "%s", name);
}

static void add_lines(struct attention_bench *b)
{
    static const char *const kinds[] = {"naive", "online", "blocked", "split", "engine"};
    const struct bench_list *kv = &b->o->kv_heads, *windows = &b->o->window;
    char name[40];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        add_line(b, kinds[i], HEADS, kv->value[0], 0, false, kinds[i]);
    for (size_t i = 1; i < kv->n; i++) {
        snprintf(name, sizeof name, "engine, %u KV head%s", kv->value[i],
                 kv->value[i] > 1 ? "s" : "");
        add_line(b, "engine", HEADS, kv->value[i], 0, false, name);
    }
    for (size_t i = 0; i < 2 * windows->n; i++) {
        const char *kind = i % 2 ? "engine" : "window";
        snprintf(name, sizeof name, "%s %u", i % 2 ? "engine, window" : "window",
                 windows->value[i / 2]);
        if (windows->value[i / 2])
            add_line(b, kind, HEADS, kv->value[0], windows->value[i / 2], false, name);
    }
    add_line(b, "engine", HEADS, kv->value[0], 0, true, "one token, with a cache");
    add_line(b, "engine", HEADS, kv->value[0], 0, false, "one token, without a cache");
    snprintf(name, sizeof name, "naive, 1 head of %d", HEADS * HEAD_DIM);
    add_line(b, "naive", 1, 1, 0, false, name);
    snprintf(name, sizeof name, "naive, %d heads of %d", HEADS, HEAD_DIM);
    add_line(b, "naive", HEADS, HEADS, 0, false, name);
}

/* ---- measuring ---------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the repetitions */
static enum tern_status measure(const struct attention_bench *b, struct cost_line *l, size_t at,
                                struct tern_error *e)
{
    double seconds[BENCH_MAX_REPETITIONS];
    struct tern_zoo_cost cost;
    struct tern_zoo z = {.n_keys = b->o->prompt.value[at], .n_heads = l->heads};
    z.n_rows = l->one_row ? 1 : z.n_keys;
    z.n_kv_heads = l->kv_heads, z.head_dim = l->head_dim, z.window = l->window;
    z.q = b->q, z.k = b->k, z.v = b->v, z.out = b->out;
    for (size_t i = 0; i < b->repetitions; i++) {
        if (signals_caught())
            return e->code = TERN_CANCELLED;
        enum tern_status s = tern_zoo(&z, l->kind, &cost, e);
        if (s)
            return s;
        seconds[i] = cost.seconds;
    }
    qsort(seconds, b->repetitions, sizeof *seconds, by_size);
    l->value[SECONDS][at] = seconds[b->repetitions / 2];
    l->value[BYTES][at] = (double)cost.bytes;
    l->value[MACS][at] = (double)cost.macs;
    l->value[SCRATCH][at] = (double)cost.scratch_bytes;
    return TERN_OK;
}

/* ---- rows --------------------------------------------------------------------------------- */

static void print_row(struct bench_printer *p, const struct cost_line *l, size_t length, size_t at)
{
    char heads[32];
    snprintf(heads, sizeof heads, "%zu/%zu", l->heads, l->kv_heads);
    if (!p->n)
        bench_say(p,
                  "| %-26s | %6s | %6s | %6s | %6s | %9s | %9s | %9s | %10s | %7s |\n"
                  "| -------------------------- | -----: | -----: | -----: | -----: | --------: | "
                  "--------: | --------: | ---------: | ------: |\n",
                  "attention", "heads", "dim", "window", "keys", "ms", "MB", "M MAC", "scratch KB",
                  "GMAC/s");
    bench_say(p, "| %-26s | %6s | %6zu | %6zu | %6zu | %9.3f | %9.2f | %9.2f | %10.1f | %7.2f |\n",
              l->name, heads, l->head_dim, l->window, length, 1e3 * l->value[SECONDS][at],
              1e-6 * l->value[BYTES][at], 1e-6 * l->value[MACS][at], 1e-3 * l->value[SCRATCH][at],
              l->value[SECONDS][at] > 0 ? 1e-9 * l->value[MACS][at] / l->value[SECONDS][at] : 0);
}

static void print_result(const struct attention_bench *b, const struct cost_line *l, size_t at)
{
    size_t length = b->o->prompt.value[at];
    struct bench_fields f = {.n = 0};
    bench_add(&f, "test", FIELD_STRING, "attention");
    bench_add(&f, "line", FIELD_STRING, "%s", l->name);
    bench_add(&f, "kind", FIELD_STRING, "%s", l->kind);
    bench_add_u64(&f, "n_heads", l->heads);
    bench_add_u64(&f, "n_kv_heads", l->kv_heads);
    bench_add_u64(&f, "head_dim", l->head_dim);
    bench_add_u64(&f, "window", l->window);
    bench_add_u64(&f, "n_rows", l->one_row ? 1 : length);
    bench_add_u64(&f, "n_keys", length);
    bench_add(&f, "median_ns", FIELD_NUMBER, "%.0f", 1e9 * l->value[SECONDS][at]);
    bench_add(&f, "bytes", FIELD_NUMBER, "%.0f", l->value[BYTES][at]);
    bench_add(&f, "macs", FIELD_NUMBER, "%.0f", l->value[MACS][at]);
    bench_add(&f, "scratch_bytes", FIELD_NUMBER, "%.0f", l->value[SCRATCH][at]);
    for (size_t i = 0; i < b->n_printers; i++) {
        struct bench_printer *p = &b->printers[i];
        if (!p->form)
            continue;
        if (strcmp(p->form, "md"))
            bench_fields_print(p, &f, NULL, NULL);
        else
            print_row(p, l, length, at);
        p->n++;
    }
    out_write("", 0); /* now, for the next may take seconds */
}

/* ---- exponents ---------------------------------------------------------------------------- */

/* b of y = a x^b, by least squares of the logarithms; NAN where there are no two points above 0 */
static double exponent(const double *x, const double *y, size_t n)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0, m = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(x[i] > 0 && y[i] > 0))
            continue;
        double u = log(x[i]), v = log(y[i]);
        sx += u, sy += v, sxx += u * u, sxy += u * v, m++;
    }
    double spread = m * sxx - sx * sx;
    return spread > 1e-9 ? (m * sxy - sx * sy) / spread : NAN;
}

static void say_exponents(const struct bench_printer *p, const char *name, char letter,
                          const double *x, const double *const y[N_MEASURES], size_t n)
{
    char text[N_MEASURES][16];
    for (size_t m = 0; m < N_MEASURES; m++) {
        double power = exponent(x, y[m], n);
        power = fabs(power) < 0.005 ? 0 : power; /* not -0.00 */
        snprintf(text[m], sizeof text[m], power == power ? "%c^%.2f" : "-", letter, power);
    }
    bench_say(p, "| %-26s | %7s | %7s | %7s | %7s |\n", name, text[SECONDS], text[BYTES],
              text[MACS], text[SCRATCH]);
}

static void say_all_exponents(const struct attention_bench *b, const struct bench_printer *p)
{
    const struct bench_list *lengths = &b->o->prompt;
    double x[BENCH_VALUES], wide[N_MEASURES][MAX_LINES], windows[MAX_LINES];
    size_t n = 0;
    for (size_t i = 0; i < lengths->n; i++)
        x[i] = lengths->value[i];
    bench_say(p,
              "\nExponents, T keys, W window:\n\n"
              "| %-26s | %7s | %7s | %7s | %7s |\n"
              "| -------------------------- | ------: | ------: | ------: | ------: |\n",
              "attention", "time", "bytes", "MAC", "scratch");
    for (size_t i = 0; i < b->n; i++) {
        const struct cost_line *l = &b->lines[i];
        const double *const y[] = {l->value[0], l->value[1], l->value[2], l->value[3]};
        say_exponents(p, l->name, 'T', x, y, lengths->n);
        if (strcmp(l->kind, "window"))
            continue;
        windows[n] = (double)l->window;
        for (size_t m = 0; m < N_MEASURES; m++)
            wide[m][n] = l->value[m][lengths->n - 1];
        n++;
    }
    const double *const y[] = {wide[0], wide[1], wide[2], wide[3]};
    if (n > 1)
        say_exponents(p, "window, at the last length", 'W', windows, y, n);
}

/* ---- the plot ----------------------------------------------------------------------------- */

/* Place of x on an axis of n cells from low to high, both logarithmic */
static size_t cell(double x, double low, double high, size_t n)
{
    double part = high > low ? log(x / low) / log(high / low) : 0;
    return (size_t)(part * (double)(n - 1) + 0.5);
}

static void widen(double *low, double *high, double x)
{
    *low = x > 0 && x < *low ? x : *low;
    *high = x > *high ? x : *high;
}

static char letter(size_t line)
{
    return (char)(line < 26 ? 'a' + line : 'A' + line % 26);
}

struct grid {
    double x0, x1, y0, y1; /* of the axes, both logarithmic */
    char cells[PLOT_ROWS][PLOT_COLUMNS + 1];
};

static char *grid_at(struct grid *g, double x, double y)
{
    return &g->cells[PLOT_ROWS - 1 - cell(y, g->y0, g->y1, PLOT_ROWS)]
                    [cell(x, g->x0, g->x1, PLOT_COLUMNS)];
}

/* Dots from one point to the next, where nothing is yet */
static void join(struct grid *g, double xa, double ya, double xb, double yb)
{
    for (double part = 0; part < 1 && ya > 0 && yb > 0; part += 1.0 / PLOT_COLUMNS) {
        char *at = grid_at(g, xa * pow(xb / xa, part), ya * pow(yb / ya, part));
        *at = *at == ' ' ? '.' : *at;
    }
}

/* One measure of all lines against the length */
static void plot(const struct attention_bench *b, const struct bench_printer *p, enum measure m,
                 const char *title, double unit)
{
    const struct bench_list *lengths = &b->o->prompt;
    const uint32_t *x = lengths->value;
    struct grid g = {.x0 = HUGE_VAL, .y0 = HUGE_VAL};
    for (size_t i = 0; i < b->n * lengths->n; i++) {
        widen(&g.x0, &g.x1, x[i % lengths->n]);
        widen(&g.y0, &g.y1, b->lines[i / lengths->n].value[m][i % lengths->n]);
    }
    if (g.y1 <= 0)
        return;
    memset(g.cells, ' ', sizeof g.cells);
    for (size_t i = 0; i < b->n; i++) {
        const double *y = b->lines[i].value[m];
        for (size_t at = 0; at < lengths->n; at++)
            if (y[at] > 0)
                *grid_at(&g, x[at], y[at]) = letter(i);
        for (size_t at = 1; at < lengths->n; at++)
            join(&g, x[at - 1], y[at - 1], x[at], y[at]);
    }
    bench_say(p, "\n%s\n\n", title);
    for (size_t row = 0; row < PLOT_ROWS; row++) {
        char axis[16] = "";
        if (row % (PLOT_ROWS - 1) == 0)
            snprintf(axis, sizeof axis, "%.4g", unit * (row ? g.y0 : g.y1));
        g.cells[row][PLOT_COLUMNS] = 0;
        bench_say(p, "%10s |%s\n", axis, g.cells[row]);
    }
    bench_say(p, "%10s +%.*s\n%11s%-*.0f%*.0f keys\n", "", PLOT_COLUMNS,
              "----------------------------------------------------------------", "",
              PLOT_COLUMNS - 8, g.x0, 8, g.x1);
}

static void say_plots(const struct attention_bench *b, const struct bench_printer *p)
{
    plot(b, p, SECONDS, "Time in ms:", 1e3);
    plot(b, p, SCRATCH, "Scratch memory in KB:", 1e-3);
    bench_say(p, "\n");
    for (size_t i = 0; i < b->n; i++)
        bench_say(p, "  %c  %s\n", letter(i), b->lines[i].name);
}

/* ---- all ---------------------------------------------------------------------------------- */

static float *random_floats(size_t n)
{
    float *x = malloc(n * sizeof *x);
    uint32_t state = 1;
    for (size_t i = 0; x && i < n; i++) {
        state = state * 1664525 + 1013904223;
        x[i] = (float)(state >> 8) / (1 << 23) - 1;
    }
    return x;
}

static enum tern_status allocate(struct attention_bench *b, struct tern_error *e)
{
    size_t longest = 1;
    for (size_t i = 0; i < b->o->prompt.n; i++)
        longest = b->o->prompt.value[i] > longest ? b->o->prompt.value[i] : longest;
    size_t n = longest * HEADS * HEAD_DIM;
    b->lines = calloc(MAX_LINES, sizeof *b->lines);
    b->q = random_floats(n), b->k = random_floats(n), b->v = random_floats(n);
    b->out = random_floats(n);
    return b->lines && b->q && b->k && b->v && b->out ? TERN_OK : parser_no_memory(e);
}

static enum tern_status run_line(struct attention_bench *b, struct cost_line *l,
                                 struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    if (b->o->value[BENCH_PROGRESS].given)
        visible_error_print("bench: %s\n", l->name);
    for (size_t at = 0; !s && at < b->o->prompt.n; at++) {
        s = measure(b, l, at, e);
        if (!s)
            print_result(b, l, at);
    }
    return s;
}

enum tern_status bench_attention(const struct bench_options *o, struct bench_printer *printers,
                                 size_t n_printers, struct tern_error *e)
{
    const struct option_value *r = &o->value[BENCH_REPETITIONS];
    struct attention_bench b = {.o = o, .printers = printers, .n_printers = n_printers};
    b.repetitions = r->given ? (size_t)r->integer : 3;
    enum tern_status s = allocate(&b, e);
    for (size_t i = 0; i < n_printers; i++)
        bench_fields_begin(&printers[i]);
    if (!s)
        add_lines(&b);
    for (size_t i = 0; !s && i < b.n; i++)
        s = run_line(&b, &b.lines[i], e);
    for (size_t i = 0; i < n_printers; i++) {
        bench_fields_end(&printers[i]);
        if (s || !printers[i].form || strcmp(printers[i].form, "md"))
            continue;
        say_all_exponents(&b, &printers[i]);
        say_plots(&b, &printers[i]);
    }
    out_write("", 0);
    free(b.lines);
    free(b.q);
    free(b.k);
    free(b.v);
    free(b.out);
    return s;
}
