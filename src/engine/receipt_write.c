/* Receipts: tern_receipt_write, and the text of a receipt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh64.h"
#include "engine/receipt.h"
#include "sample/sampler.h"
#include "text/tojson.h"
#include "text/unicode.h"

/* ---- values --------------------------------------------------------------------------------- */

static bool put(struct buffer *out, const char *text)
{
    return buffer_add(out, text, strlen(text));
}

static bool put_u64(struct buffer *out, uint64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)x);
    return put(out, text);
}

static bool put_hex(struct buffer *out, uint64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "\"%016llx\"", (unsigned long long)x);
    return put(out, text);
}

static bool put_real(struct buffer *out, float x)
{
    return x - x != 0 ? put(out, x > 0 ? "\"inf\"" : "\"-inf\"") : tojson_put_real((double)x, out);
}

/* A text; bytes that are not UTF-8 as an object of their hexadecimal digits */
static bool put_bytes(struct buffer *out, const char *p, size_t n)
{
    if (unicode_valid(p, n))
        return tojson_put_string(p, n, TOJSON_JSON, out);
    bool ok = put(out, "{\"hex\":\"");
    for (size_t i = 0; i < n && ok; i++) {
        char digits[4];
        snprintf(digits, sizeof digits, "%02x", (unsigned)(unsigned char)p[i]);
        ok = put(out, digits);
    }
    return ok && put(out, "\"}");
}

static bool put_order(struct buffer *out, const unsigned char *order)
{
    bool ok = put(out, "\"");
    for (size_t i = 0; i < TERN_N_STAGES - 1u && ok && (order[i] || !order[0]); i++) {
        size_t n;
        const char *name = sampler_stage(order[0] ? order[i] : i + 1, &n);
        ok = (!i || put(out, ";")) && buffer_add(out, name, n);
    }
    return ok && put(out, "\"");
}

static bool put_element(struct buffer *out, enum receipt_kind kind, const void *array, size_t i)
{
    const struct tern_bias *bias = (const struct tern_bias *)array + i;
    const char *text;
    char number[24];
    switch (kind) {
    case RECEIPT_TOKENS:
        snprintf(number, sizeof number, "%d", (int)((const tern_token *)array)[i]);
        return put(out, number);
    case RECEIPT_TEXTS:
        text = ((const char *const *)array)[i];
        return put_bytes(out, text, strlen(text));
    default:
        snprintf(number, sizeof number, "[%d,", (int)bias->token);
        return put(out, number) && put_real(out, bias->value) && put(out, "]");
    }
}

static bool put_array(struct buffer *out, enum receipt_kind kind, const void *array, size_t n)
{
    bool ok = put(out, "[");
    for (size_t i = 0; i < n && ok; i++)
        ok = (!i || put(out, ",")) && put_element(out, kind, array, i);
    return ok && put(out, "]");
}

/* ---- members -------------------------------------------------------------------------------- */

static bool put_word(struct buffer *out, const char *words, size_t i)
{
    size_t n = 0;
    const char *word = receipt_word(words, i, &n);
    return word && put(out, "\"") && buffer_add(out, word, n) && put(out, "\"");
}

static bool put_member(struct buffer *out, const struct receipt *r, const struct receipt_member *m);

static bool put_members(struct buffer *out, const struct receipt *r, const struct receipt_member *m)
{
    bool ok = true;
    for (const char *between = "{"; m->name && ok; m++, between = ",")
        ok = put(out, between) && put(out, "\"") && put(out, m->name) && put(out, "\":") &&
             put_member(out, r, m);
    return ok;
}

static bool put_number(struct buffer *out, enum receipt_kind kind, const void *at)
{
    char text[24];
    switch (kind) {
    case RECEIPT_U32:
        return put_u64(out, *(const uint32_t *)at);
    case RECEIPT_U64:
        return put_u64(out, *(const uint64_t *)at);
    case RECEIPT_SIZE:
        return put_u64(out, *(const size_t *)at);
    default:
        snprintf(text, sizeof text, "%lld", (long long)*(const int64_t *)at);
        return put(out, text);
    }
}

static bool put_member(struct buffer *out, const struct receipt *r, const struct receipt_member *m)
{
    const void *at = (const char *)r + m->at, *p = NULL;
    size_t n = 0;
    if (m->count) {
        memcpy(&p, at, sizeof p);
        n = *(const size_t *)(const void *)((const char *)r + m->count);
    }
    switch (m->kind) {
    case RECEIPT_REAL:
        return put_real(out, *(const float *)at);
    case RECEIPT_FLAG:
        return put(out, *(const int *)at ? "true" : "false");
    case RECEIPT_DIGITS:
        return put(out, "\"") && put_u64(out, *(const uint64_t *)at) && put(out, "\"");
    case RECEIPT_HEX:
        return put_hex(out, *(const uint64_t *)at);
    case RECEIPT_HASH:
        return ((const struct receipt_hash *)at)->is_there
                   ? put_hex(out, ((const struct receipt_hash *)at)->value)
                   : put(out, "null");
    case RECEIPT_WORD:
        return put_word(out, m->words, *(const unsigned *)at);
    case RECEIPT_TEXTS_OR:
        return p ? put_array(out, RECEIPT_TEXTS, p, n) : put(out, "null");
    case RECEIPT_TOKENS:
    case RECEIPT_TEXTS:
    case RECEIPT_BIAS:
        return put_array(out, m->kind, p, n);
    case RECEIPT_ORDER:
        return put_order(out, at);
    case RECEIPT_BYTES:
        return put_bytes(out, n ? p : "", n);
    case RECEIPT_NAME:
        memcpy(&p, at, sizeof p);
        return p ? put_bytes(out, p, strlen(p)) : put(out, "null");
    case RECEIPT_MEMBERS:
        return put_members(out, r, m->members) && put(out, "}");
    case RECEIPT_MEMBERS_OR:
        return *(const bool *)at ? put_members(out, r, m->members) && put(out, "}")
                                 : put(out, "null");
    default:
        return put_number(out, m->kind, at);
    }
}

