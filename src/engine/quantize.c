/* tern_quantize: the new file is written beside its name, opened as a model, sealed, held to the
 * source's golden logits, and only then takes its name. */
#include <stdlib.h>

#include "base/file.h"
#include "base/quota.h"
#include "engine/engine.h"
#include "model/quantize.h"
#include "model/writer.h"

static const float BOUND_MARGIN = 1.25f; /* of the golden logits' bound over the error measured */

struct request {
    const char *in;
    enum tern_type type;
    int n_threads;
    int (*report)(void *arg, const struct tern_quantize_report *r);
    void *arg;
};

static enum tern_status write_file(const struct request *q, const char *path, struct tern_error *e)
{
    struct pool *pool;
    enum tern_status s = pool_open(&pool, q->n_threads, e);
    if (!s)
        s = quantize_file(q->in, path, q->type, pool, q->report, q->arg, e);
    pool_close(pool);
    return s;
}

/* What only the finished model knows: its fingerprint, and how far it is from the source. */
static enum tern_status finish_file(const struct request *q, const char *path, struct tern_error *e)
{
    const struct tern_model_params params = {.n_threads = q->n_threads};
    tern_model *m;
    uint64_t fingerprint = 0;
    float error = 0, bound = 0;
    bool golden = false;
    enum tern_status s = tern_model_open(&m, path, &params, e);
    if (!s)
        s = tern_model_seal(m, &fingerprint, e);
    if (!s)
        s = engine_golden(m, &golden, &error, &bound, e);
    tern_model_close(m);
    if (!s && golden && error * BOUND_MARGIN > bound)
        s = writer_patch_bound(path, error * BOUND_MARGIN, e);
    return s ? s : writer_patch_seal(path, TERN_ARITH, fingerprint, e);
}

EXPORT enum tern_status
tern_quantize(const char *in, const char *out, enum tern_type type, int n_threads,
              int (*report)(void *arg, const struct tern_quantize_report *r), void *arg,
              struct tern_error *e)
{
    struct request q = {in, type, n_threads, report, arg};
    struct fpenv saved = fpenv_enter();
    char *temporary = NULL, why[160];
    enum tern_status s = TERN_OK;
    if (n_threads < 0 || n_threads > MAX_THREADS)
        s = error_set(e, TERN_USAGE, "%d threads were asked for, want 1 to %d", n_threads,
                      MAX_THREADS);
    else if (!n_threads)
        q.n_threads = quota_threads(why, sizeof why);
    if (!s)
        s = file_check_target(out, in, e);
    if (!s)
        s = file_take_temporary(&temporary, out, e);
    if (!s)
        s = write_file(&q, temporary, e);
    if (!s)
        s = finish_file(&q, temporary, e);
    if (!s)
        s = file_replace(temporary, out, e);
    if (s)
        file_remove(temporary);
    free(temporary);
    fpenv_leave(saved);
    return s;
}
