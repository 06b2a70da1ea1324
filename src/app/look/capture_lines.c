/* Capture of many texts: see capture.h. A batch holds rows of several lines, each a sequence of its
 * own, so that short lines are as fast as long ones. */
#include "app/look/capture.h"

#include "app/cli/files.h"
#include "app/cli/number.h"
#include "app/cli/signals.h"
#include "app/cli/stopwatch.h"
#include "app/look/edits.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SEQS = 32 };

struct capture_line {
    size_t begin, n; /* its tokens */
};

struct line_capture {
    struct subject *s;
    struct capture_line *list; /* [n], owned */
    tern_token *tokens;        /* [n_tokens], owned */
    size_t n, n_tokens, longest;
    struct hook *hooks;          /* [n_hooks], owned, like the arrays */
    struct tensor_array *arrays; /* [n_hooks], then tokens and lines */
    size_t n_hooks;
    struct tensor_file file;
    size_t begin_of[N_SEQS]; /* of each sequence's line, in tokens */
    float *row;              /* scratch, owned */
    uint64_t key;
    double since; /* when progress was shown last */
};

/* ---- texts ----------------------------------------------------------------------------------- */

static enum tern_status add_line(struct line_capture *t, const char *text, size_t n,
                                 struct tern_error *e)
{
    tern_token *ids = NULL;
    size_t n_ids = 0;
    enum tern_status status = subject_tokenize(t->s, text, n, &ids, &n_ids, e);
    struct capture_line *list =
        !(t->n & (t->n - 1)) ? realloc(t->list, (2 * t->n + 1) * sizeof *list) : t->list;
    tern_token *tokens = realloc(t->tokens, (t->n_tokens + n_ids + 1) * sizeof *tokens);
    t->list = list ? list : t->list, t->tokens = tokens ? tokens : t->tokens;
    if (!status && (!list || !tokens))
        status = parser_no_memory_for(e, "the lines");
    if (!status) {
        memcpy(t->tokens + t->n_tokens, ids, n_ids * sizeof *ids);
        t->list[t->n++] = (struct capture_line){t->n_tokens, n_ids};
        t->n_tokens += n_ids;
        t->longest = n_ids > t->longest ? n_ids : t->longest;
    }
    free(ids);
    return status;
}

/* Every line that is not empty */
static enum tern_status take_lines(struct line_capture *t, struct tern_error *e)
{
    char *text = NULL;
    size_t n = 0;
    const char *path = t->s->o->value[LOOK_LINES].text;
    enum tern_status status = files_take(path, &text, &n, e);
    for (size_t at = 0, end; !status && at < n; at = end + 1) {
        const char *feed = memchr(text + at, '\n', n - at);
        end = feed ? (size_t)(feed - text) : n;
        if (end > at)
            status = add_line(t, text + at, end - at, e);
    }
    free(text);
    if (!status && !t->n_tokens)
        return parser_usage(e, "--lines %.200s: there is no text", path);
    return status;
}

