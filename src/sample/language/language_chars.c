/* Classes of characters as languages of UTF-8, and the set of languages itself, whose first members
 * they are. */
#include "sample/language/language_parts.h"

#include <string.h>

struct ranges {
    const uint32_t (*p)[2];
    size_t n;
};

/* Does [low, high] hold code points of the ranges? *whole: all of them. */
static bool meets(const struct ranges *r, uint32_t low, uint32_t high, bool *whole)
{
    size_t from = 0, to = r->n;
    while (from < to) { /* the first range that ends at low or behind it */
        size_t mid = (from + to) / 2;
        if (r->p[mid][1] < low)
            from = mid + 1;
        else
            to = mid;
    }
    if (from == r->n || r->p[from][0] > high)
        return false;
    *whole = r->p[from][0] <= low && r->p[from][1] >= high;
    return true;
}

static const uint32_t LEAST[] = {0, 0x80, 0x800, 0x10000}; /* of so many bytes behind the first */

/* Can all code points from low to high be written with `more` bytes behind the first? */
static bool are_scalars(uint32_t low, uint32_t high, unsigned more)
{
    return low >= LEAST[more] && high < 0x110000 && (high < 0xD800 || low >= 0xE000);
}

/* Can none of them? */
static bool are_no_scalars(uint32_t low, uint32_t high, unsigned more)
{
    return high < LEAST[more] || low >= 0x110000 || (low >= 0xD800 && high < 0xE000);
}

/* Byte first + i, then then[i], for all i below n; bytes with the same rest become one set. */
static lang switch_of(struct languages *ls, unsigned first, const lang *then, unsigned n)
{
    uint32_t from = ls->work.n, done[8] = {0};
    for (unsigned i = 0; i < n; i++) {
        uint32_t bits[8] = {0};
        struct lang_node key = {.kind = KIND_SET, .b = 8};
        if (then[i] == LANG_NONE || set_has(done, i))
            continue;
        for (unsigned j = i; j < n; j++)
            if (then[j] == then[i]) {
                set_add(bits, first + j);
                set_add(done, j);
            }
        lang set = lang_intern(ls, &key, bits);
        set = lang_concat(ls, set, then[i]);
        if (set == LANG_FAIL || !list_push(ls, &ls->work, set))
            return ls->work.n = from, LANG_FAIL;
    }
    return lang_or_work(ls, from, 0);
}

/* The last byte, for 64 code points from `low` on. */
static lang last_byte(struct languages *ls, const struct ranges *r, uint32_t low, unsigned more)
{
    uint32_t bits[8] = {0};
    struct lang_node key = {.kind = KIND_SET, .b = 8};
    bool whole, any = false;
    for (uint32_t i = 0; i < 64; i++)
        if (are_scalars(low + i, low + i, more) && meets(r, low + i, low + i, &whole)) {
            set_add(bits, 0x80 + i);
            any = true;
        }
    return any ? lang_intern(ls, &key, bits) : LANG_NONE;
}

/* The last `left` of `more` bytes behind the first, for code points from `low` on. */
static lang rest_of_chars(struct languages *ls, const struct ranges *r, uint32_t low, unsigned left,
                          unsigned more)
{
    bool whole = false;
    lang then[64];
    uint32_t high = low + ((uint32_t)1 << 6 * left) - 1;
    if (are_no_scalars(low, high, more) || !meets(r, low, high, &whole))
        return LANG_NONE;
    if (whole && are_scalars(low, high, more))
        return ls->tail[left];
    if (left == 1)
        return last_byte(ls, r, low, more);
    for (uint32_t i = 0; i < 64; i++)
        then[i] = rest_of_chars(ls, r, low + (i << 6 * (left - 1)), left - 1, more);
    return switch_of(ls, 0x80, then, 64);
}

lang lang_chars(struct languages *ls, const uint32_t (*ranges)[2], size_t n)
{
    enum { STEPS = 32 }; /* what it takes, about */
    struct ranges r = {ranges, n};
    lang then[0xF5] = {LANG_NONE};
    bool whole;
    if (!n || !budget_step(ls->budget, STEPS))
        return n ? LANG_FAIL : LANG_NONE;
    for (uint32_t byte = 0; byte < 0x80; byte++)
        then[byte] = meets(&r, byte, byte, &whole) ? LANG_BLANK : LANG_NONE;
    for (uint32_t byte = 0xC2; byte < 0xF5 && ranges[n - 1][1] >= 0x80; byte++)
        then[byte] = byte < 0xE0   ? rest_of_chars(ls, &r, (byte & 0x1F) << 6, 1, 1)
                     : byte < 0xF0 ? rest_of_chars(ls, &r, (byte & 0xF) << 12, 2, 2)
                                   : rest_of_chars(ls, &r, (byte & 7) << 18, 3, 3);
    for (uint32_t byte = 0xC2; byte < 0xF5; byte++)
        if (then[byte] == LANG_FAIL)
            return LANG_FAIL;
    return switch_of(ls, 0, then, 0xF5);
}

