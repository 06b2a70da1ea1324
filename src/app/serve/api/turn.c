/* One answer to a conversation: see turn.h. */
#include "app/serve/api/turn.h"

#include "app/serve/api/answer_id.h"
#include "app/serve/api/prompts.h"
#include "app/serve/http/json_wide.h"
#include "app/serve/serve_options.h"
#include "app/serve/server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void turn_ignore(struct turn *t, const char *format, ...)
{
    size_t n = strlen(t->ignored), comma = n ? 2 : 0;
    char name[160];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(name, sizeof name, format, args);
    va_end(args);
    if (bytes > 0 && (size_t)bytes < sizeof name && n + comma + (size_t)bytes < sizeof t->ignored)
        (void)snprintf(t->ignored + n, sizeof t->ignored - n, "%s%s", n ? ", " : "", name);
}

size_t turn_skip_billing(struct turn *t, const char *place, const char *text, size_t n)
{
    static const char begin[] = "x-anthropic-billing-header";
    size_t n_begin = sizeof begin - 1;
    if (n < n_begin || memcmp(text, begin, n_begin) != 0)
        return 0;
    turn_ignore(t, "%s (%s)", place, begin);
    const char *feed = memchr(text, '\n', n);
    return feed ? (size_t)(feed - text) + 1 : n;
}

void turn_unknown(struct turn *t, const struct fields *f)
{
    fields_unknown(f, t->ignored);
}

void turn_think(struct turn *t, const struct server *s, const struct fields *f, const char *name,
                bool think)
{
    struct tern_chat_info info;
    t->chat_flags = think ? TERN_CHAT_THINK : TERN_CHAT_NO_THINK;
    bool chooses = tern_chat_info(s->model, &info) && info.thinking != 0;
    char none[1];
    if (!chooses && think != (tern_chat_opening(s->model, t->chat_flags, none, 0) > 0))
        turn_ignore(t, "%s%s%s", f->place, *f->place ? "." : "", name);
}

bool turn_read_schema(struct turn *t, const struct server *s, struct fields *f, const char *name)
{
    json_t *schema = fields_any(f, name);
    if (!fields_need(f, name) || (!json_is_boolean(schema) && !fields_object(f, name, &schema)))
        return false;
    char *text = json_plain(schema);
    if (!text)
        return fault_no_memory(f->fault, "the conversation");
    free(t->format);
    t->format = text;
    t->rules.format = FORMAT_SCHEMA;
    fields_path(f, name, t->rules.format_field);
    t->rules.text = text, t->rules.n = strlen(text);
    int64_t max = serve_number(s->options, SERVE_MAX_GRAMMAR);
    return t->rules.n <= (size_t)max ||
           fields_fault(f, name, "limit_exceeded", "has %zu bytes; at most %lld are allowed",
                        t->rules.n, (long long)max);
}

void turn_close(struct turn *t)
{
    dialog_close(t->dialog);
    request_params_close(&t->params);
    tool_list_close(&t->tools);
    json_decref(t->callable);
    free(t->choice);
    free(t->format);
    free(t->prompt.tokens);
    *t = (struct turn){0};
}

bool turn_check_text(const struct turn *t, const struct server *s, struct fault *f)
{
    size_t n = dialog_bytes(t->dialog), most = (size_t)serve_number(s->options, SERVE_MAX_TEXT);
    if (n <= most)
        return true;
    fault_set(f, 400, NULL, "limit_exceeded", t->field,
              "the conversation has %zu bytes; at most %zu are allowed where nothing is answered",
              n, most);
    return false;
}

/* Encoding much text takes long, writing it as the template has it does not. What cannot be
 * written is left to dialog_tokens. */
static bool may_fit(const struct turn *t, const struct server *s, struct fault *f)
{
    struct fault of_text = {0};
    char *text = NULL;
    size_t n = 0;
    if (dialog_bytes(t->dialog) / (s->longest_token + 1) <= s->plan.n_ctx)
        return true;
    bool ok = !dialog_text(t->dialog, s->model, t->chat_flags, false, &text, &n, &of_text) ||
              prompts_may_fit(s, text, n, f);
    free(text);
    return ok;
}

static void drop_format(struct turn *t)
{
    turn_ignore(t, "%s", t->rules.format_field);
    t->rules.format = FORMAT_TEXT;
}

static enum tern_answer_form form_of(const struct turn *t, const struct server *s)
{
    struct answer_rules r = t->rules;
    if (r.format == FORMAT_TEXT)
        return TERN_ANSWER_ANY;
    r.tools = dialog_tools_text(t->dialog, s->model, &r.n_tools);
    return answer_rules_may_call_or_text(&r) ? TERN_ANSWER_CALLS_OR_TEXT : TERN_ANSWER_ONLY_TEXT;
}

