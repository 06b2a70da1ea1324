/* The options of `bench`: see bench_options.h. parser.c reads the command line. */
#include "app/bench/bench_options.h"

#include "app/bench/bench_shape.h"
#include "app/bench/bench_test.h"
#include "app/cli/llamacpp.h"
#include "app/cli/number.h"
#include "app/cli/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row rows[N_BENCH_OPTIONS] = {
    [BENCH_MODEL] = {.title = "What is measured",
                     .letter = 'm',
                     .names = "model",
                     .kind = LIST,
                     .value = "FILE",
                     .help = "a weights file; arguments without a dash are files, too"},
    [BENCH_SHAPE] = {.names = "shape",
                     .kind = LIST,
                     .value = "SHAPE",
                     .help = "use random weights of this shape instead of a file"},
    [BENCH_TYPE] = {.names = "type",
                    .kind = LIST,
                    .value = "LIST",
                    .help = "weight types for --shape, listed below; default q8"},
    [BENCH_PROMPT] = {.title =
                          "Tests (LIST: 1,2 or 1-4 or 1-9+2 or 1-8*2; repeated options add up)",
                      .letter = 'p',
                      .names = "n-prompt",
                      .kind = LIST,
                      .value = "LIST",
                      .help = "lengths of a prompt; default 512; 0: no prompt test; of attention: "
                              "numbers of keys, default 64,128,256,512"},
    [BENCH_GEN] = {.letter = 'n',
                   .names = "n-gen",
                   .kind = LIST,
                   .value = "LIST",
                   .help = "numbers of tokens generated one by one; default 128; 0: no such test"},
    [BENCH_THREADS] = {.letter = 't',
                       .names = "threads",
                       .kind = LIST,
                       .value = "LIST",
                       .help = "default: the number of CPU cores you may use"},
    [BENCH_DEPTH] = {.letter = 'd',
                     .names = "n-depth",
                     .kind = LIST,
                     .value = "LIST",
                     .help = "tokens in the cache before each test; default 0"},
    [BENCH_PG] = {.names = "pg -pg",
                  .kind = LIST,
                  .value = "PP,TG",
                  .help = "a prompt and then tokens, as one test; may be repeated"},
    [BENCH_PARALLEL] = {.names = "n-parallel -npl",
                        .kind = LIST,
                        .value = "LIST",
                        .help = "sequences that the tests of -n continue side by side; default 1"},
    [BENCH_MTP] = {.names = "mtp",
                   .kind = LIST,
                   .value = "LIST",
                   .help = "let the tests of -n continue a text, without and with up to so many "
                           "guesses of the layer that the model has for it (MTP)"},
    [BENCH_FILE] = {.letter = 'f',
                    .names = "file",
                    .kind = TEXT,
                    .value = "FILE",
                    .help = "the text that --mtp continues; default: an empty one"},
    [BENCH_BATCH] = {.letter = 'b',
                     .names = "batch-size",
                     .kind = LIST,
                     .value = "LIST",
                     .help = "prompt tokens evaluated at once; default 512"},
    [BENCH_CACHE] = {.names = "cache-type",
                     .kind = LIST,
                     .value = "LIST",
                     .help = "types of the cached keys and values; default f16"},
    [BENCH_CACHE_K] = {.names = "cache-type-k -ctk",
                       .kind = LIST,
                       .value = "LIST",
                       .help = "the same: keys and values share one type"},
    [BENCH_CACHE_V] = {.names = "cache-type-v -ctv",
                       .kind = LIST,
                       .value = "LIST",
                       .help = "the same; must be equal to --cache-type-k"},
    [BENCH_LOAD] = {OPTION_LOAD},
#ifdef TERN_MPI
    [BENCH_SHARE] = {OPTION_SHARE},
