/* Kept beginnings in files of --cache-dir, so that a server that starts again finds them. Two files are
 * used in turn: a crash while one is written leaves the other. They are opened before the sandbox, belong
 * to one model and one server at a time, and only their owner may read them. */
#ifndef SERVE_SAVED_PREFIXES_H
#define SERVE_SAVED_PREFIXES_H

#include "app/serve/model/model_thread.h"

/* Whether the folder is there, and files may be made in it. */
enum tern_status saved_prefixes_check(const char *folder, struct tern_error *e);
/* Opens s->cache_fd in the folder and loads the newest file that is valid. */
enum tern_status saved_prefixes_open(struct scheduler *s, const char *folder, struct tern_error *e);
/* Writes the older file. */
void saved_prefixes_save(struct scheduler *s);
void saved_prefixes_close(struct scheduler *s);

#endif
