/* Attention as a matrix: see atlas.h. */
#include "app/look/atlas.h"

#include "app/cli/number.h"
#include "app/look/atlas_page.h"
#include "app/look/head_map.h"
#include "app/look/page.h"
#include "app/look/terminal_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void feed(void *arg, const struct tern_observation *o)
{
    tern_attention_feed(arg, o);
}

enum tern_status atlas_check_memory(const struct subject *s, const struct tern_attention_params *p,
                                    struct tern_error *e)
{
    struct tern_memory plan;
    char needs[32], has[32];
    uint64_t bytes = tern_attention_bytes(s->ctx, p);
    tern_context_memory(s->ctx, &plan);
    uint64_t used = plan.weights + plan.cache + plan.batch;
    uint64_t left = plan.available > used ? plan.available - used : 0;
    number_bytes(bytes, needs, sizeof needs);
    number_bytes(left, has, sizeof has);
    if (bytes > left) {
        snprintf(e->text, sizeof e->text,
                 "q, k and v of %u positions need %s, and %s are left: choose fewer --layers or a "
                 "shorter text",
                 p->n_positions, needs, has);
        return e->code = TERN_NO_MEMORY;
    }
    if (!s->o->value[LOOK_QUIET].given && bytes > 64 << 20)
        fprintf(stderr, "memory: q, k and v of %u positions take %s\n", p->n_positions, needs);
    return TERN_OK;
}

enum tern_status atlas_record(struct subject *s, tern_attention **a, struct tern_error *e)
{
    unsigned char *layers = NULL;
    struct tern_memory plan;
    *a = NULL;
    enum tern_status status = subject_layers(s, &layers, e);
    if (!status)
        status = subject_begin(s, e);
    if (!status) {
        tern_context_memory(s->ctx, &plan);
        struct tern_attention_params p = {.n_positions = plan.n_ctx, .layers = layers};
        subject_mask(s, &p);
        status = atlas_check_memory(s, &p, e);
        if (!status)
            status = tern_attention_open(a, s->ctx, &p, e);
    }
    free(layers);
    if (!status)
        status = tern_observe(s->ctx, feed, *a, e);
    if (!status)
        status = subject_run(s, NULL, NULL, e);
    return status;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && !strcmp(text + n - m, end);
}

static enum tern_status write_svg(const struct subject *s, const tern_attention *a,
                                  const char *path, struct tern_error *e)
{
    struct head_map m;
    enum tern_status status = head_map_open(&m, s, a, e);
    if (!status)
        status = head_map_write_svg(&m, path, e);
    head_map_close(&m);
    return status;
}

/* What cannot be shown is refused before anything is computed. */
static enum tern_status check(const struct subject *s, bool is_svg, struct tern_error *e)
{
    const char *path = s->o->value[LOOK_OUTPUT].text, *one = s->o->value[LOOK_HEAD].text;
    uint64_t layer, head;
    if (path && !is_svg && !page_is_named(path))
        return parser_usage(e, "-o %.200s: the name must end in .html or .svg", path);
    if (is_svg && !one)
        return parser_usage(e, "-o %.200s: a picture needs a head, as in --head 2.3", path);
    if (!subject_has_weights(s))
        return parser_usage(e,
                            "--attn %s has no matrix of weights to draw; look at it with --lens "
                            "or --surprise",
                            s->o->value[LOOK_ATTN].text);
    unsigned char *layers = NULL;
    enum tern_status status = one ? subject_head(s, one, &layer, &head, e) : TERN_OK;
    if (!status)
        status = subject_layers(s, &layers, e);
    if (!status && one && !layers[layer])
        status = parser_usage(e, "--head %.100s is in none of the --layers", one);
    free(layers);
    if (status)
        return status;
    return is_svg ? head_map_check_svg(subject_length(s), e)
           : path ? atlas_page_check(s, e)
                  : terminal_map_check(s, e);
}

enum tern_status atlas_show(struct subject *s, struct tern_error *e)
{
    tern_attention *a = NULL;
    const char *path = s->o->value[LOOK_OUTPUT].text;
    bool is_svg = path && ends_in(path, ".svg");
    enum tern_status status = check(s, is_svg, e);
    if (!status)
        status = atlas_record(s, &a, e);
    if (!status)
        status = is_svg ? write_svg(s, a, path, e)
                 : path ? atlas_page_write(s, a, path, e)
                        : terminal_map_show(s, a, e);
    tern_attention_close(a);
    return status;
}
