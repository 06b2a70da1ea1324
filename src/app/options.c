/* Options: see options.h. It alone knows how a command line is written. */
#include "app/options.h"

#include "app/hints.h"
#include "app/number.h"
#include "app/out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, JOB, INTEGER, SEED, REAL, TEXT, CHOICE, OPTIONAL_CHOICE };

enum { JOB_VALUE = 1 }; /* in .max of a JOB: it takes a value */

static const struct row {
    const char *group; /* title above this row in --help, or NULL */
    const char *name;
    char letter;         /* 0: none */
    const char *aliases; /* separated by spaces */
    enum kind kind;
    const char *value; /* name of the value; a choice: its words, separated by | */
    double min, max;   /* of a number */
    const char *help;
} rows[N_OPTIONS] = {
    [OPT_MODEL] = {"Text", "model", 'm', "", TEXT, "FILE", 0, 0,
                   "the weights file; default: the first argument"},
    [OPT_PROMPT] = {NULL, "prompt", 'p', "", TEXT, "TEXT", 0, 0,
                    "the text to continue; default: the second argument; - as second argument "
                    "reads standard input"},
    [OPT_FILE] = {NULL, "file", 'f', "", TEXT, "FILE", 0, 0,
                  "read the prompt from FILE, every byte of it; -: standard input"},
    [OPT_N_PREDICT] = {NULL, "n-predict", 'n', "predict max-new-tokens", INTEGER, "N", -1,
                       2147483647,
                       "stop after N new tokens; default -1: at an end token or a full context"},
    [OPT_STOP] = {NULL, "stop", 'r', "reverse-prompt", TEXT, "TEXT", 0, 0,
                  "stop before TEXT would be written; may be given several times"},
    [OPT_IGNORE_EOS] = {NULL, "ignore-eos", 0, "", FLAG, "", 0, 0, "do not stop at an end token"},
    [OPT_PARSE_SPECIAL] = {NULL, "parse-special", 0, "", FLAG, "", 0, 0,
                           "special tokens written in the prompt become tokens, not text"},
    [OPT_NO_ECHO] = {NULL, "no-echo", 0, "", FLAG, "", 0, 0,
                     "write the continuation alone, without the prompt"},
    [OPT_SEED] = {"Choice of tokens (defaults: the model's own, else as stated)", "seed", 's', "",
                  SEED, "N", 0, 0, "random numbers; default: another seed each time, printed"},
    [OPT_TEMP] = {NULL, "temp", 0, "temperature", REAL, "X", 0, 1000,
                  "temperature, 0 to 1000; default 0.8; 0: always the most probable token"},
    [OPT_TOP_K] = {NULL, "top-k", 0, "", INTEGER, "N", 0, 2147483647,
                   "choose among the N most probable tokens; default 40; 0: off"},
    [OPT_TOP_P] = {NULL, "top-p", 0, "", REAL, "X", 0, 1,
                   "choose among the tokens that make up X of the probability; default 0.95; "
                   "1: off"},
    [OPT_MIN_P] = {NULL, "min-p", 0, "", REAL, "X", 0, 1,
                   "leave out tokens below X times the largest probability; default 0.05; 0: off"},
    [OPT_REPEAT_PENALTY] = {NULL, "repeat-penalty", 0, "repetition-penalty", REAL, "X", 0, 1000,
                            "divide the logits of recent tokens by X; default 1; 0, 1: off"},
    [OPT_REPEAT_LAST_N] = {NULL, "repeat-last-n", 0, "", INTEGER, "N", 0, 2147483647,
                           "tokens that count as recent; default 64"},
    [OPT_GREEDY] = {NULL, "greedy", 0, "", FLAG, "", 0, 0, "the same as --temp 0"},
    [OPT_CTX_SIZE] = {"Memory and machine", "ctx-size", 'c', "", INTEGER, "N", 1, 16777216,
                      "positions; default: the model's, or what half of the memory holds"},
    [OPT_CACHE_TYPE] = {NULL, "cache-type", 0, "", CHOICE, "f16|f32", 0, 0,
                        "type of the cached keys and values; default f16"},
    [OPT_BATCH_SIZE] = {NULL, "batch-size", 'b', "", INTEGER, "N", 1, 65536,
                        "tokens of the prompt evaluated at once; default 512"},
    [OPT_THREADS] = {NULL, "threads", 't', "", INTEGER, "N", 1, 1024,
                     "default: what processors, affinity and quota allow"},
    [OPT_CPU] = {NULL, "cpu", 0, "", CHOICE, "ref|avx2|avx512|neon", 0, 0,
                 "instruction set; default: the best; every one gives the same bits"},
    [OPT_FINGERPRINT] = {"Reports", "fingerprint", 0, "", OPTIONAL_CHOICE, "all", 0, 0,
                         "print the hash of the logits of every row from which a token was chosen; "
                         "all: of the prompt's rows too"},
    [OPT_VERBOSE] = {NULL, "verbose", 'v', "", FLAG, "", 0, 0,
                     "memory plan, machine and full statistics"},
    [OPT_QUIET] = {NULL, "quiet", 'q', "silent", FLAG, "", 0, 0, "nothing but errors"},
    [OPT_PERPLEXITY] = {"Instead of a text", "perplexity", 0, "", JOB, "FILE", 0, JOB_VALUE,
                        "perplexity of a text, by overlapping windows of --ctx-size"},
    [OPT_PERPLEXITY_LINES] = {NULL, "perplexity-lines", 0, "", JOB, "FILE", 0, JOB_VALUE,
                              "the same, every line that is not empty for itself"},
    [OPT_PERPLEXITY_LLAMACPP] = {NULL, "perplexity-llamacpp", 0, "", JOB, "FILE", 0, JOB_VALUE,
                                 "the same by the procedure of llama.cpp's program"},
    [OPT_STRIDE] = {NULL, "stride", 0, "", INTEGER, "N", 1, 2147483647,
                    "tokens from window to window of --perplexity; default: half a window"},
    [OPT_TOKENIZE] = {NULL, "tokenize", 0, "", JOB, "", 0, 0,
                      "print the token ids of the prompt, without BOS"},
    [OPT_INFO] = {NULL, "info", 0, "", JOB, "", 0, 0, "describe the weights file"},
    [OPT_CHECK] = {NULL, "check", 0, "", JOB, "", 0, 0, "verify the checksum of every tensor"},
    [OPT_SELFTEST] = {NULL, "selftest", 0, "", JOB, "", 0, 0,
                      "prove file, program and machine: kernels, tokenizer, logits, seal"},
    [OPT_SEAL_VALUE] = {NULL, "seal-value", 0, "", JOB, "", 0, 0,
                        "print the fingerprint that a seal of this file stores"},
    [OPT_HELP] = {NULL, "help", 'h', "", JOB, "", 0, 0, "this text"},
    [OPT_HELP_LLAMA2C] = {NULL, "help-llama2c", 0, "", JOB, "", 0, 0,
                          "what llama2.c's options are called here"},
    [OPT_VERSION] = {NULL, "version", 0, "", JOB, "", 0, 0,
                     "version, compiler, instruction sets, arithmetic, file format"},
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static enum tern_status
usage(struct tern_error *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    e->code = TERN_USAGE;
    vsnprintf(e->text, sizeof e->text, format, ap);
    va_end(ap);
    return TERN_USAGE;
}

static bool takes_value(const struct row *r)
{
    return r->kind != FLAG && r->kind != OPTIONAL_CHOICE &&
           !(r->kind == JOB && r->max != JOB_VALUE);
}

/* ---- names -------------------------------------------------------------------------------- */

/* The next word of a list separated by `gap`, or NULL; *n its length. */
static const char *next_word(const char **list, char gap, size_t *n)
{
    const char *word = *list;
    if (!*word)
        return NULL;
    const char *end = strchr(word, gap);
    *n = end ? (size_t)(end - word) : strlen(word);
    *list = word + *n + (end != NULL);
    return word;
}

static bool in_list(const char *list, char gap, const char *text, size_t n)
{
    size_t bytes;
    for (const char *word; (word = next_word(&list, gap, &bytes));)
        if (bytes == n && !memcmp(word, text, n))
            return true;
    return false;
}

static enum option find_long(const char *name, size_t n)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (in_list(rows[i].name, ' ', name, n) || in_list(rows[i].aliases, ' ', name, n))
            return (enum option)i;
    return N_OPTIONS;
}

