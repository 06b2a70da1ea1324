/* Surprise: see surprise.h. The surprisal of a token is -log2 p(token | what came before). */
#include "app/look/surprise.h"

#include "app/cli/files.h"
#include "app/cli/out.h"
#include "app/cli/perplexity.h"
#include "app/look/page.h"
#include "app/look/paint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXPECTED = 3, WINDOW = 2048, SHOWN = 10, MOST_BITS = 12 };
static const double LN2 = 0.69314718055994530942;

struct surprising {
    tern_token token;
    float bits;
    struct tern_choice expected[EXPECTED]; /* most probable first */
};

struct surprise {
    struct subject *s;
    struct surprising *list; /* [n] of room for [room]; owned */
    size_t n, room;
    bool failed; /* no memory for more */
    struct perplexity sum;
};

static void add(void *arg, tern_token token, const float *logits)
{
    struct surprise *t = arg;
    if (t->n == t->room) {
        size_t room = 2 * t->room + 4096;
        struct surprising *more = realloc(t->list, room * sizeof *more);
        t->failed = t->failed || !more;
        if (!more)
            return;
        t->list = more, t->room = room;
    }
    struct surprising *x = &t->list[t->n++];
    *x = (struct surprising){.token = token};
    x->bits = (float)(-tern_logprob(t->s->model, logits, token) / LN2);
    (void)tern_top(t->s->ctx, logits, x->expected, EXPECTED);
}

/* ---- the terminal --------------------------------------------------------------------------- */

/* The text itself, each token on its colour; a line feed is drawn before it is obeyed. */
static void print_text(const struct surprise *t, enum paint paint)
{
    for (size_t i = 0; i < t->n; i++) {
        char id[16];
        size_t n;
        const char *text = subject_bytes(t->s, t->list[i].token, id, &n);
        double x = fmin((double)t->list[i].bits / MOST_BITS, 1);
        while (n) {
            size_t line = strcspn(text, "\n");
            line = line < n ? line : n;
            paint_text(paint, x, text, line);
            if (line < n)
                paint_text(paint, x, " ", 1), out_print("\n"), line++;
            text += line, n -= line;
        }
    }
    out_print("\n\n");
}

/* Without colours: a token a line, with its bits and what was expected. */
static void print_token(const struct surprise *t, const struct surprising *x)
{
    char label[64];
    out_print("%6.2f  %-16s", (double)x->bits,
              subject_label(t->s, x->token, 16, label, sizeof label));
    for (size_t k = 0; k < EXPECTED; k++)
        out_print("  %s %.3f", subject_label(t->s, x->expected[k].token, 16, label, sizeof label),
                  exp(x->expected[k].logprob));
    out_print("\n");
}

static int by_bits(const void *a, const void *b)
{
    float x = (*(const struct surprising *const *)a)->bits;
    float y = (*(const struct surprising *const *)b)->bits;
    return x < y ? 1 : -(x > y);
}

/* The tokens that surprised most */
static void print_most(const struct surprise *t)
{
    const struct surprising **order = malloc((t->n + 1) * sizeof *order);
    if (!order)
        return;
    for (size_t i = 0; i < t->n; i++)
        order[i] = &t->list[i];
    qsort(order, t->n, sizeof *order, by_bits);
    out_print("  bits  token             expected instead\n");
    for (size_t i = 0; i < t->n && i < SHOWN; i++)
        print_token(t, order[i]);
    out_print("\n");
    free(order);
}

static void show_in_terminal(const struct surprise *t)
{
    enum paint paint = paint_find(t->s->o);
    if (paint == PAINT_NONE) {
        out_print("  bits  token             expected\n");
        for (size_t i = 0; i < t->n; i++)
            print_token(t, &t->list[i]);
    } else {
        print_text(t, paint);
        print_most(t);
    }
    perplexity_print(&t->sum, true);
}

/* ---- the page ------------------------------------------------------------------------------- */

static void put_tokens(FILE *f, const struct surprise *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct surprising *x = &t->list[i];
        fputs(i ? ",\n[" : "[", f);
        page_token(f, t->s, x->token);
        fprintf(f, ",%.3f", (double)x->bits);
        for (size_t k = 0; k < EXPECTED; k++) {
            putc(',', f);
            page_token(f, t->s, x->expected[k].token);
            fprintf(f, ",%.4f", exp(x->expected[k].logprob));
        }
        putc(']', f);
    }
}

static enum tern_status write_page(const struct surprise *t, const char *path, struct tern_error *e)
{
    struct page page;
    const struct perplexity *p = &t->sum;
    enum tern_status status = page_open(&page, "surprise", "Surprise", t->s, path, e);
    if (status)
        return status;
    fprintf(page.f, ",\"bits_per_byte\":%.6f,\"perplexity\":%.6f,\"tokens\":[\n",
            p->nll / LN2 / (double)p->bytes, exp(p->nll / (double)p->tokens));
    put_tokens(page.f, t);
    putc(']', page.f);
    return page_close(&page, page_surprise_js, TERN_OK, e);
}

/* ---- the job -------------------------------------------------------------------------------- */

static void show_progress(const struct perplexity *p)
{
    fprintf(stderr, "\rlook: %llu of %llu tokens ", (unsigned long long)p->done,
            (unsigned long long)p->total);
}

static enum tern_status measure(struct surprise *t, const char *text, size_t n,
                                struct tern_error *e)
{
    struct tern_memory plan;
    tern_context_memory(t->s->ctx, &plan);
    struct perplexity_job job = {.ctx = t->s->ctx,
                                 .text = text,
                                 .n = n,
                                 .window = plan.n_ctx,
                                 .stride = plan.n_ctx / 2,
                                 .on_token = add,
                                 .arg = t};
    if (plan.n_ctx < 4)
        return parser_usage(e, "--surprise needs a context of at least 4 positions");
    if (!t->s->o->value[LOOK_QUIET].given && isatty(STDERR_FILENO))
        job.progress = show_progress;
    enum tern_status status = perplexity_windows(&job, &t->sum, e);
    if (job.progress)
        fprintf(stderr, "\r%40s\r", "");
    if (!status && t->failed)
        status = parser_no_memory_for(e, "the tokens of the text");
    return status;
}

enum tern_status surprise_show(struct subject *s, struct tern_error *e)
{
    const struct option_value *v = s->o->value;
    const char *path = v[LOOK_OUTPUT].text;
    struct surprise t = {.s = s};
    char *text = NULL;
    size_t n = 0;
    uint32_t n_ctx = s->info.max_seq < WINDOW ? (uint32_t)s->info.max_seq : WINDOW;
    if (v[LOOK_CTX_SIZE].given)
        n_ctx = (uint32_t)v[LOOK_CTX_SIZE].integer;
    enum tern_status status = files_take(v[LOOK_SURPRISE].text, &text, &n, e);
    if (!status)
        status = subject_context(s, n_ctx, 1, e);
    if (!status)
        status = measure(&t, text, n, e);
    if (!status && path)
        status = write_page(&t, path, e);
    else if (!status)
        show_in_terminal(&t);
    free(t.list);
    free(text);
    return status;
}
