/* Chat: see chat_loop.h. Questions come in, and answers go to standard output; prompts, hints
 * and errors go to standard error. */
#include "app/run/chat_loop.h"

#include "app/run/conversation.h"
#include "app/cli/files.h"
#include "app/cli/growing_text.h"
#include "app/cli/line_editor.h"
#include "app/run/complete.h"
#include "app/run/resume.h"
#include "app/cli/out.h"
#include "app/run/plan.h"
#include "app/run/tool_answer.h"
#include "app/cli/signals.h"
#include "app/cli/stopwatch.h"
#include "app/cli/visible.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct chat_loop {
    struct completion g; /* first, for its callbacks get this struct */
    int (*show)(void *arg, tern_token token, const char *text, size_t n); /* its own on_text, */
    int (*report)(void *arg, tern_token token, const float *logits);      /* on_token */
    struct run_options *o;
    struct tern_chat_info info;
    struct conversation said;
    struct tool_answer tools;
    struct tern_error *e; /* of the answer that is made */
    tern_token *tokens;   /* [room] the conversation as the template writes it */
    size_t room;
    struct growing_text answer, line;
    struct line_editor editor;
    bool checked;                 /* the session may become this conversation */
    const char **stop;            /* of the options and of the template */
    struct growing_text settings; /* char *: what /set was given, for as long as the chat lasts */
};

static enum tern_status fail(struct tern_error *e, enum tern_status s, const char *text)
{
    snprintf(e->text, sizeof e->text, "%s", text);
    return e->code = s;
}

static enum tern_status no_memory(struct tern_error *e)
{
    return parser_no_memory_for(e, "the conversation");
}

static enum tern_status no_thinking(struct tern_error *e)
{
    return fail(e, TERN_USAGE, "--think: this chat template has no such choice");
}

/* ---- answers -------------------------------------------------------------------------------- */

static int no_show(void *arg, tern_token token, const char *text, size_t n)
{
    (void)arg, (void)token, (void)text, (void)n;
    return 0;
}

/* With --tools, text and thoughts are shown, and calls are kept. */
static int on_text(void *arg, tern_token token, const char *text, size_t n)
{
    struct chat_loop *c = arg;
    bool is_json = c->g.report.is_json, tools = c->tools.tools != NULL;
    growing_text_add(&c->answer, text, n);
    return ((!tools || is_json) && c->show(&c->g, token, text, n)) || c->answer.failed ||
           (tools && !tool_answer_grow(&c->tools, n, is_json ? no_show : c->show, &c->g, c->e));
}

/* With --tools */
static int on_token(void *arg, tern_token token, const float *logits)
{
    struct chat_loop *c = arg;
    return c->report(&c->g, token, logits) || !tool_answer_add(&c->tools, token, c->e);
}

/* The rest of an answer; one of calls alone has no line of its own. */
static bool end_text(void *arg)
{
    struct chat_loop *c = arg;
    if (!c->tools.answer)
        return true;
    tool_answer_finish(&c->tools, c->g.stats.result.reason, c->g.report.is_json ? no_show : c->show,
                       &c->g, c->e);
    return c->tools.shown || !tool_answer_calls(&c->tools);
}

static unsigned think_flags(const struct chat_loop *c)
{
    const struct option_value *think = &c->o->value[OPT_THINK];
    return !think->given ? 0 : strcmp(think->text, "on") ? TERN_CHAT_NO_THINK : TERN_CHAT_THINK;
}

/* The conversation without its oldest `turns`, as *n ids. */
static enum tern_status render(struct chat_loop *c, size_t turns, size_t *n, struct tern_error *e)
{
    unsigned flags = TERN_CHAT_GENERATE | think_flags(c);
    size_t listed;
    const struct tern_chat_message *list =
        conversation_list(&c->said, turns, c->tools.tools, c->tools.n, &listed);
    for (;;) {
        if (!list)
            return no_memory(e);
        enum tern_status s =
            tern_chat_tokens(c->g.model, list, listed, flags, c->tokens, c->room, n, e);
        if (s || *n <= c->room)
            return s;
        tern_token *more = realloc(c->tokens, *n * sizeof *more);
        if (!more)
            return no_memory(e);
        c->tokens = more, c->room = *n;
    }
}

