/* The properties of code points, unpacked from unicode_tables.c when the first is asked for
 * (classes take 0.3 ms, what normalization asks for 0.4): as tables they are three times as large.
 *
 * Every bit was packed by an adaptive binary range coder (Martin, 1979; the variant of LZMA), with
 * a model of how probable it is for each place that a bit can have. tools/unicode_tables.py packs.
 */
#include "text/unicode.h"

#include "text/unicode_tables.h"

#include <stdatomic.h>

static unsigned char kinds[UNICODE_FOLDED]; /* rows of UNICODE_KINDS */

/* A hash table with open addressing, at most half full, from what unicode_form is asked for. */
enum { SLOT_BITS = 13, SLOTS = 1 << SLOT_BITS };
static struct {
    uint64_t key, value; /* key 0: free */
} forms[SLOTS];

static size_t slot_of(uint64_t key)
{
    size_t i = key * 0x9E3779B97F4A7C15u >> (64 - SLOT_BITS);
    while (forms[i].key && forms[i].key != key)
        i = (i + 1) % SLOTS;
    return i;
}

static void add_form(uint64_t key, uint64_t value)
{
    size_t i = slot_of(key);
    forms[i].key = key;
    forms[i].value = value;
}

struct number_model {
    int16_t more[24], bits[24][16];
};

/* Probabilities of a 0 less 1/2, in 1/4096. */
struct unpacker {
    const unsigned char *p;
    uint32_t range, code;
    int16_t kind[32][32], rank[2][64], pair, composed;
    struct number_model run[32], ranked[2], step, to[2], second;
};

static unsigned take_bit(struct unpacker *u, int16_t *model)
{
    uint32_t zero = (uint32_t)(2048 + *model), bound = (u->range >> 12) * zero;
    unsigned bit = u->code >= bound;
    u->code -= bit ? bound : 0;
    u->range = bit ? u->range - bound : bound;
    *model = (int16_t)(*model + (bit ? -(int)(zero >> 4) : (int)((4096 - zero) >> 4)));
    for (; u->range < 1u << 24; u->range <<= 8)
        u->code = u->code << 8 | *u->p++;
    return bit;
}

static unsigned take_tree(struct unpacker *u, int16_t *models, unsigned bits)
{
    unsigned v = 1;
    while (v >> bits == 0)
        v = v << 1 | take_bit(u, &models[v]);
    return v - (1u << bits);
}

static uint32_t take_number(struct unpacker *u, struct number_model *m)
{
    uint32_t v = 1;
    unsigned more = 0;
    while (take_bit(u, &m->more[more]))
        more++;
    for (unsigned i = 0; i < more; i++)
        v = v << 1 | take_bit(u, &m->bits[more][v < 16 ? v : 0]);
    return v - 1;
}

static uint32_t take_difference(struct unpacker *u, struct number_model *m)
{
    uint32_t v = take_number(u, m);
    return v & 1 ? -(v / 2) - 1 : v / 2;
}

static void unpack_kinds(struct unpacker *u)
{
    unsigned kind = 0;
    for (uint32_t c = 0, n; c < UNICODE_FOLDED; c += n) {
        kind = take_tree(u, u->kind[kind], 5);
        n = take_number(u, &u->run[kind]) + 1;
        memset(kinds + c, (int)kind, n);
    }
}

static void unpack_ranks(struct unpacker *u)
{
    unsigned rank = 0;
    uint32_t c = 0;
    while ((rank = take_tree(u, u->rank[rank > 0], 6)) < 63)
        for (uint32_t end = c + take_number(u, &u->ranked[rank > 0]) + 1; c < end; c++)
            if (rank)
                add_form(UNICODE_RANK | c, rank);
}

static void unpack_forms(struct unpacker *u)
{
    unpack_ranks(u);
    uint32_t c = 0, first = 0, second = 0, step;
    while ((step = take_number(u, &u->step))) {
        c += step;
        bool pair = take_bit(u, &u->pair);
        first += take_difference(u, &u->to[pair]);
        if (pair)
            second += take_difference(u, &u->second);
        uint64_t form = (uint64_t)first << 32 | (pair ? second : 0);
        add_form(c, form);
        if (pair && take_bit(u, &u->composed))
            add_form(form, c);
    }
}

enum { READY = 2 };

/* Unpacks, once, whichever thread comes first; the others wait for it. u: zeroed, and no thread's
 * stack need hold it. */
static void need(atomic_int *state, struct unpacker *u, const unsigned char *packed,
                 void (*unpack)(struct unpacker *))
{
    int none = 0;
    if (atomic_compare_exchange_strong(state, &none, 1)) {
        u->p = packed, u->range = UINT32_MAX;
        for (int i = 0; i < 4; i++)
            u->code = u->code << 8 | *u->p++;
        unpack(u);
        atomic_store(state, READY);
    }
    while (atomic_load(state) != READY)
        ;
}

unsigned unicode_class(uint32_t c)
{
    static atomic_int state;
    static struct unpacker u;
    if (atomic_load_explicit(&state, memory_order_acquire) != READY)
        need(&state, &u, UNICODE_PACKED_CLASSES, unpack_kinds);
    if (c >= 0xE0000)
        c -= 0xE0000 - UNICODE_FOLD;
    else if (c >= UNICODE_FOLD)
        return 0;
    return c < UNICODE_FOLDED ? UNICODE_KINDS[kinds[c]] : 0;
}

uint64_t unicode_form(uint64_t key)
{
    static atomic_int state;
    static struct unpacker u;
    if (atomic_load_explicit(&state, memory_order_acquire) != READY)
        need(&state, &u, UNICODE_PACKED_FORMS, unpack_forms);
    return forms[slot_of(key)].value;
}
