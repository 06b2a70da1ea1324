/* Reads the step lists: see steps.h and TOKENIZER.md. */
#include "text/steps.h"

#include "text/patterns.h"

#include <stdio.h>

struct form {
    const char *list, *name;
    enum step_kind kind;
};

static const struct form forms[] = {
    {"normalizer", "prepend", STEP_PREPEND},
    {"normalizer", "replace", STEP_REPLACE},
    {"normalizer", "nfc", STEP_NFC},
    {"normalizer", "trim_spaces", STEP_TRIM},
    {"pre", "split", STEP_SPLIT},
    {"pre", "digits", STEP_DIGITS},
    {"pre", "prefix_space", STEP_PREFIX},
    {"pre", "metaspace", STEP_METASPACE},
    {"decoder", "replace", STEP_REPLACE},
    {"decoder", "metaspace", STEP_METASPACE},
    {"decoder", "byte_fallback", STEP_BYTES},
    {"decoder", "strip", STEP_STRIP},
    {"decoder", "byte_level", STEP_BYTE_LEVEL},
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

static enum tern_status read_split(struct reader *r, struct step *step, struct tern_error *e)
{
    static const char *const names[] = {"removed", "isolated", "merged_with_previous",
                                        "merged_with_next", "contiguous"};
    const char *p = NULL;
    size_t n = 0;
    enum tern_status s = text(r, "behavior", &p, &n, e);
    if (s || (s = flag(r, "invert", &step->invert, e)))
        return s;
    while (step->behavior <= SPLIT_CONTIGUOUS && !text_is(p, n, names[step->behavior]))
        step->behavior++;
    if (step->behavior > SPLIT_CONTIGUOUS)
        return refuse(r, "behavior", p, n, e);
    step->pattern = -1;
    if (!keys_find(r->keys, key_name(r, "pattern")))
        return text(r, "text", &step->from, &step->from_n, e);
    if ((s = text(r, "pattern", &p, &n, e)))
        return s;
    step->pattern = pattern_find(p, n);
    return step->pattern < 0 ? refuse(r, "pattern", p, n, e) : TERN_OK;
}

static enum tern_status read_parameters(struct reader *r, struct step *step, struct tern_error *e)
{
    enum tern_status s;
    switch (step->kind) {
    case STEP_PREPEND:
        return text(r, "text", &step->to, &step->to_n, e);
    case STEP_REPLACE:
        s = text(r, "from", &step->from, &step->from_n, e);
        return s ? s : text(r, "to", &step->to, &step->to_n, e);
    case STEP_SPLIT:
        return read_split(r, step, e);
    case STEP_DIGITS:
        return number(r, "individual", 2, &step->number, e);
    case STEP_METASPACE:
        if ((s = text(r, "text", &step->to, &step->to_n, e)) ||
            (s = number(r, "scheme", PREPEND_ALWAYS + 1, &step->scheme, e)))
            return s;
        return text_is(r->list, strlen(r->list), "pre") ? flag(r, "split", &step->split, e) : s;
    case STEP_STRIP:
        s = text(r, "text", &step->from, &step->from_n, e);
        return s ? s : number(r, "count", 1 << 16, &step->number, e);
    case STEP_NFC:
    case STEP_TRIM:
    case STEP_PREFIX:
    case STEP_BYTES:
    case STEP_BYTE_LEVEL:
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
            *step = (struct step){.kind = forms[i].kind};
            return read_parameters(r, step, e);
        }
    return refuse(r, "", p, n, e);
}

enum tern_status steps_read(struct steps *steps, struct keys *keys, const char *list,
                            struct tern_error *e)
{
    struct reader r = {.keys = keys, .list = list};
    for (steps->n = 0; keys_find(keys, key_name(&r, "")); r.number = ++steps->n) {
        if (steps->n == STEPS_MAX)
            return error_set(e, TERN_BAD_FILE, "tokenizer: more than %d steps in '%s'", STEPS_MAX,
                             list);
        enum tern_status s = read_step(&r, &steps->list[steps->n], e);
        if (s)
            return s;
    }
    return TERN_OK;
}
