/* Filling in the middle: see fill_in.h. */
#include "app/serve/api/fill_in.h"

#include <stdlib.h>
#include <string.h>

/* Names of the marks before the text, before what follows the gap, and before the answer. Models without
 * the third have the second part first. */
static const struct mark_names {
    const char *prefix, *suffix, *middle;
} kinds[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},    /* Qwen, CodeGemma */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},          /* StarCoder, Granite */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},          /* SantaCoder */
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, /* GLM */
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "begin\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "hole\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "end\xEF\xBD\x9C>"},                                            /* DeepSeek */
    {"\xE2\x96\x81<PRE>", "\xE2\x96\x81<SUF>", "\xE2\x96\x81<MID>"}, /* Code Llama */
    {"[PREFIX]", "[SUFFIX]", ""},                                    /* Codestral */
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

struct found_marks {
    tern_token prefix, suffix, middle; /* -1: none */
};

/* The token of that name, or -1 */
static tern_token find(const tern_model *model, const char *name)
{
    struct tern_model_info info;
    size_t n, bytes = strlen(name);
    tern_model_info(model, &info);
    for (tern_token i = 0; bytes && (uint64_t)i < info.vocab; i++) {
        const char *text = tern_token_text(model, i, &n);
        if (n == bytes && memcmp(text, name, n) == 0)
            return i;
    }
    return -1;
}

static bool find_marks(const tern_model *model, struct found_marks *m)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        *m = (struct found_marks){find(model, kinds[i].prefix), -1, -1};
        if (m->prefix < 0)
            continue;
        m->suffix = find(model, kinds[i].suffix);
        m->middle = find(model, kinds[i].middle);
        if (m->suffix >= 0 && (m->middle >= 0 || !*kinds[i].middle))
            return true;
    }
    return false;
}

bool fill_in_is_known(const tern_model *model)
{
    struct found_marks m;
    return find_marks(model, &m);
}

static void put(struct prompt *p, const tern_token *tokens, size_t n)
{
    if (n)
        memcpy(p->tokens + p->n, tokens, n * sizeof *tokens);
    p->n += n;
}

/* Special tokens that begin every text stay in front. */
static size_t front(const struct server *s, const struct prompt *p)
{
    return p->n && p->tokens[0] == s->info.bos ? 1 : 0;
}

bool fill_in_make(struct prompt *p, const struct server *s, const char *suffix, size_t n,
                  struct fault *f)
{
    struct found_marks m;
    struct prompt behind = {0}, out = {0};
    if (!find_marks(s->model, &m)) {
        fault_set(f, 400, NULL, "unsupported_parameter", "suffix",
                  "suffix needs a model with fill-in-the-middle tokens, and this one has none");
        return false;
    }
    if (!prompts_encode(&behind, s, suffix, n, 0, f))
        return false;
    out.tokens = malloc((p->n + behind.n + 4) * sizeof *out.tokens);
    if (!out.tokens) {
        free(behind.tokens);
        fault_no_memory(f, "the prompt");
        return false;
    }
    size_t from = front(s, p);
    put(&out, p->tokens, from);
    if (m.middle < 0) {
        put(&out, &m.suffix, 1);
        put(&out, behind.tokens, behind.n);
    }
    put(&out, &m.prefix, 1);
    put(&out, p->tokens + from, p->n - from);
    if (m.middle >= 0) {
        put(&out, &m.suffix, 1);
        put(&out, behind.tokens, behind.n);
        put(&out, &m.middle, 1);
    }
    free(behind.tokens);
    free(p->tokens);
    *p = out;
    return true;
}
