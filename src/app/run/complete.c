/* Generation: see complete.h. */
#include "app/cli/stopwatch.h"
#include "app/run/complete.h"

#include "app/cli/files.h"
#include "app/cli/growing_text.h"
#include "app/cli/json.h"
#include "app/cli/utf8.h"
#include "app/cli/number.h"
#include "app/cli/out.h"
#include "app/run/plan.h"
#include "app/run/receipt_file.h"
#include "app/run/resume.h"
#include "app/cli/signals.h"
#include "app/run/stats.h"
#include "app/cli/tokens.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MTP = 4 };  /* tokens that --mtp guesses by default, at most */
enum { KEEP = 4 }; /* tokens that a shift keeps by default */

struct run_prompt {
    char *text; /* owned, [n] */
    size_t n;
    tern_token *tokens; /* owned, [n_tokens] */
    size_t n_tokens;
    bool given; /* by an option, or by standard input that is not empty */
};

static void put_piece(void *arg, const char *text, size_t n)
{
    (void)arg;
    (void)out_stream(text, n);
}

static void prompt_close(struct run_prompt *p)
{
    free(p->text);
    free(p->tokens);
}

/* The text of p's tokens, to be shown; of a model without tokenizer, their ids. */
static enum tern_status text_of_ids(struct run_prompt *p, const tern_model *model,
                                    struct tern_error *e)
{
    struct growing_text text = {0};
    tern_decoder *d = NULL;
    enum tern_status s = tern_decoder_open(&d, model, 0, e);
    for (size_t i = 0; i < p->n_tokens; i++) {
        char id[16];
        size_t n = 0;
        const char *piece = s ? id : tern_decoder_push(d, p->tokens[i], &n);
        if (s)
            n = (size_t)snprintf(id, sizeof id, i ? " %d" : "%d", (int)p->tokens[i]);
        growing_text_add(&text, piece, n);
    }
    tern_decoder_close(d);
    p->text = text.p, p->n = text.n; /* handed over */
    return text.failed ? parser_no_memory_for(e, "the prompt") : s == TERN_USAGE ? TERN_OK : s;
}

/* With TERN_MUST_FIT among the flags, of a text with more than `most` tokens only their number */
static enum tern_status prompt_open(struct run_prompt *p, const tern_model *model,
                                    const struct run_options *o, unsigned flags, size_t most,
                                    struct tern_error *e)
{
    memset(p, 0, sizeof *p);
    if (o->value[OPT_PROMPT_IDS].given) {
        p->given = true;
        enum tern_status ids =
            tokens_take_ids(model, o->value[OPT_PROMPT_IDS].text, &p->tokens, &p->n_tokens, e);
        return ids ? ids : text_of_ids(p, model, e);
    }
    if (o->value[OPT_PARSE_SPECIAL].given)
        flags |= TERN_PARSE_SPECIAL;
    enum tern_status s =
        files_take_prompt(o->value[OPT_PROMPT].text, o->value[OPT_FILE].text, &p->text, &p->n, e);
    p->given = p->n || run_options_have_prompt(o);
    return s ? s : tokens_take(model, p->text, p->n, flags, most, &p->tokens, &p->n_tokens, e);
}

/* A token on a line of its own, with its text as a JSON string; \xNN where its bytes are not UTF-8,
 * as in a part of a character. */
static void print_piece(tern_decoder *d, tern_token token)
{
    size_t n = 0;
    const char *text = d ? tern_decoder_bytes(d, token, &n) : "";
    char number[16];
    out_stream(number, (size_t)snprintf(number, sizeof number, "%d \"", (int)token));
    if (utf8_is_valid(text, n))
        json_text(put_piece, NULL, text, n);
    else
        for (size_t i = 0; i < n; i++)
            out_stream(number, (size_t)snprintf(number, sizeof number, "\\x%02x",
                                                (unsigned)(unsigned char)text[i]));
    out_stream("\"\n", 2);
}

enum tern_status complete_tokenize(const tern_model *model, const struct run_options *o,
                                   struct tern_error *e)
{
    struct run_prompt p;
    tern_decoder *d = NULL;
    bool pieces = o->value[OPT_VERBOSE].given;
    enum tern_status s = prompt_open(&p, model, o, 0, 0, e);
    if (!s && pieces && (s = tern_decoder_open(&d, model, 1, e)) == TERN_USAGE)
        s = TERN_OK; /* no tokenizer: ids alone */
    for (size_t i = 0; !s && i < p.n_tokens; i++) {
        char id[16];
        if (pieces)
            print_piece(d, p.tokens[i]);
        else
            out_stream(id, (size_t)snprintf(id, sizeof id, i ? " %d" : "%d", (int)p.tokens[i]));
    }
    if (!s)
        out_write("\n", !pieces);
    tern_decoder_close(d);
    prompt_close(&p);
    return s;
}

