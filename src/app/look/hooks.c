/* Names of TransformerLens: see hooks.h. */
#include "app/look/hooks.h"

#include <stdlib.h>
#include <string.h>

enum width { DIM, HEADS, KV_HEADS, HIDDEN, SQUARE };

static const struct hook_name {
    const char *name;      /* after "blocks.L." */
    const char *operation; /* of tern_observe */
    const char *instead;   /* where the layer has no such operation; or NULL */
    enum width width;
    enum hook_kind kind;
} names[] = {
    {"hook_resid_pre", "embed", NULL, DIM, HOOK_ROWS}, /* from layer 1 on: out of the one before */
    {"attn.hook_q", "q", NULL, HEADS, HOOK_UNTURN},
    {"attn.hook_k", "k", NULL, KV_HEADS, HOOK_UNTURN},
    {"attn.hook_rot_q", "q", NULL, HEADS, HOOK_ROWS},
    {"attn.hook_rot_k", "k", NULL, KV_HEADS, HOOK_ROWS},
    {"attn.hook_v", "v", NULL, KV_HEADS, HOOK_ROWS},
    {"attn.hook_attn_scores", "q", NULL, SQUARE, HOOK_SCORES},
    {"attn.hook_pattern", "q", NULL, SQUARE, HOOK_PATTERN},
    {"attn.hook_z", "attend", NULL, HEADS, HOOK_ROWS},
    {"hook_attn_out", "attn_post_norm", "o", DIM, HOOK_ROWS},
    {"hook_resid_mid", "middle", NULL, DIM, HOOK_ROWS},
    {"mlp.hook_pre", "gate", "up", HIDDEN, HOOK_ROWS},
    {"mlp.hook_pre_linear", "up", NULL, HIDDEN, HOOK_ROWS},
    {"mlp.hook_post", "act", NULL, HIDDEN, HOOK_ROWS},
    {"hook_mlp_out", "ffn_post_norm", "down", DIM, HOOK_ROWS},
    {"hook_resid_post", "out", NULL, DIM, HOOK_ROWS},
};
enum { N_NAMES = sizeof names / sizeof *names };

/* True when `text` is what a pattern with * says. */
static bool matches(const char *pattern, size_t n, const char *text)
{
    if (!n)
        return !*text;
    if (*pattern == '*')
        return matches(pattern + 1, n - 1, text) || (*text && matches(pattern, n, text + 1));
    return *pattern == *text && matches(pattern + 1, n - 1, text + 1);
}

/* The operation that a hook shows in this layer; NULL: the layer has no such hook. */
static const char *operation_of(const struct hook_name *h, uint64_t layer,
                                const struct tern_layer_info *w)
{
    const char *op = h->operation;
    if (h->kind == HOOK_UNTURN && w->qk_norm)
        return NULL; /* q before its norm is seen nowhere */
    if (!w->rope_dims && !w->qk_norm && strstr(h->name, "hook_rot_"))
        return NULL; /* it is hook_q or hook_k */
    if (!strcmp(op, "embed"))
        return layer ? "out" : op;
    if (!strcmp(op, "attn_post_norm") && !w->attn_post_norm)
        return h->instead;
    if (!strcmp(op, "ffn_post_norm") && !w->ffn_post_norm)
        return w->n_experts ? "experts" : h->instead;
    if (!strcmp(op, "middle") && w->parallel)
        return NULL;
    if (h->width == HIDDEN && w->n_experts)
        return NULL;
    if (!strcmp(op, "gate") && !w->gated)
        return h->instead;
    if (!strcmp(op, "up") && !w->gated)
        return NULL; /* it is hook_pre */
    return op;
}

/* TransformerLens shows q, k and v before they are clipped. The engine shows them clipped. */
static bool is_lost(const struct hook_name *h, const struct tern_layer_info *w)
{
    return w->qkv_clipped && (h->kind == HOOK_UNTURN || !strcmp(h->operation, "v"));
}

static void set_shape(struct tensor_array *a, const struct hook_name *h, size_t dim, size_t n,
                      const struct tern_layer_info *w)
{
    size_t heads = h->width == KV_HEADS ? w->n_kv_heads : w->n_heads;
    const size_t rows[] = {1, n, h->width == HIDDEN ? w->hidden : dim, 0};
    const size_t by_head[] = {1, n, heads, w->head_dim}, square[] = {1, heads, n, n};
    bool is_flat = h->width == DIM || h->width == HIDDEN;
    a->n_dims = is_flat ? 3 : 4;
    memcpy(a->shape, is_flat ? rows : h->width == SQUARE ? square : by_head, sizeof a->shape);
}

struct hook_list {
    struct hook *hooks;
    struct tensor_array *arrays;
    size_t n;
};

