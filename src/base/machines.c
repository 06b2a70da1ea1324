/* Several machines over MPI: see machines.h. Built with MPI=1 only. */
#include "base/machines.h"

#ifdef TERN_MPI

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/machine_settings.h"
#include "base/procfs.h"
#include "base/ticker.h"
#include "base/xxh64.h"

enum {
    SPIN_NS = 100000,   /* a wait that is over by then costs no switch, */
    YIELD_NS = 5000000, /* and one that lasts so long is between two requests: */
    NAP_NS = 200000     /* it sleeps so long at a time */
};

static struct machine_settings settings;

struct process_place { /* where a process runs */
    char host[MPI_MAX_PROCESSOR_NAME];
    uint64_t group;                        /* of the control groups that it is in */
    char mistake[sizeof settings.mistake]; /* in its settings */
};

static struct {
    int size, rank;
    struct process_place places[MOST_MACHINES];
    struct machines_use use;
    uint64_t link_free; /* when the last bytes have left a network that is played */
    struct lock *lock;  /* of calls of MPI */
    uint64_t spin_ns;   /* 0 where processes share processors */
    int waiting;        /* 2: no thread computes */
    uint64_t waits_from;
    uint64_t exchange_ns, speed; /* as measured */
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
    return world.places[rank].host;
}

static bool on_one_host(int a, int b)
{
    return !strcmp(world.places[a].host, world.places[b].host);
}

bool machines_share(int a, int b)
{
    return a == b || (on_one_host(a, b) && world.places[a].group == world.places[b].group &&
                      !settings.latency_ns);
}

uint32_t machines_beside(void)
{
    uint32_t n = 0;
    for (int r = 0; r < world.size; r++)
        n += machines_share(r, world.rank);
    return n;
}

void machines_used(struct machines_use *use)
{
    *use = world.use;
}

/* ---- waiting ---- */

/* What is under way. Two threads may wait at the same time (relay.h), but MPI is called by one. */
struct transfer {
    MPI_Request request;
    uint64_t begin, sent, received;
};

static struct transfer transfers[MACHINES_SLOTS];

static bool is_done(struct transfer *t)
{
    int done = 0;
    lock_take(world.lock);
    MPI_Test(&t->request, &done, MPI_STATUS_IGNORE);
    lock_leave(world.lock);
    return done;
}

static void nap(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* As if what has just come had been under way for so long: for measurements on one machine. */
static void play_network(uint64_t bytes)
{
    uint64_t now = clock_ns();
    if (!settings.latency_ns || !bytes)
        return;
    uint64_t from = world.link_free > now ? world.link_free : now;
    world.link_free = from + bytes * 1000000000u / settings.bytes_per_s;
    for (uint64_t until = world.link_free + settings.latency_ns; (now = clock_ns()) < until;)
        if (until - now > NAP_NS)
            nap(NAP_NS / 2);
        else
            sched_yield();
}

/* Waiting is counted while no thread computes: the only one waits, or both that take turns (aside). */
static void begin_wait(bool aside)
{
    lock_take(world.lock);
    world.waiting += aside ? 1 : 2;
    if (world.waiting == 2)
        world.waits_from = clock_ns();
    lock_leave(world.lock);
}

static void end_wait(const struct transfer *t, bool aside)
{
    lock_take(world.lock);
    if (world.waiting == 2)
        world.use.wait_ns += clock_ns() - world.waits_from;
    world.waiting -= aside ? 1 : 2;
    world.use.calls++;
    world.use.sent += t->sent, world.use.received += t->received;
    lock_leave(world.lock);
}

/* Until it is there. MPI's own waiting would take a processor while nobody asks for anything; `aside`:
 * another thread needs the processor. */
static void await(struct transfer *t, bool aside)
{
    uint64_t ns = 0;
    begin_wait(aside);
    while (!is_done(t)) {
        ns = clock_ns() - t->begin;
        if (aside || ns > YIELD_NS)
            nap(aside ? NAP_NS / 4 : NAP_NS);
        else if (ns >= world.spin_ns)
            sched_yield();
    }
    play_network(t->received);
    end_wait(t, aside);
}

/* ---- what the others send ---- */

/* MPI counts in int. */
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

static struct transfer begin_transfer(uint64_t sent, uint64_t received)
{
    return (struct transfer){MPI_REQUEST_NULL, clock_ns(), sent, received};
}

void machines_gather_begin(int slot, void *all, const size_t *at)
{
    struct parts p = parts_of(at);
    size_t own = at[world.rank + 1] - at[world.rank], total = at[world.size];
    struct transfer *t = &transfers[slot];
    *t = begin_transfer(own * (size_t)(world.size - 1), total - own);
    if (world.size == 1 || !total)
        return;
    lock_take(world.lock);
    world.use.gathers++, world.use.gathered += total - own;
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, all, p.counts, p.at, MPI_BYTE, MPI_COMM_WORLD,
                    &t->request);
    lock_leave(world.lock);
}

