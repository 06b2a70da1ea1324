/* The atlas: a page with every head in little, and chosen heads whole. */
#ifndef LOOK_ATLAS_PAGE_H
#define LOOK_ATLAS_PAGE_H

#include "app/look/subject.h"

/* TERN_LIMIT, with the size and how to narrow it, for a page that would be too large. Ask before
 * the model runs. */
enum tern_status atlas_page_check(const struct subject *s, struct tern_error *e);

enum tern_status atlas_page_write(const struct subject *s, const tern_attention *a,
                                  const char *path, struct tern_error *e);

#endif
