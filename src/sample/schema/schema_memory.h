/* Memory and errors of the schema compiler. */
#ifndef SCHEMA_SCHEMA_MEMORY_H
#define SCHEMA_SCHEMA_MEMORY_H

#include "sample/schema/schema_parts.h"

/* Room for `need` elements in an array; see budget_grow. False: no budget, and `status` is set. */
bool schema_room(struct schema *s, void *array, uint32_t *capacity, size_t need, size_t size);
/* Zeroed bytes that live until the mark before them is taken back, or until the end. */
void *schema_take(struct schema *s, size_t size);
struct chunk_mark schema_mark(const struct schema *s);
void schema_release(struct schema *s, struct chunk_mark mark);

/* False with `status` set where the budget has no such steps. */
bool schema_step(struct schema *s, uint64_t steps);
/* Sets `status` from what became of the budget; false. */
bool schema_no_budget(struct schema *s);
/* A keyword of `value` cannot be kept. Lax: noted, and true, the caller goes on without it. Else false
 * with `status` set. */
bool schema_leave_out(struct schema *s, uint32_t value, const char *keyword, const char *reason);
/* The same for what cannot be left out: always false. */
bool schema_refuse(struct schema *s, uint32_t value, const char *keyword, const char *reason);

/* The slot of the entry that is equal to key[0..n); where there is none, of a new entry `new`. Entry i
 * has number i + 1. NULL: no budget. */
struct table_slot *table_find(struct schema *s, struct table *t, const void *key, size_t n,
                              bool (*same)(const struct schema *s, uint32_t entry, const void *key,
                                           size_t n),
                              uint32_t new);
void table_free(struct schema *s, struct table *t);

#endif
