/* Turns an answer into text, thoughts and calls: see answer_parser.h.
 *
 * Bytes wait in `in` until it is sure what they are. Text and thoughts wait only where a mark may begin;
 * a call waits until its arguments begin, because before that it is text if it turns out to be none. */
#include "text/answer_parser.h"

#include <stdio.h>

#include "text/answer_call.h"
#include "text/unicode.h"

enum mark_kind { MARK_TRIGGER, MARK_THOUGHT, MARK_END, MARK_SKIP, MARK_BEHIND };
enum { MARKS_MAX = CHAT_FORMS_MAX + 2 + 2 * CHAT_SKIP_MAX };

struct answer_mark {
    struct mark text;
    enum mark_kind kind;
    size_t form;
};

struct answer_item {
    enum tern_answer_kind kind;
    size_t at, n; /* bytes of `said` */
    struct tern_call call;
};

enum mode { IN_TEXT, IN_THOUGHT, IN_CALL };

struct answer_parser {
    struct answer_forms forms;
    struct answer_mark marks[MARKS_MAX]; /* [n_marks] */
    size_t n_marks;
    enum tern_answer_form form;
    bool calls_first, marked, has_tools, finishing, cut;
    bool wrote_text,
        after_calls; /* text that is not blank came, where calls begin; a call did, and only
                      * blanks since */
    bool first[256]; /* a mark begins with this byte */
    struct tools tools;
    struct thoughts thoughts; /* marks, borrowed from the chat */
    enum mode mode;
    struct buffer in; /* from `at` on it is not yet decided; `blank` bytes of that are whitespace */
    size_t at, blank;
    struct answer_call call; /* in IN_CALL: what is read */
    struct tern_call begun;  /* id and name of that, once it was told, and its own; else no id */
    size_t told;             /* bytes of its arguments */
    size_t number;           /* of the next call without an id */
    struct buffer calls,
        cuts; /* struct tern_call: those that are over, those that broke off; owned */
    struct buffer said, whole; /* text of events; of the message */
    struct buffer events;      /* struct answer_item */
    size_t next_event;
};

/* ---- events ------------------------------------------------------------------------------- */

static bool add_item(struct answer_parser *a, const struct answer_item *event)
{
    return buffer_add(&a->events, (const char *)event, sizeof *event);
}

/* The bytes of `said` from `at` on */
static bool add_event(struct answer_parser *a, enum tern_answer_kind kind, size_t at)
{
    size_t count = a->events.n / sizeof(struct answer_item), n = a->said.n - at;
    struct answer_item *last = count ? (struct answer_item *)a->events.p + count - 1 : NULL;
    if (last && last->kind == kind)
        return last->n += n, true;
    return add_item(a, &(struct answer_item){.kind = kind, .at = at, .n = n});
}

/* Bytes of the answer as text or thought; marks of special tokens are left out. */
static bool say(struct answer_parser *a, const char *p, size_t n)
{
    size_t from = a->said.n;
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++)
        if (!a->marked ||
            ((unsigned char)p[i] != ANSWER_SPECIAL && (unsigned char)p[i] != ANSWER_SPECIAL_END))
            ok = buffer_add(&a->said, p + i, 1);
    size_t more = a->said.n - from;
    if (!ok || !more)
        return ok;
    if (a->mode == IN_TEXT && !thoughts_is_blank(p, n))
        a->wrote_text = true;
    return buffer_add(&a->whole, a->said.p + from, more) &&
           add_event(a, a->mode == IN_THOUGHT ? TERN_ANSWER_THOUGHT : TERN_ANSWER_TEXT, from);
}

