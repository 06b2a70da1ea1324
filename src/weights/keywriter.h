/* Builds a key block (weights/keys.h draws it). Running out of memory sets `failed`, which stays
 * set: add everything, then test once. */
#ifndef WEIGHTS_KEYWRITER_H
#define WEIGHTS_KEYWRITER_H

#include "weights/keys.h"

struct keywriter {
    unsigned char *data; /* [bytes], owned; room for `room` */
    size_t bytes, room;
    bool failed;
};

void keywriter_init(struct keywriter *k);
void keywriter_close(struct keywriter *k);

/* `count` values of the type, copied. The name is plain text of at most 256 bytes. */
void keywriter_add(struct keywriter *k, const char *name, bool critical, enum key_type type,
                   const void *values, uint64_t count);

/* One critical value. */
void keywriter_u64(struct keywriter *k, const char *name, uint64_t value);
void keywriter_f32(struct keywriter *k, const char *name, float value);
void keywriter_text(struct keywriter *k, const char *name, const char *value);

#endif
