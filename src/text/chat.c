/* Chat templates: reads and checks the rules, and applies them. See chat.h. */
#include "text/chat.h"

#include "text/added.h"
#include "text/chat_builtin.h"
#include "text/thoughts.h"

enum { DEPTH_MAX = 4, RULES_MAX = 256, STOP_MAX = 48, MARK_MAX = 63 };
/* Of a rule: special tokens, each of up to 4096 bytes and a mark, and texts of the conversation. The
 * most that a real template has are 8 and 2. */
enum { NAMES_MAX = 32, TEXTS_MAX = 8 };
enum { SYSTEM_BITS = CHAT_SYSTEM | CHAT_SYSTEM_EMPTY | CHAT_SYSTEM_BLANK };
struct chat_rule {
    uint32_t mask, value; /* of enum chat_when */
    uint32_t n;
    const char *p; /* [n], in the section */
};

struct chat {
    const struct tokenizer *t; /* borrowed */
    struct chat_rule *rules;   /* [n] */
    size_t n;
    bool builtin; /* a special token that the tokenizer lacks becomes text */
    struct thoughts thoughts;
    int32_t marks[2]; /* their tokens, or -1 */
    char name[64], stop[STOP_MAX];
    struct tern_chat_info info;
};

/* ---- texts -------------------------------------------------------------------------------- */

/* The text of a message, which may be NULL if it has no bytes */
static const char *text_of(const struct tern_chat_message *m)
{
    return m->text ? m->text : "";
}

static bool is_blank(const struct tern_chat_message *m)
{
    return thoughts_is_blank(text_of(m), m->bytes);
}

/* ---- writing ------------------------------------------------------------------------------ */

struct render {
    const struct chat *c;
    const struct tern_chat_message *system; /* or NULL */
    struct chat_text *out;
    size_t open[DEPTH_MAX], depth;
};

static bool put_mark(struct render *r, struct chat_mark m, const char *p)
{
    m.at = r->out->text.n;
    return buffer_add(&r->out->text, p, m.n) &&
           buffer_add(&r->out->marks, (const char *)&m, sizeof m);
}

/* The special token `name`: as text, where the tokenizer has none of that name. */
static bool put_name(struct render *r, const char *name, size_t n)
{
    struct chat_mark m = {.id = n ? tokenizer_find(r->c->t, name, n, &m.flags)
                                  : tokenizer_eos(r->c->t)};
    if (m.id < 0)
        return buffer_add(&r->out->text, name, n);
    if (n == 0)
        name = tokenizer_text(r->c->t, m.id, &n);
    m.n = n;
    return put_mark(r, m, name);
}

static bool put_part(struct render *r, char op, const struct tern_chat_message *m)
{
    struct buffer *out = &r->out->text;
    const struct thoughts *t = &r->c->thoughts;
    return op == CHAT_ANSWER   ? thoughts_put_answer(t, text_of(m), m->bytes, out)
           : op == CHAT_THINKS ? thoughts_put_thinks(t, text_of(m), m->bytes, out)
                               : buffer_add(out, text_of(m), m->bytes);
}

static void close_group(struct render *r, unsigned code)
{
    struct buffer *text = &r->out->text;
    if (r->depth == 0)
        return;
    size_t from = r->open[--r->depth], n = text->n - from;
    if (!n)
        return;
    const char *p = thoughts_trim(text->p + from, &n, code % 3, code / 3);
    memmove(text->p + from, p, n);
    text->n = from + n;
}

/* Carries out p[0..n), which has been checked. `m`: the message, NULL at the end. */
static bool put(struct render *r, const char *p, size_t n, const struct tern_chat_message *m)
{
    bool ok = true;
    size_t len;
    const char *end = p + n;
    for (r->depth = 0; p < end && ok; p += len) {
        len = 1;
        if (*p == CHAT_NAME) {
            len = (size_t)((const char *)memchr(p + 1, CHAT_NAME, (size_t)(end - p) - 1) - p) + 1;
            ok = put_name(r, p + 1, len - 2);
        } else if (*p == CHAT_INSTRUCT) {
            ok = !r->system || put_part(r, CHAT_WHOLE, r->system);
        } else if (*p == CHAT_OPEN) {
            r->open[r->depth++] = r->out->text.n;
        } else if (*p == CHAT_CLOSE) {
            close_group(r, (unsigned)(p[1] - '0'));
            len = 2;
        } else if (*p == CHAT_BOS) {
            struct chat_mark b = {.id = tokenizer_bos(r->c->t)};
            const char *name = tokenizer_text(r->c->t, b.id, &b.n);
            ok = b.id < 0 || put_mark(r, b, name);
        } else if (*p >= CHAT_WHOLE && *p <= CHAT_THINKS) {
            ok = put_part(r, *p, m);
        } else {
            ok = buffer_add(&r->out->text, p, 1);
        }
    }
    return ok;
}

