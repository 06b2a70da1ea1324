/* Tokens of a text: see text_tokens.h. */
#include "engine/text_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"

void text_drop_ahead(struct tern_text *t)
{
    size_t n = t->n_forced - t->forced_taken;
    if (t->aside && !t->late && !t->choice_status)
        n++;
    if (t->state)
        (void)tern_constraint_rollback(t->state, n);
    t->n_forced = t->forced_taken;
    t->late = false;
    free(t->aside);
    t->aside = NULL;
}

/* ---- the end ------------------------------------------------------------------------------ */

static void close_phase(struct tern_text *t)
{
    t->phase = TEXT_OVER;
    tern_seq_expect(t->ctx, t->p.seq, 0);
}

void text_fail(struct tern_text *t, enum tern_status s)
{
    t->status = t->error.code = s;
    text_drop_ahead(t);
    close_phase(t);
}

void text_finish(struct tern_text *t)
{
    enum tern_status s = text_out_finish(&t->out);
    if (!s)
        s = context_seq_status(t->ctx, t->p.seq, &t->error);
    t->status = s;
    close_phase(t);
}

void text_end(struct tern_text *t)
{
    t->phase = TEXT_ENDS;
    text_drop_ahead(t);
    if (!t->result.n_generated || text_pending(t) < 2)
        text_finish(t);
}

void text_cancel(struct tern_text *t)
{
    t->result.reason = TERN_STOP_CANCELLED;
    if (t->result.n_generated && !text_pending(t))
        t->result.last = -1;
    text_end(t);
}

static bool ends(const struct tern_text *t, tern_token token)
{
    return !t->p.ignore_end && tern_token_is_end(t->ctx->model, token);
}

static bool is_complete(const struct tern_text *t)
{
    return t->result.n_generated == t->complete_at;
}

static bool is_last(struct tern_text *t)
{
    struct tern_generate_result *r = &t->result;
    bool end = ends(t, r->last);
    if (t->out.stopped)
        return true;
    if (t->state && (end || is_complete(t)))
        r->reason = TERN_STOP_COMPLETE;
    else if (end)
        r->reason = TERN_STOP_END;
    else if (t->p.n_predict >= 0 && r->n_generated >= (uint64_t)t->p.n_predict)
        r->reason = TERN_STOP_LENGTH;
    else if (!t->p.shift && text_is_full(t))
        r->reason = TERN_STOP_CONTEXT;
    else
        return false;
    return true;
}

/* ---- tokens ------------------------------------------------------------------------------- */

/* The text goes on with a token that its constraint, if it has one, has accepted. logits: NULL when it
 * was forced. */
static void put(struct tern_text *t, tern_token token, const float *logits)
{
    struct tern_generate_result *r = &t->result;
    enum tern_status s = TERN_OK;
    t->tokens[t->n_tokens++] = r->last = token;
    r->n_generated++;
    r->n_forced += !logits;
    if (t->p.on_token && t->p.on_token(t->p.arg, token, logits))
        text_out_stop(&t->out, TERN_STOP_CANCELLED);
    if (!ends(t, token))
        s = text_out_put(&t->out, token);
    if (s)
        text_fail(t, s);
    else if (is_last(t))
        text_end(t);
}

/* What was not finite ends a text behind the token that it gave. */
static void check(struct tern_text *t)
{
    enum tern_status s = context_seq_status(t->ctx, t->p.seq, &t->error);
    if (s && t->phase == TEXT_GROWS)
        text_fail(t, s);
}

void text_take_forced(struct tern_text *t)
{
    while (t->phase == TEXT_GROWS && t->forced_taken < t->n_forced && !text_is_full(t))
        put(t, t->forced[t->forced_taken++], NULL);
    if (t->phase == TEXT_GROWS && t->forced_taken == t->n_forced && t->force_status)
        text_fail(t, t->force_status);
    if (t->n_forced)
        check(t);
}

void text_begin(struct tern_text *t)
{
    t->phase = TEXT_GROWS;
    if (t->out.stopped || is_complete(t) || t->p.n_predict == 0) {
        if (!t->out.stopped)
            t->result.reason = is_complete(t) ? TERN_STOP_COMPLETE : TERN_STOP_LENGTH;
        text_end(t);
        return;
    }
    text_take_forced(t);
}

void text_take(struct tern_text *t)
{
    const float *logits = t->logits;
    t->logits = NULL;
    if (t->choice_status) {
        text_fail(t, t->choice_status);
        return;
    }
    put(t, t->chosen, logits);
    if (t->phase == TEXT_GROWS)
        text_take_forced(t);
    check(t);
}

void text_take_late(struct tern_text *t)
{
    float *logits = t->aside;
    t->aside = NULL;
    t->logits = logits;
    context_see(t->ctx, 0, 0);
    text_take(t);
    free(logits);
}

/* ---- what the constraint says ----------------------------------------------------------------- */

static bool is_late(const struct tern_text *t)
{
    return t->state && t->state->is_late;
}

