/* Verification: see verify.h. */
#include "app/run/verify.h"

#include "app/run/npz.h"
#include "app/cli/out.h"
#include "app/run/plan.h"
#include "tern_lab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OPERATIONS = 32 };

struct tally { /* of an operation over all layers */
    const char *name;
    double worst;
    uint64_t layer, end; /* of the worst; after those counted */
    bool probed;
};

struct verify {
    tern_context *ctx;
    struct npz probes;
    const struct npz_array *tokens, *positions;
    struct tally tallies[MAX_OPERATIONS];
    size_t n_tallies, n_operations; /* of a layer; of all */
    double bound;
};

/* Names of tern_observe, those of layers first. */
static const char in_layers[] = " attn_norm q k v attend o attn_post_norm middle ffn_norm gate up "
                                "act down router experts ffn_post_norm out ",
                  outside[] = " embed final_norm logits ";

/* What a file of this type may differ from its source in f32 (README, "Extend"). */
static double bound_of(enum tern_type type)
{
    static const double bounds[] = {[TERN_F32] = 1e-4, [TERN_F16] = 0.02, [TERN_BF16] = 0.1,
                                    [TERN_Q8] = 0.5,   [TERN_Q4] = 4,     [TERN_Q4C] = 4};
    return bounds[type];
}

/* ---- one operation ------------------------------------------------------------------------ */

/* max |a - b| / max |b| of a row; a value that is no number is infinitely far */
static double distance(const float *row, const struct npz_array *probe, size_t at)
{
    double far = 0, most = 0;
    for (size_t i = 0; i < probe->columns; i++) {
        double b = npz_float(probe, at, i), d = (double)row[i] - b;
        d = d < 0 ? -d : d;
        b = b < 0 ? -b : b;
        if (!(d <= far))
            far = d == d ? d : INFINITY;
        most = b > most ? b : most;
    }
    return far == 0 || far == INFINITY ? far : far / most;
}

static struct tally *tally_of(struct verify *v, const char *operation)
{
    size_t i = 0;
    while (i < v->n_tallies && strcmp(v->tallies[i].name, operation))
        i++;
    if (i == v->n_tallies && i < MAX_OPERATIONS - 1)
        v->tallies[v->n_tallies++].name = operation;
    return &v->tallies[i];
}

static void compare(struct verify *v, const struct tern_observation *o, struct npz_array *probe,
                    struct tally *t)
{
    for (size_t r = 0, p = 0; r < o->rows; r++) {
        while (p < v->positions->rows && (uint32_t)npz_int(v->positions, p) < o->at[r].position)
            p++;
        if (p == v->positions->rows || (uint32_t)npz_int(v->positions, p) != o->at[r].position)
            continue;
        double d = distance(o->values + r * o->stride, probe, p);
        probe->seen++;
        if (d > v->bound && probe->worst <= v->bound)
            probe->at = p;
        if (d > probe->worst)
            probe->worst = d;
        if (d > t->worst)
            t->worst = d, t->layer = o->layer;
    }
}

static void observe(void *arg, const struct tern_observation *o)
{
    struct verify *v = arg;
    char name[sizeof v->probes.arrays->name];
    struct tern_model_info info;
    struct tally *t = tally_of(v, o->operation);
    tern_model_info(tern_context_model(v->ctx), &info);
    if (o->layer >= t->end)
        t->end = o->layer + 1, v->n_operations++;
    bool whole = o->layer == info.n_layers || !strcmp(o->operation, "embed");
    snprintf(name, sizeof name, "layer.%llu.%s", (unsigned long long)o->layer, o->operation);
    struct npz_array *probe = npz_find(&v->probes, whole ? o->operation : name);
    if (probe && probe->columns == o->columns) {
        t->probed = true;
        compare(v, o, probe, t);
    }
}

/* ---- the text ----------------------------------------------------------------------------- */

static enum tern_status fail(enum tern_status s, struct tern_error *e, const char *path,
                             const char *what)
{
    snprintf(e->text, sizeof e->text, "%.200s: %s", path, what);
    return e->code = s;
}

static enum tern_status unknown(struct tern_error *e, const char *path, const char *name)
{
    snprintf(e->text, sizeof e->text,
             "%.200s: %s is no operation: the file is damaged, or made by another program", path,
             name);
    return e->code = TERN_BAD_FILE;
}

/* "logits", "layer.3.q" */
static bool is_operation(const char *name)
{
    char word[sizeof((struct npz_array *)0)->name + 2];
    size_t digits = strncmp(name, "layer.", 6) ? 0 : strspn(name + 6, "0123456789");
    bool layer = digits && name[6 + digits] == '.';
    name += layer ? 7 + digits : 0;
    snprintf(word, sizeof word, " %s ", name);
    return *name && !strchr(name, ' ') && strstr(layer ? in_layers : outside, word);
}

