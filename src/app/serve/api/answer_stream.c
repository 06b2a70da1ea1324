/* From job events to parts of an answer: see answer_stream.h. */
#include "app/serve/api/answer_stream.h"

#include <stdlib.h>
#include <string.h>

#include "app/cli/certain.h"
#include "app/serve/array_room.h"

/* One list of tokens, in order: first those that came with the last part, then those that the parser has and
 * that wait for a part, then those that wait until their text is certain. */
struct waiting {
    struct answer_token *token; /* [n] of [room]; both are owned */
    struct tern_choice *top;    /* [room][JOB_TOP_MAX] */
    size_t n, room, given, pushed;
};

struct answer_stream {
    const tern_model *model;
    struct answer_stream_params
        p;               /* of these, only plain, ignore_end and the stop strings stay valid */
    tern_answer *answer; /* NULL: all is text */
    struct waiting w;
    struct certain certain;   /* the same tokens as far as the parser does not have them */
    struct growing_text text; /* of the part */
    struct job_event event;   /* the last one */
    struct answer_token of_prompt;
    bool over, finishing, finished; /* the job is; the parser has said all; the end was given */
    bool thought, spoke;            /* a thought has come; text that is not blank came, too */
    bool cut;                       /* a call was */
    bool in_call;                   /* the beginning of one was told */
    bool said_call;                 /* what was said before ends within one */
    struct tern_answer_event
        late[3]; /* [n_late] of one whose beginning was not: that, its arguments, its end */
    size_t n_late, next_late;   /* the first that is not told yet */
    struct growing_text blanks; /* of a thought, that are told if more of it comes */
    size_t n_calls;
    struct fault fault;
};

/* ---- opening ------------------------------------------------------------------------------- */

static bool failed(struct fault *f, enum tern_status s, const struct tern_error *e)
{
    if (s == TERN_NO_MEMORY)
        return fault_no_memory(f, "the answer");
    fault_set(f, s == TERN_USAGE ? 400 : 500, NULL, NULL, NULL, "%s", e->text);
    return false;
}

static bool is_end(const struct tern_answer_event *x)
{
    return x->kind == TERN_ANSWER_CALL || x->kind == TERN_ANSWER_CUT;
}

/* Drops the events of what was said before. */
static void drop_events(struct answer_stream *a)
{
    struct tern_answer_event x;
    while (tern_answer_next(a->answer, &x) != TERN_ANSWER_NONE) {
        a->thought |= x.kind == TERN_ANSWER_THOUGHT;
        a->spoke |= x.kind == TERN_ANSWER_TEXT;
        a->said_call = (a->said_call || x.kind == TERN_ANSWER_BEGIN) && !is_end(&x);
    }
}

static bool open_answer(struct answer_stream *a, const struct answer_stream_params *p,
                        struct fault *f)
{
    size_t n = p->n_prompt - p->n_said;
    const struct tern_answer_params params = {.tools = p->tools,
                                              .tools_bytes = p->n_tools,
                                              .flags = p->chat_flags,
                                              .prompt = p->prompt,
                                              .n_prompt = n,
                                              .first_call = p->first_call,
                                              .form = p->form};
    struct tern_error e = {0};
    enum tern_status s = tern_answer_open(&a->answer, a->model, &params, &e);
    for (size_t i = n; i < p->n_prompt && !s; i++) {
        s = tern_answer_push(a->answer, p->prompt[i], &e);
        if (!s)
            drop_events(a);
    }
    return !s || failed(f, s, &e);
}

struct answer_stream *answer_stream_open(const tern_model *model,
                                         const struct answer_stream_params *p, struct fault *f)
{
    struct answer_stream *a = calloc(1, sizeof *a);
    struct tern_error e = {0};
    if (!a) {
        fault_no_memory(f, "the answer");
        return NULL;
    }
    a->model = model, a->p = *p;
    enum tern_status s =
        certain_open(&a->certain, model, p->ignore_end, p->prompt, p->n_prompt, &e);
    bool ok = s ? failed(f, s, &e) : p->plain || open_answer(a, p, f);
    if (ok)
        return a;
    answer_stream_close(a);
    return NULL;
}

