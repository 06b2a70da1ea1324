/* Reads the step lists: see tokenizer_steps.h and TOKENIZER.md. */
#include "text/tokenizer_steps.h"

#include "text/patterns.h"
#include "text/unicode.h"

#include <stdio.h>
#include <stdlib.h>

struct form { /* without pointers, which a relocatable program pays for */
    char list[11], name[14];
    uint8_t kind; /* enum step_kind */
};

static const struct form forms[] = {
    {"normalizer", "prepend", STEP_PREPEND},
    {"normalizer", "replace", STEP_REPLACE},
    {"normalizer", "nfc", STEP_NFC},
    {"normalizer", "nfd", STEP_NFD},
    {"normalizer", "trim_spaces", STEP_TRIM},
    {"normalizer", "charsmap", STEP_CHARSMAP},
    {"normalizer", "strip", STEP_BLANKS},
    {"normalizer", "replace_runs", STEP_RUNS},
    {"pre", "split", STEP_SPLIT},
    {"pre", "digits", STEP_DIGITS},
    {"pre", "punctuation", STEP_PUNCTUATION},
    {"pre", "whitespace", STEP_WHITESPACE},
    {"pre", "scripts", STEP_SCRIPTS},
    {"pre", "prefix_space", STEP_PREFIX},
    {"pre", "metaspace", STEP_METASPACE},
    {"decoder", "replace", STEP_REPLACE},
    {"decoder", "metaspace", STEP_METASPACE},
    {"decoder", "byte_fallback", STEP_BYTES},
    {"decoder", "strip", STEP_STRIP},
    {"decoder", "byte_level", STEP_BYTE_LEVEL},
    {"decoder", "join", STEP_JOIN},
};

/* The step whose keys are being read: "list.number" or "list.number.parameter". */
struct reader {
    struct keys *keys;
    const char *list;
    size_t number;
    char name[64]; /* of the last key asked for */
};

static const char *key_name(struct reader *r, const char *parameter)
{
    snprintf(r->name, sizeof r->name, "%s.%zu%s%s", r->list, r->number, *parameter ? "." : "",
             parameter);
    return r->name;
}

static enum tern_status refuse(struct reader *r, const char *parameter, const char *p, size_t n,
                               struct tern_error *e)
{
    return error_set(e, TERN_BAD_FILE, "tokenizer: %s is '%.*s', which this version does not know",
                     key_name(r, parameter), (int)(n > 200 ? 200 : n), p);
}

static enum tern_status text(struct reader *r, const char *parameter, const char **out, size_t *n,
                             struct tern_error *e)
{
    uint64_t count = 0;
    enum tern_status s = keys_text(r->keys, key_name(r, parameter), out, &count, e);
    if (!s && (!*out || count > STEP_TEXT_MAX || (count == 0 && strcmp(parameter, "to") != 0)))
        return error_set(e, TERN_BAD_FILE, "tokenizer: %s is missing or not of 1 to %d bytes",
                         r->name, STEP_TEXT_MAX);
    *n = (size_t)count;
    return s;
}

/* A number below `limit`, which must be there. */
static enum tern_status number(struct reader *r, const char *parameter, uint64_t limit,
                               uint64_t *out, struct tern_error *e)
{
    *out = UINT64_MAX;
    enum tern_status s = keys_u64(r->keys, key_name(r, parameter), out, e);
    if (!s && *out >= limit)
        return error_set(e, TERN_BAD_FILE, "tokenizer: %s is missing or not below %llu", r->name,
                         (unsigned long long)limit);
    return s;
}

static enum tern_status flag(struct reader *r, const char *parameter, bool *out,
                             struct tern_error *e)
{
    uint64_t value = 0;
    enum tern_status s = number(r, parameter, 2, &value, e);
    *out = value == 1;
    return s;
}

