/* Command lines: see parser.h. It alone knows how one is written. */
#include "app/cli/parser.h"

#include "app/cli/number.h"
#include "app/cli/out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tern_status parser_usage(struct tern_error *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    e->code = TERN_USAGE;
    vsnprintf(e->text, sizeof e->text, format, ap);
    va_end(ap);
    return TERN_USAGE;
}

enum tern_status parser_no_memory_for(struct tern_error *e, const char *format, ...)
{
    va_list ap;
    int n = snprintf(e->text, sizeof e->text, "not enough memory for ");
    va_start(ap, format);
    vsnprintf(e->text + n, sizeof e->text - (size_t)n, format, ap);
    va_end(ap);
    return e->code = TERN_NO_MEMORY;
}

enum tern_status parser_no_memory(struct tern_error *e)
{
    return parser_no_memory_for(e, "the options");
}

static bool may_take_value(const struct option_row *r)
{
    return r->kind == OPTIONAL_CHOICE || r->kind == OPTIONAL_INTEGER;
}

/* The name or the words of the value; NULL: none is taken */
static const char *value_of(const struct option_row *r)
{
    return r->words ? r->words() : r->value;
}

static bool needs_value(const struct option_row *r)
{
    return value_of(r) && !may_take_value(r);
}

static const char *value_hint(const struct option_table *t, const char *spelled, const char *value)
{
    return t->value_hint ? t->value_hint(spelled, value) : NULL;
}

/* ---- names -------------------------------------------------------------------------------- */

/* The next word of a list separated by `gap`, or NULL; *n its length. */
static const char *next_word(const char **list, char gap, size_t *n)
{
    const char *word = *list;
    if (!*word)
        return NULL;
    const char *end = strchr(word, gap);
    *n = end ? (size_t)(end - word) : strlen(word);
    *list = word + *n + (end != NULL);
    return word;
}

bool parser_in_list(const char *list, char gap, const char *text, size_t n)
{
    size_t bytes;
    for (const char *word; (word = next_word(&list, gap, &bytes));)
        if (bytes == n && !memcmp(word, text, n))
            return true;
    return false;
}

static int find_name(const struct option_table *t, const char *name, size_t n)
{
    int i = 0;
    while (i < t->n && !parser_in_list(t->rows[i].names, ' ', name, n))
        i++;
    return i;
}

static int find_letter(const struct option_table *t, char letter)
{
    int i = 0;
    while (i < t->n && t->rows[i].letter != letter)
        i++;
    return i;
}

/* Edit distance of a [n] and b [m], both at most 31 long: insertions, deletions, replacements and
 * neighbours that changed places. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t d[32][32];
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

/* Cost of having meant a word: characters that lack, where it is only cut; else 32 an edit. */
static void try_names(const char *list, const char *name, size_t n, const char **found,
                      size_t *bytes, size_t *best)
{
    size_t m, cost;
    for (const char *word; (word = next_word(&list, ' ', &m));) {
        const char *begin = word + (*word == '-');
        size_t length = m - (size_t)(begin - word);
        if (length >= 32)
            continue;
        cost = length > n && !memcmp(begin, name, n) ? length - n
                                                     : 32 * distance(name, n, begin, length);
        if (cost < *best)
            *best = cost, *found = word, *bytes = m;
    }
}

/* The option whose name is nearest to name [n], as "--temp" in `text`; false: none is near. */
static bool find_nearest(const struct option_table *t, const char *name, size_t n, char *text,
                         size_t room)
{
    const char *found = NULL;
    size_t bytes = 0, best = n < 4 ? 2 * 32 : 3 * 32; /* of a short name two edits leave little */
    for (int i = 0; n > 1 && n < 32 && i < t->n; i++)
        try_names(t->rows[i].names, name, n, &found, &bytes, &best);
    if (found)
        snprintf(text, room, "%s%.*s", *found == '-' ? "" : "--", (int)bytes, found);
    return found != NULL;
}

