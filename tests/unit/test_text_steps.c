/* ldflags: -Wl,@tests/support/allocs.ld */
/* Several texts at a time: whatever its mates, and however the steps are cut, each text is the one that
 * tern_generate makes of it alone. Random texts with random options begin and end at random steps; some
 * are closed midway, and steps are cancelled. Guesses are tried at random (gambling_pace.h). Rows of a sequence
 * without a text are added to some steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocs.h"
#include "base/bytes.h"
#include "base/xxh64.h"
#include "gambling_pace.h"
#include "golden.h"
#include "image.h"
#include "suite.h"
#include "tern.h"
#include "toy.h"

enum {
    N_TEXTS = 7,
    N_SEQS = 4,
    GUEST = N_SEQS,
    MAX_PROMPT = 160,
    MAX_TOKENS = 400,
    TOY_VOCAB = 259
};

/* ---- models ----------------------------------------------------------------------------------- */

enum kind {
    DENSE,
    WINDOWED,
    QUANTIZED,
    FABLE,
    CONVOLUTION,
    DELTA_NET,
    MAMBA2,
    KIMI,
    MOE,
    MTP,
    N_KINDS
};

static const char *const golden_of[N_KINDS] = {
    [CONVOLUTION] = "lfm2", [DELTA_NET] = "qwen3-next", [MAMBA2] = "nemotron-h",
    [KIMI] = "kimi-linear", [MOE] = "mixtral",          [MTP] = "mtp/qwen3-next"};

static struct {
    enum kind kind;
    char path[256];
    tern_model *model;
    unsigned vocab;
    size_t dim;
    uint32_t max_ctx;
    tern_token poison;               /* what makes logits of it is not finite; 0: no such token */
    tern_constraint *constraints[5]; /* of FABLE; the first is NULL */
} m;

static void open_constraints(void)
{
    static const char
        story[] = "The cat sat on the mat. The cat sat on the mat again.|The cat sat on the mat. A "
                  "dog came, and the dog sat on the cat. The cat sat on the mat.",
        schema[] = "{\"items\": {\"properties\": {\"name\": {\"type\": \"string\"}, \"animal\": "
                   "{\"enum\": [\"cat\", \"dog\"]}}, \"required\": [\"name\", \"animal\"], "
                   "\"additionalProperties\": false}, \"type\": \"array\"}",
        regex[] = "( the [a-z]{1,9},| and then){0,200}",
        grammar[] = "root ::= (\" \" s \" sat on the mat.\"){1,90}\ns ::= s s | [a-z] | \"the\"\n";
    const struct tern_constraint_params params[] = {
        {.kind = TERN_CONSTRAINT_CHOICE, .text = story, .bytes = sizeof story - 1},
        {.kind = TERN_CONSTRAINT_SCHEMA, .text = schema, .bytes = sizeof schema - 1},
        {.kind = TERN_CONSTRAINT_REGEX, .text = regex, .bytes = sizeof regex - 1},
        {.kind = TERN_CONSTRAINT_GRAMMAR, .text = grammar, .bytes = sizeof grammar - 1}};
    for (size_t i = 0; i < 4; i++)
        ck_assert(!tern_constraint_open(&m.constraints[i + 1], m.model, &params[i], NULL));
}

static void write_toy(enum kind kind)
{
    struct toy toy = toy_default();
    toy.max_seq = 600, toy.seed = 5;
    toy.type = kind == QUANTIZED ? TERN_Q8 : TERN_F32;
    toy.rope_limit = kind == WINDOWED ? 150 : 0;
    for (size_t l = 0; kind == WINDOWED && l < toy.n_layers; l++)
        toy.window[l] = 20 + 30 * l;
    toy_path(m.path, sizeof m.path, "steps");
    ck_assert(!toy_write(m.path, &toy, NULL));
}

static void open_model(enum kind kind)
{
    static struct golden g;
    struct tern_error e = {0};
    struct tern_model_info info;
    struct tern_model_params how = {.n_threads = 2, .load = kind == MTP ? TERN_LOAD_MTP : 0};
    memset(&m, 0, sizeof m);
    m.kind = kind;
    if (golden_of[kind]) {
        golden_read(&g, golden_of[kind]);
        golden_write(m.path, sizeof m.path, &g, TERN_F32);
        golden_close(&g);
    } else if (kind != FABLE) {
        write_toy(kind);
    }
    const char *path = kind == FABLE ? "models/fable.bin" : m.path;
    ck_assert_msg(!tern_model_open(&m.model, path, &how, &e), "%s", e.text);
    tern_model_info(m.model, &info);
    m.vocab = (unsigned)info.vocab;
    m.dim = info.dim;
    m.max_ctx = info.max_seq < 500 ? (uint32_t)info.max_seq : 500;
    if (kind == FABLE)
        open_constraints();
}