/* A text that begins with nothing begins with BOS, also where a tokenizer adds none. */
static enum tern_status check_prompt(struct run_prompt *p, const tern_model *model,
                                     const struct tern_memory *plan, struct tern_error *e)
{
    struct tern_model_info info;
    tern_model_info(model, &info);
    if (!p->n_tokens && info.bos >= 0) /* there is room for one */
        p->tokens[p->n_tokens++] = info.bos;
    if (p->n_tokens > plan->n_ctx) {
        snprintf(
            e->text, sizeof e->text,
            "the prompt has %zu tokens, but the context holds %u (the model was made for %llu); "
            "shorten the prompt or use a larger -c",
            p->n_tokens, plan->n_ctx, (unsigned long long)info.max_seq);
        return e->code = TERN_LIMIT;
    }
    return TERN_OK;
}

/* Ten digits at most, so that a person can type it. */
static uint64_t random_seed(void)
{
    uint32_t seed = 0;
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &seed, sizeof seed) != sizeof seed) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        seed = (uint32_t)t.tv_nsec ^ (uint32_t)t.tv_sec * 2654435761u ^ (uint32_t)getpid();
    }
    if (fd >= 0)
        close(fd);
    return seed;
}

#define FIELD(name) offsetof(struct tern_sampler_params, name)

static void set_sampler(struct tern_sampler_params *p, const tern_model *model,
                        const struct run_options *o)
{
    const struct option_value *v = o->value;
    static const struct {
        unsigned char option, at; /* bytes before the field */
    } reals[] = {{OPT_TEMP, FIELD(temperature)},
                 {OPT_TOP_P, FIELD(top_p)},
                 {OPT_MIN_P, FIELD(min_p)},
                 {OPT_REPEAT_PENALTY, FIELD(repeat_penalty)},
                 {OPT_PRESENCE_PENALTY, FIELD(presence_penalty)},
                 {OPT_FREQUENCY_PENALTY, FIELD(frequency_penalty)},
                 {OPT_DRY_MULTIPLIER, FIELD(dry_multiplier)},
                 {OPT_DRY_BASE, FIELD(dry_base)},
                 {OPT_TOP_N_SIGMA, FIELD(top_n_sigma)},
                 {OPT_TYPICAL, FIELD(typical_p)},
                 {OPT_XTC_PROBABILITY, FIELD(xtc_probability)},
                 {OPT_XTC_THRESHOLD, FIELD(xtc_threshold)},
                 {OPT_MIROSTAT_TAU, FIELD(mirostat_tau)},
                 {OPT_MIROSTAT_ETA, FIELD(mirostat_eta)}};
    static const struct {
        unsigned char option, at;
    } integers[] = {{OPT_TOP_K, FIELD(top_k)},
                    {OPT_REPEAT_LAST_N, FIELD(repeat_last_n)},
                    {OPT_DRY_ALLOWED_LENGTH, FIELD(dry_allowed_length)},
                    {OPT_DRY_LAST_N, FIELD(dry_last_n)}};
    *p = tern_sampler_defaults(model);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (v[reals[i].option].given)
            *(float *)((char *)p + reals[i].at) = (float)v[reals[i].option].real;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (v[integers[i].option].given) /* -1: all tokens there are */
            *(uint32_t *)((char *)p + integers[i].at) = (uint32_t)v[integers[i].option].integer;
    if (v[OPT_GREEDY].given)
        p->temperature = 0;
    p->mirostat = v[OPT_MIROSTAT].given && *v[OPT_MIROSTAT].text == '2' ? 2 : 0;
    p->bias = o->bias, p->n_bias = o->n_bias;
    p->dry_breakers = v[OPT_DRY_BREAKER].given ? o->breakers : NULL;
    p->n_dry_breakers = o->n_breakers;
    memcpy(p->order, o->order.order, sizeof p->order);
    p->seed = v[OPT_SEED].given ? v[OPT_SEED].seed : random_seed();
}

static int on_token(void *arg, tern_token token, const float *logits)
{
    struct completion *g = arg;
    g->last = token;
    return token_report_wants_tokens(&g->report) && !token_report_add(&g->report, token, logits);
}

