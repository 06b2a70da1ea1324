/* Memory, tables and errors of the schema compiler. */
#include "sample/schema/schema_memory.h"

#include "base/xxh64.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 16 << 10 };

bool schema_no_budget(struct schema *s)
{
    if (!s->status)
        s->status = budget_refuse(s->budget, s->error, "schema");
    return false;
}

bool schema_step(struct schema *s, uint64_t steps)
{
    return !s->status && (budget_step(s->budget, steps) || schema_no_budget(s));
}

bool schema_room(struct schema *s, void *array, uint32_t *capacity, size_t need, size_t size)
{
    return !s->status &&
           (budget_grow(s->budget, array, capacity, need, size) || schema_no_budget(s));
}

void *schema_take(struct schema *s, size_t size)
{
    size = (size + 7) & ~(size_t)7;
    struct chunk *c = s->chunks;
    if (!c || c->size - c->used < size) {
        size_t whole = size > CHUNK - sizeof *c ? size + sizeof *c : CHUNK;
        c = budget_resize(s->budget, NULL, 0, whole);
        if (!c)
            return schema_no_budget(s), NULL;
        *c = (struct chunk){s->chunks, whole, sizeof *c};
        s->chunks = c;
    }
    void *p = (char *)c + c->used;
    c->used += size;
    return memset(p, 0, size);
}

struct chunk_mark schema_mark(const struct schema *s)
{
    return (struct chunk_mark){s->chunks, s->chunks ? s->chunks->used : 0};
}

void schema_release(struct schema *s, struct chunk_mark mark)
{
    while (s->chunks != mark.chunk) {
        struct chunk *c = s->chunks;
        s->chunks = c->older;
        budget_free(s->budget, c, c->size);
    }
    if (mark.chunk)
        mark.chunk->used = mark.used;
}

/* "schema: KEYWORD at #/place: reason" */
static void sentence(const struct schema *s, uint32_t value, const char *keyword,
                     const char *reason, char *out, size_t room)
{
    char place[160];
    json_place(&s->json, value, place, sizeof place);
    snprintf(out, room, "schema: %s at %s: %s", keyword, place, reason);
}

bool schema_refuse(struct schema *s, uint32_t value, const char *keyword, const char *reason)
{
    char text[256];
    if (s->status)
        return false;
    sentence(s, value, keyword, reason, text, sizeof text);
    s->status = error_set(s->error, TERN_USAGE, "%s", text);
    return false;
}

bool schema_leave_out(struct schema *s, uint32_t value, const char *keyword, const char *reason)
{
    char text[256];
    struct schema_notes *notes = s->notes;
    if (s->status || !(s->flags & SCHEMA_LAX))
        return schema_refuse(s, value, keyword, reason);
    sentence(s, value, keyword, reason, text, sizeof text);
    size_t n = strlen(text) + 1;
    if (!notes)
        return true;
    for (size_t at = 0; at < notes->n; at += strlen(notes->text + at) + 1)
        if (!strcmp(notes->text + at, text))
            return true;
    if (notes->n + n > notes->capacity) {
        size_t to = 2 * notes->capacity + n;
        char *p = realloc(notes->text, to);
        if (!p)
            return s->budget->no_memory = true, schema_no_budget(s);
        notes->text = p, notes->capacity = to;
    }
    memcpy(notes->text + notes->n, text, n);
    notes->n += n;
    return true;
}

static bool table_widen(struct schema *s, struct table *t)
{
    uint32_t size = t->size ? 2 * t->size : 64;
    struct table_slot *slots = budget_resize(s->budget, NULL, 0, size * sizeof *slots);
    if (!slots)
        return schema_no_budget(s);
    memset(slots, 0, size * sizeof *slots);
    for (uint32_t i = 0; i < t->size; i++)
        if (t->slots[i].number) {
            uint32_t h = t->slots[i].hash;
            while (slots[h & (size - 1)].number)
                h++;
            slots[h & (size - 1)] = t->slots[i];
        }
    budget_free(s->budget, t->slots, t->size * sizeof *slots);
    t->slots = slots, t->size = size;
    return true;
}

struct table_slot *table_find(struct schema *s, struct table *t, const void *key, size_t n,
                              bool (*same)(const struct schema *s, uint32_t number, const void *key,
                                           size_t n),
                              uint32_t new)
{
    uint32_t h = (uint32_t)xxh64(key, n);
    if (s->status || (2 * (t->n + 1) > t->size && !table_widen(s, t)))
        return NULL;
    for (uint32_t i = h;; i++) {
        struct table_slot *slot = &t->slots[i & (t->size - 1)];
        if (!slot->number) {
            *slot = (struct table_slot){h, new + 1};
            t->n++;
            return slot;
        }
        if (slot->hash == h && same(s, slot->number - 1, key, n))
            return slot;
    }
}

void table_free(struct schema *s, struct table *t)
{
    budget_free(s->budget, t->slots, t->size * sizeof *t->slots);
}
