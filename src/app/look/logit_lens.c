/* Logit lens: see logit_lens.h. The stream after a layer goes through the final norm and the head
 * (tern_lens). Stage 0 is the embedding, stage l + 1 what layer l leaves; the last stage is what the
 * model says. */
#include "app/look/logit_lens.h"

#include "app/cli/out.h"
#include "app/cli/signals.h"
#include "app/look/page.h"
#include "app/look/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOP = 5, ROWS = 16, LABEL = 12, CELL = 12, MOST_CELLS = 200000 };

struct guess {
    struct tern_choice top[TOP]; /* most probable first */
    double p;                    /* of what the model says in the end */
    size_t rank;                 /* and its place: 1 is the most probable */
};

struct lens {
    struct subject *s;
    unsigned char *layers; /* [n_layers] */
    size_t *stages;        /* [n_stages] those that are shown, and the last */
    size_t n_stages;
    uint32_t first, last;  /* positions */
    float *x;              /* [n_stages, positions, dim] */
    float *logits;         /* [ROWS, vocab] scratch */
    struct guess *guesses; /* [n_stages, positions] */
};

static size_t n_positions(const struct lens *t)
{
    return t->last - t->first + 1;
}

static const struct guess *guess_at(const struct lens *t, size_t stage, size_t i)
{
    return &t->guesses[stage * n_positions(t) + i];
}

/* What the model says after position i */
static tern_token said(const struct lens *t, size_t i)
{
    return guess_at(t, t->n_stages - 1, i)->top[0].token;
}

/* ---- from the stream to words ---------------------------------------------------------------- */

static void keep_rows(struct lens *t, size_t stage, const struct tern_observation *o)
{
    for (size_t i = 0; i < o->rows; i++) {
        uint32_t at = o->at[i].position;
        if (at >= t->first && at <= t->last)
            memcpy(t->x + (stage * n_positions(t) + at - t->first) * o->columns,
                   o->values + i * o->stride, o->columns * sizeof(float));
    }
}

static void watch(void *arg, const struct tern_observation *o)
{
    struct lens *t = arg;
    size_t stage = !strcmp(o->operation, "embed") ? 0
                   : !strcmp(o->operation, "out") ? o->layer + 1
                                                  : SIZE_MAX;
    for (size_t i = 0; i < t->n_stages; i++)
        if (t->stages[i] == stage)
            keep_rows(t, i, o);
}

/* 1 + the number of tokens that are more probable; the lower id on ties */
static size_t rank_of(const float *logits, size_t vocab, tern_token token)
{
    size_t rank = 1;
    for (size_t i = 0; i < vocab; i++)
        rank += logits[i] > logits[token] || (logits[i] == logits[token] && i < (size_t)token);
    return rank;
}

/* Positions from .. from + n - 1 of a stage; the last stage comes first, as its words are ranked in
 * the others. */
static enum tern_status read_rows(struct lens *t, size_t stage, size_t from, size_t n,
                                  struct tern_error *e)
{
    size_t dim = t->s->info.dim, vocab = t->s->info.vocab;
    const float *x = t->x + (stage * n_positions(t) + from) * dim;
    enum tern_status status = tern_lens(t->s->ctx, x, n, dim, t->logits, e);
    for (size_t i = 0; !status && i < n; i++) {
        const float *logits = t->logits + i * vocab;
        struct guess *g = &t->guesses[stage * n_positions(t) + from + i];
        (void)tern_top(t->s->ctx, logits, g->top, TOP);
        g->p = exp(tern_logprob(t->s->model, logits, said(t, from + i)));
        g->rank = rank_of(logits, vocab, said(t, from + i));
    }
    return status;
}