#endif
    [BENCH_CPU] = {.names = "cpu",
                   .kind = LIST,
                   .value = "LIST",
                   .help = "instruction sets, listed below; default: the best"},
    [BENCH_KV_HEADS] = {.title = "Of bench attention",
                        .names = "kv-heads",
                        .kind = LIST,
                        .value = "LIST",
                        .help = "of its 8 heads; default 8,2,1"},
    [BENCH_WINDOW] = {.names = "window",
                      .kind = LIST,
                      .value = "LIST",
                      .help = "sizes of a sliding window; default 32,128; 0: none"},
    [BENCH_REPETITIONS] = {.title = "How",
                           .letter = 'r',
                           .names = "repetitions",
                           .kind = INTEGER,
                           .min = 1,
                           .max = BENCH_MAX_REPETITIONS,
                           .value = "N",
                           .help = "how often each test is repeated; default 5, of attention 3"},
    [BENCH_DELAY] = {.names = "delay",
                     .kind = INTEGER,
                     .max = 3600,
                     .value = "N",
                     .help = "seconds of rest before each test; default 0"},
    [BENCH_OPS] = {.names = "ops",
                   .kind = FLAG,
                   .help = "repeat once more and show the time of each operation"},
    [BENCH_NO_WARMUP] = {.names = "no-warmup",
                         .kind = FLAG,
                         .help = "do not run each test once before measuring"},
    [BENCH_NO_LIMITS] = {.names = "no-limits",
                         .kind = FLAG,
                         .help =
                             "do not measure what the machine can do; the fields for that are 0"},
    [BENCH_OUTPUT] = {.title = "Output",
                      .letter = 'o',
                      .names = "output",
                      .kind = CHOICE,
                      .value = "md|csv|json|jsonl",
                      .help = "format of the results on standard output; default md"},
    [BENCH_OUTPUT_ERR] = {.names = "output-err -oe",
                          .kind = CHOICE,
                          .value = "md|csv|json|jsonl",
                          .help = "write the results to standard error, too"},
    [BENCH_PROGRESS] = {.names = "progress",
                        .kind = FLAG,
                        .help = "show on standard error what is being done"},
    [BENCH_HELP] = {OPTION_HELP},
    [BENCH_VERSION] = {OPTION_VERSION},
};

static const struct option_table table = {
    .examples = "  bench model.bin                          prompts and single tokens\n"
                "  bench model.bin -p 512 -n 128 -t 1,2,4   with 1, 2 and 4 threads\n"
                "  bench --shape 1.1b --type q4,q8          no weights file needed\n"
                "  bench model.bin -n 250 --mtp 2           what its own guesses gain\n",
    .usage = "usage: bench MODEL ... [options]\n"
             "       bench --shape SHAPE --type LIST [options]\n"
             "       bench attention [options]\n"
             "\n"
             "Measures tokens per second, and compares them with what the machine can do.\n"
             "Options and fields are those of llama-bench where it has them.\n",
    .rows = rows,
    .n = N_BENCH_OPTIONS,
    .find_hint = llamacpp_hint,
    .unknown = "--help lists all",
};

/* ---- lists -------------------------------------------------------------------------------- */

/* The number in text[0 .. n), at most max. */
static bool read_number(const char *text, size_t n, uint64_t max, uint64_t *out)
{
    return number_u64(text, n, out) && *out <= max;
}

static bool add(struct bench_list *list, uint64_t value)
{
    if (list->n == BENCH_VALUES)
        return false;
    list->value[list->n++] = (uint32_t)value;
    return true;
}

/* "7", "1-4", "1-9+2" or "1-8*2" in text[0 .. n). */
static bool add_range(struct bench_list *list, const char *text, size_t n, uint64_t min,
                      uint64_t max)
{
    uint64_t first, last, step = 1;
    size_t head = 0, tail, at;
    while (head < n && text[head] != '-')
        head++;
    if (!read_number(text, head, max, &first) || first < min)
        return false;
    if (head == n)
        return add(list, first);
    for (tail = at = head + 1; at < n && text[at] != '+' && text[at] != '*';)
        at++;
    bool times = at < n && text[at] == '*';
    if (!read_number(text + tail, at - tail, max, &last) || last < first ||
        (at < n && (!read_number(text + at + 1, n - at - 1, max, &step) || step < 1)) ||
        (times && (first < 1 || step < 2)))
        return false;
    for (uint64_t v = first; v <= last; v = times ? v * step : v + step)
        if (!add(list, v))
            return false;
    return true;
}

