/* The options of `run`: see run_options.h. parser.c reads the command line. */
#include "app/run/run_options.h"

#include "app/run/hints.h"
#include "app/cli/number.h"
#include "app/cli/out.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row rows[N_RUN_OPTIONS] = {
    [OPT_MODEL] = {.title = "Used most", OPTION_MODEL},
    [OPT_PROMPT] = {.letter = 'p',
                    .names = "prompt",
                    .kind = TEXT,
                    .value = "TEXT",
                    .help = "the text to continue; default: the second argument, or what a pipe "
                            "or file on standard input holds"},
    [OPT_FILE] = {.letter = 'f',
                  .names = "file",
                  .kind = TEXT,
                  .value = "FILE",
                  .help = "read the prompt from FILE; - is standard input"},
    [OPT_CHAT] = {.names = "chat conversation -cnv",
                  .kind = FLAG,
                  .help = "talk with the model; /? lists the commands"},
    [OPT_N_PREDICT] = {.letter = 'n',
                       .names = "n-predict predict max-new-tokens",
                       .kind = INTEGER,
                       .min = -1,
                       .max = INT32_MAX,
                       .value = "N",
                       .help = "stop after N new tokens; default -1: no limit"},
    [OPT_TEMP] = {.names = "temp temperature",
                  .kind = REAL,
                  .max = 1000,
                  .value = "X",
                  .help = "how freely tokens are chosen; default 0.8; 0 always takes the most "
                          "probable one"},
    [OPT_SEED] = {.letter = 's',
                  .names = "seed",
                  .kind = SEED,
                  .value = "N",
                  .help = "the same seed gives the same text; default: a new one each time, "
                          "printed at the end"},
    [OPT_STOP] = {.letter = 'r',
                  .names = "stop reverse-prompt",
                  .kind = LIST,
                  .value = "TEXT",
                  .help = "stop before TEXT is written; may be repeated"},
    [OPT_CTX_SIZE] = {.letter = 'c',
                      .names = "ctx-size",
                      .kind = INTEGER,
                      .min = 1,
                      .max = 16777216,
                      .value = "N",
                      .help = "context length in tokens; default: the model's own, reduced to fit "
                              "in half the memory"},
    [OPT_THREADS] = {OPTION_THREADS},
    [OPT_VERBOSE] = {.letter = 'v',
                     .names = "verbose",
                     .kind = FLAG,
                     .help = "show memory, machine and all statistics"},
    [OPT_QUIET] = {OPTION_QUIET},
    [OPT_HELP] = {OPTION_HELP},

    [OPT_NO_ECHO] = {.title = "Prompt and text",
                     .names = "no-echo",
                     .kind = FLAG,
                     .help = "do not repeat the prompt before the new text"},
    [OPT_IGNORE_EOS] = {.names = "ignore-eos",
                        .kind = FLAG,
                        .help = "do not stop at a token that ends the text"},
    [OPT_PARSE_SPECIAL] = {.names = "parse-special",
                           .kind = FLAG,
                           .help = "read special tokens in the prompt as tokens, not as text"},
    [OPT_RAW] = {.names = "raw",
                 .kind = FLAG,
                 .help = "write control characters to a terminal unchanged"},
    [OPT_PROMPT_IDS] = {.names = "prompt-ids",
                        .kind = TEXT,
                        .value = "IDS",
                        .help = "the prompt as token ids, as in \"1 22 333\"; no token is added"},
    [OPT_SESSION] = {.names = "session prompt-cache",
                     .kind = TEXT,
                     .value = "FILE",
                     .help = "keep the text and the model's state in FILE; the next run goes on "
                             "from there"},
    [OPT_SESSION_NEW] = {.names = "session-new",
                         .kind = FLAG,
                         .help = "let another prompt replace the text in the --session file"},
    [OPT_CONTEXT_SHIFT] = {.names = "context-shift",
                           .kind = FLAG,
                           .help = "when the context is full, drop the older half and go on; "
                                   "default: stop"},
    [OPT_KEEP] = {.names = "keep",
                  .kind = INTEGER,
                  .min = -1,
                  .max = 16777216,
                  .value = "N",
                  .help = "--context-shift never drops the first N tokens; default 4; -1: the "
                          "whole prompt"},

    [OPT_SYSTEM] = {.title = "Chat (starts by itself on a terminal if the model can chat)",
                    .names = "system system-prompt -sys",
                    .kind = TEXT,
                    .value = "TEXT",
                    .help = "begin the conversation with this system text"},
    [OPT_SYSTEM_FILE] = {.names = "system-file system-prompt-file",
                         .kind = TEXT,
                         .value = "FILE",
                         .help = "read the system text from FILE"},
    [OPT_THINK] = {.names = "think",
                   .kind = CHOICE,
                   .value = "on|off",
                   .help = "let the model think before it answers; default: as the model's "
                           "template says"},
    [OPT_TEMPLATE] = {.names = "template chat-template",
                      .kind = TEXT,
                      .value = "NAME",
                      .help = "use a built-in chat template (chatml, llama3, ...) instead of the "
                              "model's own"},

    [OPT_GREEDY] = {.title =
                        "Choice of tokens (defaults: the model's own if it has any, else these)",
                    .names = "greedy",
                    .kind = FLAG,
                    .help = "the same as --temp 0"},
    [OPT_TOP_K] = {.names = "top-k",
                   .kind = INTEGER,
                   .max = INT32_MAX,
                   .value = "N",
                   .help = "choose among the N most probable tokens; default 40; 0: off"},
    [OPT_TOP_P] = {.names = "top-p",
                   .kind = REAL,
                   .max = 1,
                   .value = "X",
                   .help = "choose among the most probable tokens that together have probability "
                           "X; default 0.95; 1: off"},
    [OPT_MIN_P] = {.names = "min-p",
                   .kind = REAL,
                   .max = 1,
                   .value = "X",
                   .help = "drop tokens less probable than X times the most probable one; "
                           "default 0.05; 0: off"},
    [OPT_REPEAT_PENALTY] = {.names = "repeat-penalty repetition-penalty",
                            .kind = REAL,
                            .max = 1000,
                            .value = "X",
                            .help = "make recent tokens less probable: divide their logits by X; "
                                    "default 1: off"},
    [OPT_REPEAT_LAST_N] = {.names = "repeat-last-n",
                           .kind = INTEGER,
                           .min = -1,
                           .max = INT32_MAX,
                           .value = "N",
                           .help = "how many tokens are recent; default 64; -1: all"},
    [OPT_PRESENCE_PENALTY] = {.names = "presence-penalty",
                              .kind = REAL,
                              .min = -1000,
                              .max = 1000,
                              .value = "X",
                              .help = "subtract X from the logits of recent tokens; default 0"},
    [OPT_FREQUENCY_PENALTY] = {.names = "frequency-penalty",
                               .kind = REAL,
                               .min = -1000,
                               .max = 1000,
                               .value = "X",
                               .help = "subtract X for every time a token appeared recently; "
                                       "default 0"},
    [OPT_LOGIT_BIAS] = {.letter = 'l',
                        .names = "logit-bias",
                        .kind = LIST,
                        .value = "ID+X",
                        .help = "add X to the logit of token ID; ID-X subtracts; ID-inf forbids "
                                "the token; may be repeated"},

    [OPT_INFO] = {.title = "Other jobs",
                  .names = "info",
                  .kind = JOB,
                  .help = "describe the weights file"},
    [OPT_CHECK] = {.names = "check", .kind = JOB, .help = "verify the checksum of every tensor"},
    [OPT_SELFTEST] = {.names = "selftest",
                      .kind = JOB,
                      .help = "test file, program and machine against stored results"},
    [OPT_DOCTOR] = {.names = "doctor",
                    .kind = JOB,
                    .help = "describe this machine, what it can do, and what could be better; "
                            "needs no model"},
    [OPT_TOKENIZE] = {.names = "tokenize",
                      .kind = JOB,
                      .help = "print the token ids of the prompt; -v: each with its text"},
    [OPT_PERPLEXITY] = {.names = "perplexity",
                        .kind = JOB,
                        .value = "FILE",
                        .help = "measure how well the model predicts the text in FILE"},
    [OPT_STRIDE] = {.names = "stride",
                    .kind = INTEGER,
                    .min = 1,
                    .max = INT32_MAX,
                    .value = "N",
                    .help = "tokens between the starts of two windows of --perplexity; default: "
                            "half a window"},
    [OPT_PERPLEXITY_LINES] = {.names = "perplexity-lines",
                              .kind = JOB,
                              .value = "FILE",
                              .help = "the same, each line on its own"},
    [OPT_PERPLEXITY_LLAMACPP] = {.names = "perplexity-llamacpp",
                                 .kind = JOB,
                                 .value = "FILE",
                                 .help = "the same, computed as llama.cpp does"},
    [OPT_SEAL_VALUE] = {.names = "seal-value",
                        .kind = JOB,
                        .help = "print the fingerprint that this file's seal must have"},

    [OPT_JSONL] = {.title = "Reports",
                   .names = "jsonl",
                   .kind = FLAG,
                   .help = "write a line of JSON per token instead of the text"},
    [OPT_LOGPROBS] = {.names = "logprobs",
                      .kind = INTEGER,
                      .max = 1000,
                      .value = "N",
                      .help = "show the log-probability of each token and of the N most probable "
                              "ones"},
    [OPT_FINGERPRINT] = {.names = "fingerprint",
                         .kind = OPTIONAL_CHOICE,
                         .value = "all",
                         .help = "print a hash of the logits, to compare runs bit by bit; all: "
                                 "include the prompt"},

    [OPT_CACHE_TYPE] = {.title = "Memory and speed",
                        .names = "cache-type",
                        .kind = CHOICE,
                        .value = "f16|f32|q8",
                        .help = "type of the cached keys and values; default f16"},
    [OPT_BATCH_SIZE] = {.letter = 'b',
                        .names = "batch-size",
                        .kind = INTEGER,
                        .min = 1,
                        .max = 65536,
                        .value = "N",
                        .help = "prompt tokens evaluated at once; default 512"},
    [OPT_LOAD] = {OPTION_LOAD},
    [OPT_MLOCK] = {.names = "mlock", .kind = FLAG, .help = "never swap the weights out"},
    [OPT_CPU] = {.names = "cpu",
                 .kind = CHOICE,
                 .words = tern_cpu_names,
                 .help = "instruction set; default: the best; the text is the same with all"},
    [OPT_LOOKUP] = {.names = "lookup",
                    .kind = OPTIONAL_INTEGER,
                    .min = 1,
                    .max = 31,
                    .value = "N",
                    .help = "guess up to N tokens ahead from repetitions in the text; the text "
                            "stays the same"},
    [OPT_MTP] = {.names = "mtp",
                 .kind = OPTIONAL_INTEGER,
                 .min = 1,
                 .max = 8,
                 .value = "N",
                 .help = "guess up to N tokens ahead with the layer that the model has for it (MTP); "
                         "the text stays the same; default 4"},
    [OPT_DRAFT] = {.names = "draft model-draft -md",
                   .kind = TEXT,
                   .value = "FILE",
                   .help = "guess tokens with a small model that has the same tokens; the text "
                           "stays the same"},

    [OPT_TOP_N_SIGMA] = {.title = "More ways to choose tokens (all are off by default)",
                         .names = "top-nsigma top-n-sigma",
                         .kind = REAL,
                         .min = -1,
                         .max = 1000,
                         .value = "X",
                         .help = "drop logits X standard deviations below the largest"},
    [OPT_TYPICAL] = {.names = "typical typical-p",
                     .kind = REAL,
                     .max = 1,
                     .value = "X",
                     .help = "typical sampling; 1 is off"},
    [OPT_XTC_PROBABILITY] = {.names = "xtc-probability",
                             .kind = REAL,
                             .max = 1,
                             .value = "X",
                             .help = "XTC: how often the most probable tokens are dropped"},
    [OPT_XTC_THRESHOLD] = {.names = "xtc-threshold",
                           .kind = REAL,
                           .max = 1,
                           .value = "X",
                           .help = "XTC drops tokens of at least this probability, except the "
                                   "last; default 0.1"},
    [OPT_MIROSTAT] = {.names = "mirostat",
                      .kind = CHOICE,
                      .value = "0|2",
                      .help = "2: keep the surprise of the text near a target"},
    [OPT_MIROSTAT_TAU] = {.names = "mirostat-ent mirostat-tau",
                          .kind = REAL,
                          .max = 1000,
                          .value = "X",
                          .help = "the target of Mirostat in bits; default 5"},
    [OPT_MIROSTAT_ETA] = {.names = "mirostat-lr mirostat-eta",
                          .kind = REAL,
                          .max = 1,
                          .value = "X",
                          .help = "how fast Mirostat moves to it; default 0.1"},
    [OPT_DRY_MULTIPLIER] = {.names = "dry-multiplier",
                            .kind = REAL,
                            .max = 1000,
                            .value = "X",
                            .help = "DRY: lower the logit of a token that would continue a "
                                    "repetition of L tokens by X * base^(L - allowed)"},
    [OPT_DRY_BASE] = {.names = "dry-base",
                      .kind = REAL,
                      .max = 1000,
                      .value = "X",
                      .help = "the base in DRY's formula; default 1.75"},
    [OPT_DRY_ALLOWED_LENGTH] = {.names = "dry-allowed-length",
                                .kind = INTEGER,
                                .max = INT32_MAX,
                                .value = "N",
                                .help = "repetitions of up to N tokens are allowed; default 2"},
    [OPT_DRY_LAST_N] = {.names = "dry-penalty-last-n",
                        .kind = INTEGER,
                        .min = -1,
                        .max = INT32_MAX,
                        .value = "N",
                        .help = "how many tokens DRY searches; default -1: all"},
    [OPT_DRY_BREAKER] = {.names = "dry-sequence-breaker",
                         .kind = LIST,
                         .value = "TEXT",
                         .help = "a repetition ends at TEXT; default: line feed, :, \" and *; "
                                 "none: never; may be repeated"},
    [OPT_SAMPLERS] = {.names = "samplers",
                      .kind = TEXT,
                      .value = "LIST",
                      .help = "the steps in their order, separated by ; default: penalties; dry; "
                              "top_n_sigma; top_k; typ_p; top_p; min_p; xtc; temperature"},

    [OPT_HELP_LLAMA2C] = {.title = "About tern",
                          .names = "help-llama2c",
                          .kind = JOB,
                          .help = "list llama2.c's options and their names here"},
    [OPT_VERSION] = {.names = "version",
                     .kind = JOB,
                     .help = "version, compiler, instruction sets and file format"},
};

