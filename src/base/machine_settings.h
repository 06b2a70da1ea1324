/* What the environment says of several machines. In: TERN_LOST_AFTER="SECONDS", TERN_MEET_WITHIN="SECONDS",
 * TERN_NETWORK="MICROSECONDS MEGABITS"; out: numbers, or a sentence about the one that is none. Built with
 * MPI=1 only. */
#ifndef BASE_MACHINE_SETTINGS_H
#define BASE_MACHINE_SETTINGS_H

#include <stdint.h>

struct machine_settings {
    uint64_t lost_after;  /* seconds of silence, after which a process is lost; 0: never */
    uint64_t meet_within; /* seconds that all have to meet; 0: for ever */
    uint64_t latency_ns, bytes_per_s; /* of a slower network, played; or 0 */
    char mistake[160];                /* or "" */
};

void machine_settings_read(struct machine_settings *s);

#endif
