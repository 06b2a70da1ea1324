/* Chat templates: applies the rules to a conversation. See chat.h. */
#include "text/chat.h"

#include "text/added.h"
#include "text/chat_builtin.h"
#include "text/chat_section.h"
#include "text/chat_write.h"

enum { JSON_BYTES_MAX = 256 << 20 }; /* memory of the trees of one call */
enum { SYSTEM_BITS = CHAT_SYSTEM | CHAT_SYSTEM_EMPTY | CHAT_SYSTEM_BLANK };

static bool is_blank(const struct tern_chat_message *m)
{
    return thoughts_is_blank(chat_text_of(m), m->bytes);
}

static const struct chat_rule *find_rule(const struct chat *c, unsigned when)
{
    return chat_rule_find(c->rules, c->n, when);
}

/* ---- answers as they were sampled ---------------------------------------------------------- */

/* Where `rule` has what is the special token `id`, at or after p; or NULL. */
static const char *find_name(const struct chat *c, const char *p, const char *end, int32_t id)
{
    uint32_t flags;
    const char *stop;
    for (; p < end && (p = memchr(p, CHAT_NAME, (size_t)(end - p))); p = stop + 1) {
        stop = memchr(p + 1, CHAT_NAME, (size_t)(end - p) - 1);
        size_t n = (size_t)(stop - p) - 1;
        if ((n ? tokenizer_find(c->t, p + 1, n, &flags) : tokenizer_eos(c->t)) == id)
            return p;
    }
    return NULL;
}

/* Whether what the rule writes of message m before all of its text is what asks for an answer,
 * except for spaces at the end. Leaves behind what asks for it. */
static bool begins_as_asked(struct chat_writer *w, const char *prefix, size_t n,
                            const struct chat_rule *ask, bool *same)
{
    const struct tern_chat_message *m = w->m;
    struct buffer *text = &w->out->text;
    size_t at = text->n;
    w->m = NULL;
    bool ok = chat_write(w, ask->p, ask->n);
    w->m = m;
    size_t asked = text->n, marks = w->out->marks.n;
    if (!ok || !chat_write(w, prefix, n))
        return false;
    size_t a = asked - at, b = text->n - asked;
    if (text->p) { /* something was written */
        thoughts_trim(text->p + at, &a, TRIM_NOT, TRIM_SPACE);
        thoughts_trim(text->p + asked, &b, TRIM_NOT, TRIM_SPACE);
    }
    *same = a == b && (a == 0 || memcmp(text->p + at, text->p + asked, a) == 0);
    text->n = asked;
    w->out->marks.n = marks;
    return true;
}

/* An answer that came as ids, kept if it may be: *kept. The end token that was sampled is the one
 * of the rule; another is replaced by it. */
static bool put_sampled(struct chat_writer *w, const struct chat_rule *rule, unsigned when,
                        bool *kept)
{
    const struct chat_rule *ask = find_rule(
        w->c, (when & (SYSTEM_BITS | CHAT_THINK | CHAT_TOOLS | CHAT_CALLED | CHAT_AFTER_RESULT)) |
                  CHAT_GENERATE | CHAT_END);
    const char *end = rule->p + rule->n, *whole = memchr(rule->p, CHAT_WHOLE, rule->n);
    size_t text = w->out->text.n, marks = w->out->marks.n, n = w->m->n_tokens;
    bool ok = true;
    if (ask && whole)
        ok = begins_as_asked(w, rule->p, (size_t)(whole - rule->p), ask, kept);
    if (!ok || !*kept) {
        w->out->text.n = text;
        w->out->marks.n = marks;
        return ok;
    }
    const char *rest = whole + 1, *name = NULL;
    if (tokenizer_is_special(w->c->t, w->m->tokens[n - 1]))
        name = find_name(w->c, rest, end, w->m->tokens[--n]);
    return chat_write_mark(w, (struct chat_mark){.n = w->m->bytes, .ids = w->m->tokens, .n_ids = n},
                           chat_text_of(w->m)) &&
           chat_write(w, name ? name : rest, (size_t)(end - (name ? name : rest)));
}

static bool put_message(struct chat_writer *w, const struct chat_rule *rule, unsigned when)
{
    bool kept = false;
    if (w->m->tokens && w->m->n_tokens && !w->m->n_calls && !put_sampled(w, rule, when, &kept))
        return false;
    return kept || chat_write(w, rule->p, rule->n);
}

/* ---- a conversation ----------------------------------------------------------------------- */

