/* Experiments: see tour_experiments.h. page/tour_experiments.js has the words. */
#include "app/look/tour_experiments.h"

#include "app/look/edits.h"
#include "app/look/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHIFT = 7, /* positions */
    KEYS = 16,
    DRAWS = 16,       /* of random q and k */
    MOST_HEADS = 256, /* switched off one by one; of a larger model those of one layer */
    MOST_TOKENS = 64  /* of a sentence */
};

static const char mat[] = "The cat sat on the mat", book[] = "She gave him a book";

struct experiment {
    FILE *f;
    struct subject *s;
    const tern_attention *a;
    uint64_t layer, head;
    struct tern_layer_info w;
};

static enum tern_status no_memory(struct tern_error *e)
{
    return parser_no_memory_for(e, "the experiments");
}

/* The tokens of a sentence, or of the tour's text where the model has no tokenizer */
static enum tern_status take_sentence(const struct experiment *x, const char *text,
                                      tern_token **tokens, size_t *n, struct tern_error *e)
{
    const struct subject *s = x->s;
    *tokens = NULL;
    if (s->decoder)
        return subject_tokenize(s, text, strlen(text), tokens, n, e);
    *n = s->n_prompt;
    *tokens = malloc(*n * sizeof **tokens);
    if (!*tokens)
        return no_memory(e);
    memcpy(*tokens, s->tokens, *n * sizeof **tokens);
    return TERN_OK;
}

static enum tern_status open_context(const struct experiment *x, size_t n, tern_context **ctx,
                                     struct tern_error *e)
{
    struct tern_context_params p = {.n_ctx = (uint32_t)n, .n_batch = (uint32_t)n};
    return tern_context_open(ctx, x->s->model, &p, e);
}

/* Evaluates tokens as batches of `step` rows, all of which ask for logits */
static enum tern_status evaluate(tern_context *ctx, const tern_token *tokens, size_t n, size_t step,
                                 struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n; i += step) {
        for (size_t k = i; !status && k < i + step && k < n; k++)
            status = tern_batch_add(ctx, 0, tokens[k], TERN_ROW_LOGITS, e);
        if (!status && (status = tern_forward(ctx)))
            e->code = status;
        if (!status)
            tern_fingerprint_add(ctx);
    }
    return status;
}

/* ---- the last token is another one ---------------------------------------------------------- */

struct watched {
    float *out; /* [n_layers, n, dim] x after each layer */
    size_t n, dim;
    tern_attention *a;
};

static void watch(void *arg, const struct tern_observation *o)
{
    struct watched *w = arg;
    tern_attention_feed(w->a, o);
    for (size_t i = 0; i < o->rows && !strcmp(o->operation, "out"); i++)
        memcpy(w->out + (o->layer * w->n + o->at[i].position) * w->dim, o->values + i * o->stride,
               w->dim * sizeof *w->out);
}

/* x after each layer, and the weight that row i gives the last token */
static enum tern_status run_text(const struct experiment *x, const tern_token *tokens, size_t n,
                                 bool both_ways, size_t i, float *out, float *weight,
                                 struct tern_error *e)
{
    struct watched w = {out, n, x->s->info.dim, NULL};
    tern_context *ctx = NULL;
    float row[MOST_TOKENS];
    struct tern_attention_params p = {.n_positions = (uint32_t)n, .bidirectional = both_ways};
    enum tern_status status = open_context(x, n, &ctx, e);
    if (!status && both_ways)
        status = tern_attention_use(ctx, "bidirectional", e);
    if (!status)
        status = tern_attention_open(&w.a, ctx, &p, e);
    if (!status)
        status = tern_observe(ctx, watch, &w, e);
    if (!status)
        status = evaluate(ctx, tokens, n, n, e);
    if (!status)
        status = tern_attention_rows(w.a, x->layer, x->head, TERN_ATTENTION_WEIGHTS, (uint32_t)i, 1,
                                     row, n, e);
    *weight = status ? 0 : row[n - 1];
    tern_attention_close(w.a);
    tern_context_close(ctx);
    return status;
}

/* The row that looks at the last one: that of "sat", or the middle */
static size_t row_of(const struct subject *s, const tern_token *tokens, size_t n, const char *word)
{
    char label[64];
    for (size_t i = 0; i < n; i++)
        if (strstr(subject_label(s, tokens[i], 24, label, sizeof label), word))
            return i;
    return n / 2;
}

