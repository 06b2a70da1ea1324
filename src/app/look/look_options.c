/* The options of `look`: see look_options.h. parser.c reads the command line. */
#include "app/look/look_options.h"

#include <stdint.h>

static const struct option_row rows[N_LOOK_OPTIONS] = {
    [LOOK_MODEL] = {.title = "What to look at", OPTION_MODEL},
    [LOOK_PROMPT] = {.letter = 'p',
                     .names = "prompt",
                     .kind = TEXT,
                     .value = "TEXT",
                     .help = "the text; default: the second argument, or what a pipe or file on "
                             "standard input holds"},
    [LOOK_FILE] = {.letter = 'f',
                   .names = "file",
                   .kind = TEXT,
                   .value = "FILE",
                   .help = "read the text from FILE; - is standard input"},
    [LOOK_CHAT] = {.names = "chat",
                   .kind = FLAG,
                   .help =
                       "the text is a question, written as the model's chat template writes it"},
    [LOOK_TEMPLATE] = {.names = "template chat-template",
                       .kind = TEXT,
                       .value = "NAME",
                       .help = "with --chat: this built-in template, not the model's"},
    [LOOK_PROMPT_IDS] = {.names = "prompt-ids",
                         .kind = TEXT,
                         .value = "IDS",
                         .help = "the text as token ids, as in 1,15,27"},
    [LOOK_N_PREDICT] = {.letter = 'n',
                        .names = "n-predict predict max-new-tokens",
                        .kind = INTEGER,
                        .max = INT32_MAX,
                        .value = "N",
                        .help = "let the model continue with N tokens, and look at them, too"},
    [LOOK_OUTPUT] = {.title = "What to show",
                     .letter = 'o',
                     .names = "output",
                     .kind = TEXT,
                     .value = "FILE",
                     .help = "write a page (.html) or a picture (.svg); default: the terminal"},
    [LOOK_HEAD] = {.names = "head",
                   .kind = TEXT,
                   .value = "L.H",
                   .help = "one head: layer and head, counted from 0, as in 5.3"},
    [LOOK_LAYERS] = {.names = "layers",
                     .kind = TEXT,
                     .value = "LIST",
                     .help = "these layers only, as in 0,3-5"},
    [LOOK_STAGE] = {.names = "stage",
                    .kind = CHOICE,
                    .value = "raw|scaled|masked|weights|unmasked",
                    .help = "what of attention: scores q.k, times the scale (and capped), after "
                            "the mask, after softmax (the default), softmax without the mask"},
    [LOOK_SURPRISE] = {.names = "surprise",
                       .kind = JOB,
                       .value = "FILE",
                       .help = "how much each token of the text in FILE surprises the model, and "
                               "what it expected"},
    [LOOK_TIMELINE] = {.names = "timeline",
                       .kind = JOB,
                       .value = "FILE",
                       .help = "which thread did what when: a trace (FILE.json, for Perfetto and "
                               "chrome://tracing) or a page (FILE.html)"},
    [LOOK_LENS] = {.names = "lens",
                   .kind = JOB,
                   .help = "what each layer would say next, if no layer followed"},
    [LOOK_WHY] = {.names = "why",
                  .kind = JOB,
                  .value = "TOKEN",
                  .help = "what each head and feed-forward adds to the logit of TOKEN coming "
                          "next: its text, or id:N; '' is the most probable one; after another "
                          "position with --positions N"},
    [LOOK_COMPARE] = {.names = "compare",
                      .kind = JOB,
                      .value = "FILE",
                      .help = "run the text through a second file of the same model, too, and say "
                              "where they differ"},
    [LOOK_BOUND] = {.names = "bound",
                    .kind = REAL,
                    .max = 1000,
                    .value = "X",
                    .help = "with --compare: differences up to X of a row's largest value are "
                            "accepted; default 0.5"},
    [LOOK_TOUR] = {.names = "tour",
                   .kind = JOB,
                   .help = "write a page (-o tour.html) that follows a token through one layer, "
                           "number by number; default text: The cat sat"},
    [LOOK_ABLATE] = {.title = "What to change",
                     .names = "ablate",
                     .kind = TEXT,
                     .value = "LIST",
                     .help = "switch off heads, attention, feed-forward or experts, as in "
                             "5.3,5.attn,7.ffn,8.expert.17; each: rank all heads by the loss that "
                             "this causes on the text"},
    [LOOK_MEAN_OVER] = {.names = "mean-over",
                        .kind = TEXT,
                        .value = "FILE",
                        .help =
                            "with --ablate: the mean over the text in FILE instead of zero; for an "
                            "expert over the tokens that it gets"},
    [LOOK_PATCH] = {.names = "patch",
                    .kind = TEXT,
                    .value = "LIST",
                    .help = "take these values from the run over --from, named as in --hooks, at "
                            "these positions: 3.hook_resid_post@4,2.attn.hook_z@2:5"},
    [LOOK_FROM] = {.names = "from",
                   .kind = TEXT,
                   .value = "TEXT",
                   .help = "with --patch: the second text, of as many tokens as the first"},
    [LOOK_STEER] = {.names = "steer",
                    .kind = TEXT,
                    .value = "FILE",
                    .help = "add the directions in FILE, a control vector of llama.cpp (.gguf)"},
    [LOOK_STEER_FROM] = {.names = "steer-from",
                         .kind = TEXT,
                         .value = "TEXT",
                         .help = "add a direction that leads from this text"},
    [LOOK_STEER_TO] = {.names = "steer-to",
                       .kind = TEXT,
                       .value = "TEXT",
                       .help = "to this one; -o FILE.gguf saves it"},
    [LOOK_STEER_LAYER] = {.names = "steer-layer",
                          .kind = TEXT,
                          .value = "LIST",
                          .help = "add it after these layers, as in 0,3-5, or embed for the "
                                  "embedding; default: a layer in the middle, or where FILE says"},
    [LOOK_STEER_BY] = {.names = "steer-by",
                       .kind = REAL,
                       .min = -1000000,
                       .max = 1000000,
                       .value = "X",
                       .help = "add it X times; default 1"},
    [LOOK_CAPTURE] = {.title = "For other tools",
                      .names = "capture",
                      .kind = JOB,
                      .value = "FILE",
                      .help = "write what happens inside as arrays, named as in TransformerLens, "
                              "to FILE.npz or FILE.safetensors"},
    [LOOK_HOOKS] = {.names = "hooks",
                    .kind = TEXT,
                    .value = "LIST",
                    .help = "these arrays only, as in *hook_resid_post,blocks.2.attn.*"},
    [LOOK_POSITIONS] = {.names = "positions",
                        .kind = TEXT,
                        .value = "A-B",
                        .help = "these positions only; those of -n follow the text's"},
    [LOOK_LINES] = {.names = "lines",
                    .kind = TEXT,
                    .value = "FILE",
                    .help = "each line of FILE is a text of its own: one array has the rows of "
                            "all; a capture that was stopped goes on"},
    [LOOK_ATTN] = {.title = "How to run the model",
                   .names = "attn",
                   .kind = TEXT,
                   .value = "NAME",
                   .help = "another attention in every layer: naive, online, blocked, split, "
                           "latent, sinks, window=N, bidirectional, linear or delta"},
    [LOOK_TEMP] = {.names = "temp temperature",
                   .kind = REAL,
                   .max = 1000,
                   .value = "X",
                   .help = "how freely -n chooses; default 0: always the most probable token"},
    [LOOK_SEED] = {.letter = 's',
                   .names = "seed",
                   .kind = SEED,
                   .value = "N",
                   .help = "with --temp: the same seed gives the same text; default 0"},
    [LOOK_CTX_SIZE] = {.letter = 'c',
                       .names = "ctx-size",
                       .kind = INTEGER,
                       .min = 1,
                       .max = INT32_MAX,
                       .value = "N",
                       .help = "positions of the context; default: as many as the text needs"},
    [LOOK_BATCH_SIZE] = {.letter = 'b',
                         .names = "batch-size ubatch-size",
                         .kind = INTEGER,
                         .min = 1,
                         .max = 65536,
                         .value = "N",
                         .help = "tokens evaluated at once; default 512"},
    [LOOK_CACHE_TYPE] = {.names = "cache-type -ctk -ctv",
                         .kind = CHOICE,
                         .value = "f16|f32|q8",
                         .help = "what keys and values are rounded to; default f16"},
    [LOOK_CPU] = {.names = "cpu",
                  .kind = CHOICE,
                  .words = tern_cpu_names,
                  .help = "kernels to use; the results have the same bits"},
    [LOOK_THREADS] = {OPTION_THREADS},
    [LOOK_COLOR] = {.title = "General",
                    .names = "color",
                    .kind = CHOICE,
                    .value = "auto|true|256|none",
                    .help = "colours of the terminal; default auto"},
    [LOOK_QUIET] = {OPTION_QUIET},
    [LOOK_HELP] = {OPTION_HELP},
    [LOOK_VERSION] = {OPTION_VERSION},
};

