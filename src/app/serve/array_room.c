/* Arrays that grow: see array_room.h. */
#include "app/serve/array_room.h"

#include <stdlib.h>
#include <string.h>

bool array_room(void *array, size_t *room, size_t n, size_t size)
{
    size_t more = 2 * n + 8;
    void *p;
    if (n < *room)
        return true;
    memcpy(&p, array, sizeof p);
    if (!(p = realloc(p, more * size)))
        return false;
    memcpy(array, &p, sizeof p);
    *room = more;
    return true;
}
