/* The atlas: see atlas_page.h. A whole head is not stored as a matrix but as its q and k, in 16 bits
 * with a scale for each vector: the page computes any cell of any stage from them. */
#include "app/look/atlas_page.h"

#include "app/cli/number.h"
#include "app/look/head_scores.h"
#include "app/look/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SIDE = 64,             /* cells of a head in little */
    WHOLE_HEADS = 16,      /* of a long text; of a short one all */
    MOST_BYTES = 30 << 20, /* of a page that nobody narrowed */
    SHORT = 512            /* positions of a text whose heads are all whole */
};

struct atlas {
    const struct subject *s;
    const tern_attention *a;
    unsigned char *layers;         /* [n_layers] chosen; owned */
    struct head_picture *pictures; /* [n] of all heads of these layers; owned */
    size_t n, n_positions;
    bool *whole; /* [n] */
};

static enum tern_status no_memory(struct tern_error *e)
{
    return parser_no_memory_for(e, "the page");
}

/* ---- size ----------------------------------------------------------------------------------- */

/* Bytes in base64 of one whole head: q, its share of k, and the scales */
static double head_bytes(const struct tern_layer_info *w, size_t n)
{
    if (!w->n_heads)
        return 0;
    double vectors = 1 + (double)w->n_kv_heads / (double)w->n_heads;
    return vectors * (double)n * (2 * (double)w->head_dim + 4) * 4 / 3;
}

static bool all_whole(const struct subject *s, size_t n)
{
    return n <= SHORT || s->o->value[LOOK_HEAD].given || s->o->value[LOOK_LAYERS].given;
}

/* Bytes of the page of n tokens; layers [n_layers] are chosen. */
static double page_bytes(const struct subject *s, const unsigned char *layers, size_t n)
{
    double bytes = 0, widest = 0;
    size_t heads = 0;
    for (uint64_t l = 0; l < s->info.n_layers; l++) {
        struct tern_layer_info w;
        tern_model_layer(s->model, l, &w);
        double one = head_bytes(&w, n);
        widest = one > widest ? one : widest;
        heads += layers[l] ? w.n_heads : 0;
        bytes += layers[l] ? one * (double)w.n_heads : 0;
    }
    if (!all_whole(s, n) && heads > WHOLE_HEADS)
        bytes = widest * WHOLE_HEADS;
    if (s->o->value[LOOK_HEAD].given)
        bytes = widest;
    return bytes + (double)heads * SIDE * SIDE * 4 / 3 + 64 * (double)n;
}

static enum tern_status too_large(const struct subject *s, const unsigned char *layers, size_t n,
                                  struct tern_error *e)
{
    char has[32], most[32], tokens[64] = "";
    size_t fits = 0;
    for (size_t step = n; step; step /= 2) /* the largest number of tokens that fits */
        while (fits + step < n && page_bytes(s, layers, fits + step) <= MOST_BYTES)
            fits += step;
    number_bytes((uint64_t)page_bytes(s, layers, n), has, sizeof has);
    number_bytes(MOST_BYTES, most, sizeof most);
    if (fits)
        snprintf(tokens, sizeof tokens, "a text of at most %zu tokens", fits);
    snprintf(e->text, sizeof e->text,
             "the page of %zu tokens would have %s, more than %s: choose %s%s", n, has, most,
             s->o->value[LOOK_HEAD].given ? ""
             : fits                       ? "one --head, or "
                                          : "fewer --layers, or one --head",
             tokens);
    return e->code = TERN_LIMIT;
}

enum tern_status atlas_page_check(const struct subject *s, struct tern_error *e)
{
    unsigned char *layers;
    size_t n = subject_length(s);
    enum tern_status status = subject_layers(s, &layers, e);
    if (!status && page_bytes(s, layers, n) > MOST_BYTES)
        status = too_large(s, layers, n, e);
    free(layers);
    return status;
}

/* ---- pictures ------------------------------------------------------------------------------- */

static enum tern_status list_heads(struct atlas *t, struct tern_error *e)
{
    struct tern_layer_info w;
    size_t room = 0;
    enum tern_status status = subject_layers(t->s, &t->layers, e);
    if (status)
        return status;
    for (uint64_t l = 0; l < t->s->info.n_layers; l++) {
        tern_model_layer(t->s->model, l, &w);
        room += t->layers[l] ? w.n_heads : 0;
    }
    t->pictures = calloc(room + 1, sizeof *t->pictures);
    t->whole = calloc(room + 1, sizeof *t->whole);
    if (!t->pictures || !t->whole)
        return no_memory(e);
    for (uint64_t l = 0; l < t->s->info.n_layers; l++) {
        tern_model_layer(t->s->model, l, &w);
        for (uint64_t h = 0; t->layers[l] && h < w.n_heads; h++)
            t->pictures[t->n++] = (struct head_picture){.layer = l, .head = h};
    }
    return TERN_OK;
}

