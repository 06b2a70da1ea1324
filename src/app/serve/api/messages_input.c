/* A conversation of /v1/messages: see messages_input.h. */
#include "app/serve/api/messages_input.h"

#include "app/cli/growing_text.h"
#include "app/serve/api/carried_thought.h"
#include "app/serve/http/json_wide.h"
#include "app/serve/serve_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum speaker { USER, ASSISTANT, SYSTEM };

struct messages_reader {
    struct turn *turn;
    struct fault *fault;
    enum speaker speaker;
    struct growing_text thought, text; /* of the assistant's message, not in the dialog yet */
};

static bool is(const char *a, const char *b)
{
    return !strcmp(a, b);
}

static void add(struct growing_text *t, const char *text, size_t n)
{
    growing_text_add(t, text, n);
}

static void add_line(struct growing_text *t, const char *text, size_t n)
{
    if (t->n && n)
        add(t, "\n", 1);
    add(t, text, n);
}

/* What the assistant thought and wrote so far */
static void end_text(struct messages_reader *in)
{
    if (in->thought.n || in->text.n)
        dialog_assistant(in->turn->dialog, in->text.p, in->text.n, in->thought.p, in->thought.n);
    in->thought.n = in->text.n = 0;
}

/* A text of the message's speaker */
static void say(struct messages_reader *in, const char *place, const char *text, size_t n)
{
    struct dialog *d = in->turn->dialog;
    size_t skip = in->speaker == SYSTEM ? turn_skip_billing(in->turn, place, text, n) : 0;
    if (in->speaker == ASSISTANT)
        add(&in->text, text, n);
    else if (in->speaker == USER)
        dialog_user(d, text, n);
    else if (!skip)
        dialog_system(d, text, n);
    else if (skip < n)
        dialog_system(d, text + skip, n - skip);
}

/* ---- blocks within blocks: results, documents ------------------------------------------------ */

static bool add_content(struct messages_reader *in, struct fields *f, struct growing_text *t);

/* A result of a search: its title and where it is from, a line each, then its text */
static bool add_search_result(struct messages_reader *in, struct fields *f, struct growing_text *t)
{
    static const char *const names[] = {"title", "source"};
    fields_ignore(f, "type cache_control");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = NULL;
        size_t n = 0;
        if (!fields_text(f, names[i], &text, &n))
            return false;
        add_line(t, text, n);
    }
    return add_content(in, f, t);
}

static bool add_inner(struct messages_reader *in, json_t *block, const char *place,
                      struct growing_text *t)
{
    struct fields f;
    const char *type = "text", *text = NULL;
    size_t n = 0;
    bool ok = true;
    if (!fields_open(&f, block, place, in->fault) || !fields_text(&f, "type", &type, NULL))
        return false;
    if (is(type, "search_result")) {
        ok = add_search_result(in, &f, t);
    } else if (is(type, "text")) {
        ok = fields_text(&f, "text", &text, &n);
        add_line(t, text, n);
        fields_ignore(&f, "cache_control citations");
    } else {
        add_line(t, DIALOG_LEFT_OUT, strlen(DIALOG_LEFT_OUT));
        turn_ignore(in->turn, "%s (%.40s)", place, type);
        return true;
    }
    turn_unknown(in->turn, &f);
    return ok;
}

/* The text of field `content`: a string, or an array of blocks. What is no text there is left out, and not
 * refused: the client will send it again in each request to come. */
static bool add_content(struct messages_reader *in, struct fields *f, struct growing_text *t)
{
    struct fields_parts p;
    bool ok = fields_parts(f, "content", "blocks", &p);
    while (ok && fields_next_part(&p))
        if (p.whole)
            add_line(t, json_string_value(p.part), json_string_length(p.part));
        else
            ok = add_inner(in, p.part, p.place, t);
    return ok;
}

/* ---- blocks of a message --------------------------------------------------------------------- */

static bool read_text(struct messages_reader *in, struct fields *f)
{
    const char *text = NULL;
    size_t n = 0;
    fields_ignore(f, "type cache_control citations");
    if (!fields_need(f, "text") || !fields_text(f, "text", &text, &n))
        return false;
    say(in, f->place, text, n);
    return true;
}

/* The thought, or what the client carried of it */
static bool read_thinking(struct messages_reader *in, struct fields *f)
{
    const char *thought = NULL, *signature = NULL;
    size_t n = 0, carried = 0;
    fields_ignore(f, "type cache_control");
    if (!fields_text(f, "thinking", &thought, &n) ||
        !fields_text(f, "signature", &signature, &carried))
        return false;
    if (in->text.n)
        end_text(in);
    if (n)
        add(&in->thought, thought, n);
    else if (signature)
        (void)carried_thought_read(&in->thought, signature, carried);
    return true;
}

static bool read_tool_use(struct messages_reader *in, struct fields *f)
{
    const char *id = NULL, *name = NULL;
    fields_ignore(f, "type cache_control caller toolset_name");
    if (!fields_text(f, "id", &id, NULL) || !fields_text(f, "name", &name, NULL))
        return false;
    json_t *arguments = fields_any(f, "input");
    char *text = json_plain(arguments);
    end_text(in);
    dialog_call(in->turn->dialog, id, name, text, text ? strlen(text) : 0);
    free(text);
    return true;
}