/* Bytes of the text that comes at the end, without the U+FFFD for a character that is cut: the next
 * run with this session completes it. */
static size_t whole_bytes(const struct completion *g, const char *text, size_t n)
{
    static const char mark[] = "\xef\xbf\xbd";
    tern_decoder *d = NULL;
    size_t bytes = 0;
    if (!g->o->value[OPT_SESSION].given || tern_token_is_end(g->model, g->last) ||
        tern_decoder_open(&d, g->model, 0, NULL))
        return n;
    const char *own = tern_decoder_bytes(d, g->last, &bytes);
    bool is_cut = !utf8_is_valid(own, bytes);
    tern_decoder_close(d);
    while (is_cut && n >= 3 && !memcmp(text + n - 3, mark, 3))
        n -= 3;
    return n;
}

static int on_text(void *arg, tern_token token, const char *text, size_t n)
{
    struct completion *g = arg;
    char id[16];
    if (token < 0)
        n = whole_bytes(g, text, n);
    if (g->is_ids && token >= 0)
        text = id, n = (size_t)snprintf(id, sizeof id, " %d", (int)token);
    bool done =
        g->report.is_json ? token_report_text(&g->report, text, n) : wrap_text(&g->wrap, text, n);
    return !done || signals_caught();
}

static int on_prompt(void *arg, size_t done, size_t total)
{
    const struct completion *g = arg;
    if (g->waits_since > 0 && stopwatch_now() - g->waits_since > 0.5) {
        if (done < total)
            fprintf(stderr, "\rprompt: %zu of %zu tokens ", done, total);
        else
            fprintf(stderr, "\r%40s\r", "");
    }
    return signals_caught() != 0;
}

/* Where no text on the terminal is in the way. */
static bool shows_progress(const struct run_options *o)
{
    return isatty(STDERR_FILENO) && !o->value[OPT_QUIET].given &&
           (o->value[OPT_NO_ECHO].given || !isatty(STDOUT_FILENO));
}

void complete_print(const struct completion *g)
{
    struct tern_memory plan;
    struct tern_model_info info;
    tern_context_memory(g->ctx, &plan);
    tern_model_info(g->model, &info);
    if (g->o->value[OPT_QUIET].given)
        return;
    if (g->stats.result.reason == TERN_STOP_CONTEXT)
        fprintf(stderr,
                "context: all %u positions are full (the model was made for %llu); use "
                "--context-shift to go on\n",
                plan.n_ctx, (unsigned long long)info.max_seq);
    if (g->stats.result.n_again)
        fprintf(stderr,
                "rope: the text crossed the limit of the model's first frequencies; %zu tokens "
                "were evaluated again with the second ones\n",
                g->stats.result.n_again);
    stats_print(&g->stats, g->ctx, g->o->value[OPT_VERBOSE].given);
}

static void print_fingerprint(const tern_context *ctx)
{
    uint64_t rows, fingerprint = tern_fingerprint(ctx, &rows);
    fprintf(stderr, "fingerprint: %016llx arith=%d rows=%llu\n", (unsigned long long)fingerprint,
            TERN_ARITH, (unsigned long long)rows);
}

/* A context for the model of --draft, as long as both models allow; none without the option. */
static enum tern_status draft_open(struct completion *g, uint32_t n_ctx, struct tern_error *e)
{
    const struct run_options *o = g->o;
    struct tern_model_info info;
    struct tern_memory plan;
    struct tern_model_params params = {.n_threads = (int)o->value[OPT_THREADS].integer,
                                       .cpu = o->value[OPT_CPU].text,
                                       .load = plan_load(o) & ~(unsigned)TERN_LOAD_MTP};
    const char *path = o->value[OPT_DRAFT].text;
    if (!path)
        return TERN_OK;
    struct tern_error cause = {0};
    enum tern_status s = tern_model_open(&g->draft_model, path, &params, &cause);
    if (!s && !(s = tern_draft_check(g->model, g->draft_model, &cause))) {
        tern_model_info(g->draft_model, &info);
        if (n_ctx > info.max_seq)
            n_ctx = (uint32_t)info.max_seq;
        s = plan_draft(&g->p.draft, g->draft_model, o, n_ctx, &cause);
    }
    if (!s) {
        tern_context_memory(g->p.draft, &plan);
        g->stats.draft_bytes = plan.weights + plan.cache + plan.batch;
    } else if (!strncmp(cause.text, path, strlen(path))) { /* it is named already */
        snprintf(e->text, sizeof e->text, "--draft %.500s", cause.text);
    } else {
        snprintf(e->text, sizeof e->text, "--draft %.200s: %.300s", path, cause.text);
    }
    return e->code = s;
}

