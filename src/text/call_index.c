/* The calls of a message by their ids: see call_index.h. */
#include "text/call_index.h"

#include <stdlib.h>
#include <string.h>

/* By id, then as they stand. */
static int compare(const void *a, const void *b)
{
    const struct tern_call *x = *(const struct tern_call *const *)a;
    const struct tern_call *y = *(const struct tern_call *const *)b;
    int order = strcmp(x->id, y->id);
    return order ? order : x < y ? -1 : x > y;
}

bool call_index_make(struct call_index *x, const struct tern_chat_message *m)
{
    if (x->of == m)
        return true;
    call_index_close(x);
    x->list = malloc((m->n_calls + 1) * sizeof *x->list);
    if (!x->list)
        return false;
    x->of = m;
    for (size_t i = 0; i < m->n_calls; i++)
        if (m->calls[i].id)
            x->list[x->n++] = &m->calls[i];
    qsort(x->list, x->n, sizeof *x->list, compare);
    return true;
}

const struct tern_call *call_index_find(const struct call_index *x, const char *id)
{
    size_t low = 0, high = x->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(x->list[middle]->id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < x->n && !strcmp(x->list[low]->id, id) ? x->list[low] : NULL;
}

void call_index_close(struct call_index *x)
{
    free((void *)x->list);
    *x = (struct call_index){0};
}
