/* One head at one stage as a matrix, for those who draw it. */
#ifndef LOOK_HEAD_MAP_H
#define LOOK_HEAD_MAP_H

#include "app/look/subject.h"

struct head_map {
    const struct subject *s;
    uint64_t layer, head;
    enum tern_attention_stage stage;
    struct tern_layer_info info;
    float *values; /* [n, n] rows are queries; owned */
    size_t n;
    float most;     /* largest size of a value that is seen; 1 for weights */
    bool is_signed; /* scores; otherwise weights */
};

/* The head of --head at the stage of --stage. To be closed also after an error. */
enum tern_status head_map_open(struct head_map *m, const struct subject *s, const tern_attention *a,
                               struct tern_error *e);
void head_map_close(struct head_map *m);

/* Row i may not look at key j, and the stage hides that. */
bool head_map_hides(const struct head_map *m, size_t i, size_t j);

/* TERN_LIMIT for a picture of more tokens than one can tell apart. */
enum tern_status head_map_check_svg(size_t n, struct tern_error *e);

/* A picture for a paper, as SVG */
enum tern_status head_map_write_svg(const struct head_map *m, const char *path,
                                    struct tern_error *e);

#endif
