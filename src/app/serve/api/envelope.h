/* What /v1/chat/completions and /v1/completions have in common: the object around the choices of an answer,
 * its stream, and what a choice has in both. */
#ifndef SERVE_ENVELOPE_H
#define SERVE_ENVELOPE_H

#include <jansson.h>

#include "app/cli/growing_text.h"
#include "app/serve/api/answer_id.h"
#include "app/serve/api/answers.h"
#include "app/serve/api/turn.h"

/* ---- of a request -------------------------------------------------------------------------- */

struct envelope_fields {
    const char *model; /* as the client names it; borrowed from the body, or the server's */
    bool stream, include_usage;
};

/* Reads model, stream and stream_options. */
bool envelope_fields_read(struct envelope_fields *e, struct turn *t, const struct server *s,
                          struct fields *f);

/* ---- of a choice --------------------------------------------------------------------------- */

/* In a stream, what is there since the last piece; else all of it. */
struct reply_choice {
    struct growing_text text;
    json_t *logprobs, *tokens; /* owned; NULL: none yet, or not wanted */
    json_t *end;               /* timings and receipt; owned */
    const char *finish;        /* NULL: it goes on */
    bool began;                /* of a stream: a piece was sent */
};

/* Frees what was collected; began and finish stay. */
void reply_choice_clear(struct reply_choice *c);
void reply_choice_take_tokens(struct reply_choice *c, const struct answer_part *p); /* their ids */
/* Adds tokens, receipt and finish_reason. */
void reply_choice_put_end(const struct reply_choice *c, json_t *out);

/* ---- of an answer -------------------------------------------------------------------------- */

struct envelope_kind {
    const char *id, *whole,
        *piece; /* prefix of ids; `object` of an answer and of a stream's piece */
};

struct envelope {
    struct server *server;
    const struct envelope_kind *kind;
    char id[ANSWER_ID_BYTES], fingerprint[48];
    char *model; /* owned */
    int64_t created;
    uint64_t seed;
    bool stream, include_usage, logprobs, return_tokens, begun, failed;
    size_t n, n_over; /* answers */
    struct answers_usage usage;
};

/* Of n answers. False: no memory. The caller closes it, also then. */
bool envelope_open(struct envelope *e, const struct envelope_kind *kind, struct server *s,
                   const struct envelope_fields *fields, const struct request_params *params,
                   size_t n);
void envelope_close(struct envelope *e);

/* One answer is over. first: of its prompt, whose tokens count once. */
void envelope_take_end(struct envelope *e, struct exchange *x, struct reply_choice *c,
                       const struct answer_part *p, bool first, const char *finish);
/* False: the answer has failed, now or before. The client is told once. */
bool envelope_goes_on(struct envelope *e, struct exchange *x, const struct fault *f);
bool envelope_is_over(const struct envelope *e);

/* The whole; `choices` is stolen, `first` has the timings. */
void envelope_reply(struct envelope *e, struct exchange *x, json_t *choices,
                    const struct reply_choice *first);
/* A piece of a stream, with one choice, which is stolen; c is cleared. */
void envelope_write(struct envelope *e, struct exchange *x, json_t *choice, struct reply_choice *c);
void envelope_end_stream(struct envelope *e, struct exchange *x);
void envelope_ping(struct envelope *e, struct exchange *x);

#endif
