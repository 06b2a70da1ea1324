/* Attention of one token: see run_attention.h. Keys are read in the cache, so that a beginning of the prompt
 * that was evaluated before serves here, too. */
#include "app/serve/model/run_attention.h"

#include <math.h>
#include <stdlib.h>

#include "app/cli/stopwatch.h"
#include "app/serve/model/run_text.h"

static void fail(struct job *j, const struct tern_error *e)
{
    run_text_fail(j, e->code == TERN_NO_MEMORY ? 503 : 500, "%s", e->text);
}

bool run_attention_begin(struct scheduler *s, struct job *j)
{
    struct tern_error e = {0};
    struct tern_attention_params p = {
        .seq = j->seq, .n_positions = (uint32_t)j->request.n_prompt, .last = 1};
    unsigned char *layers = calloc(s->server->info.n_layers, sizeof *layers);
    if (!layers) {
        run_text_fail(j, 503, "no memory for the attention of a token");
        return false;
    }
    layers[j->request.layer] = 1;
    p.layers = layers;
    enum tern_status status = tern_attention_open(&j->attention, s->ctx, &p, &e);
    free(layers);
    if (status)
        fail(j, &e);
    return !status;
}

/* ---- the batch with the last row ------------------------------------------------------------ */

static void feed(void *arg, const struct tern_observation *o)
{
    struct scheduler *s = arg;
    for (uint32_t i = 0; i < s->n_parallel; i++) /* the model thread alone changes `running` */
        if (s->running[i] && s->running[i]->attention)
            tern_attention_feed(s->running[i]->attention, o);
}

enum tern_status run_attention_look(struct scheduler *s, struct job *const *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct job *j = jobs[i];
        const tern_token last = j->request.prompt[j->request.n_prompt - 1];
        if (!tern_observe(s->ctx, feed, s, &j->error)) /* an error ends the job */
            (void)tern_batch_add(s->ctx, j->seq, last, 0, &j->error);
    }
    enum tern_status status = tern_forward(s->ctx);
    (void)tern_observe(s->ctx, NULL, NULL, NULL);
    return status;
}

/* ---- weights -------------------------------------------------------------------------------- */

/* Of one head, or of all: [n_heads, n_prompt] */
static enum tern_status take_weights(struct scheduler *s, struct job *j, struct tern_error *e)
{
    const struct job_request *r = &j->request;
    struct tern_layer_info layer;
    uint32_t last = (uint32_t)r->n_prompt - 1;
    tern_model_layer(s->server->model, r->layer, &layer);
    size_t first = r->head < 0 ? 0 : (size_t)r->head, n = r->head < 0 ? layer.n_heads : 1;
    enum tern_status status = TERN_OK;
    j->weights = malloc(n * r->n_prompt * sizeof *j->weights);
    if (!j->weights) {
        run_text_fail(j, 503, "no memory for the attention of a token");
        return TERN_OK;
    }
    for (size_t h = 0; h < n && !status; h++)
        status = tern_attention_rows(j->attention, r->layer, first + h, TERN_ATTENTION_WEIGHTS,
                                     last, 1, j->weights + h * r->n_prompt, r->n_prompt, e);
    j->last.weights = j->weights;
    j->last.n_weights = n * r->n_prompt;
    return status;
}

void run_attention_end(struct scheduler *s, struct job *j)
{
    struct tern_error e = j->error;
    double now = stopwatch_now();
    j->last = (struct job_event){.kind = JOB_DONE,
                                 .n_prompt = j->request.n_prompt,
                                 .n_cached = j->n_cached,
                                 .text = "",
                                 .queue_seconds = j->started - j->submitted,
                                 .prompt_seconds = now - j->started};
    bool is_read = tern_seq_length(s->ctx, j->seq) == j->request.n_prompt;
    if (e.code || (is_read && take_weights(s, j, &e)))
        fail(j, &e);
    for (size_t i = 0; j->last.kind == JOB_DONE && i < j->last.n_weights; i++)
        if (!isfinite(j->weights[i]))
            run_text_fail(j, 500, "the attention is not finite: the weights may be damaged");
    tern_attention_close(j->attention);
    j->attention = NULL;
}
