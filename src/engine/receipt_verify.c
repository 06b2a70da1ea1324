/* tern_receipt_verify: the answer is generated again, with the claimed tokens as guesses, so that no rule of
 * generation is written twice. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/xxh64.h"
#include "engine/receipt.h"
#include "engine/text.h"
#include "text/chat.h"

/* What a stranger's constraint may take: 16 times tern.h's defaults */
enum { LOGIT_BYTES = 64 << 20 };
enum { STRANGER_BYTES = 1 << 30, STRANGER_STEPS = 1600000000 };

struct proof {
    struct tern_model *model;
    struct receipt r;
    struct tern_receipt_verdict *v;
    size_t n; /* tokens of the answer that came true */
};

static const char *const reasons[] = {"an end token",   "the number of tokens",
                                      "a full context", "a stop string",
                                      "a cancel",       "being complete"};

/* ---- whose it is ------------------------------------------------------------------------------ */

static bool same_hash(struct receipt_hash a, struct receipt_hash b)
{
    return a.is_there == b.is_there && a.value == b.value;
}

/* What a receipt with another chat template needs, as far as that template is known here */
static enum tern_status other_chat(const struct receipt *r, const struct tern_model *m,
                                   struct tern_error *e)
{
    size_t n;
    const void *own = weights_section(m->model->weights, "chat", &n);
    const char *name = NULL;
    if (r->chat.is_there && own && xxh64(own, n) == r->chat.value)
        return error_set(e, TERN_USAGE,
                         "the receipt was made with another chat template, the model file's own: "
                         "leave out --template");
    for (size_t i = 0; r->chat.is_there && m->tokenizer && (name = tern_chat_builtin(i)); i++) {
        struct chat *c = NULL;
        bool found =
            !chat_open_builtin(&c, m->tokenizer, name, NULL) && chat_hash(c) == r->chat.value;
        chat_close(c);
        if (found)
            return error_set(e, TERN_USAGE,
                             "the receipt was made with another chat template: add --template %s",
                             name);
    }
    return error_set(e, TERN_USAGE,
                     "the receipt was made with another chat template or other end tokens "
                     "(--template chooses one)");
}

static enum tern_status check_model(const struct receipt *r, const struct tern_model *m,
                                    struct tern_error *e)
{
    tern_token ends[MAX_END_TOKENS];
    struct receipt own = {
        .n_stop = r->n_stop, .is_bound = r->is_bound, .constraint = r->constraint};
    receipt_name_model(&own, m, ends);
    if (r->arith != own.arith)
        return error_set(e, TERN_USAGE,
                         "the receipt is of arithmetic %llu, and this tern computes with %d",
                         (unsigned long long)r->arith, TERN_ARITH);
    if (r->content_id != own.content_id)
        return error_set(e, TERN_USAGE,
                         "the receipt is of another model: content id %016llx, and this file has "
                         "%016llx",
                         (unsigned long long)r->content_id, (unsigned long long)own.content_id);
    if (r->config != own.config)
        return error_set(e, TERN_USAGE,
                         "the receipt is of a model with the same tensors and another config");
    if (!same_hash(r->tokenizer, own.tokenizer))
        return error_set(e, TERN_USAGE,
                         "the receipt is of a model with the same tensors and another tokenizer");
    if (!same_hash(r->chat, own.chat) || r->n_ends != own.n_ends ||
        memcmp(r->ends, own.ends, own.n_ends * sizeof *own.ends))
        return other_chat(r, m, e);
    return TERN_OK;
}

/* ---- the proof -------------------------------------------------------------------------------- */

static int on_token(void *arg, tern_token token, const float *logits)
{
    struct proof *p = arg;
    (void)logits;
    if (token != p->r.answer[p->n]) {
        p->v->first_wrong = p->n;
        p->v->claimed = p->r.answer[p->n];
        p->v->found = token;
        return 1;
    }
    p->n++;
    return 0;
}

/* The text goes on at most as far as the claimed answer: then `longer` tells a text that could go on from
 * one that has all its tokens. */
static struct tern_generate_params options_of(struct proof *p, const tern_constraint *constraint,
                                              bool longer)
{
    const struct receipt *r = &p->r;
    struct tern_generate_params g = tern_generate_defaults();
    g.tokens = r->prompt, g.n_tokens = r->n_prompt;
    g.n_predict = longer ? (int64_t)r->n_answer : r->n_predict;
    g.ignore_end = r->ignore_end, g.no_force = r->no_force;
    g.stop = r->stop, g.n_stop = r->n_stop;
    g.sampler = &r->sampler;
    g.constraint = constraint;
    g.fingerprint = 1;
    g.on_token = on_token, g.arg = p;
    return g;
}

/* A step at a time, and between them the question whether to stop. */
static enum tern_status run(struct proof *p, tern_text *t, struct tern_generate_result *result,
                            struct tern_error *e)
{
    const struct tern_model *m = p->model;
    enum tern_status s = TERN_OK;
    while (!s && !tern_text_is_over(t))
        s = m->stop && m->stop(m->stop_arg) ? error_set(e, TERN_CANCELLED, "the proof was stopped")
                                            : tern_step(&t, 1, 0, e);
    return s ? s : tern_text_result(t, result, e);
}

/* Rows of the answer that a batch evaluates: 64 MiB of logits at most. A recurrent layer goes back 64 rows. */
static uint32_t rows_of(const struct model *m)
{
    size_t rows = LOGIT_BYTES / sizeof(float) / m->vocab, most = m->state_floats ? 32 : 256;
    return (uint32_t)(rows > most ? most : rows < 32 ? 32 : rows);
}

