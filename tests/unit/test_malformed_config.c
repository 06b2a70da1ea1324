/* Malformed configs: every key that FORMAT.md lists gets every other type, a number of values that
 * no model has, and values beyond both ends of its range, in each layer; each is refused by its
 * name. What the features of a layer demand of each other is in the second table.
 *
 * ADDING A KEY: a row in `rules`; the test fails while a key of FORMAT.md has none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/keywriter.h"
#include "model/config.h"
#include "suite.h"

enum { LAYERS = 2, FREQUENCIES = 4 };

struct rule {
    const char *key;
    enum key_type type;
    size_t values; /* 1, LAYERS (or 1), or of an array FREQUENCIES */
    double good;
    double below, above; /* just out of range; NAN: there is no such number */
    bool needed;
};

#define OF_MODEL(key, good, below, above)         \
    {                                             \
        key, KEY_U64, 1, good, below, above, true \
    }
#define SWITCH(key)                       \
    {                                     \
        key, KEY_U64, 1, 1, NAN, 2, false \
    }
#define NUMBER(key, good, below)                     \
    {                                                \
        key, KEY_F32, 1, good, below, 0x1p101, false \
    }
#define OF_LAYER(key, good, below, above, needed)        \
    {                                                    \
        key, KEY_U64, LAYERS, good, below, above, needed \
    }
#define LAYER_SWITCH(key, good)                   \
    {                                             \
        key, KEY_U64, LAYERS, good, NAN, 2, false \
    }
#define LAYER_NUMBER(key, good, below)                    \
    {                                                     \
        key, KEY_F32, LAYERS, good, below, 0x1p101, false \
    }

