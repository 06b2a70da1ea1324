/* Options of `run`: see run_options.h; parser.c knows how a command line is written. */
#include "app/run/run_options.h"

#include "app/run/hints.h"
#include "app/cli/number.h"
#include "app/cli/out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row rows[N_RUN_OPTIONS] = {
    [OPT_MODEL] = OPTION('m', TEXT, 0, 0, "model", "FILE",
                         "Text\n"
                         "the weights file; default: the first argument"),
    [OPT_PROMPT] = OPTION('p', TEXT, 0, 0, "prompt", "TEXT",
                          "the text to continue; default: the second argument; - as second "
                          "argument reads standard input"),
    [OPT_FILE] = OPTION('f', TEXT, 0, 0, "file", "FILE",
                        "read the prompt from FILE, every byte of it; -: standard input"),
    [OPT_N_PREDICT] =
        OPTION('n', INTEGER, -1, 2147483647, "n-predict predict max-new-tokens", "N",
               "stop after N new tokens; default -1: at an end token or a full context"),
    [OPT_STOP] = OPTION('r', LIST, 0, 0, "stop reverse-prompt", "TEXT",
                        "stop before TEXT would be written; may be given several times"),
    [OPT_IGNORE_EOS] = OPTION(0, FLAG, 0, 0, "ignore-eos", "", "do not stop at an end token"),
    [OPT_PARSE_SPECIAL] = OPTION(0, FLAG, 0, 0, "parse-special", "",
                                 "special tokens written in the prompt become tokens, not text"),
    [OPT_NO_ECHO] =
        OPTION(0, FLAG, 0, 0, "no-echo", "", "write the continuation alone, without the prompt"),
    [OPT_CHAT] = OPTION(0, FLAG, 0, 0, "chat conversation -cnv", "",
                        "Chat (also without a prompt on a terminal, if the file has a template)\n"
                        "answer messages; of a prompt or a pipe: one; /? lists commands"),
    [OPT_SYSTEM] = OPTION(0, TEXT, 0, 0, "system system-prompt -sys", "TEXT",
                          "the system text, with which the conversation begins"),
    [OPT_SYSTEM_FILE] = OPTION(0, TEXT, 0, 0, "system-file system-prompt-file", "FILE",
                               "read the system text from FILE"),
    [OPT_THINK] = OPTION(0, CHOICE, 0, 0, "think", "on|off",
                         "let the model think before it answers; default: the template's"),
    [OPT_TEMPLATE] =
        OPTION(0, TEXT, 0, 0, "template chat-template", "NAME",
               "chat by a built-in template (chatml, llama3, ...), not by the file's own"),
    [OPT_SEED] = OPTION('s', SEED, 0, 0, "seed", "N",
                        "Choice of tokens (defaults: the model's own, else as stated)\n"
                        "random numbers; default: another seed each time, printed"),
    [OPT_TEMP] = OPTION(0, REAL, 0, 1000, "temp temperature", "X",
                        "temperature, 0 to 1000; default 0.8; 0: always the most probable token"),
    [OPT_TOP_K] = OPTION(0, INTEGER, 0, 2147483647, "top-k", "N",
                         "choose among the N most probable tokens; default 40; 0: off"),
    [OPT_TOP_P] =
        OPTION(0, REAL, 0, 1, "top-p", "X",
               "choose among the tokens that make up X of the probability; default 0.95; 1: off"),
    [OPT_MIN_P] =
        OPTION(0, REAL, 0, 1, "min-p", "X",
               "leave out tokens below X times the largest probability; default 0.05; 0: off"),
    [OPT_REPEAT_PENALTY] = OPTION(0, REAL, 0, 1000, "repeat-penalty repetition-penalty", "X",
                                  "divide the logits of recent tokens by X; default 1; 0, 1: off"),
    [OPT_REPEAT_LAST_N] = OPTION(0, INTEGER, -1, 2147483647, "repeat-last-n", "N",
                                 "tokens that count as recent; default 64; -1: all"),
    [OPT_PRESENCE_PENALTY] = OPTION(0, REAL, -1000, 1000, "presence-penalty", "X",
                                    "subtract X from the logits of recent tokens"),
    [OPT_FREQUENCY_PENALTY] = OPTION(0, REAL, -1000, 1000, "frequency-penalty", "X",
                                     "the same for each time that a token is recent"),
    [OPT_DRY_MULTIPLIER] = OPTION(0, REAL, 0, 1000, "dry-multiplier", "X",
                                  "DRY: a token that makes a repetition of L tokens longer loses X "
                                  "* base^(L - allowed); default 0: off"),
    [OPT_DRY_BASE] = OPTION(0, REAL, 0, 1000, "dry-base", "X", "default 1.75"),
    [OPT_DRY_ALLOWED_LENGTH] =
        OPTION(0, INTEGER, 0, 2147483647, "dry-allowed-length", "N", "default 2"),
    [OPT_DRY_LAST_N] = OPTION(0, INTEGER, -1, 2147483647, "dry-penalty-last-n", "N",
                              "tokens in which DRY looks; default -1: all"),
    [OPT_DRY_BREAKER] = OPTION(0, LIST, 0, 0, "dry-sequence-breaker", "TEXT",
                               "repetitions end at TEXT; default: line feed, :, \" and *; none: "
                               "nowhere; may be given several times"),
    [OPT_TOP_N_SIGMA] = OPTION(0, REAL, -1, 1000, "top-nsigma top-n-sigma", "X",
                               "leave out logits X standard deviations below the largest; 0: off"),
    [OPT_TYPICAL] = OPTION(
        0, REAL, 0, 1, "typical typical-p", "X",
        "choose among the tokens of most usual surprise that make up X of the probability; 1: off"),
    [OPT_XTC_PROBABILITY] = OPTION(0, REAL, 0, 1, "xtc-probability", "X",
                                   "XTC: leave out the most probable tokens, with probability X"),
    [OPT_XTC_THRESHOLD] =
        OPTION(0, REAL, 0, 1, "xtc-threshold", "X", "all of at least X but the last; default 0.1"),
    [OPT_MIROSTAT] =
        OPTION(0, CHOICE, 0, 0, "mirostat", "0|2", "hold the surprise of tokens near a target"),
    [OPT_MIROSTAT_TAU] =
        OPTION(0, REAL, 0, 1000, "mirostat-ent mirostat-tau", "X", "the target in bits; default 5"),
    [OPT_MIROSTAT_ETA] = OPTION(0, REAL, 0, 1, "mirostat-lr mirostat-eta", "X",
                                "how fast it is approached; default 0.1"),
    [OPT_LOGIT_BIAS] = OPTION('l', LIST, 0, 0, "logit-bias", "ID+X",
                              "add X, -X, -inf to a logit; may be given several times"),
    [OPT_SAMPLERS] = OPTION(0, TEXT, 0, 0, "samplers", "LIST",
                            "the steps, in order, between ; of penalties, dry, top_n_sigma, top_k, "
                            "typ_p, top_p, min_p, xtc, temperature; default: all, so"),
    [OPT_GREEDY] = OPTION(0, FLAG, 0, 0, "greedy", "", "the same as --temp 0"),
    [OPT_CTX_SIZE] = OPTION('c', INTEGER, 1, 16777216, "ctx-size", "N",
                            "Memory and machine\n"
                            "positions; default: the model's, or what half of the memory holds"),
    [OPT_CACHE_TYPE] = OPTION(0, CHOICE, 0, 0, "cache-type", "f16|f32|q8",
                              "type of the cached keys and values; default f16"),
    [OPT_SESSION] = OPTION(0, TEXT, 0, 0, "session prompt-cache", "FILE",
                           "go on from what FILE holds of the prompt, and save the text to it at "
                           "the end; without a prompt: go on with its text"),
    [OPT_CONTEXT_SHIFT] = OPTION(0, FLAG, 0, 0, "context-shift", "",
                                 "when the context is full, go on with its first tokens and the "
                                 "newest half of the others; default: stop"),
    [OPT_KEEP] = OPTION(0, INTEGER, -1, 16777216, "keep", "N",
                        "first tokens that --context-shift keeps; default 4; -1: the prompt"),
    [OPT_BATCH_SIZE] = OPTION('b', INTEGER, 1, 65536, "batch-size", "N",
                              "tokens of the prompt evaluated at once; default 512"),
    [OPT_THREADS] = OPTION('t', INTEGER, 1, 1024, "threads", "N",
                           "default: what processors, affinity and quota allow"),
    [OPT_CPU] = OPTION(0, CHOICE, 0, 0, "cpu", "plain|ref|avx2|avx512|neon",
                       "instruction set; default: the best; every one gives the same bits"),
    [OPT_LOAD] = OPTION(
        0, CHOICE, 0, 0, "load", "map|copy",
        "map the weights file and run in place, or copy it into memory on huge pages; default map"),
    [OPT_MLOCK] = OPTION(0, FLAG, 0, 0, "mlock", "",
                         "keep the weights in memory, so that the system cannot drop or swap them"),
    [OPT_LOOKUP] = OPTION(0, OPTIONAL_INTEGER, 1, 31, "lookup", "N",
                          "Speed by guessing (never changes the text; only done while it pays)\n"
                          "guess tokens, at most N at a time, from repetitions in prompt and text"),
    [OPT_DRAFT] =
        OPTION(0, TEXT, 0, 0, "draft model-draft -md", "FILE",
               "guess tokens with the small model in FILE, which must have the same tokens"),
    [OPT_LOGPROBS] = OPTION(
        0, INTEGER, 0, 1000, "logprobs", "N",
        "Reports\n"
        "print the log-probability of each token, and the N largest, of the model's own logits"),
    [OPT_JSONL] = OPTION(0, FLAG, 0, 0, "jsonl", "",
                         "instead of the text, a line of JSON for each token and for the whole"),
    [OPT_FINGERPRINT] = OPTION(0, OPTIONAL_CHOICE, 0, 0, "fingerprint", "all",
                               "print the hash of the logits of every row from which a token was "
                               "or could be chosen; all: of the prompt's rows too"),
    [OPT_VERBOSE] =
        OPTION('v', FLAG, 0, 0, "verbose", "", "memory plan, machine and full statistics"),
    [OPT_QUIET] = OPTION('q', FLAG, 0, 0, "quiet silent", "", "nothing but errors"),
    [OPT_PERPLEXITY] = OPTION(0, JOB, 0, JOB_VALUE, "perplexity", "FILE",
                              "Instead of a text\n"
                              "perplexity of a text, by overlapping windows of --ctx-size"),
    [OPT_PERPLEXITY_LINES] = OPTION(0, JOB, 0, JOB_VALUE, "perplexity-lines", "FILE",
                                    "the same, every line that is not empty for itself"),
    [OPT_PERPLEXITY_LLAMACPP] = OPTION(0, JOB, 0, JOB_VALUE, "perplexity-llamacpp", "FILE",
                                       "the same by the procedure of llama.cpp's program"),
    [OPT_STRIDE] = OPTION(0, INTEGER, 1, 2147483647, "stride", "N",
                          "tokens from window to window of --perplexity; default: half a window"),
    [OPT_VERIFY] = OPTION(
        0, JOB, 0, JOB_VALUE, "verify", "FILE",
        "compare every step with probes of the original model, and name the first that differs"),
    [OPT_VERIFY_BOUND] = OPTION(0, REAL, 0, 1e9, "verify-bound", "X",
                                "of the largest value in a row; default: 1e-4 for f32 weights"),
    [OPT_TOKENIZE] =
        OPTION(0, JOB, 0, 0, "tokenize", "", "print the token ids of the prompt, without BOS"),
    [OPT_INFO] = OPTION(0, JOB, 0, 0, "info", "", "describe the weights file"),
    [OPT_CHECK] = OPTION(0, JOB, 0, 0, "check", "", "verify the checksum of every tensor"),
    [OPT_SELFTEST] = OPTION(0, JOB, 0, 0, "selftest", "",
                            "prove file, program and machine: kernels, tokenizer, logits, seal"),
    [OPT_SEAL_VALUE] = OPTION(0, JOB, 0, 0, "seal-value", "",
                              "print the fingerprint that a seal of this file stores"),
    [OPT_HELP] = OPTION('h', JOB, 0, 0, "help", "", "this text"),
    [OPT_HELP_LLAMA2C] =
        OPTION(0, JOB, 0, 0, "help-llama2c", "", "what llama2.c's options are called here"),
    [OPT_VERSION] = OPTION(0, JOB, 0, 0, "version", "",
                           "version, compiler, instruction sets, arithmetic, file format"),
};