static enum tern_status take_pictures(struct atlas *t, struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    bool shows =
        !t->s->o->value[LOOK_QUIET].given && isatty(STDERR_FILENO) && t->n_positions > SHORT;
    float *row = malloc(t->n_positions * sizeof *row);
    if (!row)
        return no_memory(e);
    for (size_t i = 0; !status && i < t->n; i++) {
        if (shows)
            fprintf(stderr, "\rlook: head %zu of %zu ", i + 1, t->n);
        status = head_picture_take(&t->pictures[i], t->s, t->a, SIDE, row, e);
    }
    if (shows)
        fprintf(stderr, "\r%40s\r", "");
    free(row);
    return status;
}

/* Which heads are stored whole: all, one, or those that look least at the first token. */
static enum tern_status choose_whole(struct atlas *t, struct tern_error *e)
{
    uint64_t layer = 0, head = 0;
    const char *one = t->s->o->value[LOOK_HEAD].text;
    enum tern_status status = one ? subject_head(t->s, one, &layer, &head, e) : TERN_OK;
    bool all = !one && (all_whole(t->s, t->n_positions) || t->n <= WHOLE_HEADS);
    for (size_t i = 0; i < t->n; i++)
        t->whole[i] = all || (one && t->pictures[i].layer == layer && t->pictures[i].head == head);
    for (size_t k = 0; !one && !all && k < WHOLE_HEADS; k++) {
        size_t best = t->n;
        for (size_t i = 0; i < t->n; i++)
            if (!t->whole[i] &&
                (best == t->n || t->pictures[i].scores.sink < t->pictures[best].scores.sink))
                best = i;
        t->whole[best] = true;
    }
    return status;
}

/* ---- data ----------------------------------------------------------------------------------- */

static void put_number(FILE *f, const char *name, double x)
{
    fprintf(f, ",\"%s\":", name);
    page_number(f, x);
}

static void put_tokens(FILE *f, const struct subject *s)
{
    fputs(",\n\"tokens\":[", f);
    for (size_t i = 0; i < s->n; i++) {
        char label[128];
        subject_label(s, s->tokens[i], 24, label, sizeof label);
        fprintf(f, "%s[%d,", i ? "," : "", (int)s->tokens[i]);
        page_string(f, label, strlen(label));
        putc(']', f);
    }
    putc(']', f);
}

static void put_layers(FILE *f, const struct subject *s)
{
    fputs(",\n\"layers\":[", f);
    for (uint64_t l = 0; l < s->info.n_layers; l++) {
        struct tern_layer_info w;
        subject_layer(s, l, &w);
        fprintf(f, "%s{\"heads\":%llu,\"kv_heads\":%llu,\"head_dim\":%llu,\"window\":%llu",
                l ? "," : "", (unsigned long long)w.n_heads, (unsigned long long)w.n_kv_heads,
                (unsigned long long)w.head_dim, (unsigned long long)w.window);
        put_number(f, "scale", (double)w.attn_scale);
        put_number(f, "cap", (double)w.attn_cap);
        page_list(f, "sinks", w.sinks, w.n_heads);
        page_list(f, "alibi", w.alibi, w.n_heads);
        putc('}', f);
    }
    putc(']', f);
}

static void put_heads(FILE *f, const struct atlas *t)
{
    fputs(",\n\"heads\":[", f);
    for (size_t i = 0; i < t->n; i++) {
        const struct head_picture *p = &t->pictures[i];
        fprintf(f, "%s\n{\"layer\":%llu,\"head\":%llu,\"whole\":%s", i ? "," : "",
                (unsigned long long)p->layer, (unsigned long long)p->head,
                t->whole[i] ? "true" : "false");
        put_number(f, "entropy", p->scores.entropy);
        put_number(f, "sink", p->scores.sink);
        put_number(f, "previous", p->scores.previous);
        put_number(f, "duplicate", p->scores.duplicate);
        put_number(f, "induction", p->scores.induction);
        fprintf(f, ",\"side\":%zu,\"cells\":\"", p->side);
        page_base64(f, p->cells, p->side * p->side);
        fputs("\"}", f);
    }
    putc(']', f);
}

static void put_data(FILE *f, const struct atlas *t)
{
    const struct subject *s = t->s;
    struct tern_memory plan;
    tern_context_memory(s->ctx, &plan);
    fprintf(f,
            ",\"type\":\"%s\",\"cache\":\"%s\",\"n_prompt\":%zu,\"version\":\"%s\","
            "\"bidirectional\":%s",
            s->info.type_name, tern_cache_type_name(plan.cache_type), s->n_prompt, tern_version(),
            subject_is_bidirectional(s) ? "true" : "false");
    put_tokens(f, s);
    put_layers(f, s);
    put_heads(f, t);
}

/* ---- whole heads ---------------------------------------------------------------------------- */

