/* tern_model_selftest and the seal: proves that file, build and machine agree with the source. */
#include "engine/lab/selftest.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/api_chat.h"
#include "engine/context.h"
#include "engine/lab/talk_json.h"
#include "tern_lab.h"

enum { SEAL_ROWS = 16 };

struct selftest {
    struct tern_model *m;
    void (*report)(void *arg, const char *line);
    void *arg;
    struct tern_error *e;
};

static void say(const struct selftest *t, const char *part, const char *what)
{
    char line[160];
    if (!t->report)
        return;
    snprintf(line, sizeof line, "%-10s %s", part, what);
    t->report(t->arg, line);
}

/* ---- seal --------------------------------------------------------------------------------- */

/* Evaluates tokens as one sequence in a context of its own; all rows ask for logits, or the last.
 */
static enum tern_status evaluate(struct tern_model *m, const uint32_t *tokens, size_t n, bool all,
                                 tern_context **ctx, struct tern_error *e)
{
    struct tern_context_params p = {.n_ctx = (uint32_t)n,
                                    .n_batch = n < SEAL_ROWS ? (uint32_t)n : SEAL_ROWS,
                                    .cache_type = TERN_CACHE_F32,
                                    .fingerprint = all};
    enum tern_status s = tern_context_open(ctx, m, &p, e);
    for (size_t i = 0; i < n && !s; i++) {
        s = tern_batch_add(*ctx, 0, (tern_token)tokens[i], all || i + 1 == n ? TERN_ROW_LOGITS : 0,
                           e);
        if (!s && ((i + 1) % p.n_batch == 0 || i + 1 == n))
            s = tern_forward(*ctx);
    }
    return s ? s : tern_numeric_status(*ctx, e);
}

enum tern_status tern_model_seal(tern_model *m, uint64_t *fingerprint, struct tern_error *e)
{
    uint32_t tokens[SEAL_ROWS];
    size_t n = m->model->max_seq < SEAL_ROWS ? m->model->max_seq : SEAL_ROWS;
    tern_context *ctx = NULL;
    for (size_t i = 0; i < n; i++)
        tokens[i] = (uint32_t)((i * 7919 + 13) % m->model->vocab);
    enum tern_status s = evaluate(m, tokens, n, true, &ctx, e);
    *fingerprint = s ? 0 : tern_fingerprint(ctx, NULL);
    tern_context_close(ctx);
    return s;
}

static enum tern_status test_seal(const struct selftest *t)
{
    struct keys keys;
    bool found;
    uint64_t arith = 0, want = 0, got;
    enum tern_status s = model_handle_section(t->m, "seal", &keys, &found, t->e);
    if (!s && found && !(s = keys_u64(&keys, "arith", &arith, t->e)))
        s = keys_u64(&keys, "fingerprint", &want, t->e);
    keys_close(&keys);
    if (s)
        return s;
    if (arith != TERN_ARITH) {
        say(t, "seal",
            arith ? "made with another revision of the arithmetic: not compared"
                  : "none in this file: not compared");
        return TERN_OK;
    }
    if ((s = tern_model_seal(t->m, &got, t->e)))
        return s;
    if (got != want)
        return error_set(t->e, TERN_INTERNAL,
                         "seal: fingerprint %016llx, the file says %016llx: this build, machine or "
                         "file computes other bits",
                         (unsigned long long)got, (unsigned long long)want);
    say(t, "seal", "equal bit for bit");
    return TERN_OK;
}

/* ---- tokenizer vectors -------------------------------------------------------------------- */

struct vectors {
    const char *text;
    const uint32_t *lengths, *ids, *id_lengths;
    uint64_t text_bytes, n, n_ids, n_id_lengths;
};

static enum tern_status bad_vectors(struct tern_error *e)
{
    return error_set(e, TERN_BAD_FILE, "section 'vectors': its lengths do not fit its contents");
}

static enum tern_status compare_ids(const struct selftest *t, const char *mode, size_t i,
                                    const char *text, size_t n, unsigned flags,
                                    const uint32_t *want, size_t n_want)
{
    size_t n_got = 0, same = 0;
    tern_token *got = malloc((n_want + 1) * sizeof *got);
    if (!got)
        return error_memory(t->e, "ids", (n_want + 1) * sizeof *got);
    enum tern_status s = tern_tokenize(t->m, text, n, flags, got, n_want + 1, &n_got, t->e);
    while (!s && same < n_want && same < n_got && (uint32_t)got[same] == want[same])
        same++;
    free(got);
    if (!s && (n_got != n_want || same != n_want))
        return error_set(t->e, TERN_INTERNAL,
                         "tokenizer, %s mode, string %zu: id %zu differs from the source's", mode,
                         i, same);
    return s;
}

