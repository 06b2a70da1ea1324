/* Items of a conversation: see responses_input.h. */
#include "app/serve/api/responses_input.h"

#include "app/cli/growing_text.h"
#include "app/serve/api/carried_thought.h"
#include "app/serve/http/json_wide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct responses_reader {
    struct turn *turn;
    struct fault *fault;
    struct growing_text thought; /* of the answer whose text or call comes next */
};

static void add(struct growing_text *t, const char *text, size_t n)
{
    growing_text_add(t, text, n);
}

/* ---- content -------------------------------------------------------------------------------- */

/* What a part of content of this type has its text in; NULL: nowhere. */
static const char *text_field(const char *type)
{
    static const char *const texts[] = {"input_text", "output_text", "text", "summary_text",
                                        "reasoning_text"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(type, texts[i]))
            return "text";
    return strcmp(type, "refusal") ? NULL : "refusal";
}

static bool is_media(const char *type)
{
    return !strncmp(type, "input_", 6) && strcmp(type, "input_text");
}

/* Appends the text of a part. An image or a file is refused in what a person says. In the result of a tool
 * it is left out, for the client will send that result again in each request to come. */
static bool add_part(struct responses_reader *in, json_t *part, const char *place, bool result,
                     struct growing_text *t)
{
    struct fields f;
    const char *type = "text", *text = NULL;
    size_t n = 0;
    if (!fields_open(&f, part, place, in->fault) || !fields_text(&f, "type", &type, NULL))
        return false;
    const char *name = text_field(type);
    if (name) {
        if (!fields_text(&f, name, &text, &n))
            return false;
        add(t, text, n);
        fields_ignore(&f, "annotations logprobs prompt_cache_breakpoint");
        turn_unknown(in->turn, &f);
        return true;
    }
    if (is_media(type) && !result)
        return fields_fault(&f, "type", "unsupported_content",
                            "is %s: this server's models read text only", type);
    if (is_media(type))
        add(t, DIALOG_LEFT_OUT, strlen(DIALOG_LEFT_OUT));
    turn_ignore(in->turn, "%s (%.40s)", place, type);
    return true;
}

/* Appends the text of field `name`: a string, or an array of parts. */
static bool add_content(struct responses_reader *in, struct fields *f, const char *name,
                        bool result, struct growing_text *t)
{
    struct fields_parts p;
    bool ok = fields_parts(f, name, "parts", &p);
    while (ok && fields_next_part(&p))
        if (p.whole)
            add(t, json_string_value(p.part), json_string_length(p.part));
        else
            ok = add_part(in, p.part, p.place, result, t);
    return ok;
}

/* ---- items ---------------------------------------------------------------------------------- */

/* A thought that no text follows: a call does, or the answer was cut off while it thought. */
static void end_thought(struct responses_reader *in)
{
    if (in->thought.n)
        dialog_assistant(in->turn->dialog, "", 0, in->thought.p, in->thought.n);
    in->thought.n = 0;
}

static bool read_message(struct responses_reader *in, struct fields *f)
{
    enum { USER, ASSISTANT, SYSTEM, DEVELOPER };
    struct dialog *d = in->turn->dialog;
    struct growing_text t = {0};
    size_t role = USER;
    fields_ignore(f, "type id status phase");
    if (!fields_need(f, "role") ||
        !fields_choice(f, "role", "user|assistant|system|developer", &role))
        return false;
    bool ok = add_content(in, f, "content", role == ASSISTANT, &t);
    if (role != ASSISTANT)
        end_thought(in);
    if (ok && role == ASSISTANT) {
        dialog_assistant(d, t.p, t.n, in->thought.p, in->thought.n);
        in->thought.n = 0;
    } else if (ok && role >= SYSTEM) {
        dialog_system(d, t.p, t.n);
    } else if (ok) {
        dialog_user(d, t.p, t.n);
    }
    growing_text_close(&t);
    return ok;
}

/* A value as a text: a string as it is, anything else as JSON, which the caller frees. */
static char *text_of(const json_t *value, size_t *n)
{
    char *text = json_is_string(value) ? strdup(json_string_value(value)) : json_plain(value);
    *n = text ? strlen(text) : 0;
    return text;
}

static bool read_call(struct responses_reader *in, struct fields *f)
{
    const char *id = NULL, *name = NULL;
    size_t n = 0;
    fields_ignore(f, "type id status namespace caller async");
    if (!fields_text(f, "call_id", &id, NULL) || !fields_text(f, "name", &name, NULL))
        return false;
    json_t *arguments = fields_any(f, "arguments");
    char *text = arguments ? text_of(arguments, &n) : NULL;
    end_thought(in);
    dialog_call(in->turn->dialog, id, name, text, n);
    free(text);
    return true;
}

/* A call of a tool whose type makes its arguments: {"input": "..."} of a custom one, {"command": [...]} of a
 * shell. */
