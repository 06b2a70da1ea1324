/* The weights file, read: see weights.h and FORMAT.md. header.c reads what is before the tensors; messages
 * there are without the path, which weights_open_kind adds. */
#include "weights/header.h"

#include "base/file.h"
#include "kernels/formats.h"
#include "weights/foreign.h"
#include "weights/part.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef unsigned long long ull; /* for printf */

/* ---- mapping, open and close ---- */

static enum tern_status map_file(struct weights *w, int fd, struct tern_error *e)
{
    void *p;
#ifdef TERN_MPI
    if (w->part)
        p = part_map(w->part, fd);
    else
#endif
        p = mmap(NULL, (size_t)w->file_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return error_set(e, errno == ENOMEM ? TERN_NO_MEMORY : TERN_IO,
                         "cannot map its %llu bytes: %s", (ull)w->file_bytes, strerror(errno));
    w->map = p;
    for (size_t i = 0; i < w->n_tensors; i++)
        w->tensors[i].data = (const char *)p + w->tensors[i].offset;
    return TERN_OK;
}

/* Everything but the path in the message. */
static enum tern_status open_parts(struct weights *w, int fd, uint64_t actual, struct tern_error *e)
{
#ifdef TERN_MPI
    enum tern_status is_part = part_open(&w->part, fd, actual, w->path, e);
    if (is_part)
        return is_part;
    actual = w->part ? w->part->whole_bytes : actual;
#endif
    enum tern_status s = header_read(w, fd, actual, e);
#ifdef TERN_MPI
    if (!s && w->part && w->part->content_id != w->content_id)
        s = header_bad(e, "its content id is not that of the model in it");
#endif
    if (!s && fstat(fd, &w->opened))
        s = error_io(e, w->path, "cannot ask for its times");
    return s ? s : map_file(w, fd, e);
}

static enum tern_status open_path(int *fd, uint64_t *bytes, const char *path, uint64_t kind,
                                  struct tern_error *e)
{
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (kind == LAYOUT_KIND_MODEL && there && S_ISDIR(st.st_mode))
        return foreign_folder(path, e);
    if (kind == LAYOUT_KIND_MODEL && !there && errno == ENOENT && foreign_missing(path, e))
        return TERN_IO;
    return file_open(fd, bytes, path, e);
}

enum tern_status weights_open_kind(struct weights **out, const char *path, uint64_t kind,
                                   struct tern_error *e)
{
    struct tern_error mine;
    uint64_t actual;
    int fd = -1;
    *out = NULL;
    e = e ? e : &mine;
#ifdef TERN_MPI
    char name[4096];
    if (kind == LAYOUT_KIND_MODEL && part_find(&path, name, sizeof name, path, e))
        return TERN_IO;
#endif
    enum tern_status s = open_path(&fd, &actual, path, kind, e);
    if (s)
        return s;
    struct weights *w = calloc(1, sizeof *w);
    if (w)
        w->path = malloc(strlen(path) + 1);
    if (!w || !w->path) {
        s = error_memory(e, "the weights file", sizeof *w);
    } else {
        memcpy(w->path, path, strlen(path) + 1);
        w->kind = kind;
        s = open_parts(w, fd, actual, e);
        if (s && strncmp(e->text, path, strlen(path))) /* base/file.h says it itself */
            error_in(e, s, path);
    }
    file_close(fd);
    if (s)
        weights_close(w);
    else
        *out = w;
    return s;
}

void weights_close(struct weights *w)
{
    if (!w)
        return;
    if (w->map)
        munmap(w->map, (size_t)w->file_bytes);
    keys_close(&w->config);
#ifdef TERN_MPI
    free(w->slices.list);
    part_close(w->part);
#endif
    free(w->names);
    free(w->bound);
    free(w->by_name);
    free(w->tensors);
    free(w->header);
    free(w->path);
    free(w);
}

/* ---- getters ---- */

const char *weights_path(const struct weights *w)
{
    return w->path;
}

struct keys *weights_config(struct weights *w)
{
    return &w->config;
}

const void *weights_section(const struct weights *w, const char *tag, size_t *bytes)
{
    for (size_t i = 0; i < w->n_sections; i++)
        if (!strcmp(w->sections[i].tag, tag)) {
            *bytes = w->sections[i].bytes;
            return w->sections[i].data;
        }
    return NULL;
}

size_t weights_n_sections(const struct weights *w)
{
    return w->n_sections;
}

const struct section *weights_section_at(const struct weights *w, size_t i)
{
    return &w->sections[i];
}

size_t weights_count(const struct weights *w)
{
    return w->n_tensors;
}

const struct tensor *weights_at(const struct weights *w, size_t i)
{
    return &w->tensors[i];
}

const struct tensor *weights_find(const struct weights *w, const char *name)
{
    struct tensor key = {.name = name};
    const struct tensor *p = &key;
    const struct tensor **found =
        bsearch(&p, w->by_name, w->n_tensors, sizeof *w->by_name, header_compare_names);
    return found ? *found : NULL;
}

uint64_t weights_content_id(const struct weights *w)
{
    return w->content_id;
}

uint64_t weights_header_bytes(const struct weights *w)
{
    return w->header_bytes;
}

uint64_t weights_file_bytes(const struct weights *w)
{
    return w->file_bytes;
}

enum tern_status weights_unchanged(const struct weights *w, int fd, struct tern_error *e)
{
    const struct stat *a = &w->opened;
    struct stat b;
    if (fstat(fd, &b))
        return error_io(e, w->path, "cannot ask for its times");
    if (a->st_dev != b.st_dev || a->st_ino != b.st_ino || a->st_size != b.st_size ||
        a->st_mtim.tv_sec != b.st_mtim.tv_sec || a->st_mtim.tv_nsec != b.st_mtim.tv_nsec)
        return error_set(e, TERN_IO, "%s: it was changed while it was opened", w->path);
    return TERN_OK;
}

void weights_mapping(const struct weights *w, const void **start, size_t *bytes)
{
    *start = w->map;
    *bytes = (size_t)w->file_bytes;
}

/* ---- several machines ---- */

#ifdef TERN_MPI

enum tern_status weights_take_slices(struct weights *w, struct slices s, struct tern_error *e)
{
    char shares[MOST_SHARES];
    free(w->slices.list);
    w->slices = s;
    for (size_t i = 0; i < s.n && w->part; i++) {
        if (part_holds(w->part, s.list[i].begin, s.list[i].end))
            continue;
        part_shares(w->part, shares, sizeof shares);
        return error_set(e, TERN_BAD_FILE,
                         "%s: it was cut for the shares %s or by another version of tern: use "
                         "these shares (--share), or cut the model again (tools/split.py)",
                         w->path, shares);
    }
    return TERN_OK;
}

const struct file_part *weights_part(const struct weights *w)
{
    return w->part;
}

uint64_t weights_place(const struct weights *w, uint64_t offset)
{
    return w->part ? part_place(w->part, offset) : offset;
}

const struct slices *weights_slices(const struct weights *w)
{
    return &w->slices;
}

uint64_t weights_own_bytes(const struct weights *w)
{
    uint64_t bytes = w->slices.n ? 0 : w->file_bytes;
    for (const struct slice *s = w->slices.list; s && s < w->slices.list + w->slices.n; s++)
        bytes += s->end - s->begin; /* all of an embedding, of which rows are read */
    return bytes;
}

#endif

/* ---- binding ---- */

static const char *shape_text(char *out, size_t size, uint64_t matrices, uint64_t rows, uint64_t k)
{
    if (matrices == 1)
        snprintf(out, size, "[%llu, %llu]", (ull)rows, (ull)k);
    else
        snprintf(out, size, "[%llu, %llu, %llu]", (ull)matrices, (ull)rows, (ull)k);
    return out;
}

static void types_text(char *out, size_t size, unsigned mask)
{
    size_t n = 0;
    out[0] = 0;
    for (unsigned type = 0; type < N_TYPES && n < size; type++)
        if (mask >> type & 1)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " or " : "",
                                  format_find(type)->name);
}