/* What is new of the call that is read: that it began, more of its arguments. */
static bool tell_call(struct answer_parser *a)
{
    const struct buffer *arguments = &a->call.arguments;
    size_t from = a->said.n, n = arguments->n - a->told;
    if (!a->begun.id) {
        if (!answer_call_name(&a->call, a->number, &a->begun))
            return false;
        a->number++;
        if (!add_item(a, &(struct answer_item){.kind = TERN_ANSWER_BEGIN, .call = a->begun}))
            return false;
    }
    a->told = arguments->n;
    return n == 0 || (buffer_add(&a->said, arguments->p + a->told - n, n) &&
                      add_event(a, TERN_ANSWER_ARGUMENTS, from));
}

/* TERN_ANSWER_CALL or TERN_ANSWER_CUT */
static bool end_call(struct answer_parser *a, enum tern_answer_kind kind)
{
    struct buffer *list = kind == TERN_ANSWER_CALL ? &a->calls : &a->cuts;
    if (!tell_call(a) || !buffer_reserve(list, sizeof a->begun))
        return false;
    struct answer_item event = {.kind = kind, .call = a->begun};
    event.call.arguments = answer_call_arguments(&a->call);
    buffer_add(list, (const char *)&event.call, sizeof event.call);
    a->begun = (struct tern_call){0}, a->told = 0;
    a->after_calls = true;
    return event.call.arguments && add_item(a, &event);
}

/* ---- marks -------------------------------------------------------------------------------- */

enum match { MATCH_NO, MATCH_PART, MATCH_WHOLE };

/* p[0..n) begins with the mark, whose length there goes to *len, or may do so when more comes. Special
 * tokens of a trigger are special in the answer, too; other marks are found however they are spelled. */
static enum match match_mark(const struct answer_parser *a, const struct answer_mark *m,
                             const char *p, size_t n, size_t *len)
{
    size_t i = 0, k = 0;
    bool blind = a->marked && m->kind != MARK_TRIGGER;
    for (; k < m->text.n && i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (blind && (c == ANSWER_SPECIAL || c == ANSWER_SPECIAL_END))
            continue;
        if (p[i] != m->text.p[k++])
            return MATCH_NO;
    }
    if (k < m->text.n)
        return a->finishing ? MATCH_NO : MATCH_PART;
    *len = i + (blind && i < n && (unsigned char)p[i] == ANSWER_SPECIAL_END);
    return MATCH_WHOLE;
}

/* The longest mark at p[0..n); MATCH_PART: a longer one may come. */
static enum match find_mark(const struct answer_parser *a, const char *p, size_t n, size_t *len,
                            const struct answer_mark **found)
{
    enum match best = MATCH_NO;
    bool to_the_end = a->form != TERN_ANSWER_ANY && a->wrote_text && a->mode == IN_TEXT;
    if (!a->first[(unsigned char)*p] || to_the_end)
        return MATCH_NO;
    for (size_t i = 0; i < a->n_marks; i++) {
        const struct answer_mark *m = &a->marks[i];
        size_t this_len = 0;
        if ((a->mode == IN_THOUGHT && m->kind != MARK_END) ||
            (m->kind == MARK_TRIGGER &&
             (a->form == TERN_ANSWER_ONLY_TEXT || (a->calls_first && a->wrote_text))))
            continue;
        enum match match = match_mark(a, m, p, n, &this_len);
        if (match == MATCH_PART)
            return MATCH_PART;
        if (match == MATCH_WHOLE && (best == MATCH_NO || this_len > *len))
            best = MATCH_WHOLE, *len = this_len, *found = m;
    }
    return best;
}

/* ---- reading ------------------------------------------------------------------------------ */

static struct mark rest_of(const struct answer_parser *a)
{
    return (struct mark){a->in.p + a->at, a->in.n - a->at};
}

/* Of a call that is being read; blanks before it wait, too. */
static struct mark call_of(const struct answer_parser *a)
{
    struct mark rest = rest_of(a);
    return (struct mark){rest.p + a->blank, rest.n - a->blank};
}

/* Passes over n bytes, which are text or not. */
static bool pass(struct answer_parser *a, size_t n, bool as_text)
{
    bool ok = !as_text || say(a, a->in.p + a->at, n);
    a->at += n;
    a->blank = 0;
    return ok;
}

