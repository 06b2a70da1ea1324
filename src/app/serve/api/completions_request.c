/* Requests for completions: see completions_request.h. */
#include "app/serve/api/completions_request.h"

#include "app/serve/api/fill_in.h"
#include "app/serve/api/format_fields.h"
#include "app/serve/serve_options.h"

enum { MAX_TOKENS = 16 }; /* OpenAI's default for this API, unless the server was started with -n */

/* logprobs: how many alternatives; true, as chat has it, is none. */
static bool read_logprobs(struct completions_request *r, struct fields *f)
{
    int64_t top = 0;
    const json_t *v = fields_any(f, "logprobs");
    r->logprobs = v && !json_is_false(v);
    if (v && !json_is_boolean(v) && !fields_integer(f, "logprobs", 0, REQUEST_TOP_MAX, &top))
        return false;
    r->turn.params.n_top = (unsigned)top;
    return true;
}

static bool read_choices(struct completions_request *r, const struct server *s, struct fields *f)
{
    int64_t max = serve_number(s->options, SERVE_MAX_CHOICES);
    int64_t texts = (int64_t)r->prompts.n;
    r->n = 1;
    if (!fields_integer(f, "n", 1, max, &r->n))
        return false;
    r->best_of = r->n;
    if (!fields_integer(f, "best_of", 1, max, &r->best_of))
        return false;
    if (r->best_of < r->n)
        return fields_fault(f, "best_of", "invalid_value", "is %lld, below n, which is %lld",
                            (long long)r->best_of, (long long)r->n);
    if (r->best_of > r->n && r->envelope.stream)
        return fields_fault(f, "best_of", "invalid_value", "above n cannot be streamed");
    if (texts * r->best_of > max)
        return fields_fault(f, "prompt", "limit_exceeded",
                            "asks for %lld answers, %lld to each of %lld texts; at most %lld are allowed",
                            (long long)(texts * r->best_of), (long long)r->best_of, (long long)texts,
                            (long long)max);
    const char *name = texts > 1 ? "prompt" : fields_has(f, "best_of") ? "best_of" : "n";
    return job_has_room(s->scheduler, (size_t)(texts * r->best_of), name, f->fault);
}

static bool read_suffix(struct completions_request *r, const struct server *s, struct fields *f)
{
    const char *suffix = NULL;
    size_t n = 0;
    bool ok = fields_text(f, "suffix", &suffix, &n);
    for (size_t i = 0; n && i < r->prompts.n && ok; i++)
        ok = fill_in_make(&r->prompts.list[i], s, suffix, n, f->fault);
    return ok;
}

static bool read_options(struct completions_request *r, const struct server *s, struct exchange *x,
                         struct fields *f)
{
    struct request_params *p = &r->turn.params;
    if (!request_params_read(p, s, x, f))
        return false;
    if (!s->options->value[SERVE_N_PREDICT].given)
        p->n_predict = MAX_TOKENS;
    return request_params_length(p, f, "n_predict", 0) &&
           request_params_length(p, f, "max_tokens", 0) &&
           request_params_stop(p, f, "stop", REQUEST_STOPS_OPENAI) && read_logprobs(r, f) &&
           read_choices(r, s, f) && fields_bool(f, "echo", &r->echo);
}

/* Logprobs of prompts take memory, whatever the answers are. */
static bool check_echo(const struct completions_request *r, const struct server *s,
                       struct fields *f)
{
    int64_t max = serve_number(s->options, SERVE_MAX_LOGPROBS), sum = 0;
    for (size_t i = 0; i < r->prompts.n && r->echo && r->logprobs; i++)
        sum += (int64_t)r->prompts.list[i].n * r->best_of * (r->turn.params.n_top + 1);
    return sum <= max ||
           fields_fault(
               f, "logprobs", "limit_exceeded",
               "of the prompts, with their alternatives, are %lld; at most %lld are allowed",
               (long long)sum, (long long)max);
}

bool completions_request_read(struct completions_request *r, struct server *s, struct exchange *x,
                              struct fault *fault)
{
    struct fields f;
    size_t max = (size_t)serve_number(s->options, SERVE_MAX_CHOICES);
    r->turn.rules.plain = true;
    if (!fields_open(&f, exchange_json(x), "", fault) ||
        !envelope_fields_read(&r->envelope, &r->turn, s, &f) ||
        !prompts_read(&r->prompts, s, &f, "prompt", max) || !read_options(r, s, x, &f) ||
        !read_suffix(r, s, &f) || !check_echo(r, s, &f) ||
        !format_fields_read(&r->turn, &f, (size_t)serve_number(s->options, SERVE_MAX_GRAMMAR)))
        return false;
    fields_ignore(&f, "user");
    turn_unknown(&r->turn, &f);
    return true;
}

void completions_request_close(struct completions_request *r)
{
    prompts_close(&r->prompts);
    turn_close(&r->turn);
}

bool completions_request_job(struct completions_request *r, struct server *s, size_t i, uint64_t k,
                             uint64_t client, struct job_request *job, struct fault *f)
{
    const struct prompt *p = &r->prompts.list[i];
    char ignored[FIELDS_TEXT_MAX] = "";
    *job = (struct job_request){.kind = JOB_TEXT};
    if (!request_params_job(&r->turn.params, k, client, job, f) ||
        !answer_rules_find(s, &r->turn.rules, &job->constraint, ignored, sizeof ignored, f) ||
        !request_params_may_ignore_end(&r->turn.params, job->constraint != NULL, f))
        return false;
    job->logprobs = r->logprobs || r->best_of > r->n;
    job->prompt_logprobs = r->echo && r->logprobs;
    return prompts_give(job, p->tokens, p->n, f);
}
