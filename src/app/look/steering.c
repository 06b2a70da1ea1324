/* Steering: see steering.h. From two texts: the stream at the last token of the second, minus the
 * same of the first, at each place that is chosen. */
#include "app/look/steering.h"

#include "app/look/control_vector.h"
#include "app/look/text_pieces.h"

#include <stdlib.h>
#include <string.h>

struct last_row {
    uint32_t position;
    double sign;
    struct control_vector *v;
};

static void watch(void *arg, const struct tern_observation *o)
{
    struct last_row *t = arg;
    bool is_out = !strcmp(o->operation, "out");
    uint64_t place = is_out ? o->layer + 1 : 0;
    if ((!is_out && strcmp(o->operation, "embed")) || !t->v->has[place])
        return;
    for (size_t i = 0; i < o->rows; i++)
        for (size_t c = 0; o->at[i].position == t->position && c < o->columns; c++)
            t->v->values[place * t->v->dim + c] +=
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

static enum tern_status make(struct subject *s, struct control_vector *v,
                             const unsigned char *chosen, struct tern_error *e)
{
    const struct option_value *o = s->o->value;
    struct last_row t = {.v = v, .sign = 1};
    enum tern_status status = control_vector_init(v, s->info.n_layers, s->info.dim, e);
    if (!status)
        memcpy(v->has, chosen, v->n_places);
    if (!status)
        status = add_text(s, o[LOOK_STEER_TO].text, &t, e);
    t.sign = -1;
    return status ? status : add_text(s, o[LOOK_STEER_FROM].text, &t, e);
}

static enum tern_status add_edits(struct edits *x, const struct subject *s,
                                  const struct control_vector *v, const unsigned char *chosen,
                                  struct tern_error *e)
{
    const struct option_value *o = s->o->value;
    float scale = o[LOOK_STEER_BY].given ? (float)o[LOOK_STEER_BY].real : 1;
    bool any = false;
    for (uint64_t i = 0; i < v->n_places; i++) {
        if (!v->has[i] || !chosen[i])
            continue;
        struct edit *edit = edits_add(x, i ? i - 1 : 0, i ? "out" : "embed", 0, v->dim);
        if (!edit)
            return parser_no_memory(e);
        edit->is_added = any = true;
        for (size_t c = 0; c < v->dim; c++)
            edit->values[c] = scale * v->values[i * v->dim + c];
    }
    if (!any)
        return parser_usage(e, "--steer-layer %.100s: the file has no direction there",
                            o[LOOK_STEER_LAYER].text);
    return TERN_OK;
}

/* chosen [layers + 1]: 1 at the places of --steer-layer; by default a layer in the middle, or all
 * that the file has */
static enum tern_status choose(const struct subject *s, unsigned char *chosen, struct tern_error *e)
{
    const char *text = s->o->value[LOOK_STEER_LAYER].text;
    uint64_t n = s->info.n_layers, from, to;
    if (!text && s->o->value[LOOK_STEER].given)
        memset(chosen, 1, n + 1);
    else if (!text)
        chosen[(n < 2 ? 0 : (n + 1) / 2) + 1] = 1;
    for (bool has_more = text != NULL; has_more; has_more = *text != 0) {
        const char *word = text;
        size_t length = strcspn(word, ",");
        if (length == 5 && !memcmp(word, "embed", 5)) {
            chosen[0] = 1;
            text += length + (word[length] == ',');
        } else if (subject_take_layers(s, &text, &from, &to))
            memset(chosen + 1 + from, 1, to - from + 1);
        else
            return parser_usage(e,
                                "--steer-layer: '%.*s' is no layer from 0 to %llu, no range of "
                                "them, and not embed",
                                length < 100 ? (int)length : 100, word, (unsigned long long)n - 1);
    }
    return TERN_OK;
}

enum tern_status steering_take(struct edits *x, struct subject *s, struct tern_error *e)
{
    const struct option_value *o = s->o->value;
    struct control_vector *v = &x->direction;
    if (!o[LOOK_STEER].given && !o[LOOK_STEER_TO].given)
        return TERN_OK;
    if (o[LOOK_STEER].given && o[LOOK_STEER_TO].given)
        return parser_usage(e,
                            "--steer and --steer-to exclude each other: a direction comes from a "
                            "file or from two texts");
    unsigned char *chosen = calloc(s->info.n_layers + 1, 1);
    enum tern_status status = chosen ? choose(s, chosen, e) : parser_no_memory(e);
    if (!status && o[LOOK_STEER].given)
        status = control_vector_read(v, o[LOOK_STEER].text, s->info.n_layers, s->info.dim, e);
    else if (!status)
        status = make(s, v, chosen, e);
    if (!status)
        status = add_edits(x, s, v, chosen, e);
    free(chosen);
    return status;
}
