/* Small text files in which Linux states what it allows, under a root that is "" or, in tests, a
 * folder. Elsewhere they are missing, and the callers go without. procfs.c alone knows how the
 * cgroup of this process is found among mounts and hierarchies. */
#ifndef BASE_PROCFS_H
#define BASE_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROCFS_PATH = 2048 };

/* Reads root/path into text [n], NUL-terminated and cut to fit. False when it cannot be read. */
bool procfs_read(const char *root, const char *path, char *text, size_t n);

/* Reads decimal digits at *at and moves it behind them; false without a digit or beyond 2^64. */
bool procfs_u64(const char **at, uint64_t *out);

/* A control group of this process, from the innermost outwards. */
struct procfs_cgroup {
    const char *root;
    char dir[PROCFS_PATH];
    size_t mount_bytes; /* dir[0 .. mount_bytes) is the mount point, the outermost in sight */
    bool v2;
};

/* The innermost group that holds `controller` ("cpu", "memory"); false when there is none. */
bool procfs_cgroup_find(struct procfs_cgroup *g, const char *root, const char *controller);

/* Moves to the group around it; false at the outermost. */
bool procfs_cgroup_up(struct procfs_cgroup *g);

/* A file of the group: its text, or the number that it begins with ("max" is not one). */
bool procfs_cgroup_read(const struct procfs_cgroup *g, const char *file, char *text, size_t n);
bool procfs_cgroup_u64(const struct procfs_cgroup *g, const char *file, uint64_t *out);

#endif