static void add(struct hook_list *list, const struct subject *s, uint64_t layer, size_t n,
                const struct hook_name *h, const char *word, size_t length, bool matrix)
{
    struct tern_layer_info w;
    struct tensor_array a = {.is_int = false};
    tern_model_layer(s->model, layer, &w);
    const char *operation = operation_of(h, layer, &w);
    snprintf(a.name, sizeof a.name, "blocks.%llu.%s", (unsigned long long)layer, h->name);
    if (!operation || is_lost(h, &w) || !matches(word, length, a.name) ||
        (h->width == SQUARE && !matrix))
        return;
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->arrays[i].name, a.name))
            return;
    set_shape(&a, h, s->info.dim, n, &w);
    uint64_t from = !strcmp(h->name, "hook_resid_pre") && layer ? layer - 1 : layer;
    list->hooks[list->n] = (struct hook){from, operation, h->kind};
    list->arrays[list->n++] = a;
}

/* Everything that one word of the patterns chooses; false: nothing */
static bool add_word(struct hook_list *list, const struct subject *s, const unsigned char *layers,
                     size_t n, const char *word, size_t length, bool matrix)
{
    size_t before = list->n;
    struct tern_layer_info first;
    tern_model_layer(s->model, 0, &first); /* with learned positions, "embed" has them already */
    if (matches(word, length, "hook_embed") && !first.learned_positions &&
        !(before && !strcmp(list->arrays->name, "hook_embed"))) {
        struct tensor_array a = {
            .name = "hook_embed", .n_dims = 3, .shape = {1, n, s->info.dim, 0}};
        list->hooks[list->n] = (struct hook){0, "embed", HOOK_ROWS};
        list->arrays[list->n++] = a;
    }
    for (uint64_t l = 0; l < s->info.n_layers; l++)
        for (size_t i = 0; layers[l] && i < N_NAMES; i++)
            add(list, s, l, n, &names[i], word, length, matrix);
    return list->n > before;
}

enum tern_status hooks_choose(const struct subject *s, const char *patterns, size_t n, bool matrix,
                              struct hook **hooks, struct tensor_array **arrays, size_t *n_hooks,
                              struct tern_error *e)
{
    unsigned char *layers = NULL;
    size_t room = s->info.n_layers * N_NAMES + 2, length;
    struct hook_list list = {calloc(room, sizeof *list.hooks), calloc(room, sizeof *list.arrays),
                             0};
    enum tern_status status = subject_layers(s, &layers, e);
    if (!status && (!list.hooks || !list.arrays))
        status = parser_no_memory_for(e, "the hooks");
    const char *word = patterns ? patterns : "*";
    do {
        length = strcspn(word, ",");
        if (!status && !add_word(&list, s, layers, n, word, length, matrix))
            status = parser_usage(e,
                                  "--hooks: '%.*s' is no hook %s; names are those of "
                                  "TransformerLens, as in blocks.2.attn.%s or *hook_resid_post",
                                  length < 100 ? (int)length : 100, word,
                                  matrix ? "of this model"
                                         : "here (hook_attn_scores and hook_pattern need one text, "
                                           "and attention that has weights)",
                                  matrix ? "hook_pattern" : "hook_z");
        word += length + (word[length] == ',');
    } while (*word);
    free(layers);
    *hooks = list.hooks, *arrays = list.arrays, *n_hooks = list.n;
    return status;
}

/* ---- hooks that can be edited ---------------------------------------------------------------- */

/* The operation to edit for h in this layer; NULL: none. hook_q and hook_k stand for what RoPE makes
 * of them: at one position both are turned alike. */
static const char *editable(const struct hook_name *h, uint64_t layer,
                            const struct tern_layer_info *w)
{
    const char *op = h->width == SQUARE ? NULL : operation_of(h, layer, w);
    return op && strcmp(op, "gate") && strcmp(op, "up") ? op : NULL;
}

bool hooks_find(const struct subject *s, uint64_t layer, const char *name, size_t n,
                struct hook *hook)
{
    struct tern_layer_info w;
    tern_model_layer(s->model, layer, &w);
    for (size_t i = 0; i < N_NAMES; i++) {
        const char *operation = editable(&names[i], layer, &w);
        if (!operation || strlen(names[i].name) != n || memcmp(names[i].name, name, n))
            continue;
        uint64_t from = !strcmp(names[i].name, "hook_resid_pre") && layer ? layer - 1 : layer;
        *hook = (struct hook){from, operation, HOOK_ROWS};
        return true;
    }
    return false;
}

const char *hooks_names(const struct subject *s, uint64_t layer, char *text, size_t room)
{
    struct tern_layer_info w;
    size_t at = 0;
    tern_model_layer(s->model, layer, &w);
    *text = 0;
    for (size_t i = 0; i < N_NAMES; i++)
        if (editable(&names[i], layer, &w) && at + strlen(names[i].name) + 3 < room)
            at += (size_t)snprintf(text + at, room - at, "%s%s", at ? ", " : "", names[i].name);
    return text;
}
