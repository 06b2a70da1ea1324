/* Reads and checks the section `chat`: see chat_section.h. */
#include "text/chat_section.h"

#include "base/xxh64.h"
#include "text/answer_form.h"
#include "text/chat_builtin.h"
#include "text/tojson.h"

enum { RULES_MAX = 256, PARTS_MAX = 64, MARK_MAX = 63 };
/* Of a rule: special tokens, each of up to 4096 bytes and a mark, and texts of the conversation. The
 * most that a real template has are 8 and 2. */
enum { NAMES_MAX = 32, TEXTS_MAX = 8 };
enum { FORM_TEXTS = 5, FORM_CALL = 2 };

/* What a text with operations is for, and what may stand in it. `where` and `i` name it in messages. */
struct text_place {
    const char *where;
    size_t i;
    bool message, part, call; /* a rule of messages, of parts; one call of a form; else literals */
    unsigned kind;            /* of the rule */
};

struct check {
    const struct chat *c;
    struct text_place at;
    unsigned depth, names, texts; /* open groups; counts */
    struct tern_error *e;
};

static enum tern_status malformed(const struct check *k)
{
    return error_set(k->e, TERN_BAD_FILE, "section 'chat': %s %zu is malformed", k->at.where,
                     k->at.i);
}

const struct chat_rule *chat_rule_find(const struct chat_rule *rules, size_t n, unsigned when)
{
    for (size_t i = 0; i < n; i++)
        if ((when & rules[i].mask) == rules[i].value)
            return &rules[i];
    return NULL;
}

/* ---- operations --------------------------------------------------------------------------- */

static bool is_operation(const struct chat *c, char byte)
{
    return (byte > 0 && byte <= CHAT_BOS) ||
           (c->tools && (byte == CHAT_LIST || byte == CHAT_VALUE));
}

/* The special token whose name begins at p; its length goes to *n. */
static enum tern_status check_name(struct check *k, const char *p, const char *end, size_t *n)
{
    const char *stop = memchr(p, CHAT_NAME, (size_t)(end - p));
    uint32_t flags;
    if (!stop || k->depth)
        return malformed(k);
    *n = (size_t)(stop - p);
    for (size_t j = 0; j < *n; j++)
        if (is_operation(k->c, p[j]))
            return malformed(k);
    if (*n && !k->c->builtin && tokenizer_find(k->c->t, p, *n, &flags) < 0)
        return error_set(k->e, TERN_BAD_FILE,
                         "section 'chat': %s %zu names a special token that the tokenizer lacks",
                         k->at.where, k->at.i);
    return TERN_OK;
}

static bool has_letter(const char *letters, char what)
{
    return what && strchr(letters, what);
}

/* `what` may stand here: the table of FORMAT.md. */
static bool knows_value(const struct text_place *at, char what)
{
    static const char *const parts[] = {"tfndp", "niac", "kv", "kv"};
    if (at->call)
        return has_letter("nia", what);
    if (at->part)
        return has_letter("TF", what) || has_letter(parts[at->kind], what);
    return has_letter("TF", what) || (at->kind == CHAT_RESULT && has_letter("nicWR", what)) ||
           (at->kind != CHAT_END && has_letter("wr", what));
}

static enum tern_status check_value(const struct check *k, char what, char style)
{
    size_t number = (size_t)(style - '0');
    if (!(k->at.message || k->at.part || k->at.call) || !knows_value(&k->at, what))
        return malformed(k);
    if (style == '-')
        return TERN_OK;
    if (style < '0' || number >= k->c->n_styles)
        return malformed(k);
    unsigned notation = k->c->styles[number] & TOJSON_NOTATION;
    bool functions = notation >= TOJSON_TYPES && notation != TOJSON_GEMMA;
    if (functions && !(k->at.part && k->at.kind == CHAT_PART_TOOL && has_letter("tf", what)))
        return malformed(k);
    /* it writes special tokens */
    return (notation == TOJSON_GEMMA || notation == TOJSON_DECLARATION) && k->depth ? malformed(k)
                                                                                    : TERN_OK;
}

