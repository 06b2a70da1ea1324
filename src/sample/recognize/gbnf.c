/* Reads llama.cpp's grammar language, without recursion: see gbnf.h. */
#include "sample/recognize/gbnf.h"

#include "base/hex.h"
#include "sample/recognize/earley.h"
#include "text/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An open group, or the rule itself. */
struct open_group {
    uint32_t items;       /* where the items of its sequence begin on the stack */
    uint32_t first, last; /* alternatives that are over, linked */
    uint32_t line;
};

/* A part of the sequence that is being read. */
struct sequence_item {
    uint32_t part;
    bool not_token; /* !<x>: one code point, as long as a repeat takes it */
};

struct grammar_reader {
    const char *at, *end;
    uint32_t line, rule; /* rule: whose body is read */
    const struct gbnf_tokens *tokens;
    struct grammar_rules rules;
    uint32_t
        *names; /* of rules by hash: 1 + its number, 0 is free; a power of two, at most half full */
    uint32_t n_names;
    struct open_group *groups;
    struct sequence_item *items;
    char *text; /* of a literal */
    uint32_t (*ranges)[2];
    uint32_t n_groups, max_groups, n_items, max_items, max_text, n_ranges, max_ranges;
    struct tern_error *e;
    enum tern_status status;
};

/* ---- errors: each function answers false, and status says why ---- */

static bool wrong(struct grammar_reader *r, uint32_t line, const char *format, ...)
    ERROR_PRINTF(3, 4);
static bool wrong(struct grammar_reader *r, uint32_t line, const char *format, ...)
{
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (!r->status)
        r->status = error_set(r->e, TERN_USAGE, "grammar: line %u: %s", (unsigned)line, what);
    return false;
}

static bool over(struct grammar_reader *r)
{
    if (!r->status)
        r->status = budget_refuse(r->rules.budget, r->e, "grammar");
    return false;
}

static bool room(struct grammar_reader *r, void *array, uint32_t *max, uint32_t n, size_t size)
{
    return budget_grow(r->rules.budget, array, max, (size_t)n + 1, size) || over(r);
}

/* ---- characters ---- */