static const struct option_table table = {
    .examples =
        "  look model.bin \"The cat sat on the mat\"                   every head, here\n"
        "  look model.bin \"The cat sat on the mat\" -o atlas.html     a page\n"
        "  look model.bin --surprise text.txt                      what it did not expect\n",
    .usage = "usage: look MODEL [TEXT] [options]\n"
             "\n"
             "Looks inside the model while it reads TEXT. No bit of its results changes,\n"
             "unless --ablate, --patch, --steer or --attn change what it computes.\n",
    .rows = rows,
    .n = N_LOOK_OPTIONS,
    .unknown = "--help lists all",
};

/* What a tour needs that was not given: a text, and tokens to continue with */
static enum tern_status complete_tour(struct look_options *o, struct tern_error *e)
{
    struct option_value *v = o->value;
    if (!v[LOOK_OUTPUT].given)
        return parser_usage(e, "--tour writes a page: name it, as in -o tour.html");
    if (v[LOOK_ATTN].given)
        return parser_usage(e, "--tour shows the model's own attention: leave out --attn");
    if (!o->prompt && !v[LOOK_FILE].given && !v[LOOK_PROMPT_IDS].given)
        o->prompt = "The cat sat";
    if (!v[LOOK_N_PREDICT].given)
        v[LOOK_N_PREDICT].integer = 3;
    return TERN_OK;
}

