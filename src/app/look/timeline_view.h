/* --timeline: which thread did what when, as a trace for Perfetto and chrome://tracing, or as a page. */
#ifndef LOOK_TIMELINE_VIEW_H
#define LOOK_TIMELINE_VIEW_H

#include "app/look/subject.h"

enum tern_status timeline_view_show(struct subject *s, struct tern_error *e);

#endif
