/* Reports of tokens: see token_report.h. */
#include "app/run/token_report.h"

#include "app/cli/json.h"
#include "app/cli/utf8.h"
#include "app/cli/visible.h"
#include "app/cli/out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum tern_status token_report_open(struct token_report *r, tern_context *ctx,
                                   const struct run_options *o, struct tern_error *e)
{
    *r = (struct token_report){.o = o, .ctx = ctx, .is_json = o->value[OPT_JSONL].given};
    r->is_late = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
    if (!token_report_wants_tokens(r))
        return TERN_OK;
    r->top = calloc((size_t)o->value[OPT_LOGPROBS].integer + 1, sizeof *r->top);
    if (!r->top)
        return parser_no_memory(e);
    enum tern_status s = tern_decoder_open(&r->decoder, tern_context_model(ctx), 1, e);
    return s == TERN_USAGE ? TERN_OK : s; /* no tokenizer: ids alone */
}

void token_report_close(struct token_report *r)
{
    tern_decoder_close(r->decoder);
    growing_text_close(&r->late);
    free(r->top);
}

bool token_report_wants_tokens(const struct token_report *r)
{
    return r->is_json || r->o->value[OPT_LOGPROBS].given;
}

static void put(void *arg, const char *text, size_t n)
{
    struct token_report *r = arg;
    if (r->is_json)
        (void)out_text(text, n);
    else if (r->is_late && !r->late.failed)
        growing_text_add(&r->late, text, n);
    else
        visible_error(text, n);
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
say(struct token_report *r, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    put(r, text, n > 0 ? (size_t)n < sizeof text ? (size_t)n : sizeof text - 1 : 0);
}

static void say_text(struct token_report *r, const char *name, const char *text, size_t n)
{
    say(r, r->is_json ? "\"%s\":\"" : " \"", name);
    json_text(put, r, text, n);
    say(r, r->is_json ? "\"," : "\" ");
}

/* Id, own text if wanted, and logprob; "forced" instead of the logprob of a token that was not chosen.
 * Bytes that are not UTF-8 are written as numbers. */
static void say_choice(struct token_report *r, const struct tern_choice *c, bool with_text,
                       bool forced)
{
    size_t n = 0;
    const char *text = r->decoder ? tern_decoder_bytes(r->decoder, c->token, &n) : "";
    say(r, r->is_json ? "\"id\":%d," : "%d", (int)c->token);
    if (r->is_json && !utf8_is_valid(text, n)) {
        for (size_t i = 0; i < n; i++)
            say(r, i ? ",%u" : "\"bytes\":[%u", (unsigned)(unsigned char)text[i]);
        say(r, "],");
    } else if (with_text && r->decoder) {
        say_text(r, "text", text, n);
    }
    if (forced)
        say(r, r->is_json ? "\"forced\":true" : "forced");
    else if (!r->is_json)
        say(r, "%.4f", c->logprob);
    else if (c->logprob - c->logprob == 0)
        say(r, "\"logprob\":%.9g", c->logprob);
    else
        say(r, "\"logprob\":null"); /* JSON has no infinity */
}

bool token_report_add(struct token_report *r, tern_token token, const float *logits)
{
    bool json = r->is_json;
    struct tern_choice c = {token, 0};
    size_t n = 0;
    if (logits) {
        c.logprob = tern_logprob(tern_context_model(r->ctx), logits, token);
        n = tern_top(r->ctx, logits, r->top, (size_t)r->o->value[OPT_LOGPROBS].integer);
    }
    say(r, !json ? "%zu: " : r->index ? "\"}\n{\"index\":%zu," : "{\"index\":%zu,", r->index);
    say_choice(r, &c, !json, !logits);
    for (size_t i = 0; i < n; i++) {
        say(r, !json ? i ? ", " : " | " : i ? "},{" : ",\"top\":[{");
        say_choice(r, &r->top[i], true, false);
    }
    say(r, !json ? "\n" : n ? "}],\"text\":\"" : ",\"text\":\"");
    r->index++;
    return out_stream("", 0);
}

bool token_report_text(struct token_report *r, const char *text, size_t n)
{
    if (r->index) /* else it is the end of the prompt's last character */
        json_text(put, r, text, n);
    return out_stream("", 0);
}

static double rate(size_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

void token_report_end_text(struct token_report *r)
{
    visible_error(r->late.p, r->late.n);
    r->late.n = 0;
    if (r->is_json && r->index)
        say(r, "\"}\n");
    r->index = 0;
}

void token_report_end(struct token_report *r, const struct run_stats *stats,
                      const struct tern_error *why)
{
    static const char *const reasons[] = {"end",       "length",   "context", "string",
                                          "cancelled", "complete", "dead end"};
    const struct tern_generate_result *t = stats ? &stats->result : NULL;
    if (!r->is_json)
        return;
    if (!stats) {
        (void)out_write("", 0);
        return;
    }
    say(r, "{\"stop\":\"%s\",", why ? "failed" : reasons[t->reason]);
    if (why) {
        say(r, "\"code\":%d,", (int)why->code);
        say_text(r, "error", why->text, strlen(why->text));
    }
    say_text(r, "model", r->o->model, strlen(r->o->model));
    if (stats->is_random)
        say(r, "\"seed\":%llu,", (unsigned long long)stats->seed);
    say(r,
        "\"prompt_tokens\":%zu,\"tokens\":%zu,\"prompt_seconds\":%.6f,\"seconds\":%.6f,"
        "\"prompt_rate\":%.2f,\"rate\":%.2f",
        t->n_prompt, t->n_generated, t->prompt_seconds, t->generate_seconds,
        rate(t->n_prompt, t->prompt_seconds), rate(t->n_generated, t->generate_seconds));
    if (t->n_forced)
        say(r, ",\"forced_tokens\":%zu", t->n_forced);
    if (r->o->value[OPT_FINGERPRINT].given) {
        uint64_t rows, fingerprint = tern_fingerprint(r->ctx, &rows);
        say(r, ",\"fingerprint\":\"%016llx\",\"fingerprint_rows\":%llu,\"arith\":%d",
            (unsigned long long)fingerprint, (unsigned long long)rows, TERN_ARITH);
    }
    say(r, "}\n");
    (void)out_write("", 0);
}