/* As render, of what the context holds: all, or with --context-shift without the oldest turns,
 * *drop of them. */
static enum tern_status fit(struct chat_loop *c, size_t *n, size_t *drop, struct tern_error *e)
{
    struct tern_memory plan;
    tern_context_memory(c->g.ctx, &plan);
    enum tern_status s = render(c, 0, n, e);
    bool may = c->o->value[OPT_CONTEXT_SHIFT].given, shift = may && *n >= plan.n_ctx;
    while (!s && shift && *n > plan.n_ctx / 2 && conversation_turn(&c->said, *drop + 1) < c->said.n)
        s = render(c, ++*drop, n, e);
    if (s || *n < plan.n_ctx)
        return s;
    snprintf(e->text, sizeof e->text,
             "the %s has %zu tokens, but the context holds %u; %s, or use a larger -c",
             may ? "message alone" : "conversation", *n, plan.n_ctx,
             may ? "shorten it" : "/clear it, use --context-shift");
    return e->code = TERN_LIMIT;
}

/* The answer joins the conversation, with the ids that were chosen where they are all of it. */
static enum tern_status remember(struct chat_loop *c, size_t n, struct tern_error *e)
{
    const struct tern_generate_result *r = &c->g.stats.result;
    size_t made = r->n_generated;
    if (tool_answer_calls(&c->tools))
        return tool_answer_remember(&c->tools, &c->said, c->g.report.is_json, e);
    enum tern_status s =
        conversation_add(&c->said, "assistant", c->answer.n ? c->answer.p : "", c->answer.n, e);
    tern_token *tokens = s || !made ? NULL : malloc(made * sizeof *tokens);
    if (!tokens)
        return s;
    if (r->n_shifts || r->reason == TERN_STOP_STRING ||
        tern_seq_length(c->g.ctx, 0) != n + made - 1) {
        free(tokens);
        return s;
    }
    memcpy(tokens, tern_seq_tokens(c->g.ctx, 0) + n, (made - 1) * sizeof *tokens);
    tokens[made - 1] = r->last;
    c->said.list[c->said.n - 1].tokens = tokens;
    c->said.list[c->said.n - 1].n_tokens = made;
    return s;
}

static bool is_answered(const struct chat_loop *c)
{
    return *c->said.list[c->said.n - 1].role == 'a';
}

static void set_stops(struct chat_loop *c)
{
    c->g.p.stop = c->stop;
    if (c->info.stop)
        c->stop[c->g.p.n_stop++] = c->info.stop;
}

/* An answer begins with what the template wrote of its thought. */
static void begin_answer(struct chat_loop *c)
{
    char text[64];
    size_t n = tern_chat_opening(c->g.model, think_flags(c), text, sizeof text);
    c->answer.n = 0, c->answer.failed = false;
    growing_text_add(&c->answer, text, n < sizeof text ? n : 0);
}

/* Whether the answer begins with a thought, which the template or the model opens. */
static bool thinks(const struct chat_loop *c)
{
    unsigned flags = think_flags(c);
    char none[1];
    return tern_chat_opening(c->g.model, flags, none, 0) || flags & TERN_CHAT_THINK ||
           (c->info.thinking == 1 && !(flags & TERN_CHAT_NO_THINK));
}

/* A thought is free: the constraint begins behind it. */
static enum tern_status constrain(struct chat_loop *c, struct tern_error *e)
{
    size_t n = thinks(c) ? c->info.thought_end_bytes : 0;
    return complete_constrain(&c->g, c->info.thought_end, n, e);
}