/* Messages without the tools and the system text, and what conditions look up */
struct talk {
    const struct tern_chat_message *m; /* [n] */
    size_t n;
    size_t last
        [3]; /* place of the last message by CHAT_USER, CHAT_ASSISTANT; of a result at 2; or n */
    size_t last_answer; /* of an assistant, without calls */
    bool called;        /* a message has calls */
};

static bool has_role(const struct tern_chat_message *m, const char *role)
{
    return strcmp(m->role, role) == 0;
}

static unsigned kind_of(const struct tern_chat_message *m)
{
    return has_role(m, "user") ? CHAT_USER : has_role(m, "tool") ? CHAT_RESULT : CHAT_ASSISTANT;
}

static enum tern_status check_pointers(const struct tern_chat_message *m, size_t n,
                                       struct tern_error *e)
{
    for (size_t i = 0; i < n; i++)
        if (!m[i].role || (!m[i].text && m[i].bytes))
            return error_set(e, TERN_USAGE, "message %zu of the conversation has no %s (NULL)", i,
                             m[i].role ? "text" : "role");
    return TERN_OK;
}

/* Whether message i may stand where it stands. */
static bool may_follow(const struct talk *talk, size_t i)
{
    const struct tern_chat_message *m = &talk->m[i], *before = i ? m - 1 : NULL;
    if (has_role(m, "tool"))
        return before && (before->n_calls || has_role(before, "tool"));
    if (has_role(m, "assistant"))
        return before && !has_role(before, "assistant");
    return has_role(m, "user") && !m->n_calls &&
           (!before || (has_role(before, "assistant") && !before->n_calls) ||
            has_role(before, "tool"));
}

static enum tern_status check_roles(const struct talk *talk, struct tern_error *e)
{
    for (size_t i = 0; i < talk->n; i++)
        if (!may_follow(talk, i))
            return error_set(e, TERN_USAGE,
                             "message %zu of the conversation is by '%.40s': want 'user' and "
                             "'assistant' in turns, after at most one 'system', and 'tool' behind "
                             "calls",
                             i, talk->m[i].role);
    return talk->n ? TERN_OK
                   : error_set(e, TERN_USAGE, "the conversation has no message by 'user'");
}

static enum tern_status no_tools(const struct chat *c, struct tern_error *e)
{
    return error_set(e, TERN_USAGE, "the chat template '%s' knows no tools", c->name);
}

/* Finds the parts of a conversation: tools, the system text, and the messages. */
static enum tern_status open_talk(struct chat_writer *w, struct talk *talk, struct tools *tools)
{
    enum tern_status s = check_pointers(talk->m, talk->n, w->e);
    if (s)
        return s;
    if (talk->n && has_role(talk->m, "tools")) {
        if (!w->c->tools)
            return no_tools(w->c, w->e);
        if ((s = tools_open(tools, chat_text_of(talk->m), talk->m->bytes, w->e)))
            return s;
        w->tools = tools->json.values[0].n_children ? tools : NULL;
        talk->m++, talk->n--;
    }
    if (talk->n && has_role(talk->m, "system"))
        w->system = talk->m++, talk->n--;
    if ((s = check_roles(talk, w->e)))
        return s;
    for (size_t i = 0; i < 4; i++)
        *(i < 3 ? &talk->last[i] : &talk->last_answer) = talk->n;
    for (size_t i = 0; i < talk->n; i++) {
        unsigned kind = kind_of(&talk->m[i]);
        talk->last[kind == CHAT_RESULT ? 2 : kind] = i;
        if (kind == CHAT_ASSISTANT && !talk->m[i].n_calls)
            talk->last_answer = i;
        talk->called |= talk->m[i].n_calls > 0;
        if ((kind == CHAT_RESULT || talk->m[i].n_calls) && !w->c->tools)
            return no_tools(w->c, w->e);
    }
    return TERN_OK;
}

static unsigned when_always(const struct chat_writer *w, unsigned flags)
{
    bool think =
        flags & TERN_CHAT_THINK || (!(flags & TERN_CHAT_NO_THINK) && w->c->info.thinking == 1);
    unsigned when = (flags & TERN_CHAT_GENERATE ? CHAT_GENERATE : 0u) | (think ? CHAT_THINK : 0u) |
                    (w->tools ? CHAT_TOOLS : 0u);
    if (w->system)
        when |= CHAT_SYSTEM | (w->system->bytes ? 0u : CHAT_SYSTEM_EMPTY) |
                (is_blank(w->system) ? CHAT_SYSTEM_BLANK : 0u);
    return when;
}