static enum tern_status compare_all(const struct selftest *t, const char *mode, unsigned flags,
                                    const struct vectors *v)
{
    uint64_t at = 0, id_at = 0;
    if (v->n_id_lengths != v->n)
        return bad_vectors(t->e);
    for (size_t i = 0; i < v->n; i++) {
        uint32_t n = load_u32(&v->lengths[i]), n_ids = load_u32(&v->id_lengths[i]);
        if (n > v->text_bytes - at || n_ids > v->n_ids - id_at)
            return bad_vectors(t->e);
        enum tern_status s = compare_ids(t, mode, i, v->text + at, n, flags, v->ids + id_at, n_ids);
        if (s)
            return s;
        at += n, id_at += n_ids;
    }
    return TERN_OK;
}

static enum tern_status test_mode(const struct selftest *t, struct keys *keys, const char *mode,
                                  unsigned flags, struct vectors *v)
{
    char ids[32], lengths[32];
    enum tern_status s;
    snprintf(ids, sizeof ids, "%s.ids", mode);
    snprintf(lengths, sizeof lengths, "%s.lengths", mode);
    v->ids = v->id_lengths = NULL;
    v->n_ids = v->n_id_lengths = 0;
    if ((s = keys_u32s(keys, ids, &v->ids, &v->n_ids, t->e)) ||
        (s = keys_u32s(keys, lengths, &v->id_lengths, &v->n_id_lengths, t->e)))
        return s;
    return v->id_lengths ? compare_all(t, mode, flags, v) : TERN_OK;
}

static enum tern_status test_tokenizer(const struct selftest *t, struct keys *keys)
{
    struct vectors v = {0};
    char line[80];
    enum tern_status s;
    if ((s = keys_text(keys, "text.bytes", &v.text, &v.text_bytes, t->e)) ||
        (s = keys_u32s(keys, "text.lengths", &v.lengths, &v.n, t->e)))
        return s;
    if (v.n == 0 || !t->m->tokenizer) {
        say(t, "tokenizer", "no vectors in this file: not compared");
        return TERN_OK;
    }
    if ((s = test_mode(t, keys, "plain", 0, &v)) ||
        (s = test_mode(t, keys, "parse", TERN_PARSE_SPECIAL, &v)))
        return s;
    snprintf(line, sizeof line, "%llu strings give the source's ids in both modes",
             (unsigned long long)v.n);
    say(t, "tokenizer", line);
    return TERN_OK;
}

/* ---- rendered chats ----------------------------------------------------------------------- */

enum { CHAT_HAS_SYSTEM = 8, CHAT_MESSAGES = 16 }; /* beside the flags of tern.h; at most */

/* A list of pieces in a section: a block, and the length of each piece. */
struct pieces {
    const void *block;
    const uint32_t *lengths;
    uint64_t n, size, at, used; /* pieces, elements of the block; how many are taken */
    size_t width;               /* bytes of an element */
};

/* The next piece, of *n elements; NULL when there is none, or not all of it. */
static const void *next_piece(struct pieces *p, size_t *n)
{
    if (p->at >= p->n || (*n = load_u32(&p->lengths[p->at])) > p->size - p->used)
        return NULL;
    const void *piece = (const char *)p->block + p->used * p->width;
    p->at++, p->used += *n;
    return piece;
}

struct chats {
    struct pieces messages, texts, ids;
    const uint32_t *counts, *flags;
    uint64_t n, n_flags;
};

/* What conversation i should become */
struct want {
    size_t i;
    const char *text;
    const void *ids;
    size_t n_text, n_ids;
};

static enum tern_status compare_talk(const struct selftest *t, const struct tern_chat_message *m,
                                     size_t count, unsigned flags, const struct want *want)
{
    size_t n = 0;
    char *got = malloc(want->n_text + want->n_ids * sizeof(tern_token) + 1);
    if (!got)
        return error_memory(t->e, "a conversation", want->n_text);
    enum tern_status s = tern_chat_text(t->m, m, count, flags, got, want->n_text, &n, t->e);
    bool same = !s && n == want->n_text && memcmp(got, want->text, n) == 0;
    if (same && !(s = tern_chat_tokens(t->m, m, count, flags, (tern_token *)(void *)got,
                                       want->n_ids, &n, t->e)))
        same = n == want->n_ids && memcmp(got, want->ids, n * sizeof(tern_token)) == 0;
    free(got);
    return s || same ? s
                     : error_set(t->e, TERN_INTERNAL,
                                 "chat: conversation %zu differs from what the source's template "
                                 "makes of it",
                                 want->i);
}

