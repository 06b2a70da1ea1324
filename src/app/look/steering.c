/* Steering: see steering.h. From two texts: x after the layer at the last token of the second, minus
 * the same of the first. As in llama.cpp, nothing is added after layer 0. */
#include "app/look/steering.h"

#include "app/look/control_vector.h"
#include "app/look/text_pieces.h"

#include <stdlib.h>
#include <string.h>

struct last_row {
    uint64_t layer;
    uint32_t position;
    double sign;
    struct control_vector *v;
};

static void watch(void *arg, const struct tern_observation *o)
{
    struct last_row *t = arg;
    if (o->layer != t->layer || strcmp(o->operation, "out"))
        return;
    for (size_t i = 0; i < o->rows; i++)
        for (size_t c = 0; o->at[i].position == t->position && c < o->columns; c++)
            t->v->values[t->layer * t->v->dim + c] +=
                (float)(t->sign * (double)o->values[i * o->stride + c]);
}

/* Adds sign times the last row of a text. */
static enum tern_status add_text(struct subject *s, const char *text, struct last_row *t,
                                 struct tern_error *e)
{
    tern_token *tokens = NULL;
    size_t n = 0;
    enum tern_status status = subject_tokenize(s, text, strlen(text), &tokens, &n, e);
    if (!status && !n)
        status = parser_usage(e, "--steer-from and --steer-to need at least one token");
    t->position = (uint32_t)n - 1;
    if (!status)
        status = text_pieces_watch(s, tokens, n, (uint32_t)n, watch, t, e);
    free(tokens);
    return status;
}

static enum tern_status make(struct subject *s, struct control_vector *v, struct tern_error *e)
{
    const struct option_value *o = s->o->value;
    struct last_row t = {.v = v, .sign = 1};
    t.layer = o[LOOK_STEER_LAYER].given ? (uint64_t)o[LOOK_STEER_LAYER].integer
                                        : (s->info.n_layers + 1) / 2;
    enum tern_status status = control_vector_init(v, s->info.n_layers, s->info.dim, e);
    if (!status)
        status = add_text(s, o[LOOK_STEER_TO].text, &t, e);
    t.sign = -1;
    if (!status)
        status = add_text(s, o[LOOK_STEER_FROM].text, &t, e);
    if (!status)
        v->has[t.layer] = 1;
    return status;
}

static enum tern_status add_edits(struct edits *x, const struct subject *s,
                                  const struct control_vector *v, struct tern_error *e)
{
    const struct option_value *o = s->o->value;
    float scale = o[LOOK_STEER_BY].given ? (float)o[LOOK_STEER_BY].real : 1;
    bool any = false;
    for (uint64_t l = 1; l < s->info.n_layers; l++) {
        if (!v->has[l] || (o[LOOK_STEER_LAYER].given && l != (uint64_t)o[LOOK_STEER_LAYER].integer))
            continue;
        struct edit *edit = edits_add(x, l, "out", 0, v->dim);
        if (!edit)
            return parser_no_memory(e);
        edit->is_added = any = true;
        for (size_t c = 0; c < v->dim; c++)
            edit->values[c] = scale * v->values[l * v->dim + c];
    }
    if (!any)
        return parser_usage(e, "--steer-layer %lld: the file has no direction for this layer",
                            (long long)o[LOOK_STEER_LAYER].integer);
    return TERN_OK;
}

static enum tern_status check(const struct subject *s, struct tern_error *e)
{
    const struct option_value *o = s->o->value;
    unsigned long long last = s->info.n_layers - 1;
    if (o[LOOK_STEER].given + o[LOOK_STEER_TO].given > 1)
        return parser_usage(e,
                            "--steer and --steer-to exclude each other: a direction comes from a "
                            "file or from two texts");
    if (!last)
        return parser_usage(e, "a model of one layer cannot be steered: nothing is added after "
                               "layer 0");
    if (o[LOOK_STEER_LAYER].given &&
        (!o[LOOK_STEER_LAYER].integer || o[LOOK_STEER_LAYER].integer > (int64_t)last))
        return parser_usage(e, "--steer-layer %lld: layers 1 to %llu can be steered",
                            (long long)o[LOOK_STEER_LAYER].integer, last);
    return TERN_OK;
}

enum tern_status steering_take(struct edits *x, struct subject *s, struct tern_error *e)
{
    const struct option_value *o = s->o->value;
    struct control_vector *v = &x->direction;
    if (!o[LOOK_STEER].given && !o[LOOK_STEER_TO].given)
        return TERN_OK;
    enum tern_status status = check(s, e);
    if (!status && o[LOOK_STEER].given)
        status = control_vector_read(v, o[LOOK_STEER].text, s->info.n_layers, s->info.dim, e);
    else if (!status)
        status = make(s, v, e);
    return status ? status : add_edits(x, s, v, e);
}
