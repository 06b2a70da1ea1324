/* Arrays that grow by one element at a time. */
#ifndef SERVE_ARRAY_ROOM_H
#define SERVE_ARRAY_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* Room for one more of n elements of `size` bytes in an array of *room; `array` is the address of the pointer to
 * it. False: no memory; nothing changed. */
bool array_room(void *array, size_t *room, size_t n, size_t size);

#endif
