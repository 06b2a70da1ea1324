/* What chat completions and completions share: see envelope.h. */
#include "app/serve/api/envelope.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/serve/http/event_stream.h"

/* ---- of a request -------------------------------------------------------------------------- */

bool envelope_fields_read(struct envelope_fields *e, struct turn *t, const struct server *s,
                          struct fields *f)
{
    struct fields options;
    bool present;
    e->model = s->model_name;
    if (!fields_text(f, "model", &e->model, NULL) || !fields_bool(f, "stream", &e->stream) ||
        !fields_inside(f, "stream_options", &options, &present) ||
        !fields_bool(&options, "include_usage", &e->include_usage))
        return false;
    turn_unknown(t, &options);
    return true;
}

/* ---- of a choice --------------------------------------------------------------------------- */

void reply_choice_clear(struct reply_choice *c)
{
    growing_text_close(&c->text);
    json_decref(c->logprobs);
    json_decref(c->tokens);
    json_decref(c->end);
    *c = (struct reply_choice){.began = c->began, .finish = c->finish};
}

void reply_choice_take_tokens(struct reply_choice *c, const struct answer_part *p)
{
    if (!c->tokens)
        c->tokens = json_array();
    for (size_t i = 0; i < p->n_tokens; i++)
        json_array_append_new(c->tokens, json_integer(p->tokens[i].token));
}

void reply_choice_put_end(const struct reply_choice *c, json_t *out)
{
    json_t *receipt = json_object_get(c->end, "receipt");
    if (c->tokens)
        json_object_set(out, "tokens", c->tokens);
    if (receipt)
        json_object_set(out, "receipt", receipt);
    json_object_set_new(out, "finish_reason", c->finish ? json_string(c->finish) : json_null());
}

/* ---- of an answer -------------------------------------------------------------------------- */

bool envelope_open(struct envelope *e, const struct envelope_kind *kind, struct server *s,
                   const struct envelope_fields *fields, const struct request_params *params,
                   size_t n)
{
    *e = (struct envelope){.server = s,
                           .kind = kind,
                           .model = strdup(fields->model),
                           .created = (int64_t)time(NULL),
                           .seed = params->sampler.seed,
                           .stream = fields->stream,
                           .include_usage = fields->include_usage,
                           .logprobs = params->logprobs,
                           .return_tokens = params->return_tokens,
                           .n = n};
    answer_id(e->id, kind->id);
    answers_fingerprint(e->fingerprint, sizeof e->fingerprint, s);
    return e->model != NULL;
}

void envelope_close(struct envelope *e)
{
    free(e->model);
    e->model = NULL;
}

void envelope_take_end(struct envelope *e, struct exchange *x, struct reply_choice *c,
                       const struct answer_part *p, bool first, const char *finish)
{
    struct answers_usage *u = &e->usage;
    c->finish = finish;
    c->end = json_object();
    answers_add_end(c->end, p);
    if (first)
        u->prompt += p->end->n_prompt, u->cached += p->end->n_cached;
    u->completion += p->end->result.n_generated;
    if (++e->n_over == e->n)
        answers_log(x, u, finish);
}

bool envelope_goes_on(struct envelope *e, struct exchange *x, const struct fault *f)
{
    if (f->status && !e->failed)
        answers_fail(x, f, e->begun);
    e->failed |= f->status != 0;
    return !e->failed;
}

bool envelope_is_over(const struct envelope *e)
{
    return e->n_over == e->n;
}

/* ---- writing ------------------------------------------------------------------------------- */

static json_t *frame(const struct envelope *e, const char *object, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", e->id, "object", object, "created",
                     (json_int_t)e->created, "model", e->model, "system_fingerprint",
                     e->fingerprint, "choices", choices);
}

static void put_end(const struct envelope *e, json_t *out, const struct reply_choice *c)
{
    json_object_set(out, "timings", json_object_get(c->end, "timings"));
    json_object_set_new(out, "seed", json_integer((json_int_t)e->seed));
}

static void put_usage(const struct envelope *e, json_t *out)
{
    json_object_set_new(out, "usage", answers_usage_json(&e->usage));
}

void envelope_reply(struct envelope *e, struct exchange *x, json_t *choices,
                    const struct reply_choice *first)
{
    json_t *out = frame(e, e->kind->whole, choices);
    put_usage(e, out);
    put_end(e, out, first);
    exchange_reply_json(x, 200, out);
}

static void begin_stream(struct envelope *e, struct exchange *x)
{
    if (!e->begun)
        exchange_begin(x, EVENT_STREAM);
    e->begun = true;
}

void envelope_write(struct envelope *e, struct exchange *x, json_t *choice, struct reply_choice *c)
{
    begin_stream(e, x);
    json_t *out = frame(e, e->kind->piece, json_pack("[o]", choice));
    if (c->finish)
        put_end(e, out, c);
    if (e->include_usage)
        json_object_set_new(out, "usage", json_null());
    event_stream_write(x, NULL, out);
    reply_choice_clear(c);
}

void envelope_end_stream(struct envelope *e, struct exchange *x)
{
    static const char done[] = "data: [DONE]\n\n";
    if (e->include_usage) {
        json_t *out = frame(e, e->kind->piece, json_array());
        put_usage(e, out);
        event_stream_write(x, NULL, out);
    }
    exchange_write(x, done, sizeof done - 1);
    exchange_end(x);
}

void envelope_ping(struct envelope *e, struct exchange *x)
{
    static const char comment[] = ": ping\n\n";
    if (!e->stream)
        return;
    begin_stream(e, x);
    exchange_write(x, comment, sizeof comment - 1);
}
