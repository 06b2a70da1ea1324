/* Patches: see patch.h. */
#include "app/look/patch.h"

#include "app/cli/number.h"
#include "app/look/hooks.h"
#include "app/look/text_pieces.h"

#include <stdlib.h>
#include <string.h>

/* What the second text gives goes into the values of edits first .. n - 1. */
struct patch_source {
    struct edits *x;
    size_t first;
    bool no_memory;
};

static void watch(void *arg, const struct tern_observation *o)
{
    struct patch_source *t = arg;
    for (size_t k = t->first; k < t->x->n; k++) {
        struct edit *x = &t->x->list[k];
        if (x->layer != o->layer || strcmp(x->operation, o->operation))
            continue;
        if (!x->n) { /* the first rows say how wide they are */
            float *values = calloc(o->columns * (x->last - x->first + 1), sizeof *values);
            t->no_memory = t->no_memory || !values;
            if (!values)
                continue;
            free(x->values);
            x->values = values, x->n = o->columns;
        }
        for (size_t i = 0; i < o->rows; i++)
            if (o->at[i].position >= x->first && o->at[i].position <= x->last)
                memcpy(x->values + (o->at[i].position - x->first) * x->n, o->values + i * o->stride,
                       x->n * sizeof *x->values);
    }
}

/* "@A", "@A:B" or nothing: positions of a text of n */
static enum tern_status take_positions(struct edit *x, const char *word, size_t length,
                                       const char *at, size_t n, struct tern_error *e)
{
    size_t left = (size_t)(word + length - at), colon = strcspn(at, ":,");
    uint64_t from = 0, to = n - 1;
    bool is_range = colon < left;
    if (left && (!number_u64(at + 1, (is_range ? colon : left) - 1, &from) ||
                 (is_range && !number_u64(at + colon + 1, left - colon - 1, &to))))
        return parser_usage(e, "--patch: '%.*s' does not end in positions, as in @4 or @2:5",
                            (int)length, word);
    if (left && !is_range)
        to = from;
    if (from > to || to >= n)
        return parser_usage(e, "--patch %.*s: the text has positions 0 to %zu", (int)length, word,
                            n - 1);
    x->first = (uint32_t)from, x->last = (uint32_t)to;
    return TERN_OK;
}

/* word [n] is "L.HOOK@A:B". */
static enum tern_status take_word(struct edits *x, const struct subject *s, const char *word,
                                  size_t n, struct tern_error *e)
{
    size_t dot = strcspn(word, ".,"), at = strcspn(word, "@,");
    char names[300];
    uint64_t layer;
    struct hook hook;
    n = n < 100 ? n : 100;
    if (dot >= at || !number_u64(word, dot, &layer))
        return parser_usage(e,
                            "--patch: '%.*s' is no layer, hook and positions, as in "
                            "3.hook_resid_post@4 or 2.attn.hook_z@2:5",
                            (int)n, word);
    if (layer >= s->info.n_layers)
        return parser_usage(e, "--patch %.*s: the model has layers 0 to %llu", (int)n, word,
                            (unsigned long long)s->info.n_layers - 1);
    if (!hooks_find(s, layer, word + dot + 1, at - dot - 1, &hook))
        return parser_usage(e, "--patch %.*s: the hooks of layer %llu that can be patched are %s",
                            (int)n, word, (unsigned long long)layer,
                            hooks_names(s, layer, names, sizeof names));
    struct edit *edit = edits_add(x, hook.layer, hook.operation, 0, 1);
    if (!edit)
        return parser_no_memory(e);
    edit->n = 0, edit->has_rows = true;
    return take_positions(edit, word, n, word + at, s->n_prompt, e);
}

static enum tern_status run_source(struct patch_source *t, struct subject *s, struct tern_error *e)
{
    const char *text = s->o->value[LOOK_FROM].text;
    tern_token *tokens = NULL;
    size_t n = 0;
    enum tern_status status = subject_tokenize(s, text, strlen(text), &tokens, &n, e);
    if (!status && n != s->n_prompt)
        status = parser_usage(e,
                              "--from has %zu tokens, but the text has %zu: a patch needs the "
                              "same number",
                              n, s->n_prompt);
    if (!status)
        status = text_pieces_watch(s, tokens, n, (uint32_t)n, watch, t, e);
    free(tokens);
    return status || !t->no_memory ? status : parser_no_memory(e);
}

enum tern_status patch_take(struct edits *x, struct subject *s, struct tern_error *e)
{
    const char *text = s->o->value[LOOK_PATCH].text;
    struct patch_source source = {.x = x, .first = x->n};
    enum tern_status status = TERN_OK;
    if (!text)
        return TERN_OK;
    if (!s->o->value[LOOK_FROM].given)
        return parser_usage(e, "--patch needs a second text: --from TEXT");
    for (size_t n; !status && text; text = text[n] ? text + n + 1 : NULL) {
        n = strcspn(text, ",");
        status = take_word(x, s, text, n, e);
    }
    return status ? status : run_source(&source, s, e);
}