static enum option find_letter(char letter)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (rows[i].letter == letter)
            return (enum option)i;
    return N_OPTIONS;
}

/* Edit distance of a [n] and b [m], both at most 31 long: insertions, deletions, replacements and
 * neighbours that changed places. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t d[32][32];
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

static void try_names(const char *list, const char *name, size_t n, const char **found,
                      size_t *bytes, size_t *best)
{
    size_t m, far;
    for (const char *word; (word = next_word(&list, ' ', &m));) {
        if (m < 32 && (far = distance(name, n, word, m)) < *best)
            *best = far, *found = word, *bytes = m;
    }
}

static enum tern_status unknown(const char *argument, struct tern_error *e)
{
    const char *name = argument + strspn(argument, "-"), *found = NULL;
    size_t n = strcspn(name, "="), bytes = 0, best = 3;
    for (int i = 0; n > 1 && n < 32 && i < N_OPTIONS; i++) {
        try_names(rows[i].name, name, n, &found, &bytes, &best);
        try_names(rows[i].aliases, name, n, &found, &bytes, &best);
    }
    if (found)
        return usage(e, "unknown option '%.100s'; did you mean --%.*s?", argument, (int)bytes,
                     found);
    return usage(e,
                 "unknown option '%.100s'; --help lists all (a prompt that begins with - can be "
                 "given after --)",
                 argument);
}

/* ---- values ------------------------------------------------------------------------------- */

