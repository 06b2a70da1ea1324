/* A long text as sequences that fit the context, each from scratch. */
#ifndef LOOK_TEXT_PIECES_H
#define LOOK_TEXT_PIECES_H

#include "app/look/subject.h"

/* The largest number of positions that a sequence of n tokens is given: -c, else what the model was
 * made for, at most 1024. */
uint32_t text_pieces_window(const struct subject *s, size_t n);

/* Evaluates tokens [n] in s->ctx as sequences of up to `window` positions. Each begins with the
 * first token of the text if that is BOS. Where nll is not NULL, *nll gets the mean of
 * -log p(token | the tokens before it in its sequence), in nats, over *scored tokens. */
enum tern_status text_pieces_run(struct subject *s, const tern_token *tokens, size_t n,
                                 uint32_t window, double *nll, size_t *scored,
                                 struct tern_error *e);

/* The same in a context of its own, without edits; `fn` observes. A text of one sequence: window n. */
enum tern_status text_pieces_watch(struct subject *s, const tern_token *tokens, size_t n,
                                   uint32_t window, tern_observe_fn fn, void *arg,
                                   struct tern_error *e);

#endif