static const struct option_table table = {
    .examples = "  run model.bin \"Once upon a time\"         continue a text\n"
                "  run model.bin --chat                     talk with a model that can chat\n"
                "  run model.bin \"Once\" -n 100 -s 7         100 tokens, every time the same\n",
    .usage = "usage: run MODEL [PROMPT] [options]\n"
             "\n"
             "Writes PROMPT and its continuation to standard output. Everything else goes to\n"
             "standard error. MODEL is a weights file; tools/convert.py makes them.\n",
    .rows = rows,
    .n = N_RUN_OPTIONS,
    .find_hint = hints_find,
    .value_hint = hints_value,
    .unknown = "--help lists all (put -- before a prompt that begins with -)",
};

#define COUNT(array) (sizeof array / sizeof *array)

/* Arguments without a dash: the model unless --model named it, then the prompt. */
static enum tern_status take_words(struct run_options *o, const struct parser *p,
                                   struct tern_error *e)
{
    const char *const *word = p->words;
    size_t i = 0, n = p->n_words;
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
        return parser_usage(
            e,
            "'%.100s' is one argument too many: there is a prompt already (put quotes around "
            "a prompt of several words)",
            word[i]);
    return TERN_OK;
}

/* Two options that contradict each other. */
static enum tern_status exclude(const struct run_options *o, enum run_option a, enum run_option b,
                                struct tern_error *e)
{
    if (o->value[a].given && o->value[b].given)
        return parser_usage(e, "--%.*s and --%.*s cannot go together", OPTION_NAME(&rows[a]),
                            OPTION_NAME(&rows[b]));
    return TERN_OK;
}