static enum tern_status check(struct verify *v, const char *path, struct tern_error *e)
{
    const struct npz_array *t = v->tokens = npz_find(&v->probes, "tokens"),
                           *p = v->positions = npz_find(&v->probes, "positions");
    if (!t || !p || t->kind != 'i' || p->kind != 'i')
        return fail(TERN_BAD_FILE, e, path,
                    "lacks tokens or positions: tools/golden.py --probes writes such files");
    for (size_t i = 0; i < p->rows; i++)
        if (npz_int(p, i) < (i ? npz_int(p, i - 1) + 1 : 0) || (size_t)npz_int(p, i) >= t->rows)
            return fail(TERN_BAD_FILE, e, path, "positions must ascend, and be of the tokens");
    if (v->probes.n_arrays == 2)
        return fail(TERN_BAD_FILE, e, path, "has no probes, only tokens and positions");
    for (struct npz_array *a = v->probes.arrays; a < v->probes.arrays + v->probes.n_arrays; a++) {
        if (a == t || a == p)
            continue;
        if (!is_operation(a->name))
            return unknown(e, path, a->name);
        if (a->kind != 'f' || a->rows != p->rows)
            return fail(TERN_BAD_FILE, e, path,
                        "a probe is not float32, or has not as many rows as there are positions");
    }
    return TERN_OK;
}

/* All tokens, in batches of which no more rows ask for logits than a batch may have. */
static enum tern_status feed(struct verify *v, struct tern_error *e)
{
    struct tern_memory plan;
    tern_context_memory(v->ctx, &plan);
    tern_seq_expect(v->ctx, 0, (uint32_t)v->tokens->rows);
    for (size_t i = 0, p = 0; i < v->tokens->rows;) {
        size_t wanted = 0;
        for (size_t n = 0; n < plan.n_batch && i < v->tokens->rows; n++, i++) {
            bool wants = p < v->positions->rows && (size_t)npz_int(v->positions, p) == i;
            if (wants && wanted == TERN_MAX_LOGITS)
                break;
            enum tern_status s =
                tern_batch_add(v->ctx, 0, npz_int(v->tokens, i), wants ? TERN_ROW_LOGITS : 0, e);
            if (s)
                return s;
            wanted += wants, p += wants;
        }
        enum tern_status s = tern_forward(v->ctx);
        if (s)
            return s;
    }
    return TERN_OK;
}

/* ---- the result --------------------------------------------------------------------------- */

static void print_table(const struct verify *v)
{
    out_print("%zu tokens, %zu rows, %zu arrays\n\n%-16s %12s  %s\n", v->tokens->rows,
              v->positions->rows, v->probes.n_arrays - 2, "operation", "worst error", "in layer");
    for (const struct tally *t = v->tallies; t < v->tallies + v->n_tallies; t++)
        if (t->probed)
            out_print("%-16s %12.2g  %llu\n", t->name, t->worst, (unsigned long long)t->layer);
        else
            out_print("%-16s %12s\n", t->name, "no probe");
}

/* "layer.3.q" as "layer 3, q" */
static void say_name(const char *name, char *out, size_t n)
{
    const char *dot = strrchr(name, '.');
    if (dot && !strncmp(name, "layer.", 6) && dot - name >= 6)
        snprintf(out, n, "layer %.*s, %s", (int)(dot - name - 6), name + 6, dot + 1);
    else
        snprintf(out, n, "%s", name);
}

static enum tern_status judge(const struct verify *v, struct tern_error *e)
{
    char name[80];
    for (const struct npz_array *a = v->probes.arrays; a < v->probes.arrays + v->probes.n_arrays;
         a++) {
        if (a == v->tokens || a == v->positions || (a->seen && a->worst <= v->bound))
            continue;
        const char *dot = strrchr(a->name, '.'), *again = "";
        if (dot && strstr(".q.k.gate.up", dot)) /* in the converter's order of rows of then */
            again = "; if layouts.py has changed since the probes were taken, take them again";
        say_name(a->name, name, sizeof name);
        if (a->seen)
            snprintf(e->text, sizeof e->text,
                     "%s is the first that differs: at position %d and, over all rows, by up to "
                     "%.2g of the largest value of the row; the bound is %g%s",
                     name, (int)npz_int(v->positions, a->at), a->worst, v->bound, again);
        else
            snprintf(e->text, sizeof e->text,
                     "%s is the first that differs: the probes have %zu columns of it, the model "
                     "has another number or no such operation",
                     name, a->columns);
        return e->code = TERN_LIMIT;
    }
    out_print(
        "\nok: %zu of %zu operations compared, of all layers: each is within %g of the largest "
        "value of its row\n",
        v->probes.n_arrays - 2, v->n_operations, v->bound);
    return TERN_OK;
}

static enum tern_status run(struct verify *v, struct tern_error *e)
{
    enum tern_status s = tern_observe(v->ctx, observe, v, e);
    if (!s)
        s = feed(v, e);
    if (s)
        return s;
    print_table(v);
    return judge(v, e);
}

enum tern_status verify_run(tern_model *model, const struct run_options *o, struct tern_error *e)
{
    const char *path = o->value[OPT_VERIFY].text;
    struct verify v = {.bound = o->value[OPT_VERIFY_BOUND].real};
    struct tern_model_info info;
    tern_model_info(model, &info);
    if (!o->value[OPT_VERIFY_BOUND].given)
        v.bound = bound_of(info.type);
    enum tern_status s = npz_open(&v.probes, path, e);
    if (!s)
        s = check(&v, path, e);
    if (!s)
        s = plan_open(&v.ctx, model, o, (uint32_t)v.tokens->rows, e);
    if (!s)
        s = run(&v, e);
    plan_close(v.ctx);
    npz_close(&v.probes);
    return s;
}