static const struct rule rules[] = {
    OF_MODEL("n_layers", LAYERS, 0, 1025),
    OF_MODEL("dim", 32, 0, 1048577),
    OF_MODEL("vocab", 40, 0, 16777217),
    OF_MODEL("max_seq", 16, 0, 16777217),
    OF_MODEL("head_tied", 1, NAN, 2),
    SWITCH("head_bias"),
    SWITCH("norm_bias"),
    SWITCH("learned_positions"),
    SWITCH("embed_norm"),
    {"q_scale_every", KEY_U64, 1, 8, 0, 16777217, false},
    {"q_scale_shift", KEY_U64, 1, 1, NAN, 16777217, false},
    {"q_scales", KEY_F32, FREQUENCIES, 1.5, NAN, NAN, false},
    {"norm_eps", KEY_F32, 1, 1e-5, -1, 0x1p101, true},
    NUMBER("embed_scale", 2, -0x1p101),
    NUMBER("residual_scale", 2, -0x1p101),
    NUMBER("logit_scale", 2, -0x1p101),
    NUMBER("logit_cap", 30, -1),
    {"norm", KEY_TEXT, 1, 0, NAN, NAN, false},
    {"activation", KEY_TEXT, 1, 0, NAN, NAN, false},
    OF_LAYER("n_heads", 2, 0, 4097, true),
    OF_LAYER("n_kv_heads", 1, 0, 4097, true),
    OF_LAYER("head_dim", 16, 0, 1025, true),
    OF_LAYER("hidden", 48, 0, 1048577, true),
    OF_LAYER("window", 7, NAN, 4294967296, false),
    LAYER_SWITCH("window_chunked", 1),
    LAYER_SWITCH("q_scaled", 1),
    OF_LAYER("rope_set", 1, NAN, 9, false),
    OF_LAYER("attn_bias", 15, NAN, 16, false),
    OF_LAYER("ffn_bias", 7, NAN, 8, false),
    OF_LAYER("norms", 15, NAN, 64, false),
    LAYER_SWITCH("round_inputs", 0),
    OF_LAYER("qk_norm", 1, NAN, 5, false),
    LAYER_SWITCH("qkv_clip_last", 0),
    LAYER_SWITCH("qk_norm_last", 0),
    LAYER_SWITCH("attn_sinks", 1),
    LAYER_SWITCH("parallel", 0),
    LAYER_SWITCH("ffn_gated", 1),
    OF_LAYER("n_experts", 4, NAN, 1025, false),
    OF_LAYER("experts_used", 2, NAN, 1025, false),
    OF_LAYER("router_score", 2, NAN, 5, false),
    LAYER_SWITCH("expert_in_weight", 0),
    LAYER_SWITCH("router_normalize", 1),
    OF_LAYER("router_groups", 2, 0, 1025, false),
    OF_LAYER("router_groups_used", 1, 0, 1025, false),
    OF_LAYER("router_group_best", 2, 0, 3, false),
    LAYER_NUMBER("router_jitter", 0.01, -1),
    LAYER_SWITCH("router_bias", 1),
    LAYER_SWITCH("router_select_bias", 1),
    OF_LAYER("kv_rank", 0, NAN, 1025, false),
    OF_LAYER("q_rank", 0, NAN, 1048577, false),
    OF_LAYER("nope_dim", 0, NAN, 1025, false),
    OF_LAYER("value_dim", 0, NAN, 1025, false),
    LAYER_NUMBER("latent_eps", 0.01, -1),
    OF_LAYER("shared_hidden", 16, NAN, 1048577, false),
    LAYER_SWITCH("shared_switch", 1),
    OF_LAYER("mixer", 1, NAN, 5, false),
    OF_LAYER("attn_gate", 1, NAN, 5, false),
    OF_LAYER("recurrence", 1, NAN, 2, false),
    OF_LAYER("k_heads", 1, NAN, 4097, false),
    OF_LAYER("v_heads", 2, NAN, 4097, false),
    OF_LAYER("k_dim", 8, NAN, 513, false),
    OF_LAYER("v_dim", 8, NAN, 513, false),
    OF_LAYER("conv_width", 4, NAN, 17, false),
    LAYER_SWITCH("conv_bias", 1),
    OF_LAYER("mix_bias", 7, NAN, 8, false),
    OF_LAYER("state_norm", 2, NAN, 3, false),
    OF_LAYER("state_norm_groups", 2, 0, 4097, false),
    LAYER_SWITCH("state_gate", 1),
    LAYER_SWITCH("state_skip", 1),
    LAYER_SWITCH("state_decay", 0),
    OF_LAYER("decay_rank", 0, NAN, 1048577, false),
    OF_LAYER("gate_rank", 0, NAN, 1048577, false),
    {"decay_floor", KEY_F32, LAYERS, 0, -0x1p101, 1, false},
    LAYER_NUMBER("beta_scale", 2, -1),
    LAYER_NUMBER("state_norm_eps", 0.5, -1),
    LAYER_SWITCH("expert_norms", 0),
    LAYER_SWITCH("router_scale", 0),
    OF_LAYER("kv_from", 0, NAN, 1025, false),
    LAYER_SWITCH("v_from_k", 0),
    LAYER_SWITCH("v_norm", 1),
    LAYER_SWITCH("layer_scale", 1),
    {"ple_vocab", KEY_U64, 1, 30, NAN, 16777217, false},
    {"n_streams", KEY_U64, 1, 0, NAN, 9, false},
    OF_LAYER("laurel_rank", 0, NAN, 1048577, false),
    LAYER_NUMBER("ffn_cutoff", -0x1p100, -0x1p101),
    {"ple_dim", KEY_U64, 1, 4, NAN, 1048577, false},
    {"mtp", KEY_U64, 1, 0, NAN, 2, false},
    NUMBER("ple_embed_scale", 2, -0x1p101),
    NUMBER("ple_in_scale", 2, -0x1p101),
    NUMBER("ple_scale", 2, -0x1p101),
    {"attn_scale", KEY_F32, LAYERS, 0.25, -0x1p101, 0x1p101, true},
    LAYER_NUMBER("attn_cap", 50, -1),
    {"alibi", KEY_F32, 2, 0.5, -0x1p21, 1.1, false}, /* of two heads */
    LAYER_NUMBER("qkv_clip", 8, -1),
    LAYER_NUMBER("ffn_clamp", 7, -1),
    LAYER_NUMBER("router_factor", 2, -0x1p101),
    {"rope.0.inv_freq", KEY_F32, FREQUENCIES, 1, NAN, NAN, false},
    {"rope.0.factor", KEY_F32, 1, 1, NAN, NAN, false},
    {"rope.0.far_freq", KEY_F32, FREQUENCIES, 1, NAN, NAN, true},
    {"rope.0.limit", KEY_U64, 1, 40, NAN, 4294967296, false},
};