static enum tern_status read_behavior(struct reader *r, struct step *step, struct tern_error *e)
{
    static const char *const names[] = {"removed", "isolated", "merged_with_previous",
                                        "merged_with_next", "contiguous"};
    const char *p = NULL;
    size_t n = 0;
    enum tern_status s = text(r, "behavior", &p, &n, e);
    if (s)
        return s;
    while (step->behavior <= SPLIT_CONTIGUOUS && !text_is(p, n, names[step->behavior]))
        step->behavior++;
    return step->behavior > SPLIT_CONTIGUOUS ? refuse(r, "behavior", p, n, e) : TERN_OK;
}

static enum tern_status read_split(struct reader *r, struct step *step, struct tern_error *e)
{
    const char *p = NULL;
    size_t n = 0;
    enum tern_status s = read_behavior(r, step, e);
    if (s || (s = flag(r, "invert", &step->invert, e)))
        return s;
    step->pattern = -1;
    if (!keys_find(r->keys, key_name(r, "pattern")))
        return text(r, "text", &step->from, &step->from_n, e);
    enum tern_status found = keys_text(r->keys, r->name, &p, &n, e);
    if (found)
        return found;
    step->pattern = pattern_find(p, n);
    return step->pattern < 0 ? refuse(r, "pattern", p, n, e) : TERN_OK;
}

/* A step that splits at the characters of a class. */
static enum tern_status read_class(struct reader *r, struct step *step, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    uint64_t individual = 0;
    if (step->kind == STEP_WHITESPACE) {
        step->number = UNICODE_BLANK;
        step->behavior = SPLIT_REMOVED;
    } else if (step->kind == STEP_PUNCTUATION) {
        step->number = UNICODE_PUNCTUATION;
        s = read_behavior(r, step, e);
    } else {
        step->number = UNICODE_NUMERIC;
        s = number(r, "individual", 2, &individual, e);
        step->behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        if (!s && keys_find(r->keys, key_name(r, "bytes")))
            s = flag(r, "bytes", &step->bytes, e);
    }
    step->kind = STEP_CLASS;
    return s;
}

/* `bytes` and `lengths` of the texts called `name`. */
static enum tern_status read_texts(struct reader *r, const char *name, const char **bytes,
                                   const uint32_t **lengths, uint64_t *n, struct tern_error *e)
{
    char parameter[16];
    uint64_t n_bytes = 0, sum = 0;
    snprintf(parameter, sizeof parameter, "%s.bytes", name);
    enum tern_status s = keys_text(r->keys, key_name(r, parameter), bytes, &n_bytes, e);
    if (s)
        return s;
    snprintf(parameter, sizeof parameter, "%s.lengths", name);
    if ((s = keys_u32s(r->keys, key_name(r, parameter), lengths, n, e)))
        return s;
    for (uint64_t i = 0; i < *n && sum <= n_bytes; i++)
        sum += (*lengths)[i];
    if (!*n || *n > 1 << 24 || sum != n_bytes || n_bytes > UINT32_MAX ||
        !unicode_valid(*bytes, n_bytes))
        return error_set(e, TERN_BAD_FILE, "tokenizer: %s are no lengths of its texts", r->name);
    return TERN_OK;
}

static enum tern_status build_map(struct charsmap *map, const char *from, const uint32_t *lengths,
                                  uint64_t n, struct tern_error *e)
{
    struct trie_key *list = malloc(n * sizeof *list);
    map->start = malloc((n + 1) * sizeof *map->start);
    uint32_t start = 0;
    bool ok = list && map->start, empty = false;
    for (uint64_t i = 0; ok && i < n; from += lengths[i++]) {
        map->start[i] = start;
        start += map->to_lengths[i];
        empty |= lengths[i] == 0;
        list[i] = (struct trie_key){from, lengths[i], (int32_t)i};
    }
    ok = ok && !empty && trie_open(&map->trie, list, (uint32_t)n);
    free(list);
    if (empty)
        return error_set(e, TERN_BAD_FILE, "tokenizer: a charsmap changes the empty text");
    return ok ? TERN_OK : error_memory(e, "the charsmap", n * sizeof *list);
}