enum tern_status receipt_print(const struct receipt *r, struct buffer *out, struct tern_error *e)
{
    static const char end[] = ",\"digest\":\"\"}";
    size_t from = out->n;
    uint64_t digest;
    if (!put_members(out, r, receipt_members) || !put(out, end))
        return error_memory(e, "the receipt", out->n);
    enum tern_status s = receipt_digest(out->p + from, out->n - from, &digest, e);
    if (s)
        return s;
    out->n -= strlen("\"\"}");
    return put_hex(out, digest) && put(out, "}\n") ? TERN_OK
                                                   : error_memory(e, "the receipt", out->n);
}

/* ---- of an answer ----------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    tern_token x = *(const tern_token *)a, y = *(const tern_token *)b;
    return (x > y) - (x < y);
}

static uint64_t hash_of_section(const struct tern_model *m, const char *tag, bool *is_there)
{
    size_t n;
    const void *body = weights_section(m->model->weights, tag, &n);
    *is_there = body != NULL;
    return body ? xxh64(body, n) : 0;
}

void receipt_name_model(struct receipt *r, const struct tern_model *m, tern_token *ends)
{
    bool is_there;
    r->arith = TERN_ARITH;
    r->content_id = weights_content_id(m->model->weights);
    r->config = hash_of_section(m, "config", &is_there);
    r->tokenizer.value = hash_of_section(m, "tokenizer", &r->tokenizer.is_there);
    /* It says what shows of special tokens, where stop strings are looked for; and how calls look. */
    r->chat.is_there =
        m->chat && (r->n_stop || (r->is_bound && r->constraint.kind == TERN_CONSTRAINT_TOOLS));
    r->chat.value = r->chat.is_there ? chat_hash(m->chat) : 0;
    r->ends = ends;
    r->n_ends = m->n_end_tokens;
    memcpy(ends, m->end_tokens, r->n_ends * sizeof *ends);
    qsort(ends, r->n_ends, sizeof *ends, ascending);
}

/* Why this answer has no receipt; NULL: it has one. */
static const char *why_none(const struct tern_receipt_params *p)
{
    const struct tern_generate_params *g = p->generate;
    const struct tern_generate_result *result = p->result;
    if (!g || !result || !p->n_prompt)
        return "the prompt, the options or the result of the answer is missing";
    if (result->n_shifts)
        return "the context was shifted, and a text that was shifted has no receipt";
    if (result->reason > TERN_STOP_COMPLETE)
        return "the text ended in a dead end";
    if (p->n_answer != result->n_generated)
        return "the answer and its result differ in the number of tokens";
    if (result->n_fingerprinted + result->n_forced != result->n_generated)
        return "the answer has no fingerprint: it was not asked for, or the context was altered";
    if (g->sampler && g->sampler->constraint)
        return "the text of the sampler's own constraint is not known";
    if (g->sampler && g->sampler->mu && g->sampler->mirostat)
        return "the state mu was not begun with the answer";
    if (!g->constraint != !p->constraint)
        return "the constraint and its text do not go together";
    return NULL;
}

static struct receipt receipt_of(const tern_model *model, const struct tern_receipt_params *p)
{
    const struct tern_generate_params *g = p->generate;
    struct receipt r = {.version = RECEIPT_VERSION,
                        .cache_type = p->cache_type,
                        .sampler = g->sampler ? *g->sampler : model->sampler,
                        .n_predict = g->n_predict < 0 ? -1 : g->n_predict,
                        .ignore_end = g->ignore_end,
                        .no_force = g->no_force,
                        .stop = g->stop,
                        .n_stop = g->n_stop,
                        .is_bound = p->constraint != NULL,
                        .prompt = p->prompt,
                        .n_prompt = p->n_prompt,
                        .answer = p->answer,
                        .n_answer = p->n_answer,
                        .reason = p->result->reason,
                        .fingerprint = p->result->fingerprint,
                        .n_fingerprinted = p->result->n_fingerprinted};
    if (p->constraint)
        r.constraint = *p->constraint;
    return r;
}

enum tern_status tern_receipt_write(const tern_model *model, const struct tern_receipt_params *p,
                                    char *text, size_t max, size_t *n, struct tern_error *e)
{
    tern_token ends[MAX_END_TOKENS];
    struct buffer out = {0};
    const char *why = why_none(p);
    *n = 0;
    if (why)
        return error_set(e, TERN_USAGE, "no receipt: %s", why);
    struct receipt r = receipt_of(model, p);
    receipt_name_model(&r, model, ends);
    enum tern_status s = receipt_print(&r, &out, e);
    if (!s && out.n && max)
        memcpy(text, out.p, out.n < max ? out.n : max);
    *n = s ? 0 : out.n;
    buffer_close(&out);
    return s;
}
