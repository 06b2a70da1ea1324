/* How an answer writes calls, cut into steps: see answer_form.h. */
#include "text/answer_form.h"

#include "text/tojson.h"
#include "text/tools.h"

enum { CUTS = 6 * (3 + 2) }; /* rules read at most: 6 types at 3 places, of which two are joined */

struct speller {
    const struct chat *c;
    enum answer_spelling how;
    struct buffer *out; /* reserved: its bytes do not move */
};

struct mark answer_core(struct mark text)
{
    text.p = thoughts_trim(text.p, &text.n, TRIM_SPACE, TRIM_SPACE);
    return text;
}

/* The bytes that p[0..n) with its special tokens takes at most */
static size_t spelled_size(const struct chat *c, size_t n)
{
    size_t eos;
    tokenizer_text(c->t, tokenizer_eos(c->t), &eos);
    return n + (n / 2 + 1) * (eos + 2);
}

static void put_special(struct speller *s, const char *name, size_t n)
{
    static const char mark[] = {(char)ANSWER_SPECIAL, (char)ANSWER_SPECIAL_END};
    uint32_t flags;
    int32_t id = n ? tokenizer_find(s->c->t, name, n, &flags) : tokenizer_eos(s->c->t);
    bool special = s->how != ANSWER_TEXT && id >= 0 && tokenizer_is_special(s->c->t, id);
    if (n == 0)
        name = tokenizer_text(s->c->t, id, &n);
    buffer_add(s->out, mark, special);
    buffer_add(s->out, name, n);
    buffer_add(s->out, mark + 1, special && s->how == ANSWER_MARKED);
}

/* A literal: up to the next value or list, which *p then is at. */
static struct mark put_literal(struct speller *s, const char **p, const char *end)
{
    size_t from = s->out->n;
    while (*p < end && **p != CHAT_VALUE && **p != CHAT_LIST) {
        if (**p == CHAT_NAME) {
            const char *stop = memchr(*p + 1, CHAT_NAME, (size_t)(end - *p) - 1);
            put_special(s, *p + 1, (size_t)(stop - *p) - 1);
            *p = stop + 1;
        } else {
            buffer_add(s->out, (*p)++, 1);
        }
    }
    return (struct mark){s->out->p + from, s->out->n - from};
}

static struct mark put_all(struct speller *s, struct mark text)
{
    const char *p = text.p;
    return put_literal(s, &p, text.p + text.n);
}

/* ---- arguments ---------------------------------------------------------------------------- */

/* A rule of arguments, cut: before K middle V after */
struct argument {
    struct mark before, middle, after;
    unsigned notation;
};

static bool is_value(const char *p, const char *end, char what)
{
    return end - p >= 3 && *p == CHAT_VALUE && p[1] == what;
}

static bool cut_argument(struct speller *s, unsigned when, struct argument *out)
{
    const struct chat *c = s->c;
    const struct chat_rule *rule = chat_rule_find(c->parts, c->n_parts, CHAT_PART_ARGUMENT | when);
    if (!rule)
        return false;
    const char *p = rule->p, *end = p + rule->n;
    if (memchr(p, CHAT_OPEN, rule->n))
        return false;
    out->before = put_literal(s, &p, end);
    if (!is_value(p, end, 'k') || p[2] != '-')
        return false;
    p += 3;
    out->middle = put_literal(s, &p, end);
    if (!is_value(p, end, 'v'))
        return false;
    out->notation = (p[2] == '-' ? CHAT_PLAIN_STYLE : c->styles[p[2] - '0']) & TOJSON_NOTATION;
    p += 3;
    out->after = put_literal(s, &p, end);
    return p == end;
}