static enum tern_status unknown(const struct option_table *t, const char *argument,
                                struct tern_error *e)
{
    const char *name = argument + strspn(argument, "-");
    char nearest[40];
    if (find_nearest(t, name, strcspn(name, "="), nearest, sizeof nearest))
        return parser_usage(e, "unknown option '%.100s'; did you mean %s?", argument, nearest);
    return parser_usage(e, "unknown option '%.100s'; %s", argument, t->unknown);
}

/* ---- values ------------------------------------------------------------------------------- */

static enum tern_status bad_value(const struct option_table *t, const struct option_row *r,
                                  const char *spelled, const char *value, struct tern_error *e)
{
    const char *hint = value_hint(t, spelled, value);
    if (hint)
        return parser_usage(e, "%.40s %.100s: %s", spelled, value, hint);
    if (r->kind == SEED)
        return parser_usage(
            e,
            "%.40s: '%.100s' is not an integer from 0 to 18446744073709551615 (without "
            "the option, every run uses another seed)",
            spelled, value);
    if (r->kind == CHOICE || r->kind == OPTIONAL_CHOICE)
        return parser_usage(e, "%.40s: '%.100s' is not one of %s", spelled, value, value_of(r));
    return parser_usage(e, "%.40s: '%.100s' is not %s from %lld to %lld", spelled, value,
                        r->kind == REAL ? "a number" : "an integer", (long long)r->min,
                        (long long)r->max);
}

static bool read_value(const struct option_table *t, const struct option_row *r,
                       const char *spelled, const char *value, struct option_value *v)
{
    switch (r->kind) {
    case OPTIONAL_INTEGER:
        if (!value)
            return true; /* fall through */
    case INTEGER:
        return number_i64(value, strlen(value), &v->integer) && v->integer >= r->min &&
               v->integer <= r->max;
    case SEED:
        return number_u64(value, strlen(value), &v->seed);
    case REAL:
        return number_real(value, &v->real) && v->real >= (double)r->min &&
               v->real <= (double)r->max;
    case CHOICE:
    case OPTIONAL_CHOICE:
        return !value || parser_in_list(value_of(r), '|', value, strlen(value));
    case TEXT:
    case LIST:
        return !value_hint(t, spelled, value);
    default:
        return true;
    }
}

static enum tern_status store(struct parser *p, int id, const char *spelled, const char *value,
                              struct tern_error *e)
{
    const struct option_row *rows = p->table->rows, *r = &rows[id];
    struct option_value *v = &p->value[id];
    v->given = true;
    v->text = value;
    if (!read_value(p->table, r, spelled, value, v))
        return bad_value(p->table, r, spelled, value, e);
    if (r->kind == LIST)
        p->texts[p->n_texts++] = (struct parser_text){id, value};
    if (r->kind == JOB) {
        if (p->job != p->table->n && p->job != id)
            return parser_usage(e, "--%.*s and --%.*s cannot go together",
                                OPTION_NAME(&rows[p->job]), OPTION_NAME(r));
        p->job = id;
    }
    return TERN_OK;
}

/* ---- the command line --------------------------------------------------------------------- */

/* The option that argument `a` begins with; *n is the length of its name with the dashes. `-temp`
 * is no option: it would be -t with the value "emp". */
static int find_option(const struct option_table *t, const char *a, size_t *n)
{
    *n = strcspn(a, "=");
    if (a[1] == '-')
        return find_name(t, a + 2, *n - 2);
    int id = a[2] ? find_name(t, a, strlen(a)) : t->n;
    if (id == t->n && find_name(t, a + 1, *n - 1) < t->n)
        return t->n;
    *n = strlen(a);
    if (id == t->n)
        *n = 2, id = find_letter(t, a[1]);
    return id;
}