static bool read_special_call(struct responses_reader *in, struct fields *f, const char *own_name,
                              const char *field)
{
    const char *id = NULL, *name = own_name;
    fields_ignore(f, "type id status namespace caller async environment");
    if (!fields_text(f, "call_id", &id, NULL) || !fields_text(f, "name", &name, NULL))
        return false;
    json_t *value = fields_any(f, field);
    json_t *arguments = json_is_members(value) ? json_incref(value)
                        : value                ? json_pack("{s:O}", field, value)
                                               : json_object();
    char *text = json_plain(arguments);
    end_thought(in);
    dialog_call(in->turn->dialog, id, name, text, text ? strlen(text) : 0);
    free(text);
    json_decref(arguments);
    return true;
}

static bool read_custom_call(struct responses_reader *in, struct fields *f)
{
    return read_special_call(in, f, NULL, "input");
}

static bool read_local_shell_call(struct responses_reader *in, struct fields *f)
{
    return read_special_call(in, f, "local_shell", "action");
}

static bool read_shell_call(struct responses_reader *in, struct fields *f)
{
    return read_special_call(in, f, "shell", "action");
}

static bool read_patch_call(struct responses_reader *in, struct fields *f)
{
    return read_special_call(in, f, "apply_patch", "operation");
}

static bool read_result(struct responses_reader *in, struct fields *f)
{
    const char *id = NULL, *name = NULL;
    struct growing_text t = {0};
    fields_ignore(f, "type id status namespace caller max_output_length");
    if (!fields_text(f, "call_id", &id, NULL) || !fields_text(f, "name", &name, NULL))
        return false;
    json_t *output = fields_any(f, "output");
    bool parts = json_is_array(output) && json_object_get(json_array_get(output, 0), "type");
    bool ok = true;
    if (json_is_string(output) || parts) {
        ok = add_content(in, f, "output", true, &t);
    } else if (output) { /* what a shell said: an array of stdout, stderr and outcome */
        size_t n;
        char *text = text_of(output, &n);
        add(&t, text, n);
        free(text);
    }
    end_thought(in);
    if (ok)
        dialog_result(in->turn->dialog, id, name, t.p, t.n);
    growing_text_close(&t);
    return ok;
}

/* The thought itself, or what a client carried of it, or its summary */
static bool read_reasoning(struct responses_reader *in, struct fields *f)
{
    const char *carried = NULL;
    size_t n = 0;
    end_thought(in);
    fields_ignore(f, "type id status");
    if (!add_content(in, f, "content", true, &in->thought) ||
        !fields_text(f, "encrypted_content", &carried, &n))
        return false;
    if (!in->thought.n && carried && carried_thought_read(&in->thought, carried, n))
        return true;
    struct growing_text summary = {0};
    bool ok = add_content(in, f, "summary", true, &summary);
    if (ok && !in->thought.n)
        add(&in->thought, summary.p, summary.n);
    growing_text_close(&summary);
    return ok;
}

static bool refuse_reference(struct responses_reader *in, struct fields *f)
{
    (void)in;
    return fields_fault(f, "type", "unsupported_item",
                        "is item_reference: this server stores no items; send the item itself");
}

static const struct {
    const char *type;
    bool (*read)(struct responses_reader *in, struct fields *f);
} kinds[] = {
    {"message", read_message},
    {"function_call", read_call},
    {"function_call_output", read_result},
    {"custom_tool_call", read_custom_call},
    {"custom_tool_call_output", read_result},
    {"local_shell_call", read_local_shell_call},
    {"local_shell_call_output", read_result},
    {"shell_call", read_shell_call},
    {"shell_call_output", read_result},
    {"apply_patch_call", read_patch_call},
    {"apply_patch_call_output", read_result},
    {"reasoning", read_reasoning},
    {"item_reference", refuse_reference},
};

static bool read_item(struct responses_reader *in, json_t *item, size_t i)
{
    struct fields f;
    char place[32];
    const char *type = NULL;
    (void)snprintf(place, sizeof place, "input[%zu]", i);
    if (!fields_open(&f, item, place, in->fault) || !fields_text(&f, "type", &type, NULL))
        return false;
    if (!type) /* a message need not say so, nor a reference, which has nothing but an id */
        type = fields_has(&f, "role") || !fields_has(&f, "id") ? "message" : "item_reference";
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(type, kinds[k].type)) {
            bool ok = kinds[k].read(in, &f);
            turn_unknown(in->turn, &f);
            return ok;
        }
    turn_ignore(in->turn, "%s (%.40s)", place, type);
    return true;
}

bool responses_input_read(struct turn *t, json_t *input, struct fault *f)
{
    struct responses_reader in = {.turn = t, .fault = f};
    if (json_is_string(input)) {
        dialog_user(t->dialog, json_string_value(input), json_string_length(input));
        return true;
    }
    if (!json_is_array(input)) {
        fault_set(f, 400, NULL, "invalid_type", "input",
                  "input must be a string or an array of items");
        return false;
    }
    if (json_array_size(input) == 0) { /* as OpenAI's servers, also beside instructions */
        fault_set(f, 400, NULL, "empty_array", "input", "input must have at least one item");
        return false;
    }
    bool ok = true;
    size_t i;
    json_t *item;
    json_array_foreach(input, i, item) if (!(ok = read_item(&in, item, i))) break;
    if (ok)
        end_thought(&in);
    growing_text_close(&in.thought);
    return ok;
}