/* Answers the last message, if it can; only then are older ones dropped. */
static enum tern_status answer(struct chat_loop *c, struct tern_error *e)
{
    size_t n = 0, drop = 0;
    c->g.stats.start = stopwatch_now() - c->g.stats.load_seconds; /* not while the person typed */
    complete_set(&c->g);
    wrap_open(&c->g.wrap);
    set_stops(c);
    begin_answer(c);
    enum tern_status s = constrain(c, e);
    if (!s)
        s = fit(c, &n, &drop, e);
    if (!s && c->tools.tools)
        s = tool_answer_begin(&c->tools, c->g.model, think_flags(c), c->g.p.ignore_end, c->tokens, n,
                              conversation_n_calls(&c->said), e);
    if (!s && !c->checked)
        s = resume_check(c->g.ctx, c->o, c->tokens, n, true, e);
    c->checked |= !s;
    bool runs = !s;
    if (runs)
        s = complete_run(&c->g, c->tokens, n, e);
    if (!s && c->tools.tools)
        s = c->tools.s;
    if (c->answer.failed)
        s = no_memory(e);
    token_report_end_text(&c->g.report);
    if (!s && c->g.stats.result.n_generated)
        s = remember(c, n, e);
    bool began = runs && c->g.stats.result.prompt_seconds > 0;
    bool failed = began && s && s != TERN_CANCELLED;
    token_report_end(&c->g.report, !s || failed ? &c->g.stats : NULL, failed ? e : NULL);
    if (s)
        return s;
    if (drop && is_answered(c))
        fprintf(stderr, "context: the oldest %zu turn%s dropped\n", drop,
                drop == 1 ? " was" : "s were");
    while (drop-- && is_answered(c))
        conversation_drop(&c->said);
    if (c->o->value[OPT_VERBOSE].given || c->g.stats.result.reason == TERN_STOP_CONTEXT)
        complete_print(&c->g);
    c->g.stats.load_seconds = 0; /* the next answer waits for no model */
    return s;
}

/* ---- input ---------------------------------------------------------------------------------- */

static bool ends_with(const struct growing_text *t, size_t from, const char *mark)
{
    size_t n = strlen(mark);
    return t->n >= from + n && !memcmp(t->p + t->n - n, mark, n);
}

/* A message into c->line: a line; lines joined by a backslash at their ends; or whatever is between
 * two """. */
static enum heard hear(struct chat_loop *c, bool *quoted)
{
    static const char quotes[] = "\"\"\"";
    c->line.n = 0;
    c->editor.cut = c->line.failed = false;
    enum heard h = line_editor_read(&c->editor, ">>> ", &c->line);
    *quoted = h == HEARD_LINE && c->line.n >= 3 && !memcmp(c->line.p, quotes, 3);
    if (*quoted)
        memmove(c->line.p, c->line.p + 3, c->line.n -= 3);
    while (h == HEARD_LINE &&
           (*quoted ? !ends_with(&c->line, 0, quotes) : ends_with(&c->line, 0, "\\"))) {
        c->line.n -= !*quoted;
        growing_text_add(&c->line, "\n", 1);
        h = line_editor_read(&c->editor, "... ", &c->line);
    }
    if (*quoted && h == HEARD_LINE)
        c->line.n -= 3;
    return h;
}

/* ---- commands ------------------------------------------------------------------------------- */

static const char help[] =
    "/clear            forget the conversation\n"
    "/regen            answer the last message again\n"
    "/save FILE        write the conversation as lines of JSON\n"
    "/load FILE        go on with a saved conversation\n"
    "/tool TEXT        the result of the call that waits first\n"
    "/set NAME VALUE   change an option: temp, top-k, top-p, min-p, seed, n, system,\n"
    "                  think on|off, ...; flags switch on and off: /set verbose\n"
    "/bye, /exit, /quit    leave; so do Ctrl-D and Ctrl-C twice\n"
    "/?, /help         show this text\n"
    "\"\"\" begins and ends a message of several lines; so does a backslash at a line's end.\n"
    "Arrow keys edit a line and bring back earlier ones.\n";

/* Whether commands say in one line what they did. */
static bool confirms(const struct chat_loop *c)
{
    return !c->o->value[OPT_QUIET].given;
}

/* The system text of the options is the first message. */
static enum tern_status set_system(struct chat_loop *c, struct tern_error *e)
{
    const struct option_value *text = &c->o->value[OPT_SYSTEM];
    const struct option_value *file = &c->o->value[OPT_SYSTEM_FILE];
    char *held = NULL;
    size_t n = text->given ? strlen(text->text) : 0;
    if (!text->given && !file->given)
        return TERN_OK;
    enum tern_status s = text->given ? TERN_OK : files_take(file->text, &held, &n, e);
    if (!s)
        s = conversation_add(&c->said, "system", held ? held : text->text, n, e);
    free(held);
    return s;
}