/* Conditions of the i-th message; `seen`: bits of the kinds before it */
static unsigned when_message(const struct chat_writer *w, const struct talk *talk, size_t i,
                             unsigned seen)
{
    const struct tern_chat_message *m = &talk->m[i];
    unsigned kind = kind_of(m);
    bool later_user = talk->last[CHAT_USER] < talk->n && talk->last[CHAT_USER] > i;
    bool later_answer = talk->last_answer < talk->n && talk->last_answer > i;
    return kind | (seen & 1u << kind ? 0u : CHAT_FIRST) | (i + 1 == talk->n ? CHAT_LAST : 0u) |
           (talk->last[kind == CHAT_RESULT ? 2 : kind] == i ? CHAT_FINAL : 0u) |
           (m->bytes ? 0u : CHAT_EMPTY) | (is_blank(m) ? CHAT_BLANK : 0u) |
           (m->n_calls ? CHAT_CALLS : 0u) | (m->n_calls > 1 ? CHAT_MANY_CALLS : 0u) |
           (i && has_role(m - 1, "tool") ? CHAT_AFTER_RESULT : 0u) |
           (i + 1 < talk->n && has_role(m + 1, "tool") ? CHAT_BEFORE_RESULT : 0u) |
           (kind == CHAT_RESULT && !w->caller->bytes ? CHAT_CALLER_EMPTY : 0u) |
           (later_user ? 0u : CHAT_CURRENT) | (later_answer ? CHAT_ANSWERED : 0u) |
           thoughts_when(&w->c->thoughts, chat_text_of(m), m->bytes);
}

static unsigned when_end(const struct talk *talk)
{
    const struct tern_chat_message *last = &talk->m[talk->n - 1];
    return CHAT_END | (has_role(last, "assistant") ? CHAT_LAST : 0u) |
           (has_role(last, "tool") ? CHAT_AFTER_RESULT : 0u) | (last->n_calls ? CHAT_CALLS : 0u);
}

/* The call that result i answers: the one of its id, or else the first without a result. False: no memory. */
static bool find_answered(struct chat_writer *w, const struct talk *talk, size_t i)
{
    const struct tern_chat_message *m = &talk->m[i], *from = w->caller;
    size_t k = (size_t)(m - from) - 1;
    if (m->call_id) {
        if (!call_index_make(&w->index, from))
            return false;
        const struct tern_call *call = call_index_find(&w->index, m->call_id);
        k = call ? (size_t)(call - from->calls) : from->n_calls;
    }
    w->answered = k < from->n_calls ? &from->calls[k] : NULL;
    w->answered_number = w->first_call - from->n_calls + k;
    return true;
}

static enum tern_status no_rule(const struct chat_writer *w, unsigned when, struct tern_error *e)
{
    bool many = when & CHAT_MANY_CALLS && find_rule(w->c, when & ~(unsigned)CHAT_MANY_CALLS);
    return error_set(e, TERN_USAGE,
                     many ? "the chat template '%s' has no form for a message with several calls"
                     : w->system
                         ? "the chat template '%s' has no form for a conversation that begins "
                           "with a system text"
                         : "the chat template '%s' has no form for such a conversation",
                     w->c->name);
}

static enum tern_status put_talk(struct chat_writer *w, const struct talk *talk, unsigned flags)
{
    unsigned always = when_always(w, flags) | (talk->called ? CHAT_CALLED : 0u), seen = 0;
    bool ok = true;
    for (size_t i = 0; i <= talk->n && ok; i++) {
        bool at_end = i == talk->n;
        if (!at_end && talk->m[i].n_calls)
            w->caller = &talk->m[i];
        unsigned when = always | (at_end ? when_end(talk) : when_message(w, talk, i, seen));
        const struct chat_rule *rule = find_rule(w->c, when);
        if (!rule)
            return no_rule(w, when, w->e);
        w->m = at_end ? NULL : &talk->m[i];
        w->answered = NULL;
        if ((when & CHAT_KIND) == CHAT_RESULT && !find_answered(w, talk, i))
            return error_memory(w->e, "the calls of a message",
                                w->caller->n_calls * sizeof *w->index.list);
        ok = at_end ? chat_write(w, rule->p, rule->n) : put_message(w, rule, when);
        w->first_call += at_end ? 0 : w->m->n_calls;
        seen |= 1u << (when & CHAT_KIND);
    }
    return w->s;
}

