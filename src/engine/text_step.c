/* tern_step: one batch for several texts, and the tokens that follow from it. */
#include "base/clock.h"
#include "base/fpenv.h"
#include "engine/text_rows.h"
#include "engine/text_tokens.h"

/* ---- what a batch evaluates ------------------------------------------------------------------ */

struct room { /* of a batch */
    size_t rows, logits;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool grows(const struct tern_text *t)
{
    return t->phase == TEXT_GROWS || t->phase == TEXT_ENDS;
}

/* A row for each text that grows, and more for those that have more. */
static void plan_growing(tern_text *const *texts, size_t n, struct room *room)
{
    size_t others = 0;
    for (size_t i = 0; i < n; i++)
        others += grows(texts[i]);
    for (size_t i = 0; i < n; i++) {
        if (!grows(texts[i]))
            continue;
        size_t rows = least(text_wanted(texts[i]), room->rows - --others);
        texts[i]->to += rows;
        room->rows -= rows;
        room->logits--;
    }
}

/* Of a prompt, as much as fits. A lone last row would be no end of a prompt (forward.c). */
static void plan_reading(struct tern_text *t, struct room *room)
{
    size_t wanted = text_wanted(t), rows = least(wanted, room->rows);
    bool all = text_wants_all(t);
    if (all)
        rows = least(rows, room->logits);
    else if (rows == wanted && !room->logits)
        rows--;
    rows -= rows > 2 && rows + 1 == wanted;
    t->to += rows;
    room->rows -= rows;
    room->logits -= all ? rows : rows == wanted;
}

static void plan(struct tern_context *c, tern_text *const *texts, size_t n, size_t prompt_rows)
{
    struct room room = {c->memory.n_batch, c->memory.n_logits};
    plan_growing(texts, n, &room);
    struct tern_text *t = texts[0];
    if (n == 1 && t->guesses && t->phase == TEXT_GROWS && text_wanted(t) == 1)
        speculate_guess(&t->speculate, t->n_tokens, least(room.rows, room.logits));
    if (prompt_rows)
        room.rows = least(room.rows, prompt_rows);
    for (size_t i = 0; i < n; i++)
        if (texts[i]->phase == TEXT_READS)
            plan_reading(texts[i], &room);
}

/* ---- tokens ------------------------------------------------------------------------------- */

struct choices {
    struct tern_context *ctx;
    tern_text *const *texts;
};

static void choose_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct choices *job = arg;
    for (size_t i = begin; i < end; i++)
        if (job->texts[i]->logits)
            text_choose(job->texts[i], &job->ctx->samplers[thread]);
}

/* Chooses a token for each text that has logits, at the same time. False if none has. */
static bool choose(struct tern_context *c, tern_text *const *texts, size_t n)
{
    struct choices job = {c, texts};
    struct pool *pool = c->model->pool;
    size_t ready = 0;
    for (size_t i = 0; i < n; i++)
        ready += texts[i]->logits != NULL;
    if (!ready)
        return false;
    struct fpenv saved = fpenv_enter();
    if (ready == 1) {
        choose_items(&job, 0, n, 0);
    } else {
        pool_lock(pool);
        pool_run_dynamic(pool, n, choose_items, &job);
        pool_unlock(pool);
    }
    fpenv_leave(saved);
    return true;
}

/* What was guessed right is evaluated already, and the next token can be chosen at once. */
static void follow(struct tern_text *t)
{
    struct tern_context *c = t->ctx;
    if (t->phase != TEXT_GROWS || text_is_full(t) || !t->guesses ||
        !speculate_follow(&t->speculate, t->n_tokens))
        return;
    t->row = c->first_seen, t->n_rows = 1;
    t->logits = c->forward.logits + t->row * c->forward.vocab_stride;
}

/* In the order of the texts, as long as one of them has logits to choose from. A cancel ends what guesses
 * would give, as it ends the next step. */
static void take_tokens(struct tern_context *c, tern_text *const *texts, size_t n)
{
    while (choose(c, texts, n)) {
        for (size_t i = 0; i < n; i++) {
            struct tern_text *t = texts[i];
            t->took = t->logits != NULL;
            if (!t->took)
                continue;
            context_see(c, t->row, t->n_rows);
            text_take(t);
        }
        for (size_t i = 0; i < n && !forward_is_cancelled(&c->forward); i++)
            if (texts[i]->took)
                follow(texts[i]);
    }
    context_drop(c);
}

/* ---- a step ------------------------------------------------------------------------------- */

static double seconds(uint64_t begin, uint64_t end)
{
    return (double)(end - begin) * 1e-9;
}