void machines_gather_end(int slot, bool aside)
{
    if (world.size > 1)
        await(&transfers[slot], aside);
}

void machines_gather(void *all, const size_t *at)
{
    machines_gather_begin(0, all, at);
    machines_gather_end(0, false);
}

void machines_collect(void *all, const size_t *at)
{
    struct parts p = parts_of(at);
    size_t own = at[world.rank + 1] - at[world.rank], total = at[world.size];
    bool lead = world.rank == 0;
    struct transfer t = begin_transfer(lead ? 0 : own, lead ? total - own : 0);
    if (world.size == 1 || !total)
        return;
    lock_take(world.lock);
    MPI_Igatherv(lead ? MPI_IN_PLACE : (char *)all + at[world.rank], (int)own, MPI_BYTE, all,
                 p.counts, p.at, MPI_BYTE, 0, MPI_COMM_WORLD, &t.request);
    lock_leave(world.lock);
    await(&t, false);
}

void machines_broadcast(void *x, size_t bytes)
{
    size_t n;
    if (world.size == 1)
        return;
    for (size_t at = 0; at < bytes; at += n) {
        n = bytes - at < INT_MAX ? bytes - at : INT_MAX;
        struct transfer t =
            begin_transfer(world.rank ? 0 : n * (size_t)(world.size - 1), world.rank ? n : 0);
        lock_take(world.lock);
        MPI_Ibcast((char *)x + at, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD, &t.request);
        lock_leave(world.lock);
        await(&t, false);
    }
}

/* ---- the network itself ---- */

enum { PROBES = 8, PROBE_BYTES = 1 << 20 };

/* The shortest gather of `bytes` in all */
static uint64_t probe(size_t bytes)
{
    static char all[PROBE_BYTES];
    size_t at[MOST_MACHINES + 1];
    uint64_t best = UINT64_MAX;
    for (int r = 0; r <= world.size; r++)
        at[r] = bytes * (size_t)r / (size_t)world.size;
    for (int i = 0; i < PROBES; i++) {
        uint64_t begin = clock_ns(), ns;
        machines_gather(all, at);
        ns = clock_ns() - begin;
        best = ns < best ? ns : best;
    }
    return best;
}

void machines_measure(uint64_t *exchange_ns, uint64_t *bytes_per_s)
{
    if (!world.exchange_ns) {
        world.exchange_ns = probe(MOST_MACHINES);
        uint64_t ns = probe(PROBE_BYTES), n = (uint64_t)world.size;
        ns = ns > world.exchange_ns ? ns - world.exchange_ns : 1;
        world.speed = PROBE_BYTES / n * (n - 1) * 1000000000u / ns;
    }
    *exchange_ns = world.exchange_ns, *bytes_per_s = world.speed;
}

/* ---- who is lost ---- */

/* A host that is cut off sends nothing, not even that a connection has ended: MPI would wait for minutes.
 * So each rank sends every other one a byte a second, from a thread of its own, for a batch may take
 * long. Whoever hears nothing of another one for so many seconds of its own (lost_after) ends its process. */
