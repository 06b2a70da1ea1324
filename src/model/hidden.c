/* Hidden states of the newest positions: see hidden.h. */
#include "model/hidden.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/sizes.h"

uint64_t hidden_bytes(const struct model *m, size_t n_seqs)
{
    return m->n_mtp ? (uint64_t)n_seqs * HIDDEN_RING * m->dim * sizeof(float) : 0;
}

enum tern_status hidden_open(struct hidden *h, const struct model *m, size_t n_seqs,
                             struct tern_error *e)
{
    *h = (struct hidden){.dim = m->n_mtp ? m->dim : 0};
    if (!h->dim)
        return TERN_OK;
    h->seqs = calloc(n_seqs, sizeof *h->seqs);
    h->ring = calloc(n_seqs * HIDDEN_RING, h->dim * sizeof *h->ring);
    if (!h->seqs || !h->ring)
        return error_memory(e, "the hidden states", (size_t)hidden_bytes(m, n_seqs));
    for (size_t seq = 0; seq < n_seqs; seq++)
        hidden_refill(h, seq, 0, 0);
    return TERN_OK;
}

void hidden_close(struct hidden *h)
{
    free(h->seqs);
    free(h->ring);
    *h = (struct hidden){0};
}

float *hidden_at(const struct hidden *h, size_t seq, size_t position)
{
    return h->ring + (seq * HIDDEN_RING + position % HIDDEN_RING) * h->dim;
}

const float *hidden_find(const struct hidden *h, size_t seq, size_t position)
{
    return position < h->seqs[seq].known ? NULL : hidden_at(h, seq, position);
}

void hidden_put(struct hidden *h, size_t seq, size_t n)
{
    struct hidden_seq *s = &h->seqs[seq];
    s->known = max_size(s->known, n < HIDDEN_RING ? 0 : n - HIDDEN_RING);
}

void hidden_keep(struct hidden *h, size_t seq, size_t n)
{
    if (!h->dim)
        return;
    struct hidden_seq *s = &h->seqs[seq];
    s->known = min_size(s->known, n);
    s->next = min_size(s->next, max_size(n, 1));
    s->first = min_size(s->first, s->next);
    if (s->first == s->next) /* no rows: the first one can be a whole one */
        s->first = s->next = max_size(s->next, s->known + 1);
}

void hidden_fork(struct hidden *h, size_t from, size_t to, size_t n)
{
    if (!h->dim)
        return;
    h->seqs[to] = h->seqs[from];
    memcpy(hidden_at(h, to, 0), hidden_at(h, from, 0), HIDDEN_RING * h->dim * sizeof *h->ring);
    hidden_keep(h, to, n);
}

void hidden_refill(struct hidden *h, size_t seq, size_t n, size_t first)
{
    if (!h->dim)
        return;
    h->seqs[seq] = (struct hidden_seq){first ? first : n + 1, first ? n : n + 1, n};
    hidden_keep(h, seq, n);
}