static void close_model(void)
{
    for (size_t i = 0; i < 5; i++)
        tern_constraint_close(m.constraints[i]);
    tern_model_close(m.model);
    if (m.kind != FABLE)
        unlink(m.path);
}

/* ---- texts ------------------------------------------------------------------------------------ */

struct plan {
    struct tern_generate_params p;
    struct tern_sampler_params sampler;
    tern_token prompt[MAX_PROMPT];
    const char *stop[2];
};

/* What a text gives to its callbacks, and what is left of it. */
struct trace {
    tern_context *ctx;
    tern_token tokens[MAX_TOKENS];
    uint64_t logits[MAX_TOKENS]; /* hash of those that a token was chosen from, or 0 */
    size_t n;
    struct xxh64 text;
    size_t n_text, read, cancel_at;
    struct tern_generate_result result;
    enum tern_status status;
    uint64_t sequence, next; /* hashes of the tokens left, and of the logits behind one more */
    uint32_t length;
};

static int on_token(void *arg, tern_token token, const float *logits)
{
    struct trace *t = arg;
    ck_assert_uint_lt(t->n, MAX_TOKENS);
    t->logits[t->n] = logits ? xxh64(logits, m.vocab * sizeof *logits) : 0;
    t->tokens[t->n++] = token;
    size_t seen = tern_n_logits(t->ctx);
    if (logits && seen) /* none is seen of a text that was late */
        ck_assert_ptr_eq(tern_logits(t->ctx, seen - 1), logits);
    if (t->n == t->cancel_at)
        tern_cancel(t->ctx);
    return 0;
}

static int on_text(void *arg, tern_token token, const char *text, size_t n)
{
    struct trace *t = arg;
    xxh64_update(&t->text, &token, sizeof token);
    xxh64_update(&t->text, text, n);
    t->n_text += n;
    return 0;
}

static int on_prompt(void *arg, size_t done, size_t total)
{
    struct trace *t = arg;
    ck_assert(done > t->read && done <= total);
    t->read = done;
    return 0;
}

static size_t make_prompt(tern_token *tokens, size_t max)
{
    size_t n = 1 + dice((unsigned)max), known = 0;
    while (known < n) { /* pieces that come again, as in real texts */
        size_t piece = 1 + dice(20), from = known ? dice((unsigned)known) : 0;
        bool copy = known && dice(2);
        for (; piece && known < n; piece--, known++)
            tokens[known] = copy ? tokens[from++] : (tern_token)dice(m.vocab);
    }
    return n;
}

static void make_sampler(struct tern_sampler_params *s)
{
    static const float temperatures[] = {0, 0.1f, 0.5f, 0.8f, 1.5f};
    *s = (struct tern_sampler_params){.temperature = temperatures[dice(5)],
                                      .top_k = dice(2) * dice(8),
                                      .top_p = dice(2) ? 0.9f : 1,
                                      .repeat_penalty = dice(2) ? 1 : 1.1f,
                                      .repeat_last_n = dice(80),
                                      .seed = dice(1000)};
    s->mirostat = dice(4) ? 0 : 2, s->mirostat_tau = 0.5f * (float)dice(12), s->mirostat_eta = 0.3f;
    s->dry_multiplier = dice(3) ? 0 : 0.5f, s->dry_base = 1.75f;
    s->dry_allowed_length = 1 + dice(3), s->dry_last_n = dice(200);
    s->xtc_probability = dice(3) ? 0 : 0.5f, s->xtc_threshold = 0.05f;
    s->frequency_penalty = dice(3) ? 0 : 0.3f;
}