struct packing {
    float *x;    /* [n, head_dim] */
    int16_t *to; /* [n, head_dim] x / scale */
    float *scale;
};

/* Vectors as integers of 16 bits, with a scale for each: the error is at most 1 / 65534 of its
 * largest value. */
static void pack(struct packing *p, size_t n, size_t d)
{
    for (size_t i = 0; i < n; i++) {
        float most = 0;
        for (size_t c = 0; c < d; c++)
            most = fmaxf(most, fabsf(p->x[i * d + c]));
        p->scale[i] = most / 32767;
        for (size_t c = 0; c < d; c++)
            p->to[i * d + c] = (int16_t)(most > 0 ? lrintf(p->x[i * d + c] / most * 32767) : 0);
    }
}

static enum tern_status put_vectors(FILE *f, const struct atlas *t, struct packing *p,
                                    const struct head_picture *h, enum tern_attention_part part,
                                    size_t name, struct tern_error *e)
{
    struct tern_layer_info w;
    char id[64];
    size_t n = t->n_positions;
    tern_model_layer(t->s->model, h->layer, &w);
    enum tern_status status =
        tern_attention_vectors(t->a, h->layer, h->head, part, 0, (uint32_t)n, p->x, e);
    if (status)
        return status;
    char letter = "qkv"[part];
    if (part == TERN_ATTENTION_V) { /* how long each value is */
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t c = 0; c < w.head_dim; c++)
                sum += (double)p->x[i * w.head_dim + c] * (double)p->x[i * w.head_dim + c];
            p->scale[i] = (float)sqrt(sum);
        }
    } else {
        pack(p, n, w.head_dim);
        snprintf(id, sizeof id, "%c%llu.%zu", letter, (unsigned long long)h->layer, name);
        page_blob(f, id, p->to, n * w.head_dim * sizeof *p->to);
    }
    snprintf(id, sizeof id, "%cs%llu.%zu", letter, (unsigned long long)h->layer, name);
    page_blob(f, id, p->scale, n * sizeof *p->scale);
    return TERN_OK;
}

/* q of every whole head; k, and the lengths of v, of their KV heads, once */
static enum tern_status put_whole(FILE *f, const struct atlas *t, struct packing *p,
                                  struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    size_t last_layer = SIZE_MAX, last_kv = SIZE_MAX;
    for (size_t i = 0; !status && i < t->n; i++) {
        const struct head_picture *h = &t->pictures[i];
        struct tern_layer_info w;
        tern_model_layer(t->s->model, h->layer, &w);
        size_t kv = h->head / (w.n_heads / w.n_kv_heads);
        if (!t->whole[i])
            continue;
        status = put_vectors(f, t, p, h, TERN_ATTENTION_Q, h->head, e);
        if (!status && (h->layer != last_layer || kv != last_kv)) {
            status = put_vectors(f, t, p, h, TERN_ATTENTION_K, kv, e);
            if (!status)
                status = put_vectors(f, t, p, h, TERN_ATTENTION_V, kv, e);
        }
        last_layer = h->layer, last_kv = kv;
    }
    return status;
}

static enum tern_status put_heads_whole(FILE *f, const struct atlas *t, struct tern_error *e)
{
    size_t widest = 1;
    for (uint64_t l = 0; l < t->s->info.n_layers; l++) {
        struct tern_layer_info w;
        tern_model_layer(t->s->model, l, &w);
        widest = w.head_dim > widest ? w.head_dim : widest;
    }
    struct packing p = {malloc(t->n_positions * widest * sizeof *p.x),
                        malloc(t->n_positions * widest * sizeof *p.to),
                        malloc(t->n_positions * sizeof *p.scale)};
    enum tern_status status = p.x && p.to && p.scale ? put_whole(f, t, &p, e) : no_memory(e);
    free(p.x);
    free(p.to);
    free(p.scale);
    return status;
}

/* ---- the page ------------------------------------------------------------------------------- */

static enum tern_status write_page(const struct atlas *t, const char *path, struct tern_error *e)
{
    struct page page;
    enum tern_status status = page_open(&page, "atlas", "Attention atlas", t->s, path, e);
    if (status)
        return status;
    put_data(page.f, t);
    page_data_end(&page);
    status = put_heads_whole(page.f, t, e);
    return page_close(&page, page_atlas_js, status, e);
}

enum tern_status atlas_page_write(const struct subject *s, const tern_attention *a,
                                  const char *path, struct tern_error *e)
{
    struct atlas t = {.s = s, .a = a, .n_positions = tern_attention_length(a)};
    enum tern_status status = list_heads(&t, e);
    if (!status)
        status = take_pictures(&t, e);
    if (!status)
        status = choose_whole(&t, e);
    if (!status)
        status = write_page(&t, path, e);
    for (size_t i = 0; t.pictures && i < t.n; i++)
        free(t.pictures[i].cells);
    free(t.pictures);
    free(t.layers);
    free(t.whole);
    return status;
}
