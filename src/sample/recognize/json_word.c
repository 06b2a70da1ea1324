/* Words of JSON: see json_word.h. Escapes are in json_escape.c. */
#include "sample/recognize/json_word.h"

#include "sample/recognize/json_escape.h"
#include "sample/recognize/json_keys.h"
#include "sample/recognize/json_level.h"
#include "sample/recognize/json_unique.h"
#include "base/xxh64.h"

#include <string.h>

static void add(uint64_t set[4], unsigned char byte)
{
    set[byte / 64] |= 1ull << byte % 64;
}

/* ---- literals ----------------------------------------------------------------------------- */

static const char literals[2][3][6] = {{"null", "true", "false"}, {"None", "True", "False"}};

static enum step literal_begin(struct json_recognizer *j, const struct level *l, struct place *p,
                               unsigned char byte)
{
    unsigned python = l->flags & LEVEL_PYTHON ? 1 : 0;
    for (uint32_t i = 0; i < 3; i++)
        for (THREADS(j, l, th))
            if (literals[python][i][0] == byte && j->shapes.nodes[th->want].literals & 1u << i) {
                go_to(p, AT_LITERAL, i * 16 + 1);
                return STEP_ALIVE;
            }
    return STEP_DEAD;
}

static const char *literal_rest(const struct level *l, const struct place *p)
{
    return literals[l->flags & LEVEL_PYTHON ? 1 : 0][scratch_of(p) / 16] + scratch_of(p) % 16;
}

enum step literal_step(struct json_recognizer *j, struct track *t, struct place *p,
                       unsigned char byte)
{
    const char *rest = literal_rest(level_at(t, p->top), p);
    uint32_t which = scratch_of(p) / 16;
    if (*rest != (char)byte)
        return STEP_DEAD;
    go_to(p, AT_LITERAL, scratch_of(p) + 1);
    if (rest[1])
        return STEP_ALIVE;
    struct value v = {VALUE_LITERAL, 1u << which, seen_key_of(hash_mix(which + 1), NULL, 0)};
    return value_end(j, t, p, p->top, &v);
}

/* ---- languages of a word ------------------------------------------------------------------ */

static lang lang_of(const struct json_recognizer *j, uint32_t want, bool string)
{
    return string ? j->shapes.nodes[want].string : j->shapes.nodes[want].number;
}

/* The languages that the level waits for, each once, on json.list: slot i of a set is the i-th. */
static bool list_langs(struct json_recognizer *j, const struct level *l, bool string)
{
    j->list.n = 0;
    for (THREADS(j, l, th)) {
        lang a = lang_of(j, th->want, string);
        uint32_t i = 0;
        while (i < j->list.n && j->list.at[i] != a)
            i++;
        if (i == j->list.n && a != LANG_NONE && !add_number(j, &j->list, a))
            return false;
    }
    return true;
}

/* Begins a string or a number of one of those languages. */
static enum step word_begin(struct json_recognizer *j, struct track *t, struct place *p,
                            bool string)
{
    const struct level *l = level_at(t, p->top);
    bool unique = l->unique;
    if (!list_langs(j, l, string))
        return STEP_NO_ROOM;
    if (!j->list.n)
        return STEP_DEAD;
    if (unique && !string)
        for (uint32_t i = 0; i < j->list.n; i++)
            if ((j->list.at[i] = unique_numbers(j, j->list.at[i])) == (lang)LANG_FAIL)
                return STEP_NO_ROOM;
    p->lexeme = j->list.at[0];
    if (j->list.n > 1) {
        for (uint32_t i = 0; i < j->list.n; i++)
            if (!word_list_add(&j->values, &j->values.list, i, j->list.at[i]))
                return STEP_NO_ROOM;
        if ((p->lexeme = words_find(&j->values, &j->values.list)) == WORDS_FAIL)
            return STEP_NO_ROOM;
        p->more |= MORE_SET;
    }
    if (unique && !record_word(t, p))
        return STEP_NO_ROOM;
    go_to(p, string ? AT_STRING : AT_NUMBER, 0);
    return STEP_ALIVE;
}