static void make_plan(struct plan *plan, uint32_t n_ctx)
{
    static const char *const stops[] = {"the", ". ", " a", "she", "zq", "\n", "e s", "ing"};
    struct tern_generate_params *p = &plan->p;
    *p = tern_generate_defaults();
    p->tokens = plan->prompt;
    p->n_tokens = make_prompt(plan->prompt, n_ctx < MAX_PROMPT ? n_ctx : MAX_PROMPT);
    make_sampler(&plan->sampler);
    p->n_predict = dice(8) ? (int64_t)dice(60) : (int64_t)dice(MAX_TOKENS);
    p->ignore_end = dice(3) > 0;
    p->logits_all = !dice(4);
    p->shift = (int)dice(2), p->keep = dice(50);
    p->fingerprint = 1;
    p->on_token = on_token, p->on_text = on_text, p->on_prompt = on_prompt;
    if (m.kind != FABLE)
        return;
    p->constraint = m.constraints[dice(5)];
    p->n_stop = dice(3);
    plan->stop[0] = stops[dice(8)], plan->stop[1] = stops[dice(8)];
    if (p->constraint)
        p->ignore_end = 0, p->no_force = !dice(3);
}

static void begin_trace(struct trace *t, tern_context *ctx)
{
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
    xxh64_init(&t->text, 0);
}

static void point(struct plan *plan, struct trace *t)
{
    plan->p.sampler = &plan->sampler, plan->p.stop = plan->stop, plan->p.arg = t;
}

/* What is left of the text, and that it can go on. */
static void end_trace(struct trace *t, uint32_t seq)
{
    t->length = tern_seq_length(t->ctx, seq);
    t->sequence = xxh64(tern_seq_tokens(t->ctx, seq), t->length * sizeof(tern_token));
    (void)tern_forward(t->ctx); /* of no rows: a cancel may be left */
    if (!tern_batch_add(t->ctx, seq, 1, TERN_ROW_LOGITS, NULL)) {
        ck_assert(!tern_forward(t->ctx));
        t->next = xxh64(tern_logits(t->ctx, 0), m.vocab * sizeof(float));
    }
    t->ctx = NULL;
}

static tern_context *open_context(uint32_t n_ctx, uint32_t n_seqs, enum tern_cache_type type)
{
    struct tern_context_params params = {
        .n_ctx = n_ctx, .n_seqs = n_seqs, .n_batch = n_seqs + dice(40), .cache_type = type};
    struct tern_error e = {0};
    tern_context *ctx = NULL;
    params.n_logits = n_seqs + dice(20);
    if (params.n_batch > n_ctx * n_seqs)
        params.n_batch = n_ctx * n_seqs;
    ck_assert_msg(!tern_context_open(&ctx, m.model, &params, &e), "%s", e.text);
    return ctx;
}

static void run_alone(struct plan *plan, struct trace *t, uint32_t n_ctx, enum tern_cache_type type)
{
    struct tern_error e = {0};
    begin_trace(t, open_context(n_ctx, 1, type));
    tern_context *ctx = t->ctx;
    point(plan, t);
    t->status = tern_generate(ctx, &plan->p, &t->result, &e);
    ck_assert_msg(!t->status || m.poison, "%s", e.text);
    if (!t->status)
        end_trace(t, 0);
    tern_context_close(ctx);
}

/* ---- rows that are added to steps ------------------------------------------------------------- */

enum { NONE = 1, NOT_FINITE };

struct guest { /* a sequence without a text */
    tern_token tokens[MAX_PROMPT];
    uint64_t hidden[MAX_PROMPT]; /* hash of each row's, as of the sequence alone; or the above */
    size_t n, n_read, n_lost;
};

static size_t guest_add(struct guest *g, tern_context *ctx, uint32_t seq, size_t max)
{
    size_t from = tern_seq_length(ctx, seq), n = 0;
    unsigned flags = m.kind == MTP ? 0 : TERN_ROW_HIDDEN;
    for (; n < max && from + n < g->n; n++)
        ck_assert(!tern_batch_add(ctx, seq, g->tokens[from + n], flags, NULL));
    return n;
}

static uint64_t hidden_hash(const tern_context *ctx, size_t i)
{
    const float *h = tern_hidden(ctx, i);
    for (size_t k = 0; h && k < m.dim; k++)
        if (!isfinite(h[k]))
            return NOT_FINITE;
    return h ? xxh64(h, m.dim * sizeof *h) : NONE;
}

