/* The vocabulary: bytes, type and score of every token, and the way from bytes to id. Reads the
 * keys tokens.* of the section and checks them; owns nothing but its index. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "weights/keys.h"

enum token_type {                   /* the numbers of SentencePiece; 0 is ours */
                  TOKEN_ABSENT = 0, /* not found by its bytes: an added token, a hole, padding */
                  TOKEN_NORMAL = 1,
                  TOKEN_UNKNOWN = 2,
                  TOKEN_CONTROL = 3,
                  TOKEN_USER =
                      4, /* SentencePiece's user-defined symbols: matched first, never merged */
                  TOKEN_UNUSED = 5, /* may be made by merging, then is taken apart again */
                  TOKEN_BYTE = 6,   /* <0x00> to <0xFF> */
};

enum { VOCAB_TOKEN_MAX = 4096 }; /* bytes of a token */

struct vocab {
    uint32_t n;
    const char *bytes;          /* borrowed */
    uint32_t *start;            /* [n + 1] offsets into bytes; owned */
    const unsigned char *types; /* [n] enum token_type; borrowed */
    uint32_t *slots;            /* [mask + 1] id + 1 of the looked-up tokens; owned */
    uint32_t mask;
    uint32_t longest;      /* bytes of the longest looked-up token */
    uint32_t longest_text; /* bytes of the longest token of any type */
    int32_t byte_id[256];  /* token of type TOKEN_BYTE of each byte, or -1 */
};

/* `rows`: more tokens than that are refused. Close it also after a failure. */
enum tern_status vocab_open(struct vocab *v, struct keys *keys, uint64_t rows,
                            struct tern_error *e);
void vocab_close(struct vocab *v);

/* Id of the token of type NORMAL, USER or UNUSED with exactly these bytes, or -1. */
int32_t vocab_find(const struct vocab *v, const char *p, size_t n);

static inline const char *vocab_text(const struct vocab *v, int32_t id, size_t *n)
{
    *n = v->start[id + 1] - v->start[id];
    return v->bytes + v->start[id];
}

/* Value of the byte token written p[0..n): <0x00> to <0xFF>; -1 for any other text. */
int vocab_byte(const char *p, size_t n);

#endif
