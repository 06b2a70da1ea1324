/* The members of a receipt, in the order of its text: see receipt.h. */
#include "engine/receipt.h"

#include <stddef.h>
#include <string.h>

#define AT(field) .at = offsetof(struct receipt, field)
#define ARRAY(field, n) AT(field), .count = offsetof(struct receipt, n)
#define REAL(field)                             \
    {                                           \
#field, RECEIPT_REAL, AT(sampler.field) \
    }
#define U32(field)                                                 \
    {                                                              \
#field, RECEIPT_U32, AT(sampler.field), .most = UINT32_MAX \
    }

static const struct receipt_member model[] = {
    {"content_id", RECEIPT_HEX, AT(content_id)},         {"config", RECEIPT_HEX, AT(config)},
    {"tokenizer", RECEIPT_HASH, AT(tokenizer)},          {"chat", RECEIPT_HASH, AT(chat)},
    {"end_tokens", RECEIPT_TOKENS, ARRAY(ends, n_ends)}, {.name = NULL},
};

static const struct receipt_member sampler[] = {
    REAL(temperature),
    U32(top_k),
    REAL(top_p),
    REAL(min_p),
    REAL(repeat_penalty),
    U32(repeat_last_n),
    {"seed", RECEIPT_DIGITS, AT(sampler.seed)},
    REAL(frequency_penalty),
    REAL(presence_penalty),
    REAL(typical_p),
    REAL(top_n_sigma),
    REAL(xtc_probability),
    REAL(xtc_threshold),
    REAL(dry_multiplier),
    REAL(dry_base),
    U32(dry_allowed_length),
    U32(dry_last_n),
    {"dry_breakers", RECEIPT_TEXTS_OR, ARRAY(sampler.dry_breakers, sampler.n_dry_breakers)},
    U32(mirostat),
    REAL(mirostat_tau),
    REAL(mirostat_eta),
    {"bias", RECEIPT_BIAS, ARRAY(sampler.bias, sampler.n_bias)},
    {"order", RECEIPT_ORDER, AT(sampler.order)},
    {.name = NULL},
};

static const struct receipt_member constraint[] = {
    {"kind", RECEIPT_WORD, AT(constraint.kind), .words = "json schema regex grammar choice tools"},
    {"text", RECEIPT_BYTES, ARRAY(constraint.text, constraint.bytes)},
    {"flags", RECEIPT_U32, AT(constraint.flags), .most = 127},
    {"max_bytes", RECEIPT_SIZE, AT(constraint.max_bytes)},
    {"max_steps", RECEIPT_U64, AT(constraint.max_steps)},
    {"trigger", RECEIPT_BYTES, ARRAY(constraint.trigger, constraint.trigger_bytes)},
    {"tool_choice", RECEIPT_NAME, AT(constraint.tool_choice)},
    {"chat_flags", RECEIPT_U32, AT(constraint.chat_flags), .most = 7},
    {.name = NULL},
};

const struct receipt_member receipt_members[] = {
    {"receipt", RECEIPT_U64, AT(version)},
    {"arith", RECEIPT_U64, AT(arith)},
    {"model", RECEIPT_MEMBERS, .members = model},
    {"cache_type", RECEIPT_WORD, AT(cache_type), .words = "f16 f32 q8"},
    {"sampler", RECEIPT_MEMBERS, .members = sampler},
    {"n_predict", RECEIPT_I64, AT(n_predict)},
    {"ignore_end", RECEIPT_FLAG, AT(ignore_end)},
    {"no_force", RECEIPT_FLAG, AT(no_force)},
    {"stop", RECEIPT_TEXTS, ARRAY(stop, n_stop)},
    {"constraint", RECEIPT_MEMBERS_OR, AT(is_bound), .members = constraint},
    {"prompt", RECEIPT_TOKENS, ARRAY(prompt, n_prompt)},
    {"answer", RECEIPT_TOKENS, ARRAY(answer, n_answer)},
    {"stop_reason", RECEIPT_WORD, AT(reason),
     .words = "end length context string cancelled complete"},
    {"fingerprint", RECEIPT_HEX, AT(fingerprint)},
    {"n_fingerprinted", RECEIPT_U64, AT(n_fingerprinted)},
    {.name = NULL},
};

const char *receipt_word(const char *words, size_t i, size_t *n)
{
    for (; *words; words += *n + (words[*n] != 0), i--) {
        *n = strcspn(words, " ");
        if (!i)
            return words;
    }
    return NULL;
}