static enum tern_status check_list(const struct check *k, char list)
{
    bool sorted = list == CHAT_LIST_SORTED || list == CHAT_LIST_ARGUMENTS;
    bool good = k->at.message ? list == CHAT_LIST_TOOLS ||
                                    (list == CHAT_LIST_CALLS && k->at.kind == CHAT_ASSISTANT)
                : k->at.part ? (k->at.kind == CHAT_PART_CALL && sorted) ||
                                   (k->at.kind == CHAT_PART_TOOL &&
                                    (list == CHAT_LIST_MEMBERS || list == CHAT_LIST_NO_RETURN))
                             : k->at.call && sorted;
    return good && k->depth == 0 ? TERN_OK : malformed(k);
}

/* The operation at p, whose bytes behind the first are counted in *more. */
static enum tern_status check_operation(struct check *k, const char *p, const char *end,
                                        size_t *more)
{
    const struct text_place *at = &k->at;
    size_t left = (size_t)(end - p) - 1;
    enum tern_status s;
    switch (*p) {
    case CHAT_NAME:
        if ((s = check_name(k, p + 1, end, more)))
            return s;
        ++*more;
        return TERN_OK;
    case CHAT_OPEN:
        return (at->message || at->part) && ++k->depth <= CHAT_GROUPS_MAX ? TERN_OK : malformed(k);
    case CHAT_CLOSE:
        *more = 1;
        return k->depth-- && left && p[1] >= '0' && p[1] <= '8' ? TERN_OK : malformed(k);
    case CHAT_BOS:
        return at->message && !k->depth ? TERN_OK : malformed(k);
    case CHAT_INSTRUCT:
        return at->message ? TERN_OK : malformed(k);
    case CHAT_LIST:
        *more = 1;
        return left ? check_list(k, p[1]) : malformed(k);
    case CHAT_VALUE:
        *more = 2;
        return left > 1 ? check_value(k, p[1], p[2]) : malformed(k);
    default: /* texts */
        return at->message && at->kind != CHAT_END ? TERN_OK : malformed(k);
    }
}

/* Refuses what chat_write.c does not expect. */
static enum tern_status check_text(const struct chat *c, struct text_place at, const char *p,
                                   size_t n, struct tern_error *e)
{
    struct check k = {.c = c, .at = at, .e = e};
    enum tern_status s = TERN_OK;
    size_t more = 0;
    for (const char *end = p + n; p < end && !s; p += 1 + more) {
        more = 0;
        if (!is_operation(c, *p))
            continue;
        k.names += *p == CHAT_NAME || *p == CHAT_BOS;
        k.texts += (*p >= CHAT_WHOLE && *p <= CHAT_INSTRUCT) || *p >= CHAT_LIST;
        if (k.names > NAMES_MAX || k.texts > TEXTS_MAX)
            return error_set(e, TERN_BAD_FILE,
                             "section 'chat': %s %zu has more than %d special tokens or %d texts",
                             at.where, at.i, NAMES_MAX, TEXTS_MAX);
        s = check_operation(&k, p, end, &more);
    }
    return s || !k.depth ? s : malformed(&k);
}

/* ---- rules -------------------------------------------------------------------------------- */

static enum tern_status check_rule(const struct chat *c, const struct chat_rule *rule,
                                   struct text_place at, struct tern_error *e)
{
    uint32_t known = at.part    ? (uint32_t)CHAT_PART_ALL
                     : c->tools ? (uint32_t)(2 * CHAT_CALLED - 1)
                                : (uint32_t)(2 * CHAT_MARK - 1);
    at.kind = rule->value & CHAT_KIND;
    if ((rule->mask & CHAT_KIND) != CHAT_KIND || rule->value & ~rule->mask || rule->mask & ~known ||
        (at.message && at.kind == CHAT_RESULT && !c->tools))
        return malformed(&(struct check){.at = at, .e = e});
    return check_text(c, at, rule->p, rule->n, e);
}

