/* What the text must be: see constrain.h. */
#include "app/run/constrain.h"

#include "app/cli/files.h"
#include "app/cli/json.h"
#include "app/cli/out.h"
#include "app/cli/visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20, BUDGET = 64 }; /* tern.h's default in MiB, to which its steps belong */

static const uint64_t STEPS = 100000000;

static void put(void *arg, const char *text, size_t n)
{
    (void)arg;
    (void)out_text(text, n);
}

static void put_field(const char *name, const char *text, size_t n)
{
    out_print(",\"%s\":\"", name);
    json_text(put, NULL, text, n);
    out_print("\"");
}

/* "schema: KEYWORD at #PLACE: why", perhaps behind "tool NAME: ", also as fields of their own. In place of a
 * keyword words may stand, "the conditions". */
static void report(enum tern_status s, const struct tern_error *e)
{
    static const char begin[] = "schema: ", between[] = " at #";
    const char *keyword = strncmp(e->text, "tool ", 5) ? e->text : strstr(e->text, begin);
    const char *place, *end;
    out_print("{\"stop\":\"refused\",\"code\":%d", (int)s);
    if (keyword && !strncmp(keyword, begin, strlen(begin)) && (place = strstr(keyword, between)) &&
        (end = strstr(place, ": "))) {
        keyword += strlen(begin);
        if (!memchr(keyword, ' ', (size_t)(place - keyword)))
            put_field("keyword", keyword, (size_t)(place - keyword));
        place += strlen(between) - 1;
        put_field("at", place, (size_t)(end - place));
    }
    put_field("error", e->text, strlen(e->text));
    out_print("}\n");
    (void)out_write("", 0);
}

static bool find_kind(const struct run_options *o, enum run_option *id,
                      enum tern_constraint_kind *kind)
{
    static const struct {
        enum run_option id;
        enum tern_constraint_kind kind;
    } kinds[] = {{OPT_JSON, TERN_CONSTRAINT_JSON},
                 {OPT_JSON_SCHEMA, TERN_CONSTRAINT_SCHEMA},
                 {OPT_JSON_SCHEMA_FILE, TERN_CONSTRAINT_SCHEMA},
                 {OPT_TOOLS, TERN_CONSTRAINT_TOOLS},
                 {OPT_REGEX, TERN_CONSTRAINT_REGEX},
                 {OPT_GRAMMAR, TERN_CONSTRAINT_GRAMMAR},
                 {OPT_CHOICE, TERN_CONSTRAINT_CHOICE}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (o->value[kinds[i].id].given) {
            *id = kinds[i].id, *kind = kinds[i].kind;
            return true;
        }
    return false;
}

static unsigned flags_of(const struct run_options *o)
{
    const char *format = o->value[OPT_FORMAT].text;
    return (o->value[OPT_COMPACT].given ? TERN_CONSTRAINT_COMPACT : 0u) |
           (format && *format == 'a' ? TERN_CONSTRAINT_ANNOTATE : 0u) |
           (o->value[OPT_JSON_SCHEMA_LAX].given ? TERN_CONSTRAINT_LAX : 0u);
}

/* The template says where thoughts end. */
static void set_tools(struct tern_constraint_params *p, const struct run_options *o)
{
    const struct option_value *think = &o->value[OPT_THINK];
    p->trigger_bytes = 0;
    p->tool_choice = o->value[OPT_TOOL_CHOICE].text;
    p->flags |= o->value[OPT_PARALLEL_TOOLS].given ? TERN_CONSTRAINT_PARALLEL : 0u;
    p->chat_flags = !think->given               ? 0
                    : strcmp(think->text, "on") ? TERN_CHAT_NO_THINK
                                                : TERN_CHAT_THINK;
}

enum tern_status constrain_open(struct constrain *out, const tern_model *model,
                                const struct run_options *o, const char *thought, size_t n,
                                struct tern_error *e)
{
    const struct option_value *budget = &o->value[OPT_CONSTRAINT_BUDGET];
    struct tern_constraint_params *p = &out->params;
    enum tern_status s = TERN_OK;
    enum run_option id;
    *out = (struct constrain){
        .params = {.flags = flags_of(o), .trigger = thought, .trigger_bytes = n}};
    if (!find_kind(o, &id, &p->kind))
        return TERN_OK;
    p->text = o->value[id].text, p->bytes = p->text ? strlen(p->text) : 0;
    if (id == OPT_TOOLS)
        set_tools(p, o);
    if (p->trigger_bytes)
        p->flags |= TERN_CONSTRAINT_MUST_TRIGGER;
    if (budget->given) {
        p->max_bytes = (size_t)budget->integer * MIB;
        p->max_steps = (uint64_t)budget->integer * STEPS / BUDGET;
    }
    if (id == OPT_JSON_SCHEMA_FILE || id == OPT_GRAMMAR || id == OPT_TOOLS) {
        s = files_take_unmarked(p->text, &out->file, &p->bytes, e);
        p->text = out->file;
    }
    s = s ? s : tern_constraint_open(&out->constraint, model, p, e);
    if (s && o->value[OPT_JSONL].given)
        report(s, e);
    return s;
}

void constrain_close(struct constrain *c)
{
    tern_constraint_close(c->constraint);
    free(c->file);
    *c = (struct constrain){0};
}

void constrain_print(const tern_constraint *c, const struct run_options *o)
{
    const char *what;
    for (size_t i = 0; c && !o->value[OPT_QUIET].given && (what = tern_constraint_left_out(c, i));
         i++)
        visible_error_print("not enforced: %s\n", what);
}