bool answer_stream_said_call(const tern_model *model, const struct answer_stream_params *p,
                             bool *within, struct fault *f)
{
    struct answer_stream *a = answer_stream_open(model, p, f);
    *within = a && a->said_call;
    answer_stream_close(a);
    return a != NULL;
}

void answer_stream_close(struct answer_stream *a)
{
    if (!a)
        return;
    tern_answer_close(a->answer);
    certain_close(&a->certain);
    growing_text_close(&a->text);
    growing_text_close(&a->blanks);
    free(a->w.token);
    free(a->w.top);
    free(a);
}

/* ---- tokens that wait ------------------------------------------------------------------------ */

static bool make_room(struct waiting *w)
{
    size_t room = w->room;
    return array_room(&w->token, &room, w->n, sizeof *w->token) &&
           array_room(&w->top, &w->room, w->n, JOB_TOP_MAX * sizeof *w->top);
}

static void keep_token(struct waiting *w, const struct job_event *e)
{
    struct answer_token *t = &w->token[w->n];
    size_t n = e->n_top < JOB_TOP_MAX ? e->n_top : JOB_TOP_MAX;
    *t = (struct answer_token){
        .token = e->token, .forced = e->forced, .logprob = e->logprob, .n_top = n};
    if (n)
        memcpy(&w->top[w->n * JOB_TOP_MAX], e->top, n * sizeof *e->top);
    w->n++;
}

static void forget_given(struct waiting *w)
{
    size_t n = w->n - w->given;
    if (w->given && n) {
        memmove(w->token, w->token + w->given, n * sizeof *w->token);
        memmove(w->top, w->top + w->given * JOB_TOP_MAX, n * JOB_TOP_MAX * sizeof *w->top);
    }
    w->n = n, w->pushed -= w->given, w->given = 0;
}

/* Gives the tokens that the parser has to the part. */
static void give_tokens(struct answer_stream *a, struct answer_part *part)
{
    struct waiting *w = &a->w;
    for (size_t i = 0; i < w->pushed; i++)
        w->token[i].top = &w->top[i * JOB_TOP_MAX];
    part->tokens = w->token, part->n_tokens = w->given = w->pushed;
}

/* ---- text ---------------------------------------------------------------------------------- */

/* Another token of the job. */
static bool take_token(struct answer_stream *a)
{
    if (!certain_add(&a->certain, a->event.token) || !make_room(&a->w))
        return fault_no_memory(&a->fault, "the answer");
    keep_token(&a->w, &a->event);
    certain_grow(&a->certain, a->event.bytes);
    return true;
}

static bool take_end(struct answer_stream *a)
{
    a->over = true;
    certain_grow(&a->certain, a->event.bytes);
    return certain_end(&a->certain, a->event.result.reason) ||
           fault_no_memory(&a->fault, "the answer");
}

/* The next token, or text cut by a stop string, goes to the parser, if it is certain. */
static bool push_more(struct answer_stream *a, bool *pushed)
{
    struct certain_piece piece;
    struct tern_error e = {0};
    enum tern_status s = TERN_OK;
    certain_next(&a->certain, &piece);
    a->text.n = 0;
    *pushed = piece.kind != CERTAIN_NONE;
    if (!a->answer)
        growing_text_add(&a->text, piece.text, piece.n);
    else if (piece.kind == CERTAIN_TOKEN)
        s = tern_answer_push(a->answer, piece.token, &e);
    else if (piece.kind == CERTAIN_CUT)
        s = tern_answer_push_text(a->answer, piece.text, piece.n, &e);
    a->w.pushed += piece.kind == CERTAIN_TOKEN || piece.kind == CERTAIN_CUT;
    return s ? failed(&a->fault, s, &e)
             : !a->text.failed || fault_no_memory(&a->fault, "the answer");
}