static enum tern_status bad_value(const struct row *r, const char *spelled, const char *value,
                                  struct tern_error *e)
{
    const char *hint = hints_value(spelled, value);
    if (hint)
        return usage(e, "%.40s %.100s: %s", spelled, value, hint);
    if (r->kind == SEED)
        return usage(e,
                     "%.40s: '%.100s' is not an integer from 0 to 18446744073709551615 (without "
                     "the option, every run takes another seed)",
                     spelled, value);
    if (r->kind == CHOICE || r->kind == OPTIONAL_CHOICE)
        return usage(e, "%.40s: '%.100s' is not one of %s", spelled, value, r->value);
    return usage(e, "%.40s: '%.100s' is not %s from %.0f to %.0f", spelled, value,
                 r->kind == INTEGER ? "an integer" : "a number", r->min, r->max);
}

static enum tern_status store(struct options *o, enum option id, const char *spelled,
                              const char *value, struct tern_error *e)
{
    const struct row *r = &rows[id];
    struct option_value *v = &o->value[id];
    bool good = true;
    v->given = true;
    v->text = value;
    if (r->kind == INTEGER)
        good = number_i64(value, &v->integer) && (double)v->integer >= r->min &&
               (double)v->integer <= r->max;
    else if (r->kind == SEED)
        good = number_u64(value, &v->seed);
    else if (r->kind == REAL)
        good = number_real(value, &v->real) && v->real >= r->min && v->real <= r->max;
    else if (r->kind == CHOICE || (r->kind == OPTIONAL_CHOICE && value))
        good = in_list(r->value, '|', value, strlen(value));
    else if (r->kind == TEXT)
        good = !hints_value(spelled, value);
    if (!good)
        return bad_value(r, spelled, value, e);
    if (id == OPT_STOP) {
        if (!*value)
            return usage(e, "%.40s: the text to stop at is empty", spelled);
        o->stop[o->n_stop++] = value;
    }
    if (r->kind == JOB) {
        if (o->job != N_OPTIONS && o->job != id)
            return usage(e, "--%s and --%s cannot go together", rows[o->job].name, r->name);
        o->job = id;
    }
    return TERN_OK;
}

/* ---- the command line --------------------------------------------------------------------- */

/* One option beginning at argv[*i]; *i is left at its last argument. */
static enum tern_status parse_option(struct options *o, int argc, char **argv, int *i,
                                     struct tern_error *e)
{
    const char *a = argv[*i], *hint = hints_find(a), *value = NULL;
    char spelled[40];
    bool is_long = a[1] == '-';
    size_t n = is_long ? strcspn(a, "=") : 2;
    if (hint)
        return usage(e, "%.100s: %s", a, hint);
    enum option id = is_long ? find_long(a + 2, n - 2) : find_letter(a[1]);
    if (id == N_OPTIONS)
        return unknown(a, e);
    snprintf(spelled, sizeof spelled, "%.*s", (int)n, a);
    if (a[n])
        value = a + n + is_long;
    if (!takes_value(&rows[id]) && rows[id].kind != OPTIONAL_CHOICE && value) {
        if (is_long)
            return usage(e, "%s takes no value", spelled);
        return unknown(a, e);
    }
    if (takes_value(&rows[id]) && !value) {
        if (*i + 1 >= argc)
            return usage(e, "%s needs a value: %s", spelled, rows[id].value);
        value = argv[++*i];
    }
    return store(o, id, spelled, value, e);
}

/* Arguments without a dash: the model unless --model named it, then the prompt. */
static enum tern_status take_words(struct options *o, const char *const *word, size_t n,
                                   struct tern_error *e)
{
    size_t i = 0;
    struct option_value *prompt = &o->value[OPT_PROMPT], *file = &o->value[OPT_FILE];
    if (o->value[OPT_MODEL].given)
        o->model = o->value[OPT_MODEL].text;
    else if (n)
        o->model = word[i++];
    if (i < n && !prompt->given && !file->given) {
        struct option_value *v = strcmp(word[i], "-") ? prompt : file;
        v->given = true;
        v->text = word[i++];
    }
    if (i < n)
        return usage(e,
                     "'%.100s' is one argument too many: there is a prompt already (a prompt of "
                     "several words needs quotes)",
                     word[i]);
    return TERN_OK;
}