static enum tern_status set(struct chat_loop *c, const char *name, const char *value,
                            struct tern_error *e)
{
    size_t n = strlen(name) + strlen(value) + 4;
    char *word = malloc(n);
    if (!word)
        return no_memory(e);
    bool letter = !name[1]; /* as in -n50 */
    snprintf(word, n, "%s%s%s%s", letter ? "-" : "--", name, *value && !letter ? "=" : "", value);
    for (char *p = word; *p && *p != '='; p++)
        *p = *p == '_' ? '-' : *p;
    growing_text_add(&c->settings, (char *)&word, sizeof word);
    if (c->settings.failed)
        free(word);
    const char *before = c->o->value[OPT_SYSTEM].text;
    enum run_option id;
    struct option_value think = c->o->value[OPT_THINK];
    enum tern_status s = c->settings.failed ? no_memory(e) : run_options_set(c->o, word, &id, e);
    if (c->o->value[OPT_THINK].given && !c->info.thinking) {
        c->o->value[OPT_THINK] = think;
        return no_thinking(e);
    }
    if (!s && c->o->value[OPT_SYSTEM].text != before)
        s = set_system(c, e);
    const struct option_value *now = &c->o->value[s ? 0 : id];
    if (!s && confirms(c))
        visible_error_print("%s is %s\n", name, now->text ? now->text : now->given ? "on" : "off");
    return s;
}

static enum tern_status again(struct chat_loop *c, struct tern_error *e)
{
    if (c->said.n < 3)
        return fail(e, TERN_USAGE, "there is no answer yet");
    if (!is_answered(c))
        return fail(e, TERN_USAGE, "the calls of the last answer have results: go on with /tool");
    struct tern_chat_message old = conversation_take(&c->said); /* stays if there is no other */
    enum tern_status s = answer(c, e);
    if (is_answered(c))
        conversation_free(&old);
    else
        conversation_put(&c->said, old);
    return s;
}

static enum tern_status use_file(struct chat_loop *c, bool saves, const char *path,
                                 struct tern_error *e)
{
    enum tern_status s =
        saves ? conversation_save(&c->said, path, e) : conversation_load(&c->said, path, e);
    if (!s && confirms(c))
        visible_error_print("messages %s %s: %zu\n", saves ? "saved to" : "loaded from", path,
                            c->said.n - !c->said.list->text);
    return s;
}

/* The result of a call; with the last one, the model goes on. */
static enum tern_status give_result(struct chat_loop *c, const char *text, struct tern_error *e)
{
    enum tern_status s = conversation_add_result(&c->said, NULL, text, strlen(text), e);
    if (s || conversation_n_waiting(&c->said))
        return s;
    if ((s = answer(c, e)), !is_answered(c))
        conversation_cut(&c->said, c->said.n - 1);
    return s;
}

/* The command in c->line, a string; *leave: it was /bye. */
static enum tern_status obey(struct chat_loop *c, bool *leave, struct tern_error *e)
{
    char *name = c->line.p + 1, *value = name + strcspn(name, " "), *rest;
    if (*value)
        *value++ = 0;
    value += strspn(value, " ");
    for (size_t n = strlen(value); n && strchr(" \t\r", value[n - 1]);)
        value[--n] = 0;
    rest = value + strcspn(value, " ");
    bool saves = !strcmp(name, "save"), needs_file = saves || !strcmp(name, "load");
    if (needs_file && (!*value || !strcmp(value, "-"))) /* standard input is the conversation */
        return fail(e, TERN_USAGE,
                    *value ? "- is not the name of a file; give one, as in /save talk.jsonl"
                           : "the name of a file is missing, as in /save talk.jsonl");
    if (needs_file)
        return use_file(c, saves, value, e);
    if (!strcmp(name, "regen"))
        return again(c, e);
    if (!strcmp(name, "tool"))
        return give_result(c, value, e);
    if (!strcmp(name, "set")) {
        value += strspn(value, "-"); /* as on a command line */
        if (!*value || *value == ' ')
            return fail(e, TERN_USAGE, "the name of an option is missing, as in /set temp 0.5");
        if (*rest)
            *rest++ = 0;
        return set(c, value, rest + strspn(rest, " "), e);
    }
    if (!strcmp(name, "clear")) {
        conversation_cut(&c->said, 1);
        if (confirms(c))
            fprintf(stderr, "the conversation is forgotten%s\n",
                    c->said.list->text ? ", except the system text" : "");
    } else if (!strcmp(name, "bye") || !strcmp(name, "exit") || !strcmp(name, "quit"))
        *leave = true;
    else if (!strcmp(name, "?") || !strcmp(name, "help"))
        fputs(help, stderr);
    else
        return fail(e, TERN_USAGE, "there is no such command; /? lists all commands");
    return TERN_OK;
}