/* ---- parts --------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* A thought is told without blanks around it. */
static void trim_thought(struct answer_stream *a, const char **text, size_t *n)
{
    size_t end = *n;
    a->text.n = 0;
    while (end && is_blank((*text)[end - 1]))
        end--;
    if (end) {
        size_t from = 0;
        while (!a->thought && is_blank((*text)[from]))
            from++;
        if (a->thought)
            growing_text_add(&a->text, a->blanks.p, a->blanks.n);
        growing_text_add(&a->text, *text + from, end - from);
        a->blanks.n = 0, a->thought = true;
    }
    growing_text_add(&a->blanks, *text + end, *n - end);
    *text = a->text.p ? a->text.p : "", *n = a->text.n;
}

/* Text behind a thought begins without blanks. */
static void trim_text(struct answer_stream *a, const char **text, size_t *n)
{
    while (a->thought && !a->spoke && *n && is_blank(**text))
        (*text)++, (*n)--;
    a->spoke |= *n > 0;
    a->blanks.n = 0;
}

static void give_call(struct answer_stream *a, const struct tern_answer_event *x,
                      struct answer_part *part)
{
    bool over = is_end(x);
    part->kind = over ? PART_CALL : x->kind == TERN_ANSWER_BEGIN ? PART_BEGIN : PART_ARGUMENTS;
    part->call = x->call;
    part->index = a->n_calls;
    part->cut = x->kind == TERN_ANSWER_CUT;
    a->cut |= part->cut;
    a->n_calls += over;
    a->in_call = !over;
}

static bool give_event(struct answer_stream *a, const struct tern_answer_event *x,
                       struct answer_part *part)
{
    part->text = x->text, part->bytes = x->bytes;
    if (x->kind == TERN_ANSWER_THOUGHT) {
        part->kind = PART_THOUGHT;
        trim_thought(a, &part->text, &part->bytes);
    } else if (x->kind == TERN_ANSWER_TEXT) {
        part->kind = PART_TEXT;
        trim_text(a, &part->text, &part->bytes);
    } else {
        give_call(a, x, part);
    }
    if (part->kind == PART_CALL)
        return true;
    if (part->kind != PART_BEGIN && !part->bytes)
        return false;
    give_tokens(a, part);
    return true;
}

/* Of a call that is told when it is over: all of it. */
static void begin_late(struct answer_stream *a, const struct tern_answer_event *end)
{
    for (size_t i = 0; i < 3; i++)
        a->late[i] = *end;
    a->late[0].kind = TERN_ANSWER_BEGIN;
    a->late[1].kind = TERN_ANSWER_ARGUMENTS;
    a->late[1].text = end->call.arguments, a->late[1].bytes = strlen(end->call.arguments);
    a->n_late = 3, a->next_late = 0;
}

/* The next event of the parser. A call that began in what was said before is told whole when it is over. */
static bool take_answer(struct answer_stream *a, struct tern_answer_event *x)
{
    for (;;) {
        if (a->next_late < a->n_late) {
            *x = a->late[a->next_late++];
            return true;
        }
        if (tern_answer_next(a->answer, x) == TERN_ANSWER_NONE)
            return false;
        if (!a->in_call && is_end(x))
            begin_late(a, x);
        else if (a->in_call || x->kind != TERN_ANSWER_ARGUMENTS)
            return true;
    }
}

/* The next event that says anything. */
static bool next_event(struct answer_stream *a, struct answer_part *part)
{
    struct tern_answer_event x;
    while (a->answer && take_answer(a, &x))
        if (give_event(a, &x, part))
            return true;
    *part = (struct answer_part){.kind = PART_NONE, .text = ""};
    return false;
}

/* Of all text without chat */
static bool next_plain(struct answer_stream *a, struct answer_part *part)
{
    if (a->answer || !a->text.n)
        return false;
    part->kind = PART_TEXT, part->text = a->text.p, part->bytes = a->text.n;
    give_tokens(a, part);
    return true;
}

