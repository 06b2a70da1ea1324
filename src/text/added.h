/* Added tokens: texts that become one id whatever stands around them, found before (raw) or after
 * (normalized) the normalizer: leftmost, and of those the longest. */
#ifndef TEXT_ADDED_H
#define TEXT_ADDED_H

#include "weights/keys.h"

enum { /* flags of an added token, as stored */
       ADDED_SPECIAL = 1,
       ADDED_LSTRIP = 2,      /* swallows the whitespace before */
       ADDED_RSTRIP = 4,      /* swallows the whitespace behind */
       ADDED_SINGLE_WORD = 8, /* not beside a word character */
       ADDED_NORMALIZED = 16, /* looked for in the normalized text, in its normalized form */
       ADDED_FLAGS = 31,
};
enum { ADDED_MAX = 1024 }; /* bytes of an added token */

struct added_token {
    const char *p;            /* [n], borrowed */
    uint32_t n, flags, order; /* order: of two with the same text the lower is taken */
    int32_t id;
};

struct added_set {
    struct added_token *list; /* [n], sorted by text; owned by whoever made it */
    uint32_t n;
    uint32_t first[257]; /* tokens that begin with byte b: list[first[b] .. first[b + 1]) */
};

/* Sorts the list and fills `first`. No token is empty. */
void added_sort(struct added_set *set);

/* The longest token that p[0..n) begins with, or NULL. */
const struct added_token *added_match(const struct added_set *set, const char *p, size_t n);

/* Where the pieces of a text go; false stops. */
struct added_sink {
    bool (*text)(void *arg, const char *p, size_t n, bool first); /* first: begins the whole text */
    bool (*token)(void *arg, int32_t id);
    void *arg;
};

/* Cuts p[0..n) into tokens and the text between them. `plain`: special tokens stay text. */
bool added_split(const struct added_set *set, const char *p, size_t n, bool plain, bool first,
                 struct added_sink sink);

#endif
