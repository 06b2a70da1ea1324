/* Nodes of JSON values made by hand, and texts given to a recognizer byte by byte. */
#ifndef SUPPORT_MADE_H
#define SUPPORT_MADE_H

#include "sample/recognize/json_recognizer.h"

/* The functions below append to the arrays of `s` and assert that there is memory. */
struct shapes made_open(struct budget *b); /* NODE_NONE and NODE_ANY; the root is NODE_ANY */
uint32_t made_add(struct shapes *s, struct node n); /* returns its number */
uint32_t made_string(struct shapes *s, lang string);
uint32_t made_number(struct shapes *s, lang number);
/* Adds a shape to the node `of`, or to a new one if that is NODE_NONE; returns the node. */
uint32_t made_array(struct shapes *s, uint32_t of, struct array_shape a, const uint32_t *items,
                    uint32_t n_items);
struct by_name {
    const char *key;
    uint32_t node;
    bool required;
};
uint32_t made_object(struct shapes *s, uint32_t of, uint32_t min, uint32_t max,
                     const struct by_name *members, uint32_t n_members,
                     const struct member_class *classes, uint32_t n_classes);

lang made_text(struct shapes *s, const char *text);
lang made_texts(struct shapes *s, const char *texts);  /* "red|green" */
lang made_integers(struct shapes *s, uint32_t digits); /* at most so many digits */

struct reader {
    struct recognizer r;
    struct track t;
    struct place p;
};
void reader_open(struct reader *k, struct recognizer r);
void reader_close(struct reader *k); /* and its recognizer */

/* Reads from the start; returns how many bytes are taken, n + 1 where the text may end there. */
size_t reader_read(struct reader *k, const char *text, size_t n);

/* A text of bytes chosen at random among those that may come, ended as soon as it may after
 * about `wish` bytes; at most `max`. Every byte that may come is in recognizer.first. Returns its length;
 * SIZE_MAX: a dead end, or what `first` misses, and the text so far is in `out`. */
size_t reader_walk(struct reader *k, uint64_t seed, size_t wish, char *out, size_t max);

#endif