static const struct option_table table = {
    .rows = rows,
    .n = N_RUN_OPTIONS,
    .find_hint = hints_find,
    .value_hint = hints_value,
    .unknown = " (a prompt that begins with - can be given after --)",
};

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
            "'%.100s' is one argument too many: there is a prompt already (a prompt of "
            "several words needs quotes)",
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

static enum tern_status check_whole(const struct run_options *o, struct tern_error *e)
{
    static const enum run_option pairs[][2] = {{OPT_PROMPT, OPT_FILE},
                                               {OPT_GREEDY, OPT_TEMP},
                                               {OPT_SYSTEM, OPT_SYSTEM_FILE},
                                               {OPT_VERBOSE, OPT_QUIET}};
    static const unsigned char of_a_text[] = {
        OPT_CHAT,   OPT_SYSTEM, OPT_SYSTEM_FILE,   OPT_THINK, OPT_SESSION,
        OPT_LOOKUP, OPT_DRAFT,  OPT_CONTEXT_SHIFT, OPT_JSONL, OPT_LOGPROBS};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (exclude(o, pairs[i][0], pairs[i][1], e))
            return TERN_USAGE;
    if (o->value[OPT_STRIDE].given && o->job != OPT_PERPLEXITY)
        return parser_usage(e, "--stride belongs to --perplexity");
    if (o->value[OPT_VERIFY_BOUND].given && o->job != OPT_VERIFY)
        return parser_usage(e, "--verify-bound belongs to --verify");
    if (o->value[OPT_KEEP].given && !o->value[OPT_CONTEXT_SHIFT].given)
        return parser_usage(e, "--keep belongs to --context-shift");
    for (size_t i = 0; i < sizeof of_a_text && o->job < OPT_HELP; i++)
        if (exclude(o, of_a_text[i], o->job, e))
            return TERN_USAGE;
    bool prompt = o->value[OPT_PROMPT].given || o->value[OPT_FILE].given;
    if (prompt && o->job != N_RUN_OPTIONS && o->job != OPT_TOKENIZE && o->job < OPT_HELP)
        return parser_usage(e, "--%.*s takes no prompt", OPTION_NAME(&rows[o->job]));
    return TERN_OK;
}