bool turn_prepare(struct turn *t, const struct server *s, struct fault *f)
{
    if (t->rules.format != FORMAT_TEXT && answer_rules_must_call(&t->rules))
        drop_format(t);
    if (!may_fit(t, s, f) ||
        !dialog_tokens(t->dialog, s->model, t->chat_flags, t->prefill, &t->prompt, f)) {
        fault_blame(f, t->field);
        return false;
    }
    t->rules.n_text = t->prompt.n_text;
    t->rules.spoke = t->prompt.n_text > 0;
    t->form = form_of(t, s);
    if (t->form == TERN_ANSWER_ONLY_TEXT &&
        !dialog_open_thought(&t->prompt, s->model, &t->rules.opened, f))
        return false;
    t->rules.n_said = t->prompt.n_said;
    t->rules.opened |= t->prompt.in_thought;
    return true;
}

/* ---- jobs ---------------------------------------------------------------------------------- */

/* The tools that may be called, as text, into the rules. *owned: to be freed. */
static void set_tools(struct turn *t, const struct server *s, char **owned)
{
    t->rules.tools = dialog_tools_text(t->dialog, s->model, &t->rules.n_tools);
    if (t->rules.tools && t->callable) {
        *owned = json_plain(t->callable);
        t->rules.tools = *owned;
        t->rules.n_tools = *owned ? strlen(*owned) : 0;
    }
}

/* A share of the constraint, or NULL */
static bool find_rules(struct turn *t, struct server *s, char *ignored, struct compiled **out,
                       struct fault *f)
{
    char *owned = NULL;
    set_tools(t, s, &owned);
    t->rules.chat_flags = t->prompt.chat_flags;
    t->rules.tool_places = t->tools.places;
    t->rules.said = t->prompt.tokens + t->prompt.n - t->rules.n_said;
    bool ok = answer_rules_find(s, &t->rules, out, ignored, FIELDS_TEXT_MAX, f);
    free(owned);
    return ok;
}

/* The job of the i-th answer */
static bool make_job(struct turn *t, struct server *s, uint64_t i, uint64_t client,
                     struct job_request *job, struct fault *f)
{
    char again[FIELDS_TEXT_MAX] = ""; /* what is ignored is the same for all */
    *job = (struct job_request){.kind = JOB_TEXT};
    if (!request_params_job(&t->params, i, client, job, f) ||
        !find_rules(t, s, i ? again : t->ignored, &job->constraint, f) ||
        !request_params_may_ignore_end(&t->params, job->constraint != NULL, f) ||
        !answer_rules_begin(&t->rules, s, job->constraint, &job->sampler.constraint, f))
        return false;
    if (job->sampler.constraint && job->receipt) { /* a receipt has no place for such a state */
        job->receipt = false;
        if (i == 0)
            turn_ignore(t, "receipt");
    }
    return prompts_give(job, t->prompt.tokens, t->prompt.n, f);
}

static bool add_jobs(struct turn *t, struct answers *all, struct server *s, struct exchange *x,
                     struct fault *f)
{
    struct answer_stream_params p = {.prompt = t->prompt.tokens,
                                     .n_prompt = t->prompt.n,
                                     .n_said = t->prompt.n_said,
                                     .chat_flags = t->prompt.chat_flags,
                                     .stop = t->stop,
                                     .n_stop = t->n_stop,
                                     .ignore_end = t->params.ignore_end,
                                     .form = t->form};
    bool ok = true;
    p.tools = dialog_tools_text(t->dialog, s->model, &p.n_tools);
    if (p.tools && p.n_said)
        ok = answer_stream_said_call(s->model, &p, &t->rules.said_call, f);
    for (size_t i = 0; ok && i < (t->n ? t->n : 1); i++) {
        struct job_request job;
        p.first_call = answer_first_call();
        ok = make_job(t, s, i, exchange_client(x), &job, f);
        p.plain = p.form == TERN_ANSWER_ONLY_TEXT && !answer_rules_think(&t->rules, s);
        if (ok)
            ok = answers_add(all, s, x, &p, &job, f);
        else
            job_request_free(&job);
    }
    return ok;
}

bool turn_begin(struct turn *t, struct server *s, struct exchange *x,
                const struct answers_writer *w, void *arg, struct fault *f)
{
    if (!job_has_room(s->scheduler, t->n ? t->n : 1, "n", f))
        return false;
    struct answers *all = answers_open(w, arg);
    if (!all)
        return fault_no_memory(f, "the conversation");
    if (!add_jobs(t, all, s, x, f)) {
        fault_blame(f, t->field);
        answers_close(all);
        return false;
    }
    answers_ignored(x, t->ignored);
    answers_begin(all, x);
    return true;
}