lang lang_char_range(struct languages *ls, uint32_t from, uint32_t to)
{
    const uint32_t range[1][2] = {{from, to}};
    return from <= to ? lang_chars(ls, range, 1) : LANG_NONE;
}

/* ---- the set ---- */

/* The numbers that language.h names, and the rests of a character. */
static bool begin(struct languages *ls)
{
    static const struct lang_node blank = {.kind = KIND_BLANK}, all = {.kind = KIND_NOT};
    static const uint8_t behind[UTF8_STATES][2] = {{0},          {0x80, 0xBF}, {0x80, 0xBF},
                                                   {0x80, 0xBF}, {0xA0, 0xBF}, {0x80, 0x9F},
                                                   {0x90, 0xBF}, {0x80, 0x8F}};
    struct lang_node none = {.kind = KIND_NONE};
    lang_set_facts(ls, &none, NULL);
    ls->nodes[LANG_NONE] = ls->nodes[LANG_CHARS] = none;
    ls->nodes[LANG_BLANK] = blank;
    lang_set_facts(ls, &ls->nodes[LANG_BLANK], NULL);
    ls->nodes[LANG_ALL] = all;
    lang_set_facts(ls, &ls->nodes[LANG_ALL], NULL);
    ls->n_nodes = 4;
    for (unsigned i = 1; i < UTF8_STATES; i++) {
        uint32_t bits[8] = {0};
        struct lang_node key = {.kind = KIND_SET, .b = 8};
        for (unsigned byte = behind[i][0]; byte <= behind[i][1]; byte++)
            set_add(bits, byte);
        ls->byte[i] = lang_intern(ls, &key, bits);
        ls->tail[i] = lang_concat(ls, ls->byte[i],
                                  ls->tail[i == 1            ? 0
                                           : i == 3          ? 2
                                           : i == 2 || i < 6 ? 1
                                                             : 2]);
        if (ls->tail[i] == LANG_FAIL)
            return false;
    }
    ls->character = lang_char_range(ls, 0, 0x10FFFF);
    if (ls->character == LANG_FAIL)
        return false;
    struct lang_node chars = {.kind = KIND_REPEAT, .a = ls->character, .max = LANG_MANY};
    lang_set_facts(ls, &chars, NULL);
    ls->nodes[LANG_CHARS] = chars;
    return true;
}

struct languages *languages_open(struct budget *budget)
{
    enum { NODES = 64, HASHES = 256 };
    struct languages *ls = budget_resize(budget, NULL, 0, sizeof *ls);
    if (!ls)
        return NULL;
    *ls = (struct languages){.budget = budget, .tail = {LANG_BLANK}, .table_size = HASHES};
    ls->table = budget_resize(budget, NULL, 0, HASHES * sizeof *ls->table);
    if (ls->table)
        memset(ls->table, 0, HASHES * sizeof *ls->table);
    if (!ls->table)
        ls->table_size = 0;
    if (ls->table &&
        budget_grow(budget, &ls->nodes, &ls->node_capacity, NODES, sizeof *ls->nodes) && begin(ls))
        return ls;
    languages_close(ls);
    return NULL;
}

static void close_list(struct languages *ls, struct lang_list *l)
{
    budget_free(ls->budget, l->p, l->capacity * sizeof *l->p);
}

void languages_close(struct languages *ls)
{
    if (!ls)
        return;
    if (ls->leaves)
        ls->leaves->close(ls->leaf_owner);
    budget_free(ls->budget, ls->nodes, ls->node_capacity * sizeof *ls->nodes);
    budget_free(ls->budget, ls->table, ls->table_size * sizeof *ls->table);
    budget_free(ls->budget, ls->maps, ls->map_capacity * sizeof *ls->maps);
    close_list(ls, &ls->parts);
    close_list(ls, &ls->targets);
    close_list(ls, &ls->work);
    close_list(ls, &ls->stack);
    budget_free(ls->budget, ls, sizeof *ls);
}

struct budget *languages_budget(const struct languages *ls)
{
    return ls->budget;
}

void *lang_leaf_owner(const struct languages *ls)
{
    return ls->leaf_owner;
}

void lang_set_leaf_owner(struct languages *ls, const struct leaf_calls *calls, void *owner)
{
    ls->leaves = calls;
    ls->leaf_owner = owner;
}
