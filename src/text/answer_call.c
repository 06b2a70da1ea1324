/* Reads one call of an answer: see answer_call.h. */
#include "text/answer_call.h"

#include <stdio.h>

#include "text/tojson.h"
#include "text/unicode.h"

enum { KEY_MAX = 1024 };
enum progress { MORE, DONE, NONE, NO_MEMORY };

static const char gemma_quote[] = "<|\"|>";

enum tern_status answer_forms_open(struct answer_forms *out, const struct chat *c, bool marked,
                                   struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    static const char mark[] = {(char)ANSWER_SPECIAL, (char)ANSWER_SPECIAL_END};
    uint32_t flags;
    size_t n = sizeof gemma_quote - 1;
    out->one = c->form_flags & CHAT_CALLS_ONE;
    for (out->n = 0; out->n < c->n_forms && !s;) {
        s = answer_form_open(&out->list[out->n], c, out->n, marked ? ANSWER_MARKED : ANSWER_TEXT,
                             e);
        out->n += s == TERN_OK;
    }
    int32_t id = tokenizer_find(c->t, gemma_quote, n, &flags);
    if (s || id < 0)
        return s;
    marked = marked && tokenizer_is_special(c->t, id);
    if (!buffer_add(&out->bytes, mark, marked) || !buffer_add(&out->bytes, gemma_quote, n) ||
        !buffer_add(&out->bytes, mark + 1, marked))
        return error_memory(e, "a form of calls", n);
    out->quote = (struct mark){out->bytes.p, out->bytes.n};
    return TERN_OK;
}

void answer_forms_close(struct answer_forms *f)
{
    for (size_t i = 0; i < f->n; i++)
        answer_form_close(&f->list[i]);
    buffer_close(&f->bytes);
}

/* ---- literals ----------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_sign(char c)
{
    return c && strchr("{}[]:,", c);
}

/* Reads literal text[*k..n) at rest[*pos..): whitespace may differ where the literal has some, before it,
 * and beside signs of JSON. Whitespace at its end may be missing: then text[*k..n) is that. */
static enum progress read_literal(struct mark text, struct mark rest, size_t *k, size_t *pos)
{
    for (;;) {
        struct mark left = answer_core((struct mark){text.p + *k, text.n - *k});
        if (!left.n)
            return DONE;
        *k = (size_t)(left.p - text.p);
        if (*pos == rest.n)
            return MORE;
        char c = rest.p[*pos], before = *k ? text.p[*k - 1] : ' ';
        if (c == text.p[*k])
            ++*k;
        else if (!is_space(c) || !(is_space(before) || is_sign(before) || is_sign(text.p[*k])))
            return NONE;
        ++*pos;
    }
}

/* read_literal from the beginning, not kept. */
static enum progress try_literal(struct mark text, struct mark rest, size_t *pos)
{
    size_t k = 0, at = *pos;
    enum progress p = read_literal(text, rest, &k, &at);
    if (p == DONE)
        *pos = at;
    return p;
}

static enum progress literal(struct answer_call *c, struct mark text, struct mark rest)
{
    enum progress p = read_literal(text, rest, &c->k, &c->pos);
    if (p == DONE) {
        c->trail = (struct mark){text.p + c->k, text.n - c->k};
        c->k = 0;
    }
    return p;
}

/* rest[pos..) begins with `word`, which is not empty; or may, when more comes. */
static enum progress at_word(struct mark word, struct mark rest, size_t pos)
{
    size_t n = rest.n - pos < word.n ? rest.n - pos : word.n;
    if (memcmp(rest.p + pos, word.p, n) != 0)
        return NONE;
    return n == word.n ? DONE : MORE;
}

/* The part of a literal before its first whitespace inside */
static struct mark first_word(struct mark text)
{
    text = answer_core(text);
    for (size_t i = 0; i < text.n; i++)
        if (is_space(text.p[i]))
            text.n = i;
    return text;
}

