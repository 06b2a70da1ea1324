/* What surgery did, as a page: the next token before and after, the texts, and what was changed. */
#ifndef LOOK_BEFORE_AFTER_PAGE_H
#define LOOK_BEFORE_AFTER_PAGE_H

#include "app/look/before_after.h"

enum tern_status before_after_page_write(const struct outcome *before, const struct outcome *after,
                                         const struct edits *edits, const char *path,
                                         struct tern_error *e);

#endif