/* False of N_RUN_OPTIONS, too. */
static bool needs_model(enum run_option job)
{
    return job != N_RUN_OPTIONS && job != OPT_HELP && job != OPT_HELP_LLAMA2C &&
           job != OPT_VERSION && job != OPT_DOCTOR;
}

static enum tern_status check_whole(const struct run_options *o, struct tern_error *e)
{
    static const enum run_option pairs[][2] = {
        {OPT_PROMPT, OPT_FILE},       {OPT_PROMPT, OPT_PROMPT_IDS},
        {OPT_FILE, OPT_PROMPT_IDS},   {OPT_CHAT, OPT_PROMPT_IDS},
        {OPT_SYSTEM, OPT_PROMPT_IDS}, {OPT_SYSTEM_FILE, OPT_PROMPT_IDS},
        {OPT_THINK, OPT_PROMPT_IDS},  {OPT_TEMPLATE, OPT_PROMPT_IDS},
        {OPT_GREEDY, OPT_TEMP},       {OPT_SYSTEM, OPT_SYSTEM_FILE},
        {OPT_VERBOSE, OPT_QUIET}};
    static const enum run_option of_a_text[] = {
        OPT_CHAT,   OPT_SYSTEM, OPT_SYSTEM_FILE,   OPT_THINK, OPT_SESSION,
        OPT_LOOKUP, OPT_MTP,    OPT_DRAFT,         OPT_CONTEXT_SHIFT, OPT_JSONL,
        OPT_LOGPROBS};
    for (size_t i = 0; i < COUNT(pairs); i++)
        if (exclude(o, pairs[i][0], pairs[i][1], e))
            return TERN_USAGE;
    if (o->value[OPT_STRIDE].given && o->job != OPT_PERPLEXITY)
        return parser_usage(e, "--stride belongs to --perplexity");
    if (o->value[OPT_SESSION_NEW].given && !o->value[OPT_SESSION].given)
        return parser_usage(e, "--session-new belongs to --session");
    if (o->value[OPT_KEEP].given && !o->value[OPT_CONTEXT_SHIFT].given)
        return parser_usage(e, "--keep belongs to --context-shift");
    for (size_t i = 0; i < COUNT(of_a_text) && needs_model(o->job); i++)
        if (exclude(o, of_a_text[i], o->job, e))
            return TERN_USAGE;
    if (run_options_have_prompt(o) && needs_model(o->job) && o->job != OPT_TOKENIZE)
        return parser_usage(e, "--%.*s takes no prompt", OPTION_NAME(&rows[o->job]));
    return TERN_OK;
}

