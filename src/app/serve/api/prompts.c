/* Texts and ids of a request: see prompts.h. */
#include "app/serve/api/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "app/cli/tokens.h"

bool prompts_may_fit(const struct server *s, const char *text, size_t n, struct fault *f)
{
    size_t least, blanks = 0;
    if (!s->longest_token || n / s->longest_token <= s->plan.n_ctx)
        return true;
    for (size_t i = 0; i < n; i++)
        blanks += text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');
    if ((least = (n - blanks) / s->longest_token) <= s->plan.n_ctx)
        return true;
    fault_too_long(f, true, least, s->plan.n_ctx);
    return false;
}

bool prompts_give(struct job_request *job, const tern_token *tokens, size_t n, struct fault *f)
{
    job->prompt = malloc((n + 1) * sizeof *job->prompt);
    if (!job->prompt)
        return fault_no_memory(f, "the prompt");
    memcpy(job->prompt, tokens, n * sizeof *job->prompt);
    job->n_prompt = n;
    return true;
}

bool prompts_encode(struct prompt *p, const struct server *s, const char *text, size_t n,
                    unsigned flags, struct fault *f)
{
    struct tern_error e = {0};
    enum tern_status t = tokens_take(s->model, text, n, flags, 0, &p->tokens, &p->n, &e);
    if (t == TERN_NO_MEMORY)
        return fault_no_memory(f, "the request");
    if (t == TERN_CANCELLED)
        return fault_given_up(f);
    if (t)
        fault_set(f, t == TERN_USAGE ? 400 : 500, NULL, NULL, NULL, "%s", e.text);
    return !t;
}

bool prompts_read_ids(struct prompt *p, const struct server *s, const struct fields *f,
                      const char *name, const json_t *array, size_t max)
{
    size_t n = json_array_size(array);
    if (n > max)
        return fields_fault(f, name, "limit_exceeded", "has %zu token ids; at most %zu are allowed",
                            n, max);
    if (!(p->tokens = malloc((n + 1) * sizeof *p->tokens)))
        return fault_no_memory(f->fault, "the request");
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        if (!fields_whole(json_array_get(array, i), &id))
            return fields_fault(f, name, "invalid_type", "must hold token ids; item %zu is none",
                                i);
        if (id < 0 || (uint64_t)id >= s->info.vocab)
            return fields_fault(f, name, "invalid_value",
                                "has token id %lld, but ids are 0 to %llu", (long long)id,
                                (unsigned long long)s->info.vocab - 1);
        p->tokens[p->n++] = (tern_token)id;
    }
    return true;
}

static bool read_one(struct prompts *p, const struct server *s, const struct fields *f,
                     const char *name, const json_t *v)
{
    struct prompt *one = &p->list[p->n++];
    const char *text = json_string_value(v); /* NULL: it is no string */
    size_t n = json_string_length(v);
    bool ok = text ? prompts_may_fit(s, text, n, f->fault) &&
                         prompts_encode(one, s, text, n, TERN_ADD_SPECIAL, f->fault)
                   : prompts_read_ids(one, s, f, name, v, SIZE_MAX);
    if (!ok)
        fault_blame(f->fault, name);
    return ok && (one->n || fields_fault(f, name, "invalid_value", "has a text without tokens"));
}

bool prompts_read(struct prompts *p, const struct server *s, struct fields *f, const char *name,
                  size_t max)
{
    json_t *v = fields_any(f, name);
    const json_t *first = json_array_get(v, 0);
    bool many = json_is_string(first) || json_is_array(first);
    size_t n = many ? json_array_size(v) : 1;
    int64_t id;
    if (!v)
        return fields_need(f, name);
    if (!json_is_string(v) && !many && !fields_whole(first, &id))
        return fields_fault(f, name, "invalid_type",
                            "must be a string, an array of strings, an array of token ids or an "
                            "array of such arrays, and not empty");
    if (n > max)
        return fields_fault(f, name, "limit_exceeded", "has %zu texts; at most %zu are allowed", n,
                            max);
    if (!(p->list = calloc(n, sizeof *p->list)))
        return fault_no_memory(f->fault, "the request");
    for (size_t i = 0; i < n; i++) {
        const json_t *one = many ? json_array_get(v, i) : v;
        if (many && json_typeof(one) != json_typeof(first))
            return fields_fault(f, name, "invalid_type",
                                "must hold strings, or arrays of token ids");
        if (!read_one(p, s, f, name, one))
            return false;
    }
    return true;
}

void prompts_close(struct prompts *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->list[i].tokens);
    free(p->list);
    *p = (struct prompts){0};
}
