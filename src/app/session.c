/* Sessions: see session.h. */
#include "app/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(tern_context *ctx, const struct options *o, const char *what)
{
    if (o->value[OPT_VERBOSE].given)
        fprintf(stderr, "session: %u tokens %s %s\n", tern_seq_length(ctx, 0), what,
                o->value[OPT_SESSION].text);
}

/* The sentence names the option, and the file once. */
static enum tern_status named(const char *path, const struct tern_error *cause,
                              struct tern_error *e)
{
    bool twice = strncmp(cause->text, path, strlen(path));
    snprintf(e->text, sizeof e->text, "--session %.200s%s%.280s", twice ? path : "",
             twice ? ": " : "", cause->text);
    return e->code = cause->code;
}

enum tern_status session_open(tern_context *ctx, const struct options *o, struct tern_error *e)
{
    const char *path = o->value[OPT_SESSION].text;
    if (!path || (access(path, F_OK) && errno == ENOENT))
        return TERN_OK;
    struct tern_error cause = {0};
    if (tern_session_load(ctx, 0, path, &cause))
        return named(path, &cause, e);
    say(ctx, o, "restored from");
    return TERN_OK;
}

enum tern_status session_keep(tern_context *ctx, const struct options *o, tern_token last,
                              struct tern_error *e)
{
    const char *path = o->value[OPT_SESSION].text;
    if (!path)
        return TERN_OK;
    if (last >= 0 && !tern_token_is_end(tern_context_model(ctx), last) &&
        !tern_batch_add(ctx, 0, last, 0, NULL))
        (void)tern_forward(ctx);
    if (!tern_seq_length(ctx, 0))
        return TERN_OK; /* nothing was said */
    struct tern_error cause = {0};
    if (tern_session_save(ctx, 0, path, &cause))
        return named(path, &cause, e);
    say(ctx, o, "saved to");
    return TERN_OK;
}
