/* Files of /proc and /sys: see procfs.h. Formats: proc(5), cgroups(7). */
#include "base/procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool procfs_read(const char *root, const char *path, char *text, size_t n)
{
    char full[2 * PROCFS_PATH];
    size_t got = 0;

    if ((size_t)snprintf(full, sizeof full, "%s%s", root, path) >= sizeof full)
        return false;
    const int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t r = 0;
    while (got < n - 1 && (r = read(fd, text + got, n - 1 - got)) > 0)
        got += (size_t)r;
    close(fd);
    text[got] = 0;
    return r >= 0;
}

bool procfs_u64(const char **at, uint64_t *out)
{
    uint64_t v = 0;
    const char *p = *at;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
            return false;
    if (p == *at)
        return false;
    *at = p, *out = v;
    return true;
}

/* Cuts the next field off *line: up to `end`, which becomes NUL. NULL when there is none. */
static char *next_field(char **line, char end)
{
    char *field = *line;
    if (!field)
        return NULL;
    char *stop = strchr(field, end);
    *line = stop ? stop + 1 : NULL;
    if (stop)
        *stop = 0;
    return field;
}

/* True when `word` is one of the comma-separated words of a list. */
static bool list_has(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, word, n) && (!at[n] || at[n] == ','))
            return true;
    }
    return false;
}

/* Path of this process in the hierarchy of `controller`, from lines "id:controllers:path"; a v1
 * hierarchy, where one holds the controller, goes before v2's "0::path". */
static bool find_path(const char *root, const char *controller, char *path, size_t n, bool *v2)
{
    char text[8192];
    bool found = false;

    if (!procfs_read(root, "/proc/self/cgroup", text, sizeof text))
        return false;
    for (char *rest = text, *line; (line = next_field(&rest, '\n'));) {
        const char *id = next_field(&line, ':');
        const char *controllers = next_field(&line, ':');
        if (!line || strlen(line) >= n)
            continue;
        const bool is_v2 = !strcmp(id, "0") && !*controllers;
        if (!is_v2 && !list_has(controllers, controller))
            continue;
        memcpy(path, line, strlen(line) + 1);
        found = true;
        *v2 = is_v2;
        if (!is_v2)
            break;
    }
    return found;
}

/* Sets g->dir to where `path` is seen, when this line of mountinfo mounts its hierarchy:
 * "id parent device ROOT MOUNT options ... - TYPE source SUPER-OPTIONS". */
static bool match_mount(struct procfs_cgroup *g, char *line, const char *controller,
                        const char *path)
{
    char *type = strstr(line, " - ");
    if (!type)
        return false;
    type += 3;
    for (int skip = 0; skip < 3; skip++)
        (void)next_field(&line, ' ');
    const char *top = next_field(&line, ' ');
    const char *mount = next_field(&line, ' ');
    const char *kind = next_field(&type, ' ');
    (void)next_field(&type, ' ');
    if (!mount || !type || strcmp(kind, g->v2 ? "cgroup2" : "cgroup") ||
        (!g->v2 && !list_has(type, controller)))
        return false;

    /* A container may see only a part of the tree, mounted as if it were the whole. */
    const size_t top_bytes = strcmp(top, "/") ? strlen(top) : 0;
    const char *below = "";
    if (!strncmp(path, top, top_bytes) && (path[top_bytes] == '/' || !path[top_bytes]))
        below = path + top_bytes;
    if (!strcmp(below, "/") || !strncmp(below, "/..", 3))
        below = "";
    g->mount_bytes = strlen(mount);
    return (size_t)snprintf(g->dir, sizeof g->dir, "%s%s", mount, below) < sizeof g->dir;
}

bool procfs_cgroup_find(struct procfs_cgroup *g, const char *root, const char *controller)
{
    enum { MOUNTS_BYTES = 65536 }; /* too many for a small stack */
    char path[PROCFS_PATH], *text = malloc(MOUNTS_BYTES), *line;
    bool found = false;

    g->root = root;
    if (text && find_path(root, controller, path, sizeof path, &g->v2) &&
        procfs_read(root, "/proc/self/mountinfo", text, MOUNTS_BYTES))
        for (char *rest = text; !found && (line = next_field(&rest, '\n'));)
            found = match_mount(g, line, controller, path);
    free(text);
    return found;
}

bool procfs_cgroup_up(struct procfs_cgroup *g)
{
    char *slash = strrchr(g->dir, '/');
    if (!slash || (size_t)(slash - g->dir) < g->mount_bytes)
        return false;
    *slash = 0;
    return true;
}

bool procfs_cgroup_read(const struct procfs_cgroup *g, const char *file, char *text, size_t n)
{
    char path[PROCFS_PATH + 64];
    return (size_t)snprintf(path, sizeof path, "%s/%s", g->dir, file) < sizeof path &&
           procfs_read(g->root, path, text, n);
}

bool procfs_cgroup_u64(const struct procfs_cgroup *g, const char *file, uint64_t *out)
{
    char text[64];
    const char *at = text;
    return procfs_cgroup_read(g, file, text, sizeof text) && procfs_u64(&at, out);
}