/* How many numbers of earlier rows differ, and by how much at most */
static void put_difference(const struct experiment *x, const char *name, const float *a,
                           const float *b, size_t n, float weight)
{
    size_t count = 0, dim = x->s->info.dim, total = x->s->info.n_layers * (n - 1) * dim;
    float most = 0;
    for (uint64_t l = 0; l < x->s->info.n_layers; l++)
        for (size_t i = 0; i < (n - 1) * dim; i++) {
            const float *p = a + l * n * dim + i, *q = b + l * n * dim + i;
            count += memcmp(p, q, sizeof *p) != 0;
            most = fmaxf(most, fabsf(*p - *q));
        }
    fprintf(x->f, ",\"%s\":{\"changed\":%zu,\"of\":%zu,\"most\":", name, count, total);
    page_number(x->f, (double)most);
    fputs(",\"weight\":", x->f);
    page_number(x->f, (double)weight);
    putc('}', x->f);
}

static enum tern_status put_last(const struct experiment *x, struct tern_error *e)
{
    tern_token *tokens, last, other;
    size_t n = 0, size;
    float weight, *a = NULL, *b = NULL;
    enum tern_status status = take_sentence(x, mat, &tokens, &n, e);
    if (status || n < 2 || n > MOST_TOKENS) {
        free(tokens);
        return status;
    }
    size = x->s->info.n_layers * n * x->s->info.dim;
    a = malloc(size * sizeof *a), b = malloc(size * sizeof *b);
    last = tokens[n - 1], other = tokens[n - 2];
    size_t row = row_of(x->s, tokens, n - 1, "sat");
    fprintf(x->f, ",\n\"last\":{\"row\":%zu,\"other\":", row);
    page_token(x->f, x->s, other);
    page_tokens(x->f, "tokens", x->s, tokens, n);
    if (!a || !b)
        status = no_memory(e);
    for (int both_ways = 0; !status && both_ways < 2; both_ways++) {
        tokens[n - 1] = other;
        status = run_text(x, tokens, n, both_ways, row, b, &weight, e);
        tokens[n - 1] = last;
        if (!status)
            status = run_text(x, tokens, n, both_ways, row, a, &weight, e);
        if (!status)
            put_difference(x, both_ways ? "bidirectional" : "causal", a, b, n, weight);
        else if (both_ways && status == TERN_USAGE) { /* not with this model's layers */
            status = TERN_OK;
            break;
        }
    }
    putc('}', x->f);
    free(a);
    free(b);
    free(tokens);
    return status;
}

/* ---- positions ------------------------------------------------------------------------------ */

struct turning { /* q, k and v of the head, before RoPE; [n, d] each */
    size_t n, d, half;
    float *q, *k, *v, *turned_q, *turned_k, *cos, *sin, *out, *other;
};

/* Turns x [d] by the angles of a position, or back */
static void turn(const struct experiment *x, struct turning *t, float *to, const float *from,
                 size_t position, bool back)
{
    tern_rope_angles(x->s->ctx, 0, x->layer, (uint32_t)position, t->cos, t->sin);
    memmove(to, from, t->d * sizeof *to);
    for (size_t c = 0; c < t->half; c++) {
        float cos = t->cos[c], sin = back ? -t->sin[c] : t->sin[c], a = from[c],
              b = from[c + t->half];
        float size = back ? cos * cos + sin * sin : 1;
        to[c] = (a * cos - b * sin) / size;
        to[c + t->half] = (b * cos + a * sin) / size;
    }
}

static enum tern_status open_turning(const struct experiment *x, struct turning *t,
                                     struct tern_error *e)
{
    float **arrays[] = {&t->q,   &t->k,   &t->v,   &t->turned_q, &t->turned_k,
                        &t->cos, &t->sin, &t->out, &t->other};
    *t = (struct turning){.n = tern_attention_length(x->a), .d = x->w.head_dim};
    t->half = x->w.rope_dims / 2;
    bool is_full = true;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        is_full = (*arrays[i] = calloc(t->n * t->d, sizeof **arrays[i])) != NULL && is_full;
    if (!is_full)
        return no_memory(e);
    float *parts[] = {t->q, t->k, t->v};
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < 3; i++)
        status = tern_attention_vectors(x->a, x->layer, x->head, (enum tern_attention_part)i, 0,
                                        (uint32_t)t->n, parts[i], e);
    for (size_t i = 0; !status && i < t->n; i++) {
        turn(x, t, t->q + i * t->d, t->q + i * t->d, i, true);
        turn(x, t, t->k + i * t->d, t->k + i * t->d, i, true);
    }
    return status;
}

