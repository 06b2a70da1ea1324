/* The guided tour: see tour.h. */
#include "app/look/tour.h"

#include "app/cli/cache_size.h"
#include "app/look/edits.h"
#include "app/look/page.h"
#include "app/look/tour_examples.h"
#include "app/look/tour_experiments.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_TOKENS = 48,   /* of a tour, continued text included */
    MOST_COLUMNS = 512, /* of a vector that is written out */
    TOP = 10,
    ROOM = 24
};

struct kept { /* what one operation gave, of all positions */
    const char *name;
    size_t columns;
    float *values; /* [n_ctx, columns]; owned */
};

struct tour {
    struct subject *s;
    uint64_t layer, head;
    struct tern_layer_info w;
    tern_attention *a;
    struct kept kept[ROOM];
    size_t n_kept, n_ctx;
    struct tern_choice top[TOP]; /* after the last token of the prompt, most probable first */
    float top_logits[TOP];
    size_t n_top;
    bool failed; /* no memory */
};

static enum tern_status no_memory(struct tern_error *e)
{
    return parser_no_memory_for(e, "the tour");
}

/* ---- the run -------------------------------------------------------------------------------- */

/* The name under which the page finds an operation, or NULL: not shown */
static const char *name_of(const struct tour *t, const struct tern_observation *o)
{
    if (!strcmp(o->operation, "embed"))
        return o->operation;
    if (t->layer && o->layer == t->layer - 1 && !strcmp(o->operation, "out"))
        return "in";
    if (o->layer == t->s->info.n_layers)
        return strcmp(o->operation, "logits") ? o->operation : NULL;
    return o->layer == t->layer ? o->operation : NULL;
}

static struct kept *find(struct tour *t, const char *name, size_t columns)
{
    size_t i = 0;
    while (i < t->n_kept && strcmp(t->kept[i].name, name))
        i++;
    if (i < t->n_kept)
        return &t->kept[i];
    float *values = i < ROOM ? calloc(t->n_ctx * columns, sizeof *values) : NULL;
    t->failed = t->failed || !values;
    if (!values)
        return NULL;
    t->kept[t->n_kept++] = (struct kept){name, columns, values};
    return &t->kept[i];
}

static void watch(void *arg, const struct tern_observation *o)
{
    struct tour *t = arg;
    const char *name = name_of(t, o);
    tern_attention_feed(t->a, o);
    struct kept *k = name ? find(t, name, o->columns) : NULL;
    for (size_t i = 0; k && i < o->rows; i++)
        memcpy(k->values + o->at[i].position * k->columns, o->values + i * o->stride,
               k->columns * sizeof *k->values);
}

/* The most probable tokens after the prompt */
static int take_logits(void *arg, size_t first, size_t n)
{
    struct tour *t = arg;
    if (first + n != t->s->n_prompt)
        return 0;
    const float *logits = tern_logits(t->s->ctx, n - 1);
    t->n_top = tern_top(t->s->ctx, logits, t->top, TOP);
    for (size_t i = 0; i < t->n_top; i++)
        t->top_logits[i] = logits[t->top[i].token];
    return 0;
}

static enum tern_status check(struct tour *t, struct tern_error *e)
{
    const struct option_value *v = t->s->o->value;
    size_t n = subject_length(t->s);
    if (n > MOST_TOKENS) {
        snprintf(e->text, sizeof e->text,
                 "a tour has at most %d tokens, and these are %zu: give a shorter text or a "
                 "smaller -n",
                 MOST_TOKENS, n);
        return e->code = TERN_LIMIT;
    }
    if (edits_are_wanted(t->s->o))
        return parser_usage(e, "--tour shows the model as it is: no --ablate, --patch or --steer");
    enum tern_status status = page_check_name(v[LOOK_OUTPUT].text, e);
    if (!status && v[LOOK_HEAD].given)
        status = subject_head(t->s, v[LOOK_HEAD].text, &t->layer, &t->head, e);
    tern_model_layer(t->s->model, t->layer, &t->w);
    t->n_ctx = n;
    return status;
}

static enum tern_status run(struct tour *t, struct tern_error *e)
{
    unsigned char *layers = calloc(t->s->info.n_layers, 1);
    if (!layers)
        return no_memory(e);
    layers[t->layer] = 1;
    struct tern_attention_params p = {.n_positions = (uint32_t)t->n_ctx, .layers = layers};
    enum tern_status status = subject_begin(t->s, e);
    if (!status)
        status = tern_attention_open(&t->a, t->s->ctx, &p, e);
    free(layers);
    if (!status)
        status = tern_observe(t->s->ctx, watch, t, e);
    if (!status)
        status = subject_run(t->s, take_logits, t, e);
    return !status && t->failed ? no_memory(e) : status;
}

