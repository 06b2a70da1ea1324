/* quantize: writes a smaller weights file. A table of each tensor's error goes to standard output, a
 * progress bar to standard error. tern_quantize does the work; this file talks to the user. */
#include "app/cli/files.h"
#include "app/cli/finish.h"
#include "app/cli/out.h"
#include "app/cli/parser.h"
#include "app/cli/signals.h"
#include "app/cli/team.h"
#include "app/cli/visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum quantize_option { /* in the order of --help */
                       QUANTIZE_CALIBRATE,
                       QUANTIZE_KEEP_Q8,
                       QUANTIZE_THREADS,
                       QUANTIZE_CPU,
                       QUANTIZE_QUIET,
                       QUANTIZE_HELP,
                       QUANTIZE_VERSION,
                       N_QUANTIZE_OPTIONS
};

static const struct option_row rows[N_QUANTIZE_OPTIONS] = {
    [QUANTIZE_CALIBRATE] = {.title = "Quality (all types except q8)",
                            .names = "calibrate",
                            .kind = TEXT,
                            .value = "FILE",
                            .help = "fit the codes to a text like those that the model will see; "
                                    "a few hundred KB are enough"},
    [QUANTIZE_KEEP_Q8] = {.names = "keep-q8",
                          .kind = TEXT,
                          .value = "LIST",
                          .help = "make these matrices q8: parts or names, separated by commas, "
                                  "as in head,down,layer.0"},
    [QUANTIZE_THREADS] = {.title = "General", OPTION_THREADS},
    [QUANTIZE_CPU] = {.names = "cpu",
                      .kind = CHOICE,
                      .words = tern_cpu_names,
                      .help = "kernels that run the model; the file has the same bytes"},
    [QUANTIZE_QUIET] = {OPTION_QUIET},
    [QUANTIZE_HELP] = {OPTION_HELP},
    [QUANTIZE_VERSION] = {OPTION_VERSION},
};

static const struct option_table table = {
    .examples = "  quantize model.bin small.bin q8                          half of f16\n"
                "  quantize model.bin small.bin q4c                         a quarter of f16\n"
                "  quantize model.bin small.bin q4c --calibrate text.txt    slower, but better\n",
    .usage = "usage: quantize IN.bin OUT.bin TYPE [options]\n"
             "\n"
             "Writes the weights file IN.bin to OUT.bin with smaller matrices, and prints the\n"
             "error of each tensor. q8 takes 8.5 bits a weight, q4 and q4c 4.5. q4c loses less\n"
             "than q4. OUT.bin has the same bytes for any --threads and --cpu.\n",
    .rows = rows,
    .n = N_QUANTIZE_OPTIONS,
    .unknown = "--help lists all",
};

struct quantize_options {
    struct option_value value[N_QUANTIZE_OPTIONS];
    enum quantize_option job; /* QUANTIZE_HELP, QUANTIZE_VERSION, or N_QUANTIZE_OPTIONS */
    const char *in, *out;
    enum tern_type type;
};

struct display {
    bool bar; /* stderr is a terminal */
    bool header, quiet;
    uint64_t bytes_in, bytes_out, weights;
};

/* ---- options ------------------------------------------------------------------------------ */

/* IN OUT TYPE */
static enum tern_status take_words(struct quantize_options *o, const struct parser *p,
                                   struct tern_error *e)
{
    const char *types = tern_quantize_types();
    if (p->n_words < 3)
        return parser_usage(
            e, "three arguments are needed: IN.bin OUT.bin %s (--help shows examples)", types);
    if (p->n_words > 3)
        return parser_usage(e, "'%.100s' is one argument too many", p->words[3]);
    o->in = p->words[0];
    o->out = p->words[1];
    if (!parser_in_list(types, '|', p->words[2], strlen(p->words[2])))
        return parser_usage(e, "the type must be one of %s, not '%.100s'", types, p->words[2]);
    while (strcmp(p->words[2], tern_type_name(o->type)))
        o->type++;
    return TERN_OK;
}

static enum tern_status read_options(struct quantize_options *o, int argc, char **argv,
                                     struct tern_error *e)
{
    struct parser p;
    enum tern_status s = parser_open(&p, &table, o->value, argc, argv, e);
    o->job = (enum quantize_option)p.job;
    if (!s && o->job == N_QUANTIZE_OPTIONS)
        s = take_words(o, &p, e);
    parser_close(&p);
    return s;
}