/* The last n rows of the sequence were evaluated just now. */
static void guest_take(struct guest *g, tern_context *ctx, uint32_t seq, size_t n)
{
    size_t from = tern_seq_length(ctx, seq) - n;
    ck_assert_uint_eq(tern_n_hidden(ctx), m.kind == MTP ? 0 : n);
    for (size_t i = 0; i < n; i++) {
        uint64_t *expected = &g->hidden[from + i], hash = hidden_hash(ctx, i);
        if (!*expected)
            *expected = hash;
        ck_assert_msg(*expected == hash, "row %zu that was added differs", from + i);
    }
    g->n_read += n;
}

static void begin_guest(struct guest *g, uint32_t n_ctx, enum tern_cache_type type)
{
    tern_context *ctx = open_context(n_ctx, 1, type);
    memset(g, 0, sizeof *g);
    g->n = make_prompt(g->tokens, n_ctx < MAX_PROMPT ? n_ctx : MAX_PROMPT);
    for (size_t n; (n = guest_add(g, ctx, 0, 1)); guest_take(g, ctx, 0, n))
        ck_assert(!tern_forward(ctx));
    g->n_read = 0;
    tern_context_close(ctx);
}

/* ---- together --------------------------------------------------------------------------------- */

struct crowd {
    tern_context *ctx, *draft;
    struct guest guest;   /* of sequence GUEST */
    struct plan *plans;   /* [N_TEXTS] */
    struct trace *traces; /* [N_TEXTS] */
    tern_text *text[N_SEQS];
    size_t of[N_SEQS]; /* its number */
    size_t begun, n_cancelled, n_accepted, n_drafted, n_mates, n_late;
    bool cut[N_TEXTS]; /* closed midway */
};

static void begin_text(struct crowd *c, uint32_t seq)
{
    struct tern_error e = {0};
    size_t i = c->of[seq] = c->begun++;
    struct plan *plan = &c->plans[i];
    struct tern_generate_params *p = &plan->p;
    tern_seq_keep(c->ctx, seq, 0);
    begin_trace(&c->traces[i], c->ctx);
    c->traces[i].cancel_at = dice(3) ? 0 : 1 + dice(40);
    point(plan, &c->traces[i]);
    p->seq = seq;
    p->constraint_steps = dice(2) ? 0 : 1 + dice(2) * dice(3000);
    p->lookup = dice(2) ? 0 : 1 + dice(20);
    p->mtp = m.kind == MTP ? dice(8) : 0;
    p->draft = dice(3) ? NULL : c->draft, p->draft_seq = seq, p->draft_max = dice(10);
    ck_assert_msg(!tern_text_open(&c->text[seq], c->ctx, p, &e), "%s", e.text);
    ck_assert_uint_eq(tern_text_unread(c->text[seq]), p->n_tokens);
}

static void end_text(struct crowd *c, uint32_t seq)
{
    struct tern_error e = {0};
    size_t i = c->of[seq];
    struct trace *t = &c->traces[i];
    c->cut[i] = !tern_text_is_over(c->text[seq]);
    t->status = tern_text_result(c->text[seq], &t->result, &e);
    ck_assert_msg(!t->status || m.poison, "%s", e.text);
    c->n_accepted += t->result.n_accepted, c->n_drafted += t->result.n_drafted;
    tern_text_close(c->text[seq]);
    c->text[seq] = NULL;
    if (!c->cut[i] && !t->status)
        end_trace(t, seq);
}

/* Whether the text may have part in a step: one that is late catches up now and then. */
static bool is_on_time(struct crowd *c, tern_text *text)
{
    if (!tern_text_is_late(text))
        return true;
    ck_assert_int_eq(tern_step(&text, 1, 0, NULL), TERN_USAGE);
    if (dice(2))
        return false;
    tern_text_catch_up(text);
    c->n_late++;
    return true;
}

/* Some of the texts, in any order */
static size_t choose_texts(struct crowd *c, tern_text **texts)
{
    size_t n = 0;
    for (uint32_t k = 0, seq = dice(N_SEQS); k < N_SEQS; k++, seq = (seq + 1) % N_SEQS)
        if (c->text[seq] && dice(8) && is_on_time(c, c->text[seq]))
            texts[n++] = c->text[seq];
    return n;
}