/* Keys NAME.when, NAME.lengths, NAME.text: at most `max` rules. */
static enum tern_status read_rules(const struct chat *c, struct keys *keys,
                                   const char *const names[3], struct text_place at, size_t max,
                                   struct chat_rule **out, size_t *n, struct tern_error *e)
{
    const char *p = "";
    const uint32_t *when = NULL, *lengths = NULL;
    uint64_t n_bytes = 0, n_when = 0, count = 0;
    enum tern_status s;
    if ((s = keys_u32s(keys, names[0], &when, &n_when, e)) ||
        (s = keys_u32s(keys, names[1], &lengths, &count, e)) ||
        (s = keys_text(keys, names[2], &p, &n_bytes, e)))
        return s;
    if (count > max || n_when != 2 * count)
        return error_set(
            e, TERN_BAD_FILE,
            "section 'chat': the numbers of its rules differ, or a value is out of range");
    *out = calloc(count + 1, sizeof **out);
    if (!*out)
        return error_memory(e, "the chat rules", count * sizeof **out);
    for (*n = 0; *n < count && !s; ++*n) {
        struct chat_rule *rule = &(*out)[*n];
        at.i = *n;
        if (lengths[*n] > n_bytes)
            return malformed(&(struct check){.at = at, .e = e});
        *rule = (struct chat_rule){when[2 * *n], when[2 * *n + 1], lengths[*n], p};
        p += rule->n, n_bytes -= rule->n;
        s = check_rule(c, rule, at, e);
    }
    at.i = *n;
    return s || !n_bytes ? s : malformed(&(struct check){.at = at, .e = e});
}

static bool is_printable(const char *p, size_t n)
{
    while (n && (unsigned char)p[n - 1] >= 32 && p[n - 1] != 127)
        n--;
    return n == 0;
}

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
    c->thoughts = (struct thoughts){begin, end, (unsigned)form, NULL, 0};
    return TERN_OK;
}

/* ---- tools and answers -------------------------------------------------------------------- */

static enum tern_status out_of_range(const char *key, struct tern_error *e)
{
    return error_set(e, TERN_BAD_FILE, "section 'chat': key '%s' is out of range", key);
}

/* A list of texts: at most `max`, none empty; *n of them go to out. */
static enum tern_status read_texts(struct keys *keys, const char *lengths_key, const char *text_key,
                                   bool empty, size_t max, struct mark *out, size_t *n,
                                   struct tern_error *e)
{
    const uint32_t *lengths = NULL;
    const char *p = "";
    uint64_t count = 0, n_bytes = 0;
    enum tern_status s;
    if ((s = keys_u32s(keys, lengths_key, &lengths, &count, e)) ||
        (s = keys_text(keys, text_key, &p, &n_bytes, e)))
        return s;
    bool good = count <= max;
    for (*n = 0; *n < count && good; ++*n) {
        good = lengths[*n] <= n_bytes && (empty || lengths[*n]);
        out[*n] = (struct mark){p, good ? lengths[*n] : 0};
        p += out[*n].n, n_bytes -= out[*n].n;
    }
    return good && !n_bytes ? TERN_OK : out_of_range(lengths_key, e);
}

/* The call holds one name, at most one id, and its arguments once; and an answer that calls begins with
 * the trigger. */