static unsigned char peek(const struct grammar_reader *r)
{
    return r->at < r->end ? (unsigned char)*r->at : 0;
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(unsigned char c)
{
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || is_digit(c) || c == '-' || c == '_';
}

/* Spaces and comments, and with `lines` ends of lines. */
static void skip_space(struct grammar_reader *r, bool lines)
{
    while (r->at < r->end) {
        char c = *r->at;
        if (c == '#')
            while (r->at < r->end && *r->at != '\n' && *r->at != '\r')
                r->at++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            r->line += c == '\n', r->at++;
        else
            return;
    }
}

static bool read_hex(struct grammar_reader *r, unsigned n, uint32_t *c)
{
    if ((size_t)(r->end - r->at) < n || !hex_read(r->at, n, c))
        return wrong(r, r->line, "an escape has too few hexadecimal digits");
    r->at += n;
    if (*c >= UNICODE_BAD || (*c >= 0xD800 && *c < 0xE000))
        return wrong(r, r->line, "an escape is no character: U+%04X", (unsigned)*c);
    return true;
}

/* A code point of a literal or a class. */
static bool read_char(struct grammar_reader *r, uint32_t *c)
{
    size_t n = 1;
    if (r->at == r->end)
        return wrong(r, r->line, "the text ends in a literal or class");
    if (*r->at != '\\') {
        *c = unicode_decode(r->at, (size_t)(r->end - r->at), &n);
        if (*c == UNICODE_BAD)
            return wrong(r, r->line, "invalid UTF-8");
        r->line += *c == '\n';
        r->at += n;
        return true;
    }
    r->at++;
    unsigned char escape = peek(r);
    r->at += r->at < r->end;
    switch (escape) {
    case 'x':
        return read_hex(r, 2, c);
    case 'u':
        return read_hex(r, 4, c);
    case 'U':
        return read_hex(r, 8, c);
    case 't':
        return *c = '\t', true;
    case 'r':
        return *c = '\r', true;
    case 'n':
        return *c = '\n', true;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
        return *c = escape, true;
    default:
        return wrong(r, r->line,
                     "unknown escape; \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\] \\- are known");
    }
}

/* ---- items ---- */

static bool push_item(struct grammar_reader *r, enum part_kind kind, uint32_t first, lang word)
{
    if (word == LANG_FAIL || !room(r, &r->items, &r->max_items, r->n_items, sizeof *r->items))
        return over(r);
    uint32_t part = rules_add(&r->rules, kind, first, word);
    r->items[r->n_items++] = (struct sequence_item){.part = part};
    return part || over(r);
}

static bool read_literal(struct grammar_reader *r)
{
    uint32_t c, n = 0;
    for (r->at++; r->at == r->end || *r->at != '"';) {
        if (!read_char(r, &c) || !room(r, &r->text, &r->max_text, n + 3, 1))
            return false;
        n += (uint32_t)unicode_encode(c, r->text + n);
    }
    r->at++;
    return push_item(r, PART_WORD, 0, lang_text(r->rules.languages, r->text, n));
}

static int compare_ranges(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The ranges in order, without overlap; or what lies between them. */
static void tidy_ranges(struct grammar_reader *r, bool negated)
{
    uint32_t n = 0, from = 0;
    qsort(r->ranges, r->n_ranges, sizeof *r->ranges, compare_ranges);
    for (uint32_t i = 0; i < r->n_ranges; i++)
        if (n && r->ranges[i][0] <= r->ranges[n - 1][1] + 1) {
            if (r->ranges[i][1] > r->ranges[n - 1][1])
                r->ranges[n - 1][1] = r->ranges[i][1];
        } else {
            r->ranges[n][0] = r->ranges[i][0], r->ranges[n++][1] = r->ranges[i][1];
        }
    r->n_ranges = n;
    if (!negated)
        return;
    for (uint32_t i = n = 0; i < r->n_ranges; i++) {
        uint32_t first = r->ranges[i][0], next = r->ranges[i][1] + 1;
        if (first > from)
            r->ranges[n][0] = from, r->ranges[n++][1] = first - 1;
        from = next;
    }
    if (from < UNICODE_BAD) /* read_class left room for one more */
        r->ranges[n][0] = from, r->ranges[n++][1] = UNICODE_BAD - 1;
    r->n_ranges = n;
}

static bool read_class(struct grammar_reader *r)
{
    bool negated = ++r->at < r->end && *r->at == '^';
    r->at += negated;
    r->n_ranges = 0;
    while (r->at == r->end || *r->at != ']') {
        uint32_t from, to;
        if (!read_char(r, &from))
            return false;
        to = from;
        if (r->end - r->at > 1 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            if (!read_char(r, &to))
                return false;
        }
        if (to < from)
            return wrong(r, r->line,
                         "a range of a class is empty: its ends are the wrong way round");
        if (!room(r, &r->ranges, &r->max_ranges, r->n_ranges + 1, sizeof *r->ranges))
            return false;
        r->ranges[r->n_ranges][0] = from, r->ranges[r->n_ranges++][1] = to;
    }
    r->at++;
    if (!r->n_ranges)
        return wrong(r, r->line, "an empty class");
    tidy_ranges(r, negated);
    return push_item(r, PART_WORD, 0,
                     lang_chars(r->rules.languages, (const uint32_t(*)[2])r->ranges, r->n_ranges));
}

static bool push_any(struct grammar_reader *r)
{
    return push_item(r, PART_WORD, 0, lang_char_range(r->rules.languages, 0, UNICODE_BAD - 1));
}

/* At most 60 bytes of a name that is named in a sentence, without half a character */
static int shown(const char *name, size_t n)
{
    n = n > 60 ? 60 : n;
    return (int)(n - unicode_tail(name, n));
}

static bool no_token(struct grammar_reader *r, const char *name, size_t n)
{
    const struct grammar_rule *rule = &r->rules.rules[r->rule];
    return wrong(r, r->line, "rule %.*s names %.*s, and the model has no such special token",
                 shown(rule->name, rule->n), rule->name, shown(name, n), name);
}

/* <name>, or !<name>: any other token, which is any text only when it is repeated without a limit. */
static bool read_token(struct grammar_reader *r)
{
    bool not_token = *r->at == '!';
    r->at += not_token;
    const char *name = r->at;
    if (peek(r) != '<')
        return wrong(r, r->line, "a token must follow '!'");
    while (r->at < r->end && *r->at != '>' && *r->at != '\n')
        r->at++;
    if (peek(r) != '>' || r->at - name < 2)
        return wrong(r, r->line, "a token is written <name>");
    if (name[1] == '[')
        return wrong(r, r->line, "tokens by number are not supported: write <name>");
    size_t n = (size_t)(++r->at - name);
    if (not_token) {
        bool good = push_any(r);
        if (good)
            r->items[r->n_items - 1].not_token = true;
        return good;
    }
    if (!unicode_valid(name, n))
        return wrong(r, r->line, "invalid UTF-8");
    if (r->tokens && !r->tokens->has(r->tokens->self, name, n))
        return no_token(r, name, n);
    struct languages *ls = r->rules.languages;
    return push_item(r, PART_WORD, 0,
                     lang_concat(ls, lang_text(ls, "\xFF", 1), lang_text(ls, name, n)));
}

/* ---- rules by name ---- */

static bool grow_names(struct grammar_reader *r)
{
    if (r->rules.n_rules * 2 < r->n_names)
        return true;
    uint32_t n = r->n_names ? r->n_names * 2 : 64;
    uint32_t *names = budget_resize(r->rules.budget, NULL, 0, n * sizeof *names);
    if (!names)
        return over(r);
    memset(names, 0, n * sizeof *names);
    for (uint32_t i = 0; i < r->rules.n_rules; i++) {
        uint32_t at = r->rules.rules[i].hash & (n - 1);
        while (names[at])
            at = (at + 1) & (n - 1);
        names[at] = i + 1;
    }
    budget_free(r->rules.budget, r->names, r->n_names * sizeof *names);
    r->names = names, r->n_names = n;
    return true;
}

/* The rule of the name here, which it may be the first to name. */
static bool read_name(struct grammar_reader *r, uint32_t *rule)
{
    const char *name = r->at;
    uint32_t hash = 2166136261u, n = 0;
    for (; is_name(peek(r)); n++)
        hash = (hash ^ (unsigned char)*r->at++) * 16777619u;
    if (!n)
        return wrong(r, r->line, "the name of a rule is expected");
    if (!grow_names(r))
        return false;
    uint32_t at = hash & (r->n_names - 1);
    for (; r->names[at]; at = (at + 1) & (r->n_names - 1)) {
        const struct grammar_rule *x = &r->rules.rules[r->names[at] - 1];
        if (x->n == n && !memcmp(x->name, name, n))
            return *rule = r->names[at] - 1, true;
    }
    if (!room(r, &r->rules.rules, &r->rules.max_rules, r->rules.n_rules, sizeof *r->rules.rules))
        return false;
    *rule = r->rules.n_rules;
    r->rules.rules[*rule] =
        (struct grammar_rule){.name = name, .n = n, .line = r->line, .hash = hash};
    r->names[at] = ++r->rules.n_rules;
    return true;
}

/* ---- sequences, alternatives, groups ---- */

static bool begin_group(struct grammar_reader *r)
{
    if (!room(r, &r->groups, &r->max_groups, r->n_groups, sizeof *r->groups))
        return false;
    r->groups[r->n_groups++] = (struct open_group){.items = r->n_items, .line = r->line};
    return true;
}

/* Makes the items of the open sequence one part on the stack; `lone`: a !<x> may stay what it is. */
static bool close_sequence(struct grammar_reader *r, bool lone)
{
    struct open_group *g = &r->groups[r->n_groups - 1];
    uint32_t n = r->n_items - g->items;
    for (uint32_t i = g->items; i < r->n_items; i++)
        if (r->items[i].not_token && !(lone && n == 1))
            return wrong(r, r->line, "!<name> is supported only as !<name>* or !<name>+");
    if (n == 1)
        return true;
    for (uint32_t i = g->items; i + 1 < r->n_items; i++)
        r->rules.parts[r->items[i].part].next = r->items[i + 1].part;
    uint32_t first = n ? r->items[g->items].part : 0;
    r->n_items = g->items;
    return n ? push_item(r, PART_JOIN, first, 0) : push_item(r, PART_WORD, 0, LANG_BLANK);
}

/* At '|': the sequence becomes an alternative. */
static bool next_alternative(struct grammar_reader *r)
{
    if (!close_sequence(r, false))
        return false;
    struct open_group *g = &r->groups[r->n_groups - 1];
    uint32_t part = r->items[--r->n_items].part;
    if (g->last)
        r->rules.parts[g->last].next = part;
    else
        g->first = part;
    g->last = part;
    return true;
}

/* Leaves the whole as one item on the stack. */
static bool close_group(struct grammar_reader *r)
{
    struct open_group *g = &r->groups[r->n_groups - 1];
    if (!g->first) {
        bool good = close_sequence(r, r->n_groups > 1);
        r->n_groups--;
        return good;
    }
    if (!next_alternative(r))
        return false;
    r->n_groups--;
    return push_item(r, PART_PICK, r->groups[r->n_groups].first, 0);
}

static bool read_count(struct grammar_reader *r, uint32_t *count)
{
    uint64_t n = 0;
    if (!is_digit(peek(r)))
        return wrong(r, r->line, "a number is expected in {}");
    for (; is_digit(peek(r)); r->at++)
        if (n < UINT32_MAX)
            n = n * 10 + (uint64_t)(*r->at - '0');
    if (n >= LANG_MANY)
        return wrong(r, r->line, "a number of repeats is too large");
    *count = (uint32_t)n;
    return true;
}

/* * + ? {m} {m,} {m,n} behind an item. */
static bool read_repeat(struct grammar_reader *r, bool lines)
{
    char c = *r->at++;
    uint32_t min = c == '+', max = c == '?' ? 1 : LANG_MANY;
    if (r->n_items == r->groups[r->n_groups - 1].items)
        return wrong(r, r->line, "nothing stands before '%c'", c);
    if (c == '{') {
        skip_space(r, lines);
        if (!read_count(r, &min))
            return false;
        max = min;
        skip_space(r, lines);
        if (peek(r) == ',') {
            r->at++, max = LANG_MANY;
            skip_space(r, lines);
            if (is_digit(peek(r)) && !read_count(r, &max))
                return false;
            skip_space(r, lines);
        }
        if (peek(r) != '}')
            return wrong(r, r->line, "'}' is expected");
        r->at++;
        if (max < min)
            return wrong(r, r->line, "{%u,%u}: the most is below the least", (unsigned)min,
                         (unsigned)max);
    }
    struct sequence_item x = r->items[--r->n_items];
    if (x.not_token && !(min <= 1 && max == LANG_MANY))
        return wrong(r, r->line, "!<name> is supported only as !<name>* or !<name>+");
    if (!push_item(r, PART_LOOP, x.part, 0))
        return false;
    struct grammar_part *p = &r->rules.parts[r->items[r->n_items - 1].part];
    p->min = min, p->max = max;
    return true;
}

static bool read_item(struct grammar_reader *r, bool lines)
{
    uint32_t rule;
    unsigned char c = peek(r);
    if (is_name(c))
        return read_name(r, &rule) && push_item(r, PART_CALL, rule, 0);
    switch (c) {
    case '"':
        return read_literal(r);
    case '[':
        return read_class(r);
    case '<':
    case '!':
        return read_token(r);
    case '.':
        r->at++;
        return push_any(r);
    case '*':
    case '+':
    case '?':
    case '{':
        return read_repeat(r, lines);
    case 0:
        if (r->at == r->end)
            return wrong(r, r->groups[r->n_groups - 1].line, "a group is not closed");
    /* fall through */
    default:
        return c > 32 && c < 127 ? wrong(r, r->line, "unexpected '%c'", c)
                                 : wrong(r, r->line, "unexpected byte 0x%02X", c);
    }
}

/* What a rule is, up to the end of its line outside groups; one item is left on the stack. */
static bool read_body(struct grammar_reader *r)
{
    r->n_items = r->n_groups = 0;
    if (!begin_group(r))
        return false;
    for (bool fresh = true;;) { /* lines may end behind ::=, | and ( */
        skip_space(r, fresh || r->n_groups > 1);
        fresh = false;
        unsigned char c = peek(r);
        if (r->n_groups == 1 && (r->at == r->end || c == '\n' || c == '\r'))
            return close_group(r);
        bool good;
        if (c == '(' || c == '|') {
            r->at++, fresh = true;
            good = c == '(' ? begin_group(r) : next_alternative(r);
        } else if (c == ')' && r->n_groups > 1) {
            r->at++;
            good = close_group(r);
        } else {
            good = read_item(r, r->n_groups > 1);
        }
        if (!good)
            return false;
    }
}

static bool read_rule(struct grammar_reader *r)
{
    uint32_t rule, line = r->line, begin = r->rules.n_parts;
    if (!read_name(r, &rule))
        return false;
    skip_space(r, false);
    if (r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0)
        return wrong(r, r->line, "'::=' is expected behind the name of a rule");
    r->at += 3;
    if (r->rules.rules[rule].root)
        return wrong(r, line, "this rule is already defined in line %u",
                     (unsigned)r->rules.rules[rule].line);
    r->rule = rule;
    if (!read_body(r))
        return false;
    struct grammar_rule *x = &r->rules.rules[rule];
    x->line = line, x->root = r->items[0].part;
    x->begin = begin ? begin : 1, x->end = r->rules.n_parts;
    return true;
}

/* The number of `root`; all rules that are named exist. */
static bool check_rules(struct grammar_reader *r, uint32_t *root)
{
    *root = UINT32_MAX;
    for (uint32_t i = 0; i < r->rules.n_rules; i++) {
        struct grammar_rule *x = &r->rules.rules[i];
        if (!x->root)
            return wrong(r, x->line, "there is no rule %.*s", shown(x->name, x->n), x->name);
        if (x->n == 4 && !memcmp(x->name, "root", 4))
            *root = i;
    }
    return *root != UINT32_MAX || wrong(r, r->line, "there is no rule root");
}

static void reader_close(struct grammar_reader *r)
{
    struct budget *b = r->rules.budget;
    rules_close(&r->rules);
    budget_free(b, r->names, r->n_names * sizeof *r->names);
    budget_free(b, r->groups, r->max_groups * sizeof *r->groups);
    budget_free(b, r->items, r->max_items * sizeof *r->items);
    budget_free(b, r->text, r->max_text);
    budget_free(b, r->ranges, r->max_ranges * sizeof *r->ranges);
}

static bool read_grammar(struct grammar_reader *r, struct grammar *g)
{
    uint32_t root;
    bool empty, good;
    skip_space(r, true);
    while (r->at < r->end) {
        if (!read_rule(r))
            return false;
        skip_space(r, true);
    }
    if (!check_rules(r, &root))
        return false;
    good = grammar_open(g, &r->rules, root, &empty);
    if (good && !empty)
        return true;
    grammar_close(g);
    return good ? wrong(r, r->rules.rules[root].line, "no text matches the grammar") : over(r);
}

enum tern_status gbnf_open(struct recognizer *out, const char *text, size_t n,
                           const struct gbnf_tokens *tokens, struct budget *b, struct tern_error *e)
{
    struct grammar_reader r = {.at = text, .end = text + n, .line = 1, .tokens = tokens, .e = e};
    struct grammar g;
    if (n > GBNF_MOST)
        return error_set(e, TERN_LIMIT, "grammar: longer than %d bytes", GBNF_MOST);
    r.rules.budget = b;
    r.rules.languages = languages_open(b);
    if (!r.rules.languages)
        return budget_refuse(b, e, "grammar");
    bool good = read_grammar(&r, &g);
    reader_close(&r);
    if (!good)
        languages_close(r.rules.languages);
    else if (!earley_open(out, &g))
        r.status = budget_refuse(b, e, "grammar");
    return r.status;
}