static void one_step(struct crowd *c)
{
    tern_text *texts[N_SEQS];
    struct tern_error e = {0};
    size_t n = choose_texts(c, texts);
    struct tern_memory memory;
    tern_context_memory(c->ctx, &memory);
    size_t before = tern_seq_length(c->ctx, GUEST), max = dice(memory.n_batch - (unsigned)n + 1);
    size_t added = n && !dice(5) ? guest_add(&c->guest, c->ctx, GUEST, max) : 0;
    if (!dice(20))
        tern_cancel(c->ctx);
    enum tern_status s = tern_step(texts, n, dice(3) ? dice(30) : 0, &e);
    ck_assert_msg(!s || s == TERN_CANCELLED, "%s", e.text);
    ck_assert_uint_eq(tern_seq_length(c->ctx, GUEST), before + (s ? 0 : added));
    if (n)
        guest_take(&c->guest, c->ctx, GUEST, s ? 0 : added);
    c->guest.n_lost += s ? added : 0;
    if (tern_seq_length(c->ctx, GUEST) == c->guest.n)
        tern_seq_keep(c->ctx, GUEST, 0);
    c->n_cancelled += s == TERN_CANCELLED;
    c->n_mates += n > 1;
}

static void run_together(struct crowd *c)
{
    bool open = true;
    while (open || c->begun < N_TEXTS) {
        open = false;
        for (uint32_t seq = 0; seq < N_SEQS; seq++) {
            if (!c->text[seq] && c->begun < N_TEXTS && !dice(4))
                begin_text(c, seq);
            if (c->text[seq] && (tern_text_is_over(c->text[seq]) || !dice(200)))
                end_text(c, seq);
            open |= c->text[seq] != NULL;
        }
        one_step(c);
    }
}

static void compare(const struct trace *a, const struct trace *b, bool cut, unsigned long seed,
                    size_t i)
{
    size_t n = cut ? a->n : b->n;
    bool same = a->n == n && n <= b->n && !memcmp(a->tokens, b->tokens, n * sizeof *a->tokens) &&
                !memcmp(a->logits, b->logits, n * sizeof *a->logits);
    ck_assert_msg(same, "seed %lu, text %zu: %zu and %zu tokens", seed, i, a->n, b->n);
    const struct tern_generate_result *r = &a->result, *want = &b->result;
    ck_assert_uint_eq(r->n_generated, a->n);
    ck_assert(r->n_accepted <= r->n_drafted);
    if (cut)
        return;
    ck_assert_msg(a->status == b->status, "seed %lu, text %zu: status %d", seed, i, (int)a->status);
    ck_assert_msg(r->reason == want->reason && r->n_prompt == want->n_prompt &&
                      r->n_forced == want->n_forced && r->last == want->last &&
                      r->n_shifts == want->n_shifts,
                  "seed %lu, text %zu: the result differs", seed, i);
    ck_assert_msg(r->fingerprint == want->fingerprint &&
                      r->n_fingerprinted == want->n_fingerprinted,
                  "seed %lu, text %zu: the fingerprint differs", seed, i);
    ck_assert_uint_eq(r->n_fingerprinted, r->n_generated - r->n_forced);
    ck_assert_msg(a->n_text == b->n_text && xxh64_digest(&a->text) == xxh64_digest(&b->text),
                  "seed %lu, text %zu: the text differs", seed, i);
    ck_assert_msg(a->length == b->length && a->sequence == b->sequence && a->next == b->next,
                  "seed %lu, text %zu: the sequence differs", seed, i);
}

