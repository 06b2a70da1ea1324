/* Texts of a request that is no chat: a string, an array of strings, an array of token ids, or an array of
 * arrays of token ids. */
#ifndef SERVE_PROMPTS_H
#define SERVE_PROMPTS_H

#include "app/serve/api/fields.h"
#include "app/serve/model/job.h"
#include "app/serve/server.h"
#include "tern.h"

struct prompt {
    tern_token *tokens; /* [n] owned */
    size_t n;
};

struct prompts {
    struct prompt *list; /* [n] owned */
    size_t n;
};

/* Reads field `name`, which must be there, of 1 to max texts. Each gets the special tokens that the model puts
 * before a text, and ids are taken as they are. The caller closes p, also after a fault. */
bool prompts_read(struct prompts *p, const struct server *s, struct fields *f, const char *name,
                  size_t max);
void prompts_close(struct prompts *p);

/* An array of token ids below the size of the vocabulary, at most max. */
bool prompts_read_ids(struct prompt *p, const struct server *s, const struct fields *f,
                      const char *name, const json_t *array, size_t max);

/* Whether a text can fit the context at all: false, with the fault, where even the longest tokens would be
 * too many. Blanks do not count, for a tokenizer may drop or join them. Takes no time, as encoding does. */
bool prompts_may_fit(const struct server *s, const char *text, size_t n, struct fault *f);

/* A copy of the ids as the prompt of a job. */
bool prompts_give(struct job_request *job, const tern_token *tokens, size_t n, struct fault *f);

/* Text as ids: flags as of tern_tokenize. */
bool prompts_encode(struct prompt *p, const struct server *s, const char *text, size_t n,
                    unsigned flags, struct fault *f);

#endif
