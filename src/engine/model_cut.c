/* tern_model_cut: a model's file, cut into parts for several machines (FORMAT.md, "Parts"). */
#include "tern.h"

#ifdef TERN_MPI

#include "engine/meet.h"
#include "model/slices.h"
#include "model/split.h"
#include "weights/part.h"

enum tern_status tern_model_cut(const char *path, uint32_t n, const char *share,
                                struct tern_error *e)
{
    static struct split split;
    struct file_part like = {.n_machines = n};
    struct model *m;
    if (n < 2 || n > MOST_MACHINES)
        return error_set(e, TERN_USAGE, "%u parts were asked for, want 2 to %d", n, MOST_MACHINES);
    enum tern_status s = model_open(&m, path, e);
    if (s)
        return s;
    s = weights_part(m->weights) ? error_set(e, TERN_USAGE, "%s is a part of a model already", path)
                                 : meet_shares(&split, n, !share ? "" : *share ? share : " ", e);
    for (size_t r = 0; r < n; r++)
        like.share[r] = split.until[r + 1] - split.until[r];
    m->split = &split;
    for (split.rank = 0; split.rank < n && !s; split.rank++) {
        like.rank = split.rank;
        s = slices_find(m, e);
        if (!s)
            s = part_write(m->weights, &like, e);
    }
    model_close(m);
    return s;
}

#endif