START_TEST(a_text_does_not_depend_on_its_mates)
{
    static struct plan plans[N_TEXTS];
    static struct trace alone[N_TEXTS], together[N_TEXTS];
    size_t n_cancelled = 0, n_accepted = 0, n_wrong = 0, n_mates = 0, n_added = 0, n_lost = 0, n_late = 0;
    unsigned long n = golden_is_quick() ? 1 : 12;
    open_model((enum kind)_i);
    for (unsigned long seed = 1; seed <= n; seed++) {
        dice_state = seed * 7919 + (uint64_t)_i;
        struct crowd c = {.plans = plans, .traces = together};
        enum tern_cache_type type = (enum tern_cache_type)dice(3);
        uint32_t n_ctx = 40 + dice(m.max_ctx - 40);
        for (size_t i = 0; i < N_TEXTS; i++) {
            make_plan(&plans[i], n_ctx);
            run_alone(&plans[i], &alone[i], n_ctx, type);
        }
        begin_guest(&c.guest, n_ctx, type);
        c.ctx = open_context(n_ctx, N_SEQS + 1, type);
        c.draft = open_context(n_ctx / 2 + dice(n_ctx / 2), N_SEQS, type);
        run_together(&c);
        for (size_t i = 0; i < N_TEXTS; i++)
            compare(&together[i], &alone[i], c.cut[i], seed, i);
        ck_assert_int_eq(tern_numeric_status(c.ctx, NULL), TERN_OK);
        tern_context_close(c.draft);
        tern_context_close(c.ctx);
        n_cancelled += c.n_cancelled, n_mates += c.n_mates;
        n_added += c.guest.n_read, n_lost += c.guest.n_lost, n_late += c.n_late;
        n_accepted += c.n_accepted, n_wrong += c.n_drafted - c.n_accepted;
    }
    bool all_happened = n_cancelled > n && n_accepted > 2 * n && n_wrong > 2 * n &&
                        n_mates > 20 * n && n_added > 20 * n && n_lost > n &&
                        (n_late > n || m.kind != FABLE);
    ck_assert_msg(all_happened || golden_is_quick(),
                  "%zu cancelled, %zu accepted, %zu wrong, %zu mates, %zu rows added, %zu lost, %zu late",
                  n_cancelled, n_accepted, n_wrong, n_mates, n_added, n_lost, n_late);
    close_model();
}
END_TEST

/* ---- faults ----------------------------------------------------------------------------------- */

enum { POISON = 77 };

/* The dense toy, in which the embedding of one token is not finite */
static void open_poisoned(void)
{
    static const uint32_t nan = 0x7fc00000;
    struct toy toy = toy_default();
    struct tern_model_params how = {.n_threads = 2};
    size_t embed = 0;
    toy.max_seq = 600, toy.untied = 1;
    struct image i = image_of(&toy);
    while (memcmp(i.p + image_tensor(&i, embed) + 8, "embed", 5))
        embed++;
    size_t at = (size_t)POISON / 16 * 16 * toy.dim + (size_t)POISON % 16;
    memcpy(i.p + load_u64(i.p + image_fields(&i, embed) + 40) + 4 * at, &nan, 4);
    image_repair_tensor(&i, embed);
    memset(&m, 0, sizeof m);
    toy_path(m.path, sizeof m.path, "steps");
    image_save(&i, m.path);
    image_close(&i);
    ck_assert(!tern_model_open(&m.model, m.path, &how, NULL));
    m.vocab = TOY_VOCAB, m.dim = toy.dim, m.max_ctx = 500, m.poison = POISON;
}

/* A value that is not finite ends its own text, in the same place as alone: in a prompt, or behind a token
 * that was chosen. A guess of such a token ends none, nor does a row that was added. */
START_TEST(a_fault_concerns_its_own_text)
{
    static const struct tern_bias always = {.token = POISON, .value = INFINITY};
    static struct plan plans[N_TEXTS];
    static struct trace alone[N_TEXTS], together[N_TEXTS];
    size_t n_failed = 0, n_well = 0, n_rows[2] = {0};
    open_poisoned();
    for (unsigned long seed = 1; seed <= (unsigned long)golden_few(golden_is_quick() ? 10 : 30);
         seed++) {
        dice_state = seed * 104729;
        struct crowd c = {.plans = plans, .traces = together};
        for (size_t i = 0; i < N_TEXTS; i++) {
            make_plan(&plans[i], 300);
            for (size_t k = 0; k < plans[i].p.n_tokens; k++)
                plans[i].prompt[k] += plans[i].prompt[k] == POISON;
            if (!dice(4))
                plans[i].prompt[dice((unsigned)plans[i].p.n_tokens)] = POISON;
            else if (!dice(4))
                plans[i].sampler.bias = &always, plans[i].sampler.n_bias = 1;
            run_alone(&plans[i], &alone[i], 300, TERN_CACHE_F16);
            n_failed += alone[i].status == TERN_LIMIT, n_well += !alone[i].status;
        }
        begin_guest(&c.guest, 300, TERN_CACHE_F16);
        c.ctx = open_context(300, N_SEQS + 1, TERN_CACHE_F16);
        c.draft = open_context(300, N_SEQS, TERN_CACHE_F16);
        run_together(&c);
        for (size_t i = 0; i < c.guest.n; i++)
            n_rows[c.guest.hidden[i] == NOT_FINITE] += c.guest.n_read >= c.guest.n;
        for (size_t i = 0; i < N_TEXTS; i++)
            compare(&together[i], &alone[i], c.cut[i], seed, i);
        tern_context_close(c.draft);
        tern_context_close(c.ctx);
    }
    ck_assert_msg(n_failed > 5 && n_well > 10, "%zu failed, %zu did not", n_failed, n_well);
    ck_assert_msg(golden_is_quick() || golden_is_threaded() || (n_rows[0] > 50 && n_rows[1] > 50),
                  "%zu rows were added, and %zu not finite", n_rows[0], n_rows[1]);
    close_model();
}
END_TEST

