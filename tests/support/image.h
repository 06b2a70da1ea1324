/* Weights files in memory, to be damaged: where their fields lie, and how to make the checksums
 * right again, so that a checksum does not hide what comes after it. */
#ifndef TESTS_IMAGE_H
#define TESTS_IMAGE_H

#include "toy.h"

struct image {
    unsigned char *p; /* [n], owned */
    size_t n;
};

struct image image_of(const struct toy *toy); /* aborts when it cannot */
struct image image_copy(const struct image *from);
void image_close(struct image *i);

/* Content id and header checksum as they should be, as far as the fields that lead there make
 * sense. For any bytes. */
void image_repair(unsigned char *p, size_t n);

/* Makes the checksum of a valid image's tensor right again, and repairs the rest. */
void image_repair_tensor(struct image *i, size_t number);

void image_save(const struct image *i, const char *path);

/* Offsets in a valid image. */
size_t image_section(const struct image *i, const char *tag); /* its entry in the table */
size_t image_body(const struct image *i, const char *tag);
size_t image_key(const struct image *i, const char *tag, const char *name); /* its flags */
size_t image_tensor(const struct image *i, size_t number);                  /* its name_bytes */
size_t image_fields(const struct image *i, size_t number);                  /* its type */

#endif