static const struct chat_rule *find_rule(const struct chat *c, unsigned when)
{
    for (size_t i = 0; i < c->n; i++)
        if ((when & c->rules[i].mask) == c->rules[i].value)
            return &c->rules[i];
    return NULL;
}

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
static bool begins_as_asked(struct render *r, const char *prefix, size_t n,
                            const struct tern_chat_message *m, const struct chat_rule *ask,
                            bool *same)
{
    struct buffer *text = &r->out->text;
    size_t at = text->n;
    if (!put(r, ask->p, ask->n, NULL))
        return false;
    size_t asked = text->n, marks = r->out->marks.n;
    if (!put(r, prefix, n, m))
        return false;
    size_t a = asked - at, b = text->n - asked;
    if (text->p) { /* something was written */
        thoughts_trim(text->p + at, &a, TRIM_NOT, TRIM_SPACE);
        thoughts_trim(text->p + asked, &b, TRIM_NOT, TRIM_SPACE);
    }
    *same = a == b && (a == 0 || memcmp(text->p + at, text->p + asked, a) == 0);
    text->n = asked;
    r->out->marks.n = marks;
    return true;
}

/* An answer that came as ids, kept if it may be: *kept. The end token that was sampled is the one
 * of the rule; another is replaced by it. */
static bool put_sampled(struct render *r, const struct chat_rule *rule, unsigned when,
                        const struct tern_chat_message *m, bool *kept)
{
    const struct chat_rule *ask =
        find_rule(r->c, (when & (SYSTEM_BITS | CHAT_THINK)) | CHAT_GENERATE | CHAT_END);
    const char *end = rule->p + rule->n, *whole = memchr(rule->p, CHAT_WHOLE, rule->n);
    size_t text = r->out->text.n, marks = r->out->marks.n, n = m->n_tokens;
    bool ok = true;
    if (ask && whole)
        ok = begins_as_asked(r, rule->p, (size_t)(whole - rule->p), m, ask, kept);
    if (!ok || !*kept) {
        r->out->text.n = text;
        r->out->marks.n = marks;
        return ok;
    }
    const char *rest = whole + 1, *name = NULL;
    if (tokenizer_is_special(r->c->t, m->tokens[n - 1]))
        name = find_name(r->c, rest, end, m->tokens[--n]);
    return put_mark(r, (struct chat_mark){.n = m->bytes, .ids = m->tokens, .n_ids = n},
                    text_of(m)) &&
           put(r, name ? name : rest, (size_t)(end - (name ? name : rest)), m);
}

static bool put_message(struct render *r, const struct chat_rule *rule, unsigned when,
                        const struct tern_chat_message *m)
{
    bool kept = false;
    if (m->tokens && m->n_tokens && !put_sampled(r, rule, when, m, &kept))
        return false;
    return kept || put(r, rule->p, rule->n, m);
}

/* ---- a conversation ----------------------------------------------------------------------- */