static void close_turning(struct turning *t)
{
    float *arrays[] = {t->q,   t->k,   t->v,   t->turned_q, t->turned_k,
                       t->cos, t->sin, t->out, t->other};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}

static void turn_all(const struct experiment *x, struct turning *t, size_t first)
{
    for (size_t i = 0; i < t->n; i++) {
        turn(x, t, t->turned_q + i * t->d, t->q + i * t->d, first + i, false);
        turn(x, t, t->turned_k + i * t->d, t->k + i * t->d, first + i, false);
    }
}

/* Scores s [n, n] = q . k */
static void score(const struct turning *t, float *s)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < t->n; j++) {
            float sum = 0;
            for (size_t c = 0; c < t->d; c++)
                sum += t->turned_q[i * t->d + c] * t->turned_k[j * t->d + c];
            s[i * t->n + j] = sum;
        }
}

static void put_most(const struct experiment *x, const char *name, const float *a, const float *b,
                     size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(a[i] - (b ? b[i] : 0)));
    fprintf(x->f, ",\"%s\":", name);
    page_number(x->f, (double)most);
}

/* Scores at the positions 0, 1, .. and at 7, 8, .. */
static enum tern_status put_shift(const struct experiment *x, struct turning *t,
                                  struct tern_error *e)
{
    float *s = calloc(2 * t->n * t->n, sizeof *s), *later = s + t->n * t->n;
    if (!s)
        return no_memory(e);
    turn_all(x, t, 0);
    score(t, s);
    turn_all(x, t, SHIFT);
    score(t, later);
    fprintf(x->f, ",\n\"shift\":{\"by\":%d", SHIFT);
    page_list(x->f, "scores", s + (t->n - 1) * t->n, t->n);
    page_list(x->f, "later", later + (t->n - 1) * t->n, t->n);
    put_most(x, "most", s, NULL, t->n * t->n);
    put_most(x, "change", s, later, t->n * t->n);
    putc('}', x->f);
    free(s);
    return TERN_OK;
}

static void swap(float *a, float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float kept = a[i];
        a[i] = b[i], b[i] = kept;
    }
}

/* The last row's output, and what it becomes when tokens 1 and 2 change places */
static enum tern_status put_swapped(const struct experiment *x, struct turning *t, const char *name,
                                    bool with_rope, struct tern_error *e)
{
    size_t d = t->d;
    struct tern_zoo z = {.n_rows = 1, .n_keys = t->n, .n_heads = 1, .head_dim = d, .v = t->v};
    enum tern_status status = TERN_OK;
    z.scale = x->w.attn_scale;
    for (int swapped = 0; !status && swapped < 2; swapped++) {
        turn_all(x, t, 0);
        z.q = (with_rope ? t->turned_q : t->q) + (t->n - 1) * d;
        z.k = with_rope ? t->turned_k : t->k;
        z.out = swapped ? t->other : t->out;
        status = tern_zoo(&z, "engine", NULL, e);
        swap(t->k + d, t->k + 2 * d, d);
        swap(t->v + d, t->v + 2 * d, d);
    }
    put_most(x, name, t->out, t->other, d);
    return status;
}

static enum tern_status put_positions(const struct experiment *x, struct tern_error *e)
{
    struct turning t;
    if (!x->w.rope_dims || tern_attention_length(x->a) < 3)
        return TERN_OK;
    enum tern_status status = open_turning(x, &t, e);
    if (!status)
        status = put_shift(x, &t, e);
    if (!status) {
        fputs(",\n\"order\":{\"none\":null", x->f);
        status = put_swapped(x, &t, "without", false, e);
        if (!status)
            status = put_swapped(x, &t, "with", true, e);
        put_most(x, "most", t.out, NULL, t.d);
        putc('}', x->f);
    }
    close_turning(&t);
    return status;
}

/* ---- repeated KV heads ---------------------------------------------------------------------- */

/* q [n, H, d], and k and v [n, H, d] of every query head: repeated where heads share them */
static enum tern_status take_heads(const struct experiment *x, float *all[3], size_t n,
                                   struct tern_error *e)
{
    size_t d = x->w.head_dim, H = x->w.n_heads;
    float *one = malloc(n * d * sizeof *one);
    enum tern_status status = one ? TERN_OK : no_memory(e);
    for (size_t i = 0; i < 3; i++)
        for (size_t h = 0; !status && h < H; h++) {
            status = tern_attention_vectors(x->a, x->layer, h, (enum tern_attention_part)i, 0,
                                            (uint32_t)n, one, e);
            for (size_t j = 0; !status && j < n; j++)
                memcpy(all[i] + (j * H + h) * d, one + j * d, d * sizeof *one);
        }
    free(one);
    return status;
}