/* Compares conversation i as text and as ids. */
static enum tern_status compare_chat(const struct selftest *t, struct chats *v, size_t i)
{
    struct tern_chat_message m[CHAT_MESSAGES];
    uint32_t count = load_u32(&v->counts[i]), flags = load_u32(&v->flags[i]);
    size_t n_text = 0, n_ids = 0, first = flags & CHAT_HAS_SYSTEM ? 0 : 1;
    const char *text = next_piece(&v->texts, &n_text);
    const void *ids = next_piece(&v->ids, &n_ids);
    if (!text || !ids || count > CHAT_MESSAGES)
        return bad_vectors(t->e);
    for (size_t j = 0; j < count; j++) {
        size_t role = j + first;
        m[j] = (struct tern_chat_message){.role = !role      ? "system"
                                                  : role % 2 ? "user"
                                                             : "assistant"};
        if (!(m[j].text = next_piece(&v->messages, &m[j].bytes)))
            return bad_vectors(t->e);
    }
    const struct want want = {i, text, ids, n_text, n_ids};
    return compare_talk(t, m, count, flags & (CHAT_HAS_SYSTEM - 1), &want);
}

/* The same of a conversation with tools */
static enum tern_status compare_tools(const struct selftest *t, struct chats *v, size_t i)
{
    struct talk_json talk;
    size_t n = 0;
    struct want want = {.i = i};
    const char *given = next_piece(&v->messages, &n);
    want.text = next_piece(&v->texts, &want.n_text);
    want.ids = next_piece(&v->ids, &want.n_ids);
    if (!given || !want.text || !want.ids)
        return bad_vectors(t->e);
    enum tern_status s = talk_json_open(&talk, given, n, t->e);
    if (!s)
        s = compare_talk(t, talk.list, talk.n, load_u32(&v->flags[i]), &want);
    talk_json_close(&talk);
    return s;
}

static enum tern_status read_pieces(struct keys *keys, const char *name, const char *lengths,
                                    bool ids, struct pieces *p, struct tern_error *e)
{
    p->width = ids ? sizeof(uint32_t) : 1;
    const uint32_t *block = NULL;
    const char *text = ""; /* what a section without texts has */
    enum tern_status s = ids ? keys_u32s(keys, name, &block, &p->size, e)
                             : keys_text(keys, name, &text, &p->size, e);
    p->block = ids ? (const void *)block : text;
    return s ? s : keys_u32s(keys, lengths, &p->lengths, &p->n, e);
}

static enum tern_status test_chats(const struct selftest *t, struct keys *keys)
{
    struct chats v = {0}, tools = {0};
    char line[120];
    enum tern_status s;
    if ((s = keys_u32s(keys, "chat.counts", &v.counts, &v.n, t->e)) ||
        (s = keys_u32s(keys, "chat.flags", &v.flags, &v.n_flags, t->e)) ||
        (s = read_pieces(keys, "chat.bytes", "chat.lengths", false, &v.messages, t->e)) ||
        (s = read_pieces(keys, "chat.text.bytes", "chat.text.lengths", false, &v.texts, t->e)) ||
        (s = read_pieces(keys, "chat.ids", "chat.id_lengths", true, &v.ids, t->e)))
        return s;
    if ((s = keys_u32s(keys, "tools.flags", &tools.flags, &tools.n_flags, t->e)) ||
        (s = read_pieces(keys, "tools.bytes", "tools.lengths", false, &tools.messages, t->e)) ||
        (s = read_pieces(keys, "tools.text.bytes", "tools.text.lengths", false, &tools.texts,
                         t->e)) ||
        (s = read_pieces(keys, "tools.ids", "tools.id_lengths", true, &tools.ids, t->e)))
        return s;
    tools.n = tools.messages.n;
    if (v.n_flags != v.n || tools.n_flags != tools.n)
        return bad_vectors(t->e);
    struct chat *in_use = t->m->chat; /* perhaps a built-in one */
    t->m->chat = NULL;
    s = api_chat_open(t->m, NULL, t->e);
    if (!t->m->chat)
        v.n = tools.n = 0;
    for (size_t i = 0; i < v.n && !s; i++)
        s = compare_chat(t, &v, i);
    for (size_t i = 0; i < tools.n && !s; i++)
        s = compare_tools(t, &tools, i);
    chat_close(t->m->chat);
    t->m->chat = in_use;
    snprintf(
        line, sizeof line,
        "%llu conversations, %llu of them with tools, are as the source's template writes them",
        (unsigned long long)(v.n + tools.n), (unsigned long long)tools.n);
    if (!tools.n)
        snprintf(line, sizeof line, "%llu conversations are as the source's template writes them",
                 (unsigned long long)v.n);
    if (!s && v.n)
        say(t, "chat", line);
    return s;
}

