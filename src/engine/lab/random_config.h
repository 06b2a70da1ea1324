/* The config keys of a random model (FORMAT.md, "Config keys"), from a shape that was checked. */
#ifndef LAB_RANDOM_CONFIG_H
#define LAB_RANDOM_CONFIG_H

#include "tern_lab.h"
#include "weights/keywriter.h"

/* The keys of s->keys replace those that follow from the sizes. The caller closes k. */
enum tern_status random_config(struct keywriter *k, const struct tern_shape *s,
                               struct tern_error *e);

#endif
