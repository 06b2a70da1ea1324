/* Surgery: what --ablate, --patch and --steer change while the model runs. */
#ifndef LOOK_EDITS_H
#define LOOK_EDITS_H

#include "app/look/control_vector.h"
#include "app/look/subject.h"

struct edit {
    uint64_t layer;
    const char *operation; /* of tern_edit */
    uint32_t first, last;  /* positions */
    uint64_t expert;       /* of operation expert: which one */
    size_t from, n;        /* columns from .. from + n - 1 */
    bool is_added;         /* otherwise the values replace what is there */
    bool has_rows;         /* values [last - first + 1, n], else [n] for all positions */
    float *values;         /* owned */
};

struct edits {
    struct edit *list; /* [n] in the order of the options; owned */
    size_t n, room;
    struct control_vector direction; /* of --steer, without --steer-by; owned */
};

/* One of the options is given. */
bool edits_are_wanted(const struct look_options *o);

/* Everything that the options say. It runs the model over --mean-over, --from and the texts of
 * --steer-from and --steer-to. To be closed also after an error. */
enum tern_status edits_open(struct edits *x, struct subject *s, struct tern_error *e);
void edits_close(struct edits *x);

/* An edit of all positions with room for its values, all 0; NULL: no memory. Valid until the next
 * call. */
struct edit *edits_add(struct edits *x, uint64_t layer, const char *operation, size_t from,
                       size_t n);

/* It is about what o shows. */
bool edits_is_about(const struct edit *x, const struct tern_observation *o);

/* A hash of all edits, going on from `hash`: equal edits, equal hash. */
uint64_t edits_hash(const struct edits *x, uint64_t hash);

/* A tern_edit_fn, with a struct edits. */
int edits_apply(void *edits, const struct tern_observation *o, float *values);

#endif
