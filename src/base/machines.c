/* Several machines over MPI: see machines.h. Built with MPI=1 only. */
#include "base/machines.h"

#ifdef TERN_MPI

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum {
    SPIN_NS = 100000,   /* a wait that is over by then costs no switch, */
    YIELD_NS = 5000000, /* and one that lasts so long is between two requests: */
    NAP_NS = 200000     /* it sleeps so long at a time */
};

static struct {
    int size, rank;
    char (*hosts)[HOST_NAME];
    struct machines_use use;
    uint64_t latency_ns, bytes_per_s; /* of a slower network, played; or 0 */
} world = {.size = 1};

int machines_size(void)
{
    return world.size;
}

int machines_rank(void)
{
    return world.rank;
}

const char *machines_host(int rank)
{
    return world.hosts ? world.hosts[rank] : "";
}

void machines_used(struct machines_use *use)
{
    *use = world.use;
}

/* ---- waiting ---- */

/* Until the request is done. MPI's own waiting would take a processor while nobody asks for anything. */
static void await(MPI_Request *request)
{
    uint64_t begin = clock_ns();
    for (int done = 0;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        uint64_t ns = clock_ns() - begin;
        if (done)
            break;
        if (ns > YIELD_NS)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        else if (ns > SPIN_NS)
            sched_yield();
    }
}

/* As if the network took this much longer: for measurements on one machine. */
static void play_network(uint64_t begin, uint64_t bytes)
{
    if (!world.latency_ns)
        return;
    uint64_t until = begin + world.latency_ns + bytes * 1000000000u / world.bytes_per_s;
    while (clock_ns() < until)
        sched_yield();
}

static void note(uint64_t begin, uint64_t sent, uint64_t received)
{
    play_network(begin, sent > received ? sent : received);
    world.use.calls++;
    world.use.sent += sent, world.use.received += received;
    world.use.wait_ns += clock_ns() - begin;
}

/* ---- what the others send ---- */

/* MPI counts in int: parts travel as words where they are long. */
struct parts {
    int counts[MOST_MACHINES], at[MOST_MACHINES];
};

static struct parts parts_of(const size_t *at)
{
    struct parts p = {{0}, {0}};
    for (int r = 0; r < world.size; r++) {
        p.at[r] = (int)at[r];
        p.counts[r] = (int)(at[r + 1] - at[r]);
    }
    return p;
}

void machines_gather(void *all, const size_t *at)
{
    struct parts p = parts_of(at);
    size_t own = at[world.rank + 1] - at[world.rank], total = at[world.size];
    uint64_t begin = clock_ns();
    MPI_Request request;
    if (world.size == 1 || !total)
        return;
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, all, p.counts, p.at, MPI_BYTE, MPI_COMM_WORLD,
                    &request);
    await(&request);
    note(begin, own * (size_t)(world.size - 1), total - own);
}

void machines_collect(void *all, const size_t *at)
{
    struct parts p = parts_of(at);
    size_t own = at[world.rank + 1] - at[world.rank], total = at[world.size];
    uint64_t begin = clock_ns();
    bool lead = world.rank == 0;
    MPI_Request request;
    if (world.size == 1 || !total)
        return;
    MPI_Igatherv(lead ? MPI_IN_PLACE : (char *)all + at[world.rank], (int)own, MPI_BYTE, all,
                 p.counts, p.at, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    await(&request);
    note(begin, lead ? 0 : own, lead ? total - own : 0);
}

void machines_broadcast(void *x, size_t bytes)
{
    uint64_t begin = clock_ns();
    size_t n;
    if (world.size == 1)
        return;
    for (size_t at = 0; at < bytes; at += n) {
        MPI_Request request;
        n = bytes - at < INT_MAX ? bytes - at : INT_MAX;
        MPI_Ibcast((char *)x + at, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
        await(&request);
    }
    note(begin, world.rank ? 0 : bytes * (size_t)(world.size - 1), world.rank ? bytes : 0);
}

/* ---- start ---- */

static void finish(void)
{
    int over = 0;
    MPI_Finalized(&over);
    if (!over)
        MPI_Finalize();
}

/* The whole number at *text, below a million; moves past it and a blank */
static uint64_t read_number(const char **text)
{
    uint64_t n = 0;
    for (; **text >= '0' && **text <= '9' && n < 1000000; ++*text)
        n = 10 * n + (uint64_t)(**text - '0');
    *text += **text == ' ';
    return n;
}

/* TERN_NETWORK="MICROSECONDS MEGABITS": what the network is to be like */
static void read_network(void)
{
    const char *text = getenv("TERN_NETWORK");
    if (!text)
        return;
    uint64_t us = read_number(&text), mbit = read_number(&text);
    if (us && mbit)
        world.latency_ns = us * 1000, world.bytes_per_s = mbit * 125000;
}

enum tern_status machines_start(struct tern_error *e)
{
    int given = 0, has = 0;
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Initialized(&has);
    if (has)
        return TERN_OK;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given) || given < MPI_THREAD_SERIALIZED)
        return error_set(e, TERN_USAGE, "this MPI does not serve programs with threads");
    MPI_Comm_size(MPI_COMM_WORLD, &world.size);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    atexit(finish);
    if (world.size > MOST_MACHINES)
        return error_set(e, TERN_USAGE, "%d processes were started, want at most %d", world.size,
                         MOST_MACHINES);
    world.hosts = calloc((size_t)world.size, sizeof *world.hosts);
    if (!world.hosts)
        return error_memory(e, "the names of the machines",
                            (size_t)world.size * sizeof *world.hosts);
    int n = 0;
    MPI_Get_processor_name(host, &n);
    host[n < HOST_NAME ? n : HOST_NAME - 1] = 0;
    memcpy(world.hosts[world.rank], host, HOST_NAME);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, world.hosts, HOST_NAME, MPI_BYTE, MPI_COMM_WORLD);
    read_network();
    return TERN_OK;
}

#endif