/* Moves pos to the next `word`. */
static enum progress until(struct answer_call *c, struct mark word, struct mark rest)
{
    for (; c->pos < rest.n; c->pos++) {
        enum progress p = at_word(word, rest, c->pos);
        if (p != NONE)
            return p;
    }
    return MORE;
}

static const struct answer_form *form_of(const struct answer_call *c)
{
    return &c->forms->list[c->form];
}

/* ---- names, ids, JSON objects --------------------------------------------------------------- */

/* Name and id are read: what is left of the call is its arguments and literals. */
static bool is_named(const struct answer_call *c)
{
    const struct answer_form *f = form_of(c);
    size_t i = c->step;
    while (i < f->n_steps && f->steps[i].kind != ANSWER_NAME && f->steps[i].kind != ANSWER_ID)
        i++;
    return i == f->n_steps;
}

static bool is_special(char byte)
{
    return (unsigned char)byte == ANSWER_SPECIAL;
}

static enum progress arguments_end(const struct answer_call *c)
{
    return answer_is_object((struct mark){c->arguments.p, c->arguments.n}) ? DONE : NONE;
}

static bool skip_blanks(struct answer_call *c, struct mark rest)
{
    while (!c->began && c->pos < rest.n && is_space(rest.p[c->pos]))
        c->pos++;
    if (!c->began && c->pos < rest.n)
        c->began = true, c->from = c->pos;
    return c->began;
}

static enum progress read_word(struct answer_call *c, struct mark rest, struct buffer *out, bool id)
{
    if (!skip_blanks(c, rest))
        return MORE;
    while (c->pos < rest.n &&
           (id ? tools_is_id(rest.p + c->pos, 1) : tools_is_name(rest.p + c->pos, 1)))
        c->pos++;
    size_t n = c->pos - c->from;
    if (n > (id ? TOOLS_ID_MAX : TOOLS_NAME_MAX))
        return NONE;
    if (c->pos == rest.n)
        return MORE;
    c->began = false;
    if (n == 0)
        return NONE;
    if (!buffer_add(out, rest.p + c->from, n) || !buffer_add(out, "", 1))
        return NO_MEMORY;
    out->n--; /* the NUL is not counted */
    return DONE;
}

/* One byte of a value: nesting, quotes of `quotes`, escapes. */
static void step_value(struct answer_call *c, char byte, const char *quotes)
{
    if (c->in_string) {
        c->in_string = c->escaped || byte != c->quote;
        c->escaped = !c->escaped && byte == '\\';
    } else if (byte && strchr(quotes, byte)) {
        c->in_string = true, c->escaped = false, c->quote = byte;
    } else {
        c->depth += byte == '{' || byte == '[';
        c->depth -= (byte == '}' || byte == ']') && c->depth;
    }
}

static enum progress read_object(struct answer_call *c, struct mark rest)
{
    if (!skip_blanks(c, rest))
        return MORE;
    if (rest.p[c->from] != '{')
        return NONE;
    bool over = false, special = false;
    c->sure = is_named(c);
    while (c->pos < rest.n && !over && !special) {
        special = is_special(rest.p[c->pos]);
        if (!special)
            step_value(c, rest.p[c->pos++], "\"");
        over = !c->depth && !c->in_string;
    }
    const char *more = rest.p + c->from + c->arguments.n;
    size_t n = (size_t)(rest.p + c->pos - more);
    if (!buffer_add(&c->arguments, more, n - unicode_tail(more, n)))
        return NO_MEMORY;
    if (!over)
        return special ? NONE : MORE;
    c->began = false;
    return arguments_end(c);
}

/* ---- lists of arguments --------------------------------------------------------------------- */

static const struct answer_list *list_of(const struct answer_call *c)
{
    return &form_of(c)->list;
}

/* The literal behind the list; without bytes: none */
static struct mark behind_list(const struct answer_call *c)
{
    const struct answer_form *f = form_of(c);
    return c->step + 1 < f->n_steps ? f->steps[c->step + 1].text : (struct mark){"", 0};
}

