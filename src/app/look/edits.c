/* Edits: see edits.h. */
#include "app/look/edits.h"

#include "app/look/ablation.h"
#include "app/look/patch.h"
#include "app/look/steering.h"

#include <stdlib.h>
#include <string.h>

bool edits_are_wanted(const struct look_options *o)
{
    const struct option_value *v = o->value;
    return v[LOOK_ABLATE].given || v[LOOK_PATCH].given || v[LOOK_STEER].given ||
           v[LOOK_STEER_TO].given;
}

enum tern_status edits_open(struct edits *x, struct subject *s, struct tern_error *e)
{
    *x = (struct edits){0};
    enum tern_status status = ablation_take(x, s, e);
    if (!status)
        status = patch_take(x, s, e);
    return status ? status : steering_take(x, s, e);
}

void edits_close(struct edits *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->list[i].values);
    free(x->list);
    control_vector_close(&x->direction);
}

struct edit *edits_add(struct edits *x, uint64_t layer, const char *operation, size_t from,
                       size_t n)
{
    if (x->n == x->room) {
        struct edit *more = realloc(x->list, (2 * x->room + 8) * sizeof *more);
        if (!more)
            return NULL;
        x->list = more, x->room = 2 * x->room + 8;
    }
    float *values = calloc(n, sizeof *values);
    if (!values)
        return NULL;
    x->list[x->n] = (struct edit){.layer = layer,
                                  .operation = operation,
                                  .last = UINT32_MAX,
                                  .from = from,
                                  .n = n,
                                  .values = values};
    return &x->list[x->n++];
}

/* FNV-1a */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ b[i]) * 0x100000001b3u;
    return hash;
}

uint64_t edits_hash(const struct edits *x, uint64_t hash)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct edit *t = &x->list[i];
        const uint64_t what[] = {t->layer, t->first, t->last,     t->expert,
                                 t->from,  t->n,     t->is_added, t->has_rows};
        size_t rows = t->has_rows ? t->last - t->first + 1 : 1;
        hash = hash_bytes(hash, t->operation, strlen(t->operation) + 1);
        hash = hash_bytes(hash, what, sizeof what);
        hash = hash_bytes(hash, t->values, rows * t->n * sizeof *t->values);
    }
    return hash;
}

bool edits_is_about(const struct edit *x, const struct tern_observation *o)
{
    return x->layer == o->layer && !strcmp(x->operation, o->operation) && x->expert == o->expert;
}

static bool apply_to_row(const struct edit *x, uint32_t position, float *row)
{
    const float *values = x->values + (x->has_rows ? (position - x->first) * x->n : 0);
    if (position < x->first || position > x->last)
        return false;
    for (size_t i = 0; i < x->n; i++)
        row[x->from + i] = x->is_added ? row[x->from + i] + values[i] : values[i];
    return true;
}

int edits_apply(void *edits, const struct tern_observation *o, float *values)
{
    const struct edits *x = edits;
    bool any = false;
    for (size_t k = 0; k < x->n; k++)
        if (edits_is_about(&x->list[k], o))
            for (size_t i = 0; i < o->rows; i++)
                any |= apply_to_row(&x->list[k], o->at[i].position, values + i * o->stride);
    return any;
}
