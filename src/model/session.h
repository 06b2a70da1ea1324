/* Session files: the tokens of a sequence with their keys and values, written and restored
 * (FORMAT.md, "Sessions"). A session belongs to the model, the arithmetic and the cache type that
 * made it, and to nothing else: context size, batch size and threads may be others. */
#ifndef MODEL_SESSION_H
#define MODEL_SESSION_H

#include "base/pool.h"
#include "model/cache.h"

enum { SESSION_OWNERS = 4 };

/* What saved sequences belong to: arithmetic, model, its config (whose features no tensor shows, such as
 * the RoPE frequencies), type of cache. TERN_BAD_FILE, naming it, when one of them is another. */
void session_owners(const struct cache *c, const struct model *m, uint64_t owner[SESSION_OWNERS]);
enum tern_status session_check_owners(const struct cache *c, const struct model *m,
                                      const uint64_t owner[SESSION_OWNERS], struct tern_error *e);

/* Writes a temporary file beside `path`, syncs it and renames it. TERN_USAGE when the sequence is
 * empty or `path` may not be replaced. */
enum tern_status session_save(const struct cache *c, size_t seq, const struct model *m,
                              const char *path, struct tern_error *e);

/* Reads the whole file into memory and verifies it; only then it becomes the sequence. After an
 * error the sequence is as it was. */
enum tern_status session_load(struct cache *c, size_t seq, const struct model *m, struct pool *pool,
                              const char *path, struct tern_error *e);

#endif