/* `read`: when the batch was evaluated and the texts had heard of it. */
static void note_times(struct tern_text *t, uint64_t begin, uint64_t read, uint64_t end)
{
    if (t->was_reading)
        t->result.prompt_seconds += seconds(begin, read);
    if (t->was_shifting)
        t->result.shift_seconds += seconds(begin, read);
    t->result.generate_seconds += seconds(t->was_reading ? read : begin, end);
}

/* Runs the batch that was planned for these texts. TERN_LIMIT: a value was not finite, and it is not known
 * in which text, or whether in a guess; nothing changed. */
static enum tern_status run(struct tern_context *c, tern_text *const *texts, size_t n)
{
    bool held = false;
    size_t parts = 0, guesses = 0;
    for (size_t i = 0; i < n; i++) {
        text_add_rows(texts[i]);
        held |= text_is_held(texts[i]);
        parts += texts[i]->to > texts[i]->from;
        guesses += texts[i]->guesses ? texts[i]->speculate.n_guess : 0;
    }
    if (!parts)
        return TERN_OK;
    if (held)
        (void)forward_hold(&c->forward);
    uint64_t begin = clock_ns();
    enum tern_status s = context_run(c, parts > 1 || guesses);
    if (held && forward_release(&c->forward))
        tern_cancel(c);
    struct tern_text *t = texts[0];
    if (!s && n == 1 && t->guesses && t->phase == TEXT_GROWS && t->to == t->from + 1)
        speculate_ran(&t->speculate, seconds(begin, clock_ns()));
    return s;
}

static enum tern_status together(struct tern_context *c, tern_text *const *texts, size_t n,
                                 uint64_t begin)
{
    enum tern_status s = run(c, texts, n);
    if (s)
        return s;
    for (size_t i = 0; i < n; i++)
        if (texts[i]->to > texts[i]->from)
            text_evaluated(texts[i]);
    uint64_t read = clock_ns();
    take_tokens(c, texts, n);
    uint64_t end = clock_ns();
    for (size_t i = 0; i < n; i++)
        note_times(texts[i], begin, read, end);
    return TERN_OK;
}

/* One after the other, without guesses: a value that is not finite concerns its own text. A cancel after
 * the first one ends the next step. */
static enum tern_status alone(struct tern_context *c, tern_text *const *texts, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        if (texts[i]->guesses && texts[i]->speculate.n_guess)
            speculate_stop(&texts[i]->speculate);
    for (size_t i = 0; i < n; i++) {
        if (texts[i]->to == texts[i]->from)
            continue;
        enum tern_status s = together(c, &texts[i], 1, clock_ns());
        if (s && any)
            tern_cancel(c);
        if (s)
            return any ? TERN_OK : s;
        any = true;
    }
    return TERN_OK;
}

static enum tern_status check_texts(tern_text *const *texts, size_t n, struct tern_error *e)
{
    struct tern_context *c = texts[0]->ctx;
    size_t most = c->memory.n_logits;
    if (n > most)
        return error_set(e, TERN_USAGE,
                         "a step of %zu texts was asked for: the context has room for %zu (n_logits)",
                         n, most);
    c->n_steps++;
    for (size_t i = 0; i < n; i++) {
        const char *why = texts[i]->ctx != c              ? "of another context"
                          : texts[i]->phase == TEXT_OVER  ? "over"
                          : texts[i]->step == c->n_steps ? "in the step twice"
                                                          : NULL;
        if (why)
            return error_set(e, TERN_USAGE, "text %zu of the step is %s", i, why);
        texts[i]->step = c->n_steps;
    }
    return TERN_OK;
}

enum tern_status tern_step(tern_text *const *texts, size_t n, uint32_t prompt_rows,
                           struct tern_error *e)
{
    uint64_t begin = clock_ns();
    bool held = false;
    enum tern_status s = n ? check_texts(texts, n, e) : TERN_OK;
    if (s || !n)
        return s;
    struct tern_context *c = texts[0]->ctx;
    for (size_t i = 0; i < n; i++)
        held |= text_is_held(texts[i]);
    if (!held && atomic_exchange(&c->forward.cancel, 0)) {
        context_see(c, 0, 0);
        return TERN_CANCELLED;
    }
    tern_batch_clear(c);
    for (size_t i = 0; i < n; i++)
        text_prepare(texts[i]);
    plan(c, texts, n, prompt_rows);
    s = together(c, texts, n, begin);
    return s == TERN_LIMIT ? alone(c, texts, n) : s;
}
