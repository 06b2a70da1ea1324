/* POST /v1/completions: OpenAI's older API, for texts that are no chat. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/cli/growing_text.h"
#include "app/serve/api/answer_id.h"
#include "app/serve/api/completions_request.h"
#include "app/serve/api/dialog_parts.h"
#include "app/serve/http/event_stream.h"
#include "app/serve/handlers.h"
#include "app/serve/api/logprobs.h"

struct text_choice { /* one job; of a stream, since the last piece */
    struct growing_text text;
    json_t *logprobs, *tokens; /* or NULL */
    json_t *end;               /* timings and receipt */
    const char *finish;        /* NULL: it goes on */
    size_t offset;             /* of its next token, in characters */
    double logprob;            /* sum over its tokens, for best_of */
    size_t n_tokens;
    bool began;
};

struct text_completion {
    struct server *server;
    char id[ANSWER_ID_BYTES], fingerprint[48];
    char *model;
    int64_t created;
    uint64_t seed;
    bool stream, include_usage, logprobs, return_tokens, begun, failed;
    struct text_choice *said;             /* [n_prompts][best_of] */
    size_t n_prompts, best_of, n, n_over; /* n: of best_of, those that are told */
    struct growing_text *echo;            /* [n_prompts] texts of the prompts, or NULL */
    struct answers_usage usage;
};

static void close_said(struct text_choice *s)
{
    growing_text_close(&s->text);
    json_decref(s->logprobs);
    json_decref(s->tokens);
    json_decref(s->end);
    s->logprobs = s->tokens = s->end = NULL;
}

static void close_completion(void *arg)
{
    struct text_completion *c = arg;
    if (!c)
        return;
    for (size_t i = 0; c->said && i < c->n_prompts * c->best_of; i++)
        close_said(&c->said[i]);
    for (size_t i = 0; c->echo && i < c->n_prompts; i++)
        growing_text_close(&c->echo[i]);
    free(c->said);
    free(c->echo);
    free(c->model);
    free(c);
}

/* ---- collecting ------------------------------------------------------------------------------ */

static void take_tokens(struct text_completion *c, struct text_choice *said,
                        const struct answer_part *p)
{
    if (c->logprobs && !said->logprobs)
        said->logprobs = json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs",
                                   "top_logprobs", "text_offset");
    /* the end token has no text */
    if (c->logprobs && (p->kind == PART_TEXT || c->return_tokens))
        logprobs_add_old(said->logprobs, c->server, p->tokens, p->n_tokens, &said->offset);
    for (size_t i = 0; i < p->n_tokens; i++)
        said->logprob += p->tokens[i].forced ? 0 : p->tokens[i].logprob;
    said->n_tokens += p->n_tokens;
    if (!c->return_tokens)
        return;
    if (!said->tokens)
        said->tokens = json_array();
    for (size_t i = 0; i < p->n_tokens; i++)
        json_array_append_new(said->tokens, json_integer(p->tokens[i].token));
}

static void take_end(struct text_completion *c, struct exchange *x, struct text_choice *said,
                     size_t i, const struct answer_part *p)
{
    struct answers_usage *u = &c->usage;
    said->finish = answers_finish(p);
    said->end = json_object();
    answers_add_end(said->end, p);
    if (i % c->best_of == 0)
        u->prompt += p->end->n_prompt, u->cached += p->end->n_cached;
    u->completion += p->end->result.n_generated;
    if (++c->n_over == c->n_prompts * c->best_of)
        exchange_log(x, " prompt=%zu cached=%zu answer=%zu finish=%s", u->prompt, u->cached,
                     u->completion, said->finish);
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *frame(const struct text_completion *c, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", c->id, "object", "text_completion",
                     "created", (json_int_t)c->created, "model", c->model, "system_fingerprint",
                     c->fingerprint, "choices", choices);
}

