/* POST /attention: what the last of some tokens attends to in one layer. Layers that mix tokens in another way
 * have no such weights. */
#include <stdlib.h>

#include "app/serve/api/answers.h"
#include "app/serve/api/base64.h"
#include "app/serve/api/token_pages.h"
#include "app/serve/handlers.h"
#include "app/serve/serve_options.h"
#include "tern_lab.h"

struct attention_request {
    struct server *server;
    struct prompt prompt;
    int64_t layer, head; /* head -1: all */
    size_t n_heads;      /* that are asked for */
    bool with_pieces;
    struct job *job;
};

static void close_request(void *arg)
{
    struct attention_request *r = arg;
    if (r) {
        job_close(r->job);
        free(r->prompt.tokens);
    }
    free(r);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void reply(const struct attention_request *r, struct exchange *x, const struct job_event *e)
{
    json_t *weights = base64_floats(e->weights, e->n_weights);
    json_t *body =
        weights ? json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "object", "attention", "layer",
                            (json_int_t)r->layer, "n_heads", (json_int_t)r->n_heads, "n_tokens",
                            (json_int_t)e->n_prompt, "n_cached", (json_int_t)e->n_cached, "weights",
                            weights)
                : NULL;
    struct fault f = {0};
    bool ok = body && !json_object_set_new(body, "head", r->head < 0 ? json_null() : json_integer(r->head));
    if (ok && r->with_pieces)
        ok = !json_object_set_new(body, "tokens", token_pages_pieces(r->server, &r->prompt));
    if (!ok) {
        json_decref(body);
        fault_no_memory(&f, "the request");
        exchange_fault(x, &f);
        return;
    }
    exchange_log(x, " prompt=%zu cached=%zu", e->n_prompt, e->n_cached);
    exchange_reply_json(x, 200, body);
}

static void advance(void *arg, struct exchange *x)
{
    struct attention_request *r = arg;
    struct job_event e;
    if (!r->job || !job_next(r->job, &e))
        return;
    if (e.kind == JOB_FAILED) {
        struct fault f = e.fault;
        fault_blame(&f, "tokens");
        exchange_fault(x, &f);
    } else {
        reply(r, x, &e);
    }
    job_close(r->job);
    r->job = NULL;
}

/* ---- the request ----------------------------------------------------------------------------- */

static bool check_layer(struct attention_request *r, const struct server *s, struct fields *f)
{
    struct tern_layer_info layer;
    int64_t max = serve_number(s->options, SERVE_MAX_ATTENTION);
    tern_model_layer(s->model, (uint64_t)r->layer, &layer);
    if (!layer.n_heads)
        return fields_fault(f, "layer", "invalid_value",
                            "%lld has no attention weights: it is %s", (long long)r->layer,
                            layer.mixer & 2   ? "recurrent"
                            : layer.mixer & 4 ? "a convolution"
                                              : "a feed-forward layer alone");
    if (!fields_integer(f, "head", 0, (int64_t)layer.n_heads - 1, &r->head))
        return false;
    r->n_heads = r->head < 0 ? layer.n_heads : 1;
    return r->n_heads <= (size_t)max / r->prompt.n ||
           fields_fault(f, "tokens", "limit_exceeded",
                        "are %zu, for %zu heads: at most %lld weights are allowed%s", r->prompt.n,
                        r->n_heads, (long long)max, r->n_heads > 1 ? "; ask for one `head`" : "");
}

static bool read_request(struct attention_request *r, const struct server *s, struct fields *f,
                         char *ignored)
{
    json_t *tokens = NULL;
    r->head = -1;
    if (!fields_need(f, "tokens") || !fields_array(f, "tokens", SIZE_MAX, &tokens) ||
        !prompts_read_ids(&r->prompt, s, f, "tokens", tokens, SIZE_MAX))
        return false;
    if (!r->prompt.n)
        return fields_fault(f, "tokens", "invalid_value", "must not be empty");
    if (!fields_need(f, "layer") ||
        !fields_integer(f, "layer", 0, (int64_t)s->info.n_layers - 1, &r->layer) ||
        !check_layer(r, s, f) || !fields_bool(f, "with_pieces", &r->with_pieces))
        return false;
    fields_ignore(f, "model");
    fields_unknown(f, ignored);
    return true;
}

static bool submit(struct attention_request *r, struct server *s, struct exchange *x,
                   struct fault *f)
{
    struct job_request job = {.kind = JOB_ATTENTION,
                              .layer = (uint32_t)r->layer,
                              .head = r->head,
                              .cache_prompt = true,
                              .client = exchange_client(x)};
    if (!prompts_give(&job, r->prompt.tokens, r->prompt.n, f))
        return false;
    r->job = job_submit(s->scheduler, &job, exchange_wake, x, f);
    if (!r->job)
        fault_blame(f, "tokens");
    return r->job;
}

void handle_attention(struct server *s, struct exchange *x)
{
    static const struct exchange_waiter waiter = {advance, NULL, close_request};
    struct attention_request *r = calloc(1, sizeof *r);
    struct fault f = {0};
    struct fields fields;
    char ignored[FIELDS_TEXT_MAX] = "";
    if (!r) {
        fault_no_memory(&f, "the request");
        exchange_fault(x, &f);
        return;
    }
    r->server = s;
    if (!fields_open(&fields, exchange_json(x), "", &f) || !read_request(r, s, &fields, ignored) ||
        !submit(r, s, x, &f)) {
        close_request(r);
        exchange_fault(x, &f);
        return;
    }
    answers_ignored(x, ignored);
    exchange_wait(x, &waiter, r);
}
