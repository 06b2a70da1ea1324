/* Sessions: see resume.h. */
#include "app/run/resume.h"

#include "app/cli/signals.h"
#include "app/cli/visible.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void say(tern_context *ctx, const struct run_options *o, const char *what)
{
    if (o->value[OPT_VERBOSE].given)
        visible_error_print("session: %u tokens %s %s\n", tern_seq_length(ctx, 0), what,
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

/* What would only be seen after the text: there is a folder that takes a new file. */
static enum tern_status check_folder(const char *path, struct tern_error *e)
{
    const char *slash = strrchr(path, '/');
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    if (!access(folder, W_OK | X_OK))
        return TERN_OK;
    snprintf(e->text, sizeof e->text, "--session %.200s: cannot write to its folder: %s", path,
             strerror(errno));
    return e->code = TERN_IO;
}

enum tern_status resume_open(tern_context *ctx, const struct run_options *o, struct tern_error *e)
{
    const char *path = o->value[OPT_SESSION].text;
    struct stat there;
    if (!path)
        return TERN_OK;
    if (!strcmp(path, "-"))
        return parser_usage(e, "--session needs the name of a file, and - is none");
    if (lstat(path, &there))
        return check_folder(path, e);
    if (S_ISLNK(there.st_mode))
        return parser_usage(e, "--session %.200s is a link; name the file itself", path);
    struct tern_error cause = {0};
    if (tern_session_load(ctx, 0, path, &cause))
        return named(path, &cause, e);
    say(ctx, o, "restored from");
    return check_folder(path, e);
}

/* The answer of the person at the terminal; false without one, and after a signal. */
static bool may_replace(const char *path)
{
    char line[256];
    visible_error_print("session: %s holds another text. Replace it? [y/N] ", path);
    ssize_t n = signals_wait(STDIN_FILENO) ? read(STDIN_FILENO, line, sizeof line) : 0;
    return n > 0 && (*line == 'y' || *line == 'Y');
}

enum tern_status resume_check(const tern_context *ctx, const struct run_options *o,
                              const tern_token *tokens, size_t n, bool chat, struct tern_error *e)
{
    const char *path = o->value[OPT_SESSION].text;
    const tern_token *held = tern_seq_tokens(ctx, 0);
    size_t n_held = tern_seq_length(ctx, 0), same = 0;
    while (same < n && same < n_held && held[same] == tokens[same])
        same++;
    bool differs = same < n && same < n_held && !(chat && same > 1);
    if (!path || !differs || o->value[OPT_SESSION_NEW].given)
        return TERN_OK;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return parser_usage(e, "--session %.200s holds another text; --session-new replaces it",
                            path);
    if (may_replace(path))
        return TERN_OK;
    parser_usage(e, "--session %.200s was not changed", path);
    return e->code = signals_caught() ? TERN_CANCELLED : TERN_USAGE;
}

/* Evaluates one more token. A full context (of --context-shift: else room was kept for it) is first
 * shifted as the next token would have done. */
static enum tern_status add(tern_context *ctx, tern_token last, size_t keep, struct tern_error *e)
{
    size_t n = tern_seq_length(ctx, 0) + (size_t)1, newest, held;
    for (; !tern_batch_add(ctx, 0, last, 0, NULL); tern_batch_clear(ctx))
        if (!tern_forward(ctx)) /* else a signal came since the text: once, for two end us */
            return TERN_OK;
    tern_token *tokens = malloc(n * sizeof *tokens);
    if (!tokens)
        return parser_no_memory(e);
    memcpy(tokens, tern_seq_tokens(ctx, 0), (n - 1) * sizeof *tokens);
    tokens[n - 1] = last;
    keep = keep < (n - 1) / 2 ? keep : (n - 1) / 2;
    newest = (n - keep) / 2;
    memmove(tokens + keep, tokens + n - newest, newest * sizeof *tokens);
    struct tern_generate_params p = tern_generate_defaults();
    enum tern_status s;
    do { /* twice after a signal */
        held = tern_seq_reuse(ctx, 0, tokens, keep + newest);
        p.tokens = tokens + held, p.n_tokens = keep + newest - held, p.n_predict = 0;
        s = tern_generate(ctx, &p, NULL, e);
    } while (!s && tern_seq_length(ctx, 0) < keep + newest);
    free(tokens);
    return s;
}

enum tern_status resume_save(tern_context *ctx, const struct run_options *o, tern_token last,
                             size_t keep, bool unread, struct tern_error *e)
{
    const char *path = o->value[OPT_SESSION].text;
    if (!path)
        return TERN_OK;
    if (unread) {
        visible_error_print(
            "session: %s was not changed, because the prompt was not read completely\n", path);
        return TERN_OK;
    }
    signals_hold(true);
    enum tern_status s = TERN_OK;
    if (last >= 0 && !tern_token_is_end(tern_context_model(ctx), last))
        s = add(ctx, last, keep, e);
    if (s)
        return s;
    if (!tern_seq_length(ctx, 0))
        return TERN_OK; /* nothing was said */
    struct tern_error cause = {0};
    if (tern_session_save(ctx, 0, path, &cause))
        return named(path, &cause, e);
    say(ctx, o, "saved to");
    return TERN_OK;
}