static json_t *choice(struct text_completion *c, struct text_choice *said, size_t index,
                      size_t prompt)
{
    struct growing_text text = {0};
    if (c->echo && !said->began)
        growing_text_add(&text, c->echo[prompt].p, c->echo[prompt].n);
    said->began = true;
    growing_text_add(&text, said->text.p, said->text.n);
    json_t *out = json_pack("{s:o, s:I}", "text", dialog_json_text(text.n ? text.p : "", text.n),
                            "index", (json_int_t)index);
    growing_text_close(&text);
    json_object_set_new(out, "logprobs",
                        said->logprobs ? json_incref(said->logprobs) : json_null());
    if (said->tokens)
        json_object_set(out, "tokens", said->tokens);
    json_t *receipt = json_object_get(said->end, "receipt");
    if (receipt)
        json_object_set(out, "receipt", receipt);
    json_object_set_new(out, "finish_reason",
                        said->finish ? json_string(said->finish) : json_null());
    return out;
}

static void set_end(const struct text_completion *c, json_t *out, const struct text_choice *said)
{
    json_object_set(out, "timings", json_object_get(said->end, "timings"));
    json_object_set_new(out, "seed", json_integer((json_int_t)c->seed));
}

static double mean(const struct text_choice *s)
{
    return s->n_tokens ? s->logprob / (double)s->n_tokens : -INFINITY;
}

/* Of the answers to one prompt, the n with the best mean come first; equal ones stay in order. */
static void sort(struct text_choice *s, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k && mean(&s[k]) > mean(&s[k - 1]); k--) {
            struct text_choice other = s[k];
            s[k] = s[k - 1], s[k - 1] = other;
        }
}

static void reply(struct text_completion *c, struct exchange *x)
{
    json_t *choices = json_array();
    for (size_t i = 0; i < c->n_prompts; i++) {
        struct text_choice *said = &c->said[i * c->best_of];
        if (c->best_of > c->n)
            sort(said, c->best_of);
        for (size_t k = 0; k < c->n; k++)
            json_array_append_new(choices, choice(c, &said[k], i * c->n + k, i));
    }
    json_t *out = frame(c, choices);
    json_object_set_new(out, "usage", answers_usage_json(&c->usage));
    set_end(c, out, &c->said[0]);
    exchange_reply_json(x, 200, out);
}

static void begin_stream(struct text_completion *c, struct exchange *x)
{
    if (!c->begun)
        exchange_begin(x, EVENT_STREAM);
    c->begun = true;
}

static void write_piece(struct text_completion *c, struct exchange *x, size_t i)
{
    struct text_choice *said = &c->said[i];
    json_t *out = frame(c, json_pack("[o]", choice(c, said, i, i / c->n)));
    if (said->finish)
        set_end(c, out, said);
    if (c->include_usage)
        json_object_set_new(out, "usage", json_null());
    event_stream_write(x, NULL, out);
    close_said(said);
}

static void end_stream(struct text_completion *c, struct exchange *x)
{
    static const char done[] = "data: [DONE]\n\n";
    if (c->include_usage) {
        json_t *out = frame(c, json_array());
        json_object_set_new(out, "usage", answers_usage_json(&c->usage));
        event_stream_write(x, NULL, out);
    }
    exchange_write(x, done, sizeof done - 1);
    exchange_end(x);
}

static void part(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct text_completion *c = arg;
    struct text_choice *said = &c->said[p->choice];
    struct fault f = {0};
    growing_text_add(&said->text, p->text, p->bytes);
    if (p->kind == PART_FAILED)
        f = *p->fault;
    else if (said->text.failed)
        fault_no_memory(&f, "the request");
    if (f.status && !c->failed)
        answers_fail(x, &f, c->begun);
    c->failed |= f.status != 0;
    if (c->failed)
        return;
    take_tokens(c, said, p);
    if (p->kind == PART_DONE)
        take_end(c, x, said, p->choice, p);
    bool over = c->n_over == c->n_prompts * c->best_of;
    if (c->stream) {
        begin_stream(c, x);
        write_piece(c, x, p->choice);
        if (over)
            end_stream(c, x);
    } else if (over)
        reply(c, x);
}

