/* quantize IN OUT q8|q4|q4c: writes a smaller weights file. In: options, a weights file. Out: the
 * new file, a table of each tensor's error on stdout, a progress bar on stderr. All work is
 * tern_quantize's; this file only talks to the user. Exit codes: enum tern_status. */
#include "app/cli/files.h"
#include "app/cli/number.h"
#include "app/cli/out.h"
#include "app/cli/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: quantize IN.bin OUT.bin q8|q4|q4c [options]\n"
    "\n"
    "Writes IN.bin to OUT.bin with its matrices as q8 (8.5 bits a weight), q4 or q4c (4.5 bits),\n"
    "and prints the error of each tensor. OUT.bin has the same bytes for any number of threads.\n"
    "q4c loses less than q4: its codes stand for 16 values that lie closer together near zero.\n"
    "\n"
    "      --calibrate FILE\n"
    "                    q4, q4c: fit the codes to a text like those that the model will see; a\n"
    "                    few hundred KB are enough, the first 131072 tokens count\n"
    "      --keep-q8 LIST\n"
    "                    q4, q4c: these matrices become q8: parts or names, separated by commas,\n"
    "                    as in head,down,layer.0\n"
    "  -t, --threads N   threads to use (default: as many as this machine has for us)\n"
    "  -q, --quiet       no table and no progress bar\n"
    "      --version     version of tern\n"
    "  -h, --help        this text\n";

struct options {
    const char *in, *out, *calibrate;
    struct tern_quantize_params p;
    bool quiet, done; /* done: --help or --version was answered */
};

struct display {
    bool bar; /* stderr is a terminal */
    bool header, quiet;
    uint64_t bytes_in, bytes_out, weights;
};

/* ---- options ---- */

static int wrong(const char *what, const char *argument)
{
    fprintf(stderr, "quantize: %s%s%s; see quantize --help\n", what, *argument ? ": " : "",
            argument);
    return TERN_USAGE;
}

/* 1 .. 1024; 0 for anything else. */
static int parse_threads(const char *s)
{
    uint64_t n = 0;
    return number_u64(s, &n) && n <= 1024 ? (int)n : 0;
}

static bool is(const char *arg, const char *brief, const char *full)
{
    return !strcmp(arg, brief) || !strcmp(arg, full);
}

static int parse_valued(struct options *o, const char *arg, const char *value, int *used)
{
    *used = 2;
    if (!strcmp(arg, "--calibrate"))
        return (o->calibrate = value) ? TERN_OK : wrong("--calibrate wants a file", "");
    if (!strcmp(arg, "--keep-q8"))
        return (o->p.keep_q8 = value) ? TERN_OK : wrong("--keep-q8 wants names of matrices", "");
    if (!is(arg, "-t", "--threads"))
        return wrong("unknown option", arg);
    if (!value || !(o->p.n_threads = parse_threads(value)))
        return wrong("--threads wants a number from 1 to 1024", value ? value : "");
    return TERN_OK;
}

static int parse_option(struct options *o, const char *arg, const char *value, int *used)
{
    if (is(arg, "-h", "--help"))
        o->done = true, out_print("%s", usage);
    else if (!strcmp(arg, "--version"))
        o->done = true, out_print("quantize (tern %s; %s)\n", tern_version(), tern_build_info());
    else if (is(arg, "-q", "--quiet"))
        o->quiet = true;
    else
        return parse_valued(o, arg, value, used);
    return TERN_OK;
}

static int parse_operands(struct options *o, const char *const *operands, int n)
{
    static const enum tern_type types[] = {TERN_Q8, TERN_Q4, TERN_Q4C};
    if (n < 3)
        return wrong("three arguments are needed: IN.bin OUT.bin q8|q4|q4c", "");
    if (n > 3)
        return wrong("one argument too many", operands[3]);
    o->in = operands[0];
    o->out = operands[1];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(operands[2], tern_type_name(types[i]))) {
            o->p.type = types[i];
            return TERN_OK;
        }
    return wrong("the type must be q8, q4 or q4c", operands[2]);
}

static int parse(struct options *o, int argc, char **argv)
{
    const char *operands[4] = {0};
    int n = 0;
    for (int i = 1, used; i < argc; i += used) {
        used = 1;
        if (argv[i][0] == '-' && argv[i][1]) {
            int s = parse_option(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &used);
            if (s || o->done)
                return s;
        } else if (n < 4) {
            operands[n++] = argv[i];
        }
    }
    return parse_operands(o, operands, n);
}

/* ---- what the user sees ---- */

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

static void show_sum(const struct options *o, const struct display *d)
{
    out_print("%s: %llu bytes of tensors, %.1f %% of %s; %.3f bits a weight\n", o->out,
              (unsigned long long)d->bytes_out, 100 * (double)d->bytes_out / (double)d->bytes_in,
              o->in, 8 * (double)d->bytes_out / (double)d->weights);
}

static int quantize(struct options *o, struct tern_error *e)
{
    struct display d = {.bar = isatty(STDERR_FILENO), .quiet = o->quiet};
    char *text = NULL;
    int s = TERN_OK;
    signals_init("quantize", o->in);
    signals_note();
    o->p.report = show;
    o->p.arg = &d;
    if (o->calibrate)
        s = files_take(o->calibrate, &text, &o->p.text_bytes, e);
    o->p.text = text;
    if (!s)
        s = tern_quantize(o->in, o->out, &o->p, e);
    free(text);
    if (!o->quiet)
        clear_bar(&d);
    if (!s && !o->quiet)
        show_sum(o, &d);
    return s;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct tern_error e = {0};
    out_init();
    int s = parse(&o, argc, argv);
    if (!s && !o.done)
        s = quantize(&o, &e);
    if (!s)
        s = out_status(&e);
    if (s == TERN_CANCELLED)
        s = 128 + signals_caught();
    if (s && e.text[0])
        fprintf(stderr, "quantize: %s\n", e.text);
    return s;
}