enum { BEAT_TAG = 1, FOR_OTHERS = 2 /* seconds that others leave to one who speaks */ };

static const char stays = 0, leaves = 1;

static struct peer {
    MPI_Request in, out;
    char word;
    bool told, left; /* that this rank leaves; it leaves, too */
    uint64_t silent;
} peers[MOST_MACHINES];

static struct {
    struct ticker *ticker;
    uint64_t waited; /* seconds, for all to begin */
    bool leaves;
    void (*lost)(const char *sentence);
} watch;

static void listen_to(int r)
{
    MPI_Irecv(&peers[r].word, 1, MPI_CHAR, r, BEAT_TAG, MPI_COMM_WORLD, &peers[r].in);
}

/* One thing after the other, and nothing after that this rank leaves */
static void tell(int r)
{
    struct peer *p = &peers[r];
    int sent = 0;
    MPI_Test(&p->out, &sent, MPI_STATUS_IGNORE);
    if (!sent || p->told)
        return;
    MPI_Isend(watch.leaves ? &leaves : &stays, 1, MPI_CHAR, r, BEAT_TAG, MPI_COMM_WORLD, &p->out);
    p->told = watch.leaves;
}

/* All that rank r has said */
static void hear(int r)
{
    struct peer *p = &peers[r];
    int heard = 0;
    MPI_Test(&p->in, &heard, MPI_STATUS_IGNORE);
    while (heard && !p->left) {
        p->silent = 0;
        p->left = p->word == leaves;
        if (!p->left) {
            listen_to(r);
            MPI_Test(&p->in, &heard, MPI_STATUS_IGNORE);
        }
    }
}

static void end_job(int r)
{
    struct tern_error e;
    (void)error_set(&e, TERN_IO, "%s (rank %d) has not been heard of for %d s: the job ends",
                    machines_host(r), r, (int)settings.lost_after);
    if (watch.lost)
        watch.lost(e.text);
    MPI_Abort(MPI_COMM_WORLD, TERN_IO);
}

/* Two machines that lose sight of each other leave it to the first one, which says so. */
static uint64_t patience_with(int r)
{
    return settings.lost_after + (world.rank && r ? FOR_OTHERS : 0);
}

static void beat(void)
{
    lock_take(world.lock);
    for (int r = 0; r < world.size; r++) {
        struct peer *p = &peers[r];
        if (r == world.rank || p->left)
            continue;
        p->silent++;
        tell(r);
        hear(r);
        if (!p->left && settings.lost_after && p->silent > patience_with(r))
            end_job(r);
    }
    lock_leave(world.lock);
}

static enum tern_status begin_to_watch(struct tern_error *e)
{
    for (int r = 0; r < world.size; r++) {
        peers[r] = (struct peer){.in = MPI_REQUEST_NULL, .out = MPI_REQUEST_NULL};
        if (r != world.rank)
            listen_to(r);
    }
    return world.size > 1 ? ticker_open(&watch.ticker, beat, e) : TERN_OK;
}

static bool all_leave(void)
{
    bool all = true;
    lock_take(world.lock);
    watch.leaves = true;
    for (int r = 0; r < world.size; r++) {
        struct peer *p = &peers[r];
        if (r == world.rank)
            continue;
        tell(r);
        hear(r);
        all &= p->told && p->left;
    }
    lock_leave(world.lock);
    return all;
}

/* All watch until all have said that they leave: MPI ends with no word on its way. */
static void end_watch(void)
{
    while (watch.ticker && !all_leave())
        nap(NAP_NS);
    ticker_close(watch.ticker);
    for (int r = 0; r < world.size && watch.ticker; r++)
        MPI_Wait(&peers[r].out, MPI_STATUS_IGNORE);
    watch.ticker = NULL;
}

/* ---- start ---- */

static void finish(void)
{
    int over = 0;
    MPI_Finalized(&over);
    if (over)
        return;
    end_watch();
    MPI_Finalize();
}

