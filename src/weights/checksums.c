/* Checksums: see checksums.h. */
#include "weights/checksums.h"

#include "base/xxh64.h"
#include "weights/part.h"

enum { CHUNK = 4 << 20 }; /* bytes between two calls of progress */

struct walk { /* a walk over the mapped bytes */
    const struct weights *w;
    const unsigned char *map;
    uint64_t done, total;
    int (*progress)(void *arg, uint64_t done, uint64_t total);
    void *arg;
};

static enum tern_status check_gap(struct walk *at, uint64_t end, struct tern_error *e)
{
    for (; at->done < end; at->done++)
        if (at->map[at->done])
            return error_set(
                e, TERN_BAD_FILE,
                "%s: byte %llu, between two tensors, is not zero; the file is damaged: "
                "copy or convert it again",
                weights_path(at->w), (unsigned long long)at->done);
    return TERN_OK;
}

static enum tern_status check_tensor(struct walk *at, const struct tensor *t, struct tern_error *e)
{
    uint64_t end = t->offset + t->bytes;
    struct xxh64 h;
    xxh64_init(&h, 0);
    while (at->done < end) {
        uint64_t n = end - at->done < CHUNK ? end - at->done : CHUNK;
        xxh64_update(&h, at->map + at->done, (size_t)n);
        at->done += n;
        if (at->progress && at->progress(at->arg, at->done, at->total))
            return error_set(e, TERN_CANCELLED, "%s: the check was stopped", weights_path(at->w));
    }
    if (xxh64_digest(&h) != t->checksum)
        return error_set(e, TERN_BAD_FILE,
                         "%s: the bytes of tensor '%s' do not have the checksum that its entry "
                         "states; the file is damaged: copy or convert it again",
                         weights_path(at->w), t->name);
    return TERN_OK;
}

#ifdef TERN_MPI

static enum tern_status check_pieces(struct walk *at, const struct file_part *p,
                                     struct tern_error *e)
{
    for (const struct file_piece *x = p->pieces; x < p->pieces + p->n; x++) {
        struct tensor piece = {
            .name = "", .offset = x->offset, .bytes = x->bytes, .checksum = x->checksum};
        at->done = x->offset;
        enum tern_status s = check_tensor(at, &piece, e);
        if (s == TERN_BAD_FILE)
            return error_set(e, s,
                             "%s: the piece at byte %llu does not have the checksum that its entry "
                             "states; the part is damaged: copy it or cut it again",
                             weights_path(at->w), (unsigned long long)x->at);
        if (s)
            return s;
    }
    return TERN_OK;
}

#endif

enum tern_status checksums_verify_tensor(const struct weights *w, const struct tensor *t,
                                         int (*progress)(void *arg, uint64_t done, uint64_t total),
                                         void *arg, struct tern_error *e)
{
    struct walk at = {.w = w,
                      .map = (const unsigned char *)t->data - t->offset,
                      .done = t->offset,
                      .total = t->offset + t->bytes,
                      .progress = progress,
                      .arg = arg};
    return check_tensor(&at, t, e);
}

enum tern_status checksums_verify(const struct weights *w,
                                  int (*progress)(void *arg, uint64_t done, uint64_t total),
                                  void *arg, struct tern_error *e)
{
    struct walk at = {.w = w, .progress = progress, .arg = arg};
    const void *map;
    size_t bytes;
    weights_mapping(w, &map, &bytes);
    at.map = map;
    at.total = bytes;
#ifdef TERN_MPI
    if (weights_part(w))
        return check_pieces(&at, weights_part(w), e);
#endif
    at.done = weights_header_bytes(w); /* the header was checked when the file was opened */
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *t = weights_at(w, i);
        enum tern_status s = check_gap(&at, t->offset, e);
        if (!s)
            s = check_tensor(&at, t, e);
        if (s)
            return s;
    }
    return TERN_OK;
}