static bool has_role(const struct tern_chat_message *m, const char *role)
{
    return strcmp(m->role, role) == 0;
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

static enum tern_status check_roles(const struct tern_chat_message *m, size_t n,
                                    struct tern_error *e)
{
    for (size_t i = 0; i < n; i++)
        if (!has_role(&m[i], i % 2 ? "assistant" : "user"))
            return error_set(e, TERN_USAGE,
                             "message %zu of the conversation is by '%.40s': want 'user' and "
                             "'assistant' in turns, after at most one 'system'",
                             i, m[i].role);
    return n ? TERN_OK : error_set(e, TERN_USAGE, "the conversation has no message by 'user'");
}

static unsigned when_always(const struct render *r, unsigned flags)
{
    bool think =
        flags & TERN_CHAT_THINK || (!(flags & TERN_CHAT_NO_THINK) && r->c->info.thinking == 1);
    unsigned when = (flags & TERN_CHAT_GENERATE ? CHAT_GENERATE : 0u) | (think ? CHAT_THINK : 0u);
    if (r->system)
        when |= CHAT_SYSTEM | (r->system->bytes ? 0u : CHAT_SYSTEM_EMPTY) |
                (is_blank(r->system) ? CHAT_SYSTEM_BLANK : 0u);
    return when;
}

/* Conditions of the i-th of n messages, the first of which is a user's. */
static unsigned when_message(const struct chat *c, const struct tern_chat_message *m, size_t i,
                             size_t n)
{
    return (i % 2 ? CHAT_ASSISTANT : CHAT_USER) | (i < 2 ? CHAT_FIRST : 0u) |
           (i + 1 == n ? CHAT_LAST : 0u) | (i + 2 >= n ? CHAT_FINAL : 0u) |
           (m->bytes ? 0u : CHAT_EMPTY) | (is_blank(m) ? CHAT_BLANK : 0u) |
           thoughts_when(&c->thoughts, text_of(m), m->bytes);
}

static enum tern_status no_rule(const struct render *r, struct tern_error *e)
{
    return error_set(e, TERN_USAGE,
                     r->system
                         ? "the chat template '%s' has no form for a conversation that begins "
                           "with a system text"
                         : "the chat template '%s' has no form for such a conversation",
                     r->c->name);
}

enum tern_status chat_render(const struct chat *c, const struct tern_chat_message *messages,
                             size_t n, unsigned flags, struct chat_text *out, struct tern_error *e)
{
    struct render r = {.c = c, .out = out};
    const struct chat_rule *rule = NULL;
    enum tern_status s = check_pointers(messages, n, e);
    if (s)
        return s;
    if (n && has_role(messages, "system"))
        r.system = messages++, n--;
    if ((s = check_roles(messages, n, e)))
        return s;
    unsigned always = when_always(&r, flags);
    bool ok = true;
    for (size_t i = 0; i <= n && ok; i++) {
        const struct tern_chat_message *m = i < n ? &messages[i] : NULL;
        unsigned when =
            always | (m ? when_message(c, m, i, n) : CHAT_END | (n % 2 ? 0 : CHAT_LAST));
        if (!(rule = find_rule(c, when)))
            return no_rule(&r, e);
        ok = m ? put_message(&r, rule, when, m) : put(&r, rule->p, rule->n, NULL);
    }
    return ok ? TERN_OK : error_memory(e, "a conversation", out->text.n);
}

void chat_text_close(struct chat_text *t)
{
    buffer_close(&t->text);
    buffer_close(&t->marks);
}

/* ---- ids ---------------------------------------------------------------------------------- */

struct ids {
    const struct chat *c;
    int32_t *out; /* [max] */
    size_t max, n;
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
    enum tern_status s = tokenizer_encode(ids->c->t, p, n, before ? TOKENIZER_CONTINUES : 0,
                                          room ? ids->out + ids->n : NULL, room, &count, e);
    ids->n += count;
    return s;
}

enum tern_status chat_encode(const struct chat *c, const struct chat_text *in, int32_t *tokens,
                             size_t max, size_t *n, struct tern_error *e)
{
    struct ids ids = {c, tokens, max, 0};
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
        {"user", "", 0, NULL, 0}, {"assistant", answer, 1, NULL, 0}, {"user", "", 0, NULL, 0}};
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
        while (n < left && n < STOP_MAX - 1 && out.text.p[at + n] != '\n' &&
               !(n_marks && at + n == m->at))
            n++;
        memcpy(c->stop, out.text.p + at, n);
        c->info.stop = n ? c->stop : NULL;
    }
    chat_text_close(&out);
    return s == TERN_USAGE ? TERN_OK : s;
}

static bool knows_thoughts(const struct chat *c)
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
            knows_thoughts(c) ? tokenizer_find(c->t, marks[i]->p, marks[i]->n, &flags) : -1;
    const unsigned always = CHAT_SYSTEM | CHAT_GENERATE | (c->info.thinking == 1 ? CHAT_THINK : 0u);
    c->info.name = c->name;
    c->info.thought_begin = c->thoughts.begin.p, c->info.thought_begin_bytes = c->thoughts.begin.n;
    c->info.thought_end = c->thoughts.end.p, c->info.thought_end_bytes = c->thoughts.end.n;
    c->info.takes_system = find_rule(c, CHAT_USER | CHAT_FIRST | CHAT_LAST | CHAT_FINAL | always) &&
                           find_rule(c, CHAT_END | always);
    return find_end(c, e);
}

