/* A receipt in memory, and the table of its members: RECEIPT.md. */
#ifndef ENGINE_RECEIPT_H
#define ENGINE_RECEIPT_H

#include <stdbool.h>

#include "engine/model_handle.h"
#include "text/buffer.h"

enum { RECEIPT_VERSION = 1 };

/* Which section of a weights file it was. XXH64 of its bytes */
struct receipt_hash {
    bool is_there;
    uint64_t value;
};

struct receipt {
    uint64_t version, arith;
    uint64_t content_id, config;         /* of the weights file; XXH64 of its section `config` */
    struct receipt_hash tokenizer, chat; /* chat: only where it has a part in the answer */
    const tern_token *ends;              /* [n_ends] end tokens, ascending */
    size_t n_ends;
    enum tern_cache_type cache_type;
    struct tern_sampler_params sampler; /* without mu and constraint */
    int64_t n_predict;
    int ignore_end, no_force;
    const char *const *stop; /* [n_stop] */
    size_t n_stop;
    bool is_bound;
    struct tern_constraint_params constraint;
    const tern_token *prompt, *answer; /* [n_prompt], [n_answer] */
    size_t n_prompt, n_answer;
    enum tern_stop_reason reason;
    uint64_t fingerprint, n_fingerprinted;
};

/* ---- the members of the JSON text ------------------------------------------------------------- */

enum receipt_kind {
    RECEIPT_REAL,      /* float: a number, "inf" or "-inf" */
    RECEIPT_U32,       /* at most `most` */
    RECEIPT_U64,       /* a number, at most 2^53 */
    RECEIPT_I64,       /* -1 to 2^53 */
    RECEIPT_SIZE,      /* size_t, at most 2^53 */
    RECEIPT_FLAG,      /* int: true or false */
    RECEIPT_DIGITS,    /* uint64_t: its decimal digits as a string */
    RECEIPT_HEX,       /* uint64_t: 16 hexadecimal digits as a string */
    RECEIPT_HASH,      /* struct receipt_hash: the same, or null */
    RECEIPT_WORD,      /* an enumeration from 0: its word of `words` */
    RECEIPT_TOKENS,    /* const tern_token *, size_t: numbers */
    RECEIPT_TEXTS,     /* const char *const *, size_t: texts */
    RECEIPT_TEXTS_OR,  /* the same, or null: NULL */
    RECEIPT_BIAS,      /* const struct tern_bias *, size_t: pairs of a token and a number */
    RECEIPT_ORDER,     /* unsigned char [TERN_N_STAGES]: tern_sampler_order's text */
    RECEIPT_BYTES,     /* const char *, size_t: a text */
    RECEIPT_NAME,      /* const char *: a text, or null */
    RECEIPT_MEMBERS,   /* an object of the members `members` */
    RECEIPT_MEMBERS_OR /* the same where the bool at `at` is true; else null */
};

struct receipt_member {
    const char *name;
    enum receipt_kind kind;
    size_t at, count; /* offsets in struct receipt: of the value, and of its number of elements */
    uint64_t most;
    const char *words;                    /* "f16 f32 q8" */
    const struct receipt_member *members; /* ends with a name of NULL, as receipt_members does */
};

extern const struct receipt_member receipt_members[];

/* The i-th of words separated by blanks, and its bytes; NULL: no more. */
const char *receipt_word(const char *words, size_t i, size_t *n);

/* ---- reading and writing ------------------------------------------------------------------------ */

struct receipt_block;

/* What reading allocated: one chain */
struct receipt_memory {
    struct receipt_block *first;
};

/* Fills r, which borrows from `memory`: to be closed also after an error. TERN_BAD_FILE: text[0..n) is no
 * receipt, is of another version, or was damaged. */
enum tern_status receipt_read(struct receipt *r, struct receipt_memory *memory, const char *text,
                              size_t n, struct tern_error *e);
void receipt_close(struct receipt_memory *memory);

/* Appends the JSON text of r and a line feed. */
enum tern_status receipt_print(const struct receipt *r, struct buffer *out, struct tern_error *e);

/* The hash that stands in a receipt for damage: of text[0..n) without the value of "digest". */
enum tern_status receipt_digest(const char *text, size_t n, uint64_t *digest, struct tern_error *e);

/* Fills what names the model. ends [MAX_END_TOKENS] gets its end tokens. */
void receipt_name_model(struct receipt *r, const struct tern_model *m, tern_token *ends);

#endif