enum tern_status weights_bind(struct weights *w, const char *name, unsigned type_mask,
                              uint64_t rows, uint64_t k, uint64_t matrices,
                              const struct tensor **out, struct tern_error *e)
{
    const struct tensor *t = weights_find(w, name);
    char want[80], found[80], types[64];
    shape_text(want, sizeof want, matrices, rows, k);
    if (!t)
        return error_set(e, TERN_BAD_FILE, "%s: tensor '%s' %s is missing", w->path, name, want);
    shape_text(found, sizeof found, t->matrices, t->rows, t->k);
    types_text(types, sizeof types, type_mask);
    if (t->rows != rows || t->k != k || t->matrices != matrices)
        return error_set(e, TERN_BAD_FILE, "%s: tensor '%s' is %s, the config wants %s", w->path,
                         name, found, want);
    if (!(type_mask >> t->type & 1))
        return error_set(e, TERN_BAD_FILE, "%s: tensor '%s' is %s, want %s", w->path, name,
                         format_find(t->type)->name, types);
    w->bound[t - w->tensors] = true;
    *out = t;
    return TERN_OK;
}

enum tern_status weights_all_bound(const struct weights *w, struct tern_error *e)
{
    for (size_t i = 0; i < w->n_tensors; i++)
        if (!w->bound[i])
            return error_set(e, TERN_BAD_FILE,
                             "%s: tensor '%s' belongs to nothing that the config describes",
                             w->path, w->tensors[i].name);
    return TERN_OK;
}