/* A result that is an error says so in its text, for no template has another place for that. */
static bool read_tool_result(struct messages_reader *in, struct fields *f)
{
    static const char error[] = "Error: ";
    const char *id = NULL;
    bool failed = false;
    struct growing_text t = {0}, whole = {0};
    fields_ignore(f, "type cache_control toolset_name");
    bool ok = fields_text(f, "tool_use_id", &id, NULL) && fields_bool(f, "is_error", &failed) &&
              add_content(in, f, &t);
    if (failed)
        add(&whole, error, sizeof error - 1);
    add(&whole, t.p, t.n);
    if (ok)
        dialog_result(in->turn->dialog, id, NULL, whole.p, whole.n);
    growing_text_close(&t);
    growing_text_close(&whole);
    return ok;
}

static bool say_inner(struct messages_reader *in, struct fields *f,
                      bool (*add_it)(struct messages_reader *in, struct fields *f,
                                     struct growing_text *t))
{
    struct growing_text t = {0};
    bool ok = add_it(in, f, &t);
    if (ok)
        say(in, f->place, t.p, t.n);
    growing_text_close(&t);
    return ok;
}

static bool read_search_result(struct messages_reader *in, struct fields *f)
{
    return say_inner(in, f, add_search_result);
}

/* A system text of a later time */
static bool read_system_block(struct messages_reader *in, struct fields *f)
{
    fields_ignore(f, "type cache_control");
    return say_inner(in, f, add_content);
}

/* Thoughts of another server that nobody can read */
static bool skip(struct messages_reader *in, struct fields *f)
{
    turn_ignore(in->turn, "%s (redacted_thinking)", f->place);
    fields_ignore(f, "type data");
    return true;
}

static bool refuse_media(struct messages_reader *in, struct fields *f)
{
    const char *type = json_string_value(fields_any(f, "type"));
    (void)in;
    return fields_fault(f, "type", "unsupported_content",
                        "is %s: this server's models read text only", type);
}

static const struct {
    const char *type;
    bool (*read)(struct messages_reader *in, struct fields *f);
} kinds[] = {
    {"text", read_text},
    {"tool_use", read_tool_use},
    {"tool_result", read_tool_result},
    {"thinking", read_thinking},
    {"redacted_thinking", skip},
    {"search_result", read_search_result},
    {"mid_conv_system", read_system_block},
    {"image", refuse_media},
    {"document", refuse_media},
};

static bool read_block(struct messages_reader *in, json_t *block, const char *place)
{
    struct fields f;
    const char *type = NULL;
    if (!fields_open(&f, block, place, in->fault) || !fields_need(&f, "type") ||
        !fields_text(&f, "type", &type, NULL))
        return false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (is(type, kinds[k].type)) {
            bool ok = kinds[k].read(in, &f);
            turn_unknown(in->turn, &f);
            return ok;
        }
    turn_ignore(in->turn, "%s (%.40s)", place, type);
    return true;
}

/* Field `name` of f, a string or an array of blocks, as said by in->speaker. */
static bool read_content(struct messages_reader *in, struct fields *f, const char *name)
{
    struct fields_parts p;
    bool ok = fields_parts(f, name, "blocks", &p);
    while (ok && fields_next_part(&p))
        if (p.whole)
            say(in, p.place, json_string_value(p.part), json_string_length(p.part));
        else
            ok = read_block(in, p.part, p.place);
    return ok;
}

/* ---- the whole -------------------------------------------------------------------------------- */

static bool read_system(struct messages_reader *in, struct fields *f)
{
    in->speaker = SYSTEM;
    return read_content(in, f, "system");
}

static bool read_message(struct messages_reader *in, json_t *message, size_t i)
{
    struct fields f;
    char place[32];
    size_t role = USER;
    (void)snprintf(place, sizeof place, "messages[%zu]", i);
    if (!fields_open(&f, message, place, in->fault) || !fields_need(&f, "role") ||
        !fields_choice(&f, "role", "user|assistant|system", &role) || !fields_need(&f, "content"))
        return false;
    in->speaker = (enum speaker)role;
    bool ok = read_content(in, &f, "content");
    end_text(in);
    in->turn->prefill = in->speaker == ASSISTANT;
    turn_unknown(in->turn, &f);
    return ok;
}

bool messages_input_read(struct turn *t, const struct server *s, struct fields *f)
{
    struct messages_reader in = {.turn = t, .fault = f->fault};
    json_t *messages = NULL, *message;
    size_t i;
    if (!read_system(&in, f) || !fields_need(f, "messages") ||
        !fields_array(f, "messages", (size_t)serve_number(s->options, SERVE_MAX_MESSAGES),
                      &messages))
        return false;
    bool ok = json_array_size(messages) ||
              fields_fault(f, "messages", "empty_array", "must have at least one message");
    if (ok)
        json_array_foreach(messages, i, message) if (!(ok = read_message(&in, message, i))) break;
    growing_text_close(&in.thought);
    growing_text_close(&in.text);
    return ok;
}
