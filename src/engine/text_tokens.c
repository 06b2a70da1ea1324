/* Tokens of a text: see text_tokens.h. */
#include "engine/text_tokens.h"

/* ---- the end ------------------------------------------------------------------------------ */

static void close_phase(struct tern_text *t)
{
    t->phase = TEXT_OVER;
    tern_seq_expect(t->ctx, t->p.seq, 0);
}

void text_fail(struct tern_text *t, enum tern_status s)
{
    t->status = t->error.code = s;
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

static bool is_last(struct tern_text *t)
{
    struct tern_generate_result *r = &t->result;
    bool end = ends(t, r->last);
    if (t->out.stopped)
        return true;
    if (t->state && (end || tern_constraint_is_over(t->state)))
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

static enum tern_status accept(struct tern_text *t, tern_token token)
{
    enum tern_status s = t->state ? tern_constraint_accept(t->state, token, &t->error) : TERN_OK;
    return s == TERN_USAGE ? TERN_INTERNAL : s; /* the mask has it */
}

/* Finds the tokens that must come next, as far as the constraint alone knows. */
static void find_forced(struct tern_text *t)
{
    t->n_forced = t->forced_taken = 0;
    if (t->state && !t->p.no_force)
        t->force_status =
            tern_constraint_forced(t->state, t->forced, FORCED_BYTES + 1, &t->n_forced, &t->error);
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
    if (t->force_status)
        text_fail(t, t->force_status);
    while (t->phase == TEXT_GROWS && t->forced_taken < t->n_forced && !text_is_full(t)) {
        tern_token token = t->forced[t->forced_taken++];
        enum tern_status s = accept(t, token);
        if (s)
            text_fail(t, s);
        else
            put(t, token, NULL);
    }
    if (t->n_forced)
        check(t);
}

void text_begin(struct tern_text *t)
{
    bool over = t->state && tern_constraint_is_over(t->state);
    t->phase = TEXT_GROWS;
    if (t->out.stopped || over || t->p.n_predict == 0) {
        if (!t->out.stopped)
            t->result.reason = over ? TERN_STOP_COMPLETE : TERN_STOP_LENGTH;
        text_end(t);
        return;
    }
    find_forced(t);
    text_take_forced(t);
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

void text_choose(struct tern_text *t, const struct sampler *sampler)
{
    const uint32_t *mask = NULL;
    if (t->p.fingerprint)
        note_logits(t);
    t->n_forced = t->forced_taken = 0;
    t->choice_status = t->state ? tern_constraint_mask(t->state, &mask, &t->error) : TERN_OK;
    if (t->choice_status)
        return;
    t->chosen =
        sampler_pick(sampler, &t->sampler, t->logits, t->tokens, t->n_tokens, t->n_tokens, mask);
    t->choice_status = t->chosen < 0 ? dead_end(t) : accept(t, t->chosen);
    if (!t->choice_status && !ends(t, t->chosen))
        find_forced(t);
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
