/* Ablation: see ablation.h. A head is switched off where attention hands it on (attend); the
 * feed-forward and the attention of a layer where they are added to the stream; an expert by the
 * weight that the router gives it.
 *
 * Means are over the tokens of the text, each counted once. The mean of an expert e is that of its
 * output E_e, before the weight w_e of the router, over the set R_e of tokens which it is chosen for:
 *   mean_e = 1 / |R_e| sum over r in R_e of E_e(x_r)
 * and a token that chooses e then gets w_e mean_e instead of w_e E_e(x). */
#include "app/look/ablation.h"

#include "app/cli/files.h"
#include "app/cli/number.h"
#include "app/look/text_pieces.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is named --------------------------------------------------------------------------- */

static enum tern_status add(struct edits *x, uint64_t layer, const char *operation, size_t from,
                            size_t n, struct tern_error *e)
{
    return edits_add(x, layer, operation, from, n) ? TERN_OK : parser_no_memory(e);
}

static enum tern_status add_expert(struct edits *x, const struct subject *s, uint64_t layer,
                                   uint64_t index, struct tern_error *e)
{
    if (!s->o->value[LOOK_MEAN_OVER].given)
        return add(x, layer, "router", index, 1, e);
    struct edit *edit = edits_add(x, layer, "expert", 0, s->info.dim);
    if (!edit)
        return parser_no_memory(e);
    edit->expert = index;
    return TERN_OK;
}

static enum tern_status range(struct tern_error *e, const char *word, size_t n, uint64_t layer,
                              const char *what, uint64_t count)
{
    if (!count)
        return parser_usage(e, "--ablate %.*s: layer %llu has no %s", (int)n, word,
                            (unsigned long long)layer, what);
    return parser_usage(e, "--ablate %.*s: layer %llu has %s 0 to %llu", (int)n, word,
                        (unsigned long long)layer, what, (unsigned long long)count - 1);
}

static bool is_word(const char *part, size_t n, const char *word)
{
    return n == strlen(word) && !memcmp(part, word, n);
}

/* word [n] is "L.H", "L.ffn", "L.attn" or "L.expert.E". */
static enum tern_status take_word(struct edits *x, const struct subject *s, const char *word,
                                  size_t n, struct tern_error *e)
{
    static const char expert[] = "expert.";
    struct tern_layer_info info;
    size_t dot = strcspn(word, ".,"), shown = n < 100 ? n : 100;
    const char *part = word + dot + 1;
    size_t length = dot < n ? n - dot - 1 : 0, skip = sizeof expert - 1;
    bool is_expert = length > skip && !memcmp(part, expert, skip);
    bool is_ffn = is_word(part, length, "ffn"), is_attn = is_word(part, length, "attn");
    uint64_t layer, index = 0;
    if (!number_u64(word, dot, &layer) || !length ||
        (!is_ffn && !is_attn &&
         !number_u64(part + skip * is_expert, length - skip * is_expert, &index)))
        return parser_usage(e,
                            "--ablate: '%.*s' is no head (5.3), attention (5.attn), "
                            "feed-forward (7.ffn) or expert (8.expert.17)",
                            (int)shown, word);
    if (layer >= s->info.n_layers)
        return parser_usage(e, "--ablate %.*s: the model has layers 0 to %llu", (int)shown, word,
                            (unsigned long long)s->info.n_layers - 1);
    tern_model_layer(s->model, layer, &info);
    if (is_expert && index >= info.n_experts)
        return range(e, word, shown, layer, "experts", info.n_experts);
    if (!is_expert && !is_ffn && !is_attn && index >= info.n_heads)
        return range(e, word, shown, layer, "heads", info.n_heads);
    if (is_expert)
        return add_expert(x, s, layer, index, e);
    if (is_ffn)
        return add(x, layer,
                   info.ffn_post_norm ? "ffn_post_norm"
                   : info.n_experts   ? "experts"
                                      : "down",
                   0, s->info.dim, e);
    if (is_attn)
        return add(x, layer, info.attn_post_norm ? "attn_post_norm" : "o", 0, s->info.dim, e);
    return add(x, layer, "attend", index * info.head_dim, info.head_dim, e);
}