enum { RULES = sizeof rules / sizeof *rules };

/* One key as it is written: `n` values, all `good`, but number `at` is `odd`. */
struct value {
    enum key_type type;
    size_t n, at;
    double odd;
};

static void add(struct keywriter *w, const struct rule *r, const struct value *v)
{
    enum { MOST = 4100 };
    uint64_t sizes[MOST];
    uint32_t words[MOST];
    float numbers[MOST];
    char text[MOST];
    for (size_t i = 0; i < v->n; i++) {
        double x = i == v->at ? v->odd : r->good;
        sizes[i] = x >= 0x1p64 ? UINT64_MAX : x >= 0 ? (uint64_t)x : 0;
        words[i] = 1, text[i] = 'x', numbers[i] = (float)x;
    }
    const void *const data[] = {
        [KEY_U64] = sizes, [KEY_F32] = numbers, [KEY_TEXT] = text, [KEY_U32] = words};
    if (r->type == KEY_TEXT && v->type == KEY_TEXT && v->n == 1 && v->at)
        keywriter_text(w, r->key, strcmp(r->key, "norm") ? "gelu" : "rms");
    else
        keywriter_add(w, r->key, true, v->type, data[v->type], v->n);
}

/* The key block w as a config; w is closed. */
static enum tern_status read_block(struct keywriter *w, struct tern_error *e)
{
    struct keys keys = {0};
    struct model m = {0};
    *e = (struct tern_error){0};
    void *block = aligned_alloc(8, (w->bytes + 7) / 8 * 8);
    memcpy(block, w->data, w->bytes);
    enum tern_status s = keys_parse(&keys, "config", block, w->bytes, e);
    if (!s)
        s = config_read(&m, &keys, e);
    free(m.shapes);
    free(m.ropes);
    keys_close(&keys);
    keywriter_close(w);
    free(block);
    return s;
}

/* The config with rule `odd` written as *v says, or left out (v NULL); -1: sound. */
static enum tern_status read_with(int odd, const struct value *v, struct tern_error *e)
{
    struct keywriter w;
    keywriter_init(&w);
    for (int i = 0; i < RULES; i++) {
        const struct value sound = {rules[i].type, rules[i].values, SIZE_MAX, 0};
        if (i != odd || v)
            add(&w, &rules[i], i == odd ? v : &sound);
    }
    return read_block(&w, e);
}

static void refuse(int i, const char *what, struct value v)
{
    struct tern_error e;
    enum tern_status s = read_with(i, &v, &e);
    ck_assert_msg(s == TERN_BAD_FILE && e.code == s, "%s, %s: status %d", rules[i].key, what, s);
    ck_assert_msg(strstr(e.text, rules[i].key), "%s, %s: %s", rules[i].key, what, e.text);
}

START_TEST(sound)
{
    struct tern_error e;
    ck_assert_msg(!read_with(-1, NULL, &e), "%s", e.text);
    for (int i = 0; i < RULES; i++) {
        enum tern_status s = read_with(i, NULL, &e);
        if (rules[i].needed)
            ck_assert_msg(s == TERN_BAD_FILE && strstr(e.text, rules[i].key) &&
                              strstr(e.text, "missing"),
                          "without %s: %s", rules[i].key, e.text);
    }
}
END_TEST

START_TEST(types_and_counts)
{
    const struct rule *r = &rules[_i];
    for (int t = KEY_U64; t <= KEY_U32; t++)
        if (t != (int)r->type)
            refuse(_i, "another type", (struct value){(enum key_type)t, r->values, SIZE_MAX, 0});
    if (r->type == KEY_TEXT) {
        refuse(_i, "an empty word", (struct value){r->type, 0, 0, 0});
        refuse(_i, "another word", (struct value){r->type, 3, 0, 0});
        refuse(_i, "a long word", (struct value){r->type, 70, 0, 0});
        return;
    }
    refuse(_i, "no value", (struct value){r->type, 0, 0, 0});
    refuse(_i, "too many values",
           (struct value){r->type, r->values > LAYERS ? 4097 : 3, SIZE_MAX, 0});
}
END_TEST

