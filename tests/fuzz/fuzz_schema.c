/* ldflags: -Wl,@tests/support/allocs.ld */
/* Fuzz target: JSON schemas. The first byte has the flags of schema_compile; up to a NUL goes the
 * schema, behind it an instance. Asserted: the budget is kept and given back; every index of the shapes
 * is in range; every shape can be finished; names come once; and the instance is judged without harm. */
#include "allocs.h"
#include "sample/schema/schema.h"
#include "shape_check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_array(const struct shapes *s, const struct array_shape *a)
{
    static const uint32_t none[SHAPE_CONTAINS];
    assert(a->n_contains <= SHAPE_CONTAINS && a->items.n);
    assert(a->items.n % (1u << a->n_contains) == 0);
    assert(a->items.first + a->items.n <= s->n_items);
    for (uint32_t i = 0; i < a->items.n; i++)
        assert(s->items[a->items.first + i] < s->n_nodes);
    assert(shape_array_open(s, a, 0, none, NULL, NULL));
}

static void check_object(const struct shapes *s, const struct object_shape *o)
{
    uint32_t *count = calloc(o->classes.n + 1, sizeof *count);
    char *named = calloc(s->n_keys + 1, 1);
    assert(o->members.first + o->members.n <= s->n_members);
    assert(o->classes.first + o->classes.n <= s->n_classes);
    for (uint32_t i = 0; i < o->members.n; i++) {
        const struct member *m = &s->members[o->members.first + i];
        assert(m->key < s->n_keys && m->node < s->n_nodes && !(named ? named[m->key]++ : 0));
        assert(m->node != NODE_NONE || (!m->required && o->classes.n));
    }
    for (uint32_t i = 0; i < o->classes.n; i++) {
        const struct member_class *c = &s->classes[o->classes.first + i];
        assert(c->node != NODE_NONE && c->node < s->n_nodes && c->keys != LANG_NONE);
        assert(c->min <= c->most && c->most);
    }
    if (count)
        assert(shape_object_open(s, o, 0, NULL, 0, count, NULL, NULL));
    free(count);
    free(named);
}

static void check(const struct shapes *s)
{
    assert(s->root != NODE_NONE && s->root < s->n_nodes && s->n_nodes > NODE_ANY);
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        const struct node *x = &s->nodes[i];
        assert(x->literals || x->string != LANG_NONE || x->number != LANG_NONE || x->arrays.n ||
               x->objects.n);
        assert(x->arrays.first + x->arrays.n <= s->n_arrays);
        assert(x->objects.first + x->objects.n <= s->n_objects);
    }
    for (uint32_t i = 0; i < s->n_arrays; i++)
        check_array(s, &s->arrays[i]);
    for (uint32_t i = 0; i < s->n_objects; i++)
        check_object(s, &s->objects[i]);
    for (uint32_t i = 0; i < s->n_keys; i++)
        assert(s->keys[i].at + s->keys[i].n <= s->n_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { BYTES = 1 << 20 };
    struct budget b = {.bytes = BYTES, .steps = 30000}, jb = {.bytes = 1 << 20, .steps = 100000};
    struct schema_notes notes = {0};
    struct shapes s;
    struct json j;
    if (!size)
        return 0;
    const char *text = (const char *)data + 1;
    const char *end = memchr(text, 0, size - 1);
    size_t n = end ? (size_t)(end - text) : size - 1;
    size_t left = end ? size - 2 - n : 0;
    allocs_start(0, 0);
    enum tern_status status = schema_compile(&s, text, n, data[0] & 3, NULL, &b, &notes, NULL);
    assert(allocs_peak() <= BYTES + notes.capacity + (64 << 10));
    allocs_stop();
    free(notes.text);
    if (status) {
        assert(b.bytes == BYTES);
        return 0;
    }
    check(&s);
    if (left && left < 200 && !json_read(&j, end + 1, left, "instance", &jb, NULL)) {
        b.steps += 1 << 24, b.bytes += 1 << 28;
        shape_check(&s, s.root, &j, 0, true);
        b.bytes -= 1 << 28;
        json_close(&j);
    }
    shapes_free(&s);
    assert(b.bytes == BYTES);
    return 0;
}
