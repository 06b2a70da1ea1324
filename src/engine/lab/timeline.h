/* The timeline: a profile that keeps each span. */
#ifndef LAB_TIMELINE_H
#define LAB_TIMELINE_H

struct tern_context;

/* Frees the timeline of a context, if it has one; before its profile. */
void timeline_close(struct tern_context *c);

#endif