enum tern_status chat_render(const struct chat *c, const struct tern_chat_message *messages,
                             size_t n, unsigned flags, struct chat_text *out, struct tern_error *e)
{
    struct chat_writer w = {
        .c = c, .out = out, .budget = {.bytes = JSON_BYTES_MAX, .steps = UINT64_MAX}, .e = e};
    struct talk talk = {.m = messages, .n = n};
    struct tools tools = {0};
    enum tern_status s = open_talk(&w, &talk, &tools);
    if (!s)
        s = put_talk(&w, &talk, flags);
    tools_close(&tools);
    call_index_close(&w.index);
    return s;
}

void chat_text_close(struct chat_text *t)
{
    buffer_close(&t->text);
    buffer_close(&t->marks);
}

/* ---- ids ---------------------------------------------------------------------------------- */

enum { STOP_PIECE = 64 }; /* what the call for a piece costs, beside its bytes */

struct ids {
    const struct chat *c;
    int32_t *out; /* [max] */
    size_t max, n;
    struct stop stop;
};

static void put_ids(struct ids *ids, const int32_t *p, size_t n)
{
    size_t room = ids->n < ids->max ? ids->max - ids->n : 0;
    if (room)
        memcpy(ids->out + ids->n, p, (n < room ? n : room) * sizeof *p);
    ids->n += n;
}

/* The text between two marks, less what these swallow. */
static enum tern_status put_text(struct ids *ids, const char *p, size_t n,
                                 const struct chat_mark *before, const struct chat_mark *after,
                                 struct tern_error *e)
{
    size_t room = ids->n < ids->max ? ids->max - ids->n : 0, count = 0;
    p = thoughts_trim(p, &n, before && before->flags & ADDED_RSTRIP ? TRIM_BLANK : TRIM_NOT,
                      after && after->flags & ADDED_LSTRIP ? TRIM_BLANK : TRIM_NOT);
    if (n == 0)
        return TERN_OK;
    if (stop_asked(&ids->stop, STOP_PIECE + n))
        return error_set(e, TERN_CANCELLED, "tokenizing a conversation was stopped");
    enum tern_status s = tokenizer_encode(ids->c->t, p, n, before ? TOKENIZER_CONTINUES : 0,
                                          room ? ids->out + ids->n : NULL, room, &count, e);
    ids->n += count;
    return s;
}

enum tern_status chat_encode(const struct chat *c, const struct chat_text *in, int32_t *tokens,
                             size_t max, size_t *n, struct tern_error *e)
{
    struct ids ids = {c, tokens, max, 0, tokenizer_stop(c->t)};
    const struct chat_mark *m = (const struct chat_mark *)in->marks.p, *before = NULL;
    const char *text = in->text.p ? in->text.p : "";
    size_t n_marks = in->marks.n / sizeof *m, from = 0;
    enum tern_status s = TERN_OK;
    for (size_t i = 0; i < n_marks && !s; i++, before = m++) {
        s = put_text(&ids, text + from, m->at - from, before, m, e);
        put_ids(&ids, m->ids ? m->ids : &m->id, m->ids ? m->n_ids : 1);
        from = m->at + m->n;
    }
    if (!s)
        s = put_text(&ids, text + from, in->text.n - from, before, NULL, e);
    *n = ids.n;
    return s;
}

/* ---- opening ------------------------------------------------------------------------------ */

/* What ends an answer: the token, or else the text, that follows one in a conversation. */
static enum tern_status find_end(struct chat *c, struct tern_error *e)
{
    static const char answer[] = "\x0E";
    const struct tern_chat_message talk[] = {
        {.role = "user"}, {.role = "assistant", .text = answer, .bytes = 1}, {.role = "user"}};
    struct chat_text out = {0};
    enum tern_status s = chat_render(c, talk, 3, 0, &out, e);
    const char *p =
        s ? NULL : thoughts_find(out.text.p, out.text.n, (struct mark){answer, 1}, false);
    c->info.end = -1;
    if (p) {
        size_t left = out.text.n - (size_t)(p + 1 - out.text.p);
        size_t at = (size_t)(thoughts_trim(p + 1, &left, TRIM_SPACE, TRIM_NOT) - out.text.p);
        const struct chat_mark *m = (const struct chat_mark *)out.marks.p;
        size_t n_marks = out.marks.n / sizeof *m, n = 0;
        while (n_marks && m->at < at)
            m++, n_marks--;
        if (n_marks && m->at == at)
            c->info.end = m->id;
        while (n < left && n < CHAT_STOP_MAX - 1 && out.text.p[at + n] != '\n' &&
               !(n_marks && at + n == m->at))
            n++;
        memcpy(c->stop, out.text.p + at, n);
        c->info.stop = n ? c->stop : NULL;
    }
    chat_text_close(&out);
    return s == TERN_USAGE ? TERN_OK : s;
}

