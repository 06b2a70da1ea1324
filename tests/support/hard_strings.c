/* See hard_strings.h. Memory that cannot be had ends the test. */
#include "hard_strings.h"

#include "text/unicode.h"

#include <assert.h>

static const uint32_t ranges[][2] = {
    {0x20, 0x7E},       {0xA0, 0x24F},      {0x300, 0x36F},       {0x370, 0x3FF},
    {0x400, 0x4FF},     {0x590, 0x6FF},     {0x900, 0xDFF},       {0xE00, 0xEFF},
    {0x1100, 0x11FF},   {0x1E00, 0x1FFF},   {0x2000, 0x206F},     {0x2070, 0x218F},
    {0x2190, 0x2BFF},   {0x3000, 0x30FF},   {0x4E00, 0x9FFF},     {0xAC00, 0xD7A3},
    {0xF900, 0xFFFD},   {0x10000, 0x103FF}, {0x1D000, 0x1D7FF},   {0x1F000, 0x1FAFF},
    {0x20000, 0x2FA1F}, {0xE0000, 0xE01EF}, {0x10FFFE, 0x10FFFF}, {0x00, 0x1F},
    {0x7F, 0x9F},
};

static uint64_t next(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((next(state) >> 32) * n >> 32);
}

static uint64_t begin(uint64_t seed, uint64_t index)
{
    return seed ^ index * 0xD1342543DE82EF95u;
}

static void add(struct buffer *out, const char *p, size_t n)
{
    bool ok = buffer_add(out, p, n);
    assert(ok);
    (void)ok;
}

static void add_byte(struct buffer *out, uint32_t byte)
{
    char c = (char)byte;
    add(out, &c, 1);
}

static void add_one(struct buffer *out, uint64_t *state, const struct strings *from, uint32_t times)
{
    if (!from->n)
        return;
    uint32_t i = below(state, from->n);
    if (!times)
        times = 1 + below(state, 20);
    while (times--)
        add(out, from->bytes + from->start[i], from->start[i + 1] - from->start[i]);
}

static void add_char(struct buffer *out, uint64_t *state)
{
    char p[4];
    const uint32_t *r = ranges[below(state, sizeof ranges / sizeof *ranges)];
    add(out, p, unicode_encode(r[0] + below(state, r[1] - r[0] + 1), p));
}

void hard_string(struct buffer *out, uint64_t seed, uint64_t index, const struct strings *fragments,
                 const struct strings *tokens, const struct strings *added)
{
    uint64_t state = begin(seed, index);
    out->n = 0;
    for (uint32_t parts = 1 + below(&state, 12); parts; parts--) {
        uint32_t kind = below(&state, 100), n = 0;
        if (kind < 40)
            add_one(out, &state, fragments, 1);
        else if (kind < 50)
            for (n = 1 + below(&state, 6); n; n--)
                add_byte(out, 32 + below(&state, 95));
        else if (kind < 65)
            add_char(out, &state);
        else if (kind < 80)
            add_one(out, &state, tokens, 1);
        else if (kind < 88)
            add_one(out, &state, added, 1);
        else if (kind < 94)
            add_one(out, &state, fragments, 0);
        else if (kind < 97)
            for (n = 1 + below(&state, 8); n; n--)
                add_byte(out, (unsigned char)" \n\t\r"[below(&state, 4)]);
        else
            for (n = 1 + below(&state, 4); n; n--)
                add_byte(out, below(&state, 256));
    }
}

size_t hard_ids(int32_t ids[20], uint64_t seed, uint64_t index, uint32_t n_tokens)
{
    uint64_t state = begin(seed, index);
    size_t n = 1 + below(&state, 20);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)below(&state, n_tokens);
    return n;
}
