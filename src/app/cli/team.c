/* Several machines, as programs see them: see team.h. */
#include "app/cli/team.h"

#ifdef TERN_MPI

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "app/cli/number.h"
#include "tern_lab.h"

bool team_follows(void)
{
    uint32_t rank;
    (void)tern_machines(&rank);
    return rank != 0;
}

/* mpirun gives them to all. The first machine ends the others. */
static const int for_the_first[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

static const char *name;

/* In a thread of its own, while the others wait for a machine that will not answer */
static void end_lost(const char *sentence)
{
    dprintf(STDERR_FILENO, "%s: %s\n", name, sentence);
    _exit(TERN_IO);
}

enum tern_status team_start(const char *program, struct tern_error *e)
{
    name = program;
    enum tern_status s = tern_machines_start(end_lost, e);
    int nowhere = !team_follows() ? -1 : open("/dev/null", O_WRONLY);
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        close(nowhere);
    }
    for (size_t i = 0; i < sizeof for_the_first / sizeof *for_the_first && !s && team_follows();
         i++)
        signal(for_the_first[i], SIG_IGN);
    return s;
}

bool team_is_alone(void)
{
    uint32_t rank;
    return tern_machines(&rank) == 1;
}

enum tern_status team_refuse(const char *program, struct tern_error *e)
{
    enum tern_status s = team_start(program, e);
    if (s || team_is_alone())
        return s;
    snprintf(e->text, sizeof e->text, "%s works on one machine only: start it without mpirun",
             program);
    return e->code = TERN_USAGE;
}

bool team_followed(tern_model *model, enum tern_status *s, struct tern_error *e)
{
    if (!team_follows())
        return false;
    *s = tern_follow(model, e);
    return true;
}

bool team_line(const tern_model *model, uint32_t i, char *line, size_t size)
{
    char a[32], b[32], c[32], d[32];
    struct tern_machine m;
    if (!tern_machine(model, i, &m))
        return false;
    snprintf(line, size,
             "%s (rank %u): %.1f %% of the rows; weights %s, cache %s, batch %s; available %s\n",
             m.host, i, 100.0 * (double)m.share / (double)m.shares,
             number_bytes(m.memory.weights, a, sizeof a), number_bytes(m.memory.cache, b, sizeof b),
             number_bytes(m.memory.batch, c, sizeof c),
             number_bytes(m.memory.available, d, sizeof d));
    return true;
}

void team_advise(tern_model *model)
{
    struct tern_network_cost c;
    struct tern_error e;
    uint32_t rank, n = tern_machines(&rank);
    if (tern_network_cost(model, &c, &e) || !team_is_slower(c.together, c.alone))
        return;
    if (c.beside == n) {
        fprintf(stderr,
                "these %u processes share one machine, on which 1 process would be faster: about "
                "%.1f ms a token instead of %.1f\n",
                n, 1e3 * c.alone, 1e3 * c.together);
        return;
    }
    fprintf(
        stderr,
        "on this network 1 machine would be faster: about %.1f ms a token instead of %.1f on %u "
        "machines, which exchange rows %llu times a token, %.0f us each, at %.0f MB/s\n",
        1e3 * c.alone, 1e3 * c.together, n, (unsigned long long)c.exchanges, 1e6 * c.exchange,
        1e-6 * c.bytes_per_second);
}

void team_warn(const tern_model *model)
{
    struct tern_machine m;
    char a[32], b[32], c[32];
    for (uint32_t r = 0; tern_machine(model, r, &m); r++)
        if (m.first == r && m.weights_beside + m.others_beside > m.for_files)
            fprintf(stderr,
                    "%s: the weights of %u process%s take %s, cache and batch %s, and %s are free: "
                    "weights are read from the disk again and again\n",
                    m.host, m.beside, m.beside == 1 ? "" : "es",
                    number_bytes(m.weights_beside, a, sizeof a),
                    number_bytes(m.others_beside, b, sizeof b),
                    number_bytes(m.for_files, c, sizeof c));
}

int team_exit(int code)
{
    return team_follows() ? 0 : code;
}

#endif
