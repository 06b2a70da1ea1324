/* Capture: see capture.h. Rows go to the file as they are observed; only q, k and v of the layers
 * whose [rows, rows] arrays are wanted stay in memory. */
#include "app/look/capture.h"

#include "app/cli/number.h"
#include "app/look/atlas.h"

#include <stdlib.h>
#include <string.h>

struct capture {
    struct subject *s;
    struct hook *hooks;          /* [n], owned, like the arrays */
    struct tensor_array *arrays; /* [n], then the tokens' */
    size_t n;
    uint32_t first, last; /* positions that are kept */
    struct tensor_file file;
    tern_attention *attention; /* NULL: no array is [rows, rows] */
    float *row;                /* scratch: one row of any array; owned */
};

/* ---- while the model runs -------------------------------------------------------------------- */

/* q or k of a row as it was before RoPE: turned back, and divided by the square of the factor */
void capture_turn_back(const struct subject *s, const struct tern_observation *o,
                       const struct tern_row *at, const float *x, float *out)
{
    struct tern_layer_info w;
    tern_model_layer(s->model, o->layer, &w);
    size_t half = w.rope_dims / 2;
    float *cos = out + o->columns, *sin = cos + half; /* the scratch has room */
    memcpy(out, x, o->columns * sizeof *out);
    tern_rope_angles(s->ctx, at->seq, o->layer, at->position, cos, sin);
    for (size_t h = 0; h + w.head_dim <= o->columns; h += w.head_dim)
        for (size_t i = 0; i < half; i++) {
            float *a = &out[h + i], *b = &out[h + i + half], p = *a, q = *b;
            float square = cos[i] * cos[i] + sin[i] * sin[i];
            *a = (p * cos[i] + q * sin[i]) / square;
            *b = (q * cos[i] - p * sin[i]) / square;
        }
}

static void write_rows(struct capture *c, const struct hook *h, const struct tensor_array *a,
                       const struct tern_observation *o)
{
    for (size_t i = 0; i < o->rows; i++) {
        const float *x = o->values + i * o->stride;
        uint32_t position = o->at[i].position;
        if (position < c->first || position > c->last)
            continue;
        if (h->kind == HOOK_UNTURN)
            capture_turn_back(c->s, o, &o->at[i], x, c->row);
        tensor_file_write(&c->file, a, (uint64_t)(position - c->first) * o->columns,
                          h->kind == HOOK_UNTURN ? c->row : x, o->columns);
    }
}

static void watch(void *arg, const struct tern_observation *o)
{
    struct capture *c = arg;
    if (c->attention)
        tern_attention_feed(c->attention, o);
    for (size_t i = 0; i < c->n; i++) {
        const struct hook *h = &c->hooks[i];
        if (h->layer == o->layer && h->kind <= HOOK_UNTURN && !strcmp(h->operation, o->operation))
            write_rows(c, h, &c->arrays[i], o);
    }
}

/* ---- arrays that are [rows, rows] ------------------------------------------------------------ */

static bool is_matrix(const struct hook *h)
{
    return h->kind == HOOK_SCORES || h->kind == HOOK_PATTERN;
}

static enum tern_status write_matrix(struct capture *c, const struct hook *h,
                                     const struct tensor_array *a, struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    size_t rows = a->shape[2], length = tern_attention_length(c->attention);
    enum tern_attention_stage stage =
        h->kind == HOOK_SCORES ? TERN_ATTENTION_MASKED : TERN_ATTENTION_WEIGHTS;
    for (size_t head = 0; head < a->shape[1]; head++)
        for (size_t i = 0; !status && i < rows; i++) {
            status = tern_attention_rows(c->attention, h->layer, head, stage,
                                         c->first + (uint32_t)i, 1, c->row, length, e);
            tensor_file_write(&c->file, a, (head * rows + i) * rows, c->row + c->first, rows);
        }
    return status;
}

/* ---- before ---------------------------------------------------------------------------------- */

/* Room for one row of any array, and the angles of RoPE */
static enum tern_status take_row(struct capture *c, size_t n, struct tern_error *e)
{
    size_t most = n;
    for (size_t i = 0; i < c->n; i++) {
        const struct tensor_array *a = &c->arrays[i];
        size_t columns = a->shape[2] * (a->n_dims == 4 ? 2 * a->shape[3] : 1);
        if (!is_matrix(&c->hooks[i]) && columns > most)
            most = columns;
    }
    c->row = malloc(most * sizeof *c->row);
    return c->row ? TERN_OK : parser_no_memory_for(e, "a row");
}