/* ID+X or ID-X. */
static bool read_bias(const char *text, struct tern_bias *b)
{
    uint64_t token;
    double value = HUGE_VAL;
    size_t n = strcspn(text, "+-");
    const char *x = text + n + 1;
    if (!number_u64(text, n, &token) || token > INT32_MAX || !text[n])
        return false;
    if (strcmp(x, "inf") && (*x == '-' || !number_real(x, &value) || value > FLT_MAX))
        return false;
    *b = (struct tern_bias){(tern_token)token, (float)(text[n] == '-' ? -value : value)};
    return true;
}

/* Options that may be given several times, in their order. */
static enum tern_status take_lists(struct run_options *o, const struct parser *p,
                                   struct tern_error *e)
{
    o->stop = calloc(2 * p->n_texts + 2, sizeof *o->stop);
    o->bias = calloc(p->n_texts + 1, sizeof *o->bias);
    if (!o->stop || !o->bias)
        return parser_no_memory(e);
    o->breakers = o->stop + p->n_texts + 1;
    for (size_t i = 0; i < p->n_texts; i++) {
        const char *text = p->texts[i].text;
        if (p->texts[i].option == OPT_LOGIT_BIAS && !read_bias(text, &o->bias[o->n_bias++]))
            return parser_usage(
                e, "--logit-bias: '%.100s' is not like 42+1.5, 42-1, 42-inf or 42+inf", text);
        if (p->texts[i].option == OPT_DRY_BREAKER && strcmp(text, "none"))
            o->breakers[o->n_breakers++] = text;
        if (p->texts[i].option == OPT_STOP && !*text)
            return parser_usage(e, "--stop: the text to stop at is empty");
        if (p->texts[i].option == OPT_STOP)
            o->stop[o->n_stop++] = text;
    }
    const char *order = o->value[OPT_SAMPLERS].text;
    return order ? tern_sampler_order(&o->order, order, e) : TERN_OK;
}