START_TEST(ranges)
{
    const struct rule *r = &rules[_i];
    const double everywhere[] = {NAN, INFINITY, -INFINITY};
    for (size_t at = 0; at < r->values; at++) {
        if (!isnan(r->below))
            refuse(_i, "below", (struct value){r->type, r->values, at, r->below});
        if (!isnan(r->above))
            refuse(_i, "above", (struct value){r->type, r->values, at, r->above});
        if (r->type == KEY_U64)
            refuse(_i, "2^64 - 1", (struct value){r->type, r->values, at, 0x1p64});
        for (size_t i = 0; i < 3 && r->type == KEY_F32; i++)
            refuse(_i, "not finite", (struct value){r->type, r->values, at, everywhere[i]});
    }
    if (r->values == LAYERS && !isnan(r->above))
        refuse(_i, "one for all", (struct value){r->type, 1, 0, r->above});
}
END_TEST

/* ---- what one feature demands of another --------------------------------------------------- */

struct clash {
    const char *what, *key, *want;
    double value; /* in layer 1 */
    size_t n;     /* values; 0: LAYERS */
};

static const struct clash clashes[] = {
    {"heads", "n_kv_heads", "layer 1: n_kv_heads 3 does not divide n_heads 2", 3, 0},
    {"heads of alibi", "n_heads", "'alibi' has 2 values, and layer 1 has 4 heads", 4, 0},
    {"rotary dims", "head_dim", "layer 1: 8 rotary dims exceed head_dim 6", 6, 0},
    {"RoPE sets", "rope_set", "layer 1: RoPE set 2 of 1 is wanted", 2, 0},
    {"keys of a later layer", "kv_from", "layer 1: kv_from is 2, want an earlier layer", 2, 0},
    {"a norm of no values", "kv_from", "layer 1: parts of keys or values", 1, 0},
    {"keys as values, with a bias", "v_from_k", "layer 1: parts of keys or values", 1, 0},
    {"norms and a switch", "expert_norms", "layer 1: norms or scales of experts", 1, 0},
    {"experts", "experts_used", "layer 1: experts_used is 5, of 4 experts", 5, 0},
    {"no expert", "experts_used", "layer 1: experts_used is 0, of 4 experts", 0, 0},
    {"a router", "n_experts", "layer 1: experts_used is 2, of 0 experts", 0, 0},
    {"norms", "norms", "layer 1: its feed-forward step has no norm", 3, 0},
    {"groups", "router_groups", "layer 1: 1 of 3 groups of 4 experts", 3, 0},
    {"groups used", "router_groups_used", "layer 1: 3 of 2 groups of 4 experts", 3, 0},
    {"latent attention", "kv_rank", "layer 1: latent attention of rank 8 with", 8, 0},
    {"value without a rank", "value_dim", "layer 1: latent attention of rank 0 with", 8, 0},
    {"a learned residual", "laurel_rank", "layer 1: n_streams or laurel_rank need attention", 4, 0},
    {"a cutoff", "ffn_cutoff", "layer 1: ffn_cutoff needs a dense step with a gate", 0.5, 0},
    {"parallel", "parallel", "layer 1: a parallel layer has a norm after attention", 1, 0},
};

START_TEST(what_does_not_go_together)
{
    const struct clash *c = &clashes[_i];
    struct tern_error e;
    int i = 0;
    while (strcmp(rules[i].key, c->key))
        i++;
    enum tern_status s = read_with(i, &(struct value){rules[i].type, LAYERS, 1, c->value}, &e);
    ck_assert_msg(s == TERN_BAD_FILE && strstr(e.text, c->want), "%s: %s", c->what, e.text);
}
END_TEST

/* Several keys, each with one value for all layers, or a word, or with an empty word left out; others
 * are sound. */
struct change {
    const char *key;
    double value;
    const char *word;
};

enum { CHANGES = 7 };