/* Attention of the layers whose matrices are wanted */
static enum tern_status open_attention(struct capture *c, size_t n, struct tern_error *e)
{
    struct tern_attention_params p = {.n_positions = (uint32_t)n};
    unsigned char *layers = calloc(c->s->info.n_layers, 1);
    bool any = false;
    for (size_t i = 0; layers && i < c->n; i++)
        if (is_matrix(&c->hooks[i]))
            layers[c->hooks[i].layer] = 1, any = true;
    p.layers = layers;
    subject_mask(c->s, &p);
    enum tern_status status = TERN_OK;
    if (any)
        status = atlas_check_memory(c->s, &p, e);
    if (any && !status)
        status = tern_attention_open(&c->attention, c->s->ctx, &p, e);
    free(layers);
    return status;
}

/* The tokens' array, after those of the hooks */
static void add_tokens(struct capture *c)
{
    struct tensor_array *t = &c->arrays[c->n];
    *t = (struct tensor_array){.name = "tokens", .is_int = true, .n_dims = 2};
    t->shape[0] = 1, t->shape[1] = c->last - c->first + 1;
}

static enum tern_status prepare(struct capture *c, const char *path, struct tern_error *e)
{
    const struct option_value *v = c->s->o->value;
    size_t n = c->s->n_prompt + (size_t)v[LOOK_N_PREDICT].integer;
    enum tern_status status = subject_positions(c->s, n, &c->first, &c->last, e);
    if (!status)
        status = hooks_choose(c->s, v[LOOK_HOOKS].text, c->last - c->first + 1,
                              subject_has_weights(c->s), &c->hooks, &c->arrays, &c->n, e);
    if (status)
        return status;
    add_tokens(c);
    status = tensor_file_plan(&c->file, path, c->arrays, c->n + 1, e);
    if (!status)
        status = take_row(c, n, e);
    if (!status)
        status = subject_begin(c->s, e);
    if (!status)
        status = open_attention(c, n, e);
    if (!status && !v[LOOK_QUIET].given) {
        char bytes[32];
        fprintf(stderr, "capture: %zu arrays, %s\n", c->n + 1,
                number_bytes(c->file.bytes, bytes, sizeof bytes));
    }
    return status;
}

/* ---- the job --------------------------------------------------------------------------------- */

static enum tern_status write_all(struct capture *c, const char *path, struct tern_error *e)
{
    enum tern_status status = tensor_file_open(&c->file, path, c->arrays, c->n + 1, e);
    if (status)
        return status;
    status = tern_observe(c->s->ctx, watch, c, e);
    if (!status)
        status = subject_run(c->s, NULL, NULL, e);
    for (size_t i = 0; !status && i < c->n; i++)
        if (is_matrix(&c->hooks[i]))
            status = write_matrix(c, &c->hooks[i], &c->arrays[i], e);
    if (!status && c->s->n <= c->last) {
        snprintf(e->text, sizeof e->text,
                 "the model ended the text after %zu tokens, and position %u was wanted: use "
                 "--positions or a smaller -n",
                 c->s->n, c->last);
        status = e->code = TERN_LIMIT;
    }
    if (!status)
        tensor_file_write(&c->file, &c->arrays[c->n], 0, c->s->tokens + c->first,
                          c->last - c->first + 1);
    return tensor_file_close(&c->file, status, e);
}

enum tern_status capture_text(struct subject *s, struct tern_error *e)
{
    struct capture c = {.s = s};
    const char *path = s->o->value[LOOK_CAPTURE].text;
    if (!tensor_file_has_name(path))
        return parser_usage(e, "--capture %.200s: the name must end in .npz or .safetensors", path);
    enum tern_status status = prepare(&c, path, e);
    if (!status)
        status = write_all(&c, path, e);
    if (s->ctx)
        (void)tern_observe(s->ctx, NULL, NULL, NULL);
    tern_attention_close(c.attention);
    free(c.hooks);
    free(c.arrays);
    free(c.row);
    return status;
}
