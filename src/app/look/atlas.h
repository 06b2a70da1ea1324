/* The default job: attention as a matrix, in the terminal, as a picture (.svg) or as a page (.html).
 */
#ifndef LOOK_ATLAS_H
#define LOOK_ATLAS_H

#include "app/look/subject.h"

enum tern_status atlas_show(struct subject *s, struct tern_error *e);

/* TERN_NO_MEMORY unless what tern_attention keeps fits beside model and cache; says how much when it
 * is much. */
enum tern_status atlas_check_memory(const struct subject *s, const struct tern_attention_params *p,
                                    struct tern_error *e);

/* The chosen layers' recorder, fed while the subject runs: memory is checked and stated first. The
 * caller closes it before the subject. */
enum tern_status atlas_record(struct subject *s, tern_attention **a, struct tern_error *e);

#endif