/* The shared keys or values [n, G, d] of repeated ones [n, H, d] */
static void share(float *to, const float *from, size_t n, const struct tern_layer_info *w)
{
    size_t d = w->head_dim, group = w->n_heads / w->n_kv_heads;
    for (size_t j = 0; j < n; j++)
        for (size_t g = 0; g < w->n_kv_heads; g++)
            memcpy(to + (j * w->n_kv_heads + g) * d, from + (j * w->n_heads + g * group) * d,
                   d * sizeof *to);
}

static enum tern_status put_repeated(const struct experiment *x, struct tern_error *e)
{
    static const char *const kinds[] = {"naive", "engine"};
    size_t n = tern_attention_length(x->a), H = x->w.n_heads, size = n * H * x->w.head_dim;
    float *floats = calloc(7 * size, sizeof *floats);
    if (!floats)
        return no_memory(e);
    float *all[3] = {floats, floats + size, floats + 2 * size};
    float *k = floats + 3 * size, *v = k + size, *out = v + size, *other = out + size;
    enum tern_status status = take_heads(x, all, n, e);
    share(k, all[1], n, &x->w);
    share(v, all[2], n, &x->w);
    struct tern_zoo gqa = {.n_rows = n, .n_heads = H, .n_kv_heads = x->w.n_kv_heads, .q = all[0]};
    gqa.head_dim = x->w.head_dim, gqa.scale = x->w.attn_scale, gqa.k = k, gqa.v = v, gqa.out = out;
    struct tern_zoo mha = gqa;
    mha.n_kv_heads = H, mha.k = all[1], mha.v = all[2], mha.out = other;
    fprintf(x->f, ",\n\"repeated\":{\"values\":%zu", size);
    for (size_t i = 0; !status && i < 2; i++) {
        status = tern_zoo(&gqa, kinds[i], NULL, e);
        if (!status)
            status = tern_zoo(&mha, kinds[i], NULL, e);
        fprintf(x->f, ",\"%s\":%s", kinds[i],
                memcmp(out, other, size * sizeof *out) ? "false" : "true");
        put_most(x, i ? "engine_most" : "naive_most", out, other, size);
    }
    putc('}', x->f);
    free(floats);
    return status;
}

/* ---- one by one, or at once ----------------------------------------------------------------- */

static enum tern_status put_batches(const struct experiment *x, struct tern_error *e)
{
    tern_token *tokens;
    size_t n = 0;
    enum tern_status status = take_sentence(x, mat, &tokens, &n, e);
    fputs(",\n\"batches\":[", x->f);
    for (int i = 0; !status && i < 3; i++) {
        static const size_t steps[] = {1, 2, MOST_TOKENS};
        tern_context *ctx = NULL;
        uint64_t rows = 0;
        status = open_context(x, n, &ctx, e);
        if (!status) {
            tern_fingerprint_begin(ctx);
            status = evaluate(ctx, tokens, n, steps[i] < n ? steps[i] : n, e);
            unsigned long long hash = tern_fingerprint(ctx, &rows);
            fprintf(x->f, "%s[%zu,\"%016llx\",%llu]", i ? "," : "", steps[i] < n ? steps[i] : n,
                    hash, (unsigned long long)rows);
        }
        tern_context_close(ctx);
    }
    putc(']', x->f);
    free(tokens);
    return status;
}

/* ---- without 1 / sqrt(d) -------------------------------------------------------------------- */

/* About normal, of variance 1: twelve uniform numbers */
static float normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * 6364136223846793005U + 1442695040888963407U;
        sum += (double)(*state >> 40) / (1 << 24);
    }
    return (float)sum;
}

