/* Arguments one by one: see tool_arguments.h. */
#include "sample/constraint/tool_arguments.h"

#include <stdlib.h>
#include <string.h>

#include "text/answer_values.h"
#include "text/tojson.h"

static struct languages *languages_of(const struct tool_arguments *a)
{
    return a->shapes->languages;
}

static lang text_of(const struct tool_arguments *a, struct mark text)
{
    return lang_text(languages_of(a), text.p, text.n);
}

static lang join(const struct tool_arguments *a, lang x, lang y)
{
    return lang_concat(languages_of(a), x, y);
}

static struct mark key_of(const struct tool_arguments *a, const struct member *m)
{
    const struct shape_key *k = &a->shapes->keys[m->key];
    return (struct mark){a->shapes->text + k->at, k->n};
}

static enum tern_status refuse(const struct tool_arguments *a, const struct member *m,
                               const char *why, struct tern_error *e)
{
    struct mark key = m ? key_of(a, m) : (struct mark){"", 0};
    return error_set(e, TERN_USAGE, "tool %s%s%.*s: %s", a->tool, m ? ", argument " : "",
                     (int)(key.n > 64 ? 64 : key.n), key.p, why);
}

/* What can be written of its value */
static uint32_t node_of(const struct tool_arguments *a, const struct member *m)
{
    return a->shapes->written ? a->shapes->written[m->node] : m->node;
}

/* ---- values ----------------------------------------------------------------------------------- */

/* Texts without quotes that answer_put_bare may take for another value: after blanks, what begins a
 * number, a string or a container, and words */
static lang like_values(const struct tool_arguments *a)
{
    static const char signs[] = "0123456789-+.[{\"'";
    static const char *const words[] = {"true", "false", "null", "True", "False", "None"};
    struct languages *ls = languages_of(a);
    uint64_t blank[4] = {UINT64_C(1) << ' ' | 1 << '\n' | 1 << '\r' | 1 << '\t'}, sign[4] = {0};
    for (const char *p = signs; *p; p++)
        sign[*p >> 6] |= UINT64_C(1) << (*p & 63);
    lang blanks = lang_repeat(ls, lang_set(ls, blank), 0, LANG_MANY), any = LANG_BLANK;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        any = lang_or(ls, any, join(a, lang_text(ls, words[i], strlen(words[i])), blanks));
    return join(a, blanks, lang_or(ls, join(a, lang_set(ls, sign), LANG_ALL), any));
}

static lang literals_of(const struct tool_arguments *a, unsigned literals, bool python)
{
    static const char *const words[2][3] = {{"null", "true", "false"}, {"None", "True", "False"}};
    lang any = LANG_NONE;
    for (unsigned i = 0; i < 3; i++) {
        const char *word = words[python][i];
        if (literals & 1u << i) /* SHAPE_NULL, SHAPE_TRUE, SHAPE_FALSE */
            any = lang_or(languages_of(a), any, lang_text(languages_of(a), word, strlen(word)));
    }
    return any;
}

static bool is_python(unsigned notation)
{
    return notation == TOJSON_STR || notation == TOJSON_REPR;
}

/* The text of a string, as it may stand between its middle and its end */
static lang string_of(const struct tool_arguments *a, const struct node *v, struct mark end)
{
    struct languages *ls = languages_of(a);
    lang core = text_of(a, answer_core(end));
    return lang_and(ls, v->string, lang_not(ls, join(a, LANG_ALL, join(a, core, LANG_ALL))));
}

/* A string without quotes, and what else the node allows that is no container */
static lang bare_of(const struct tool_arguments *a, const struct member *m, const struct node *v)
{
    const struct answer_list *l = a->list;
    struct languages *ls = languages_of(a);
    lang text = string_of(a, v, l->text_after);
    if (answer_type_of(a->tools, a->tool, key_of(a, m)) == ANSWER_IS_TEXT)
        return text;
    lang other = lang_or(ls, v->number, literals_of(a, v->literals, is_python(l->scalar_notation)));
    return lang_or(ls, lang_and(ls, text, lang_not(ls, like_values(a))), other);
}

