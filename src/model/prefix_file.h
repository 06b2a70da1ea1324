/* A store of prefixes as a file (FORMAT.md, "Prefixes"), written and read in one pass through a
 * descriptor: who calls may be forbidden to open files. */
#ifndef MODEL_PREFIX_FILE_H
#define MODEL_PREFIX_FILE_H

#include "model/prefix_store.h"

enum tern_status prefix_save(const struct prefix_store *s, const struct model *m, int fd,
                             struct tern_error *e);

/* The store is empty before; after an error it is so again. What does not fit is left out, the least
 * recently used first. */
enum tern_status prefix_load(struct prefix_store *s, const struct model *m, int fd,
                             struct tern_error *e);

#endif
