/* Rows of a text: see text_rows.h. */
#include "engine/text_rows.h"

#include <assert.h>
#include <string.h>

#include "engine/text_tokens.h"
#include "tern_lab.h"

/* The context is full, but for the last token: the first tokens and the newest half of the others become
 * the text, read as a new one. */
static void begin_shift(struct tern_text *t)
{
    size_t most = t->ctx->memory.n_ctx / 2, keep = t->p.keep < most ? t->p.keep : most;
    size_t newest = (t->n_tokens - keep) / 2;
    memmove(t->tokens + keep, t->tokens + t->n_tokens - newest, newest * sizeof *t->tokens);
    t->n_tokens = keep + newest;
    size_t from = tern_seq_reuse(t->ctx, t->p.seq, t->tokens, t->n_tokens);
    if (t->guesses)
        speculate_restart(&t->speculate, t->n_tokens);
    *t->sampler.mu = 2 * t->sampler.mirostat_tau;
    t->phase = TEXT_READS;
    t->shifts = true;
    t->result.n_shifts++;
    t->result.n_shifted += t->n_tokens - from;
}

void text_prepare(struct tern_text *t)
{
    uint32_t length = tern_seq_length(t->ctx, t->p.seq);
    if (length > t->n_tokens) {
        text_fail(t,
                  error_set(&t->error, TERN_USAGE,
                            "sequence %u has grown beyond the text that is made in it", t->p.seq));
        return;
    }
    if (t->phase == TEXT_GROWS && text_is_full(t))
        begin_shift(t);
    else if (t->phase == TEXT_GROWS && length == t->n_tokens) /* its logits are gone */
        tern_seq_keep(t->ctx, t->p.seq, length - 1);
    t->from = t->to = tern_seq_length(t->ctx, t->p.seq);
    t->was_reading = t->phase == TEXT_READS && !t->shifts;
    t->was_shifting = t->phase == TEXT_READS && t->shifts;
    t->n_rows = 0;
    t->speculate.n_guess = 0;
    tern_seq_expect(t->ctx, t->p.seq, (uint32_t)(t->from + text_wanted(t)));
}

size_t text_wanted(const struct tern_text *t)
{
    return t->phase == TEXT_OVER ? 0 : text_pending(t) - (t->phase == TEXT_ENDS);
}

bool text_wants_all(const struct tern_text *t)
{
    return t->p.logits_all && t->phase == TEXT_READS && !t->shifts;
}

bool text_is_held(const struct tern_text *t)
{
    return t->phase == TEXT_ENDS || (t->phase == TEXT_READS && t->shifts);
}

#ifdef TERN_MPI

/* How many of the best logits the sampler reads; 0: perhaps all */
static uint16_t best_of(const struct tern_text *t)
{
    bool all = !t->p.best_only || t->state || t->p.fingerprint || t->p.logits_all;
    size_t n = all || t->ctx->memory.fingerprint ? 0 : sampler_reads(&t->sampler);
    return (uint16_t)(n <= MOST_BEST ? n : 0);
}

#endif

static void add(struct tern_text *t, tern_token token, bool asks, bool trial)
{
    struct row row = {.seq = t->p.seq, .token = token, .trial = trial};
    row.flags = asks ? TERN_ROW_LOGITS : 0;
    row.within = t->phase != TEXT_READS;
#ifdef TERN_MPI
    row.best = best_of(t);
#endif
    enum tern_status s = context_add(t->ctx, row, NULL);
    assert(!s);
    (void)s;
}

void text_add_rows(struct tern_text *t)
{
    bool all = text_wants_all(t);
    t->row = t->ctx->n_logit_rows;
    for (size_t i = t->from; i < t->to; i++)
        add(t, t->tokens[i], all || i + 1 == t->n_tokens, false);
    t->n_rows = t->ctx->n_logit_rows - t->row;
    for (size_t i = 0; i < t->speculate.n_guess; i++)
        add(t, t->speculate.guess[i], true, true);
    t->speculate.row = t->row + t->n_rows;
}

static void read_on(struct tern_text *t)
{
    size_t done = t->to - t->begin, total = t->n_tokens - t->begin;
    t->result.n_prompt = done;
    if (t->p.on_prompt && t->p.on_prompt(t->p.arg, done, total))
        text_out_stop(&t->out, TERN_STOP_CANCELLED);
    if (done == total || t->out.stopped)
        text_begin(t);
}

/* All tokens are evaluated: others must come next, or the next one is chosen. */
static void go_on(struct tern_text *t)
{
    struct tern_context *c = t->ctx;
    if (t->forced_taken < t->n_forced)
        text_take_forced(t);
    else
        t->logits = c->forward.logits + (t->row + t->n_rows - 1) * c->forward.vocab_stride;
}

void text_evaluated(struct tern_text *t)
{
    struct tern_context *c = t->ctx;
    context_see(c, t->row, t->n_rows);
    if (c->memory.fingerprint)
        tern_fingerprint_add(c);
    t->result.n_steps += t->phase != TEXT_READS;
    t->result.n_drafted += t->speculate.n_guess;
    if (t->was_reading)
        read_on(t);
    else if (t->was_shifting && t->to == t->n_tokens)
        t->shifts = false, t->phase = TEXT_GROWS;
    else if (t->phase == TEXT_ENDS && text_pending(t) < 2)
        text_finish(t);
    /* a cancel that came during a shift ends the text behind it, before anything is chosen */
    bool cancelled = t->was_shifting && forward_is_cancelled(&c->forward);
    if (t->phase == TEXT_GROWS && !text_pending(t) && !cancelled)
        go_on(t);
}