static enum tern_status read_charsmap(struct reader *r, struct step *step, struct tern_error *e)
{
    struct charsmap *map = step->map = calloc(1, sizeof *map);
    const char *from = "";
    const uint32_t *lengths = NULL;
    uint64_t n = 0, n_to = 0;
    enum tern_status s;
    if (!map)
        return error_memory(e, "the charsmap", sizeof *map);
    map->to = "";
    if ((s = flag(r, "graphemes", &step->graphemes, e)) ||
        (s = read_texts(r, "from", &from, &lengths, &n, e)) ||
        (s = read_texts(r, "to", &map->to, &map->to_lengths, &n_to, e)))
        return s;
    if (n != n_to)
        return error_set(e, TERN_BAD_FILE, "tokenizer: a charsmap has %llu texts for %llu",
                         (unsigned long long)n_to, (unsigned long long)n);
    return build_map(map, from, lengths, n, e);
}

static enum tern_status read_parameters(struct reader *r, struct step *step, struct tern_error *e)
{
    enum tern_status s;
    switch (step->kind) {
    case STEP_PREPEND:
        if (keys_find(r->keys, key_name(r, "scheme")) &&
            (s = number(r, "scheme", 2, &step->scheme, e)))
            return s;
        return text(r, "text", &step->to, &step->to_n, e);
    case STEP_REPLACE:
    case STEP_RUNS:
        s = text(r, "from", &step->from, &step->from_n, e);
        return s ? s : text(r, "to", &step->to, &step->to_n, e);
    case STEP_SPLIT:
        return read_split(r, step, e);
    case STEP_DIGITS:
    case STEP_PUNCTUATION:
    case STEP_WHITESPACE:
        return read_class(r, step, e);
    case STEP_CHARSMAP:
        return read_charsmap(r, step, e);
    case STEP_BLANKS:
        return number(r, "sides", 4, &step->number, e);
    case STEP_METASPACE:
        if ((s = text(r, "text", &step->to, &step->to_n, e)) ||
            (s = number(r, "scheme", PREPEND_ALWAYS + 1, &step->scheme, e)))
            return s;
        return text_is(r->list, strlen(r->list), "pre") ? flag(r, "split", &step->split, e) : s;
    case STEP_STRIP:
        s = text(r, "text", &step->from, &step->from_n, e);
        return s ? s : number(r, "count", 1 << 16, &step->number, e);
    case STEP_NFC:
    case STEP_NFD:
    case STEP_TRIM:
    case STEP_SCRIPTS:
    case STEP_PREFIX:
    case STEP_BYTES:
    case STEP_BYTE_LEVEL:
    case STEP_JOIN:
    case STEP_CLASS:
        break;
    }
    return TERN_OK;
}

static enum tern_status read_step(struct reader *r, struct step *step, struct tern_error *e)
{
    const char *p = NULL;
    size_t n = 0;
    enum tern_status s = text(r, "", &p, &n, e);
    if (s)
        return s;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].list, r->list) == 0 && text_is(p, n, forms[i].name)) {
            *step = (struct step){.kind = (enum step_kind)forms[i].kind};
            return read_parameters(r, step, e);
        }
    return refuse(r, "", p, n, e);
}

enum tern_status steps_read(struct steps *steps, struct keys *keys, const char *list,
                            struct tern_error *e)
{
    struct reader r = {.keys = keys, .list = list};
    for (steps->n = 0; keys_find(keys, key_name(&r, "")); r.number = steps->n) {
        if (steps->n == STEPS_MAX)
            return error_set(e, TERN_BAD_FILE, "tokenizer: more than %d steps in '%s'", STEPS_MAX,
                             list);
        enum tern_status s = read_step(&r, &steps->list[steps->n++], e);
        if (s)
            return s;
    }
    return TERN_OK;
}

void steps_close(struct steps *steps)
{
    for (size_t i = 0; i < steps->n; i++) {
        struct charsmap *map = steps->list[i].map;
        if (!map)
            continue;
        trie_close(&map->trie);
        free(map->start);
        free(map);
    }
}
