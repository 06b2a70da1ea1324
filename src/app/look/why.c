/* Why a token comes next: see why.h; tern_contributions has the formulas. */
#include "app/look/why.h"

#include "app/cli/number.h"
#include "app/cli/out.h"
#include "app/look/page.h"
#include "app/look/paint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN = 30 };

enum place { INPUT, LAYER, PART, OUTPUT }; /* a PART of a layer has an index */

static const struct term_name {
    const char *text;
    enum place place;
} names[] = {
    [TERN_TERM_EMBED] = {"embedding", INPUT},
    [TERN_TERM_POSITION] = {"position embedding", INPUT},
    [TERN_TERM_HEAD] = {"head", PART},
    [TERN_TERM_O_BIAS] = {"o bias", LAYER},
    [TERN_TERM_ATTN_NORM] = {"attn_post_norm bias", LAYER},
    [TERN_TERM_FFN] = {"ffn", LAYER},
    [TERN_TERM_EXPERT] = {"expert", PART},
    [TERN_TERM_SHARED] = {"shared expert", LAYER},
    [TERN_TERM_FFN_NORM] = {"ffn_post_norm bias", LAYER},
    [TERN_TERM_FINAL_NORM] = {"final_norm bias", OUTPUT},
    [TERN_TERM_BIAS] = {"bias of the token", OUTPUT},
    [TERN_TERM_ROUND_O] = {"rounding before o", LAYER},
    [TERN_TERM_PLE] = {"own embedding", LAYER},
    [TERN_TERM_LAUREL] = {"learned residual", LAYER},
    [TERN_TERM_ROUND_DOWN] = {"rounding before down", LAYER},
    [TERN_TERM_ROUND_HEAD] = {"rounding before the last matrix", OUTPUT},
    [TERN_TERM_EDITS] = {"edits", OUTPUT},
};

struct why {
    struct subject *s;
    tern_token token;
    double p;               /* its probability */
    float logit;            /* before the cap */
    struct tern_term *list; /* [n] in the order of the engine; owned */
    size_t n;
    double sum;
};

static const char *name_of(const struct tern_term *t, char text[48])
{
    const struct term_name *n = &names[t->kind];
    unsigned long long layer = t->layer, index = t->index;
    if (n->place == PART)
        snprintf(text, 48, "%s %llu.%llu", n->text, layer, index);
    else if (n->place == LAYER)
        snprintf(text, 48, "%s %llu", n->text, layer);
    else
        snprintf(text, 48, "%s", n->text);
    return text;
}

/* ---- the token ------------------------------------------------------------------------------- */

/* The token's text is `text` (exact), or a space before it. */
static bool is_text(const struct subject *s, tern_token token, const char *text)
{
    char id[16];
    size_t n, wanted = strlen(text);
    const char *bytes = subject_bytes(s, token, id, &n);
    if (n == wanted + 1 && *bytes == ' ')
        bytes++, n--;
    return n == wanted && !memcmp(bytes, text, n);
}

/* The most probable of those whose text fits; "": of all. -1: none. */
static tern_token find_text(const struct subject *s, const float *logits, const char *text)
{
    tern_token best = -1;
    for (tern_token t = 0; (uint64_t)t < s->info.vocab; t++)
        if ((!*text || is_text(s, t, text)) && (best < 0 || logits[t] > logits[best]))
            best = t;
    return best;
}

static enum tern_status find_token(struct why *w, const float *logits, struct tern_error *e)
{
    const char *text = w->s->o->value[LOOK_WHY].text;
    bool is_id = !strncmp(text, "id:", 3);
    uint64_t id;
    w->token = is_id ? -1 : find_text(w->s, logits, text);
    if (w->token < 0 && number_u64(text + 3 * is_id, strlen(text) - 3 * (size_t)is_id, &id) &&
        id < w->s->info.vocab)
        w->token = (tern_token)id;
    if (w->token >= 0)
        return TERN_OK;
    return parser_usage(e,
                        "--why: '%.100s' is not the text of one token, nor an id from 0 to %llu; "
                        "'' is the most probable token",
                        text, (unsigned long long)w->s->info.vocab - 1);
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const struct tern_term *x = *(const struct tern_term *const *)a;
    const struct tern_term *y = *(const struct tern_term *const *)b;
    if (fabsf(x->value) != fabsf(y->value))
        return fabsf(x->value) < fabsf(y->value) ? 1 : -1;
    return x < y ? -1 : x > y;
}

static void print_terms(const struct why *w, const struct tern_term **order)
{
    enum paint paint = paint_find(w->s->o);
    size_t shown = isatty(STDOUT_FILENO) && w->n > SHOWN ? SHOWN : w->n;
    double others = 0, most = w->n ? fabs((double)order[0]->value) : 1;
    for (size_t i = 0; i < w->n; i++) {
        char number[24], name[48];
        snprintf(number, sizeof number, "%+.4f", (double)order[i]->value);
        if (i >= shown) {
            others += (double)order[i]->value;
            continue;
        }
        paint_cell(paint, most > 0 ? (double)order[i]->value / most : 0, true, number, 10);
        out_print("  %s\n", name_of(order[i], name));
    }
    if (shown < w->n)
        out_print("%+10.4f  %zu smaller terms\n", others, w->n - shown);
    out_print("%+10.4f  sum\n%+10.4f  logit, before any cap\n", w->sum, (double)w->logit);
}