/* The word is over: its value, with the languages that hold it on json.done. STEP_DEAD: none. */
static enum step word_end(struct json_recognizer *j, struct track *t, struct place *p, bool string)
{
    uint32_t at = level_of(t, p), n;
    const struct level *l = level_at(t, at);
    struct value v = {.kind = string ? VALUE_STRING : VALUE_NUMBER};
    size_t bytes;
    if (!list_langs(j, l, string))
        return STEP_NO_ROOM;
    j->done.n = 0;
    if (p->more & MORE_SET) {
        const struct word *w = words_of(&j->values, p->lexeme, &n);
        for (uint32_t i = 0; i < n; i++)
            if (lang_accepts(j->languages, w[i].rest) &&
                !add_number(j, &j->done, j->list.at[w[i].slot]))
                return STEP_NO_ROOM;
    } else if (lang_accepts(j->languages, p->lexeme) && !add_number(j, &j->done, j->list.at[0])) {
        return STEP_NO_ROOM;
    }
    if (!j->done.n)
        return STEP_DEAD;
    if (p->more & MORE_RECORDED) {
        const char *text = recorded_text(t, p, &bytes);
        v.key = seen_key_of(hash_mix(xxh64(text, bytes) + string), text, bytes);
    }
    return value_end(j, t, p, at, &v);
}

enum step word_take(struct json_recognizer *j, struct track *t, struct place *p,
                    const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p->more & MORE_SET) {
            p->lexeme = words_step(&j->values, p->lexeme, bytes[i]);
            if (p->lexeme == WORDS_FAIL)
                return STEP_NO_ROOM;
        } else if ((p->lexeme = lang_step(j->languages, p->lexeme, bytes[i])) == (lang)LANG_FAIL) {
            return STEP_NO_ROOM;
        }
        if (!p->lexeme) /* LANG_NONE, WORDS_NONE */
            return STEP_DEAD;
    }
    if (p->more & MORE_RECORDED && !record_bytes(t, p, bytes, n))
        return STEP_NO_ROOM;
    return STEP_ALIVE;
}

lang word_rest(struct json_recognizer *j, const struct place *p)
{
    return p->more & MORE_SET ? words_any(&j->values, p->lexeme) : p->lexeme;
}

/* ---- numbers and strings ------------------------------------------------------------------ */

enum step number_step(struct json_recognizer *j, struct track *t, struct place *p,
                      unsigned char byte)
{
    return word_take(j, t, p, &byte, 1);
}

enum step number_end(struct json_recognizer *j, struct track *t, struct place *p)
{
    return word_end(j, t, p, false);
}

enum step key_begin(struct json_recognizer *j, struct track *t, struct place *p)
{
    p->lexeme = json_keys_next(j, level_at(t, p->top));
    if (p->lexeme == (lang)LANG_FAIL || !record_word(t, p))
        return STEP_NO_ROOM;
    p->more |= MORE_KEY;
    go_to(p, AT_STRING, 0);
    return p->lexeme == LANG_NONE ? STEP_DEAD : STEP_ALIVE;
}

/* ---- Gemma's notation: no escapes; a key ends at ':', a text at its mark ---- */

static const char gemma_quote[] = SCRIPT_GEMMA_QUOTE;

static enum step gemma_begin(struct json_recognizer *j, struct track *t, struct place *p)
{
    enum step s = word_begin(j, t, p, true);
    if (s == STEP_ALIVE)
        go_to(p, AT_QUOTE, 1);
    return s;
}

static enum step gemma_end(struct json_recognizer *j, struct track *t, struct place *p)
{
    struct place q = *p;
    enum step s;
    if (p->more & MORE_KEY) {
        s = lang_accepts(j->languages, p->lexeme) ? json_key_end(j, t, p) : STEP_DEAD;
        if (s == STEP_ALIVE)
            go_to(p, AT_GAP, 0);
        return s;
    }
    s = word_end(j, t, &q, true); /* nothing else can follow the mark's first byte */
    if (s == STEP_ALIVE)
        go_to(p, AT_UNQUOTE, 1);
    return s;
}