static enum tern_status generate(struct proof *p, const tern_constraint *constraint,
                                 struct tern_generate_result *result, struct tern_error *e)
{
    const struct receipt *r = &p->r;
    struct tern_context_params params = {.n_ctx = (uint32_t)(r->n_prompt + r->n_answer),
                                         .n_logits = rows_of(p->model->model),
                                         .cache_type = r->cache_type};
    bool longer = r->n_predict < 0 || (uint64_t)r->n_predict > r->n_answer;
    struct tern_generate_params g = options_of(p, constraint, longer);
    tern_context *ctx;
    tern_text *t = NULL;
    enum tern_status s = tern_context_open(&ctx, p->model, &params, e);
    if (s)
        return s;
    if (!(s = tern_text_open(&t, ctx, &g, e)) && !(s = text_give(t, r->answer, r->n_answer, e)))
        s = run(p, t, result, e);
    if (!s && result->reason == TERN_STOP_LENGTH && longer)
        result->reason = TERN_STOP_CONTEXT;
    tern_text_close(t);
    tern_context_close(ctx);
    return s;
}

#define WHY(v, ...) ((void)snprintf((v)->why, sizeof(v)->why, __VA_ARGS__))

/* What ended the text is its own or from outside: a cancel can come at any token, a full context only
 * where nothing else ended the text. */
static bool right_reason(enum tern_stop_reason claimed, enum tern_stop_reason found)
{
    return claimed == found || claimed == TERN_STOP_CANCELLED;
}

static void judge(struct proof *p, const struct tern_generate_result *result)
{
    const struct receipt *r = &p->r;
    struct tern_receipt_verdict *v = p->v;
    v->n_tokens = p->n;
    if (v->first_wrong != SIZE_MAX) {
        WHY(v, "token %zu of the answer is %d, and the model chooses %d", v->first_wrong,
            (int)v->claimed, (int)v->found);
    } else if (p->n < r->n_answer) {
        v->first_wrong = p->n;
        v->claimed = r->answer[p->n];
        WHY(v, "the answer has %zu tokens, and the model ends it after %zu, by %s", r->n_answer,
            p->n, reasons[result->reason]);
    } else if (!right_reason(r->reason, result->reason)) {
        WHY(v, "the tokens are right, but they were not ended by %s: %s", reasons[r->reason],
            result->reason == TERN_STOP_CONTEXT ? "the text could go on" : reasons[result->reason]);
    } else if (r->fingerprint != result->fingerprint ||
               r->n_fingerprinted != result->n_fingerprinted) {
        WHY(v,
            "the tokens are right, but the fingerprint of %llu rows is %016llx, and the receipt "
            "has "
            "%016llx of %llu",
            (unsigned long long)result->n_fingerprinted, (unsigned long long)result->fingerprint,
            (unsigned long long)r->fingerprint, (unsigned long long)r->n_fingerprinted);
    } else {
        v->holds = 1;
    }
}

/* Tokens of the prompt; and how many all are, for a context's positions are u32. */
static bool has_room(struct proof *p)
{
    const struct receipt *r = &p->r;
    size_t vocab = p->model->model->vocab;
    for (size_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || (size_t)r->prompt[i] >= vocab) {
            WHY(p->v, "token %zu of the prompt is %d, and the vocabulary has %zu", i,
                (int)r->prompt[i], vocab);
            return false;
        }
    return true;
}

static enum tern_status open_constraint(tern_constraint **out, const struct proof *p,
                                        struct tern_error *e)
{
    struct tern_constraint_params params = p->r.constraint;
    if (params.max_bytes > STRANGER_BYTES)
        params.max_bytes = STRANGER_BYTES;
    if (params.max_steps > STRANGER_STEPS)
        params.max_steps = STRANGER_STEPS;
    return tern_constraint_open(out, p->model, &params, e);
}

static enum tern_status prove(struct proof *p, struct tern_error *e)
{
    struct tern_generate_result result = {0};
    tern_constraint *constraint = NULL;
    enum tern_status s = TERN_OK;
    if (!p->r.n_prompt || p->r.n_prompt + p->r.n_answer > INT32_MAX)
        return error_set(e, TERN_BAD_FILE, "receipt: %s",
                         p->r.n_prompt ? "it has too many tokens" : "the prompt has no tokens");
    if (!has_room(p))
        return TERN_OK;
    if (p->r.is_bound)
        s = open_constraint(&constraint, p, e);
    if (!s)
        s = generate(p, constraint, &result, e);
    tern_constraint_close(constraint);
    if (s == TERN_USAGE) /* an option that no answer can have had */
        return e ? e->code = TERN_BAD_FILE : TERN_BAD_FILE;
    if (!s)
        judge(p, &result);
    return s;
}

enum tern_status tern_receipt_verify(tern_model *model, const char *text, size_t n,
                                     struct tern_receipt_verdict *verdict, struct tern_error *e)
{
    uint64_t begin = clock_ns();
    struct receipt_memory memory;
    struct proof p = {.model = model, .v = verdict};
    *verdict = (struct tern_receipt_verdict){.first_wrong = SIZE_MAX, .claimed = -1, .found = -1};
    enum tern_status s = receipt_read(&p.r, &memory, text, n, e);
    if (!s)
        s = check_model(&p.r, model, e);
    if (!s)
        s = prove(&p, e);
    receipt_close(&memory);
    verdict->seconds = (double)(clock_ns() - begin) * 1e-9;
    return s;
}