/* What the values depend on: model, lines, cache type, arrays, attention, edits (FNV-1a) */
static uint64_t key_of(const struct line_capture *t)
{
    uint64_t h = 0xcbf29ce484222325u ^ t->s->info.content_id;
    struct tern_memory plan;
    tern_context_memory(t->s->ctx, &plan);
    h = (h ^ plan.cache_type) * 0x100000001b3u;
    for (size_t i = 0; i < t->n_tokens; i++)
        h = (h ^ (uint64_t)t->tokens[i]) * 0x100000001b3u;
    for (size_t i = 0; i < t->n; i++)
        h = (h ^ t->list[i].begin) * 0x100000001b3u;
    for (const char *c = t->s->o->value[LOOK_ATTN].text; c && *c; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    if (t->s->edit)
        h = edits_hash(t->s->edit_arg, h);
    for (size_t i = 0; i < t->n_hooks; i++)
        for (const char *c = t->arrays[i].name; *c; c++)
            h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    return h ? h : 1;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static enum tern_status take_arrays(struct line_capture *t, struct tern_error *e)
{
    size_t most = 1;
    enum tern_status status = hooks_choose(t->s, t->s->o->value[LOOK_HOOKS].text, t->n_tokens,
                                           false, &t->hooks, &t->arrays, &t->n_hooks, e);
    if (status)
        return status;
    for (size_t i = 0; i < t->n_hooks; i++) { /* one row after the other: no dimension of batches */
        struct tensor_array *a = &t->arrays[i];
        memmove(a->shape, a->shape + 1, --a->n_dims * sizeof *a->shape);
        size_t columns = a->shape[1] * (a->n_dims == 3 ? a->shape[2] : 1);
        most = columns > most ? columns : most;
    }
    struct tensor_array *more = realloc(t->arrays, (t->n_hooks + 2) * sizeof *more);
    t->arrays = more ? more : t->arrays;
    t->row = malloc(2 * most * sizeof *t->row);
    if (!more || !t->row)
        return parser_no_memory_for(e, "the lines");
    more[t->n_hooks] = (struct tensor_array){
        .name = "tokens", .is_int = true, .n_dims = 1, .shape = {t->n_tokens}};
    more[t->n_hooks + 1] =
        (struct tensor_array){.name = "lines", .is_int = true, .n_dims = 1, .shape = {t->n + 1}};
    return TERN_OK;
}

static void write_lines(struct line_capture *t)
{
    const struct tensor_array *tokens = &t->arrays[t->n_hooks], *lines = tokens + 1;
    tensor_file_write(&t->file, tokens, 0, t->tokens, t->n_tokens);
    for (size_t i = 0; i <= t->n; i++) {
        int32_t begin = (int32_t)(i < t->n ? t->list[i].begin : t->n_tokens);
        tensor_file_write(&t->file, lines, i, &begin, 1);
    }
}

/* ---- while the model runs -------------------------------------------------------------------- */

/* Rows that follow one another in the file are written together. */
static void write_rows(struct line_capture *t, const struct hook *h, const struct tensor_array *a,
                       const struct tern_observation *o)
{
    for (size_t i = 0, n; i < o->rows; i += n) {
        const float *x = o->values + i * o->stride;
        size_t at = t->begin_of[o->at[i].seq] + o->at[i].position;
        for (n = 1; o->stride == o->columns && h->kind == HOOK_ROWS && i + n < o->rows; n++)
            if (t->begin_of[o->at[i + n].seq] + o->at[i + n].position != at + n)
                break;
        if (h->kind == HOOK_UNTURN)
            capture_turn_back(t->s, o, &o->at[i], x, t->row);
        tensor_file_write(&t->file, a, (uint64_t)at * o->columns,
                          h->kind == HOOK_UNTURN ? t->row : x, n * o->columns);
    }
}

static void watch(void *arg, const struct tern_observation *o)
{
    struct line_capture *t = arg;
    for (size_t i = 0; i < t->n_hooks; i++)
        if (t->hooks[i].layer == o->layer && !strcmp(t->hooks[i].operation, o->operation))
            write_rows(t, &t->hooks[i], &t->arrays[i], o);
}

static void show_progress(struct line_capture *t, size_t line)
{
    double now = stopwatch_now();
    if (t->s->o->value[LOOK_QUIET].given || !isatty(STDERR_FILENO) || now - t->since < 0.5)
        return;
    t->since = now;
    fprintf(stderr, "\rcapture: line %zu of %zu ", line, t->n);
}

/* Evaluates the batch; then the sequences of finished lines are empty again. */
static enum tern_status evaluate(struct line_capture *t, size_t done, uint32_t n_seqs,
                                 struct tern_error *e)
{
    enum tern_status status = tern_forward(t->s->ctx);
    if (status)
        return e->code = status;
    for (uint32_t seq = 0; seq < n_seqs; seq++)
        tern_seq_keep(t->s->ctx, seq, 0);
    tensor_file_mark(&t->file, t->key, done);
    show_progress(t, done);
    return tern_numeric_status(t->s->ctx, e);
}

/* All lines from `line` on. A line that does not fit into the rest of a batch begins the next; one
 * that is longer than a batch takes several of its own. */
static enum tern_status run_lines(struct line_capture *t, size_t line, struct tern_error *e)
{
    struct tern_memory plan;
    uint32_t seq = 0, rows = 0;
    enum tern_status status = TERN_OK;
    tern_context_memory(t->s->ctx, &plan);
    for (; !status && line < t->n; line++) {
        const struct capture_line *w = &t->list[line];
        if (rows && (seq == plan.n_seqs || rows + w->n > plan.n_batch)) {
            status = evaluate(t, line, seq, e);
            seq = rows = 0;
        }
        t->begin_of[seq] = w->begin;
        for (size_t i = 0; !status && i < w->n; i++, rows++) {
            if (rows == plan.n_batch) {
                status = tern_forward(t->s->ctx);
                e->code = status;
                rows = 0;
            }
            if (!status)
                status = tern_batch_add(t->s->ctx, seq, t->tokens[w->begin + i], 0, e);
        }
        seq++;
    }
    return status || !rows ? status : evaluate(t, line, seq, e);
}

static enum tern_status write_all(struct line_capture *t, const char *path, struct tern_error *e)
{
    uint64_t done = 0;
    enum tern_status status =
        tensor_file_resume(&t->file, path, t->arrays, t->n_hooks + 2, t->key, &done, e);
    if (status)
        return status;
    bool quiet = t->s->o->value[LOOK_QUIET].given;
    if (done && done < t->n && !quiet)
        fprintf(stderr, "capture: goes on with line %llu of %zu\n", (unsigned long long)done + 1,
                t->n);
    write_lines(t);
    status = tern_observe(t->s->ctx, watch, t, e);
    if (!status)
        status = run_lines(t, done < t->n ? (size_t)done : t->n, e);
    (void)tern_observe(t->s->ctx, NULL, NULL, NULL);
    if (t->since > 0)
        fprintf(stderr, "\r%40s\r", "");
    if (signals_caught() && !quiet)
        fprintf(stderr, "capture: stopped; the same command goes on with %.200s.part\n", path);
    return tensor_file_close(&t->file, status, e);
}

enum tern_status capture_lines(struct subject *s, struct tern_error *e)
{
    struct line_capture t = {.s = s};
    char bytes[32];
    const char *path = s->o->value[LOOK_CAPTURE].text;
    size_t n = strlen(path);
    if (n < 12 || strcmp(path + n - 12, ".safetensors"))
        return parser_usage(e, "--lines needs a file whose name ends in .safetensors, not %.200s",
                            path);
    enum tern_status status = take_lines(&t, e);
    if (!status)
        status = take_arrays(&t, e);
    if (!status)
        status = tensor_file_plan(&t.file, path, t.arrays, t.n_hooks + 2, e);
    if (!status)
        status = subject_context(s, (uint32_t)t.longest, t.n < N_SEQS ? (uint32_t)t.n : N_SEQS, e);
    if (!status && !s->o->value[LOOK_QUIET].given)
        fprintf(stderr, "capture: %zu arrays, %zu lines, %zu tokens, %s\n", t.n_hooks + 2, t.n,
                t.n_tokens, number_bytes(t.file.bytes, bytes, sizeof bytes));
    if (!status) {
        t.key = key_of(&t);
        status = write_all(&t, path, e);
    }
    free(t.list);
    free(t.tokens);
    free(t.hooks);
    free(t.arrays);
    free(t.row);
    return status;
}