static enum step gemma_step(struct json_recognizer *j, struct track *t, struct place *p,
                            unsigned char byte)
{
    enum phase phase = phase_of(p);
    uint32_t n = scratch_of(p);
    if (phase == AT_STRING)
        return byte == (p->more & MORE_KEY ? ':' : 0xFF) ? gemma_end(j, t, p)
                                                         : word_take(j, t, p, &byte, 1);
    if (byte != (unsigned char)gemma_quote[n])
        return STEP_DEAD;
    if (n + 2 == sizeof gemma_quote && phase == AT_UNQUOTE)
        return word_end(j, t, p, true);
    bool over = n + 2 == sizeof gemma_quote;
    go_to(p, over ? AT_STRING : phase, over ? 0 : n + 1);
    return STEP_ALIVE;
}

static void gemma_first(struct json_recognizer *j, const struct place *p, uint64_t set[4])
{
    lang rest = word_rest(j, p);
    if (phase_of(p) != AT_STRING) {
        add(set, (unsigned char)gemma_quote[scratch_of(p)]);
        return;
    }
    lang_first(j->languages, rest, set);
    if (lang_accepts(j->languages, rest))
        add(set, p->more & MORE_KEY ? ':' : 0xFF);
}

enum step string_step(struct json_recognizer *j, struct track *t, struct place *p,
                      unsigned char byte)
{
    if (level_at(t, level_of(t, p))->flags & LEVEL_GEMMA)
        return gemma_step(j, t, p, byte);
    if (phase_of(p) != AT_STRING)
        return escape_step(j, t, p, byte);
    if (byte == '"') {
        if (!(p->more & MORE_KEY))
            return word_end(j, t, p, true);
        return lang_accepts(j->languages, p->lexeme) ? json_key_end(j, t, p) : STEP_DEAD;
    }
    if (byte == '\\')
        return escape_begin(j, t, p);
    return byte < 32 ? STEP_DEAD : word_take(j, t, p, &byte, 1);
}

enum step value_begin(struct json_recognizer *j, struct track *t, struct place *p,
                      unsigned char byte)
{
    enum step s;
    bool gemma = level_at(t, p->top)->flags & LEVEL_GEMMA;
    if (byte == (gemma ? '"' : 0xFF))
        return STEP_DEAD;
    switch (byte) {
    case '{':
        return container_begin(j, t, p, LEVEL_OBJECT);
    case '[':
        return container_begin(j, t, p, LEVEL_ARRAY);
    case '"':
        return word_begin(j, t, p, true);
    case 0xFF:
        return gemma_begin(j, t, p);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        s = word_begin(j, t, p, false);
        return s == STEP_ALIVE ? number_step(j, t, p, byte) : s;
    default:
        return literal_begin(j, level_at(t, p->top), p, byte);
    }
}

/* ---- first bytes -------------------------------------------------------------------------- */

void value_first(struct json_recognizer *j, const struct level *l, uint64_t set[4])
{
    unsigned python = l->flags & LEVEL_PYTHON ? 1 : 0;
    for (THREADS(j, l, th)) {
        const struct node *node = &j->shapes.nodes[th->want];
        if (node->objects.n)
            add(set, '{');
        if (node->arrays.n)
            add(set, '[');
        if (node->string != LANG_NONE)
            add(set, l->flags & LEVEL_GEMMA ? 0xFF : '"');
        if (node->number != LANG_NONE)
            set[0] |= 0x3ffull << '0' | 1ull << '-';
        for (uint32_t i = 0; i < 3; i++)
            if (node->literals & 1u << i)
                add(set, (unsigned char)literals[python][i][0]);
    }
}

void word_first(struct json_recognizer *j, struct track *t, const struct place *p, uint64_t set[4])
{
    const struct level *l = level_at(t, level_of(t, p));
    if (phase_of(p) == AT_LITERAL) {
        add(set, (unsigned char)*literal_rest(l, p));
        return;
    }
    if (l->flags & LEVEL_GEMMA && phase_of(p) != AT_NUMBER) {
        gemma_first(j, p, set);
        return;
    }
    lang rest = word_rest(j, p);
    lang_first(j->languages, rest, set);
    if (phase_of(p) == AT_NUMBER) {
        for (const char *c = "},\n]"; *c; c++)
            add(set, (unsigned char)*c);
        return;
    }
    set[0] &= ~(uint64_t)UINT32_MAX;
    set[0] &= ~(1ull << '"');
    set['\\' / 64] |= 1ull << '\\' % 64;
    if (lang_accepts(j->languages, rest))
        add(set, '"');
}