static enum tern_status read_all(struct lens *t, struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    size_t n = n_positions(t);
    bool is_shown = !t->s->o->value[LOOK_QUIET].given && isatty(STDERR_FILENO);
    for (size_t stage = t->n_stages; !status && stage-- > 0;) {
        for (size_t i = 0; !status && i < n; i += ROWS) {
            status = read_rows(t, stage, i, n - i < ROWS ? n - i : ROWS, e);
            if (!status && signals_caught())
                status = e->code = TERN_CANCELLED;
        }
        if (is_shown)
            fprintf(stderr, "\rlook: %zu layers left ", stage);
    }
    if (is_shown)
        fprintf(stderr, "\r%40s\r", "");
    return status;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static const char *stage_name(const struct lens *t, size_t i, char name[24])
{
    snprintf(name, 24, t->stages[i] ? "%zu" : "embed", t->stages[i] - 1);
    return name;
}

/* The most probable token of each stage; below, the place of what the model says in the end */
static void print_position(const struct lens *t, size_t i, size_t from, size_t to, enum paint paint)
{
    char label[160], number[8], place[40];
    const struct subject *s = t->s;
    out_print("%s", table_label(s, s->tokens[t->first + i], LABEL, false, label, sizeof label));
    for (size_t k = from; k < to; k++) {
        const struct tern_choice *best = guess_at(t, k, i)->top;
        out_print(" ");
        table_choice(s, paint, best->token, exp(best->logprob), CELL);
    }
    out_print("\n > %s", table_label(s, said(t, i), LABEL - 3, false, label, sizeof label));
    for (size_t k = from; k < to; k++) {
        const struct guess *g = guess_at(t, k, i);
        snprintf(place, sizeof place, "#%zu", g->rank);
        out_print(" %-*s %s", CELL - 4, place, table_probability(g->p, number));
    }
    out_print("\n");
}

static void show_in_terminal(const struct lens *t)
{
    enum paint paint = paint_find(t->s->o);
    size_t room = table_width() / (CELL + 1), at_once = room > 2 ? room - 1 : 1;
    if (!isatty(STDOUT_FILENO))
        at_once = t->n_stages;
    for (size_t from = 0; from < t->n_stages; from += at_once) {
        size_t to = t->n_stages - from < at_once ? t->n_stages : from + at_once;
        out_print("%s%-*s", from ? "\n" : "", LABEL, "after layer");
        for (size_t k = from; k < to; k++) {
            char name[24];
            out_print(" %-*s", CELL, stage_name(t, k, name));
        }
        out_print("\n");
        for (size_t i = 0; i < n_positions(t); i++)
            print_position(t, i, from, to, paint);
    }
    if (!t->s->o->value[LOOK_QUIET].given)
        fprintf(stderr, "look: each token, and what each layer would say next; > what the model "
                        "says, and its place among the words of each layer\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_guess(FILE *f, const struct subject *s, const struct guess *g)
{
    fprintf(f, "[%zu,", g->rank);
    page_number(f, g->p);
    for (size_t k = 0; k < TOP && k < s->info.vocab; k++) {
        putc(',', f);
        page_token(f, s, g->top[k].token);
        fprintf(f, ",%.5f", exp(g->top[k].logprob));
    }
    putc(']', f);
}

static void put_position(FILE *f, const struct lens *t, size_t i)
{
    fputs(i ? ",\n{\"token\":" : "{\"token\":", f);
    page_token(f, t->s, t->s->tokens[t->first + i]);
    fputs(",\"says\":", f);
    page_token(f, t->s, said(t, i));
    fputs(",\"guesses\":[", f);
    for (size_t k = 0; k < t->n_stages; k++) {
        if (k)
            putc(',', f);
        put_guess(f, t->s, guess_at(t, k, i));
    }
    fputs("]}", f);
}

static enum tern_status write_page(const struct lens *t, const char *path, struct tern_error *e)
{
    struct page page;
    enum tern_status status = page_open(&page, "lens", "Logit lens", t->s, path, e);
    if (status)
        return status;
    fprintf(page.f, ",\"first\":%u,\"stages\":[", t->first);
    for (size_t k = 0; k < t->n_stages; k++) {
        char name[24];
        fprintf(page.f, "%s\"%s\"", k ? "," : "", stage_name(t, k, name));
    }
    fputs("],\"positions\":[\n", page.f);
    for (size_t i = 0; i < n_positions(t); i++)
        put_position(page.f, t, i);
    putc(']', page.f);
    return page_close(&page, page_logit_lens_js, TERN_OK, e);
}

/* ---- the job --------------------------------------------------------------------------------- */

/* The layers of --layers, or the embedding and all; always the last */
static enum tern_status choose_stages(struct lens *t, struct tern_error *e)
{
    size_t n_layers = t->s->info.n_layers;
    enum tern_status status = subject_layers(t->s, &t->layers, e);
    t->stages = malloc((n_layers + 1) * sizeof *t->stages);
    if (!status && t->stages) {
        if (!t->s->o->value[LOOK_LAYERS].given)
            t->stages[t->n_stages++] = 0;
        for (size_t l = 0; l < n_layers; l++)
            if (t->layers[l] || l + 1 == n_layers)
                t->stages[t->n_stages++] = l + 1;
    }
    return status || t->stages ? status : parser_no_memory(e);
}

static enum tern_status take_room(struct lens *t, struct tern_error *e)
{
    size_t cells = n_positions(t) * t->n_stages;
    if (cells > MOST_CELLS) {
        snprintf(e->text, sizeof e->text,
                 "%zu positions in %zu layers are too many: choose fewer --layers or --positions, "
                 "at most %d cells",
                 n_positions(t), t->n_stages, MOST_CELLS);
        return e->code = TERN_LIMIT;
    }
    t->x = malloc(cells * t->s->info.dim * sizeof *t->x);
    t->logits = malloc(ROWS * t->s->info.vocab * sizeof *t->logits);
    t->guesses = calloc(cells, sizeof *t->guesses);
    return t->x && t->logits && t->guesses ? TERN_OK : parser_no_memory(e);
}

/* The model may have ended the text before the last position that was asked for; the rows of each
 * stage move together then. */
static enum tern_status cut(struct lens *t, struct tern_error *e)
{
    size_t before = n_positions(t), dim = t->s->info.dim;
    if (t->s->n <= t->first) {
        snprintf(e->text, sizeof e->text, "the model ended the text after %zu tokens", t->s->n);
        return e->code = TERN_LIMIT;
    }
    if (t->s->n <= t->last)
        t->last = (uint32_t)t->s->n - 1;
    for (size_t k = 1; k < t->n_stages; k++)
        memmove(t->x + k * n_positions(t) * dim, t->x + k * before * dim,
                n_positions(t) * dim * sizeof *t->x);
    return TERN_OK;
}

static enum tern_status look_through(struct lens *t, struct tern_error *e)
{
    enum tern_status status = choose_stages(t, e);
    if (!status)
        status = subject_positions(t->s, subject_length(t->s), &t->first, &t->last, e);
    if (!status)
        status = take_room(t, e);
    if (!status)
        status = subject_begin(t->s, e);
    if (!status)
        status = tern_observe(t->s->ctx, watch, t, e);
    if (!status)
        status = subject_run(t->s, NULL, NULL, e);
    if (!status)
        status = tern_observe(t->s->ctx, NULL, NULL, e);
    if (!status)
        status = cut(t, e);
    return status ? status : read_all(t, e);
}

enum tern_status logit_lens_show(struct subject *s, struct tern_error *e)
{
    struct lens t = {.s = s};
    const char *path = s->o->value[LOOK_OUTPUT].text;
    enum tern_status status = page_check_name(path, e);
    if (!status)
        status = look_through(&t, e);
    if (!status && path)
        status = write_page(&t, path, e);
    else if (!status)
        show_in_terminal(&t);
    free(t.layers);
    free(t.stages);
    free(t.x);
    free(t.logits);
    free(t.guesses);
    return status;
}