/* ---- data ----------------------------------------------------------------------------------- */

static void put_token(FILE *f, const struct subject *s, tern_token token)
{
    char id[16], bytes[64];
    size_t n, at = 0;
    const char *text = subject_bytes(s, token, id, &n);
    for (size_t i = 0; i < n && at + 4 < sizeof bytes; i++)
        at += (size_t)snprintf(bytes + at, sizeof bytes - at, "%s%02x", i ? " " : "",
                               (unsigned char)text[i]);
    bytes[at] = 0;
    fprintf(f, "[%d,", (int)token);
    page_token(f, s, token);
    fprintf(f, ",\"%s\"]", bytes);
}

static void put_tokens(FILE *f, const struct subject *s)
{
    fprintf(f, ",\n\"n_prompt\":%zu,\"has_bos\":%s,\"tokens\":[", s->n_prompt,
            s->info.bos >= 0 && s->tokens[0] == s->info.bos ? "true" : "false");
    for (size_t i = 0; i < s->n; i++) {
        fputs(i ? "," : "", f);
        put_token(f, s, s->tokens[i]);
    }
    putc(']', f);
}

static void put_model(FILE *f, const struct tour *t)
{
    const struct subject *s = t->s;
    struct tern_memory plan;
    tern_context_memory(s->ctx, &plan);
    fprintf(f, ",\"version\":\"%s\",\"type\":\"%s\",\"cache\":\"%s\"", tern_version(),
            s->info.type_name, tern_cache_type_name(plan.cache_type));
    fprintf(f, ",\"n_layers\":%llu,\"dim\":%llu,\"vocab\":%llu",
            (unsigned long long)s->info.n_layers, (unsigned long long)s->info.dim,
            (unsigned long long)s->info.vocab);
    fprintf(f, ",\"layer\":%llu,\"head\":%llu", (unsigned long long)t->layer,
            (unsigned long long)t->head);
    fprintf(f, ",\"heads\":%llu,\"kv_heads\":%llu,\"head_dim\":%llu,\"hidden\":%llu",
            (unsigned long long)t->w.n_heads, (unsigned long long)t->w.n_kv_heads,
            (unsigned long long)t->w.head_dim, (unsigned long long)t->w.hidden);
    fprintf(f, ",\"window\":%llu,\"experts\":%llu,\"experts_used\":%llu,\"rope_dims\":%llu",
            (unsigned long long)t->w.window, (unsigned long long)t->w.n_experts,
            (unsigned long long)t->w.n_experts_used, (unsigned long long)t->w.rope_dims);
    fprintf(f, ",\"gated\":%s,\"parallel\":%s,\"qk_norm\":%s,\"sinks\":%s,\"scale\":",
            t->w.gated ? "true" : "false", t->w.parallel ? "true" : "false",
            t->w.qk_norm ? "true" : "false", t->w.sinks ? "true" : "false");
    page_number(f, (double)t->w.attn_scale);
    fputs(",\"cap\":", f);
    page_number(f, (double)t->w.attn_cap);
}

static void put_cache(FILE *f, const tern_model *model)
{
    struct cache_size sizes[CACHE_SIZES];
    char text[256];
    cache_sizes(model, sizes);
    cache_sum(model, text, sizeof text);
    fputs(",\n\"cache_sum\":", f);
    page_string(f, text, strlen(text));
    fputs(",\"cache_sizes\":[", f);
    for (size_t i = 0; i < CACHE_SIZES; i++) {
        fprintf(f, "%s[\"%s\",%llu", i ? "," : "", sizes[i].name,
                (unsigned long long)sizes[i].position);
        for (size_t k = 0; k < CACHE_LENGTHS; k++)
            fprintf(f, ",%llu", (unsigned long long)sizes[i].at[k]);
        putc(']', f);
    }
    fputs("],\"cache_lengths\":[", f);
    for (size_t k = 0; k < CACHE_LENGTHS; k++)
        fprintf(f, "%s%u", k ? "," : "", cache_lengths[k]);
    putc(']', f);
}

/* "name":{"columns":N,"rows":[[..], ..]}, the first MOST_COLUMNS of a row */
static void put_kept(FILE *f, const struct tour *t)
{
    fputs(",\n\"steps\":{\"none\":null", f);
    for (size_t i = 0; i < t->n_kept; i++) {
        const struct kept *k = &t->kept[i];
        size_t shown = k->columns < MOST_COLUMNS ? k->columns : MOST_COLUMNS;
        fprintf(f, ",\n\"%s\":{\"columns\":%zu,\"rows\":[", k->name, k->columns);
        for (size_t row = 0; row < t->s->n; row++) {
            fputs(row ? ",[" : "[", f);
            for (size_t c = 0; c < shown; c++) {
                fputs(c ? "," : "", f);
                page_number(f, (double)k->values[row * k->columns + c]);
            }
            putc(']', f);
        }
        fputs("]}", f);
    }
    putc('}', f);
}