/* The sampler, and what else of tern_generate's parameters the options say. */
void complete_set(struct completion *g)
{
    const struct option_value *v = g->o->value;
    struct tern_generate_params *p = &g->p;
    set_sampler(&g->sampler, g->model, g->o);
    p->n_predict = v[OPT_N_PREDICT].given ? v[OPT_N_PREDICT].integer : -1;
    p->ignore_end = v[OPT_IGNORE_EOS].given;
    if (v[OPT_LOOKUP].given)
        p->lookup = v[OPT_LOOKUP].text ? (uint32_t)v[OPT_LOOKUP].integer : UINT32_MAX;
    if (v[OPT_MTP].given)
        p->mtp = v[OPT_MTP].text ? (uint32_t)v[OPT_MTP].integer : MTP;
    p->shift = v[OPT_CONTEXT_SHIFT].given;
    p->keep = v[OPT_KEEP].given ? (uint32_t)v[OPT_KEEP].integer : KEEP; /* -1: all of the prompt */
    p->logits_all = v[OPT_FINGERPRINT].given && v[OPT_FINGERPRINT].text;
    p->sampler = &g->sampler;
    p->no_force = v[OPT_NO_FORCE].given;
    p->fingerprint = v[OPT_RECEIPT].given;
#ifdef TERN_MPI
    p->best_only = !v[OPT_LOGPROBS].given && !v[OPT_JSONL].given;
#endif
    p->stop = g->o->stop;
    p->n_stop = g->o->n_stop;
    g->stats.guesses = p->lookup || p->draft || p->mtp;
    g->stats.seed = g->sampler.seed;
    g->stats.is_random = g->sampler.temperature > 0;
}

static enum tern_status check_bias(const tern_model *model, const struct run_options *o,
                                   struct tern_error *e)
{
    struct tern_model_info info;
    tern_model_info(model, &info);
    for (size_t i = 0; i < o->n_bias; i++)
        if ((uint64_t)o->bias[i].token >= info.vocab)
            return parser_usage(e,
                                "--logit-bias: token %d is not in the model's vocabulary of %llu",
                                (int)o->bias[i].token, (unsigned long long)info.vocab);
    return TERN_OK;
}

enum tern_status complete_open(struct completion *g, tern_model *model, const struct run_options *o,
                               const struct tern_memory *plan, double load_seconds,
                               struct tern_error *e)
{
    *g = (struct completion){.o = o, .model = model, .p = tern_generate_defaults()};
    g->stats.start = stopwatch_now() - load_seconds;
    g->stats.result.last = -1;
    g->p.on_text = on_text;
    g->p.on_token = on_token;
    g->p.arg = g;
    enum tern_status s = draft_open(g, plan->n_ctx, e);
    if (!s)
        s = plan_open(&g->ctx, model, plan, e);
    if (!s)
        s = token_report_open(&g->report, g->ctx, o, e);
    complete_set(g);
    g->is_ids = !tokens_have_text(model);
    g->stats.load_seconds = stopwatch_now() - g->stats.start;
    if (!s)
        s = check_bias(model, o, e);
    if (!s)
        s = receipt_file_check(o, e);
    return s ? s : resume_open(g->ctx, o, e);
}

enum tern_status complete_constrain(struct completion *g, const char *thought, size_t n,
                                    struct tern_error *e)
{
    if (g->constrain.constraint && g->thought == n)
        return TERN_OK;
    constrain_close(&g->constrain);
    g->thought = n;
    enum tern_status s = constrain_open(&g->constrain, g->model, g->o, thought, n, e);
    g->p.constraint = g->constrain.constraint;
    constrain_print(g->constrain.constraint, g->o);
    return s;
}

void complete_close(struct completion *g)
{
    constrain_close(&g->constrain);
    token_report_close(&g->report);
    wrap_close(&g->wrap);
    plan_close(g->ctx);
    tern_context_close(g->p.draft);
    tern_model_close(g->draft_model);
}

/* A session holds the last token too, which else needs no position: so many tokens may follow the n
 * of the prompt. -1: any number. */
static int64_t room_for_session(const struct completion *g, size_t n)
{
    struct tern_memory plan;
    tern_context_memory(g->ctx, &plan);
    return g->o->value[OPT_SESSION].given && !g->p.shift ? (int64_t)plan.n_ctx - (int64_t)n : -1;
}

