/* A lock for what threads share and one of them changes at a time. Not recursive. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "base/error.h"

#include <stdbool.h>

struct lock;

enum tern_status lock_open(struct lock **out, struct tern_error *e);
void lock_close(struct lock *l); /* NULL is fine */
void lock_take(struct lock *l);  /* its holder may take long */
/* For a moment. False: who has it may take long, and it was not waited for. */
bool lock_take_briefly(struct lock *l);
void lock_leave(struct lock *l);

#endif