/* ---- conversations -------------------------------------------------------------------------- */

static enum tern_status ask(struct chat_loop *c, const char *text, size_t n, struct tern_error *e)
{
    if (conversation_n_waiting(&c->said))
        return fail(e, TERN_USAGE, "a call waits for its result: give it with /tool TEXT");
    enum tern_status s = conversation_add(&c->said, "user", text, n, e);
    if (!s && ((s = answer(c, e)), !is_answered(c)))
        conversation_cut(&c->said, c->said.n - 1);
    return s;
}

/* A lone exit, quit or bye may be meant for the model: asks whether it was meant for the program. */
static bool wants_to_leave(struct chat_loop *c)
{
    const char *text = c->line.p;
    struct growing_text reply = {0};
    if (strcmp(text, "exit") && strcmp(text, "quit") && strcmp(text, "bye"))
        return false;
    fprintf(stderr, "Leave the chat? y leaves, n sends \"%s\" to the model.\n", text);
    enum heard h = line_editor_read(&c->editor, "y/n ", &reply);
    bool leaves = h != HEARD_LINE || (reply.n && strchr("yY", *reply.p));
    growing_text_close(&reply);
    return leaves;
}

/* One line or message; false at the end. */
static bool turn(struct chat_loop *c, bool *warned, struct tern_error *e)
{
    bool quoted, leave = false;
    enum heard h = hear(c, &quoted);
    enum tern_status s = TERN_OK;
    if (h == HEARD_INTERRUPT) {
        if (*warned || signals_caught() != SIGINT)
            return false;
        signals_clear();
        fputs("\nCtrl-C again, Ctrl-D or /bye leaves\n", stderr);
        return *warned = true;
    }
    *warned = false;
    if (h == HEARD_END) {
        fputs("\n", stderr);
        return false;
    }
    growing_text_add(&c->line, "", 1);
    if (c->line.failed)
        s = no_memory(e);
    else if (c->editor.cut)
        s = fail(e, TERN_LIMIT,
                 "not sent: a terminal cuts lines at 4095 bytes; write shorter lines between "
                 "\"\"\", or use --file or a pipe");
    else if (!quoted && *c->line.p == '/' && !strchr(c->line.p, '\n'))
        s = obey(c, &leave, e);
    else if (!quoted && wants_to_leave(c))
        leave = true;
    else if (c->line.n > 1)
        s = ask(c, c->line.p, c->line.n - 1, e);
    if (signals_caught() == SIGINT)
        signals_clear();
    else if (s && s != TERN_CANCELLED)
        visible_error_print("%s\n", e->text);
    return !leave && !signals_caught() && !out_closed();
}

static enum tern_status talk(struct chat_loop *c, struct tern_error *e)
{
    struct tern_model_info info;
    struct tern_memory plan;
    bool warned = false;
    signals_interactive();
    line_editor_open(&c->editor);
    tern_model_info(c->g.model, &info);
    tern_context_memory(c->g.ctx, &plan);
    if (!c->o->value[OPT_QUIET].given)
        visible_error_print("%s, template %s, %u positions; /? lists commands\n",
                            *info.name ? info.name : c->o->model, c->info.name, plan.n_ctx);
    while (turn(c, &warned, e))
        ;
    return complete_end(&c->g, TERN_OK, e);
}

/* A line of standard input as the result of a call; false: there is none. A person may try again. */
static bool hear_result(struct chat_loop *c, enum tern_status *s, struct tern_error *e)
{
    c->line.n = 0, c->line.failed = false;
    if (line_editor_read(&c->editor, isatty(STDIN_FILENO) ? "result> " : "", &c->line) !=
        HEARD_LINE)
        return false;
    *s = c->line.failed
             ? no_memory(e)
             : conversation_take_result(&c->said, c->line.p ? c->line.p : "", c->line.n, e);
    if (*s == TERN_USAGE && isatty(STDIN_FILENO)) {
        visible_error_print("%s\n", e->text);
        *s = TERN_OK;
    }
    return true;
}

