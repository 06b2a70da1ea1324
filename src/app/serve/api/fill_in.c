/* Filling in the middle: see fill_in.h. */
#include "app/serve/api/fill_in.h"

#include <stdlib.h>
#include <string.h>

/* Names of the marks before the text, before what follows the gap, and before the answer. Models without
 * the third have the second part first. */
static const struct {
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

static bool is_name(const char *name, const char *text, size_t n)
{
    return n && strlen(name) == n && !memcmp(name, text, n);
}

struct fill_in_marks fill_in_find(const tern_model *model)
{
    struct fill_in_marks found[N_KINDS];
    struct tern_model_info info;
    memset(found, -1, sizeof found);
    tern_model_info(model, &info);
    for (tern_token i = 0; (uint64_t)i < info.vocab; i++) {
        size_t n;
        const char *text = tern_token_text(model, i, &n);
        for (size_t k = 0; k < N_KINDS && n && strchr("<[\xE2", *text); k++)
            if (is_name(kinds[k].prefix, text, n))
                found[k].prefix = i;
            else if (is_name(kinds[k].suffix, text, n))
                found[k].suffix = i;
            else if (is_name(kinds[k].middle, text, n))
                found[k].middle = i;
    }
    for (size_t k = 0; k < N_KINDS; k++)
        if (found[k].prefix >= 0 && found[k].suffix >= 0 &&
            (found[k].middle >= 0 || !*kinds[k].middle))
            return found[k];
    return (struct fill_in_marks){-1, -1, -1};
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
    const struct fill_in_marks m = s->fill_in;
    struct prompt behind = {0}, out = {0};
    if (m.prefix < 0) {
        fault_set(f, 400, NULL, "unsupported_parameter", "suffix",
                  "suffix needs a model with fill-in-the-middle tokens, and this one has none");
        return false;
    }
    if (!prompts_may_fit(s, suffix, n, f) || !prompts_encode(&behind, s, suffix, n, 0, f))
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