static enum tern_status bad_rule(size_t i, struct tern_error *e)
{
    return error_set(e, TERN_BAD_FILE, "section 'chat': rule %zu is malformed", i);
}

/* Refuses what put() does not expect. */
static enum tern_status check_rule(const struct chat *c, size_t i, struct tern_error *e)
{
    const struct chat_rule *rule = &c->rules[i];
    const char *p = rule->p, *end = p + rule->n, *stop;
    unsigned depth = 0, kind = rule->value & 3, names = 0, texts = 0;
    uint32_t flags;
    if ((rule->mask & 3) != 3 || rule->value & ~rule->mask || kind > CHAT_END)
        return bad_rule(i, e);
    for (; p < end; p++) {
        names += *p == CHAT_NAME || *p == CHAT_BOS;
        texts += *p >= CHAT_WHOLE && *p <= CHAT_INSTRUCT;
        if (names > NAMES_MAX || texts > TEXTS_MAX)
            return error_set(e, TERN_BAD_FILE,
                             "section 'chat': rule %zu has more than %d special tokens or %d texts",
                             i, NAMES_MAX, TEXTS_MAX);
        if (*p == CHAT_NAME) {
            stop = memchr(p + 1, CHAT_NAME, (size_t)(end - p) - 1);
            if (!stop || depth)
                return bad_rule(i, e);
            size_t n = (size_t)(stop - p) - 1;
            for (size_t j = 1; j <= n; j++)
                if (p[j] > 0 && p[j] <= CHAT_BOS)
                    return bad_rule(i, e);
            if (n && !c->builtin && tokenizer_find(c->t, p + 1, n, &flags) < 0)
                return error_set(e, TERN_BAD_FILE,
                                 "section 'chat': rule %zu names a special token that the "
                                 "tokenizer lacks",
                                 i);
            p = stop;
        } else if (*p == CHAT_OPEN) {
            if (++depth > DEPTH_MAX)
                return bad_rule(i, e);
        } else if (*p == CHAT_CLOSE) {
            if (!depth-- || ++p == end || *p < '0' || *p > '8')
                return bad_rule(i, e);
        } else if ((*p == CHAT_BOS && depth) ||
                   (*p >= CHAT_WHOLE && *p <= CHAT_THINKS && kind == CHAT_END)) {
            return bad_rule(i, e);
        }
    }
    return depth ? bad_rule(i, e) : TERN_OK;
}

static enum tern_status read_rules(struct chat *c, const uint32_t *when, const uint32_t *lengths,
                                   const char *p, uint64_t n_bytes, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    c->rules = calloc(c->n, sizeof *c->rules);
    if (!c->rules)
        return error_memory(e, "the chat rules", c->n * sizeof *c->rules);
    for (size_t i = 0; i < c->n && !s; i++) {
        if (lengths[i] > n_bytes || (when[2 * i] | when[2 * i + 1]) >= 2 * CHAT_MARK)
            return bad_rule(i, e);
        c->rules[i] = (struct chat_rule){when[2 * i], when[2 * i + 1], lengths[i], p};
        p += lengths[i], n_bytes -= lengths[i];
        s = check_rule(c, i, e);
    }
    return s || !n_bytes ? s : bad_rule(c->n, e);
}

static bool is_printable(const char *p, size_t n)
{
    while (n && (unsigned char)p[n - 1] >= 32 && p[n - 1] != 127)
        n--;
    return n == 0;
}

static enum tern_status read_builtin(struct chat *c, const char *name, size_t n,
                                     enum tern_status code, struct tern_error *e);

/* How thoughts are marked: <think> and </think> where the section says nothing */
static enum tern_status read_thoughts(struct chat *c, struct keys *keys, struct tern_error *e)
{
    struct mark begin = {"<think>", 7}, end = {"</think>", 8};
    uint64_t n_begin = begin.n, n_end = end.n, form = 0;
    enum tern_status s;
    if ((s = keys_text(keys, "thought.begin", &begin.p, &n_begin, e)) ||
        (s = keys_text(keys, "thought.end", &end.p, &n_end, e)) ||
        (s = keys_u64(keys, "thought.form", &form, e)))
        return s;
    if (n_begin - 1 >= MARK_MAX || n_end - 1 >= MARK_MAX || form > THOUGHTS_SPANS ||
        !is_printable(begin.p, n_begin) || !is_printable(end.p, n_end))
        return error_set(e, TERN_BAD_FILE,
                         "section 'chat': the marks of thoughts want 1 to %d bytes, and a form of "
                         "at most %d",
                         MARK_MAX, THOUGHTS_SPANS);
    begin.n = n_begin, end.n = n_end;
    c->thoughts = (struct thoughts){begin, end, (unsigned)form};
    return TERN_OK;
}