static enum tern_status check_form(const struct chat *c, size_t i, struct tern_error *e)
{
    const struct chat_form *f = &c->forms[i];
    struct check k = {.at = {.where = "form of calls", .i = i}, .e = e};
    size_t names = 0, ids = 0, arguments = 0, literal = f->call.n;
    for (size_t j = 0; j < f->call.n; j++) {
        char op = f->call.p[j];
        if (op != CHAT_VALUE && op != CHAT_LIST)
            continue;
        literal = j < literal ? j : literal;
        char what = f->call.p[j + 1];
        names += op == CHAT_VALUE && what == 'n';
        ids += op == CHAT_VALUE && what == 'i';
        arguments += op == CHAT_LIST || what == 'a';
        if (op == CHAT_VALUE && what == 'a' &&
            (f->call.p[j + 2] == '-' ||
             (c->styles[f->call.p[j + 2] - '0'] & TOJSON_NOTATION) != TOJSON_JSON))
            return malformed(&k);
    }
    size_t from_begin = f->trigger.n < f->begin.n ? f->trigger.n : f->begin.n;
    size_t from_call = f->trigger.n - from_begin;
    if (!f->trigger.n || names != 1 || ids > 1 || arguments != 1 ||
        answer_core(f->trigger).p != f->trigger.p || from_call > literal ||
        memcmp(f->trigger.p, f->begin.p, from_begin) != 0 ||
        memcmp(f->trigger.p + from_begin, f->call.p, from_call) != 0)
        return malformed(&k);
    return TERN_OK;
}

static enum tern_status read_forms(struct chat *c, struct keys *keys, struct tern_error *e)
{
    struct mark texts[CHAT_FORMS_MAX * FORM_TEXTS];
    struct answer_form form;
    size_t n = 0;
    uint64_t flags = 0;
    enum tern_status s;
    if ((s = keys_u64(keys, "answer.calls.flags", &flags, e)) ||
        (s = read_texts(keys, "answer.calls.lengths", "answer.calls.text", true,
                        CHAT_FORMS_MAX * FORM_TEXTS, texts, &n, e)))
        return s;
    if (n % FORM_TEXTS || (n && !c->tools) || flags > (CHAT_CALLS_FIRST | CHAT_CALLS_ONE))
        return out_of_range("answer.calls", e);
    c->form_flags = (unsigned)flags;
    for (size_t i = 0; i < n && !s; i++)
        s = check_text(c,
                       (struct text_place){
                           .where = "text of calls", .i = i, .call = i % FORM_TEXTS == FORM_CALL},
                       texts[i].p, texts[i].n, e);
    for (; c->n_forms < n / FORM_TEXTS && !s; c->n_forms++) {
        memcpy(&c->forms[c->n_forms], &texts[c->n_forms * FORM_TEXTS], sizeof c->forms[0]);
        s = check_form(c, c->n_forms, e);
    }
    for (size_t i = 0; i < c->n_forms && !s; i++)
        if (!(s = answer_form_open(&form, c, i, ANSWER_TEXT, e)))
            answer_form_close(&form);
    return s;
}

static enum tern_status read_ends(struct chat *c, struct keys *keys, struct tern_error *e)
{
    struct mark names[CHAT_ENDS_MAX];
    uint32_t flags;
    size_t n = 0;
    enum tern_status s = read_texts(keys, "answer.ends.lengths", "answer.ends.text", false,
                                    CHAT_ENDS_MAX, names, &n, e);
    for (size_t i = 0; i < n && !s; i++) {
        int32_t id = tokenizer_find(c->t, names[i].p, names[i].n, &flags);
        if (id >= 0)
            c->ends[c->n_ends++] = id;
        else if (!c->builtin)
            s = error_set(e, TERN_BAD_FILE,
                          "section 'chat': end %zu of answers is a special token that the "
                          "tokenizer lacks",
                          i);
    }
    return s;
}