static const struct {
    const char *want; /* or NULL: it is sound */
    struct change list[CHANGES];
} sets[] = {
    {"n_heads * head_dim is 1049600",
     {{"n_heads", 1025, 0}, {"head_dim", 1024, 0}, {"alibi", 0, ""}}},
    {NULL, {{"n_heads", 1024, 0}, {"head_dim", 1024, 0}, {"alibi", 0, ""}}},
    {"window_chunked without a window", {{"window", 0, 0}}},
    {"a router without experts", {{"n_experts", 0, 0}, {"experts_used", 0, 0}}},
    {"a router without experts",
     {{"n_experts", 0, 0}, {"experts_used", 0, 0}, {"shared_hidden", 0, 0}}},
    {"a router without experts",
     {{"n_experts", 0, 0}, {"experts_used", 0, 0}, {"shared_hidden", 0, 0}, {"router_bias", 0, 0}}},
    {"a router without experts",
     {{"n_experts", 0, 0},
      {"experts_used", 0, 0},
      {"shared_hidden", 0, 0},
      {"router_select_bias", 0, 0}}},
    {NULL,
     {{"n_experts", 0, 0},
      {"experts_used", 0, 0},
      {"shared_hidden", 0, 0},
      {"router_bias", 0, 0},
      {"router_select_bias", 0, 0}}},
    {"a norm after attention",
     {{"n_experts", 0, 0},
      {"experts_used", 0, 0},
      {"shared_hidden", 0, 0},
      {"router_bias", 0, 0},
      {"router_select_bias", 0, 0},
      {"parallel", 1, 0}}},
    {NULL,
     {{"n_experts", 0, 0},
      {"experts_used", 0, 0},
      {"shared_hidden", 0, 0},
      {"router_bias", 0, 0},
      {"router_select_bias", 0, 0},
      {"parallel", 1, 0},
      {"norms", 1, 0}}},
    {NULL, {{"norms", 9, 0}}}, /* after the step only */
    {"inner norms or rounded inputs", {{"round_inputs", 1, 0}}}, /* beside experts */
    {"inner norms or rounded inputs", {{"norms", 31, 0}}},
    {"decays or ranks of a delta net", {{"mixer", 3, 0}, {"state_decay", 1, 0}}},
    {"decays or ranks of a delta net", {{"mixer", 3, 0}, {"gate_rank", 8, 0}}},
    {"decays or ranks of a delta net", {{"mixer", 3, 0}, {"decay_floor", -1, 0}}},
    {NULL, {{"mixer", 3, 0}, {"state_decay", 1, 0}, {"decay_rank", 8, 0}, {"recurrence", 0, 0}}},
    {"a recurrent mixer of 1 and 4096 heads",
     {{"mixer", 3, 0}, {"state_decay", 1, 0}, {"recurrence", 0, 0}, {"v_heads", 4096, 0}, {"k_dim", 257, 0}}},
    {"inner norms or rounded inputs", {{"norms", 47, 0}}},
    {"xielu with a gate", {{"activation", 0, "xielu"}}},
    {NULL, {{"activation", 0, "xielu"}, {"ffn_gated", 0, 0}}},
    {"qk_norm_last of all heads", {{"qk_norm", 2, 0}, {"qk_norm_last", 1, 0}}},
    {"swiglu_oai without a gate", {{"activation", 0, "swiglu_oai"}, {"ffn_gated", 0, 0}}},
    {NULL, {{"activation", 0, "swiglu_oai"}}},
    {"'n_heads' has 2 values, want 1 or 3", {{"mtp", 1, 0}}},
    {"layer 1: mtp with layer_scale", {{"n_layers", 1, 0}, {"mtp", 1, 0}}},
    {"layer 1: mtp with ple_dim", {{"n_layers", 1, 0}, {"mtp", 1, 0}, {"layer_scale", 0, 0}}},
    {"layer 1: mtp with learned_positions",
     {{"n_layers", 1, 0}, {"mtp", 1, 0}, {"layer_scale", 0, 0}, {"ple_dim", 0, 0}}},
    {NULL,
     {{"n_layers", 1, 0},
      {"mtp", 1, 0},
      {"layer_scale", 0, 0},
      {"ple_dim", 0, 0},
      {"learned_positions", 0, 0}}},
};

