/* The options of `serve`: see serve_options.h. */
#include "app/serve/serve_options.h"

#include "app/cli/out.h"
#include "app/serve/http/listener.h"
#include "app/serve/serve_rows.h"

#include <stdlib.h>
#include <string.h>

static const struct option_table table = {
    .examples = "  serve model.bin                          a chat page at http://127.0.0.1:8080\n"
                "  serve model.bin --port 9000 -np 8        eight requests at a time\n"
                "  serve model.bin --host 0.0.0.0 --api-key-file keys    for other machines\n",
    .usage = "usage: serve MODEL [options]\n"
             "\n"
             "Serves a model to programs that use OpenAI's or Anthropic's API; their base URL\n"
             "is http://127.0.0.1:8080/v1, or without /v1. A browser gets a page to chat.\n"
             "Ctrl-C ends it.\n",
    .rows = serve_rows,
    .n = N_SERVE_OPTIONS,
    .unknown = "--help lists all",
};

static enum tern_status take_words(struct serve_options *o, const struct parser *p,
                                   struct tern_error *e)
{
    size_t n = 0;
    o->model = o->value[SERVE_MODEL].text;
    if (!o->model && p->n_words)
        o->model = p->words[n++];
    if (n < p->n_words)
        return parser_usage(e, "'%.100s' is one argument too many", p->words[n]);
    return TERN_OK;
}

static enum tern_status take_lists(struct serve_options *o, const struct parser *p,
                                   struct tern_error *e)
{
    o->keys = calloc(2 * p->n_texts + 2, sizeof *o->keys);
    if (!o->keys)
        return parser_no_memory(e);
    o->hosts = o->keys + p->n_texts + 1;
    for (size_t i = 0; i < p->n_texts; i++)
        if (p->texts[i].option == SERVE_API_KEY)
            o->keys[o->n_keys++] = p->texts[i].text;
        else
            o->hosts[o->n_hosts++] = p->texts[i].text;
    return TERN_OK;
}

static void fill_defaults(struct serve_options *o)
{
    for (int i = 0; i < N_SERVE_OPTIONS; i++)
        if (!o->value[i].given)
            o->value[i].integer = serve_defaults[i];
    if (!o->value[SERVE_HOST].given)
        o->value[SERVE_HOST].text = "127.0.0.1";
}

/* Origins are compared as browsers write them: scheme, host and port, in small letters. */
static enum tern_status check_origins(const char *list, struct tern_error *e)
{
    if (!list || !strcmp(list, "*"))
        return TERN_OK;
    for (size_t n; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        size_t scheme = strncmp(list, "http://", 7) == 0 ? 7 : strncmp(list, "https://", 8) == 0 ? 8 : 0;
        size_t good = scheme + strspn(list + scheme, "abcdefghijklmnopqrstuvwxyz0123456789.-:[]");
        if (!scheme || good == scheme || good != n)
            return parser_usage(e,
                                "--cors: '%.*s' is no origin, as http://a.example:3000 is (small "
                                "letters, no blanks, nothing behind the port)",
                                n < 60 ? (int)n : 60, list);
    }
    return TERN_OK;
}

/* Whoever can reach the server can use it, so others than this machine need a key. */
static enum tern_status check_whole(const struct serve_options *o, struct tern_error *e)
{
    const char *env = getenv("TERN_API_KEY");
    struct listener l;
    enum tern_status s = listener_check(&l, o->value[SERVE_HOST].text, e);
    if (s || (s = check_origins(o->value[SERVE_CORS].text, e)))
        return s;
    if (!l.loopback && !o->n_keys && !o->value[SERVE_API_KEY_FILE].given && !(env && *env))
        return parser_usage(e,
                            "--host %.60s lets other machines in, so a key is needed: "
                            "--api-key-file, --api-key or TERN_API_KEY",
                            o->value[SERVE_HOST].text);
    if (o->value[SERVE_CACHE_DIR].given && !o->value[SERVE_CACHE_RAM].integer)
        return parser_usage(e, "--cache-dir saves what --cache-ram holds, and that is 0: leave one of the two out");
    if (!o->model || !*o->model)
        return parser_usage(e, "no weights file was given; usage: serve MODEL [options] (--help "
                               "shows examples)");
    return TERN_OK;
}

enum tern_status serve_options_open(struct serve_options *o, int argc, char **argv,
                                    struct tern_error *e)
{
    struct parser p;
    memset(o, 0, sizeof *o);
    enum tern_status s = parser_open(&p, &table, o->value, argc, argv, e);
    o->job = (enum serve_option)p.job;
    if (!s)
        s = take_lists(o, &p, e);
    if (!s)
        s = take_words(o, &p, e);
    fill_defaults(o);
    if (!s && o->job == N_SERVE_OPTIONS)
        s = check_whole(o, e);
    parser_close(&p);
    return s;
}

void serve_options_close(struct serve_options *o)
{
    free(o->keys);
    o->keys = o->hosts = NULL;
}

void serve_options_help(void)
{
    parser_help(&table);
    out_print("\nExit codes are those of run. man tern-serve says more.\n");
}