/* ---- the mean over a text -------------------------------------------------------------------- */

struct means {
    const struct edits *x;
    double **sums; /* [edits] of [n] each; owned */
    uint64_t *rows;
};

static void watch(void *arg, const struct tern_observation *o)
{
    struct means *m = arg;
    for (size_t k = 0; k < m->x->n; k++) {
        const struct edit *x = &m->x->list[k];
        if (!edits_is_about(x, o))
            continue;
        for (size_t i = 0; i < o->rows; i++)
            for (size_t c = 0; c < x->n; c++)
                m->sums[k][c] += (double)o->values[i * o->stride + x->from + c];
        m->rows[k] += o->rows;
    }
}

static enum tern_status take_mean(struct edit *x, const double *sums, uint64_t rows,
                                  struct tern_error *e)
{
    if (!rows)
        return parser_usage(e,
                            "--mean-over: no token of the text is sent to expert %llu of layer "
                            "%llu, so it has no mean",
                            (unsigned long long)x->expert, (unsigned long long)x->layer);
    for (size_t c = 0; c < x->n; c++)
        x->values[c] = (float)(sums[c] / (double)rows);
    return TERN_OK;
}

static enum tern_status measure(struct means *m, struct subject *s, const char *text, size_t n,
                                struct tern_error *e)
{
    tern_token *tokens = NULL;
    size_t n_tokens = 0;
    enum tern_status status = subject_tokenize(s, text, n, &tokens, &n_tokens, e);
    if (!status && !n_tokens)
        status = parser_usage(e, "--mean-over: the file holds no text");
    if (!status)
        status =
            text_pieces_watch(s, tokens, n_tokens, text_pieces_window(s, n_tokens), watch, m, e);
    for (size_t k = 0; !status && k < m->x->n; k++)
        status = take_mean(&m->x->list[k], m->sums[k], m->rows[k], e);
    free(tokens);
    return status;
}

/* The values become the means over the text of --mean-over. */
static enum tern_status take_means(struct edits *x, struct subject *s, struct tern_error *e)
{
    const char *path = s->o->value[LOOK_MEAN_OVER].text;
    struct means m = {x, calloc(x->n + 1, sizeof *m.sums), calloc(x->n + 1, sizeof *m.rows)};
    char *text = NULL;
    size_t n = 0;
    bool has_room = m.sums && m.rows;
    for (size_t k = 0; has_room && k < x->n; k++) {
        m.sums[k] = calloc(x->list[k].n, sizeof **m.sums);
        has_room = m.sums[k] != NULL;
    }
    enum tern_status status = has_room ? files_take(path, &text, &n, e) : parser_no_memory(e);
    if (!status)
        status = measure(&m, s, text, n, e);
    for (size_t k = 0; m.sums && k < x->n; k++)
        free(m.sums[k]);
    free(m.sums);
    free(m.rows);
    free(text);
    return status;
}

/* ---- the edits ------------------------------------------------------------------------------- */

enum tern_status ablation_take(struct edits *x, struct subject *s, struct tern_error *e)
{
    const char *text = s->o->value[LOOK_ABLATE].text;
    enum tern_status status = TERN_OK;
    for (size_t n; !status && text; text = text[n] ? text + n + 1 : NULL) {
        n = strcspn(text, ",");
        status = take_word(x, s, text, n, e);
    }
    return status || !s->o->value[LOOK_MEAN_OVER].given ? status : take_means(x, s, e);
}

enum tern_status ablation_take_all(struct edits *x, struct subject *s, struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    for (uint64_t l = 0; !status && l < s->info.n_layers; l++) {
        struct tern_layer_info info;
        tern_model_layer(s->model, l, &info);
        for (uint64_t h = 0; !status && h < info.n_heads; h++)
            status = add(x, l, "attend", h * info.head_dim, info.head_dim, e);
    }
    return status || !s->o->value[LOOK_MEAN_OVER].given ? status : take_means(x, s, e);
}
