/* Speculation: see speculate.h. */
#include "engine/guess/speculate.h"

#include <string.h>

#include "base/clock.h"
#include "sample/constraint/constraint_state.h"

enum { DRAFT_MAX = 16 };

static double seconds_since(uint64_t begin)
{
    return (double)(clock_ns() - begin) * 1e-9;
}

enum tern_status speculate_open(struct speculate *s, struct tern_context *ctx,
                                const struct tern_generate_params *p, tern_constraint_state *state,
                                struct tern_generate_result *result, const tern_token *text,
                                size_t n, struct tern_error *e)
{
    size_t room = ctx->memory.n_ctx + 1;
    enum tern_status status;
    *s = (struct speculate){.p = p, .state = state, .result = result, .text = text};
    if (p->draft && p->draft == ctx)
        return error_set(e, TERN_USAGE, "the draft's context must be another one");
    if (p->draft && (status = tern_draft_check(ctx->model, p->draft->model, e)))
        return status;
    if (p->mtp && !ctx->model->model->n_mtp)
        return error_set(e, TERN_USAGE, "the model was opened without the layer that guesses");
    s->ctx = ctx;
    s->with_draft = p->draft != NULL;
    s->with_lookup = p->lookup > 0;
    draft_init(&s->draft, p->draft, p->draft_seq, text, n);
    heads_init(&s->heads, p->mtp);
    for (size_t i = 0; !ctx->n_guessing && i < ctx->memory.n_seqs; i++)
        pace_init(&ctx->paces[i], i + 1);
    ctx->n_guessing++;
    if (s->with_lookup && !lookup_open(&s->lookup, text, room))
        return error_memory(e, "the index of the text", room * sizeof *text);
    return TERN_OK;
}

void speculate_close(struct speculate *s)
{
    if (!s->ctx)
        return;
    s->ctx->n_guessing--;
    draft_finish(&s->draft, s->text, tern_seq_length(s->ctx, s->p->seq));
    lookup_close(&s->lookup);
}

void speculate_give(struct speculate *s, const tern_token *given, size_t n_given, size_t n)
{
    s->given = given;
    s->given_from = n, s->given_end = n + n_given;
}

void speculate_restart(struct speculate *s, size_t n)
{
    s->n_guess = 0;
    if (s->with_lookup)
        lookup_clear(&s->lookup);
    s->with_draft = s->p->draft != NULL;
    draft_init(&s->draft, s->p->draft, s->p->draft_seq, s->text, n);
}

/* ---- which guesses ------------------------------------------------------------------------ */

/* Guesses that can be of use: they fit context and batch, and tokens are wanted. */
static size_t most_guesses(const struct speculate *s, size_t most)
{
    const struct tern_memory *plan = &s->ctx->memory;
    size_t used = tern_seq_length(s->ctx, s->p->seq) + 1;
    if (most > plan->n_ctx - used)
        most = plan->n_ctx - used;
    size_t limit = s->ctx->model->model->rope_limit; /* not beyond it in one batch: see settle() */
    if (limit && used <= limit + 1 && most + used > limit)
        most = used <= limit ? limit - used : 0;
    if (s->p->n_predict >= 0 && most > (uint64_t)s->p->n_predict - s->result->n_generated - 1)
        most = (size_t)((uint64_t)s->p->n_predict - s->result->n_generated - 1);
    return most;
}

/* Guesses before one that the constraint refuses, or that differs from one that it forces: it is asked
 * behind each token that would be chosen, as a text asks it. */
static size_t cut_bound(const struct speculate *s, size_t n)
{
    tern_token forced[GUESSES_MOST];
    size_t i = 0, at = 0, n_forced = 0;
    for (; i < n && !tern_constraint_is_over(s->state); i++) {
        if ((at < n_forced && s->guess[i] != forced[at]) ||
            tern_constraint_accept(s->state, s->guess[i], NULL))
            break;
        if (at < n_forced)
            at++;
        else if (at = n_forced = 0, !s->p->no_force)
            (void)tern_constraint_forced(s->state, forced, GUESSES_MOST, &n_forced, NULL);
    }
    (void)tern_constraint_rollback(s->state, i);
    s->state->is_late = false; /* fewer guesses will do */
    return i;
}

/* Guesses before one that ends the text or that cannot come. */
static size_t cut(const struct speculate *s, size_t n)
{
    size_t i = 0;
    while (i < n && s->guess[i] >= 0 && (size_t)s->guess[i] < s->ctx->model->model->vocab &&
           (s->p->ignore_end || !tern_token_is_end(s->ctx->model, s->guess[i])))
        i++;
    return s->state ? cut_bound(s, i) : i;
}

static size_t choose_lookup(struct speculate *s, size_t most, float *gain)
{
    *gain = 1;
    if (!s->with_lookup)
        return 0;
    most = most < s->p->lookup ? most : s->p->lookup;
    most = cut(s, lookup_guess(&s->lookup, s->made, s->chance, most));
    size_t n = pace_choose(s->pace, s->chance, most, 0, gain);
    if (most && !n)
        pace_pass(s->pace);
    return n;
}

static size_t choose_draft(struct speculate *s, size_t n, size_t most, float *gain)
{
    struct draft *d = &s->draft;
    float chance[GUESSES_MOST];
    size_t max = s->p->draft_max ? s->p->draft_max : DRAFT_MAX;
    *gain = 1;
    if (!s->with_draft || s->pace->base <= 0)
        return 0;
    for (size_t i = 0; i < GUESSES_MOST; i++)
        chance[i] = d->chance;
    size_t m = pace_choose(s->pace, chance, most < max ? most : max,
                           (float)(d->each / s->pace->base), gain);
    size_t lag = draft_lag(d, s->text, n);
    if (m && d->fed && (double)lag * d->fill > (double)s->pace->credit * s->pace->base)
        m = 0;
    if (!m)
        draft_pass(d), pace_pass(s->pace);
    return m;
}

