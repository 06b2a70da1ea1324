/* The chat template in use. */
#ifndef ENGINE_API_CHAT_H
#define ENGINE_API_CHAT_H

#include "engine/model_handle.h"

/* Uses the built-in template `name`, or the file's own (NULL; no template if the file has none). */
enum tern_status api_chat_open(struct tern_model *m, const char *name, struct tern_error *e);

#endif