static bool begin_call(struct answer_parser *a, size_t form)
{
    a->mode = IN_CALL;
    answer_call_begin(&a->call, &a->forms, form);
    return true;
}

static bool take_mark(struct answer_parser *a, const struct answer_mark *m, size_t len)
{
    if (m->kind == MARK_TRIGGER)
        return begin_call(a, m->form);
    bool ok = pass(a, a->blank, !a->after_calls) && pass(a, len, false);
    if (m->kind == MARK_THOUGHT) {
        a->mode = IN_THOUGHT;
        ok = ok && buffer_add(&a->whole, m->text.p, m->text.n);
    } else if (m->kind == MARK_END && a->mode == IN_THOUGHT) {
        a->mode = IN_TEXT;
        a->wrote_text |= a->form == TERN_ANSWER_ONLY_TEXT; /* it begins here */
        ok = ok && buffer_add(&a->whole, m->text.p, m->text.n);
    } else if (m->kind == MARK_BEHIND) {
        a->wrote_text = false;
    }
    return ok;
}

/* A special token that is no mark is dropped whole. Its bytes always come together. */
static size_t special_bytes(const char *p, size_t n)
{
    const char *end = memchr(p, ANSWER_SPECIAL_END, n);
    return end ? (size_t)(end - p) + 1 : 1;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Text that holds no mark, at the front; stops before a byte that may begin one. 0: none. */
static size_t plain_bytes(const struct answer_parser *a, struct mark rest)
{
    size_t n = 0;
    while (n < rest.n && !a->first[(unsigned char)rest.p[n]] &&
           (a->mode == IN_THOUGHT || !is_space(rest.p[n])) &&
           !(a->marked && (unsigned char)rest.p[n] == ANSWER_SPECIAL))
        n++;
    /* a character is said whole */
    return n < rest.n || a->finishing ? n : n - unicode_tail(rest.p, n);
}

/* Text and thoughts: one step; *more: there may be another. */
static bool read_text(struct answer_parser *a, bool *more)
{
    const struct answer_mark *m = NULL;
    struct mark rest = rest_of(a);
    size_t len = 0;
    while (a->mode == IN_TEXT && a->blank < rest.n && is_space(rest.p[a->blank]))
        a->blank++;
    const char *p = rest.p + a->blank;
    size_t n = rest.n - a->blank;
    if (n == 0) {
        *more = false;
        return !a->finishing || pass(a, a->blank, a->calls.n == 0);
    }
    enum match match = find_mark(a, p, n, &len, &m);
    if (match == MATCH_PART)
        return *more = false, true;
    if (match == MATCH_WHOLE)
        return take_mark(a, m, len);
    if (a->marked && (unsigned char)*p == ANSWER_SPECIAL)
        return pass(a, a->blank, !a->after_calls) && pass(a, special_bytes(p, n), false);
    len = plain_bytes(a, (struct mark){p, n});
    if (len == 0 && !a->first[(unsigned char)*p])
        return *more = false, true; /* half a character */
    while (len < n && (len == 0 || ((unsigned char)p[len] & 0xC0) == 0x80))
        len++; /* what only looked like a mark: a character of it */
    a->after_calls = false;
    return pass(a, a->blank, true) && pass(a, len, true);
}

/* The trigger of that form stands at `rest`; its length goes to *len. Triggers are the first marks. */
static bool begins_call(const struct answer_parser *a, size_t form, struct mark rest, size_t *len)
{
    return match_mark(a, &a->marks[form], rest.p, rest.n, len) == MATCH_WHOLE;
}

/* What began as a call is none: another form may fit, or its trigger is text. */
static bool reject_call(struct answer_parser *a)
{
    size_t len = 0, form = a->call.form;
    struct mark rest = call_of(a);
    for (size_t i = form + 1; i < a->forms.n; i++)
        if (begins_call(a, i, rest, &len))
            return begin_call(a, i);
    a->mode = IN_TEXT;
    if (a->finishing)
        len = rest.n;
    else if (!begins_call(a, form, rest, &len))
        return true; /* it followed another call: what stands between them is text */
    bool ok = pass(a, a->blank, !a->after_calls) && pass(a, len, true);
    a->after_calls = false;
    return ok;
}

/* A call turns out to be none, after more was told than could be taken back: what follows is text. */
static bool break_call(struct answer_parser *a)
{
    a->mode = IN_TEXT;
    return end_call(a, TERN_ANSWER_CUT) && pass(a, a->blank + a->call.used, false);
}

/* The answer is cut off within a call, which is told if it has a name. What a tag began is no text. */
static bool cut_call(struct answer_parser *a)
{
    size_t n = call_of(a).n;
    if (!a->call.name.n && a->calls_first)
        return reject_call(a);
    a->mode = IN_TEXT;
    return (!a->call.name.n ||
            (answer_call_cut(&a->call, call_of(a)) && end_call(a, TERN_ANSWER_CUT))) &&
           pass(a, a->blank + n, false);
}

static bool read_call(struct answer_parser *a, bool *more)
{
    switch (answer_call_read(&a->call, call_of(a), a->has_tools ? &a->tools : NULL, a->finishing)) {
    case ANSWER_CALL_MORE:
        *more = false;
        return !a->call.sure || tell_call(a);
    case ANSWER_CALL_READ:
        /* the template writes what stands between text and calls */
        return pass(a, a->blank + a->call.used, false) && end_call(a, TERN_ANSWER_CALL) &&
               answer_call_next(&a->call);
    case ANSWER_CALL_OVER:
        a->mode = IN_TEXT;
        return pass(a, a->call.used, false);
    case ANSWER_CALL_CUT:
        return a->cut || a->call.sure ? cut_call(a) : reject_call(a);
    case ANSWER_CALL_NONE:
        return a->call.sure ? break_call(a) : reject_call(a);
    default:
        return false;
    }
}

static enum tern_status no_memory(const struct answer_parser *a, struct tern_error *e)
{
    return error_memory(e, "an answer", a->in.n);
}

static enum tern_status read_all(struct answer_parser *a, struct tern_error *e)
{
    bool more = true, ok = true;
    while (ok && more && (a->at < a->in.n || a->mode == IN_CALL))
        ok = a->mode == IN_CALL ? read_call(a, &more) : read_text(a, &more);
    return ok ? TERN_OK : no_memory(a, e);
}

/* ---- the interface ------------------------------------------------------------------------ */

static void add_mark(struct answer_parser *a, struct mark text, enum mark_kind kind, size_t form)
{
    a->marks[a->n_marks++] = (struct answer_mark){text, kind, form};
    a->first[(unsigned char)*text.p] = true;
    if (a->marked && kind != MARK_TRIGGER)
        a->first[ANSWER_SPECIAL] = true;
}

static enum tern_status open_parser(struct answer_parser *a, const struct chat *c,
                                    const struct answer_params *p, struct tern_error *e)
{
    enum tern_status s;
    a->marked = p->marked, a->number = p->first_call;
    a->form = p->form;
    if (!c)
        return TERN_OK;
    if ((s = answer_forms_open(&a->forms, c, p->marked, e)))
        return s;
    a->calls_first = c->form_flags & CHAT_CALLS_FIRST;
    for (size_t i = 0; i < a->forms.n; i++)
        add_mark(a, a->forms.list[i].trigger, MARK_TRIGGER, i);
    if (chat_knows_thoughts(c)) {
        add_mark(a, c->thoughts.begin, MARK_THOUGHT, 0);
        add_mark(a, c->thoughts.end, MARK_END, 0);
    }
    for (size_t i = 0; i < c->thoughts.n_skip; i++)
        add_mark(a, c->skip[i], MARK_SKIP, 0);
    for (size_t i = 0; i < c->n_behind; i++)
        add_mark(a, c->behind[i], MARK_BEHIND, 0);
    if (p->tools.n) {
        a->has_tools = true;
        if ((s = tools_open(&a->tools, p->tools.p, p->tools.n, e)))
            return s;
    }
    if (p->opening.n) {
        a->mode = IN_THOUGHT;
        if (!buffer_add(&a->whole, p->opening.p, p->opening.n))
            return no_memory(a, e);
    }
    return TERN_OK;
}

enum tern_status answer_parser_open(struct answer_parser **out, const struct chat *c,
                                    const struct answer_params *params, struct tern_error *e)
{
    struct answer_parser *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a)
        return error_memory(e, "a parser of answers", sizeof *a);
    enum tern_status s = open_parser(a, c, params, e);
    if (s)
        answer_parser_close(a);
    else
        *out = a;
    return s;
}

