/* tern_quantize: the new file is written beside its name, opened as a model, sealed, held to the
 * source's golden logits, and only then takes its name. */
#include <stdlib.h>

#include "base/file.h"
#include "base/fpenv.h"
#include "base/thread_count.h"
#include "engine/lab/selftest.h"
#include "tern_lab.h"
#include "quantize/quantize.h"
#include "weights/writer.h"

static const float BOUND_MARGIN = 1.25f; /* of the golden logits' bound over the error measured */

enum { MAX_TEXT_TOKENS = 1 << 17 }; /* of a calibration text; more gains nothing, and takes time */

struct request {
    const char *in;
    const struct tern_quantize_params *p;
    int n_threads;
};

/* ---- calibration --------------------------------------------------------------------------- */

/* *tokens = the first MAX_TEXT_TOKENS ids of the text, for the caller to free */
static enum tern_status take_tokens(const struct tern_model *m, const struct request *q,
                                    tern_token **tokens, struct calibration_text *text,
                                    struct tern_error *e)
{
    size_t n = 0, lead = 0, bytes = MAX_TEXT_TOKENS * sizeof **tokens;
    *tokens = malloc(bytes);
    if (!*tokens)
        return error_memory(e, "the calibration text", bytes);
    enum tern_status s = tern_tokenize(m, q->p->text, q->p->text_bytes, TOKENIZER_FIRST, *tokens,
                                       MAX_TEXT_TOKENS, &n, e);
    if (!s && !n)
        s = error_set(e, TERN_USAGE, "the calibration text is empty");
    if (!s)
        s = tern_tokenize(m, "", 0, TERN_ADD_SPECIAL, &text->bos, 1, &lead, e);
    if (!lead || text->bos != tokenizer_bos(m->tokenizer))
        text->bos = -1;
    text->tokens = *tokens;
    text->n = n < MAX_TEXT_TOKENS ? n : MAX_TEXT_TOKENS;
    return s;
}

static enum tern_status write_calibrated(const struct request *q, const char *path,
                                         struct quantize_params *o, struct tern_error *e)
{
    const struct tern_model_params params = {.n_threads = q->n_threads, .cpu = q->p->cpu};
    struct calibration_text text = {0};
    tern_token *tokens = NULL;
    tern_model *m;
    enum tern_status s = tern_model_open(&m, q->in, &params, e);
    if (s)
        return s;
    pool_stop_when(m->pool, q->p->stop, q->p->arg);
    s = take_tokens(m, q, &tokens, &text, e);
    if (!s)
        s = calibrate_open(&o->calibration, m->model, &m->kernels, m->pool, &text, e);
    if (!s)
        s = quantize_file(q->in, path, o, m->pool, q->p->report, q->p->arg, e);
    calibrate_close(o->calibration);
    free(tokens);
    tern_model_close(m);
    return s;
}

/* ---- the file ------------------------------------------------------------------------------ */

static enum tern_status write_file(const struct request *q, const char *path, struct tern_error *e)
{
    struct quantize_params o = {.type = q->p->type, .keep_q8 = q->p->keep_q8};
    struct pool *pool;
    if (q->p->text && q->p->type == TERN_Q8)
        return error_set(e, TERN_USAGE, "a calibration text is of no use for q8");
    if (q->p->text)
        return write_calibrated(q, path, &o, e);
    enum tern_status s = pool_open(&pool, q->n_threads, e);
    if (!s) {
        pool_stop_when(pool, q->p->stop, q->p->arg);
        s = quantize_file(q->in, path, &o, pool, q->p->report, q->p->arg, e);
    }
    pool_close(pool);
    return s;
}

/* What only the finished model knows: its fingerprint, and how far it is from the source. */
static enum tern_status finish_file(const struct request *q, const char *path, struct tern_error *e)
{
    const struct tern_model_params params = {.n_threads = q->n_threads, .cpu = q->p->cpu};
    tern_model *m;
    uint64_t fingerprint = 0;
    float error = 0, bound = 0;
    bool golden = false;
    enum tern_status s = tern_model_open(&m, path, &params, e);
    if (!s) {
        pool_stop_when(m->pool, q->p->stop, q->p->arg);
        s = tern_model_seal(m, &fingerprint, e);
    }
    if (!s)
        s = selftest_golden(m, &golden, &error, &bound, e);
    tern_model_close(m);
    if (!s && golden && error * BOUND_MARGIN > bound)
        s = writer_patch_bound(path, error * BOUND_MARGIN, e);
    return s ? s : writer_patch_seal(path, TERN_ARITH, fingerprint, e);
}

void tern_remove_temporaries(void)
{
    file_remove_temporaries();
}

enum tern_status tern_quantize(const char *in, const char *out,
                               const struct tern_quantize_params *params, struct tern_error *e)
{
    struct tern_quantize_params p = params ? *params : (struct tern_quantize_params){0};
    struct request q = {in, &p, p.n_threads};
    struct fpenv saved = fpenv_enter();
    char *temporary = NULL, why[160];
    enum tern_status s = TERN_OK;
    unsigned cpu_bits;
    p.type = p.type ? p.type : TERN_Q8;
    if (!in || !out)
        s = error_no_path(e);
    else if (q.n_threads < 0 || q.n_threads > MAX_THREADS)
        s = error_set(e, TERN_USAGE, "%d threads were asked for, want 1 to %d", q.n_threads,
                      MAX_THREADS);
    else if (!q.n_threads)
        q.n_threads = thread_count_best(why, sizeof why);
    if (!s)
        s = kernels_cpu(p.cpu, &cpu_bits, e); /* said before anything is written */
    if (!s)
        s = file_check_target(out, in, e);
    if (!s)
        s = file_take_temporary(&temporary, out, e);
    if (!s)
        s = write_file(&q, temporary, e);
    if (!s)
        s = finish_file(&q, temporary, e);
    if (s != TERN_USAGE && p.stop && p.stop(p.arg)) /* what was skipped fails in any way, or in none */
        s = calibrate_stopped(e);
    if (!s)
        s = file_replace(temporary, out, e);
    if (s)
        file_remove(temporary);
    file_give_temporary(temporary, e);
    fpenv_leave(saved);
    return s;
}