/* ID+X or ID-X. */
static bool read_bias(const char *text, struct tern_bias *b)
{
    char id[12];
    int64_t token;
    double value;
    size_t n = strspn(text, "0123456789");
    if (n >= sizeof id || (text[n] != '+' && text[n] != '-'))
        return false;
    memcpy(id, text, n);
    id[n] = 0;
    if (!number_i64(id, &token) || token > INT32_MAX)
        return false;
    if (!strcmp(text + n + 1, "inf"))
        value = HUGE_VAL;
    else if (text[n + 1] == '-' || !number_real(text + n + 1, &value))
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
            return parser_usage(e, "--logit-bias: '%.100s' is not like 42+1.5, 42-1 or 42-inf",
                                text);
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

static bool is_settable(int id)
{
    static const unsigned char more[] = {OPT_N_PREDICT, OPT_IGNORE_EOS,    OPT_SYSTEM,
                                         OPT_THINK,     OPT_CONTEXT_SHIFT, OPT_KEEP,
                                         OPT_LOOKUP,    OPT_VERBOSE};
    static const unsigned char less[] = {OPT_LOGIT_BIAS, OPT_DRY_BREAKER, OPT_SAMPLERS};
    if (id >= OPT_SEED && id <= OPT_GREEDY)
        return !memchr(less, id, sizeof less);
    return memchr(more, id, sizeof more) != NULL;
}

enum tern_status run_options_set(struct run_options *o, char *word, struct tern_error *e)
{
    struct option_value value[N_RUN_OPTIONS] = {{0}};
    char *argv[] = {word, word};
    struct parser p;
    int id = 0;
    enum tern_status s = parser_open(&p, &table, value, 2, argv, e);
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
    return TERN_OK;
}

void run_options_help(void)
{
    out_print("usage: run MODEL [PROMPT] [options]\n"
              "\n"
              "Writes PROMPT and its continuation by the language model in the weights file\n"
              "MODEL to standard output; all else goes to standard error. Without a prompt\n"
              "the model begins a text of its own. tools/convert.py makes weights files.\n");
    parser_help(&table);
    out_print("\nrun ends with 0 if all is well, 2 wrong usage, 3 invalid weights file, 4 cannot\n"
              "read or write, 5 out of memory, 6 limit reached or value not finite, 130 Ctrl-C,\n"
              "143 terminated, 1 a bug in tern.\n");
}