/* Another argument, or the end of the list: then DONE and list stays LIST_NEXT. */
static enum progress list_next(struct answer_call *c, struct mark rest, bool *over)
{
    const struct answer_list *l = list_of(c);
    size_t at = c->pos, behind = c->pos;
    bool first = c->arguments.n == 0;
    enum progress end = try_literal(behind_list(c), rest, &behind);
    enum progress more = DONE;
    if (!first)
        more = try_literal(l->between, rest, &at);
    if (more == DONE)
        more = try_literal(l->before, rest, &at);
    *over = end == DONE && answer_core(behind_list(c)).n > 0;
    if (*over)
        return DONE;
    if (end == MORE)
        return MORE;
    if (more == DONE)
        c->pos = at, c->list = LIST_KEY, c->began = false;
    return more;
}

static bool is_text(const struct answer_call *c)
{
    return c->is_text || c->in_quotes;
}

/* What ends a text */
static struct mark text_end(const struct answer_call *c)
{
    return c->in_quotes ? c->forms->quote : list_of(c)->text_after;
}

/* A key in Gemma 4's notation has no quotes; a model may write some, of that notation or of JSON. */
static struct mark unquoted(const struct answer_call *c, struct mark key)
{
    const struct mark quotes[] = {c->forms->quote, {"\"", 1}};
    if (list_of(c)->box_notation != TOJSON_GEMMA)
        return key;
    for (size_t i = 0; i < 2; i++) {
        struct mark quote = quotes[i];
        if (quote.n && key.n > 2 * quote.n && memcmp(key.p, quote.p, quote.n) == 0 &&
            memcmp(key.p + key.n - quote.n, quote.p, quote.n) == 0)
            return (struct mark){key.p + quote.n, key.n - 2 * quote.n};
    }
    return key;
}

static enum progress list_key(struct answer_call *c, struct mark rest)
{
    if (!skip_blanks(c, rest))
        return MORE;
    enum progress p = until(c, first_word(list_of(c)->middle), rest);
    struct mark key = unquoted(c, answer_core((struct mark){rest.p + c->from, c->pos - c->from}));
    bool ends = p == DONE;
    if (c->pos - c->from > KEY_MAX || (ends && memchr(key.p, ANSWER_SPECIAL, key.n))) {
        c->pos = c->from;
        return NONE;
    }
    if (!ends)
        return p;
    c->key.n = 0;
    c->list = LIST_MIDDLE, c->began = false;
    return buffer_add(&c->key, key.p, key.n) ? DONE : NO_MEMORY;
}

/* Behind the middle: is it a text's? Its quotes are passed. */
static enum progress list_middle(struct answer_call *c, struct mark rest)
{
    const struct answer_list *l = list_of(c);
    struct mark more = {l->text_middle.p + l->middle.n, l->text_middle.n - l->middle.n};
    if (!c->began) {
        enum progress p = literal(c, l->middle, rest);
        if (p != DONE)
            return p;
        c->began = true;
    }
    enum progress p = more.n ? at_word(more, rest, c->pos) : NONE;
    if (p == MORE)
        return MORE;
    c->is_text = p == DONE || (!more.n && l->text_notation == TOJSON_STR);
    if (p == DONE)
        c->pos += more.n, c->trail.n = 0;
    c->began = false;
    c->list = LIST_TRAIL;
    return DONE;
}

static bool put_key(struct answer_call *c)
{
    struct buffer *out = &c->arguments;
    return buffer_add(out, out->n ? ", " : "{", out->n ? 2 : 1) &&
           tojson_put_string(c->key.p, c->key.n, TOJSON_JSON, out) && buffer_add(out, ": ", 2);
}