/* An option that the job would not read is refused, not ignored. */
static enum tern_status check_job(const struct look_options *o, struct tern_error *e)
{
    const struct option_value *v = o->value;
    bool is_attention = o->job == N_LOOK_OPTIONS || o->job == LOOK_TOUR;
    bool has_positions = o->job == LOOK_LENS || o->job == LOOK_WHY || o->job == LOOK_CAPTURE;
    bool has_text = o->prompt || v[LOOK_FILE].given || v[LOOK_PROMPT_IDS].given;
    if (v[LOOK_LINES].given && (o->job != LOOK_CAPTURE || has_text || v[LOOK_N_PREDICT].given))
        return parser_usage(e, "--lines goes with --capture, and is its only text: without -n");
    if (o->job == LOOK_SURPRISE && (has_text || v[LOOK_N_PREDICT].given || v[LOOK_CHAT].given))
        return parser_usage(e, "--surprise FILE is its only text: without -n and --chat");
    if (v[LOOK_HOOKS].given && o->job != LOOK_CAPTURE)
        return parser_usage(e, "--hooks goes with --capture");
    if (v[LOOK_BOUND].given && o->job != LOOK_COMPARE)
        return parser_usage(e, "--bound goes with --compare");
    if (v[LOOK_POSITIONS].given && (!has_positions || v[LOOK_LINES].given))
        return parser_usage(e, "--positions goes with --lens, --why and --capture of one text");
    if (v[LOOK_STAGE].given && (!is_attention || !v[LOOK_HEAD].given))
        return parser_usage(e, "--stage goes with --head");
    if (v[LOOK_TEMPLATE].given && !v[LOOK_CHAT].given)
        return parser_usage(e, "--template goes with --chat");
    return TERN_OK;
}

/* MODEL and TEXT, as arguments or options */
static enum tern_status take_words(struct look_options *o, const struct parser *p,
                                   struct tern_error *e)
{
    const struct option_value *v = o->value;
    size_t i = 0;
    o->model = v[LOOK_MODEL].text;
    o->prompt = v[LOOK_PROMPT].text;
    if (!o->model && i < p->n_words)
        o->model = p->words[i++];
    if (!o->prompt && i < p->n_words)
        o->prompt = p->words[i++];
    if (i < p->n_words)
        return parser_usage(e, "'%.100s' is one argument too many", p->words[i]);
    if (v[LOOK_FROM].given && !v[LOOK_PATCH].given)
        return parser_usage(e, "--from goes with --patch");
    if (v[LOOK_MEAN_OVER].given && !v[LOOK_ABLATE].given)
        return parser_usage(e, "--mean-over goes with --ablate");
    if (v[LOOK_STEER_FROM].given != v[LOOK_STEER_TO].given)
        return parser_usage(e, "--steer-from and --steer-to go together");
    if ((v[LOOK_STEER_LAYER].given || v[LOOK_STEER_BY].given) && !v[LOOK_STEER].given &&
        !v[LOOK_STEER_TO].given)
        return parser_usage(e, "--steer-layer and --steer-by need a direction: --steer FILE, or "
                               "--steer-from and --steer-to");
    if ((o->prompt != NULL) + v[LOOK_FILE].given + v[LOOK_PROMPT_IDS].given > 1)
        return parser_usage(e, "only one text can be given: as an argument, by --file or by "
                               "--prompt-ids");
    if (!o->model || !*o->model)
        return parser_usage(e, "no weights file was given; usage: look MODEL [TEXT] [options] "
                               "(--help shows examples)");
    enum tern_status s = check_job(o, e);
    return !s && o->job == LOOK_TOUR ? complete_tour(o, e) : s;
}

enum tern_status look_options_open(struct look_options *o, int argc, char **argv,
                                   struct tern_error *e)
{
    struct parser p;
    *o = (struct look_options){0};
    enum tern_status s = parser_open(&p, &table, o->value, argc, argv, e);
    o->job = (enum look_option)p.job;
    if (!s && o->job != LOOK_HELP && o->job != LOOK_VERSION)
        s = take_words(o, &p, e);
    parser_close(&p);
    return s;
}

void look_options_help(void)
{
    parser_help(&table);
}
