/* What a tokenizer consists of, for its own files. tokenizer.c reads it from the section and encodes;
 * spm.c, bpe.c, unigram.c and word_level.c turn a word into ids; decoder.c goes back. */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/buffer.h"
#include "text/merge.h"
#include "text/tokenizer_steps.h"
#include "text/tokenizer.h"
#include "text/trie.h"
#include "text/vocab.h"

enum model_kind { MODEL_SPM, MODEL_BPE, MODEL_UNIGRAM, MODEL_WORD };

/* Merges by rank: an open hash table over (left, right), at most half full. */
struct ranks {
    const uint32_t *merges; /* [n, 3] left, right, result; borrowed */
    uint32_t n, mask;
    uint32_t *slots; /* [mask + 1] number of the merge + 1; owned */
};

struct tokenizer {
    struct vocab vocab;
    struct added_set raw, normalized; /* added tokens before and after the normalizer */
    struct buffer added_text;         /* the normalized forms */
    /* [n_added], and their contents; borrowed */
    const uint32_t *added_ids, *added_lengths, *added_flags;
    const char *added_bytes;
    size_t n_added;
    unsigned char *special; /* [vocab.n], owned */
    struct steps normalizer, pre, decoder;
    enum model_kind kind;
    bool byte_level;                /* bpe: the units are bytes, else characters */
    bool byte_fallback;             /* an unknown character becomes its byte tokens, if all exist */
    bool fuse_unk;                  /* neighbouring unknown characters become one `unk` */
    bool ignore_merges;             /* bpe: a word that is a token is that token */
    bool has_unused;                /* spm: some token is TOKEN_UNUSED */
    bool cuts_at_space;             /* no token reaches from another character into a U+2581 */
    size_t most_bytes;              /* of a word that one id stands for; 0: any number */
    int32_t unk, bos, eos;          /* or -1 */
    int32_t byte_unit[256];         /* byte_level: token of each single byte, or -1 */
    const float *scores;            /* [vocab.n] spm; borrowed */
    const double *log_probs;        /* [vocab.n + 1] unigram, the last an unknown character's */
    bool f32_sums;                  /* unigram: sums are kept in binary32 */
    struct trie trie;               /* unigram: the tokens */
    struct ranks ranks;             /* bpe */
    struct added_set users;         /* spm: tokens of type USER */
    const uint32_t *before, *after; /* ids added around the text; borrowed */
    size_t n_before, n_after;
    struct stop stop; /* whom each call asks */
};

/* Where ids go, and the memory of one call of tokenizer_encode. */
struct encoding {
    const struct tokenizer *t;
    int32_t *out; /* [max] */
    size_t max, n;
    struct stop stop;
    struct merge merge;
    uint32_t *cuts;     /* spm: [vocab.n] where an unused token is taken apart; owned, or NULL */
    struct buffer best; /* unigram */
    double total; /* unigram: score of what is before the word, if it is part of a longer one */
};

static inline bool encoding_put(struct encoding *c, int32_t id)
{
    if (c->n < c->max)
        c->out[c->n] = id;
    c->n++;
    return true;
}

#endif
