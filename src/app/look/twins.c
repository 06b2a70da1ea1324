/* Two files of one model: see twins.h. */
#include "app/look/twins.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static enum tern_status differ(struct tern_error *e, const char *what, unsigned long long a,
                               unsigned long long b)
{
    return parser_usage(e,
                        "--compare: the files hold different models: %s is %llu in the first, "
                        "%llu in the other",
                        what, a, b);
}

static enum tern_status check_layer(const struct subject *a, const struct subject *b, uint64_t l,
                                    struct tern_error *e)
{
    static const char *const names[] = {
        "n_heads", "n_kv_heads",     "head_dim",     "hidden", "window",
        "experts", "experts used",   "RoPE dims",    "gated",  "parallel",
        "qk_norm", "attn_post_norm", "ffn_post_norm"};
    struct tern_layer_info x, y;
    tern_model_layer(a->model, l, &x);
    tern_model_layer(b->model, l, &y);
    const uint64_t pairs[COUNT(names)][2] = {
        {x.n_heads, y.n_heads},
        {x.n_kv_heads, y.n_kv_heads},
        {x.head_dim, y.head_dim},
        {x.hidden, y.hidden},
        {x.window, y.window},
        {x.n_experts, y.n_experts},
        {x.n_experts_used, y.n_experts_used},
        {x.rope_dims, y.rope_dims},
        {(uint64_t)x.gated, (uint64_t)y.gated},
        {(uint64_t)x.parallel, (uint64_t)y.parallel},
        {(uint64_t)x.qk_norm, (uint64_t)y.qk_norm},
        {(uint64_t)x.attn_post_norm, (uint64_t)y.attn_post_norm},
        {(uint64_t)x.ffn_post_norm, (uint64_t)y.ffn_post_norm}};
    for (size_t i = 0; i < COUNT(names); i++)
        if (pairs[i][0] != pairs[i][1]) {
            char what[64];
            snprintf(what, sizeof what, "%s of layer %llu", names[i], (unsigned long long)l);
            return differ(e, what, pairs[i][0], pairs[i][1]);
        }
    return TERN_OK;
}

static enum tern_status check_tokens(const struct subject *a, const struct subject *b,
                                     struct tern_error *e)
{
    if (!a->decoder != !b->decoder)
        return parser_usage(e, "--compare: only one of the files has a tokenizer");
    for (tern_token t = 0; a->decoder && (uint64_t)t < a->info.vocab; t++) {
        size_t n, m;
        const char *x = tern_token_text(a->model, t, &n), *y = tern_token_text(b->model, t, &m);
        if (n != m || memcmp(x, y, n))
            return parser_usage(e, "--compare: token %d differs: the vocabularies are not the same",
                                (int)t);
    }
    return TERN_OK;
}

enum tern_status twins_check(const struct subject *a, const struct subject *b, struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    if (a->info.n_layers != b->info.n_layers)
        return differ(e, "n_layers", a->info.n_layers, b->info.n_layers);
    if (a->info.dim != b->info.dim)
        return differ(e, "dim", a->info.dim, b->info.dim);
    if (a->info.vocab != b->info.vocab)
        return differ(e, "vocab", a->info.vocab, b->info.vocab);
    for (uint64_t l = 0; !status && l < a->info.n_layers; l++)
        status = check_layer(a, b, l, e);
    return status ? status : check_tokens(a, b, e);
}
