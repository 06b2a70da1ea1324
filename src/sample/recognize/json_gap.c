/* Between values: see json_gap.h. The style of blanks is in place.more. */
#include "sample/recognize/json_gap.h"

#include "sample/recognize/json_keys.h"
#include "sample/recognize/json_level.h"
#include "sample/recognize/json_word.h"

static uint32_t style(const struct place *p, int shift, uint32_t mask)
{
    return p->more >> shift & mask;
}

static void choose(struct place *p, int shift, uint32_t value)
{
    p->more |= value << shift; /* it was 0 */
}

static enum step item(struct json_recognizer *j, struct track *t, struct place *p,
                      unsigned char byte)
{
    if (level_at(t, p->top)->kind == LEVEL_ARRAY)
        return value_begin(j, t, p, byte);
    if (!(level_at(t, p->top)->flags & LEVEL_GEMMA))
        return byte == '"' ? key_begin(j, t, p) : STEP_DEAD;
    enum step s = key_begin(j, t, p);
    return s == STEP_ALIVE ? string_step(j, t, p, byte) : s;
}

/* Behind : or , may come one blank, as the style says. */
static enum step gap(struct json_recognizer *j, struct track *t, struct place *p,
                     unsigned char byte, int shift)
{
    uint32_t chosen = level_at(t, p->top)->flags & LEVEL_GEMMA ? GAP_NONE : style(p, shift, 3);
    enum phase next = shift == MORE_COLON ? AT_VALUE : AT_ITEM;
    if (byte == ' ' && chosen != GAP_NONE && !(chosen == GAP_UNKNOWN && j->searching)) {
        if (chosen == GAP_UNKNOWN)
            choose(p, shift, GAP_ONE);
        go_to(p, next, 0);
        return STEP_ALIVE;
    }
    if (chosen == GAP_ONE)
        return STEP_DEAD;
    if (chosen == GAP_UNKNOWN)
        choose(p, shift, GAP_NONE);
    return next == AT_VALUE ? value_begin(j, t, p, byte) : item(j, t, p, byte);
}

/* Blanks that `depth` levels take; 0 where the unit is not known yet. */
static uint32_t blanks(const struct place *p, uint32_t depth)
{
    uint32_t unit = style(p, MORE_UNIT, 15);
    return unit == UNIT_TAB ? depth : unit * depth;
}

static enum step indent(struct json_recognizer *j, struct track *t, struct place *p,
                        unsigned char byte)
{
    const struct level *l = level_at(t, p->top);
    uint32_t n = scratch_of(p), unit = style(p, MORE_UNIT, 15);
    bool closing = phase_of(p) == AT_CLOSE;
    if (unit) {
        if (n < blanks(p, l->depth - closing)) {
            if (byte != (unit == UNIT_TAB ? '\t' : ' '))
                return STEP_DEAD;
            go_to(p, phase_of(p), n + 1);
            return STEP_ALIVE;
        }
        if (!closing)
            return item(j, t, p, byte);
        return byte == (l->kind == LEVEL_ARRAY ? ']' : '}') ? container_end(j, t, p) : STEP_DEAD;
    }
    if (byte == '\t' && !n) {
        choose(p, MORE_UNIT, UNIT_TAB);
        go_to(p, AT_INDENT, 1);
        return STEP_ALIVE;
    }
    if (byte == ' ' && n < UNIT_TAB - 1 && !(n && j->searching)) {
        go_to(p, AT_INDENT, n + 1);
        return STEP_ALIVE;
    }
    if (!n)
        return STEP_DEAD;
    choose(p, MORE_UNIT, n);
    return item(j, t, p, byte);
}

static bool lines_may_begin(const struct json_recognizer *j, const struct track *t,
                            const struct level *l)
{
    if (j->flags & JSON_COMPACT || j->searching || l->flags & LEVEL_GEMMA)
        return false;
    return l->depth == 1 || level_at(t, l->up)->flags & LEVEL_LINES;
}

static enum step open_step(struct json_recognizer *j, struct track *t, struct place *p,
                           unsigned char byte)
{
    const struct level *l = level_at(t, p->top);
    bool array = l->kind == LEVEL_ARRAY;
    if (byte == (array ? ']' : '}'))
        return container_end(j, t, p);
    if (byte == '\n' && lines_may_begin(j, t, l)) {
        lang keys = array ? LANG_BLANK : json_keys_next(j, l);
        if (keys == (lang)LANG_FAIL)
            return STEP_NO_ROOM;
        if (keys == LANG_NONE)
            return STEP_DEAD;
        enum step s = level_flag(j, t, p, LEVEL_LINES, AT_INDENT);
        return s == STEP_ALIVE && array ? item_begin(j, t, p, AT_INDENT) : s;
    }
    if (!array)
        return item(j, t, p, byte);
    enum step s = item_begin(j, t, p, AT_VALUE);
    return s == STEP_ALIVE ? value_begin(j, t, p, byte) : s;
}