bool chat_knows_thoughts(const struct chat *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->rules[i].mask & CHAT_THOUGHT || memchr(c->rules[i].p, CHAT_ANSWER, c->rules[i].n))
            return true;
    return false;
}

static enum tern_status finish(struct chat *c, struct tern_error *e)
{
    const struct mark *marks[] = {&c->thoughts.begin, &c->thoughts.end};
    uint32_t flags;
    for (size_t i = 0; i < 2; i++)
        c->marks[i] =
            chat_knows_thoughts(c) ? tokenizer_find(c->t, marks[i]->p, marks[i]->n, &flags) : -1;
    const unsigned always = CHAT_SYSTEM | CHAT_GENERATE | (c->info.thinking == 1 ? CHAT_THINK : 0u);
    c->info.name = c->name;
    c->info.thought_begin = c->thoughts.begin.p, c->info.thought_begin_bytes = c->thoughts.begin.n;
    c->info.thought_end = c->thoughts.end.p, c->info.thought_end_bytes = c->thoughts.end.n;
    c->info.takes_system = find_rule(c, CHAT_USER | CHAT_FIRST | CHAT_LAST | CHAT_FINAL | always) &&
                           find_rule(c, CHAT_END | always);
    c->info.takes_tools = !c->n_forms ? 0 : c->form_flags & CHAT_CALLS_ONE ? 1 : 2;
    enum tern_status s = find_end(c, e);
    if (c->n_ends)
        c->info.end = c->ends[0];
    else if (c->info.end >= 0)
        c->ends[c->n_ends++] = c->info.end;
    return s;
}

static struct chat *new_chat(const struct tokenizer *t, struct tern_error *e)
{
    struct chat *c = calloc(1, sizeof *c);
    if (!c)
        error_memory(e, "the chat template", sizeof *c);
    else
        c->t = t;
    return c;
}

static enum tern_status give(struct chat **out, struct chat *c, enum tern_status s,
                             struct tern_error *e)
{
    if (!s)
        s = finish(c, e);
    if (s)
        chat_close(c);
    else
        *out = c;
    return s;
}

enum tern_status chat_open(struct chat **out, const struct tokenizer *t, const void *section,
                           size_t n, struct tern_error *e)
{
    *out = NULL;
    struct chat *c = new_chat(t, e);
    return c ? give(out, c, chat_section_read(c, section, n, e), e) : TERN_NO_MEMORY;
}

enum tern_status chat_open_builtin(struct chat **out, const struct tokenizer *t, const char *name,
                                   struct tern_error *e)
{
    *out = NULL;
    struct chat *c = new_chat(t, e);
    return c ? give(out, c, chat_section_builtin(c, name, strlen(name), TERN_USAGE, e), e)
             : TERN_NO_MEMORY;
}

const char *chat_builtin(size_t i)
{
    return chat_builtins[i].name;
}

void chat_close(struct chat *c)
{
    if (c) {
        free(c->rules);
        free(c->parts);
    }
    free(c);
}

uint64_t chat_hash(const struct chat *c)
{
    return c->hash;
}

const struct tern_chat_info *chat_info(const struct chat *c)
{
    return &c->info;
}

int32_t chat_end(const struct chat *c, size_t i)
{
    return i < c->n_ends ? c->ends[i] : -1;
}

const int32_t *chat_marks(const struct chat *c)
{
    return c->marks;
}

const char *chat_opening(const struct chat *c, const char *p, size_t n)
{
    const struct thoughts *t = &c->thoughts;
    const char *begin = chat_knows_thoughts(c) ? thoughts_find(p, n, t->begin, true) : NULL;
    return begin && thoughts_find(begin, n - (size_t)(begin - p), t->end, false) ? NULL : begin;
}

bool chat_begins_thought(const struct chat *c, unsigned flags)
{
    static const struct tern_chat_message talk = {.role = "user", .text = "x", .bytes = 1};
    struct chat_text out = {0};
    bool begins = !chat_render(c, &talk, 1, flags | TERN_CHAT_GENERATE, &out, NULL) &&
                  chat_opening(c, out.text.p ? out.text.p : "", out.text.n);
    chat_text_close(&out);
    return begins;
}