static float each_of_heads(const struct speculate *s)
{
    return (float)(s->heads.each / s->pace->base);
}

static size_t choose_heads(struct speculate *s, size_t most, float *gain)
{
    struct heads *h = &s->heads;
    *gain = 1;
    if (!h->max || s->pace->base <= 0)
        return 0;
    size_t n =
        pace_choose(s->pace, h->chance, most < h->max ? most : h->max, each_of_heads(s), gain);
    if (!n)
        heads_pass(h), pace_pass(s->pace);
    return n;
}

/* A guess is worth its price when it is more likely than the tokens that the time gives otherwise. */
static size_t ask_heads(struct speculate *s, size_t n, size_t most, float gain, double *extra)
{
    struct heads *h = &s->heads;
    uint64_t begin = clock_ns();
    float least = pace_least(s->pace, most - 1, each_of_heads(s), gain);
    heads_guess(h, s->ctx, s->p->seq, s->text[n - 1], most, least);
    *extra = h->each > 0 ? seconds_since(begin) : 0; /* the first touch memory that is still cold */
    memcpy(s->made, h->guess, sizeof h->guess);
    memcpy(s->chance, h->chance, sizeof h->chance);
    size_t found = cut(s, h->n_guess);
    if (!found)
        pace_waste(s->pace, *extra);
    return found;
}

/* Fills s->guess and returns how many to try; *extra gets the seconds that they cost. */
static size_t make_guesses(struct speculate *s, size_t n, size_t most, double *extra)
{
    float by_lookup, by_draft, by_heads;
    most = most_guesses(s, most);
    size_t found = choose_lookup(s, most, &by_lookup);
    size_t drafts = choose_draft(s, n, most, &by_draft), heads = choose_heads(s, most, &by_heads);
    *extra = 0;
    s->by = BY_LOOKUP;
    if (drafts && !(found && by_lookup >= by_draft))
        s->by = BY_DRAFT;
    if (heads && by_heads > (s->by == BY_DRAFT ? by_draft : found ? by_lookup : 0))
        s->by = BY_HEADS;
    if (s->by == BY_HEADS)
        return ask_heads(s, n, heads, by_heads, extra);
    if (s->by == BY_LOOKUP)
        return found;
    bool first = s->draft.fed == 0; /* to read the prompt is the price of having a draft */
    uint64_t begin = clock_ns();
    draft_guess(&s->draft, s->text, n, drafts, &s->ctx->forward.cancel);
    *extra = first ? 0 : seconds_since(begin);
    if (!s->draft.n_guess)
        s->with_draft = false; /* its context is full, or a token is none of its own */
    memcpy(s->made, s->draft.guess, sizeof s->made);
    for (size_t i = 0; i < s->draft.n_guess; i++)
        s->chance[i] = s->draft.chance;
    return cut(s, s->draft.n_guess);
}

/* ---- steps -------------------------------------------------------------------------------- */

/* The last trial is over: what it gave is known. */
static void settle(struct speculate *s)
{
    if (!s->n_guess)
        return;
    if (s->by == BY_DRAFT)
        draft_learn(&s->draft, s->right);
    if (s->by == BY_HEADS)
        heads_learn(&s->heads, s->right);
    s->n_guess = 0;
}

/* The prompt at once, and then token by token. */
static void index_text(struct speculate *s, size_t n)
{
    bool prompt = s->lookup.n == 0;
    while (s->lookup.n < n - prompt)
        lookup_push(&s->lookup);
    if (prompt) {
        lookup_doubt(&s->lookup);
        lookup_push(&s->lookup);
    }
}

bool speculate_follow(struct speculate *s, size_t n)
{
    if (s->with_lookup)
        index_text(s, n);
    uint32_t seq = s->p->seq;
    size_t from = tern_seq_length(s->ctx, seq);
    for (; from < n && s->ctx->cache.ahead[seq] && s->guess[s->right] == s->text[from]; from++) {
        context_show(s->ctx, seq, s->row + s->right++, from + 1 == n);
        s->result->n_accepted++;
    }
    if (from < n)
        settle(s);
    return from == n;
}

void speculate_guess(struct speculate *s, struct pace *pace, size_t n, size_t most)
{
    s->pace = pace;
    s->n_guess = s->right = 0, s->extra = 0;
    s->guess = s->made;
    if (!s->with_lookup && !s->with_draft && !s->heads.max)
        return;
    s->n_guess = make_guesses(s, n, most, &s->extra);
    if (s->n_guess)
        pace_add(pace, s->chance, s->n_guess, s->extra);
}

void speculate_take(struct speculate *s, size_t n, size_t most)
{
    size_t left = n < s->given_end ? s->given_end - n : 0;
    most = most_guesses(s, most);
    s->right = 0;
    s->by = BY_LOOKUP; /* and none learns from them */
    s->guess = s->given + (n - s->given_from);
    s->n_guess = cut(s, left < most ? left : most);
}

void speculate_stop(struct speculate *s)
{
    s->with_lookup = s->with_draft = false;
    s->heads.max = 0;
    s->given = NULL;
    s->n_guess = 0;
}