static enum step comma(struct json_recognizer *j, struct track *t, struct place *p)
{
    const struct level *l = level_at(t, p->top);
    if (l->kind == LEVEL_ARRAY)
        return item_begin(j, t, p, AT_COMMA);
    lang keys = json_keys_next(j, l);
    go_to(p, AT_COMMA, 0);
    return keys == (lang)LANG_FAIL ? STEP_NO_ROOM : keys == LANG_NONE ? STEP_DEAD : STEP_ALIVE;
}

enum step gap_step(struct json_recognizer *j, struct track *t, struct place *p, unsigned char byte)
{
    const struct level *l = level_at(t, p->top);
    switch (phase_of(p)) {
    case AT_ITEM:
        return item(j, t, p, byte);
    case AT_OPEN:
        return open_step(j, t, p, byte);
    case AT_INDENT:
    case AT_CLOSE:
        return indent(j, t, p, byte);
    case AT_COLON:
        go_to(p, AT_GAP, 0);
        return byte == ':' ? STEP_ALIVE : STEP_DEAD;
    case AT_GAP:
        return gap(j, t, p, byte, MORE_COLON);
    case AT_COMMA:
        if (!(l->flags & LEVEL_LINES))
            return gap(j, t, p, byte, MORE_COMMA);
        go_to(p, AT_INDENT, 0);
        return byte == '\n' ? STEP_ALIVE : STEP_DEAD;
    case AT_AFTER:
        if (byte == ',')
            return comma(j, t, p);
        if (!(l->flags & LEVEL_LINES))
            return byte == (l->kind == LEVEL_ARRAY ? ']' : '}') ? container_end(j, t, p)
                                                                : STEP_DEAD;
        go_to(p, AT_CLOSE, 0);
        return byte == '\n' && container_may_end(j, l) ? STEP_ALIVE : STEP_DEAD;
    default:
        return STEP_DEAD;
    }
}

static void add_bytes(uint64_t set[4], const char *bytes)
{
    for (const unsigned char *p = (const void *)bytes; *p; p++)
        set[*p / 64] |= 1ull << *p % 64;
}

static void add_key(struct json_recognizer *j, const struct level *l, uint64_t set[4])
{
    uint64_t keys[4];
    if (!(l->flags & LEVEL_GEMMA)) {
        add_bytes(set, "\"");
        return;
    }
    lang_first(j->languages, json_keys_next(j, l), keys);
    for (int i = 0; i < 4; i++)
        set[i] |= keys[i];
}

static void add_item(struct json_recognizer *j, const struct level *l, uint64_t set[4])
{
    if (l->kind == LEVEL_OBJECT)
        add_key(j, l, set);
    else
        value_first(j, l, set);
}

void gap_first(struct json_recognizer *j, const struct level *l, const struct place *p,
               uint64_t set[4])
{
    const char *end = l->kind == LEVEL_ARRAY ? "]" : "}";
    bool lines = l->flags & LEVEL_LINES;
    switch (phase_of(p)) {
    case AT_OPEN:
        add_bytes(set, end);
        add_bytes(set, "\n");
        if (l->kind == LEVEL_ARRAY)
            add_bytes(set, VALUE_BYTES);
        else
            add_key(j, l, set);
        break;
    case AT_CLOSE:
        add_bytes(set, end);
        add_bytes(set, " \t");
        break;
    case AT_COLON:
        add_bytes(set, ":");
        break;
    case AT_GAP:
        add_bytes(set, " ");
        value_first(j, l, set);
        break;
    case AT_AFTER:
        add_bytes(set, lines ? ",\n" : ",");
        add_bytes(set, lines ? "" : end);
        break;
    case AT_COMMA:
        add_bytes(set, lines ? "\n" : " ");
        if (!lines)
            add_item(j, l, set);
        break;
    case AT_INDENT:
        add_bytes(set, " \t");
        add_item(j, l, set);
        break;
    default: /* AT_ITEM */
        add_item(j, l, set);
    }
}
