/* Toy models: tiny, valid weights files of any shape, with weights from a seeded generator that
 * tools/tern/testing/toy.py reproduces bit for bit. In: a shape. Out: a file made by
 * weights/writer.c.
 *
 * Value i (row-major) of the tensor NAME, in f32:
 *
 *   mix(x)  = splitmix64's output for state x: x += 0x9E3779B97F4A7C15 (all modulo 2^64), then
 *             x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9, x = (x ^ x >> 27) * 0x94D049BB133111EB,
 *             x ^ x >> 31
 *   key     = seed ^ fnv1a64(NAME)
 *   u(i)    = ((int64)(mix(key + i * 0x9E3779B97F4A7C15) >> 40) - 2^23) * 2^-23     exact, [-1, 1)
 *   norm weights ("..._norm"), scales ("..._scale")    1 + u * 0.25
 *   decays ("...mix_a")          1 + u * 0.75
 *   biases ("..._bias")          u * 0.5
 *   embed                        u
 *   head                         u * (float)(4 * sqrt(3 / k))     sqrt and / in binary64
 *   other tensors [rows, k]      u * (float)sqrt(3 / k)
 *
 * then encoded to the toy's type. RoPE: inv_freq[i] = (float)(1 / pow(theta, 2 i / head_dim)) in
 * binary64, where inv_freq is not given; attn_scale = (float)(1 / sqrt(head_dim)). */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

#include "base/error.h"

#include <stddef.h>

enum { TOY_MAX_LAYERS = 16 };

struct toy {
    uint64_t seed;
    uint64_t n_layers, dim, n_heads, n_kv_heads, head_dim, hidden, vocab, max_seq;
    uint64_t window[TOY_MAX_LAYERS]; /* per layer; 0: none */
    double rope_theta;               /* 0: no RoPE */
    const float *inv_freq;           /* [head_dim / 2] in the place of rope_theta's, or NULL */
    uint64_t rope_limit;             /* 0: none; beyond it the frequencies are a third */
    float norm_eps;
    int untied;                   /* a head of its own */
    uint64_t attn_bias, ffn_bias; /* bits as in FORMAT.md */
    enum tern_type type;          /* of the matrices */
    const void *tokenizer;        /* body of the section, or NULL: none */
    size_t tokenizer_bytes;
};

/* 2 layers, dim 64, 4 heads over 2 of 16, hidden 160, vocab 259, 64 positions, tied, f32. */
struct toy toy_default(void);

enum tern_status toy_write(const char *path, const struct toy *toy, struct tern_error *e);

/* values [n] of the tensor, before encoding; k as in the formula. */
void toy_values(float *values, size_t n, uint64_t seed, const char *name, uint64_t k);

/* The values of `matrices` matrices [rows, k], encoded, as the writer's next tensor. */
struct writer;
enum tern_status toy_data(struct writer *w, const char *name, enum tern_type type, uint64_t rows,
                          uint64_t k, uint64_t matrices, uint64_t seed, struct tern_error *e);

/* Ends the sections of a toy: provenance, and an empty seal. */
enum tern_status toy_last_sections(struct writer *w, struct tern_error *e);

/* A fresh path for a file of this process, in TMPDIR or /tmp; `size` bytes of room. */
void toy_path(char *path, size_t size, const char *name);

#endif