/* The stop string at the front of what was not passed on */
static const char *find_stop(const struct answer_stream *a)
{
    const struct growing_text *raw = &a->certain.raw;
    for (size_t i = 0; i < a->p.n_stop; i++) {
        size_t n = strlen(a->p.stop[i]);
        if (n <= raw->n && memcmp(raw->p, a->p.stop[i], n) == 0)
            return a->p.stop[i];
    }
    return NULL;
}

static bool give_failure(struct answer_stream *a, struct answer_part *part)
{
    a->finished = true;
    *part = (struct answer_part){.kind = PART_FAILED, .text = "", .fault = &a->fault};
    return true;
}

static bool give_end(struct answer_stream *a, struct answer_part *part)
{
    a->finished = true;
    part->kind = PART_DONE;
    part->called = a->n_calls > 0 && !a->cut;
    part->reason = a->event.result.reason;
    part->stop = part->reason == TERN_STOP_STRING && a->certain.raw.n ? find_stop(a) : NULL;
    part->end = &a->event;
    give_tokens(a, part);
    return true;
}

static bool give_prompt(struct answer_stream *a, struct answer_part *part)
{
    const struct job_event *e = &a->event;
    a->of_prompt = (struct answer_token){
        .token = e->token, .logprob = e->logprob, .top = e->top, .n_top = e->n_top};
    *part = (struct answer_part){
        .kind = PART_PROMPT, .text = "", .tokens = &a->of_prompt, .n_tokens = 1};
    return true;
}

/* Takes what the job has next; false: nothing waits, or it failed. */
static bool take_event(struct answer_stream *a, struct job *j)
{
    if (!job_next(j, &a->event))
        return false;
    if (a->event.kind == JOB_PROMPT)
        return true;
    if (a->event.kind == JOB_TOKEN)
        return take_token(a);
    if (a->event.kind == JOB_DONE)
        return take_end(a);
    a->fault = a->event.fault;
    return false;
}

static bool was_cut(enum tern_stop_reason reason)
{
    return reason == TERN_STOP_LENGTH || reason == TERN_STOP_CONTEXT || reason == TERN_STOP_STRING;
}

/* The parser says what it held back. Nothing is pushed after that. A character that was not whole when a
 * stop string came is where that begins: an empty text drops it. */
static bool finish_answer(struct answer_stream *a, bool *more)
{
    struct tern_error e = {0};
    enum tern_status s = TERN_OK;
    *more = a->answer != NULL && !a->finishing;
    if (!*more)
        return true;
    a->finishing = true;
    if (a->event.result.reason == TERN_STOP_STRING)
        s = tern_answer_push_text(a->answer, "", 0, &e);
    if (!s)
        s = was_cut(a->event.result.reason) ? tern_answer_cut(a->answer, &e)
                                            : tern_answer_finish(a->answer, &e);
    return !s || failed(&a->fault, s, &e);
}

bool answer_stream_next(struct answer_stream *a, struct job *j, struct answer_part *part)
{
    *part = (struct answer_part){.kind = PART_NONE, .text = ""};
    forget_given(&a->w);
    if (a->finished)
        return false;
    for (;;) {
        bool more = false;
        if (next_event(a, part))
            return true;
        if (a->finishing) /* or there is no parser, below */
            return give_end(a, part);
        if (!push_more(a, &more))
            return give_failure(a, part);
        if (next_plain(a, part))
            return true;
        if (more)
            continue;
        if (a->over) {
            if (!finish_answer(a, &more))
                return give_failure(a, part);
            if (!more)
                return give_end(a, part);
        } else if (!take_event(a, j)) {
            return a->fault.status ? give_failure(a, part) : false;
        } else if (a->event.kind == JOB_PROMPT) {
            return give_prompt(a, part);
        }
    }
}
