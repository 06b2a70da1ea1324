/* Constraints of tern.h: sample/constraint behind the handles. */
#include "base/fpenv.h"
#include "engine/api_constraint.h"
#include "engine/model_handle.h"
#include "sample/constraint/forced.h"

/* What the model's tokens spell, made when it is first asked for. */
static enum tern_status spelling_of_model(const tern_model *m, const struct spelling **out,
                                          struct tern_error *e)
{
    struct model_spelling *x = m->spelling;
    lock_take(x->lock);
    enum tern_status s = x->spelling
                             ? TERN_OK
                             : spelling_open(&x->spelling, m->tokenizer, (uint32_t)m->model->vocab,
                                             m->end_tokens, m->n_end_tokens, e);
    *out = x->spelling;
    lock_leave(x->lock);
    return s;
}

enum tern_status tern_constraint_open(tern_constraint **out, const tern_model *model,
                                      const struct tern_constraint_params *params,
                                      struct tern_error *e)
{
    static const struct tern_constraint_params defaults = {0};
    const struct spelling *spelling;
    *out = NULL;
    enum tern_status s = spelling_of_model(model, &spelling, e);
    struct stop stop = {.ask = model->stop, .arg = model->stop_arg};
    return s ? s
             : constraint_open(out, spelling, model->chat, params ? params : &defaults,
                               &model->spelling->quota, &stop, e);
}

void tern_constraint_close(tern_constraint *c)
{
    constraint_close(c);
}

const struct tern_constraint_params *tern_constraint_made_of(const tern_constraint *c)
{
    return &c->params;
}

size_t tern_constraint_bytes(const tern_model *model, size_t *most)
{
    const struct quota *q = &model->spelling->quota;
    if (most)
        *most = q->most;
    return q->used;
}

const char *tern_constraint_left_out(const tern_constraint *c, size_t i)
{
    return i < c->n_left_out ? c->left_out[i] : NULL;
}

enum tern_status tern_constraint_state_open(tern_constraint_state **out, const tern_constraint *c,
                                            struct tern_error *e)
{
    return constraint_state_open(out, c, e);
}

enum tern_status tern_constraint_state_copy(tern_constraint_state *to,
                                            const tern_constraint_state *from, struct tern_error *e)
{
    return constraint_state_copy(to, from, e);
}

void tern_constraint_state_close(tern_constraint_state *s)
{
    constraint_state_close(s);
}

enum tern_status tern_constraint_mask(tern_constraint_state *s, const uint32_t **mask,
                                      struct tern_error *e)
{
    return constraint_state_mask(s, mask, e);
}

enum tern_status tern_constraint_accept(tern_constraint_state *s, tern_token token,
                                        struct tern_error *e)
{
    return constraint_state_accept(s, token, e);
}

size_t tern_constraint_rollback(tern_constraint_state *s, size_t n)
{
    return constraint_state_rollback(s, n);
}

bool api_constraint_fits(const tern_constraint_state *s, const tern_model *model)
{
    return s->constraint->spelling == model->spelling->spelling;
}

int tern_constraint_can_end(tern_constraint_state *s)
{
    return constraint_state_can_end(s);
}

int tern_constraint_is_over(tern_constraint_state *s)
{
    return constraint_state_is_over(s);
}

enum tern_status tern_constraint_forced(tern_constraint_state *s, tern_token *tokens, size_t max,
                                        size_t *n, struct tern_error *e)
{
    struct fpenv saved = fpenv_enter();
    enum tern_status status = forced_tokens(s, tokens, max, n, e);
    fpenv_leave(saved);
    return status;
}