/* The largest of 16 weights on random q and k, mean over rows and draws */
static enum tern_status put_saturation(const struct experiment *x, struct tern_error *e)
{
    enum { MOST_DIM = 256 };
    static const size_t dims[] = {4, 64, MOST_DIM};
    size_t room = DRAWS * KEYS * MOST_DIM;
    float *q = malloc(3 * room * sizeof *q), weights[DRAWS * KEYS * KEYS];
    uint64_t state = 1;
    if (!q)
        return no_memory(e);
    for (size_t i = 0; i < 2 * room; i++)
        q[i] = normal(&state);
    enum tern_status status = TERN_OK;
    fputs(",\n\"saturation\":[", x->f);
    for (size_t i = 0; !status && i < sizeof dims / sizeof *dims; i++) {
        fprintf(x->f, "%s[%zu", i ? "," : "", dims[i]);
        for (int scaled = 1; !status && scaled >= 0; scaled--) {
            struct tern_zoo z = {.n_seqs = DRAWS, .n_rows = KEYS, .n_heads = 1, .bidirectional = 1};
            double sum = 0;
            z.q = q, z.k = z.v = q + room, z.out = q + 2 * room, z.weights = weights;
            z.head_dim = dims[i], z.scale = scaled ? 0 : 1;
            status = tern_zoo(&z, "naive", NULL, e);
            for (size_t row = 0; row < DRAWS * KEYS; row++) {
                float most = 0;
                for (size_t j = 0; j < KEYS; j++)
                    most = fmaxf(most, weights[row * KEYS + j]);
                sum += (double)most / (DRAWS * KEYS);
            }
            fprintf(x->f, ",%.4f", sum);
        }
        putc(']', x->f);
    }
    putc(']', x->f);
    free(q);
    return status;
}

/* ---- heads switched off --------------------------------------------------------------------- */

/* Mean of -log p of each next token, in nats */
static enum tern_status measure(const struct experiment *x, tern_context *ctx,
                                const tern_token *tokens, size_t n, double *loss,
                                struct tern_error *e)
{
    (void)tern_seq_keep(ctx, 0, 0);
    enum tern_status status = evaluate(ctx, tokens, n, n, e);
    *loss = 0;
    for (size_t i = 0; !status && i + 1 < n; i++)
        *loss -= tern_logprob(x->s->model, tern_logits(ctx, i), tokens[i + 1]) / (double)(n - 1);
    return status;
}

static enum tern_status put_heads(const struct experiment *x, tern_context *ctx,
                                  const tern_token *tokens, size_t n, struct tern_error *e)
{
    const struct tern_model_info *m = &x->s->info;
    bool all = m->n_layers * m->n_heads <= MOST_HEADS, is_next = false;
    double base, loss;
    enum tern_status status = measure(x, ctx, tokens, n, &base, e);
    fprintf(x->f, ",\"loss\":%.6f,\"heads\":[", status ? 0 : base);
    for (uint64_t l = all ? 0 : x->layer; !status && l < (all ? m->n_layers : x->layer + 1); l++) {
        struct tern_layer_info w;
        tern_model_layer(x->s->model, l, &w);
        for (uint64_t h = 0; !status && h < w.n_heads; h++, is_next = true) {
            struct edits off = {.n = 0};
            status = edits_add(&off, l, "attend", h * w.head_dim, w.head_dim)
                         ? tern_edit(ctx, edits_apply, &off, e)
                         : no_memory(e);
            if (!status)
                status = measure(x, ctx, tokens, n, &loss, e);
            edits_close(&off);
            if (!status)
                fprintf(x->f, "%s[%llu,%llu,%.6f]", is_next ? "," : "", (unsigned long long)l,
                        (unsigned long long)h, loss - base);
        }
    }
    putc(']', x->f);
    return status;
}

static enum tern_status put_ablation(const struct experiment *x, struct tern_error *e)
{
    tern_token *tokens;
    size_t n = 0;
    tern_context *ctx = NULL;
    enum tern_status status = take_sentence(x, book, &tokens, &n, e);
    if (!status && n > 1 && n <= MOST_TOKENS) {
        fputs(",\n\"ablation\":{\"none\":null", x->f);
        page_tokens(x->f, "tokens", x->s, tokens, n);
        status = open_context(x, n, &ctx, e);
        if (!status)
            status = put_heads(x, ctx, tokens, n, e);
        putc('}', x->f);
    }
    tern_context_close(ctx);
    free(tokens);
    return status;
}

enum tern_status tour_experiments_put(FILE *f, struct subject *s, const tern_attention *a,
                                      uint64_t layer, uint64_t head, struct tern_error *e)
{
    static enum tern_status (*const put[])(const struct experiment *, struct tern_error *) = {
        put_last, put_positions, put_repeated, put_batches, put_saturation, put_ablation};
    struct experiment x = {.f = f, .s = s, .a = a, .layer = layer, .head = head};
    enum tern_status status = TERN_OK;
    tern_model_layer(s->model, layer, &x.w);
    fputs(",\n\"experiments\":{\"none\":null", f);
    for (size_t i = 0; !status && i < sizeof put / sizeof *put; i++)
        status = put[i](&x, e);
    putc('}', f);
    return status;
}
