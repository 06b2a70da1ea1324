/* A test vocabulary of tests/golden/tokenizers: opened, with the strings and answers that came with
 * it (tools/make_test_vocabs.py says what the file holds). */
#ifndef TESTS_VOCABULARY_H
#define TESTS_VOCABULARY_H

#include "hard_strings.h"
#include "text/decoder.h"

struct vocabulary {
    char *file, *other; /* other: whose fragments it uses */
    bool lean;          /* without whole examples */
    size_t file_bytes;
    struct keys keys, section_keys;
    const char *section;
    uint64_t section_bytes;
    struct tokenizer *t;
    struct strings fragments, tokens, added;
    uint64_t seed;
};

/* Opens tests/golden/tokenizers/NAME.bin; a failure ends the test with its reason. */
void vocabulary_open(struct vocabulary *v, const char *name);
void vocabulary_close(struct vocabulary *v);

/* Ids of text[0..n) into *ids (the caller frees) and their number. */
size_t vocabulary_encode(const struct vocabulary *v, const char *text, size_t n, unsigned flags,
                         int32_t **ids);

/* Appends what the ids decode to. */
void vocabulary_decode(const struct vocabulary *v, const int32_t *ids, size_t n, bool show_special,
                       struct buffer *out);

#endif