/* One option beginning at argv[*i]; *i is left at its last argument. */
static enum tern_status parse_option(struct parser *p, int argc, char **argv, int *i,
                                     struct tern_error *e)
{
    const struct option_table *t = p->table;
    const char *a = argv[*i], *hint = t->find_hint ? t->find_hint(a) : NULL, *value = NULL;
    char spelled[40];
    size_t n;
    bool is_long = a[1] == '-';
    if (hint)
        return parser_usage(e, "%.100s: %s", a, hint);
    int id = find_option(t, a, &n);
    if (id == t->n)
        return unknown(t, a, e);
    const struct option_row *r = &t->rows[id];
    snprintf(spelled, sizeof spelled, "%.*s", (int)n, a);
    if (a[n])
        value = a + n + is_long;
    if (!value_of(r) && value) {
        if (is_long)
            return parser_usage(e, "%s takes no value", spelled);
        return unknown(t, a, e);
    }
    if (needs_value(r) && !value) {
        if (*i + 1 >= argc)
            return parser_usage(e, "%s needs a value: %s", spelled, value_of(r));
        value = argv[++*i];
    }
    return store(p, id, spelled, value, e);
}

enum tern_status parser_open(struct parser *p, const struct option_table *table,
                             struct option_value *value, int argc, char **argv,
                             struct tern_error *e)
{
    size_t room = (size_t)(argc > 0 ? argc : 1);
    bool only_words = false;
    *p = (struct parser){.table = table, .value = value, .job = table->n};
    p->texts = calloc(room, sizeof *p->texts);
    p->words = calloc(room, sizeof *p->words);
    if (!p->texts || !p->words)
        return parser_no_memory(e);
    for (int i = 1; i < argc; i++) {
        enum tern_status s = TERN_OK;
        if (!only_words && !strcmp(argv[i], "--"))
            only_words = true;
        else if (!only_words && argv[i][0] == '-' && argv[i][1])
            s = parse_option(p, argc, argv, &i, e);
        else
            p->words[p->n_words++] = argv[i];
        if (s)
            return s;
    }
    return TERN_OK;
}

void parser_close(struct parser *p)
{
    free(p->texts);
    free(p->words);
}

/* ---- --help ------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 28, HELP_WIDTH = 79 };

/* Writes text from column `at` on, wrapped at words, every further line at HELP_COLUMN. */
static void wrap(size_t at, const char *text)
{
    size_t n = 0;
    if (at >= HELP_COLUMN) {
        out_print("\n");
        at = 0;
    }
    for (const char *word; (word = next_word(&text, ' ', &n));) {
        size_t gap = at < HELP_COLUMN ? HELP_COLUMN - at : at > HELP_COLUMN;
        if (at + gap + n > HELP_WIDTH) {
            out_print("\n");
            at = 0;
            gap = HELP_COLUMN;
        }
        out_print("%*s%.*s", (int)gap, "", (int)n, word);
        at += gap + n;
    }
    out_print("\n");
}

static void help_row(const struct option_row *r)
{
    char left[80], right[512];
    const char *names = r->names, *gap = "; also";
    size_t n = 0;
    if (r->title)
        out_print("\n%s\n", r->title);
    const char *name = next_word(&names, ' ', &n);
    char letter[] = {'-', r->letter, ',', 0};
    size_t at =
        (size_t)snprintf(left, sizeof left, "  %3s --%.*s", r->letter ? letter : "", (int)n, name);
    if (value_of(r))
        at += (size_t)snprintf(left + at, sizeof left - at, needs_value(r) ? " %s" : "[=%s]",
                               value_of(r));
    size_t used = (size_t)snprintf(right, sizeof right, "%s", r->help);
    for (const char *word; (word = next_word(&names, ' ', &n)); gap = ",")
        used += (size_t)snprintf(right + used, sizeof right - used, "%s %s%.*s", gap,
                                 *word == '-' ? "" : "--", (int)n, word);
    out_print("%s", left);
    wrap(at, right);
}

void parser_help(const struct option_table *t)
{
    out_print("Examples:\n%s\n%s", t->examples, t->usage);
    for (int i = 0; i < t->n; i++)
        help_row(&t->rows[i]);
}