bool run_options_have_prompt(const struct run_options *o)
{
    return o->value[OPT_PROMPT].given || o->value[OPT_FILE].given || o->value[OPT_PROMPT_IDS].given;
}

enum tern_status run_options_open(struct run_options *o, int argc, char **argv,
                                  struct tern_error *e)
{
    struct parser p;
    memset(o, 0, sizeof *o);
    enum tern_status s = parser_open(&p, &table, o->value, argc, argv, e);
    o->job = (enum run_option)p.job;
    if (!s)
        s = take_lists(o, &p, e);
    if (!s)
        s = take_words(o, &p, e);
    if (!s)
        s = check_whole(o, e);
    parser_close(&p);
    return s;
}

void run_options_close(struct run_options *o)
{
    free(o->stop);
    free(o->bias);
    o->stop = NULL, o->bias = NULL;
}

/* What /set of a chat may change. */
static bool is_settable(int id)
{
    static const enum run_option list[] = {OPT_N_PREDICT,
                                           OPT_IGNORE_EOS,
                                           OPT_SYSTEM,
                                           OPT_THINK,
                                           OPT_CONTEXT_SHIFT,
                                           OPT_KEEP,
                                           OPT_LOOKUP,
                                           OPT_VERBOSE,
                                           OPT_SEED,
                                           OPT_TEMP,
                                           OPT_GREEDY,
                                           OPT_TOP_K,
                                           OPT_TOP_P,
                                           OPT_MIN_P,
                                           OPT_TYPICAL,
                                           OPT_TOP_N_SIGMA,
                                           OPT_REPEAT_PENALTY,
                                           OPT_REPEAT_LAST_N,
                                           OPT_PRESENCE_PENALTY,
                                           OPT_FREQUENCY_PENALTY,
                                           OPT_XTC_PROBABILITY,
                                           OPT_XTC_THRESHOLD,
                                           OPT_MIROSTAT,
                                           OPT_MIROSTAT_TAU,
                                           OPT_MIROSTAT_ETA,
                                           OPT_DRY_MULTIPLIER,
                                           OPT_DRY_BASE,
                                           OPT_DRY_ALLOWED_LENGTH,
                                           OPT_DRY_LAST_N};
    size_t i = 0;
    while (i < COUNT(list) && list[i] != (enum run_option)id)
        i++;
    return i < COUNT(list);
}

enum tern_status run_options_set(struct run_options *o, char *word, enum run_option *changed,
                                 struct tern_error *e)
{
    struct option_value value[N_RUN_OPTIONS] = {{0}};
    struct option_table here = table;
    char *argv[] = {word, word};
    struct parser p;
    int id = 0;
    here.unknown = "/help names the common ones";
    enum tern_status s = parser_open(&p, &here, value, 2, argv, e);
    parser_close(&p);
    if (s)
        return s;
    while (id < N_RUN_OPTIONS && !value[id].given)
        id++;
    if (!is_settable(id))
        return parser_usage(e, "%.100s cannot be changed here", word);
    if (rows[id].kind == FLAG)
        value[id].given = !o->value[id].given;
    if (id == OPT_TEMP)
        o->value[OPT_GREEDY].given = false;
    o->value[id] = value[id];
    *changed = (enum run_option)id;
    return TERN_OK;
}

void run_options_help(void)
{
    parser_help(&table);
    out_print("\nExit codes: 0 success, 2 wrong usage, 3 invalid weights file, 4 cannot read or\n"
              "write, 5 out of memory, 6 a limit was reached or a value is not finite,\n"
              "130 Ctrl-C, 143 terminated, 1 a bug in tern. man tern says more.\n");
}