/* ---- what the user sees ------------------------------------------------------------------ */

static void draw_bar(double share)
{
    enum { WIDTH = 40 };
    char bar[WIDTH + 1] = {0};
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < share * WIDTH ? '#' : '.';
    fprintf(stderr, "\r%s %3.0f %%", bar, 100 * share);
    fflush(stderr);
}

static void clear_bar(const struct display *d)
{
    if (d->bar)
        fputs("\r\033[K", stderr);
}

/* Shows a tensor that is done; non-zero when a signal asked to stop. */
static int show(void *arg, const struct tern_quantize_report *r)
{
    struct display *d = arg;
    if (d->quiet)
        return signals_caught();
    clear_bar(d);
    if (!d->header)
        out_print("%-24s %-4s    %-4s %14s %14s %12s %12s\n", "tensor", "from", "to",
                  "bytes before", "bytes after", "rms error", "max error");
    d->header = true;
    out_print("%-24s %-4s -> %-4s %14llu %14llu", r->name, tern_type_name(r->from),
              tern_type_name(r->to), (unsigned long long)r->bytes_in,
              (unsigned long long)r->bytes_out);
    if (r->from != r->to)
        out_print(" %12.4g %12.4g", r->rmse, r->max_error);
    out_print("\n");
    d->bytes_in += r->bytes_in;
    d->bytes_out += r->bytes_out;
    d->weights += r->weights;
    if (d->bar)
        draw_bar((double)r->done / (double)r->total);
    return signals_caught();
}

static int is_stopped(void *arg)
{
    (void)arg;
    return signals_caught();
}

static void show_sum(const struct quantize_options *o, const struct display *d)
{
    out_print("%s: %llu bytes of tensors, %.1f %% of %s; %.3f bits a weight\n", o->out,
              (unsigned long long)d->bytes_out, 100 * (double)d->bytes_out / (double)d->bytes_in,
              o->in, 8 * (double)d->bytes_out / (double)d->weights);
}

/* ---- the program -------------------------------------------------------------------------- */

static enum tern_status quantize(const struct quantize_options *o, struct tern_error *e)
{
    const struct option_value *v = o->value;
    struct display d = {.quiet = v[QUANTIZE_QUIET].given};
    struct tern_quantize_params p = {.type = o->type,
                                     .keep_q8 = v[QUANTIZE_KEEP_Q8].text,
                                     .n_threads = (int)v[QUANTIZE_THREADS].integer,
                                     .cpu = v[QUANTIZE_CPU].text,
                                     .report = show,
                                     .arg = &d,
                                     .stop = is_stopped};
    char *text = NULL;
    enum tern_status s = TERN_OK;
    d.bar = isatty(STDERR_FILENO) && !d.quiet;
    signals_init("quantize", o->in);
    signals_note();
    if (v[QUANTIZE_CALIBRATE].given)
        s = files_take(v[QUANTIZE_CALIBRATE].text, &text, &p.text_bytes, e);
    p.text = text;
    if (!s && d.bar)
        visible_error_print(text ? "running the model over %s ..." : "reading %s ...",
                            text ? v[QUANTIZE_CALIBRATE].text : o->in);
    if (!s)
        s = tern_quantize(o->in, o->out, &p, e);
    free(text);
    clear_bar(&d);
    if (!s && !d.quiet)
        show_sum(o, &d);
    return s;
}

static enum tern_status run(const struct quantize_options *o, struct tern_error *e)
{
    if (o->job == N_QUANTIZE_OPTIONS)
        return quantize(o, e);
    if (o->job == QUANTIZE_VERSION)
        out_print("quantize (tern) %s\n%s\n", tern_version(), tern_build_info());
    if (o->job == QUANTIZE_HELP) {
        parser_help(&table);
        out_print("\nTypes: %s\nExit codes are those of run.\n", tern_quantize_types());
    }
    return TERN_OK;
}

int main(int argc, char **argv)
{
    struct quantize_options o = {.in = NULL};
    struct tern_error e = {0};
    out_init();
    enum tern_status s = team_refuse("quantize", &e);
    if (!s)
        s = read_options(&o, argc, argv, &e);
    if (!s)
        s = run(&o, &e);
    return finish_program("quantize", s, &e);
}