START_TEST(several_changes)
{
    struct keywriter w;
    struct tern_error e;
    keywriter_init(&w);
    for (int i = 0; i < RULES; i++) {
        const struct change *c = sets[_i].list, *end = c + CHANGES;
        if (!strcmp(rules[i].key, "alibi")) /* has as many values as there are heads */
            continue;
        while (c < end && c->key && strcmp(c->key, rules[i].key))
            c++;
        const struct value good = {rules[i].type, rules[i].values, SIZE_MAX, 0};
        if (c == end || !c->key)
            add(&w, &rules[i], &good);
        else if (c->word && *c->word)
            keywriter_text(&w, c->key, c->word);
        else if (!c->word)
            add(&w, &rules[i], &(struct value){rules[i].type, 1, 0, c->value});
    }
    enum tern_status s = read_block(&w, &e);
    if (sets[_i].want)
        ck_assert_msg(s == TERN_BAD_FILE && strstr(e.text, sets[_i].want), "%d: %s", s, e.text);
    else
        ck_assert_msg(!s, "%s", e.text);
}
END_TEST

/* Sets beyond the first: as many as fit, one limit for all, as many far frequencies as near. */
START_TEST(more_rope_sets)
{
    static const float freq[4] = {1, 1, 1, 1};
    static const struct {
        size_t n, far;
        uint64_t limit;
        const char *want;
    } cases[] = {{1, 4, 40, NULL},
                 {7, 4, 40, NULL},
                 {8, 4, 40, "rope.8"},
                 {1, 4, 41, "rope.1.limit"},
                 {1, 3, 40, "rope.1.far_freq"}};
    const struct value three = {KEY_F32, 3, SIZE_MAX, 0};
    struct tern_error e;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct keywriter w;
        char name[32];
        keywriter_init(&w);
        for (int i = 0; i < RULES; i++) {
            const struct value good = {rules[i].type, rules[i].values, SIZE_MAX, 0};
            add(&w, &rules[i], &good);
        }
        for (size_t i = 1; i <= cases[k].n; i++) {
            snprintf(name, sizeof name, "rope.%zu.inv_freq", i);
            keywriter_add(&w, name, true, KEY_F32, freq, 4);
            snprintf(name, sizeof name, "rope.%zu.far_freq", i);
            keywriter_add(&w, name, true, KEY_F32, freq, cases[k].far);
            snprintf(name, sizeof name, "rope.%zu.limit", i);
            keywriter_u64(&w, name, cases[k].limit);
        }
        enum tern_status s = read_block(&w, &e);
        if (cases[k].want)
            ck_assert_msg(s == TERN_BAD_FILE && strstr(e.text, cases[k].want), "%d: %s", s, e.text);
        else
            ck_assert_msg(!s, "%s", e.text);
    }
    int far = 0;
    while (strcmp(rules[far].key, "rope.0.far_freq"))
        far++;
    refuse(far, "fewer than near", three);
}
END_TEST

/* ---- the list of FORMAT.md ----------------------------------------------------------------- */

static bool has_rule(const char *key, size_t n)
{
    for (int i = 0; i < RULES; i++) {
        const char *mine = rules[i].key;
        if (strlen(mine) == n && !strncmp(mine, key, n))
            return true;
        if (!strncmp(mine, "rope.0.", 7) && !strncmp(key, "rope.N.", 7) && strlen(mine) == n &&
            !strncmp(mine + 7, key + 7, n - 7))
            return true;
    }
    return false;
}

START_TEST(every_key_of_the_format)
{
    char line[1024];
    int keys = 0;
    bool inside = false;
    FILE *f = fopen("src/weights/FORMAT.md", "r");
    ck_assert_msg(f, "run this from the project's folder");
    while (fgets(line, sizeof line, f)) {
        if (!strncmp(line, "## ", 3))
            inside = !strncmp(line, "## Config keys", 14);
        char *bar = inside && line[0] == '|' ? strchr(line + 1, '|') : NULL;
        for (char *k = line; bar && (k = strchr(k, '`')) && k < bar; k = strchr(k + 1, '`') + 1) {
            size_t n = strcspn(k + 1, "`");
            keys++;
            ck_assert_msg(has_rule(k + 1, n), "%.*s of FORMAT.md has no rule here", (int)n, k + 1);
        }
    }
    fclose(f);
    ck_assert_int_ge(keys, RULES);
}
END_TEST

SUITE("malformed config", TEST(sound), LOOP(types_and_counts, 0, RULES), LOOP(ranges, 0, RULES),
      LOOP(what_does_not_go_together, 0, sizeof clashes / sizeof *clashes),
      LOOP(several_changes, 0, sizeof sets / sizeof *sets), TEST(more_rope_sets),
      TEST(every_key_of_the_format))
