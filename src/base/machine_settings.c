/* Settings of several machines: see machine_settings.h. */
#include "base/machine_settings.h"

#ifdef TERN_MPI

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOST_AFTER = 5, MEET_WITHIN = 60, MOST = 999999 };

/* The whole number from `least` to MOST at *text, which ends with `end`; moves past both. */
static bool read_number(const char **text, uint64_t least, char end, uint64_t *n)
{
    const char *at = *text;
    *n = 0;
    for (; *at >= '0' && *at <= '9' && *n <= MOST; at++)
        *n = 10 * *n + (uint64_t)(*at - '0');
    if (at == *text || *at != end || *n < least || *n > MOST)
        return false;
    *text = at + (end != 0);
    return true;
}

static void read_seconds(struct machine_settings *s, const char *name, uint64_t *seconds)
{
    const char *text = getenv(name), *at = text;
    uint64_t n;
    if (text && read_number(&at, 0, 0, &n))
        *seconds = n;
    else if (text)
        snprintf(s->mistake, sizeof s->mistake,
                 "%s is '%.20s', want whole seconds from 0 (for ever) to %d", name, text, MOST);
}

static void read_network(struct machine_settings *s)
{
    const char *text = getenv("TERN_NETWORK"), *at = text;
    uint64_t us, mbit;
    if (text && read_number(&at, 1, ' ', &us) && read_number(&at, 1, 0, &mbit))
        s->latency_ns = us * 1000, s->bytes_per_s = mbit * 125000;
    else if (text)
        snprintf(s->mistake, sizeof s->mistake,
                 "TERN_NETWORK is '%.20s', want microseconds, a blank and megabits a second, both "
                 "from 1 to %d",
                 text, MOST);
}

void machine_settings_read(struct machine_settings *s)
{
    *s = (struct machine_settings){.lost_after = LOST_AFTER, .meet_within = MEET_WITHIN};
    read_seconds(s, "TERN_LOST_AFTER", &s->lost_after);
    read_seconds(s, "TERN_MEET_WITHIN", &s->meet_within);
    read_network(s);
}

#endif