/* q, k, v of the head, its five stages, and the weights of all heads */
static enum tern_status put_head(FILE *f, const struct tour *t, struct tern_error *e)
{
    static const char *const stages[] = {"raw", "scaled", "masked", "weights", "unmasked"};
    static const char *const parts[] = {"head_q", "head_k", "head_v"};
    uint32_t n = tern_attention_length(t->a);
    size_t d = t->w.head_dim, room = n * (d > n ? d : n);
    float *x = malloc(room * sizeof *x);
    enum tern_status status = x ? TERN_OK : no_memory(e);
    for (size_t i = 0; !status && i < 3; i++) {
        status = tern_attention_vectors(t->a, t->layer, t->head, (enum tern_attention_part)i, 0, n,
                                        x, e);
        page_list(f, parts[i], status ? NULL : x, n * d);
    }
    for (size_t i = 0; !status && i < TERN_N_ATTENTION_STAGES; i++) {
        status = tern_attention_rows(t->a, t->layer, t->head, (enum tern_attention_stage)i, 0, n, x,
                                     n, e);
        page_list(f, stages[i], status ? NULL : x, (size_t)n * n);
    }
    fputs(",\n\"all_weights\":{\"none\":null", f);
    for (uint64_t h = 0; !status && h < t->w.n_heads; h++) {
        char name[32];
        snprintf(name, sizeof name, "%llu", (unsigned long long)h);
        status = tern_attention_rows(t->a, t->layer, h, TERN_ATTENTION_WEIGHTS, 0, n, x, n, e);
        page_list(f, name, status ? NULL : x, (size_t)n * n);
    }
    putc('}', f);
    free(x);
    return status;
}

/* cos and sin of every position, one position after the other */
static enum tern_status put_angles(FILE *f, const struct tour *t, struct tern_error *e)
{
    size_t half = t->w.rope_dims / 2, n = t->s->n;
    float *cos = calloc(n * half + 1, sizeof *cos), *sin = calloc(n * half + 1, sizeof *sin);
    for (size_t i = 0; cos && sin && i < n; i++)
        tern_rope_angles(t->s->ctx, 0, t->layer, (uint32_t)i, cos + i * half, sin + i * half);
    if (cos && sin) {
        page_list(f, "cos", cos, n * half);
        page_list(f, "sin", sin, n * half);
    }
    enum tern_status status = cos && sin ? TERN_OK : no_memory(e);
    free(cos);
    free(sin);
    return status;
}

static void put_top(FILE *f, const struct tour *t)
{
    fputs(",\n\"top\":[", f);
    for (size_t i = 0; i < t->n_top; i++) {
        fputs(i ? ",[" : "[", f);
        put_token(f, t->s, t->top[i].token);
        putc(',', f);
        page_number(f, (double)t->top_logits[i]);
        putc(',', f);
        page_number(f, t->top[i].logprob);
        putc(']', f);
    }
    putc(']', f);
}

/* ---- the page ------------------------------------------------------------------------------- */

static enum tern_status write_page(const struct tour *t, struct tern_error *e)
{
    struct page page;
    enum tern_status status =
        page_open(&page, "tour", "Guided tour", t->s, t->s->o->value[LOOK_OUTPUT].text, e);
    if (status)
        return status;
    put_model(page.f, t);
    put_tokens(page.f, t->s);
    put_cache(page.f, t->s->model);
    put_top(page.f, t);
    put_kept(page.f, t);
    status = put_head(page.f, t, e);
    if (!status)
        status = put_angles(page.f, t, e);
    if (!status)
        status = tour_examples_put(page.f, e);
    if (!status)
        status = tour_experiments_put(page.f, t->s, t->a, t->layer, t->head, e);
    page_data_end(&page);
    page_script(page.f, page_tour_drawings_js);
    page_script(page.f, page_tour_examples_js);
    page_script(page.f, page_tour_experiments_js);
    return page_close(&page, page_tour_js, status, e);
}

enum tern_status tour_write(struct subject *s, struct tern_error *e)
{
    struct tour t = {.s = s};
    enum tern_status status = check(&t, e);
    if (!status)
        status = run(&t, e);
    if (!status)
        status = write_page(&t, e);
    tern_attention_close(t.a);
    for (size_t i = 0; i < t.n_kept; i++)
        free(t.kept[i].values);
    return status;
}