static enum tern_status accept(struct tern_text *t, tern_token token)
{
    enum tern_status s = t->state ? tern_constraint_accept(t->state, token, &t->error) : TERN_OK;
    return s == TERN_USAGE ? TERN_INTERNAL : s; /* the mask has it */
}

static void know_nothing(struct tern_text *t)
{
    t->n_forced = t->forced_taken = 0;
    t->force_status = TERN_OK;
    t->complete_at = SIZE_MAX;
}

/* Behind n generated tokens: is the text over, and which tokens must come? The state goes behind these. */
static void look_ahead(struct tern_text *t, size_t n)
{
    size_t found = 0;
    if (!t->state)
        return;
    if (tern_constraint_is_over(t->state)) {
        t->complete_at = n;
        return;
    }
    if (!t->p.no_force)
        t->force_status =
            tern_constraint_forced(t->state, t->forced, FORCED_BYTES + 1, &found, &t->error);
    while (t->n_forced < found && !(t->force_status = accept(t, t->forced[t->n_forced])))
        t->n_forced++;
    if (t->n_forced && tern_constraint_is_over(t->state))
        t->complete_at = n + t->n_forced;
}

/* What a call that was late has found so far is found once more. */
static void go_back(struct tern_text *t, size_t n_accepted)
{
    (void)tern_constraint_rollback(t->state, n_accepted + t->n_forced);
    know_nothing(t);
}

/* A state of the text's own is not begun yet. */
static enum tern_status look_at_beginning(struct tern_text *t)
{
    know_nothing(t);
    enum tern_status s =
        t->state && !t->state->form ? constraint_state_start(t->state, &t->error) : TERN_OK;
    if (!s)
        look_ahead(t, 0);
    if (is_late(t))
        go_back(t, 0);
    return is_late(t) ? TERN_OK : s;
}

enum tern_status text_look_first(struct tern_text *t, struct tern_error *e)
{
    if (t->state && t->p.constraint_steps)
        constraint_state_hurry(t->state, t->p.constraint_steps);
    enum tern_status s = look_at_beginning(t);
    t->late = is_late(t);
    if (s)
        *e = t->error;
    return s;
}

static enum tern_status dead_end(struct tern_text *t)
{
    t->result.reason = TERN_STOP_DEAD_END;
    return error_set(&t->error, TERN_INTERNAL,
                     "the constraint allows no token after %zu of them, and the text is not "
                     "finished: a dead end, which is a bug in tern",
                     t->result.n_generated);
}

static void note_logits(struct tern_text *t)
{
    uint64_t position = t->n_tokens - 1;
    xxh64_update(&t->hash, &position, sizeof position);
    xxh64_update(&t->hash, t->logits, t->ctx->model->model->vocab * sizeof *t->logits);
    t->result.n_fingerprinted++;
}

static void choose(struct tern_text *t, const struct sampler *sampler, const float *logits)
{
    const uint32_t *mask = NULL;
    const float mu = *t->sampler.mu;
    know_nothing(t);
    t->choice_status = t->state ? tern_constraint_mask(t->state, &mask, &t->error) : TERN_OK;
    if (t->choice_status)
        return;
    t->chosen =
        sampler_pick(sampler, &t->sampler, logits, t->tokens, t->n_tokens, t->n_tokens, mask);
    t->choice_status = t->chosen < 0 ? dead_end(t) : accept(t, t->chosen);
    bool accepted = !t->choice_status;
    if (accepted && !ends(t, t->chosen))
        look_ahead(t, t->result.n_generated + 1);
    if (is_late(t)) {
        *t->sampler.mu = mu;
        go_back(t, accepted);
    }
}

void text_choose(struct tern_text *t, const struct sampler *sampler)
{
    const size_t bytes = t->ctx->model->model->vocab * sizeof *t->aside;
    if (t->p.fingerprint)
        note_logits(t);
    choose(t, sampler, t->logits);
    if (!is_late(t))
        return;
    t->aside = malloc(bytes);
    if (!t->aside) {
        t->choice_status = error_memory(&t->error, "logits of a text that is late", bytes);
        return;
    }
    memcpy(t->aside, t->logits, bytes);
    t->late = true, t->logits = NULL;
}

int tern_text_is_late(const tern_text *t)
{
    return t->late;
}

void tern_text_catch_up(tern_text *t)
{
    const struct tern_model *m = t->ctx->model;
    struct stop stop = {.ask = m->stop, .arg = m->stop_arg};
    if (!t->late)
        return;
    struct fpenv saved = fpenv_enter();
    constraint_state_take_time(t->state, &stop);
    enum tern_status s = TERN_OK;
    if (t->aside)
        choose(t, &t->ctx->samplers[t->ctx->n_samplers - 1], t->aside);
    else
        s = look_at_beginning(t);
    constraint_state_take_time(t->state, NULL);
    fpenv_leave(saved);
    if (stop.stopped)
        s = error_set(&t->error, TERN_CANCELLED, "constraint: its work was stopped");
    if (s)
        *(t->aside ? &t->choice_status : &t->force_status) = s;
    t->late = false;
}
