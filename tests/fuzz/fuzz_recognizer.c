/* Fuzz target: steps of the recognizer of JSON. The first byte chooses a schema and how it is read; each
 * other byte comes next, or the next one that may; from 0xF0 on they go back, or compact the track. Asserted:
 * where the text may not end, some byte may come (no dead end); recognizer.first holds all that may;
 * going back to a place and taking the same bytes leads to an equal place. */
#include "sample/recognize/json_recognizer.h"
#include "sample/schema/schema.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const schemas[] = {
    "true",
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":3},\"kind\":{"
    "\"enum\":"
    "[\"a\",\"ab\",1,null]},\"next\":{\"$ref\":\"#\"}},\"required\":[\"kind\"]}",
    "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"x\"},\"v\":{\"type\":"
    "\"integer\"}},"
    "\"required\":[\"t\",\"v\"]},{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"xy\"},"
    "\"v\":"
    "{\"type\":\"array\"}},\"required\":[\"v\",\"t\"]}]}",
    "{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"items\":{\"enum\":[\"a\",\"ab\","
    "\"b\",1,10,"
    "true,null,[],{}]}}",
    "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"object\",\"properties\":{\"a\":"
    "{\"type\":"
    "\"boolean\"},\"b\":{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"uniqueItems\":true}},"
    "\"required\":[\"b\"],\"additionalProperties\":false}}",
    "{\"type\":\"array\",\"contains\":{\"type\":\"integer\"},\"minContains\":2,\"maxContains\":3,"
    "\"maxItems\":6}",
    "{\"type\":\"object\",\"patternProperties\":{\"^a[bc]?$\":{\"type\":\"boolean\"}},"
    "\"additionalProperties\":false,\"minProperties\":2}",
    "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":2,"
    "\"maxProperties\":3,"
    "\"dependentRequired\":{\"a\":[\"c\"]},\"propertyNames\":{\"maxLength\":2}}",
    "{\"type\":\"number\",\"minimum\":-3.5,\"exclusiveMaximum\":12,\"multipleOf\":0.25}",
    "{\"type\":\"string\",\"pattern\":\"^(\\\\p{L}{2,3}|\\\\ud83d\\\\ude00)+$\",\"maxLength\":5}",
    "{\"not\":{\"type\":[\"string\",\"object\"]},\"oneOf\":[{\"type\":\"array\",\"items\":{"
    "\"minimum\":3}},"
    "{\"type\":\"array\",\"maxItems\":2},{\"type\":\"integer\"}]}",
};
enum { SCHEMAS = sizeof schemas / sizeof *schemas, PLACES = 4096 };

/* Kept while their budgets last: their lazy automata are most of the work. */
static struct opened {
    struct recognizer r;
    struct budget budget;
} all[SCHEMAS][4];
static struct recognizer r;
static struct track track, other;
static struct place at[PLACES + 1];
static unsigned char text[PLACES];

/* The first byte from `choice` on, and round again, that may come; -1: there is none. */
static int choose(const struct place *p, unsigned choice)
{
    uint64_t first[4];
    r.first(r.self, &track, p, first);
    for (unsigned i = 0; i < 256; i++) {
        const unsigned c = (choice + i) % 256;
        const bool may = first[c / 64] >> c % 64 & 1;
        struct place q = *p;
        if (!may && i > 4) /* a few are tried, too */
            continue;
        enum step s = r.step(r.self, &track, &q, (unsigned char)c);
        assert(s != STEP_NO_ROOM);
        assert(s == STEP_DEAD || may);
        if (s == STEP_ALIVE)
            return (int)c;
    }
    return -1;
}

/* Goes back to the place of `from` and takes the bytes from there again. */
static void replay(size_t from, size_t n)
{
    const uint64_t signature = r.signature(r.self, &track, &at[n]);
    for (size_t i = from; i < n; i++) {
        at[i + 1] = at[i];
        enum step s = r.step(r.self, &track, &at[i + 1], text[i]);
        assert(s == STEP_ALIVE);
    }
    assert(r.signature(r.self, &track, &at[n]) == signature);
}

/* Only the places from `from` to n stay good. */
static void compact(size_t from, size_t n)
{
    struct track old = track;
    enum step s = r.compact(r.self, &track, &other, at + from, n - from + 1);
    assert(s == STEP_ALIVE);
    track = other;
    other = old;
}

static void walk(const uint8_t *data, size_t size)
{
    size_t oldest = 0, n = 0;
    enum step s = r.begin(r.self, &track, &at[0]);
    assert(s == STEP_ALIVE);
    for (size_t i = 0; i < size && n < PLACES; i++) {
        const size_t back = n - oldest < data[i] % 16u ? n - oldest : data[i] % 16u;
        if (data[i] == 0xff) {
            compact(oldest = n - back, n);
        } else if (data[i] >= 0xf0) {
            replay(n - back, n);
        } else {
            int c = choose(&at[n], data[i]);
            assert(c >= 0 || r.accepts(r.self, &track, &at[n]));
            if (c < 0)
                return;
            struct place p = at[n];
            s = r.step(r.self, &track, &p, (unsigned char)c);
            assert(s == STEP_ALIVE);
            text[n++] = (unsigned char)c;
            at[n] = p;
        }
    }
}

static void open_schema(struct opened *o, const char *schema, unsigned flags)
{
    struct shapes shapes;
    if (o->r.self && o->budget.bytes > 8 << 20)
        return;
    if (o->r.self) {
        o->r.close(o->r.self);
        assert(o->budget.bytes == 16 << 20);
    }
    o->budget = (struct budget){.bytes = 16 << 20, .steps = UINT64_MAX};
    enum tern_status status =
        schema_compile(&shapes, schema, strlen(schema), 0, NULL, &o->budget, NULL, NULL);
    assert(!status);
    status = json_recognizer_open(&o->r, &shapes, NULL, flags, &o->budget, NULL);
    assert(!status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const unsigned schema = data[0] % SCHEMAS, flags = data[0] / SCHEMAS % 4;
    open_schema(&all[schema][flags], schemas[schema], flags);
    r = all[schema][flags].r;
    track.limit = other.limit = 1 << 20;
    walk(data + 1, size - 1);
    free(track.bytes); /* exact, so that a read beyond is seen */
    free(other.bytes);
    track = other = (struct track){0};
    return 0;
}