/* A value begins, and of a text its string. */
static enum progress begin_value(struct answer_call *c, struct mark rest, const struct tools *tools)
{
    struct mark quote = c->forms->quote;
    enum progress p = c->is_text || !quote.n ? NONE : at_word(quote, rest, c->pos);
    if (p == MORE)
        return MORE;
    c->in_quotes = p == DONE;
    c->pos += p == DONE ? quote.n : 0;
    bool quoted = c->in_quotes || list_of(c)->text_middle.n > list_of(c)->middle.n;
    c->from = c->pos, c->depth = 0, c->in_string = false;
    c->list = LIST_VALUE;
    c->sure = is_named(c);
    c->type = !is_text(c) ? ANSWER_NO_TEXT
              : quoted    ? ANSWER_IS_TEXT
                          : answer_type_of(tools, c->name.p, (struct mark){c->key.p, c->key.n});
    if (c->type != ANSWER_IS_TEXT)
        return DONE;
    return put_key(c) && buffer_add(&c->arguments, "\"", 1) ? DONE : NO_MEMORY;
}

/* Whitespace at the end of the middle is not part of a text; of other values, none is. */
static enum progress list_trail(struct answer_call *c, struct mark rest, const struct tools *tools)
{
    for (;;) {
        if (c->is_text && !c->trail.n)
            break;
        if (c->pos == rest.n)
            return MORE;
        if (c->is_text ? rest.p[c->pos] != *c->trail.p : !is_space(rest.p[c->pos]))
            break;
        c->pos++;
        if (c->is_text)
            c->trail.p++, c->trail.n--;
    }
    return begin_value(c, rest, tools);
}

/* A value with brackets and quotes ends where one of these begins outside of them. */
static enum progress ends_value(const struct answer_call *c, struct mark rest)
{
    const struct answer_list *l = list_of(c);
    const struct mark after = answer_core(l->after);
    const struct mark ends[] = {after, answer_core(l->between), answer_core(behind_list(c))};
    enum progress found = NONE;
    for (size_t i = 0; i < 3; i++) {
        enum progress p = ends[i].n ? at_word(ends[i], rest, c->pos) : NONE;
        if (p == DONE)
            return DONE;
        found = p == MORE ? MORE : found;
        if (after.n)
            break;
    }
    return found;
}

static enum progress scan_value(struct answer_call *c, struct mark rest)
{
    struct mark quote = c->forms->quote;
    while (c->pos < rest.n) {
        enum progress p = quote.n ? at_word(quote, rest, c->pos) : NONE;
        if (p == MORE)
            return MORE;
        if (p == DONE) {
            c->in_string = !c->in_string, c->quote = 0, c->escaped = false;
            c->pos += quote.n;
            continue;
        }
        if (!c->in_string && !c->depth && (p = ends_value(c, rest)) != NONE)
            return p;
        if (quote.n && c->in_string)
            c->pos++;
        else
            step_value(c, rest.p[c->pos++], quote.n ? "" : "\"'");
    }
    return MORE;
}

/* Whitespace before the end of a text */
static size_t lead_of(const struct answer_call *c)
{
    struct mark end = text_end(c);
    return (size_t)(answer_core(end).p - end.p);
}

/* That is no part of it, if it is there. */
static struct mark without_lead(const struct answer_call *c, struct mark value)
{
    size_t lead = lead_of(c);
    if (value.n >= lead && memcmp(value.p + value.n - lead, text_end(c).p, lead) == 0)
        value.n -= lead;
    return value;
}

/* More of a string whose closing quote is not yet written */
static bool put_inside(struct buffer *out, struct mark text)
{
    size_t at = --out->n;
    char last = out->p[at];
    bool ok = tojson_put_string(text.p, text.n, TOJSON_JSON, out);
    out->p[at] = last;
    out->n -= ok;
    return ok;
}

/* What was read of a text since `from`; cut: no more of it comes. */
static enum progress put_more_text(struct answer_call *c, struct mark rest, bool over, bool cut)
{
    struct mark text = {rest.p + c->from, c->pos - c->from};
    const char *special = memchr(text.p, ANSWER_SPECIAL, text.n);
    size_t lead = lead_of(c);
    if (special)
        text.n = (size_t)(special - text.p), c->pos = c->from + text.n, cut = true;
    if (over || cut)
        text = without_lead(c, text);
    else /* it may belong to the end */
        text.n = text.n > lead ? text.n - lead : 0;
    text.n -= over && !special ? 0 : unicode_tail(text.p, text.n);
    c->from += text.n;
    if (!put_inside(&c->arguments, text) ||
        (over && !special && !buffer_add(&c->arguments, "\"", 1)))
        return NO_MEMORY;
    return special ? NONE : over ? DONE : MORE;
}