static enum tern_status show_in_terminal(const struct why *w, struct tern_error *e)
{
    char label[160], after[160];
    const struct tern_term **order = malloc((w->n + 1) * sizeof *order);
    if (!order)
        return parser_no_memory(e);
    for (size_t i = 0; i < w->n; i++)
        order[i] = &w->list[i];
    qsort(order, w->n, sizeof *order, by_size);
    out_print("why %s (id %d, probability %.4f) after %s, position %zu\n",
              subject_label(w->s, w->token, 40, label, sizeof label), (int)w->token, w->p,
              subject_label(w->s, w->s->tokens[w->s->n - 1], 40, after, sizeof after), w->s->n - 1);
    print_terms(w, order);
    free(order);
    return TERN_OK;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_terms(FILE *f, const struct why *w)
{
    for (size_t i = 0; i < w->n; i++) {
        char name[48];
        const struct tern_term *t = &w->list[i];
        enum place place = names[t->kind].place;
        long long group = place == INPUT    ? -1
                          : place == OUTPUT ? (long long)w->s->info.n_layers
                                            : (long long)t->layer;
        fprintf(f, "%s[\"%s\",%lld,", i ? ",\n" : "", name_of(t, name), group);
        page_number(f, (double)t->value);
        putc(']', f);
    }
}

static enum tern_status write_page(const struct why *w, const char *path, struct tern_error *e)
{
    struct page page;
    enum tern_status status = page_open(&page, "why", "Why this token", w->s, path, e);
    if (status)
        return status;
    fprintf(page.f, ",\"n_layers\":%llu,\"id\":%d,\"p\":%.6f,\"logit\":",
            (unsigned long long)w->s->info.n_layers, (int)w->token, w->p);
    page_number(page.f, (double)w->logit);
    fputs(",\"sum\":", page.f);
    page_number(page.f, w->sum);
    fputs(",\"token\":", page.f);
    page_token(page.f, w->s, w->token);
    page_tokens(page.f, "text", w->s, w->s->tokens, w->s->n);
    fputs(",\"terms\":[\n", page.f);
    put_terms(page.f, w);
    putc(']', page.f);
    return page_close(&page, page_why_js, TERN_OK, e);
}

/* ---- the job --------------------------------------------------------------------------------- */

static enum tern_status take_terms(struct why *w, struct tern_error *e)
{
    size_t n;
    enum tern_status status = tern_contributions(w->s->ctx, w->token, NULL, 0, &n, NULL, e);
    if (status)
        return status;
    w->list = malloc((n + 1) * sizeof *w->list);
    if (!w->list)
        return parser_no_memory(e);
    status = tern_contributions(w->s->ctx, w->token, w->list, n, &w->n, &w->logit, e);
    for (size_t i = 0; !status && i < w->n; i++)
        w->sum += (double)w->list[i].value;
    return status;
}

/* The text ends with the position that is asked for: what comes later changes nothing before it. o
 * are the subject's options, which may be changed. */
static enum tern_status end_text(struct subject *s, struct look_options *o, struct tern_error *e)
{
    uint32_t first, last;
    enum tern_status status = subject_positions(s, subject_length(s), &first, &last, e);
    if (status || !o->value[LOOK_POSITIONS].given)
        return status;
    if (first != last)
        return parser_usage(e, "--why is about one position: --positions %u, for example", last);
    if (subject_is_bidirectional(s))
        return parser_usage(e, "--why with --attn bidirectional is about the last position");
    o->value[LOOK_N_PREDICT].integer = last < s->n_prompt ? 0 : last + 1 - (int64_t)s->n_prompt;
    s->n_prompt = last < s->n_prompt ? last + 1 : s->n_prompt;
    return TERN_OK;
}

/* The model may have ended the text before the position that was asked for. */
static enum tern_status check_end(const struct subject *s, struct tern_error *e)
{
    if (!s->o->value[LOOK_POSITIONS].given || s->n == subject_length(s))
        return TERN_OK;
    snprintf(e->text, sizeof e->text, "the model ended the text after %zu tokens", s->n);
    return e->code = TERN_LIMIT;
}

static enum tern_status ask(struct why *w, struct tern_error *e)
{
    enum tern_status status = subject_begin(w->s, e);
    if (!status)
        status = tern_keep_terms(w->s->ctx, 1, e);
    if (!status)
        status = subject_run(w->s, NULL, NULL, e);
    if (!status)
        status = check_end(w->s, e);
    if (status)
        return status;
    const float *logits = tern_logits(w->s->ctx, tern_n_logits(w->s->ctx) - 1);
    status = find_token(w, logits, e);
    if (status)
        return status;
    w->p = exp(tern_logprob(w->s->model, logits, w->token));
    return take_terms(w, e);
}

enum tern_status why_show(struct subject *s, struct tern_error *e)
{
    struct why w = {.s = s};
    const struct look_options *given = s->o;
    struct look_options o = *given;
    const char *path = o.value[LOOK_OUTPUT].text;
    enum tern_status status = page_check_name(path, e);
    if (!status)
        status = end_text(s, &o, e);
    s->o = &o;
    if (!status)
        status = ask(&w, e);
    if (!status)
        status = path ? write_page(&w, path, e) : show_in_terminal(&w, e);
    s->o = given;
    free(w.list);
    return status;
}
