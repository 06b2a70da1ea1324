/* Several machines: the processes that evaluate one model together, each its share of the outputs. In:
 * bytes; out: the same bytes on every rank. machines.c alone knows MPI, and is built with MPI=1 only;
 * without it there is one machine, and calls of these functions vanish.
 *
 * Rank 0 runs the program. Calls move no bit of what they carry. They wait as long as it takes, and a
 * rank that is lost ends the whole job, so none of them fails. One thread at a time may call.
 *
 * A rank that is busy is not lost: each one says every second, by a thread of its own, that it is there.
 * When it is, and how long all may take to begin, is a setting (machine_settings.h); a mistake in one is
 * TERN_USAGE, on all. */
#ifndef BASE_MACHINES_H
#define BASE_MACHINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { MOST_MACHINES = 64, MACHINES_SLOTS = 2, MOST_GATHERED = INT32_MAX };

/* What went over the network since the start, of this rank */
struct machines_use {
    uint64_t calls, sent, received; /* bytes */
    uint64_t gathers, gathered;     /* machines_gather alone: calls, bytes received */
    uint64_t wait_ns;               /* until it was there */
};

#ifdef TERN_MPI

/* Joins the other ranks, once; whoever does not call it is alone. On another rank than 0 nothing is
 * printed from then on. build: tells builds apart that do not understand each other: TERN_USAGE. lost:
 * called in another thread when a rank is lost, or has not begun in time; it ends the process. NULL: MPI
 * ends it when a rank is lost, and waits for ever for one that does not begin. */
enum tern_status machines_start(const char *build, void (*lost)(const char *sentence),
                                struct tern_error *e);

int machines_size(void);
int machines_rank(void);
const char *machines_host(int rank);

/* The two run on one host and in one control group: they share its memory. Not where TERN_NETWORK plays a
 * network between them. */
bool machines_share(int a, int b);
uint32_t machines_beside(void); /* how many share this one's memory, itself included */

/* `all` is cut at[0] = 0 <= at[1] <= ... at[size] <= MOST_GATHERED, in bytes: part r is rank r's, and every
 * rank gets all parts. */
void machines_gather(void *all, const size_t *at);

/* The same in two steps, for two threads that take turns: in one of two slots, and beginnings come in the
 * same order on every rank. aside: another thread has work for the processor meanwhile. */
void machines_gather_begin(int slot, void *all, const size_t *at);
void machines_gather_end(int slot, bool aside);

/* The same as machines_gather, to rank 0 alone */
void machines_collect(void *all, const size_t *at);

/* x as rank 0 has it */
void machines_broadcast(void *x, size_t bytes);

void machines_used(struct machines_use *use);

/* How long a small gather takes, and the bytes a second that a rank gets by large ones. The first call is
 * made by all ranks, and measures. */
void machines_measure(uint64_t *exchange_ns, uint64_t *bytes_per_s);

#else

static inline uint32_t machines_beside(void)
{
    return 1;
}

#endif

#endif