/* There is a text of its value that will be read as that. */
static bool can_write(const struct tool_arguments *a, const struct member *m)
{
    static const char sign[] = SCRIPT_GEMMA_QUOTE;
    const struct answer_list *l = a->list;
    const uint32_t node = node_of(a, m);
    const struct node *v = &a->shapes->nodes[node];
    lang text = v->string;
    if (node == NODE_NONE)
        return false;
    if (text != LANG_NONE && l->text_notation == TOJSON_STR && l->text_middle.n <= l->middle.n)
        text = bare_of(a, m, v);
    else if (text == LANG_NONE || l->text_notation != TOJSON_GEMMA || v->literals ||
             v->number != LANG_NONE || v->arrays.n || v->objects.n)
        return true;
    else
        text = string_of(a, v, (struct mark){sign, sizeof sign - 1});
    return text == (lang)LANG_FAIL || lang_is_live(languages_of(a), text) != LANG_NO;
}

/* From `at`, behind the middle, to `to`: a value, and what is behind it. */
static void put_value(const struct tool_arguments *a, const struct member *m, uint32_t at,
                      uint32_t to)
{
    const struct answer_list *l = a->list;
    const uint32_t node = node_of(a, m);
    const struct node *v = &a->shapes->nodes[node];
    bool box = v->arrays.n || v->objects.n,
         python = is_python(box ? l->box_notation : l->scalar_notation);
    bool bare = l->text_notation == TOJSON_STR, quoted = l->text_middle.n > l->middle.n;
    struct mark quote = {l->text_middle.p + l->middle.n, l->text_middle.n - l->middle.n};
    bool gemma = l->text_notation == TOJSON_GEMMA;
    if (v->string != LANG_NONE && bare) {
        lang text =
            quoted ? join(a, text_of(a, quote), string_of(a, v, l->text_after)) : bare_of(a, m, v);
        script_words(a->script, at, to, join(a, text, text_of(a, l->text_after)));
        if (!quoted)
            return;
    } else if (v->string != LANG_NONE && gemma && !box) {
        static const char sign[] = SCRIPT_GEMMA_QUOTE;
        struct mark mark = {sign, sizeof sign - 1};
        lang text = join(a, text_of(a, mark), join(a, string_of(a, v, mark), text_of(a, mark)));
        script_words(a->script, at, to, join(a, text, text_of(a, l->after)));
    }
    uint32_t behind = script_state(a->script);
    if (!gemma || box)
        script_hole(a->script, at, behind, node,
                    gemma    ? SCRIPT_GEMMA
                    : python ? SCRIPT_PYTHON
                             : SCRIPT_JSON);
    else
        script_words(a->script, at, behind,
                     lang_or(languages_of(a), v->number, literals_of(a, v->literals, false)));
    script_words(a->script, behind, to, text_of(a, l->after));
}

/* An argument from `at` to `to`; `first`: none stands before it. */
static enum tern_status put_argument(const struct tool_arguments *a, const struct member *m,
                                     bool first, uint32_t at, uint32_t to, struct tern_error *e)
{
    const struct answer_list *l = a->list;
    struct mark key = key_of(a, m), word = answer_core(l->middle);
    if (!key.n || thoughts_find(key.p, key.n, (struct mark){word.p, 1}, false))
        return refuse(a, m, "its name cannot be written in the notation of this template", e);
    lang head = join(a, first ? LANG_BLANK : text_of(a, l->between), text_of(a, l->before));
    head = join(a, head, join(a, text_of(a, key), text_of(a, l->middle)));
    uint32_t value = script_state(a->script);
    script_words(a->script, at, value, head);
    put_value(a, m, value, to);
    return TERN_OK;
}

/* ---- objects ---------------------------------------------------------------------------------- */

struct named {
    const char *key;
    uint32_t n, place;
};

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : (unsigned char)c;
}

