/* Beginnings that were evaluated before: see reuse.h. */
#include "app/serve/model/reuse.h"

enum { WORTH = 32 }; /* rows that waiting must save */

static size_t common(const tern_token *a, size_t n_a, const tern_token *b, size_t n_b)
{
    size_t n = n_a < n_b ? n_a : n_b, i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

/* Where the logits of all rows are wanted, all are evaluated. */
static bool looks(const struct job_request *r)
{
    return r->cache_prompt && !r->prompt_logprobs;
}

/* Tokens of the prompt that the sequence begins with; never all of them. */
static size_t held(const struct scheduler *s, uint32_t seq, const struct job_request *r)
{
    return common(tern_seq_tokens(s->ctx, seq), tern_seq_length(s->ctx, seq), r->prompt,
                  r->n_prompt - 1);
}

bool reuse_should_wait(struct scheduler *s, struct job *j)
{
    const struct job_request *r = &j->request;
    size_t kept = SIZE_MAX;
    for (uint32_t i = 0; i < s->n_parallel && looks(r); i++) {
        const struct job *other = s->running[i];
        if (!other || !other->text || !other->request.cache_prompt || other->closed)
            continue;
        size_t unread = tern_text_unread(other->text);
        size_t read = other->request.n_prompt - unread;
        size_t n = unread ? common(other->request.prompt, other->request.n_prompt, r->prompt,
                                   r->n_prompt - 1)
                          : 0;
        if (n < WORTH || n <= read)
            continue;
        if (kept == SIZE_MAX)
            kept = tern_prefix_reach(s->ctx, r->prompt, r->n_prompt);
        if (n >= (kept > read ? kept : read) + WORTH)
            return true;
    }
    return false;
}

uint32_t reuse_choose(struct scheduler *s, const struct job *j)
{
    uint32_t best = s->n_parallel;
    size_t most = 0;
    for (uint32_t i = 0; i < s->n_parallel; i++) {
        if (s->running[i])
            continue;
        size_t n = looks(&j->request) ? held(s, i, &j->request) : 0;
        if (best == s->n_parallel || n > most || (n == most && s->ended[i] < s->ended[best]))
            best = i, most = n;
    }
    return best;
}

/* The sequence that holds most of the prompt. */
static uint32_t fullest(const struct scheduler *s, const struct job *j, size_t *n)
{
    uint32_t best = j->seq;
    *n = held(s, best, &j->request);
    for (uint32_t i = 0; i < s->n_parallel; i++) {
        const struct job *other = s->running[i];
        bool is_private = other && !other->request.cache_prompt;
        size_t here = i == j->seq || is_private ? 0 : held(s, i, &j->request);
        if (here > *n)
            best = i, *n = here;
    }
    return best;
}

size_t reuse_begin(struct scheduler *s, struct job *j)
{
    const struct job_request *r = &j->request;
    size_t n, kept;
    if (!looks(r))
        return tern_seq_keep(s->ctx, j->seq, 0);
    uint32_t from = fullest(s, j, &n);
    kept = tern_prefix_reach(s->ctx, r->prompt, r->n_prompt);
    if (kept >= n)
        n = 0;
    else if (from == j->seq)
        n = tern_seq_reuse(s->ctx, j->seq, r->prompt, r->n_prompt);
    else
        n = tern_seq_fork(s->ctx, from, j->seq, (uint32_t)n);
    return n > kept ? n : tern_prefix_find(s->ctx, j->seq, r->prompt, r->n_prompt);
}

void reuse_stepped(struct scheduler *s, struct job *j)
{
    uint32_t n = tern_seq_length(s->ctx, j->seq) / PAGE;
    bool is_read = !j->keeps_prompt && !tern_text_unread(j->text);
    if (!j->request.cache_prompt || (n == j->n_kept && !is_read))
        return;
    tern_prefix_keep(s->ctx, j->seq);
    j->n_kept = n;
    j->keeps_prompt = is_read || j->keeps_prompt;
}

void reuse_end(struct scheduler *s, struct job *j)
{
    if (j->request.cache_prompt)
        tern_prefix_keep(s->ctx, j->seq);
    else
        (void)tern_seq_keep(s->ctx, j->seq, 0);
    s->ended[j->seq] = ++s->n_ends;
}