static enum tern_status open_at(tern_text **t, tern_context *ctx, uint32_t seq, tern_context *draft,
                                uint32_t draft_seq)
{
    static const tern_token prompt[] = {3, 4, 5};
    struct tern_generate_params p = tern_generate_defaults();
    p.tokens = prompt, p.n_tokens = 3, p.seq = seq, p.draft = draft, p.draft_seq = draft_seq;
    p.n_predict = 3;
    return tern_text_open(t, ctx, &p, NULL);
}

START_TEST(wrong_arguments_change_nothing)
{
    tern_text *a, *b, *c, *over;
    struct tern_error e;
    open_model(DENSE);
    tern_context *ctx = open_context(100, N_SEQS, TERN_CACHE_F16);
    tern_context *draft = open_context(100, N_SEQS, TERN_CACHE_F16);
    ck_assert(!open_at(&a, ctx, 0, draft, 2) && !open_at(&b, ctx, 1, NULL, 0));
    ck_assert_int_eq(open_at(&c, ctx, 0, NULL, 0), TERN_USAGE);
    ck_assert_ptr_null(c);
    ck_assert_int_eq(open_at(&c, ctx, N_SEQS, NULL, 0), TERN_USAGE);
    ck_assert_int_eq(open_at(&c, ctx, 2, draft, 2), TERN_USAGE);
    ck_assert_int_eq(open_at(&c, ctx, 2, draft, N_SEQS), TERN_USAGE);
    ck_assert_int_eq(open_at(&c, draft, 2, NULL, 0), TERN_USAGE); /* a draft's sequence */
    ck_assert(!open_at(&c, draft, 0, NULL, 0) && !open_at(&over, ctx, 3, NULL, 0));
    while (!tern_text_is_over(over))
        ck_assert(!tern_step(&over, 1, 0, &e));
    ck_assert_int_eq(tern_step((tern_text *[]){a, c}, 2, 0, &e), TERN_USAGE);
    ck_assert_int_eq(tern_step((tern_text *[]){a, over}, 2, 0, &e), TERN_USAGE);
    ck_assert_int_eq(tern_step((tern_text *[]){a, b, a}, 3, 0, &e), TERN_USAGE);
    ck_assert_int_eq(tern_step(NULL, 0, 0, &e), TERN_OK);
    ck_assert(tern_text_unread(a) == 3 && tern_text_unread(b) == 3 && !tern_seq_length(ctx, 0));
    ck_assert(!tern_text_result(a, NULL, NULL) && !tern_text_unread(over));
    tern_text_close(a), tern_text_close(b), tern_text_close(c), tern_text_close(over);
    tern_text_close(NULL);
    ck_assert(!open_at(&a, ctx, 0, draft, 2)); /* the sequences are free again */
    tern_text_close(a);
    tern_context_close(draft);
    tern_context_close(ctx);
    close_model();
}
END_TEST

static enum tern_status step_of(tern_text *t, const char *why)
{
    struct tern_error e = {0};
    enum tern_status s = tern_step(&t, 1, 0, &e);
    ck_assert_msg(!s || strstr(e.text, why), "%s", e.text);
    return s;
}