/* All know of the mistake of one, and none waits for it. */
static enum tern_status check_settings(struct tern_error *e)
{
    for (int r = 0; r < world.size; r++)
        if (*world.places[r].mistake)
            return error_set(e, TERN_USAGE, "%s: %s", machines_host(r), world.places[r].mistake);
    return TERN_OK;
}

/* Whoever spins on a host with more processes than processors keeps the others from what he waits for. */
static void choose_spin(void)
{
    long here = 0;
    for (int r = 0; r < world.size; r++)
        here += on_one_host(r, world.rank);
    world.spin_ns = here > sysconf(_SC_NPROCESSORS_ONLN) ? 0 : SPIN_NS;
}

/* Where all processes run, and with which mistakes */
static void exchange_places(void)
{
    char groups[4096] = "";
    struct process_place *own = &world.places[world.rank];
    int n = 0;
    MPI_Get_processor_name(own->host, &n);
    (void)procfs_read("", "/proc/self/cgroup", groups, sizeof groups);
    own->group = xxh64(groups, strlen(groups));
    memcpy(own->mistake, settings.mistake, sizeof own->mistake);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, world.places, sizeof *own, MPI_BYTE, MPI_COMM_WORLD);
}

/* The first that goes over the network has one form for ever: what follows has that of one build. */
struct hello {
    char build[64], host[64];
};

static enum tern_status compare_builds(const char *build, struct tern_error *e)
{
    static struct hello all[MOST_MACHINES];
    struct hello *own = &all[world.rank];
    int r = 1;
    snprintf(own->build, sizeof own->build, "%s, %zu", build, sizeof *world.places);
    gethostname(own->host, sizeof own->host - 1);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, all, sizeof *own, MPI_BYTE, MPI_COMM_WORLD);
    while (r < world.size && !strncmp(all[r].build, all[0].build, sizeof own->build))
        r++;
    if (r >= world.size)
        return TERN_OK;
    return error_set(e, TERN_USAGE,
                     "%.63s has another build of tern (%.63s) than %.63s (%.63s): use one build",
                     all[r].host, all[r].build, all[0].host, all[0].build);
}

/* Of this process, as what starts it says, for MPI does not know yet; or 0 */
static uint64_t rank_given(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    uint64_t rank = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && procfs_u64(&text, &rank))
            return rank;
    }
    return 0;
}

/* MPI waits for ever for a process that does not begin, and says nothing. The first one that is there
 * does. */
static void wait_for_all(void)
{
    struct tern_error e;
    if (!watch.lost || !settings.meet_within ||
        ++watch.waited != settings.meet_within + FOR_OTHERS * rank_given())
        return;
    (void)error_set(&e, TERN_IO,
                    "not all processes have begun within %d s (TERN_MEET_WITHIN): the job ends",
                    (int)settings.meet_within);
    watch.lost(e.text);
}

static enum tern_status join(struct tern_error *e)
{
    int given = 0;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given) || given < MPI_THREAD_SERIALIZED)
        return error_set(e, TERN_USAGE, "this MPI does not serve programs with threads");
    MPI_Comm_size(MPI_COMM_WORLD, &world.size);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    atexit(finish);
    return lock_open(&world.lock, e);
}

/* All are there, and understand each other. */
static enum tern_status compare(const char *build, struct tern_error *e)
{
    if (world.size > MOST_MACHINES)
        return error_set(e, TERN_USAGE, "%d processes were started, want at most %d", world.size,
                         MOST_MACHINES);
    enum tern_status s = compare_builds(build, e);
    if (s)
        return s;
    exchange_places();
    choose_spin();
    return check_settings(e);
}

enum tern_status machines_start(const char *build, void (*lost)(const char *sentence),
                                struct tern_error *e)
{
    struct ticker *meeting;
    int has = 0;
    MPI_Initialized(&has);
    if (has)
        return TERN_OK;
    watch.lost = lost;
    machine_settings_read(&settings);
    enum tern_status s = ticker_open(&meeting, wait_for_all, e);
    if (s)
        return s;
    s = join(e);
    s = s ? s : compare(build, e);
    ticker_close(meeting);
    return s ? s : begin_to_watch(e);
}

#endif