static void ping(void *arg, struct exchange *x)
{
    static const char comment[] = ": ping\n\n";
    struct text_completion *c = arg;
    if (!c->stream)
        return;
    begin_stream(c, x);
    exchange_write(x, comment, sizeof comment - 1);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static bool add_echo(struct text_completion *c, const struct prompts *prompts)
{
    tern_decoder *d = NULL;
    size_t n;
    if (!(c->echo = calloc(c->n_prompts, sizeof *c->echo)) ||
        tern_decoder_open(&d, c->server->model, 0, NULL))
        return false;
    bool ok = true;
    for (size_t i = 0; i < c->n_prompts; i++) {
        for (size_t k = 0; k < prompts->list[i].n; k++) {
            const char *text = tern_decoder_push(d, prompts->list[i].tokens[k], &n);
            growing_text_add(&c->echo[i], text, n);
        }
        const char *rest = tern_decoder_finish(d, &n);
        growing_text_add(&c->echo[i], rest, n);
        ok &= !c->echo[i].failed;
    }
    tern_decoder_close(d);
    return ok;
}

static struct text_completion *open_completion(struct server *s,
                                               const struct completions_request *r)
{
    struct text_completion *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c = (struct text_completion){.server = s,
                                  .created = (int64_t)time(NULL),
                                  .seed = r->turn.params.sampler.seed,
                                  .stream = r->stream,
                                  .include_usage = r->include_usage,
                                  .logprobs = r->logprobs,
                                  .return_tokens = r->turn.params.return_tokens,
                                  .n_prompts = r->prompts.n,
                                  .best_of = (size_t)r->best_of,
                                  .n = (size_t)r->n};
    answer_id(c->id, "cmpl-");
    answers_fingerprint(c->fingerprint, sizeof c->fingerprint, s);
    c->model = strdup(r->model);
    c->said = calloc(c->n_prompts * c->best_of, sizeof *c->said);
    if (c->model && c->said && (!r->echo || add_echo(c, &r->prompts)))
        return c;
    close_completion(c);
    return NULL;
}

static bool submit(struct completions_request *r, struct answers *all, struct server *s,
                   struct exchange *x, struct fault *f)
{
    bool ok = true;
    for (size_t i = 0; i < r->prompts.n; i++)
        for (int64_t k = 0; k < r->best_of && ok; k++) {
            const struct prompt *p = &r->prompts.list[i];
            const struct answer_stream_params params = {.prompt = p->tokens,
                                                        .n_prompt = p->n,
                                                        .plain = true,
                                                        .ignore_end = r->turn.params.ignore_end};
            struct job_request job;
            if ((ok = completions_request_job(r, s, i, (uint64_t)k, exchange_client(x), &job, f)))
                ok = answers_add(all, s, x, &params, &job, f);
            else
                job_request_free(&job);
        }
    return ok;
}

static bool begin(struct completions_request *r, struct server *s, struct exchange *x,
                  struct fault *f)
{
    static const struct answers_writer writer = {part, ping, close_completion};
    struct text_completion *c = open_completion(s, r);
    struct answers *all = c ? answers_open(&writer, c) : NULL;
    if (!all || !submit(r, all, s, x, f)) {
        answers_close(all);
        close_completion(c);
        fault_blame(f, "prompt");
        return f->status ? false : fault_no_memory(f, "the request");
    }
    answers_ignored(x, r->turn.ignored);
    answers_begin(all, x);
    return true;
}

void handle_completions(struct server *s, struct exchange *x)
{
    struct completions_request r = {0};
    struct fault f = {0};
    if (!completions_request_read(&r, s, x, &f) || !begin(&r, s, x, &f))
        exchange_fault(x, &f);
    completions_request_close(&r);
}