/* The prompt, or all of standard input without the line feed at its end, is the only message. */
static enum tern_status ask_once(struct chat_loop *c, struct tern_error *e)
{
    const struct option_value *prompt = &c->o->value[OPT_PROMPT], *file = &c->o->value[OPT_FILE];
    char *text = NULL;
    size_t n = 0;
    enum tern_status s = TERN_OK;
    if (!prompt->given)
        s = files_take(file->given ? file->text : "-", &text, &n, e);
    n -= n && text[n - 1] == '\n';
    if (!s)
        s = prompt->given ? ask(c, prompt->text, strlen(prompt->text), e) : ask(c, text, n, e);
    line_editor_open(&c->editor);
    while (!s && conversation_n_waiting(&c->said) && hear_result(c, &s, e))
        if (!s && !conversation_n_waiting(&c->said))
            s = answer(c, e);
    free(text);
    return complete_end(&c->g, s, e);
}

static enum tern_status no_template(struct tern_error *e)
{
    size_t n = (size_t)snprintf(e->text, sizeof e->text,
                                "the model has no chat template; choose one with --template:");
    const char *name;
    for (size_t i = 0; (name = tern_chat_builtin(i)) && n < sizeof e->text; i++)
        n += (size_t)snprintf(e->text + n, sizeof e->text - n, " %s", name);
    return e->code = TERN_USAGE;
}

static enum tern_status check(struct chat_loop *c, struct tern_error *e)
{
    if (!tern_chat_info(c->g.model, &c->info))
        return no_template(e);
    if (c->o->value[OPT_THINK].given && !c->info.thinking)
        return no_thinking(e);
    c->stop = calloc(c->o->n_stop + 1, sizeof *c->stop);
    if (!c->stop)
        return no_memory(e);
    memcpy(c->stop, c->o->stop, c->o->n_stop * sizeof *c->stop);
    return set_system(c, e);
}

bool chat_loop_wanted(const tern_model *model, const struct run_options *o)
{
    struct tern_chat_info info;
    if (o->value[OPT_CHAT].given || o->value[OPT_SYSTEM].given || o->value[OPT_SYSTEM_FILE].given ||
        o->value[OPT_THINK].given || o->value[OPT_TEMPLATE].given || o->value[OPT_TOOLS].given)
        return true;
    return !run_options_have_prompt(o) && !o->value[OPT_SESSION].given && isatty(STDIN_FILENO) &&
           isatty(STDOUT_FILENO) && tern_chat_info(model, &info);
}

enum tern_status chat_loop_run(tern_model *model, struct run_options *o, double load_seconds,
                               struct tern_error *e)
{
    struct chat_loop c = {.o = o, .g = {.model = model}};
    struct tern_memory plan;
    enum tern_status s = conversation_open(&c.said, e);
    c.e = e;
    if (!s && !(s = tool_answer_open(&c.tools, o, e)) && !(s = check(&c, e)) &&
        !(s = plan_make(model, o, 0, &plan, e)) &&
        !(s = complete_open(&c.g, model, o, &plan, load_seconds, e))) {
        c.show = c.g.p.on_text;
        c.g.p.on_text = on_text;
        c.g.end_text = end_text;
        c.report = c.g.p.on_token;
        if (c.tools.tools)
            c.g.p.on_token = on_token;
        c.g.p.arg = &c;
        s = constrain(&c, e);
    }
    if (!s)
        s = !run_options_have_prompt(o) && isatty(STDIN_FILENO) ? talk(&c, e) : ask_once(&c, e);
    complete_close(&c.g);
    conversation_close(&c.said);
    tool_answer_close(&c.tools);
    for (size_t i = 0; i + sizeof(char *) <= c.settings.n; i += sizeof(char *)) {
        char *word;
        memcpy(&word, c.settings.p + i, sizeof word);
        free(word);
    }
    growing_text_close(&c.settings);
    growing_text_close(&c.answer);
    line_editor_close(&c.editor);
    growing_text_close(&c.line);
    free(c.stop);
    free(c.tokens);
    return s;
}
