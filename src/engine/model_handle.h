/* tern_model: the parts of an opened file. */
#ifndef ENGINE_MODEL_HANDLE_H
#define ENGINE_MODEL_HANDLE_H

#include <stdbool.h>

#include "base/lock.h"
#include "base/pool.h"
#include "base/quota.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "sample/constraint/spelling.h"
#include "text/chat.h"
#include "text/tokenizer.h"
#include "weights/keys.h"

enum { MAX_END_TOKENS = 64, MAX_THREADS = 1024 };

/* What threads that open constraints share */
struct model_spelling {
    struct lock *lock;
    struct spelling *spelling; /* NULL until the first constraint */
    struct quota quota;        /* of all constraints and their states */
};

struct tern_model {
    struct model *model; /* owned, with the weights file */
    struct kernels kernels;
    struct pool *pool;
    struct tokenizer *tokenizer; /* NULL: a file without one, ids only */
    struct chat *chat;           /* NULL: no template */
    struct model_spelling *spelling;
    struct tern_sampler_params sampler;
    tern_token end_tokens[MAX_END_TOKENS];
    size_t n_end_tokens;
    char *name, *source, *licence, *converter; /* owned; NULL if absent */
    char threads_why[160];
    int (*stop)(void *arg); /* of tern_model_params */
    void *stop_arg;
};

/* A section of the file as parsed keys, for keys_close. Without such a section: TERN_OK, *found
 * false and no keys. */
enum tern_status model_handle_section(const struct tern_model *m, const char *tag,
                                      struct keys *keys, bool *found, struct tern_error *e);

#endif
