/* The options of `run`: see run_options.h. parser.c reads the command line. */
#include "app/run/run_options.h"

#include "app/run/hints.h"
#include "app/run/option_rows.h"
#include "app/cli/number.h"
#include "app/cli/out.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct option_table table = {
    .examples = "  run model.bin \"Once upon a time\"         continue a text\n"
                "  run model.bin --chat                     talk with a model that can chat\n"
                "  run model.bin \"Once\" -n 100 -s 7         100 tokens, every time the same\n",
    .usage = "usage: run MODEL [PROMPT] [options]\n"
             "\n"
             "Writes PROMPT and its continuation to standard output. Everything else goes to\n"
             "standard error. MODEL is a weights file; tools/convert.py makes them.\n",
    .rows = option_rows,
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
        return parser_usage(e, "--%.*s and --%.*s cannot go together", OPTION_NAME(&option_rows[a]),
                            OPTION_NAME(&option_rows[b]));
    return TERN_OK;
}

/* False of N_RUN_OPTIONS, too. */
static bool needs_model(enum run_option job)
{
    return job != N_RUN_OPTIONS && job != OPT_HELP && job != OPT_HELP_LLAMA2C &&
           job != OPT_VERSION && job != OPT_DOCTOR;
}

/* What the text must be: one thing, and what belongs to it. */
static enum tern_status check_constraint(const struct run_options *o, struct tern_error *e)
{
    static const enum run_option kinds[] = {OPT_JSON,  OPT_JSON_SCHEMA, OPT_JSON_SCHEMA_FILE,
                                            OPT_TOOLS, OPT_REGEX,       OPT_GRAMMAR,
                                            OPT_CHOICE};
    static const enum run_option others[] = {OPT_NO_FORCE, OPT_CONSTRAINT_BUDGET, OPT_COMPACT,
                                             OPT_FORMAT, OPT_JSON_SCHEMA_LAX};
    enum run_option kind = N_RUN_OPTIONS;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (!o->value[kinds[i]].given)
            continue;
        if (kind != N_RUN_OPTIONS)
            return exclude(o, kind, kinds[i], e);
        kind = kinds[i];
    }
    for (size_t i = 0; i < COUNT(others); i++)
        if (o->value[others[i]].given && (kind == N_RUN_OPTIONS || (i > 1 && kind >= OPT_REGEX)))
            return parser_usage(e, "--%.*s belongs to --json%s or --json-schema",
                                OPTION_NAME(&option_rows[others[i]]),
                                i > 1 ? "" : ", --regex, --grammar, --choice");
    if (kind != N_RUN_OPTIONS && needs_model(o->job))
        return exclude(o, kind, o->job, e);
    return kind == N_RUN_OPTIONS ? TERN_OK : exclude(o, kind, OPT_IGNORE_EOS, e);
}

static enum tern_status check_whole(const struct run_options *o, struct tern_error *e)
{
    static const enum run_option pairs[][2] = {
        {OPT_PROMPT, OPT_FILE},       {OPT_PROMPT, OPT_PROMPT_IDS},
        {OPT_FILE, OPT_PROMPT_IDS},   {OPT_CHAT, OPT_PROMPT_IDS},
        {OPT_SYSTEM, OPT_PROMPT_IDS}, {OPT_SYSTEM_FILE, OPT_PROMPT_IDS},
        {OPT_THINK, OPT_PROMPT_IDS},  {OPT_TEMPLATE, OPT_PROMPT_IDS},
        {OPT_TOOLS, OPT_PROMPT_IDS},  {OPT_TOOLS, OPT_STOP},
        {OPT_GREEDY, OPT_TEMP},       {OPT_SYSTEM, OPT_SYSTEM_FILE},
        {OPT_VERBOSE, OPT_QUIET},     {OPT_DOCTOR, OPT_CPU}};
    static const enum run_option of_a_text[] = {
        OPT_CHAT, OPT_SYSTEM, OPT_SYSTEM_FILE,   OPT_THINK, OPT_SESSION,  OPT_LOOKUP,
        OPT_MTP,  OPT_DRAFT,  OPT_CONTEXT_SHIFT, OPT_JSONL, OPT_LOGPROBS, OPT_RECEIPT};
    for (size_t i = 0; i < COUNT(pairs); i++)
        if (exclude(o, pairs[i][0], pairs[i][1], e))
            return TERN_USAGE;
    if (o->value[OPT_STRIDE].given && o->job != OPT_PERPLEXITY)
        return parser_usage(e, "--stride belongs to --perplexity");
    if (o->value[OPT_SESSION_NEW].given && !o->value[OPT_SESSION].given)
        return parser_usage(e, "--session-new belongs to --session");
    if (o->value[OPT_KEEP].given && !o->value[OPT_CONTEXT_SHIFT].given)
        return parser_usage(e, "--keep belongs to --context-shift");
    if (!o->value[OPT_TOOLS].given &&
        (o->value[OPT_TOOL_CHOICE].given || o->value[OPT_PARALLEL_TOOLS].given))
        return parser_usage(
            e, "--%.*s belongs to --tools",
            OPTION_NAME(&option_rows[o->value[OPT_TOOL_CHOICE].given ? OPT_TOOL_CHOICE
                                                                     : OPT_PARALLEL_TOOLS]));
    for (size_t i = 0; i < COUNT(of_a_text) && needs_model(o->job); i++)
        if (exclude(o, of_a_text[i], o->job, e))
            return TERN_USAGE;
    if (run_options_have_prompt(o) && needs_model(o->job) && o->job != OPT_TOKENIZE)
        return parser_usage(e, "--%.*s takes no prompt", OPTION_NAME(&option_rows[o->job]));
    return check_constraint(o, e);
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
    if (option_rows[id].kind == FLAG)
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
    out_print("\nExit codes: 0 success, 2 wrong usage, 3 invalid weights file or receipt, 4\n"
              "cannot read or write, 5 out of memory, 6 a limit was reached or a value is not\n"
              "finite, 130 Ctrl-C, 143 terminated, 1 a bug in tern. man tern says more.\n");
}