static enum tern_status read_keys(struct chat *c, struct keys *keys, struct tern_error *e)
{
    const char *name = "", *text = "";
    const uint32_t *when = NULL, *lengths = NULL;
    uint64_t n_name = 0, n_text = 0, n_when = 0, n = 0, thinking = 0, builtin = 0;
    enum tern_status s;
    if ((s = keys_text(keys, "name", &name, &n_name, e)) ||
        (s = keys_u64(keys, "builtin", &builtin, e)) ||
        (s = keys_u64(keys, "thinking", &thinking, e)) || (s = read_thoughts(c, keys, e)) ||
        (s = keys_u32s(keys, "rules.when", &when, &n_when, e)) ||
        (s = keys_u32s(keys, "rules.lengths", &lengths, &n, e)) ||
        (s = keys_text(keys, "rules.text", &text, &n_text, e)) || (s = keys_unknown(keys, e)))
        return s;
    if (builtin == 1 && !c->builtin)
        return read_builtin(c, name, n_name, TERN_BAD_FILE, e);
    if (builtin || n == 0 || n > RULES_MAX || n_when != 2 * n || thinking > 2 ||
        n_name >= sizeof c->name || !is_printable(name, n_name))
        return error_set(
            e, TERN_BAD_FILE,
            "section 'chat': the numbers of its rules differ, or a value is out of range");
    memcpy(c->name, name, n_name);
    c->info.thinking = (int)thinking;
    c->n = n;
    return read_rules(c, when, lengths, text, n_text, e);
}

static enum tern_status read_section(struct chat *c, const void *section, size_t n,
                                     struct tern_error *e)
{
    struct keys keys;
    enum tern_status s = keys_parse(&keys, "chat", section, n, e);
    if (s)
        return s;
    s = read_keys(c, &keys, e);
    keys_close(&keys);
    return s;
}

/* `code`: the status when there is none of that name. */
static enum tern_status read_builtin(struct chat *c, const char *name, size_t n,
                                     enum tern_status code, struct tern_error *e)
{
    const struct chat_builtin *b = chat_builtins;
    while (b->name && !text_is(name, n, b->name))
        b++;
    c->builtin = true;
    if (b->name)
        return read_section(c, b->section, b->n, e);
    struct buffer names = {0};
    for (b = chat_builtins; b->name; b++)
        if (!buffer_add(&names, " ", 1) || !buffer_add(&names, b->name, strlen(b->name)))
            break;
    error_set(e, code, "there is no built-in chat template '%.*s'; there are:%.*s",
              (int)(n > 40 ? 40 : n), name, (int)names.n, names.p ? names.p : "");
    buffer_close(&names);
    return code;
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
    return c ? give(out, c, read_section(c, section, n, e), e) : TERN_NO_MEMORY;
}

enum tern_status chat_open_builtin(struct chat **out, const struct tokenizer *t, const char *name,
                                   struct tern_error *e)
{
    *out = NULL;
    struct chat *c = new_chat(t, e);
    return c ? give(out, c, read_builtin(c, name, strlen(name), TERN_USAGE, e), e) : TERN_NO_MEMORY;
}

const char *chat_builtin(size_t i)
{
    return chat_builtins[i].name;
}

void chat_close(struct chat *c)
{
    if (c)
        free(c->rules);
    free(c);
}

const struct tern_chat_info *chat_info(const struct chat *c)
{
    return &c->info;
}

const int32_t *chat_marks(const struct chat *c)
{
    return c->marks;
}

const char *chat_opening(const struct chat *c, const char *p, size_t n)
{
    const struct thoughts *t = &c->thoughts;
    const char *begin = knows_thoughts(c) ? thoughts_find(p, n, t->begin, true) : NULL;
    return begin && thoughts_find(begin, n - (size_t)(begin - p), t->end, false) ? NULL : begin;
}