typedef bool (*add_fn)(struct bench_list *list, const char *text, size_t n);

static bool add_count(struct bench_list *list, const char *text, size_t n)
{
    return add_range(list, text, n, 0, 1 << 20);
}

static bool add_positive(struct bench_list *list, const char *text, size_t n)
{
    return add_range(list, text, n, 1, 65536);
}

static bool add_guesses(struct bench_list *list, const char *text, size_t n)
{
    return add_range(list, text, n, 1, 8);
}

/* A divisor of the 8 heads of bench attention */
static bool add_kv_heads(struct bench_list *list, const char *text, size_t n)
{
    uint64_t value;
    return read_number(text, n, 8, &value) && value && 8 % value == 0 && add(list, value);
}

static bool add_parallel(struct bench_list *list, const char *text, size_t n)
{
    return add_range(list, text, n, 1, 256);
}

static bool add_threads(struct bench_list *list, const char *text, size_t n)
{
    return add_range(list, text, n, 1, 1024);
}

static bool add_type(struct bench_list *list, const char *text, size_t n)
{
    for (enum tern_type t = 0; tern_type_name(t); t++)
        if (strlen(tern_type_name(t)) == n && !memcmp(tern_type_name(t), text, n))
            return add(list, (uint64_t)t);
    return false;
}

/* Where the name begins in tern_cpu_names() */
static bool add_cpu(struct bench_list *list, const char *text, size_t n)
{
    const char *all = tern_cpu_names();
    for (size_t at = 0, bytes; all[at]; at += bytes + (all[at + bytes] == '|')) {
        bytes = strcspn(all + at, "|");
        if (bytes == n && !memcmp(all + at, text, n))
            return add(list, at);
    }
    return false;
}