/* A value that is whole */
static enum progress put_value(struct answer_call *c, struct mark value)
{
    struct buffer *out = &c->arguments;
    size_t from = out->n;
    bool ok =
        put_key(c) && (c->is_text ? answer_put_bare(without_lead(c, value), c->type, out)
                                  : answer_put_value(value, c->forms->quote, out) ||
                                        answer_put_bare(answer_core(value), ANSWER_IS_TEXT, out));
    if (!ok || !memchr(out->p + from, ANSWER_SPECIAL, out->n - from))
        return ok ? DONE : NO_MEMORY;
    out->n = from;
    return NONE;
}

static enum progress list_value(struct answer_call *c, struct mark rest)
{
    enum progress p = is_text(c) ? until(c, answer_core(text_end(c)), rest) : scan_value(c, rest);
    if (c->type == ANSWER_IS_TEXT)
        p = put_more_text(c, rest, p == DONE, false);
    else if (p == DONE)
        p = put_value(c, (struct mark){rest.p + c->from, c->pos - c->from});
    if (p != DONE)
        return p;
    c->pos += c->in_quotes ? text_end(c).n : 0;
    c->list = LIST_AFTER;
    return DONE;
}

static enum progress list_after(struct answer_call *c, struct mark rest)
{
    const struct answer_list *l = list_of(c);
    enum progress p = literal(c, c->is_text ? l->text_after : l->after, rest);
    if (p == DONE)
        c->list = LIST_NEXT;
    return p;
}

static enum progress read_list(struct answer_call *c, struct mark rest, const struct tools *tools)
{
    enum progress p = DONE;
    bool over = false;
    while (p == DONE && !over)
        p = c->list == LIST_NEXT     ? list_next(c, rest, &over)
            : c->list == LIST_KEY    ? list_key(c, rest)
            : c->list == LIST_MIDDLE ? list_middle(c, rest)
            : c->list == LIST_TRAIL  ? list_trail(c, rest, tools)
            : c->list == LIST_VALUE  ? list_value(c, rest)
                                     : list_after(c, rest);
    struct buffer *out = &c->arguments;
    if (p == DONE && (!buffer_add(out, out->n ? "}" : "{}", out->n ? 1 : 2)))
        return NO_MEMORY;
    return p == DONE ? arguments_end(c) : p;
}

/* ---- a call --------------------------------------------------------------------------------- */

static enum progress read_step(struct answer_call *c, struct mark rest, const struct tools *tools)
{
    const struct answer_step *step = &form_of(c)->steps[c->step];
    switch (step->kind) {
    case ANSWER_LITERAL:
        return literal(c, step->text, rest);
    case ANSWER_NAME:
        return read_word(c, rest, &c->name, false);
    case ANSWER_ID:
        return read_word(c, rest, &c->id, true);
    case ANSWER_ARGUMENTS:
        return read_object(c, rest);
    default:
        return read_list(c, rest, tools);
    }
}

/* Only literals are left of the call: an answer whose end token is not shown may lack them. */
static bool has_values(const struct answer_call *c)
{
    const struct answer_form *f = form_of(c);
    size_t i = c->step;
    while (i < f->n_steps && f->steps[i].kind == ANSWER_LITERAL)
        i++;
    return c->phase == CALL_STEPS && i == f->n_steps;
}

static void begin_steps(struct answer_call *c)
{
    c->phase = CALL_STEPS, c->list = LIST_NEXT;
    c->step = c->k = c->depth = 0;
    c->sure = c->began = c->in_string = false;
    c->name.n = c->id.n = c->arguments.n = 0;
}

