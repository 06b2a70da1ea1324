/* The names under which other tools know what happens inside a model: those of TransformerLens, with
 * its meanings and shapes (its "batch" of 1 comes first). `rows` is the number of positions kept.
 *
 *   hook_embed                         [1, rows, dim]      not where positions are learned: the engine
 *                                      shows their sum, which is blocks.0.hook_resid_pre
 *   blocks.L.hook_resid_pre            [1, rows, dim]      x before the layer
 *   blocks.L.attn.hook_q, hook_k       [1, rows, heads, head_dim]  before RoPE; not
 *                                      where the layer norms or clips q and k
 *   blocks.L.attn.hook_rot_q, _rot_k   the same, after RoPE; KV heads are not repeated; not where
 *                                      there is neither RoPE nor such a norm
 *   blocks.L.attn.hook_v               [1, rows, kv_heads, head_dim]  not where the layer clips it
 *   blocks.L.attn.hook_attn_scores     [1, heads, rows, rows]  scaled, capped; masked: -infinity
 *   blocks.L.attn.hook_pattern         [1, heads, rows, rows]  after softmax
 *   blocks.L.attn.hook_z               [1, rows, heads, head_dim]
 *   blocks.L.hook_attn_out             [1, rows, dim]      what attention adds
 *   blocks.L.hook_resid_mid            [1, rows, dim]
 *   blocks.L.mlp.hook_pre              [1, rows, hidden]   gate, or up where there is no gate
 *   blocks.L.mlp.hook_pre_linear       [1, rows, hidden]   up, where there is a gate
 *   blocks.L.mlp.hook_post             [1, rows, hidden]   what `down` reads
 *   blocks.L.hook_mlp_out              [1, rows, dim]
 *   blocks.L.hook_resid_post           [1, rows, dim]
 *
 * Dimensions i and i + half of q and k rotate together. Where the source rotates neighbours (Cohere,
 * GLM, Ernie), its dimensions come in the order 0, 2, 4, ..., 1, 3, 5, ...
 *
 * ADDING A HOOK: a row in the table of hooks.c, and a line here. */
#ifndef LOOK_HOOKS_H
#define LOOK_HOOKS_H

#include "app/look/subject.h"
#include "app/look/tensor_file.h"

enum hook_kind {
    HOOK_ROWS,   /* the observed rows as they are */
    HOOK_UNTURN, /* without RoPE */
    HOOK_SCORES, /* of tern_attention */
    HOOK_PATTERN
};

struct hook {
    uint64_t layer;
    const char *operation; /* of tern_observe */
    enum hook_kind kind;
};

/* The hooks of the model that `patterns` chooses (words with *, separated by commas; NULL: all) in
 * the layers of --layers, as arrays for n positions. The caller frees both. TERN_USAGE when a word
 * chooses nothing. `matrix` false: without those that are [rows, rows]. */
enum tern_status hooks_choose(const struct subject *s, const char *patterns, size_t n, bool matrix,
                              struct hook **hooks, struct tensor_array **arrays, size_t *n_hooks,
                              struct tern_error *e);

/* The hook `name` [n] of a layer, if it can be edited: tern_edit takes its operation. */
bool hooks_find(const struct subject *s, uint64_t layer, const char *name, size_t n,
                struct hook *hook);
/* The names that hooks_find knows in this layer, separated by commas; returns text [room]. */
const char *hooks_names(const struct subject *s, uint64_t layer, char *text, size_t room);

#endif
