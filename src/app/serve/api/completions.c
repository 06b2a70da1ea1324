/* POST /v1/completions: OpenAI's older API, for texts that are no chat. */
#include <math.h>
#include <stdlib.h>

#include "app/serve/api/completions_request.h"
#include "app/serve/api/dialog_parts.h"
#include "app/serve/api/envelope.h"
#include "app/serve/api/logprobs.h"
#include "app/serve/handlers.h"

struct text_choice { /* one job */
    struct reply_choice said;
    size_t offset;         /* of its next token, in characters */
    tern_decoder *decoder; /* makes the text that the offsets count; NULL without logprobs */
    struct prompt_logprobs prompt;
    double logprob; /* sum over its tokens, for best_of */
    size_t n_tokens;
};

struct text_completion {
    struct envelope envelope;     /* logprobs: of them */
    struct text_choice *choices;  /* [n_prompts][best_of] */
    size_t n_prompts, best_of, n; /* n: of best_of, those that are told */
    struct growing_text *echo;    /* [n_prompts] texts of the prompts, or NULL */
};

static void close_completion(void *arg)
{
    struct text_completion *c = arg;
    if (!c)
        return;
    for (size_t i = 0; c->choices && i < c->envelope.n; i++) {
        reply_choice_clear(&c->choices[i].said);
        prompt_logprobs_close(&c->choices[i].prompt);
        tern_decoder_close(c->choices[i].decoder);
    }
    for (size_t i = 0; c->echo && i < c->n_prompts; i++)
        growing_text_close(&c->echo[i]);
    free(c->choices);
    free(c->echo);
    envelope_close(&c->envelope);
    free(c);
}

/* ---- collecting ------------------------------------------------------------------------------ */

/* Those of the prompt come first. What is behind a stop string is not told, but the end token is: clients
 * count on an entry for each token that was made. */
static void take_logprobs(const struct envelope *e, struct text_choice *c,
                          const struct answer_part *p)
{
    struct reply_choice *said = &c->said;
    if (!said->logprobs)
        said->logprobs = logprobs_old();
    prompt_logprobs_put(&c->prompt, said->logprobs, e->server, &c->offset);
    prompt_logprobs_close(&c->prompt);
    if (p->kind == PART_TEXT || p->reason != TERN_STOP_STRING || e->return_tokens)
        logprobs_add_old(said->logprobs, e->server, p->tokens, p->n_tokens, c->decoder, &c->offset);
}

static void take_tokens(const struct envelope *e, struct text_choice *c,
                        const struct answer_part *p)
{
    struct reply_choice *said = &c->said;
    if (e->logprobs)
        take_logprobs(e, c, p);
    for (size_t i = 0; i < p->n_tokens; i++)
        c->logprob += p->tokens[i].forced ? 0 : p->tokens[i].logprob;
    c->n_tokens += p->n_tokens;
    if (e->return_tokens)
        reply_choice_take_tokens(said, p);
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *choice_json(const struct text_completion *c, struct reply_choice *said, size_t index,
                           size_t prompt)
{
    struct growing_text text = {0};
    if (c->echo && !said->began)
        growing_text_add(&text, c->echo[prompt].p, c->echo[prompt].n);
    said->began = true;
    growing_text_add(&text, said->text.p, said->text.n);
    json_t *out =
        json_pack("{s:o, s:I}", "text", dialog_json_grown(&text), "index", (json_int_t)index);
    growing_text_close(&text);
    json_object_set_new(out, "logprobs",
                        said->logprobs ? json_incref(said->logprobs) : json_null());
    reply_choice_put_end(said, out);
    return out;
}

static double mean(const struct text_choice *c)
{
    return c->n_tokens ? c->logprob / (double)c->n_tokens : -INFINITY;
}

/* Of the answers to one prompt, the n with the best mean come first; equal ones stay in order. */
static void sort(struct text_choice *c, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k && mean(&c[k]) > mean(&c[k - 1]); k--) {
            struct text_choice other = c[k];
            c[k] = c[k - 1], c[k - 1] = other;
        }
}

static void reply(struct text_completion *c, struct exchange *x)
{
    json_t *choices = json_array();
    for (size_t i = 0; i < c->n_prompts; i++) {
        struct text_choice *list = &c->choices[i * c->best_of];
        if (c->best_of > c->n)
            sort(list, c->best_of);
        for (size_t k = 0; k < c->n; k++)
            json_array_append_new(choices, choice_json(c, &list[k].said, i * c->n + k, i));
    }
    envelope_reply(&c->envelope, x, choices, &c->choices[0].said);
}

static void part(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct text_completion *c = arg;
    struct envelope *e = &c->envelope;
    struct text_choice *choice = &c->choices[p->choice];
    struct reply_choice *said = &choice->said;
    struct fault f = {0};
    growing_text_add(&said->text, p->text, p->bytes);
    if (p->kind == PART_PROMPT)
        prompt_logprobs_add(&choice->prompt, p->tokens);
    if (p->kind == PART_FAILED)
        f = *p->fault;
    else if (said->text.failed || prompt_logprobs_failed(&choice->prompt))
        fault_no_memory(&f, "the request");
    if (!envelope_goes_on(e, x, &f) || p->kind == PART_PROMPT)
        return;
    take_tokens(e, &c->choices[p->choice], p);
    if (p->kind == PART_DONE)
        envelope_take_end(e, x, said, p, p->choice % c->best_of == 0, answers_finish(p));
    if (e->stream)
        envelope_write(e, x, choice_json(c, said, p->choice, p->choice / c->n), said);
    if (envelope_is_over(e) && e->stream)
        envelope_end_stream(e, x);
    else if (envelope_is_over(e))
        reply(c, x);
}

static void ping(void *arg, struct exchange *x)
{
    struct text_completion *c = arg;
    envelope_ping(&c->envelope, x);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static bool add_echo(struct text_completion *c, const struct prompts *prompts)
{
    tern_decoder *d = NULL;
    size_t n;
    if (!(c->echo = calloc(c->n_prompts, sizeof *c->echo)) ||
        tern_decoder_open(&d, c->envelope.server->model, 0, NULL))
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

/* The text of each answer goes on behind its prompt, as answer_stream.c makes it. */
static bool open_decoders(struct text_completion *c, const struct prompts *prompts)
{
    size_t n;
    for (size_t i = 0; i < c->envelope.n; i++) {
        const struct prompt *p = &prompts->list[i / c->best_of];
        tern_decoder **d = &c->choices[i].decoder;
        if (tern_decoder_open(d, c->envelope.server->model, 0, NULL))
            return false;
        for (size_t k = 0; k < p->n; k++)
            (void)tern_decoder_push(*d, p->tokens[k], &n);
    }
    return true;
}

static struct text_completion *open_completion(struct server *s,
                                               const struct completions_request *r)
{
    static const struct envelope_kind kind = {"cmpl-", "text_completion", "text_completion"};
    struct text_completion *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->n_prompts = r->prompts.n;
    c->best_of = (size_t)r->best_of, c->n = (size_t)r->n;
    size_t n = c->n_prompts * c->best_of;
    c->choices = calloc(n, sizeof *c->choices);
    bool ok = envelope_open(&c->envelope, &kind, s, &r->envelope, &r->turn.params, n);
    c->envelope.logprobs = r->logprobs;
    if (ok && c->choices && (!r->echo || add_echo(c, &r->prompts)) &&
        (!r->logprobs || open_decoders(c, &r->prompts)))
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
    static const struct answers_writer writer = {part, part, part, part, ping, close_completion};
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