static int by_lower_key(const void *one, const void *two)
{
    const struct named *a = one, *b = two;
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (lower(a->key[i]) != lower(b->key[i]))
            return lower(a->key[i]) - lower(b->key[i]);
    return a->n != b->n ? (a->n > b->n) - (a->n < b->n)
                        : (a->place > b->place) - (a->place < b->place);
}

/* One shape: two chains of states, before and behind the first argument that is written. */
static enum tern_status put_shape(const struct tool_arguments *a, const struct object_shape *o,
                                  const struct named *order, uint32_t from, uint32_t to,
                                  struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    uint32_t none = from, some = 0; /* states where none has been written, and where one has */
    bool open = true;               /* none may have been written */
    for (uint32_t i = 0; i < o->members.n && !s; i++) {
        const struct member *m = &a->shapes->members[o->members.first + order[i].place];
        uint32_t behind = script_state(a->script);
        if (m->node == NODE_NONE || !can_write(a, m))
            continue;
        if (open)
            s = put_argument(a, m, true, none, behind, e);
        if (!s && some)
            s = put_argument(a, m, false, some, behind, e);
        if (!m->required && some)
            script_words(a->script, some, behind, LANG_BLANK);
        open = open && !m->required;
        some = behind;
    }
    if (open)
        script_words(a->script, none, to, LANG_BLANK);
    if (some)
        script_words(a->script, some, to, LANG_BLANK);
    return s;
}

/* Counts of members hold whatever is left out. */
static bool counts_are_free(const struct tool_arguments *a, const struct object_shape *o)
{
    uint32_t required = 0, known = 0, demanded = 0;
    for (uint32_t i = 0; i < o->members.n; i++) {
        const struct member *m = &a->shapes->members[o->members.first + i];
        required += m->required, known += m->node != NODE_NONE;
    }
    for (uint32_t i = 0; i < o->classes.n; i++)
        demanded += a->shapes->classes[o->classes.first + i].min;
    return o->min <= required && o->max >= known && !demanded;
}

/* A member that must come and cannot be written, or NULL */
static const struct member *find_unwritten(const struct tool_arguments *a,
                                           const struct object_shape *o)
{
    for (uint32_t i = 0; i < o->members.n; i++) {
        const struct member *m = &a->shapes->members[o->members.first + i];
        if (m->required && !can_write(a, m))
            return m;
    }
    return NULL;
}

enum tern_status tool_arguments_put(const struct tool_arguments *a, uint32_t node, uint32_t from,
                                    uint32_t to, struct tern_error *e)
{
    const struct node *v = &a->shapes->nodes[node];
    enum tern_status s = TERN_OK;
    const struct member *missing = NULL;
    uint32_t n = 0; /* shapes that can be written */
    for (uint32_t i = 0; i < v->objects.n && !s; i++) {
        const struct object_shape *o = &a->shapes->objects[v->objects.first + i];
        const struct member *m = find_unwritten(a, o);
        missing = m ? m : missing, n += !m;
        if (m)
            continue;
        if (!counts_are_free(a, o))
            return refuse(a, NULL, "the number of arguments cannot be enforced", e);
        struct named *order = calloc(o->members.n + 1, sizeof *order);
        if (!order)
            return error_memory(e, "the arguments of a tool", o->members.n * sizeof *order);
        for (uint32_t k = 0; k < o->members.n; k++) {
            struct mark key = key_of(a, &a->shapes->members[o->members.first + k]);
            order[k] = (struct named){key.p, (uint32_t)key.n, k};
        }
        if (a->list->sorted)
            qsort(order, o->members.n, sizeof *order, by_lower_key);
        s = put_shape(a, o, order, from, to, e);
        free(order);
    }
    if (s || n || !missing)
        return s;
    return refuse(a, missing,
                  node_of(a, missing) == NODE_NONE
                      ? "keys in it cannot be enforced in the notation of this template"
                      : "no text that it may be can be written in the notation of this template",
                  e);
}
