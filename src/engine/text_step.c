/* tern_step: one batch for several texts, and the tokens that follow from it. */
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "engine/text_rows.h"
#include "engine/text_tokens.h"

struct text_step {
    struct tern_context *ctx;
    tern_text *const *texts; /* [n] */
    size_t n, n_guesses;
    size_t n_added;    /* rows that were in the batch before */
    struct pace *pace; /* NULL: no guesses, and nothing to learn from the time that it takes */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- rows that were added before ---------------------------------------------------------------- */

/* They are the batch again, whatever dropped it: they stay first in the array. */
static void bring_back(const struct text_step *s)
{
    struct tern_context *c = s->ctx;
    tern_batch_clear(c);
    for (; c->forward.n < s->n_added; c->forward.n++)
        c->pending[c->forward.rows[c->forward.n].seq]++;
}

/* To the end of the array or back: batches of one text leave so much room. */
static void move_added(const struct text_step *s, bool aside)
{
    struct row *first = s->ctx->forward.rows;
    struct row *last = first + s->ctx->memory.n_batch - s->n_added;
    memmove(aside ? last : first, aside ? first : last, s->n_added * sizeof *first);
}

/* In a batch of their own, whole: a cancel that comes meanwhile ends the next step. */
static void run_added(const struct text_step *s)
{
    move_added(s, false);
    bring_back(s);
    (void)forward_hold(&s->ctx->forward);
    (void)context_run(s->ctx, false);
    if (forward_release(&s->ctx->forward))
        tern_cancel(s->ctx);
}

/* ---- what a batch evaluates ------------------------------------------------------------------ */

struct room { /* of a batch */
    size_t rows, logits;
};

static bool grows(const struct tern_text *t)
{
    return t->phase == TEXT_GROWS || t->phase == TEXT_ENDS;
}

/* A row for each text that grows, and more for those that have more. */
static void plan_growing(const struct text_step *s, struct room *room)
{
    size_t others = 0;
    for (size_t i = 0; i < s->n; i++)
        others += grows(s->texts[i]);
    for (size_t i = 0; i < s->n; i++) {
        struct tern_text *t = s->texts[i];
        if (!grows(t))
            continue;
        size_t rows = least(text_wanted(t), room->rows - --others);
        t->to += rows;
        room->rows -= rows;
        room->logits--;
    }
}

/* Where each text adds one token, and nothing else does, time tells what guesses are worth. */
static void plan_guesses(struct text_step *s, struct room *room)
{
    bool wanted = false, alike = !s->n_added;
    for (size_t i = 0; i < s->n; i++) {
        const struct tern_text *t = s->texts[i];
        wanted |= t->guesses;
        alike &= t->phase == TEXT_GROWS && text_wanted(t) == 1;
    }
    if (!wanted || !alike)
        return;
    if (s->n == 1 && s->texts[0]->speculate.given) { /* all are worth it, whatever the clock says */
        struct speculate *given = &s->texts[0]->speculate;
        speculate_take(given, s->texts[0]->n_tokens, least(room->rows, room->logits));
        s->n_guesses = given->n_guess;
        return;
    }
    s->pace = &s->ctx->paces[s->n - 1];
    pace_begin(s->pace);
    for (size_t i = 0; i < s->n; i++) {
        struct tern_text *t = s->texts[i];
        if (!t->guesses)
            continue;
        size_t most = least(GUESSES_MOST - s->n_guesses, least(room->rows, room->logits));
        speculate_guess(&t->speculate, s->pace, t->n_tokens, most);
        s->n_guesses += t->speculate.n_guess;
        room->rows -= t->speculate.n_guess;
        room->logits -= t->speculate.n_guess;
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

/* What constraints may do in the step */
static void limit_constraints(const struct text_step *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->texts[i]->state && s->texts[i]->p.constraint_steps)
            constraint_state_hurry(s->texts[i]->state, s->texts[i]->p.constraint_steps);
}

static void plan(struct text_step *s, size_t prompt_rows)
{
    struct room room = {s->ctx->memory.n_batch - s->n_added, s->ctx->memory.n_logits};
    limit_constraints(s);
    for (size_t i = 0; i < s->n; i++) {
        if (s->texts[i]->aside)
            text_take_late(s->texts[i]);
        text_prepare(s->texts[i]);
    }
    bring_back(s);
    plan_growing(s, &room);
    plan_guesses(s, &room);
    if (prompt_rows)
        room.rows = least(room.rows, prompt_rows);
    for (size_t i = 0; i < s->n; i++)
        if (s->texts[i]->phase == TEXT_READS)
            plan_reading(s->texts[i], &room);
}

/* ---- tokens ------------------------------------------------------------------------------- */

static void choose_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct text_step *s = arg;
    for (size_t i = begin; i < end; i++)
        if (s->texts[i]->logits)
            text_choose(s->texts[i], &s->ctx->samplers[thread]);
}

/* Chooses a token for each text that has logits, at the same time. False if none has. */
static bool choose(struct text_step *s)
{
    struct pool *pool = s->ctx->model->pool;
    size_t ready = 0;
    for (size_t i = 0; i < s->n; i++)
        ready += s->texts[i]->logits != NULL;
    if (!ready)
        return false;
    struct fpenv saved = fpenv_enter();
    if (ready == 1) {
        choose_items(s, 0, s->n, 0);
    } else {
        pool_lock(pool);
        pool_run(pool, s->n, choose_items, s);
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
 * would give, and then the next step. */
static void take_tokens(struct text_step *s)
{
    size_t n = 0;
    while (choose(s)) {
        for (size_t i = 0; i < s->n; i++) {
            struct tern_text *t = s->texts[i];
            t->took = t->logits != NULL;
            if (!t->took)
                continue;
            context_see(s->ctx, t->row, t->n_rows);
            text_take(t);
            n++;
        }
        for (size_t i = 0; i < s->n && !forward_is_cancelled(&s->ctx->forward); i++)
            if (s->texts[i]->took)
                follow(s->texts[i]);
    }
    context_drop(s->ctx);
    if (s->n_guesses && s->pace)
        pace_settle(s->pace, n);
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

/* Runs the batch that was planned. TERN_LIMIT: a value was not finite, and it is not known in which text,
 * or whether in a guess; nothing changed. */
static enum tern_status run(const struct text_step *s)
{
    struct tern_context *c = s->ctx;
    bool held = false;
    size_t parts = s->n_added > 0;
    for (size_t i = 0; i < s->n; i++) {
        text_add_rows(s->texts[i]);
        held |= text_is_held(s->texts[i]);
        parts += s->texts[i]->to > s->texts[i]->from;
    }
    if (!parts)
        return TERN_OK;
    if (held)
        (void)forward_hold(&c->forward);
    uint64_t begin = clock_ns();
    enum tern_status status = context_run(c, parts > 1 || s->n_guesses);
    if (held && forward_release(&c->forward))
        tern_cancel(c);
    if (!status && s->n_guesses && s->pace)
        pace_trial(s->pace, seconds(begin, clock_ns()));
    else if (!status && s->pace)
        pace_plain(s->pace, seconds(begin, clock_ns()));
    return status;
}

static enum tern_status together(struct text_step *s, uint64_t begin)
{
    enum tern_status status = run(s);
    if (status)
        return status;
    for (size_t i = 0; i < s->n; i++)
        if (s->texts[i]->to > s->texts[i]->from)
            text_evaluated(s->texts[i]);
    uint64_t read = clock_ns();
    take_tokens(s);
    uint64_t end = clock_ns();
    for (size_t i = 0; i < s->n; i++)
        note_times(s->texts[i], begin, read, end);
    return TERN_OK;
}

/* One after the other, without guesses: a value that is not finite concerns its own text, or came from a
 * guess or a row that was added. A cancel after the first one ends the next step. Added rows come last, so
 * that their hidden states stay. */
static enum tern_status alone(const struct text_step *all)
{
    bool any = false, found = false;
    for (size_t i = 0; i < all->n; i++)
        all->texts[i]->speculate.n_guess = 0;
    move_added(all, true);
    for (size_t i = 0; i < all->n; i++) {
        struct text_step one = {.ctx = all->ctx, .texts = &all->texts[i], .n = 1};
        if (all->texts[i]->to == all->texts[i]->from)
            continue;
        enum tern_status status = together(&one, clock_ns());
        if (status && !any)
            return status;
        any = true;
        found |= status || context_seq_status(all->ctx, all->texts[i]->p.seq, NULL);
        if (status) {
            tern_cancel(all->ctx);
            break;
        }
    }
    if (all->n_added)
        run_added(all);
    for (size_t i = 0; i < all->n && all->n_guesses && !found; i++)
        speculate_stop(&all->texts[i]->speculate);
    return TERN_OK;
}

static enum tern_status check_texts(struct text_step *s, struct tern_error *e)
{
    struct tern_context *c = s->ctx;
    size_t room = c->memory.n_batch - s->n_added;
    if (c->n_logit_rows)
        return error_set(e, TERN_USAGE, "rows that were added to a step ask for logits");
    if (s->n > room)
        return error_set(
            e, TERN_USAGE,
            "a step of %zu texts was asked for: %zu rows that were added leave room for "
            "%zu",
            s->n, s->n_added, room);
    if (s->n > c->memory.n_logits)
        return error_set(
            e, TERN_USAGE,
            "a step of %zu texts was asked for: the context has room for %u (n_logits)", s->n,
            c->memory.n_logits);
    c->n_steps++;
    for (size_t i = 0; i < s->n; i++) {
        struct tern_text *t = s->texts[i];
        const char *why = t->ctx != c             ? "of another context"
                          : t->phase == TEXT_OVER ? "over"
                          : t->late               ? "late"
                          : t->step == c->n_steps ? "in the step twice"
                          : c->pending[t->p.seq]  ? "of a sequence to which rows were added"
                                                  : NULL;
        if (why)
            return error_set(e, TERN_USAGE, "text %zu of the step is %s", i, why);
        t->step = c->n_steps;
    }
    return TERN_OK;
}

enum tern_status tern_step(tern_text *const *texts, size_t n, uint32_t prompt_rows,
                           struct tern_error *e)
{
    uint64_t begin = clock_ns();
    bool held = false;
    if (!n)
        return TERN_OK;
    struct tern_context *c = texts[0]->ctx;
    struct text_step s = {.ctx = c, .texts = texts, .n = n, .n_added = c->forward.n};
    enum tern_status status = check_texts(&s, e);
    c->forward.n_hidden = 0;
    for (size_t i = 0; i < n && !status; i++)
        held |= text_is_held(texts[i]);
    if (!status && !held && atomic_exchange(&c->forward.cancel, 0)) {
        context_see(c, 0, 0);
        status = TERN_CANCELLED;
    }
    if (status) {
        tern_batch_clear(c);
        return status;
    }
    plan(&s, prompt_rows);
    status = together(&s, begin);
    return status == TERN_LIMIT ? alone(&s) : status;
}