/* Two options that contradict each other. */
static enum tern_status exclude(const struct options *o, enum option a, enum option b,
                                struct tern_error *e)
{
    if (o->value[a].given && o->value[b].given)
        return usage(e, "--%s and --%s cannot go together", rows[a].name, rows[b].name);
    return TERN_OK;
}

static enum tern_status check_whole(const struct options *o, struct tern_error *e)
{
    static const enum option pairs[][2] = {
        {OPT_PROMPT, OPT_FILE}, {OPT_GREEDY, OPT_TEMP}, {OPT_VERBOSE, OPT_QUIET}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (exclude(o, pairs[i][0], pairs[i][1], e))
            return TERN_USAGE;
    if (o->value[OPT_STRIDE].given && o->job != OPT_PERPLEXITY)
        return usage(e, "--stride belongs to --perplexity");
    bool prompt = o->value[OPT_PROMPT].given || o->value[OPT_FILE].given;
    if (prompt && o->job != N_OPTIONS && o->job != OPT_TOKENIZE && o->job < OPT_HELP)
        return usage(e, "--%s takes no prompt", rows[o->job].name);
    return TERN_OK;
}

enum tern_status options_open(struct options *o, int argc, char **argv, struct tern_error *e)
{
    memset(o, 0, sizeof *o);
    o->job = N_OPTIONS;
    o->stop = calloc((size_t)(argc > 0 ? argc : 1), sizeof *o->stop);
    if (!o->stop) {
        usage(e, "not enough memory for the options");
        return e->code = TERN_NO_MEMORY;
    }
    const char *word[4]; /* one more than can be right */
    size_t n = 0;
    bool only_text = false;
    for (int i = 1; i < argc; i++) {
        enum tern_status s = TERN_OK;
        if (!only_text && !strcmp(argv[i], "--"))
            only_text = true;
        else if (!only_text && argv[i][0] == '-' && argv[i][1])
            s = parse_option(o, argc, argv, &i, e);
        else if (n < 4)
            word[n++] = argv[i];
        if (s)
            return s;
    }
    enum tern_status s = take_words(o, word, n, e);
    return s ? s : check_whole(o, e);
}

void options_close(struct options *o)
{
    free(o->stop);
    o->stop = NULL;
}

/* ---- --help ------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 28, HELP_WIDTH = 79 };

/* Writes text from column `at` on, wrapped at words, every further line at HELP_COLUMN. */
static void wrap(size_t at, const char *text)
{
    size_t n = 0;
    if (at >= HELP_COLUMN) {
        out_print("\n");
        at = 0;
    }
    for (const char *word; (word = next_word(&text, ' ', &n));) {
        size_t gap = at < HELP_COLUMN ? HELP_COLUMN - at : at > HELP_COLUMN;
        if (at + gap + n > HELP_WIDTH) {
            out_print("\n");
            at = 0;
            gap = HELP_COLUMN;
        }
        out_print("%*s%.*s", (int)gap, "", (int)n, word);
        at += gap + n;
    }
    out_print("\n");
}

static void help_row(const struct row *r)
{
    char left[80], right[512];
    size_t at, n;
    if (r->letter)
        at = (size_t)snprintf(left, sizeof left, "  -%c, --%s", r->letter, r->name);
    else
        at = (size_t)snprintf(left, sizeof left, "      --%s", r->name);
    if (r->kind == OPTIONAL_CHOICE)
        at += (size_t)snprintf(left + at, sizeof left - at, "[=%s]", r->value);
    else if (takes_value(r))
        at += (size_t)snprintf(left + at, sizeof left - at, " %s", r->value);
    size_t used = (size_t)snprintf(right, sizeof right, "%s", r->help);
    const char *aliases = r->aliases, *gap = "; also";
    for (const char *word; (word = next_word(&aliases, ' ', &n)); gap = ",")
        used += (size_t)snprintf(right + used, sizeof right - used, "%s --%.*s", gap, (int)n, word);
    if (r->group)
        out_print("\n%s\n", r->group);
    out_print("%s", left);
    wrap(at, right);
}

void options_help(void)
{
    out_print("usage: run MODEL [PROMPT] [options]\n"
              "\n"
              "Writes PROMPT and its continuation by the language model in the weights file\n"
              "MODEL to standard output; all else goes to standard error. Without a prompt\n"
              "the model begins a text of its own. tools/convert.py makes weights files.\n");
    for (int i = 0; i < N_OPTIONS; i++)
        help_row(&rows[i]);
    out_print("\nrun ends with 0 if all is well, 2 wrong usage, 3 invalid weights file, 4 cannot\n"
              "read or write, 5 out of memory, 6 limit reached or value not finite, 130 Ctrl-C,\n"
              "143 terminated, 1 a bug in tern.\n");
}