void answer_parser_close(struct answer_parser *a)
{
    if (!a)
        return;
    struct buffer *lists[] = {&a->calls, &a->cuts};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (size_t k = 0; k < lists[i]->n; k += sizeof(struct tern_call))
            answer_call_free((struct tern_call *)(lists[i]->p + k));
    struct buffer *buffers[] = {&a->in, &a->said, &a->whole, &a->events, &a->calls, &a->cuts};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        buffer_close(buffers[i]);
    answer_call_free(&a->begun);
    answer_call_close(&a->call);
    answer_forms_close(&a->forms);
    tools_close(&a->tools);
    free(a);
}

/* Forgets events that were taken or lost, and bytes that are decided. */
static void begin_push(struct answer_parser *a)
{
    a->events.n = a->said.n = a->next_event = 0;
    if (a->at) {
        memmove(a->in.p, a->in.p + a->at, a->in.n - a->at);
        a->in.n -= a->at;
        a->at = 0;
    }
}

enum tern_status answer_parser_push(struct answer_parser *a, const char *p, size_t n,
                                    struct tern_error *e)
{
    begin_push(a);
    return buffer_add(&a->in, p, n) ? read_all(a, e) : no_memory(a, e);
}

enum tern_status answer_parser_special(struct answer_parser *a, const char *name, size_t n,
                                       struct tern_error *e)
{
    static const char mark[] = {(char)ANSWER_SPECIAL, (char)ANSWER_SPECIAL_END};
    begin_push(a);
    return buffer_add(&a->in, mark, 1) && buffer_add(&a->in, name, n) &&
                   buffer_add(&a->in, mark + 1, 1)
               ? read_all(a, e)
               : no_memory(a, e);
}

enum tern_status answer_parser_finish(struct answer_parser *a, const char *p, size_t n, bool cut,
                                      struct tern_error *e)
{
    begin_push(a);
    a->finishing = true, a->cut = cut;
    return buffer_add(&a->in, p, n) ? read_all(a, e) : no_memory(a, e);
}

enum tern_answer_kind answer_parser_next(struct answer_parser *a, struct tern_answer_event *event)
{
    *event = (struct tern_answer_event){.kind = TERN_ANSWER_NONE, .text = ""};
    if (a->next_event >= a->events.n / sizeof(struct answer_item))
        return TERN_ANSWER_NONE;
    const struct answer_item *x = (const struct answer_item *)a->events.p + a->next_event++;
    event->kind = x->kind;
    event->call = x->call;
    if (x->n)
        event->text = a->said.p + x->at, event->bytes = x->n;
    return x->kind;
}

void answer_parser_message(const struct answer_parser *a, struct tern_chat_message *m)
{
    *m = (struct tern_chat_message){.role = "assistant",
                                    .text = a->whole.p ? a->whole.p : "",
                                    .bytes = a->whole.n,
                                    .calls = (const struct tern_call *)a->calls.p,
                                    .n_calls = a->calls.n / sizeof(struct tern_call)};
}