/* Behind a call: the next one, or the end */
static enum answer_call_result read_after(struct answer_call *c, struct mark rest, bool finishing)
{
    const struct answer_form *f = form_of(c);
    size_t end = 0, next = 0;
    bool ends = answer_core(f->end).n, parted = answer_core(f->between).n;
    bool literal_first = f->steps[0].kind == ANSWER_LITERAL && answer_core(f->steps[0].text).n;
    enum progress over = ends ? try_literal(f->end, rest, &end) : NONE;
    enum progress more = parted ? try_literal(f->between, rest, &next)
                         : (ends || !c->forms->one) && literal_first
                             ? try_literal(f->steps[0].text, rest, &next)
                             : NONE;
    c->used = 0;
    if (over == DONE) {
        c->used = end;
        return ANSWER_CALL_OVER;
    }
    if (more == DONE && over != MORE) {
        begin_steps(c);
        c->pos = parted ? next : 0;
        return ANSWER_CALL_READ; /* not seen outside: answer_call_read goes on */
    }
    return !finishing && (over == MORE || more == MORE) ? ANSWER_CALL_MORE : ANSWER_CALL_OVER;
}

enum answer_call_result answer_call_read(struct answer_call *c, struct mark rest,
                                         const struct tools *tools, bool finishing)
{
    const struct answer_form *f = form_of(c);
    enum progress p = DONE;
    if (c->phase == CALL_AFTER) {
        enum answer_call_result after = read_after(c, rest, finishing);
        if (after != ANSWER_CALL_READ)
            return after;
    }
    if (c->phase == CALL_BEGIN && (p = literal(c, f->begin, rest)) == DONE)
        begin_steps(c);
    while (p == DONE && c->step < f->n_steps)
        if ((p = read_step(c, rest, tools)) == DONE)
            c->step++;
    c->used = c->pos;
    if (p == DONE || (p == MORE && finishing && has_values(c)))
        return ANSWER_CALL_READ;
    return p == NO_MEMORY ? ANSWER_CALL_NO_MEMORY
           : p == NONE    ? ANSWER_CALL_NONE
           : finishing    ? ANSWER_CALL_CUT
                          : ANSWER_CALL_MORE;
}

bool answer_call_cut(struct answer_call *c, struct mark rest)
{
    return form_of(c)->steps[c->step].kind != ANSWER_LIST || c->list != LIST_VALUE ||
           c->type != ANSWER_IS_TEXT || put_more_text(c, rest, false, true) != NO_MEMORY;
}

void answer_call_begin(struct answer_call *c, const struct answer_forms *forms, size_t form)
{
    begin_steps(c);
    c->forms = forms, c->form = form;
    c->phase = CALL_BEGIN;
    c->pos = c->used = 0;
}

bool answer_call_next(struct answer_call *c)
{
    c->phase = CALL_AFTER;
    c->sure = false;
    c->pos = c->used = 0;
    return true;
}

bool answer_call_name(const struct answer_call *c, size_t number, struct tern_call *out)
{
    char made[24];
    const char *id = made;
    size_t n_id = (size_t)snprintf(made, sizeof made, "%09zu", number);
    if (c->id.n)
        id = c->id.p, n_id = c->id.n;
    char *p = malloc(n_id + c->name.n + 2);
    if (!p)
        return false;
    out->id = memcpy(p, id, n_id);
    p += n_id, *p++ = 0;
    out->name = memcpy(p, c->name.p, c->name.n);
    p[c->name.n] = 0;
    return true;
}

char *answer_call_arguments(const struct answer_call *c)
{
    char *p = malloc(c->arguments.n + 1);
    if (!p)
        return NULL;
    if (c->arguments.n)
        memcpy(p, c->arguments.p, c->arguments.n);
    p[c->arguments.n] = 0;
    return p;
}

void answer_call_free(struct tern_call *call)
{
    free((char *)(uintptr_t)call->id);
    free((char *)(uintptr_t)call->arguments);
}

void answer_call_close(struct answer_call *c)
{
    struct buffer *buffers[] = {&c->name, &c->id, &c->arguments, &c->key};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        buffer_close(buffers[i]);
}