static enum tern_status read_tools(struct chat *c, struct keys *keys, struct tern_error *e)
{
    const uint32_t *styles = NULL;
    uint64_t n_styles = 0, tools = 0;
    enum tern_status s;
    if ((s = keys_u64(keys, "tools", &tools, e)) ||
        (s = keys_u32s(keys, "styles", &styles, &n_styles, e)) ||
        (s = keys_u64(keys, "calls.id", &c->id_length, e)) ||
        (s = read_texts(keys, "answer.skip.lengths", "answer.skip.text", false, CHAT_SKIP_MAX,
                        c->skip, &c->thoughts.n_skip, e)) ||
        (s = read_texts(keys, "answer.behind.lengths", "answer.behind.text", false, CHAT_SKIP_MAX,
                        c->behind, &c->n_behind, e)) ||
        (s = read_ends(c, keys, e)))
        return s;
    c->thoughts.skip = c->skip;
    if (tools > 1 || n_styles > CHAT_STYLES_MAX || c->id_length > MARK_MAX)
        return out_of_range("tools", e);
    c->tools = tools;
    for (; c->n_styles < n_styles; c->n_styles++) {
        c->styles[c->n_styles] = styles[c->n_styles];
        if (!tojson_check(c->styles[c->n_styles]))
            return out_of_range("styles", e);
    }
    return TERN_OK;
}

/* ---- the section -------------------------------------------------------------------------- */

static enum tern_status read_keys(struct chat *c, struct keys *keys, struct tern_error *e)
{
    static const char *const rules[] = {"rules.when", "rules.lengths", "rules.text"};
    static const char *const parts[] = {"parts.when", "parts.lengths", "parts.text"};
    const char *name = "";
    uint64_t n_name = 0, thinking = 0, builtin = 0;
    enum tern_status s;
    if ((s = keys_text(keys, "name", &name, &n_name, e)) ||
        (s = keys_u64(keys, "builtin", &builtin, e)))
        return s;
    if ((s = keys_u64(keys, "thinking", &thinking, e)) || (s = read_thoughts(c, keys, e)) ||
        (s = read_tools(c, keys, e)) ||
        (s = read_rules(c, keys, rules, (struct text_place){.where = "rule", .message = true},
                        RULES_MAX, &c->rules, &c->n, e)) ||
        (s = read_rules(c, keys, parts, (struct text_place){.where = "part", .part = true},
                        c->tools ? PARTS_MAX : 0, &c->parts, &c->n_parts, e)) ||
        (s = read_forms(c, keys, e)) || (s = keys_unknown(keys, e)))
        return s;
    if (builtin == 1 && !c->builtin) {
        free(c->rules);
        free(c->parts);
        *c = (struct chat){.t = c->t};
        return chat_section_builtin(c, name, n_name, TERN_BAD_FILE, e);
    }
    if (builtin || c->n == 0 || thinking > 2 || n_name >= sizeof c->name ||
        !is_printable(name, n_name))
        return error_set(
            e, TERN_BAD_FILE,
            "section 'chat': the numbers of its rules differ, or a value is out of range");
    memcpy(c->name, name, n_name);
    c->info.thinking = (int)thinking;
    return TERN_OK;
}

enum tern_status chat_section_read(struct chat *c, const void *section, size_t n,
                                   struct tern_error *e)
{
    struct keys keys;
    enum tern_status s = keys_parse(&keys, "chat", section, n, e);
    if (s)
        return s;
    c->hash = xxh64(section, n);
    s = read_keys(c, &keys, e);
    keys_close(&keys);
    return s;
}

enum tern_status chat_section_builtin(struct chat *c, const char *name, size_t n,
                                      enum tern_status code, struct tern_error *e)
{
    const struct chat_builtin *b = chat_builtins;
    while (b->name && !text_is(name, n, b->name))
        b++;
    c->builtin = true;
    if (b->name)
        return chat_section_read(c, b->section, b->n, e);
    struct buffer names = {0};
    for (b = chat_builtins; b->name; b++)
        if (!buffer_add(&names, " ", 1) || !buffer_add(&names, b->name, strlen(b->name)))
            break;
    error_set(e, code, "there is no built-in chat template '%.*s'; there are:%.*s",
              (int)(n > 40 ? 40 : n), name, (int)names.n, names.p ? names.p : "");
    buffer_close(&names);
    return code;
}