/* "f32, f16, ...": all weight types. */
static const char *type_names(void)
{
    static char text[200];
    size_t n = 0;
    for (enum tern_type t = 0; tern_type_name(t) && n < sizeof text; t++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", t ? ", " : "", tern_type_name(t));
    return text;
}

static bool add_cache(struct bench_list *list, const char *text, size_t n)
{
    for (enum tern_cache_type t = 0; tern_cache_type_name(t); t++)
        if (strlen(tern_cache_type_name(t)) == n && !memcmp(tern_cache_type_name(t), text, n))
            return add(list, (uint64_t)t);
    return false;
}

/* Every part between commas of every text that option `id` was given. */
static enum tern_status read_list(const struct parser *p, int id, struct bench_list *list,
                                  add_fn add_part, const char *want, struct tern_error *e)
{
    for (size_t i = 0; i < p->n_texts; i++) {
        const char *text = p->texts[i].text;
        for (bool more = p->texts[i].option == id; more;) {
            size_t n = strcspn(text, ",");
            if (!add_part(list, text, n))
                return parser_usage(e, "--%.*s: '%.100s' is not %s", OPTION_NAME(&rows[id]),
                                    p->texts[i].text, want);
            more = text[n] == ',';
            text += n + more;
        }
    }
    return TERN_OK;
}

static void default_to(struct bench_list *list, uint32_t value)
{
    if (!list->n)
        add(list, value);
}

static void default_to_list(struct bench_list *list, const uint32_t *values, size_t n)
{
    for (size_t i = 0, empty = !list->n; i < n && empty; i++)
        add(list, values[i]);
}

/* ---- the command line --------------------------------------------------------------------- */

static enum tern_status read_pg(struct bench_options *o, const struct parser *p,
                                struct tern_error *e)
{
    for (size_t i = 0; i < p->n_texts; i++) {
        const char *text = p->texts[i].text;
        size_t n = strcspn(text, ",");
        uint64_t pp, tg;
        if (p->texts[i].option != BENCH_PG)
            continue;
        if (text[n] != ',' || !read_number(text, n, 1 << 20, &pp) ||
            !read_number(text + n + 1, strlen(text + n + 1), 1 << 20, &tg) || !(pp + tg) ||
            !add(&o->pg_prompt, pp) || !add(&o->pg_gen, tg))
            return parser_usage(e, "--pg: '%.100s' is not two numbers of tokens, as in 512,128",
                                text);
    }
    return TERN_OK;
}

static enum tern_status read_caches(struct bench_options *o, const struct parser *p,
                                    struct tern_error *e)
{
    static const char want[] = "a list of f16, f32 and q8";
    struct bench_list k = {.n = 0}, v = {.n = 0};
    enum tern_status s;
    if ((s = read_list(p, BENCH_CACHE, &o->caches, add_cache, want, e)) ||
        (s = read_list(p, BENCH_CACHE_K, &k, add_cache, want, e)) ||
        (s = read_list(p, BENCH_CACHE_V, &v, add_cache, want, e)))
        return s;
    if (k.n && v.n && (k.n != v.n || memcmp(k.value, v.value, k.n * sizeof *k.value)))
        return parser_usage(e,
                            "--cache-type-k and --cache-type-v differ, but keys and values share "
                            "one type");
    const struct bench_list *more = k.n ? &k : &v;
    for (size_t i = 0; i < more->n; i++)
        if (!add(&o->caches, more->value[i]))
            return parser_usage(e, "--cache-type: too many values");
    return TERN_OK;
}

static enum tern_status read_lists(struct bench_options *o, const struct parser *p,
                                   struct tern_error *e)
{
    static const char counts[] = "a list of numbers or ranges from 0 to 1048576";
    char types[240], cpus[240];
    enum tern_status s;
    snprintf(types, sizeof types, "a list of these: %s", type_names());
    snprintf(cpus, sizeof cpus, "a list of these: %s", tern_cpu_names());
    (void)((s = read_list(p, BENCH_PROMPT, &o->prompt, add_count, counts, e)) ||
           (s = read_list(p, BENCH_GEN, &o->gen, add_count, counts, e)) ||
           (s = read_list(p, BENCH_DEPTH, &o->depth, add_count, counts, e)) ||
           (s = read_list(p, BENCH_THREADS, &o->threads, add_threads,
                          "a list of numbers or ranges from 1 to 1024", e)) ||
           (s = read_list(p, BENCH_BATCH, &o->batch, add_positive,
                          "a list of numbers or ranges from 1 to 65536", e)) ||
           (s = read_list(p, BENCH_TYPE, &o->types, add_type, types, e)) ||
           (s = read_list(p, BENCH_CPU, &o->cpus, add_cpu, cpus, e)) ||
           (s = read_list(p, BENCH_PARALLEL, &o->parallel, add_parallel,
                          "a list of numbers or ranges from 1 to 256", e)) ||
           (s = read_list(p, BENCH_MTP, &o->mtp, add_guesses, "a list of numbers from 1 to 8", e)) ||
           (s = read_list(p, BENCH_KV_HEADS, &o->kv_heads, add_kv_heads, "a list of 1, 2, 4 and 8",
                          e)) ||
           (s = read_list(p, BENCH_WINDOW, &o->window, add_count, counts, e)) ||
           (s = read_pg(o, p, e)) || (s = read_caches(o, p, e)));
    if (o->attention) {
        default_to_list(&o->prompt, (uint32_t[]){64, 128, 256, 512}, 4);
        default_to_list(&o->kv_heads, (uint32_t[]){8, 2, 1}, 3);
        default_to_list(&o->window, (uint32_t[]){32, 128}, 2);
    }
    default_to(&o->prompt, 512);
    default_to(&o->gen, 128);
    default_to(&o->depth, 0);
    default_to(&o->parallel, 1);
    default_to(&o->threads, 0);
    default_to(&o->batch, 512);
    default_to(&o->types, TERN_Q8);
    default_to(&o->caches, TERN_CACHE_F16);
    return s;
}

static enum tern_status read_models(struct bench_options *o, const struct parser *p,
                                    struct tern_error *e)
{
    o->models = calloc(p->n_texts + p->n_words + 1, sizeof *o->models);
    o->shapes = calloc(p->n_texts + 1, sizeof *o->shapes);
    if (!o->models || !o->shapes)
        return parser_no_memory(e);
    for (size_t i = 0; i < p->n_texts; i++) {
        if (p->texts[i].option == BENCH_MODEL)
            o->models[o->n_models++] = p->texts[i].text;
        if (p->texts[i].option == BENCH_SHAPE)
            o->shapes[o->n_shapes++] = p->texts[i].text;
    }
    for (size_t i = 0; i < p->n_words; i++)
        o->models[o->n_models++] = p->words[i];
    if (!o->n_models && !o->n_shapes && o->job == N_BENCH_OPTIONS)
        return parser_usage(e, "nothing to measure; usage: bench MODEL ... [options], or bench "
                               "--shape 1.1b --type q4 (--help lists the options)");
    if (o->value[BENCH_TYPE].given && !o->n_shapes)
        return parser_usage(e, "--type belongs to --shape (quantize changes the type of a weights "
                               "file)");
    if (o->mtp.n && o->n_shapes)
        return parser_usage(e, "--mtp needs a weights file: --shape has no layer that guesses");
    if (o->mtp.n && o->value[BENCH_PARALLEL].given)
        return parser_usage(e, "--n-parallel and --mtp exclude each other: guesses continue one text");
    if (o->value[BENCH_FILE].given && !o->mtp.n)
        return parser_usage(e, "--file belongs to --mtp");
    return TERN_OK;
}

/* "attention" in the place of a model, and whether every option belongs to what is measured */
static enum tern_status read_attention(struct bench_options *o, const struct parser *p,
                                       struct tern_error *e)
{
    static const bool both[N_BENCH_OPTIONS] = {
        [BENCH_PROMPT] = true,     [BENCH_REPETITIONS] = true, [BENCH_OUTPUT] = true,
        [BENCH_OUTPUT_ERR] = true, [BENCH_PROGRESS] = true,    [BENCH_HELP] = true,
        [BENCH_VERSION] = true};
    o->attention = p->n_words && !strcmp(p->words[0], "attention");
    if (o->attention && p->n_words > 1)
        return parser_usage(e, "bench attention takes no model: '%.100s'", p->words[1]);
    for (int i = 0; i < N_BENCH_OPTIONS; i++) {
        bool own = i == BENCH_KV_HEADS || i == BENCH_WINDOW;
        if (o->value[i].given && !both[i] && own != o->attention)
            return parser_usage(e, "--%.*s %s bench attention", OPTION_NAME(&rows[i]),
                                own ? "belongs to" : "does not belong to");
    }
    return TERN_OK;
}

enum tern_status bench_options_open(struct bench_options *o, int argc, char **argv,
                                    struct tern_error *e)
{
    struct parser p;
    memset(o, 0, sizeof *o);
    enum tern_status s = parser_open(&p, &table, o->value, argc, argv, e);
    o->job = (enum bench_option)p.job;
    if (!s)
        s = read_attention(o, &p, e);
    if (!s)
        s = read_lists(o, &p, e);
    if (!s && !o->attention)
        s = read_models(o, &p, e);
    parser_close(&p);
    return s;
}

void bench_options_close(struct bench_options *o)
{
    free(o->models);
    free(o->shapes);
}

/* The names in lines of at most 80 columns */
static void print_shapes(void)
{
    const char *name = bench_shape_names();
    size_t column = strlen("Shapes:");
    out_print("\nShapes:");
    for (size_t n; *name; name += n + (name[n] == ' '), column += n + 1) {
        n = strcspn(name, " ");
        if (column + n > 78) {
            out_print("\n");
            column = 0;
        }
        out_print("%s%.*s", column ? " " : "", (int)n, name);
    }
    out_print(",\n");
}

void bench_options_help(void)
{
    parser_help(&table);
    print_shapes();
    out_print(
        "or dim=N,hidden=N,layers=N,heads=N,kv_heads=N,head_dim=N,vocab=N\n"
        "[,window=N][,tied][,KEY=VALUE/...] with config keys as in n_experts=8 or\n"
        "mixer=2*3/1. Large ones are cut: \"4/48\" in a result is 4 of 48 layers, and the\n"
        "same part of the vocabulary. NAME:N has N layers.\n"
        "\nTypes: %s\n"
        "Instruction sets of this build: %s\n"
        "\nExit codes are those of run.\n",
        type_names(), tern_cpu_names());
}