/* They are refused with a text that would need what they take, and gone then. */
START_TEST(rows_that_were_added_share_a_step)
{
    tern_text *t;
    open_model(DENSE);
    struct tern_context_params params = {.n_ctx = 100, .n_seqs = 2, .n_batch = 4};
    tern_context *ctx;
    ck_assert(!tern_context_open(&ctx, m.model, &params, NULL) && !open_at(&t, ctx, 0, NULL, 0));
    ck_assert(!tern_batch_add(ctx, 0, 1, 0, NULL));
    ck_assert_int_eq(step_of(t, "a sequence to which rows were added"), TERN_USAGE);
    ck_assert(!tern_batch_add(ctx, 1, 1, TERN_ROW_LOGITS, NULL));
    ck_assert_int_eq(step_of(t, "ask for logits"), TERN_USAGE);
    for (tern_token i = 0; i < 4; i++)
        ck_assert(!tern_batch_add(ctx, 1, i, TERN_ROW_HIDDEN, NULL));
    ck_assert_int_eq(step_of(t, "4 rows that were added leave room for 0"), TERN_USAGE);
    ck_assert(!tern_forward(ctx) && !tern_seq_length(ctx, 0) && !tern_seq_length(ctx, 1));
    for (tern_token i = 0; i < 3; i++)
        ck_assert(!tern_batch_add(ctx, 1, i, TERN_ROW_HIDDEN, NULL));
    ck_assert(!tern_step(NULL, 0, 0, NULL) && !step_of(t, ""));
    ck_assert(tern_seq_length(ctx, 0) == 1 && tern_seq_length(ctx, 1) == 3);
    ck_assert(tern_n_hidden(ctx) == 3 && !step_of(t, "") && !tern_n_hidden(ctx));
    tern_text_close(t);
    tern_context_close(ctx);
    close_model();
}
END_TEST

/* At most prompt_rows rows of prompts, to the texts in the order given */
START_TEST(prompts_are_read_in_order)
{
    tern_text *t[3];
    open_model(DENSE);
    struct tern_context_params params = {.n_ctx = 100, .n_seqs = 3, .n_batch = 20};
    tern_context *ctx;
    ck_assert(!tern_context_open(&ctx, m.model, &params, NULL));
    for (uint32_t i = 0; i < 3; i++)
        ck_assert(!open_at(&t[i], ctx, i, NULL, 0));
    ck_assert(!tern_step((tern_text *[]){t[2], t[0], t[1]}, 3, 4, NULL));
    ck_assert(!tern_text_unread(t[2]) && tern_text_unread(t[0]) == 2 &&
              tern_text_unread(t[1]) == 3);
    ck_assert(tern_seq_length(ctx, 2) == 3 && tern_seq_length(ctx, 0) == 1);
    ck_assert(!tern_step(t, 3, 1, NULL)); /* the third has its second token meanwhile */
    ck_assert(tern_text_unread(t[0]) == 1 && tern_text_unread(t[1]) == 3);
    ck_assert_uint_eq(tern_seq_length(ctx, 2), 4);
    ck_assert(!tern_step(t, 3, 0, NULL));
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(tern_text_unread(t[i]), 0);
        tern_text_close(t[i]);
    }
    tern_context_close(ctx);
    close_model();
}
END_TEST

/* All memory is taken when a text is opened, but for text held back for a stop string. */
START_TEST(steps_allocate_nothing)
{
    static struct plan plans[N_SEQS];
    static struct trace traces[N_SEQS];
    struct crowd c = {.plans = plans, .traces = traces};
    size_t n = 0;
    open_model(DENSE);
    c.ctx = open_context(300, N_SEQS, TERN_CACHE_F16);
    c.draft = open_context(300, N_SEQS, TERN_CACHE_F16);
    for (uint32_t seq = 0; seq < N_SEQS; seq++) {
        make_plan(&plans[seq], 300);
        plans[seq].p.n_predict = 30 + seq;
        begin_text(&c, seq);
    }
    for (size_t i = 0; i < 60; i++) {
        tern_text *texts[N_SEQS];
        n = 0;
        for (uint32_t seq = 0; seq < N_SEQS; seq++)
            if (!tern_text_is_over(c.text[seq]))
                texts[n++] = c.text[seq];
        allocs_start(0, 0);
        (void)tern_step(texts, n, 10, NULL);
        size_t made = allocs_count();
        allocs_stop();
        ck_assert_uint_eq(made, 0);
    }
    ck_assert_uint_lt(n, N_SEQS);
    for (uint32_t seq = 0; seq < N_SEQS; seq++)
        end_text(&c, seq);
    tern_context_close(c.draft);
    tern_context_close(c.ctx);
    close_model();
}
END_TEST

SUITE("text steps", LOOP(a_text_does_not_depend_on_its_mates, 0, N_KINDS),
      TEST(a_fault_concerns_its_own_text), TEST(wrong_arguments_change_nothing),
      TEST(rows_that_were_added_share_a_step), TEST(prompts_are_read_in_order),
      TEST(steps_allocate_nothing))
