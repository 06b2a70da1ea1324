/* Several machines: the orders that rank 0 gives and the others follow, one for each call that changes a
 * context, or that all take part in. An order is one broadcast, and more where it is long. In: orders on
 * rank 0 (lead.c and others); out: the same orders on the others (follow.c).
 * ADDING AN ORDER: a row of the enum, who gives it at the beginning of the call that it tells of, and its
 * case in follow.c. */
#ifndef ENGINE_ORDER_H
#define ENGINE_ORDER_H

#include "engine/context.h"

#ifdef TERN_MPI

enum order_kind {
    ORDER_END,
    ORDER_CHECK,
    ORDER_PLAN, /* more: parameters */
    ORDER_OPEN, /* more: a plan */
    ORDER_CLOSE,
    ORDER_RUN, /* more: rows, of a long batch */
    ORDER_KEEP,
    ORDER_FORK,
    ORDER_SHOW,
    ORDER_DROP,
    ORDER_SETTLE,
    ORDER_GUESS,
    ORDER_PREFIX_FIND, /* more: tokens */
    ORDER_PREFIX_KEEP,
    ORDER_PREFIX_CLEAR,
    ORDER_STORE,
    ORDER_RESUME,
    ORDER_METER,
};

enum { SHORT_ROWS = 8, MOST_CONTEXTS = 64 };

struct order_row {
    uint32_t seq, expected;
    tern_token token;
    uint32_t flags;
    uint16_t best;
    uint8_t within, trial;
};

struct order {
    uint32_t kind, context, seq, to;
    uint64_t n;
    int32_t token;
    uint8_t if_finite, stop;
    struct order_row rows[SHORT_ROWS]; /* all n of a short batch; of a long one they follow */
};

/* What a machine says of a plan (ORDER_PLAN) */
struct planned {
    struct tern_memory memory;
    uint64_t elsewhere; /* of its cache: held by others */
    uint64_t for_files; /* available with all pages that hold files */
    uint32_t status;
    char message[sizeof(((struct tern_error *)0)->text)];
};

/* Rank 0 gives it to the others, with `more`. */
void order_give(struct order order, const void *more, size_t bytes);

/* The others take it, and `more` of it. */
void order_take(struct order *order);
void order_more(void *more, size_t bytes);

/* ORDER_END */
void order_end(void);

/* The contexts of the model that is on all machines, each with the same number on all; NULL: free */
extern tern_context *order_contexts[MOST_CONTEXTS];

/* The first number that is free; MOST_CONTEXTS: none */
uint32_t order_number(void);

/* Room for `more` of an order, of so many bytes; NULL without memory. As much as a context can take is taken
 * when it opens (order_bytes), for running a batch cannot fail. */
void *order_room(size_t bytes);
size_t order_bytes(const struct tern_memory *plan);

#endif

#endif
