/* What the tokens of a model spell: their bytes within a text, in the order in which masks walk them.
 * Made once for a model.
 *
 * A token's bytes are those that the decoder writes within a text: a space for SentencePiece's U+2581, one
 * byte for a byte token, the bytes behind the alphabet of byte-level BPE. A special token is spelled
 * 0xFF and its name, which is in no text. A token without bytes is spelled by nothing and never comes. */
#ifndef CONSTRAINT_SPELLING_H
#define CONSTRAINT_SPELLING_H

#include "sample/constraint/token_tree.h"
#include <stdbool.h>

struct tokenizer;

enum { SPELLING_SPECIAL = 0xFF };

enum { SPELLING_CHARACTERS = 255 };

/* A node of the tree at which plain content of a string ends */
struct spelling_other {
    uint32_t node;
    uint16_t depth, characters; /* before it: whole ones; the byte: '"' or '\\' */
};

struct spelling {
    const struct tokenizer *tokenizer; /* borrowed, as `ends` */
    const tern_token *ends;            /* [n_ends] */
    size_t n_ends;
    uint32_t n_tokens; /* rows of the model's vocabulary: bits of a mask */
    uint32_t *start;   /* [n_tokens + 1] offsets into text */
    unsigned char *text;
    struct token_tree tree;    /* all tokens with bytes; without all_bytes, of whole characters */
    struct token_tree closing; /* those with a '"' that ends the content of a JSON string, by what they
                                  spell from there on */
    uint8_t *height; /* [nodes of tree] characters that tokens have below the node, at most 255 */
    /* Plain tokens: content of a JSON string without escapes that begins with a character and may end
     * within one. plain[plain_start[k] .. plain_start[k + 1] - 1] have k characters, k at most
     * SPELLING_CHARACTERS, those with more among them. */
    tern_token *plain;
    uint32_t plain_start[SPELLING_CHARACTERS + 2];
    uint32_t *plain_bits;          /* [(n_tokens + 31) / 32] of them */
    struct spelling_other *others; /* [n_others], in the tree's order: where content of a string comes to
                                      its '"' or to a '\\' */
    uint32_t n_others;
    bool all_bytes;       /* every byte that UTF-8 has is a token */
};

/* `ends`, which outlive it, are the end tokens. TERN_USAGE: there is no tokenizer (NULL). */
enum tern_status spelling_open(struct spelling **out, const struct tokenizer *t, uint32_t n_tokens,
                               const tern_token *ends, size_t n_ends, struct tern_error *e);
void spelling_close(struct spelling *s); /* NULL is fine */

static inline const unsigned char *spelling_of(const struct spelling *s, tern_token t, uint32_t *n)
{
    *n = s->start[t + 1] - s->start[t];
    return s->text + s->start[t];
}

bool spelling_is_end(const struct spelling *s, tern_token t);

#endif
