/* --surprise: a text coloured by how little the model expected each of its tokens. */
#ifndef LOOK_SURPRISE_H
#define LOOK_SURPRISE_H

#include "app/look/subject.h"

enum tern_status surprise_show(struct subject *s, struct tern_error *e);

#endif