/* ---- golden logits of the source ---------------------------------------------------------- */

struct golden {
    const uint32_t *tokens, *ids;
    const float *values;
    uint64_t n_tokens, n_ids, n_values;
    float bound;
};

/* max |a - b| / max |b| over the golden ids; infinite when it is not a number. */
static float golden_error(const struct golden *g, const float *logits)
{
    float worst = 0, largest = 0;
    for (uint64_t i = 0; i < g->n_ids; i++) {
        float want = load_f32(&g->values[i]), d = logits[load_u32(&g->ids[i])] - want;
        worst = d > worst ? d : -d > worst ? -d : worst;
        largest = want > largest ? want : -want > largest ? -want : largest;
    }
    float error = worst / largest;
    return error <= FLT_MAX ? error : INFINITY;
}

static bool ids_in_vocab(const uint32_t *ids, uint64_t n, size_t vocab)
{
    for (uint64_t i = 0; i < n; i++)
        if (load_u32(&ids[i]) >= vocab)
            return false;
    return true;
}

static enum tern_status read_golden(const struct tern_model *m, struct keys *keys, struct golden *g,
                                    struct tern_error *e)
{
    enum tern_status s;
    if ((s = keys_u32s(keys, "logits.tokens", &g->tokens, &g->n_tokens, e)) ||
        (s = keys_u32s(keys, "logits.ids", &g->ids, &g->n_ids, e)) ||
        (s = keys_f32s(keys, "logits.values", &g->values, &g->n_values, e)) ||
        (s = keys_f32(keys, "logits.bound", &g->bound, e)))
        return s;
    if (g->n_ids != g->n_values || g->n_tokens > m->model->max_seq ||
        !ids_in_vocab(g->tokens, g->n_tokens, m->model->vocab) ||
        !ids_in_vocab(g->ids, g->n_ids, m->model->vocab))
        return bad_vectors(e);
    return TERN_OK;
}

enum tern_status selftest_golden(struct tern_model *m, bool *found, float *error, float *bound,
                                 struct tern_error *e)
{
    struct golden g = {0};
    struct keys keys;
    tern_context *ctx = NULL;
    enum tern_status s = model_handle_section(m, "vectors", &keys, found, e);
    if (!s && *found)
        s = read_golden(m, &keys, &g, e);
    *found = g.n_tokens > 0 && g.n_ids > 0;
    *bound = g.bound;
    if (!s && *found && !(s = evaluate(m, g.tokens, (size_t)g.n_tokens, false, &ctx, e)))
        *error = golden_error(&g, tern_logits(ctx, 0));
    tern_context_close(ctx);
    keys_close(&keys);
    return s;
}

static enum tern_status test_logits(const struct selftest *t)
{
    float error = 0, bound = 0;
    bool found;
    char line[96];
    enum tern_status s = selftest_golden(t->m, &found, &error, &bound, t->e);
    if (s)
        return s;
    if (!found) {
        say(t, "logits", "no golden logits in this file: not compared");
        return TERN_OK;
    }
    if (!(error <= bound))
        return error_set(t->e, TERN_INTERNAL,
                         "golden logits: max |a - b| / max |b| is %g, the file allows %g",
                         (double)error, (double)bound);
    snprintf(line, sizeof line, "max |a - b| / max |b| is %.3g, at most %.3g is allowed",
             (double)error, (double)bound);
    say(t, "logits", line);
    return TERN_OK;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static enum tern_status test_vectors(const struct selftest *t)
{
    struct keys keys;
    bool found;
    enum tern_status s = model_handle_section(t->m, "vectors", &keys, &found, t->e);
    if (s)
        return s;
    if (!found)
        say(t, "vectors", "none in this file: not compared");
    else if (!(s = test_tokenizer(t, &keys)) && !(s = test_chats(t, &keys)))
        s = test_logits(t);
    keys_close(&keys);
    return s;
}

enum tern_status tern_model_selftest(tern_model *m, void (*report)(void *arg, const char *line),
                                     void *arg, struct tern_error *e)
{
    struct selftest t = {m, report, arg, e};
    struct kernels again;
    enum tern_status s;
    if ((s = kernels_init(&again, m->kernels.name, e)))
        return s;
    say(&t, "kernels", m->kernels.name);
    if ((s = tern_model_check(m, e)))
        return s;
    say(&t, "file", "every checksum holds");
    if ((s = test_vectors(&t)))
        return s;
    return test_seal(&t);
}