static bool equal(struct mark a, struct mark b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

static bool begins_with(struct mark text, struct mark with)
{
    return text.n >= with.n && memcmp(text.p, with.p, with.n) == 0;
}

/* An argument of this type alone, and what stands between two: joined holds after, between, before. */
static bool cut_list(struct speller *s, unsigned type, struct argument *alone, struct mark *between)
{
    struct argument first, last;
    if (!cut_argument(s, type | CHAT_PART_FIRST | CHAT_PART_LAST, alone) ||
        !cut_argument(s, type | CHAT_PART_FIRST, &first) ||
        !cut_argument(s, type | CHAT_PART_LAST, &last))
        return false;
    size_t from = s->out->n;
    buffer_add(s->out, first.after.p, first.after.n);
    buffer_add(s->out, last.before.p, last.before.n);
    struct mark joined = {s->out->p + from, s->out->n - from};
    if (joined.n < alone->after.n + alone->before.n || !begins_with(joined, alone->after))
        return false;
    *between =
        (struct mark){joined.p + alone->after.n, joined.n - alone->after.n - alone->before.n};
    return equal((struct mark){between->p + between->n, alone->before.n}, alone->before);
}

static bool read_list(struct speller *s, struct answer_list *out)
{
    static const unsigned types[] = {CHAT_PART_OBJECT, CHAT_PART_ARRAY, CHAT_PART_NUMBER,
                                     CHAT_PART_BOOL, CHAT_PART_NULL};
    struct argument text, box, other;
    struct mark between;
    if (!cut_list(s, CHAT_PART_STRING, &text, &out->between) ||
        !cut_list(s, CHAT_PART_OBJECT, &box, &between) || !equal(between, out->between) ||
        !equal(text.before, box.before) || !begins_with(text.middle, box.middle) ||
        !answer_core(box.middle).n)
        return false;
    out->scalar_notation = out->box_notation = box.notation;
    for (size_t i = 1; i < sizeof types / sizeof *types; i++) {
        if (!cut_list(s, types[i], &other, &between) || !equal(between, out->between) ||
            !equal(other.before, box.before) || !equal(other.middle, box.middle) ||
            !equal(other.after, box.after))
            return false;
        if (types[i] == CHAT_PART_NUMBER)
            out->scalar_notation = other.notation;
    }
    out->before = box.before, out->middle = box.middle, out->after = box.after;
    out->text_middle = text.middle, out->text_after = text.after;
    out->text_notation = text.notation;
    /* a text without quotes needs an end */
    return text.notation != TOJSON_STR || answer_core(text.after).n;
}

/* ---- a form ------------------------------------------------------------------------------- */

/* A name or an id ends where this literal begins. */
static bool ends_word(struct mark literal)
{
    return literal.n && !tools_is_id(literal.p, 1);
}

static bool read_call(struct speller *s, struct mark call, struct answer_form *out)
{
    const char *p = call.p, *end = p + call.n;
    bool value = false; /* the step before is one, and its end must be seen */
    while (p < end && out->n_steps < ANSWER_STEPS) {
        struct answer_step *step = &out->steps[out->n_steps++];
        if (*p == CHAT_VALUE || *p == CHAT_LIST) {
            step->kind = *p == CHAT_LIST ? ANSWER_LIST
                         : p[1] == 'n'   ? ANSWER_NAME
                         : p[1] == 'i'   ? ANSWER_ID
                                         : ANSWER_ARGUMENTS;
            out->list.sorted = *p == CHAT_LIST && p[1] == CHAT_LIST_SORTED;
            if (step->kind == ANSWER_LIST && !read_list(s, &out->list))
                return false;
            if (value && (step->kind != ANSWER_LIST || !ends_word(out->list.before)))
                return false;
            value = value || step->kind == ANSWER_NAME || step->kind == ANSWER_ID;
            p += *p == CHAT_LIST ? 2 : 3;
        } else {
            step->kind = ANSWER_LITERAL;
            step->text = put_literal(s, &p, end);
            if (value && !ends_word(step->text))
                return false;
            value = false;
        }
    }
    return p == end && !value;
}

enum tern_status answer_form_open(struct answer_form *out, const struct chat *c, size_t i,
                                  enum answer_spelling spelling, struct tern_error *e)
{
    const struct chat_form *f = &c->forms[i];
    struct speller s = {c, spelling, &out->bytes};
    size_t size = f->trigger.n + f->begin.n + f->call.n + f->between.n + f->end.n;
    *out = (struct answer_form){0};
    size_t largest = 0;
    for (size_t k = 0; k < c->n_parts; k++)
        largest = c->parts[k].n > largest ? c->parts[k].n : largest;
    size += CUTS * largest;
    if (!buffer_reserve(&out->bytes, spelled_size(c, size)))
        return error_memory(e, "a form of calls", size);
    out->trigger = put_all(&s, f->trigger);
    out->begin = put_all(&s, f->begin);
    out->between = put_all(&s, f->between);
    out->end = put_all(&s, f->end);
    if (read_call(&s, f->call, out))
        return TERN_OK;
    answer_form_close(out);
    return error_set(e, TERN_BAD_FILE,
                     "section 'chat': the rules do not tell how to read form %zu of calls", i);
}

void answer_form_close(struct answer_form *f)
{
    buffer_close(&f->bytes);
}