enum tern_status complete_run(struct completion *g, const tern_token *tokens, size_t n,
                              struct tern_error *e)
{
    g->stats.n_held = tern_seq_reuse(g->ctx, 0, tokens, n);
    g->p.tokens = tokens + g->stats.n_held;
    g->p.n_tokens = n - g->stats.n_held;
    if (g->o->value[OPT_KEEP].integer < 0)
        g->p.keep = (uint32_t)n;
    int64_t room = room_for_session(g, n), wanted = g->p.n_predict;
    bool full = room >= 0 && (wanted < 0 || wanted > room);
    if (full)
        g->p.n_predict = room;
    signals_hold(g->o->value[OPT_SESSION].given); /* a shift is finished first, else all is lost */
    enum tern_status s = tern_generate(g->ctx, &g->p, &g->stats.result, e);
    signals_hold(false);
    g->p.n_predict = wanted;
    if (full && g->stats.result.reason == TERN_STOP_LENGTH)
        g->stats.result.reason = TERN_STOP_CONTEXT;
    bool line = !g->end_text || g->end_text(g->p.arg);
    (void)wrap_end(&g->wrap);
    out_write("\n", line && !g->report.is_json);
    g->stats.total_seconds = stopwatch_now() - g->stats.start;
    if (!s)
        s = tern_numeric_status(g->ctx, e);
    return s || !g->o->value[OPT_RECEIPT].given ? s : receipt_file_write(g, tokens, n, e);
}

enum tern_status complete_end(struct completion *g, enum tern_status s, struct tern_error *e)
{
    if (g->o->value[OPT_FINGERPRINT].given)
        print_fingerprint(g->ctx);
    return s && s != TERN_CANCELLED
               ? s
               : resume_save(g->ctx, g->o, g->stats.result.last, g->p.keep, g->unread, e);
}

/* ---- one text ----------------------------------------------------------------------------- */

static enum tern_status generate(struct completion *g, const struct run_prompt *prompt,
                                 struct tern_error *e)
{
    const tern_token *tokens = prompt->tokens;
    size_t n = prompt->n_tokens;
    if (!prompt->given && tern_seq_length(g->ctx, 0)) /* of the session, to go on with */
        tokens = tern_seq_tokens(g->ctx, 0), n = tern_seq_length(g->ctx, 0);
    if (!n) {
        snprintf(e->text, sizeof e->text,
                 "the model has no token that begins a text; give it a prompt");
        return e->code = TERN_USAGE;
    }
    enum tern_status s = resume_check(g->ctx, g->o, tokens, n, false, e);
    if (s)
        return s;
    g->p.on_prompt = on_prompt;
    g->waits_since = shows_progress(g->o) ? stopwatch_now() : 0;
    if (!g->o->value[OPT_NO_ECHO].given && !g->report.is_json &&
        !(out_text(prompt->text, prompt->n) && out_write("", 0))) {
        g->stats.result.reason = TERN_STOP_CANCELLED;
        return TERN_CANCELLED;
    }
    s = complete_run(g, tokens, n, e);
    g->unread = !g->stats.result.n_generated && tern_seq_length(g->ctx, 0) < n;
    bool dead = g->stats.result.reason == TERN_STOP_DEAD_END;
    bool began = g->stats.result.prompt_seconds > 0;
    bool failed = began && s && s != TERN_CANCELLED && !dead;
    bool ended = began && !failed;
    token_report_end_text(&g->report);
    token_report_end(&g->report, began ? &g->stats : NULL, failed ? e : NULL);
    if (!out_closed() && ended)
        complete_print(g);
    return complete_end(g, s, e);
}

enum tern_status complete_prompt(tern_model *model, struct run_options *o, double load_seconds,
                                 struct tern_error *e)
{
    struct run_prompt prompt = {0};
    struct tern_memory plan;
    struct completion g = {0};
    enum tern_status s = plan_make(model, o, 0, &plan, e);
    if (!s)
        s = prompt_open(&prompt, model, o, TERN_ADD_SPECIAL | TERN_MUST_FIT, plan.n_ctx, e);
    if (!s)
        s = check_prompt(&prompt, model, &plan, e);
    if (!s && !(s = complete_open(&g, model, o, &plan, load_seconds, e)) &&
        !(s = complete_constrain(&g, NULL, 0, e)))
        s = generate(&g, &prompt, e);
    complete_close(&g);
    prompt_close(&prompt);
    return s;
}
